"""``mhaviz.diff_models``: difference of the attention of two models over many sentences."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mhaviz.analyses.corpus_difference import DifferenceStudy, require_same_attentions
from mhaviz.analyses.difference import compare, joined_source
from mhaviz.api.examples import attentions_of, watched
from mhaviz.api.loaded import LoadedModel, load
from mhaviz.attention.model import CorpusModel
from mhaviz.corpus.corpus import Corpus, Texts
from mhaviz.errors import ArgumentError
from mhaviz.inputs.tokens import Kind, Sentence
from mhaviz.models.load import Notice
from mhaviz.numbering import Numbers
from mhaviz.results.corpus_difference import CorpusDifference
from mhaviz.results.difference import require_limit
from mhaviz.results.result import Source


def diff_models(
    before: LoadedModel | str | Path,
    after: LoadedModel | str | Path,
    texts: Texts,
    *,
    layer: Numbers = None,
    kind: Kind | None = None,
    fail_above: float | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    examples: int = 0,
    on_notice: Notice = lambda notice: None,
    on_progress: Callable[[float, int], None] = lambda done, sentences: None,
) -> CorpusDifference:
    """Compute how much the weights of each head differ between two models, averaged over texts.

    Rows of weights are compared by their Jensen–Shannon divergence, from 0 to 1 bit. Both models must split each text
    into the same tokens, and have the same attentions and numbers of heads. If they are encoders with decoders, both
    decoders read what the first model writes.

    Args:
        before, after: models from ``mhaviz.load``, or names, files and folders that it takes.
        texts: one sentence; an iterable of sentences, which need not fit into memory; or a ``Corpus``.
        layer, kind: the attentions that are compared; None: all.
        fail_above: largest divergence of a head that is allowed, in bits; ``ranking`` says which are above.
        source_language, target_language: as in ``LoadedModel.attend``.
        examples: number of texts whose weights are kept for a page for the browser: the first ones of at most 512
            tokens, and fewer if the page would be too large.
        on_notice: called with one line for texts that were left out.
        on_progress: called with the share of the work that is done, from 0 to 1, and the number of texts so far.

    Raises:
        ArgumentError: a model has no such attention, or cannot read many texts; there is no text; the limit is invalid.
        MhavizError: the models differ in their attentions, or in the tokens of a text; they can read none of the texts;
            a saved part belongs to another computation, or a text has changed since.

    Examples:
        >>> found = mhaviz.diff_models("minilm", "minilm", ["The cat sat on the mat.", "A dog barks."])
        >>> float(found.kinds[0].divergence.mean.max())
        0.0
    """
    require_limit(fail_above)

    def reading(name: str, one: LoadedModel | str | Path) -> CorpusModel:
        loaded = one if isinstance(one, LoadedModel) else load(one, on_notice=on_notice)
        try:
            return loaded.corpus_model(layer, kind).speaking(source_language, target_language)
        except ArgumentError as error:
            raise ArgumentError(f"{name}: {error}") from error

    first, second = reading("A", before), reading("B", after)
    require_same_attentions(first, second)
    source = source_of(first.describe(), second.describe())
    corpus, shown = Corpus.of(texts), list[Sentence]()
    is_first = not corpus.is_shared or corpus.own_shard.number == 1
    corpus = replace(corpus, texts=watched(corpus.sentences, first, examples * is_first, shown))
    found: CorpusDifference = corpus.read(DifferenceStudy(), [first, second], source, on_notice, on_progress)
    sides = attentions_of([first, second], shown, on_notice)
    return replace(found, fail_above=fail_above, examples=compare(sides[0], sides[1]) if sides else None)


def source_of(first: Source, second: Source) -> Source:
    """Return the source of a difference of two models. Models with equal footnotes are named as they were loaded."""
    names = [str(source.details.get("model", "")) for source in (first, second)]
    if first.footnote == second.footnote and names[0] != names[1]:
        first, second = (
            replace(source, footnote=f"{name}: {source.footnote.partition(': ')[2] or source.footnote}")
            for name, source in zip(names, (first, second), strict=True)
        )
    return joined_source(first, second)

"""``mhaviz.diff_models``: how the attention of two models differs over many sentences."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mhaviz.analyses.corpus_difference import DifferenceStudy, require_same_attentions
from mhaviz.analyses.difference import compare, joined_source
from mhaviz.api.examples import attentions_of, watched
from mhaviz.api.loaded import LoadedModel, load
from mhaviz.corpus.corpus import Corpus, Texts
from mhaviz.inputs.tokens import Kind, Sentence
from mhaviz.models.load import Notice
from mhaviz.numbering import Numbers
from mhaviz.results.corpus_difference import CorpusDifference
from mhaviz.results.difference import Limits
from mhaviz.results.result import Source


def diff_models(
    before: LoadedModel | str | Path,
    after: LoadedModel | str | Path,
    texts: Texts,
    *,
    layer: Numbers = None,
    kind: Kind | None = None,
    fail_above: float | None = None,
    fail_above_row: float | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    examples: int = 0,
    on_notice: Notice = lambda notice: None,
    on_progress: Callable[[float, int], None] = lambda done, sentences: None,
) -> CorpusDifference:
    """How far two models are apart in each head, over these texts, which may be more than memory holds.

    Both must make the same tokens of every text, and have the same attentions with as many heads. Of an encoder with a
    decoder, both decoders read what the first model writes.

    Args:
        before, after: what ``mhaviz.load`` returns, or takes.
        texts: a sentence, or several, one after the other; or a ``Corpus``.
        layer, kind: the attentions that are compared; None: all.
        fail_above, fail_above_row: the largest mean of a head, and the largest row, that are allowed, in bits; they
            become the result's ``limits``, and what is ``above`` them is told.
        source_language, target_language: as in ``LoadedModel.head_statistics``.
        examples: so many sentences, the first that a page for the browser has room for, are shown in it.
        on_notice: is told of texts that were left out.
        on_progress: is called with how much is done, from 0 to 1, and how many texts that are.

    Raises:
        ArgumentError: a model that has no such attention, or cannot read many texts; no text; limits that cannot be.
        MhavizError: the models have other attentions, or make other tokens of a text; they can read none of
            them; a part that is of something else; a text that has changed.

    Examples:
        >>> found = mhaviz.diff_models("minilm", "minilm", ["The cat sat on the mat.", "A dog barks."])
        >>> float(found.kinds[0].divergence.mean.max())
        0.0
    """
    limits = Limits(fail_above, fail_above_row)
    first, second = (
        (one if isinstance(one, LoadedModel) else load(one, on_notice=on_notice))
        .corpus_model(layer, kind)
        .speaking(source_language, target_language)
        for one in (before, after)
    )
    require_same_attentions(first, second)
    source = source_of(first.describe(), second.describe())
    corpus, shown = Corpus.of(texts), list[Sentence]()
    is_first = not corpus.is_shared or corpus.own_shard.number == 1
    corpus = replace(corpus, texts=watched(corpus.sentences, first, examples * is_first, shown))
    found: CorpusDifference = corpus.read(DifferenceStudy(), [first, second], source, on_notice, on_progress)
    sides = attentions_of([first, second], shown, on_notice)
    return replace(found, limits=limits, examples=compare(sides[0], sides[1]) if sides else None)


def source_of(first: Source, second: Source) -> Source:
    """Where the difference of two models comes from; models of one name are called as they were loaded."""
    names = [str(source.details.get("model", "")) for source in (first, second)]
    if first.footnote == second.footnote and names[0] != names[1]:
        first, second = (
            replace(source, footnote=f"{name}: {source.footnote.partition(': ')[2] or source.footnote}")
            for name, source in zip(names, (first, second), strict=True)
        )
    return joined_source(first, second)

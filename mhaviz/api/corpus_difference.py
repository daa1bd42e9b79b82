"""``mhaviz.diff_models``: how the attention of two models differs over many sentences."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from mhaviz.analyses.corpus_difference import DifferenceStudy, add_batch, require_alike
from mhaviz.analyses.difference import joined_source
from mhaviz.api.corpora import CorpusRun, sentences_of
from mhaviz.api.division import Division
from mhaviz.api.left_out import tell_left_out
from mhaviz.api.loaded import LoadedModel, load
from mhaviz.api.parts import result_of
from mhaviz.attention.model import CorpusModel, Inputs
from mhaviz.errors import MhavizError
from mhaviz.models.corpus_batches import CorpusBatch, Sentence
from mhaviz.models.load import Notice
from mhaviz.numbering import Numbers
from mhaviz.records.corpus_difference import CorpusDifference
from mhaviz.records.difference import Limits
from mhaviz.records.source import Source
from mhaviz.records.tokens import Kind, Tokens

_SAMPLE = "The cat sat on the mat."
"""Tokenizers that make the same of it are taken for one."""


def diff_models(
    before: LoadedModel | str | Path,
    after: LoadedModel | str | Path,
    texts: str | Iterable[str | Sentence],
    *,
    layer: Numbers = None,
    kind: Kind | None = None,
    fail_above: float | None = None,
    fail_above_row: float | None = None,
    overlap: int | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    shard: tuple[int, int] | None = None,
    part: str | Path | None = None,
    resume: bool = False,
    distributed: bool = False,
    part_at_end: bool = True,
    on_notice: Notice = lambda notice: None,
    on_progress: Callable[[float, int], None] = lambda done, sentences: None,
) -> CorpusDifference:
    """How far two models are apart in each head, over these texts, which may be more than memory holds.

    Both must make the same tokens of every text, and have the same attentions with as many heads. Of an encoder with a
    decoder, both decoders read what the first model writes.

    Args:
        before, after: what ``mhaviz.load`` returns, or takes.
        texts: a sentence, or several, one after the other.
        layer, kind: the attentions that are compared; None: all.
        fail_above, fail_above_row: the largest mean of a head, and the largest row, that are allowed, in bits; they
            become the record's ``limits``, and what is ``above`` them is told.
        overlap, source_language, target_language: as in ``LoadedModel.head_statistics``.
        shard, part, resume, distributed, part_at_end: read a part of the corpus, keep what is added up, go on from it,
            share the corpus among processes; see ``Division``. ``mhaviz.merge`` joins parts.
        on_notice: is told of texts that were left out.
        on_progress: is called with how much is done, from 0 to 1, and how many texts that are.

    Raises:
        ArgumentError: a model that has no such attention, or cannot read many texts; no text; limits that cannot be.
        MhavizError: the models have other attentions, or make other tokens of a text; they can read none of
            them; a part that is of something else; a text that has changed.
    """
    limits = Limits(fail_above, fail_above_row)
    first, second = (
        (one if isinstance(one, LoadedModel) else load(one, on_notice=on_notice))
        .corpus_model(layer, kind)
        .speaking(source_language, target_language)
        for one in (before, after)
    )
    _require_comparable(first, second)
    study = DifferenceStudy()

    def count(batch: CorpusBatch) -> None:
        add_batch(study, first, second, same_inputs(first, second, batch), batch.numbers)

    options = {
        "kind": first.kind,
        "layers": None if first.layers is None else sorted(first.layers),
        "overlap": overlap,
        "languages": first.spoken,
    }
    source = source_of(first.describe(), second.describe())
    run = CorpusRun("diff", study, [first, second], count, options, source, overlap)
    division = Division(shard, part, resume, distributed, part_at_end)
    found = run.over(sentences_of(texts), division, on_notice, on_progress)
    tell_left_out("diff_models", found.behind, run.max_length, on_notice, overlap, found.shard)
    difference: CorpusDifference = result_of(found)
    return replace(difference, limits=limits)


def same_inputs(first: CorpusModel, second: CorpusModel, batch: CorpusBatch) -> Inputs:
    """What the first model reads for a batch. Raises MhavizError unless the second makes the same tokens of it."""
    inputs = first.encode_unnamed(batch.texts, batch.pieces)
    whole = [row for row, text in enumerate(inputs.texts) if text.piece is None]  # pieces are the same, or no pieces
    others = second.read_unnamed([batch.texts[row] for row in whole])
    for row, other in zip(whole, others, strict=True):
        text, number, one = batch.texts[row], batch.numbers[row], inputs.texts[row].source
        _require_same_tokens(one, other, f"sentence {number}, {text!r:.40}")
    return inputs


def _require_comparable(first: CorpusModel, second: CorpusModel) -> None:
    """Raise MhavizError unless both have the same attentions: by their tokens, where those differ as well.

    Models of two tokenizers may make the same of the user's texts, and are compared; who has other models, however,
    should hear first of what no choice of layers mends.
    """
    try:
        require_alike(first, second)
    except MhavizError:
        one, other = _sample_of(first), _sample_of(second)
        if one and other:
            _require_same_tokens(one, other, repr(_SAMPLE))
        raise


def _sample_of(model: CorpusModel) -> Tokens | None:
    """What it makes of the sample; None if its tokenizer knows nothing of what is not in its vocabulary."""
    try:
        (tokens,) = model.read_unnamed([_SAMPLE])
    except MhavizError:
        return None
    return tokens


def _require_same_tokens(one: Tokens, other: Tokens, where: str) -> None:
    """Raise MhavizError unless the tokens that two models make of a text are the same; ``where``: names it."""
    if (one.ids, one.special) == (other.ids, other.special):
        return
    if len(one) != len(other):
        differing = f"{where} has {len(one):,} tokens in the first and {len(other):,} in the second"
    else:
        differing = f"{where}: {_first_difference(one.ids, other.ids)}"
    raise MhavizError(f"expected the same tokens in both models, but {differing}; compare models of one tokenizer")


def _first_difference(ids: Sequence[int], others: Sequence[int]) -> str:
    for place, (one, other) in enumerate(zip(ids, others, strict=True)):
        if one != other:
            return f"token {place} has number {one:,} in the first and {other:,} in the second"
    return "other tokens are special in the second"


def source_of(first: Source, second: Source) -> Source:
    """Where the difference of two models comes from; models of one name are called as they were loaded."""
    names = [str(source.details.get("model", "")) for source in (first, second)]
    if first.footnote == second.footnote and names[0] != names[1]:
        first, second = (
            replace(source, footnote=f"{name}: {source.footnote.partition(': ')[2] or source.footnote}")
            for name, source in zip(names, (first, second), strict=True)
        )
    return joined_source(first, second)

"""Study of pairs of words: where they are in their texts, and the texts in batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from mhaviz.analyses.head_pairs import PairStudy, PlacedPair
from mhaviz.attention.model import CorpusModel
from mhaviz.corpus.batches import CorpusBatches
from mhaviz.corpus.corpus import tell_left_out
from mhaviz.errors import ArgumentError, parameter
from mhaviz.files.json_lines import of_a_file
from mhaviz.files.pairs import read_pairs
from mhaviz.inputs.given import Given
from mhaviz.inputs.pairs import WordPair, word_pairs
from mhaviz.inputs.tokens import Kind, Sentence, Text
from mhaviz.models.load import Notice
from mhaviz.results.head_pairs import HeadPairs

Pairs = str | Path | Iterable[WordPair | tuple[str, str | int, str | int]]
"""A file of pairs of words, or the pairs, each as (text, query, key)."""


def pairs_of(
    model: CorpusModel, given: Pairs, on_notice: Notice, on_progress: Callable[[float, int], None]
) -> HeadPairs:
    """Run ``LoadedModel.head_pairs`` for all attentions to which ``model`` is restricted."""
    is_file = isinstance(given, (str, Path))
    pairs = read_pairs(Path(given)) if isinstance(given, (str, Path)) else word_pairs(given, parameter("pairs"))
    with of_a_file() if is_file else nullcontext():
        texts = _read(model, pairs)
    model, kinds = _within_texts(model, texts)
    with of_a_file() if is_file else nullcontext():
        placed = {number: PlacedPair.of(pairs[number], text.source, kinds) for number, text in texts.items()}
    sentences = (Sentence(pair.text, number / len(pairs)) for number, pair in enumerate(pairs, 1))
    batches, study = CorpusBatches(sentences, model.lengths, model.max_length), PairStudy()
    for batch in batches:
        study.add(model, model.encode_unnamed(batch.texts), [placed[i] for i in batch.numbers], batch.numbers)
        on_progress(batch.done, batches.progress.taken)
    tell_left_out(batches.progress, model.max_length, on_notice)
    return study.result(model.describe(), batches.progress.too_long)


def _read(model: CorpusModel, pairs: Sequence[WordPair]) -> dict[int, Text]:
    """Return the tokens of the texts of pairs, by their indices, but for texts that are too long.

    Raises:
        ArgumentError: a text without tokens.
    """
    texts, most = dict[int, Text](), model.max_length
    lengths = model.lengths([pair.text for pair in pairs])
    for number, (pair, length) in enumerate(zip(pairs, lengths, strict=True)):
        if length < 1:
            raise ArgumentError(f"{pair.where}: text: the model's tokenizer finds no token of it; give another")
        if most is None or length <= most:
            (texts[number],) = model.read(Given((pair.text,))).texts
    return texts


def _within_texts(model: CorpusModel, texts: Mapping[int, Text]) -> tuple[CorpusModel, list[Kind]]:
    """Return the model, restricted to attention whose queries and keys are both words of a text, and its kinds.

    Raises:
        ArgumentError: there is none.
    """
    kinds = list(dict.fromkeys(site.kind for site in model.sites()))
    text = next(iter(texts.values()), None)
    within = [kind for kind in kinds if text is None or all(side is text.source for side in text.sides(kind))]
    if not within:
        raise ArgumentError(
            f"{parameter('kind')}: expected attention within a text, as both words of a pair are of one, got "
            f"{' and '.join(kinds)}"
        )
    return model.select(model.layers, within[0]) if len(within) == 1 else model, within

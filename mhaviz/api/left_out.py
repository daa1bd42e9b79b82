"""What is said of sentences of a corpus that are not read as they are: cut into pieces, or left out."""

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.models.load import Notice
from mhaviz.records.corpus_part import Behind, Shard


def tell_left_out(
    study: str,
    behind: Behind,
    most: int | None,
    on_notice: Notice,
    overlap: int | None = None,
    shard: Shard | None = None,
) -> None:
    """Say which sentences were left out or cut.

    Args:
        study: what an error calls it.
        behind: what has been read.
        most: the most tokens that the model reads at once; None: any number.
        on_notice: is told, a line each.
        overlap: what pieces share; see ``CorpusModel.cut``.
        shard: what has been read of the corpus; None: all.

    Raises:
        ArgumentError: there is no sentence in the corpus.
        MhavizError: none could be read, and none can have been in another shard.
    """
    left_out = _left_out(behind, most)
    if not behind.read:
        raise ArgumentError(f"{study}: expected at least one sentence, got none")
    if not behind.taken and (shard is None or shard.is_whole):
        raise MhavizError(f"expected a sentence that the model can read: {'; '.join(left_out)}")
    for notice in (*left_out, *_cut_up(behind, most, overlap)):
        on_notice(notice)


def _left_out(behind: Behind, most: int | None) -> list[str]:
    """Of sentences that are in no batch."""
    said = []
    if behind.too_long:
        why = f"expected at most {most:,} tokens, got up to {behind.longest:,}"
        said.append(f"{_sentences_were(behind.too_long)} left out: {why}")
    if behind.empty:
        said.append(f"{_sentences_were(behind.empty)} left out: the model's tokenizer finds no token")
    return said


def _cut_up(behind: Behind, most: int | None, overlap: int | None) -> list[str]:
    """Of sentences that were cut into pieces."""
    if not behind.cut:
        return []
    shared = "a quarter of that" if overlap is None else f"{overlap:,}"
    return [
        f"{_sentences_were(behind.cut)} cut into pieces of {most:,} tokens that overlap by {shared}, as up to "
        f"{behind.longest:,} tokens are more than the model reads at once; each query counts once"
    ]


def _sentences_were(number: int) -> str:
    return f"{number:,} {'sentence was' if number == 1 else 'sentences were'}"

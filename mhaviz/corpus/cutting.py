"""Texts that are too long for a model, cut into pieces that overlap, so that every token is read with some context."""

from mhaviz.errors import ArgumentError, counted
from mhaviz.inputs.tokens import Piece, Text, Tokens


def cut(tokens: Tokens, most: int, overlap: int | None = None, is_masked: bool = False) -> list[Text]:
    """The pieces of a text, each between the special tokens that begin and end the whole.

    Every token of the text counts as a query in one piece, and special tokens at its ends once. Where two pieces
    overlap, that is the piece in which the token has more context: the first where only earlier tokens are seen, else
    the nearer one. The last piece is as long as the others, so that it overlaps more.

    Args:
        tokens: of the whole text, special ones included.
        most: the most tokens of a piece.
        overlap: the tokens that two pieces share; None: a quarter of ``most``, or as many as leave a piece one of its
            own.
        is_masked: whether a query sees earlier keys alone.

    Raises:
        ArgumentError: an overlap that leaves a piece no token of its own.
    """
    special = set(tokens.special)
    before = next((i for i in range(len(tokens)) if i not in special), len(tokens))
    after = next((i for i in range(len(tokens)) if len(tokens) - 1 - i not in special), 0)
    length, room = len(tokens) - before - after, most - before - after
    if length <= room:
        return [Text(tokens)]
    if overlap is None:
        overlap = max(min(most // 4, room - 1), 0)
    if not 0 <= overlap < room:
        raise ArgumentError(
            f"`overlap`: expected from 0 to {room - 1:,} tokens, as a piece has {room:,}, got {counted(overlap)}"
        )
    starts = [*range(0, length - room, room - overlap), length - room]
    shared = zip(starts[1:], (start + room for start in starts), strict=False)
    ends = [end if is_masked else (start + end + 1) // 2 for start, end in shared]
    pieces = []
    for start, first, last in zip(starts, [0, *ends], [*ends, None], strict=True):
        source = tokens[:before] + tokens[before + start : before + start + room] + tokens[len(tokens) - after :]
        begin = 0 if start == 0 else before + first - start
        end = len(source) if last is None else before + last - start
        pieces.append(Text(source, piece=Piece(begin, end, start, len(starts))))
    return pieces

"""Parses lists of numbers on the command line: heads, layers, lengths."""

from collections.abc import Sequence

from mhaviz.errors import ArgumentError, counted, quoted
from mhaviz.units import parse_whole


def parse_heads(text: str, n_heads: int) -> tuple[int, ...]:
    """ "0,3-5" → (0, 3, 4, 5); "all" → all of them.

    Raises:
        ArgumentError: it cannot be read, or there is no such head.
    """
    return parse_numbers("head", text, range(n_heads), "the layer")


def parse_head(text: str, n_heads: int, expected: str) -> int:
    """The same of one head. ``expected``: what an error says is expected."""
    heads = parse_heads(text, n_heads)
    if len(heads) != 1:
        raise ArgumentError(f"--head: {expected}, got {len(heads)}; name one of them")
    return heads[0]


def parse_numbers(what: str, text: str, there: Sequence[int], owner: str) -> tuple[int, ...]:
    """The same of any numbered things; ``owner``: of what they are."""
    from mhaviz.api.choosing import listed_numbers

    if text.strip().lower() == "all":
        return tuple(there)
    numbers: list[int] = []
    for low, high in parse_ranges(what, text):
        missing = next((number for number in (high, *range(low, min(high, max(there)))) if number not in there), None)
        if missing is not None:
            raise ArgumentError(
                f"--{what}: there is no {what} {counted(missing)}; {owner} has {listed_numbers(what, there)}"
            )
        numbers += range(low, high + 1)
    return tuple(dict.fromkeys(numbers))


def parse_ranges(what: str, text: str) -> list[tuple[int, int]]:
    """ "0,3-5" → [(0, 0), (3, 5)]. Raises ArgumentError if it cannot be read."""
    ranges = []
    for part in text.split(","):
        first, dash, last = (number.strip() for number in part.partition("-"))
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            several = f"{what.removesuffix('s')}s"
            raise ArgumentError(f"--{what}: expected {several} such as 0, 3-5 or all, got {quoted(text)}")
        low, high = parse_whole(first), parse_whole(last or first)
        if low > high:
            raise ArgumentError(f"--{what}: expected a range that goes up, got {quoted(part.strip())}")
        ranges.append((low, high))
    return ranges


def parse_lengths(text: str) -> tuple[int, ...]:
    """ "16,64,256" → (16, 64, 256). Raises ArgumentError if it cannot be read."""
    lengths = []
    for part in map(str.strip, text.split(",")):
        if not part.removeprefix("-").isdecimal():
            raise ArgumentError(f"--lengths: expected numbers of tokens such as 16,64,256, got {quoted(text)}")
        lengths.append(parse_whole(part))
    return tuple(lengths)

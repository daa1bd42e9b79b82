"""Parses lists of numbers on the command line: heads, layers, lengths."""

from mhaviz.errors import ArgumentError, counted, quoted
from mhaviz.units import parse_whole

_LARGEST = 9_999
"""No model has so many heads, no batch so many examples that anybody draws."""


def parse_numbers(what: str, text: str) -> tuple[int, ...] | None:
    """ "0,3-5" → (0, 3, 4, 5); "all" → None. Raises ArgumentError if it cannot be read."""
    if text.strip().lower() == "all":
        return None
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = (number.strip() for number in part.partition("-"))
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            several = f"{what.removesuffix('s')}s"
            raise ArgumentError(f"--{what}: expected {several} such as 0, 3-5 or all, got {quoted(text)}")
        low, high = parse_whole(first), parse_whole(last or first)
        if low > high:
            raise ArgumentError(f"--{what}: expected a range that goes up, got {quoted(part.strip())}")
        if high > _LARGEST:
            raise ArgumentError(f"--{what}: expected numbers up to {_LARGEST:,}, got {counted(high)}")
        numbers += range(low, high + 1)
    return tuple(dict.fromkeys(numbers))


def parse_number(what: str, text: str, expected: str) -> int:
    """The same of one. ``expected``: what an error says is expected."""
    numbers = parse_numbers(what, text)
    if numbers is None or len(numbers) != 1:
        raise ArgumentError(f"--{what}: {expected}, got {'all' if numbers is None else len(numbers)}; name one of them")
    return numbers[0]


def parse_lengths(text: str) -> tuple[int, ...]:
    """ "16,64,256" → (16, 64, 256). Raises ArgumentError if it cannot be read."""
    lengths = []
    for part in map(str.strip, text.split(",")):
        if not part.removeprefix("-").isdecimal():
            raise ArgumentError(f"--lengths: expected numbers of tokens such as 16,64,256, got {quoted(text)}")
        lengths.append(parse_whole(part))
    return tuple(lengths)

"""Heads, layers and others by their numbers, counted from 0: as somebody writes them, and those that are there."""

import operator
from collections.abc import Iterable, Sequence

from mhaviz.errors import ArgumentError, counted, parameter, quoted
from mhaviz.units import parse_whole

_LARGEST = 9_999
"""No model has so many heads, no batch so many examples that anybody draws."""

Numbers = int | Sequence[int] | None
"""One, several, or all."""


def require_numbers(what: str, wanted: Numbers, there: Sequence[int], owner: str) -> tuple[int, ...]:
    """Those that are wanted, of those that are there; None: all.

    Args:
        what: they are: "head".
        owner: has them: "the model".

    Raises:
        ArgumentError: one is not there, or none is named.
    """
    if wanted is None:
        return tuple(there)
    try:
        several = wanted if isinstance(wanted, Iterable) else (wanted,)
        numbers = tuple(dict.fromkeys(map(operator.index, several)))  # numpy's whole numbers, too
    except TypeError:
        raise ArgumentError(f"{parameter(what)}: expected a whole number, or several, got {quoted(wanted)}") from None
    if not numbers:
        raise ArgumentError(
            f"{parameter(what)}: expected at least one {what}, got none; {owner} {_has(owner)} "
            f"{listed_numbers(what, there)}"
        )
    missing = [number for number in numbers if number not in there]
    if missing:
        raise ArgumentError(
            f"{parameter(what)}: there is no {what} {counted(missing[0])}; {owner} {_has(owner)} "
            f"{listed_numbers(what, there)}"
        )
    return numbers


def _has(owner: str) -> str:
    return "have" if owner.endswith("s") else "has"


def listed_numbers(what: str, there: Sequence[int]) -> str:
    """ "heads 0 to 7", "head 0 only", "layers 1, 3 and 5"."""
    if len(there) == 1:
        return f"{what} {there[0]} only"
    if list(there) == list(range(there[0], there[-1] + 1)):
        return f"{what}s {there[0]} to {there[-1]}"
    return f"{what}s {', '.join(map(str, there[:-1]))} and {there[-1]}"


def parse_numbers(what: str, text: str) -> tuple[int, ...] | None:
    """ "0,3-5" → (0, 3, 4, 5); "all" → None. Raises ArgumentError if it cannot be read."""
    if text.strip().lower() == "all":
        return None
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = (number.strip() for number in part.partition("-"))
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            several = f"{what.removesuffix('s')}s"
            raise ArgumentError(f"{parameter(what)}: expected {several} such as 0, 3-5 or all, got {quoted(text)}")
        low, high = parse_whole(first), parse_whole(last or first)
        if low > high:
            raise ArgumentError(f"{parameter(what)}: expected a range that goes up, got {quoted(part.strip())}")
        if high > _LARGEST:
            raise ArgumentError(f"{parameter(what)}: expected numbers up to {_LARGEST:,}, got {counted(high)}")
        numbers += range(low, high + 1)
    return tuple(dict.fromkeys(numbers))


def parse_number(what: str, text: str, expected: str) -> int:
    """The same of one. ``expected``: what an error says is expected."""
    numbers = parse_numbers(what, text)
    if numbers is None or len(numbers) != 1:
        raise ArgumentError(
            f"{parameter(what)}: {expected}, got {'all' if numbers is None else len(numbers)}; name one of them"
        )
    return numbers[0]


def parse_lengths(text: str) -> tuple[int, ...]:
    """ "16,64,256" → (16, 64, 256). Raises ArgumentError if it cannot be read."""
    lengths = []
    for part in map(str.strip, text.split(",")):
        if not part.removeprefix("-").isdecimal():
            raise ArgumentError(
                f"{parameter('lengths')}: expected numbers of tokens such as 16,64,256, got {quoted(text)}"
            )
        lengths.append(parse_whole(part))
    return tuple(lengths)

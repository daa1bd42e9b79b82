"""Numbers of heads, layers and other things, counted from 0."""

import operator
from collections.abc import Iterable, Sequence

from mhaviz.errors import ArgumentError, counted, parameter, plural, quoted

Numbers = int | Sequence[int] | None
"""One number or several; None: all."""


def require_numbers(what: str, wanted: Numbers, there: Sequence[int], owner: str) -> tuple[int, ...]:
    """Return the numbers that are wanted, without duplicates; None: all that exist.

    Args:
        what: what the numbers count, such as "head".
        wanted: one number, several, or None.
        there: the numbers that exist.
        owner: words for a message, such as "the model has".

    Raises:
        ArgumentError: a number does not exist, or none is given.
    """
    if wanted is None:
        return tuple(there)
    try:
        several = wanted if isinstance(wanted, Iterable) else (wanted,)
        numbers = tuple(dict.fromkeys(map(operator.index, several)))  # accepts integers of numpy, too
    except TypeError:
        raise ArgumentError(f"{parameter(what)}: expected a whole number, or several, got {quoted(wanted)}") from None
    missing = [f"there is no {what} {counted(number)}" for number in numbers if number not in there]
    if missing or not numbers:
        wrong = missing[0] if missing else f"expected at least one {what}, got none"
        raise ArgumentError(f"{parameter(what)}: {wrong}; {owner} {listed_numbers(what, there)}")
    return numbers


def listed_runs(what: str, numbers: Sequence[int]) -> str:
    """Return words such as "token 5", "tokens 5 to 7" or "tokens 0, 5 to 7 and 2 more"; ``numbers`` are in order."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown, beyond = runs[:_MOST_RUNS], sum(last - first + 1 for first, last in runs[_MOST_RUNS:])
    texts = [f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in shown]
    words = f"{what if len(numbers) == 1 else plural(what)} {', '.join(texts)}"
    return words + f" and {beyond:,} more" * bool(beyond)


_MOST_RUNS = 5


def listed_numbers(what: str, there: Sequence[int]) -> str:
    """Return words such as "heads 0 to 7", "head 0 only" or "layers 1, 3 and 5"."""
    if len(there) == 1:
        return f"{what} {there[0]} only"
    if list(there) == list(range(there[0], there[-1] + 1)):
        return f"{what}s {there[0]} to {there[-1]}"
    return f"{what}s {', '.join(map(str, there[:-1]))} and {there[-1]}"

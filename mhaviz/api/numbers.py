"""Numbers of heads and layers: those that are wanted among those that there are."""

from collections.abc import Sequence

from mhaviz.errors import ArgumentError

Numbers = int | Sequence[int] | None
"""One, several, or all."""


def require_numbers(what: str, wanted: Numbers, there: Sequence[int], owner: str) -> tuple[int, ...]:
    """Those that are wanted, of those that are there; None: all.

    Raises:
        ArgumentError: one is not there.
    """
    if wanted is None:
        return tuple(there)
    numbers = (wanted,) if isinstance(wanted, int) else tuple(dict.fromkeys(wanted))
    for number in numbers:
        if number not in there:
            raise ArgumentError(f"`{what}`: there is no {what} {number}; {owner} has {listed_numbers(what, there)}")
    return numbers


def listed_numbers(what: str, there: Sequence[int]) -> str:
    """ "heads 0 to 7", "head 0 only", "layers 1, 3 and 5"."""
    if len(there) == 1:
        return f"{what} {there[0]} only"
    if list(there) == list(range(there[0], there[-1] + 1)):
        return f"{what}s {there[0]} to {there[-1]}"
    return f"{what}s {', '.join(map(str, there[:-1]))} and {there[-1]}"

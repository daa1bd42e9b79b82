"""--fail-above and --fail-above-row: exit status 3 if attention has changed by more than a limit."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli.shared.console import say
from mhaviz.errors import ChangedError, MhavizError

if TYPE_CHECKING:
    from mhaviz.results.corpus_difference import CorpusDifference
    from mhaviz.results.difference import Difference, HeadDifference, Limits

Sides = tuple[tuple[Path, int | None], tuple[Path, int | None]]
"""Both files, each with the layer that was asked for; None: all layers."""

_Measured = tuple[float, str]
"""Divergence in bits, and the name of its head or row."""


@dataclass(frozen=True, eq=False, repr=False)
class LimitOptions:
    """Options for the largest divergences that are allowed."""

    fail_above: Annotated[
        float | None,
        typer.Option(metavar="BITS", help="Exit with 3 if a head's mean divergence is larger, 0 to 1."),
    ] = None
    fail_above_row: Annotated[
        float | None,
        typer.Option(metavar="BITS", help="Exit with 3 if a row's divergence is larger, 0 to 1."),
    ] = None

    @property
    def limits(self) -> "Limits":
        """The limits. Raises ArgumentError if one is not from 0 to 1."""
        from mhaviz.results.difference import Limits

        return Limits(self.fail_above, self.fail_above_row)


@contextmanager
def verdict() -> Iterator[Callable[..., None]]:
    """Yield a function to call with a check and its arguments, whose error is raised at the end of the block.

    So a result is delivered that is above a limit. If it cannot be delivered, both errors are said, and the exit status
    is that of the check, as nothing that happens to the output changes it.
    """
    reached: list[MhavizError] = []

    def reach(check: Callable[..., None], *arguments: object) -> None:
        try:
            check(*arguments)
        except MhavizError as error:
            reached.append(error)

    try:
        yield reach
    except MhavizError as error:
        if not reached or error.status != MhavizError.status:
            raise
        say(str(error))
    if reached:
        raise reached[0]


_MOST_TOKENS, _CELLS = 4, 16  # tokens that a notice names, and characters of each


def text_notices(difference: "Difference") -> Iterator[str]:
    """Iterate over at most one message on two texts that differ, "the texts differ at 1 of 12 tokens: tired / warm"."""
    from mhaviz.pages.labels import quoted

    sides = [m.sides for m in difference.maps if m.sides]
    axes = [pair for A, B in sides for pair in ((A.rows, B.rows), (A.columns, B.columns))]
    found = dict.fromkeys((a.tokens.texts, b.tokens.texts) for a, b in axes if a.tokens.texts != b.tokens.texts)
    if not found:
        return
    first, second = next(iter(found))
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
    named = ", ".join(f"{quoted(a, _CELLS)} / {quoted(b, _CELLS)}" for a, b in pairs[:_MOST_TOKENS])
    named += ", …" * (len(pairs) > _MOST_TOKENS)
    more = f"; {len(found) - 1:,} more texts differ" if len(found) > 1 else ""
    yield f"the texts differ at {len(pairs):,} of {len(first):,} tokens: {named}{more}"


def flaw_notices(difference: "Difference", sides: Sides) -> Iterator[str]:
    """Iterate over at most one message on heads that have no divergence, with the reason."""
    flawed = [head for head in difference.ranking if head.flaw]
    if flawed:
        more = f"; {len(flawed) - 1:,} more heads have none, either" if len(flawed) > 1 else ""
        yield f"{_flaw_text(flawed[0], sides)}{more}"


def _flaw_text(head: "HeadDifference", sides: Sides) -> str:
    flaw = head.flaw
    assert flaw is not None
    path, layer = sides[flaw.is_second]
    m = head.map if layer is None else replace(head.map, layer=layer)
    return f"{path}: {m.name_of(head.head)} has no divergence, as row {flaw.query} sums to {flaw.sum:.4g}"


def require_at_most(difference: "Difference", sides: Sides) -> None:
    """Raise ChangedError if a head is above a limit, MhavizError if something without a divergence might be."""
    known = [head for head in difference.ranking if head.divergence is not None]
    means = [(head.divergence or 0.0, head.map.name_of(head.head)) for head in known]
    rows = [
        (head.worst.divergence, f"row {head.worst.query} of {head.map.name_of(head.head)}")
        for head in known
        if head.worst
    ]
    _require_below(difference.limits, means, rows)
    if difference.limits.are_given and (reason := next(_not_compared(difference, sides), None)) is not None:
        raise MhavizError(f"cannot tell whether too much has changed: {reason}")


def require_models_alike(difference: "CorpusDifference") -> None:
    """Raise ChangedError if a head of two models is above a limit."""
    named = [(head, "{kind} L{layer} H{head}".format(**head)) for head in difference.ranking]
    _require_below(
        difference.limits,
        [(head["mean"], name) for head, name in named],
        [(head["largest"], f"row {head['query']} of sentence {head['sentence']}, {name}") for head, name in named],
    )


def _require_below(limits: "Limits", means: Sequence[_Measured], rows: Sequence[_Measured]) -> None:
    """Raise ChangedError if the mean or a row of a head is above its limit."""
    for most, measured, of in ((limits.mean, means, ""), (limits.row, rows, " in every row")):
        if most is not None and (above := sorted((one for one in measured if one[0] > most), reverse=True)):
            got, where = above[0]
            others = f"; {len(above)} heads of {len(means)} are above" if len(above) > 1 else ""
            raise ChangedError(f"{_expected(most, got, of)} in {where}{others}")


def _expected(most: float, got: float, of: str) -> str:
    """Return a message with the expected and the actual divergence, in enough digits to be above the limit."""
    digits = next(text for digits in range(4, 18) if float(text := f"{got:.{digits}g}") > most)
    return f"expected a divergence of at most {most} bits{of}, got {digits}"


def _not_compared(difference: "Difference", sides: Sides) -> Iterator[str]:
    """Iterate over messages on what has no divergence, and what to do about it."""
    for (path, _), names in zip(sides, (difference.only_before, difference.only_after), strict=True):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            yield f"{names[0]}{more} only in {path}; compare files with the same maps"
    for head in difference.ranking:
        if head.flaw:
            yield f"{_flaw_text(head, sides)}; expected rows that sum to 1"
        elif head.divergence is None and not head.map.quantity.rows_are_shares:
            advice = "maps by mass" if head.map.quantity.is_distribution else "weights"
            yield f"{head.map.name} has no divergence; compare {advice}, whose rows sum to 1"
        elif head.divergence is None:
            zeros = "as all its rows are zeros in both; expected some weight"
            yield f"{head.map.name_of(head.head)} has no divergence, {zeros}"

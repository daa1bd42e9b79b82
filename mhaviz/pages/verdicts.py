"""What a machine is told of a difference: whether each head has changed more than is allowed."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch

from mhaviz.errors import MhavizError
from mhaviz.records import CorpusDifference, Difference, HeadDifference, Limits


@dataclass(frozen=True)
class Verdict:
    """Of one head, or of a map that has none to be compared.

    Attributes:
        group: which attention: "layer 0, self".
        name: "head 3"; "all heads" of a map.
        divergence: the mean of its rows, in bits; None: there is none.
        above: how it is above a limit, a sentence for each; empty where it is not.
        unknown: why nobody can tell whether it has changed; empty where one can.
    """

    group: str
    name: str
    divergence: float | None = None
    above: tuple[str, ...] = ()
    unknown: str = ""


@singledispatch
def verdicts(record: object) -> list[Verdict]:
    """One of each head, in the order of the record."""
    raise MhavizError(f"expected the difference of two attentions, got {type(record).__name__}")


@verdicts.register
def _(record: Difference) -> list[Verdict]:
    found = [
        Verdict(
            head.map.name,
            f"head {head.head}",
            head.divergence,
            tuple(
                above_text(
                    record.limits, head.divergence, head.worst.divergence if head.worst else None, _row_text(head)
                )
            ),
            unknown_text(head),
        )
        for m in record.maps
        for head in m.each_head
    ]
    lone = ("the first", record.only_before), ("the second", record.only_after)
    return found + [Verdict(name, "all heads", unknown=f"only in {side}") for side, names in lone for name in names]


@verdicts.register
def _(record: CorpusDifference) -> list[Verdict]:
    return [
        Verdict(
            f"layer {head.layer}, {head.kind}",
            f"head {head.head}",
            head.mean,
            tuple(above_text(record.limits, head.mean, head.largest, f"row {head.query} of sentence {head.sentence}")),
        )
        for head in record.heads
    ]


def above_text(limits: Limits, divergence: float | None, row: float | None, where: str) -> Iterator[str]:
    """How a head is above the limits; ``where`` its largest row is."""
    if limits.mean is not None and divergence is not None and divergence > limits.mean:
        yield f"expected a divergence of at most {limits.mean} bits, got {bits_above(divergence, limits.mean)}"
    if limits.row is not None and row is not None and row > limits.row:
        yield (
            f"expected a divergence of at most {limits.row} bits in every row, got {bits_above(row, limits.row)} in "
            f"{where}"
        )


def unknown_text(head: HeadDifference) -> str:
    """Why a head of a map has no divergence; nothing where it has one."""
    if head.flaw:
        side = "second" if head.flaw.is_second else "first"
        return f"row {head.flaw.query} of the {side} sums to {head.flaw.sum:.4g}; expected rows that sum to 1"
    if head.divergence is not None:
        return ""
    if not head.map.quantity.rows_are_shares:
        advice = "maps by mass" if head.map.quantity.is_distribution else "weights"
        return f"it has no divergence; compare {advice}, whose rows sum to 1"
    return "all its rows are zeros in both; expected some weight"


def bits_above(number: float, limit: float) -> str:
    """In as many digits as it takes to be above the limit."""
    return next(text for digits in range(4, 18) if float(text := f"{number:.{digits}g}") > limit)


def _row_text(head: HeadDifference) -> str:
    return f"row {head.worst.query}" if head.worst else ""

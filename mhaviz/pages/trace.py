"""The shape of every tensor on the way through attention, and what becomes of one element, in words and as tables."""

from collections.abc import Sequence

from mhaviz.pages.blocks import Column, Quote, Table
from mhaviz.records import FollowedElement, ShapeTrace, TraceStep
from mhaviz.units import readable_bytes, readable_count


def steps_table(trace: ShapeTrace) -> Table:
    """A row a step."""
    columns = (
        Column("step", align="left", is_key=True, style="bold"),
        Column("equation", align="left"),
        Column("shape", shape_text, "left"),
        Column("axes", " × ".join, "left", style="quiet"),
        Column("memory", align="left"),
        Column("parameters", readable_count),
        Column("FLOPs", readable_count),
        Column("bytes", readable_bytes),
    )
    rows = [
        (
            step.name,
            step.equation,
            step.shape,
            step.axes,
            memory_text(step),
            step.parameters or "",
            step.flops or "",
            step.bytes or "",
        )
        for step in trace.steps
    ]
    return Table(columns, tuple(rows))


def visits_table(followed: FollowedElement) -> Table:
    """Where an element is in each step, a row a step."""
    columns = (
        Column("step", align="left", is_key=True, style="bold"),
        Column("coordinates", shape_text, "left"),
        Column("offset"),
        Column("number", align="left"),
    )
    rows = [(v.step, v.coordinates, v.offset, "same" if v.same_number else "new") for v in followed.visits]
    return Table(columns, tuple(rows))


def memory_text(step: TraceStep) -> str:
    """ "view, strided"."""
    return f"{step.memory}, {'contiguous' if step.contiguous else 'strided'}"


def shape_text(sizes: Sequence[int]) -> str:
    """(3, 6, 8); one size stands alone."""
    return f"({', '.join(map(str, sizes))})"


def costs_text(steps: Sequence[TraceStep]) -> str:
    """ "72 parameters, 2,448 FLOPs, 576 B", without what is nothing."""
    parameters, flops, size = (sum(getattr(s, name) for s in steps) for name in ("parameters", "flops", "bytes"))
    parts = [
        f"{readable_count(parameters)} parameters" if parameters else "",
        f"{readable_count(flops)} FLOPs" if flops else "",
        readable_bytes(size) if size else "",
    ]
    return ", ".join(filter(None, parts))


def following_text(followed: FollowedElement, trace: ShapeTrace, quote: Quote) -> tuple[str, ...]:
    """What happens to a followed element, a sentence each; the first is a heading."""
    position, intruder = followed.element[1], followed.intruder
    heads = trace.step("Q heads")

    def token(batch: int, index: int) -> str:
        words = trace.tokens[batch] if trace.tokens else None
        if words is None:
            return f"position {index}"
        return f"“{quote(words[index], 24)}”, position {index}" if index < len(words) else f"padding {index}"

    heading = f"Q{list(followed.element)}, of {token(followed.element[0], position)}, through every reshape"
    view = f"A view straight to {shape_text(heads.shape)}, without the transpose,"
    misplaced = f"{_share(followed.misplaced)} of all elements would be misplaced, and no shape check would notice."
    if not followed.misplaced:
        return heading, f"{view} would misplace nothing, as there is only one head or one token."
    if followed.wrong == followed.right:
        return heading, f"{view} would leave this one in its place.", misplaced
    return (
        heading,
        f"{view} has the right shape and would send it to {shape_text(followed.wrong)}: "
        f"head {followed.wrong[1]}, {token(followed.wrong[0], followed.wrong[2])}.",
        f"In its place at {shape_text(followed.right)} would stand Q{list(intruder)}, "
        f"of {token(intruder[0], intruder[1])}.",
        misplaced,
    )


def _share(share: float) -> str:
    return f"{share:.0%}" if share <= 0.995 or share == 1 else "More than 99%"

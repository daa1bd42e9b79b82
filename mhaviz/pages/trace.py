"""Page of a trace of shapes: the shape of every tensor in an attention layer, and the path of one element."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted
from mhaviz.pages.blocks import Block, Column, Flow, Grid, Page, Stacks, Table, Text
from mhaviz.pages.explanation import number_text
from mhaviz.pages.labels import quoted
from mhaviz.pages.registry import shown
from mhaviz.results.attention import head_name
from mhaviz.results.trace import FollowedElement, ShapeTrace, TraceStep
from mhaviz.units import readable_bytes, readable_count


@shown(ShapeTrace)
def trace_page(trace: ShapeTrace) -> Page:
    """Return the page: all steps, their numbers where they are kept, and the followed element."""
    followed, notes = trace.followed, tuple(costs_text([step]) for step in trace.steps)
    visits = {visit.step: shape_text(visit.coordinates) for visit in followed.visits} if followed else {}
    flow = Flow(trace.steps, notes, visits, steps_table(trace))
    has_numbers, total = any(step.values is not None for step in trace.steps), f"altogether {costs_text(trace.steps)}"
    chart = flow, Text((total, "") if has_numbers or followed else (total,))
    blocks: list[Block] = list(chart)
    if followed is not None:
        first, *rest = following_text(followed, trace)
        path = Text((first,), "heading"), _visits_table(followed), Text(tuple(rest))
        blocks = [Stacks(chart, path)]
    if has_numbers:
        for heading, tables in step_numbers(trace):
            blocks += [Text((heading,), "heading"), Grid((tables,)), Text(("",))]
        blocks.append(Text(numbers_remark(trace), "quiet"))
    return Page(_lesson(trace), tuple(blocks), trace.source.footnote, fits_paper=not has_numbers)


def _lesson(trace: ShapeTrace) -> str:
    """Return the title: how many steps are views."""
    views = sum(step.memory == "view" for step in trace.steps)
    return f"{trace.source.model}: {views} of {len(trace.steps)} steps through attention are views, which copy nothing"


def steps_table(trace: ShapeTrace) -> Table:
    """Return the table of steps."""
    columns = (
        Column("step", align="left", is_key=True),
        Column("equation", align="left"),
        Column("shape", shape_text, "left"),
        Column("axes", " × ".join, "left"),
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
            f"{step.memory}, {'contiguous' if step.contiguous else 'strided'}",
            step.parameters or "",
            step.flops or "",
            step.bytes or "",
        )
        for step in trace.steps
    ]
    return Table(columns, tuple(rows))


_TOKEN = 10  # characters of a token as the label of a row or column
_OF_QUERIES, _OF_KEYS = ("q_length", "seq_length"), ("k_length",)


def step_numbers(trace: ShapeTrace) -> tuple[tuple[str, tuple[Table, ...]], ...]:
    """Return, for each step that computes numbers, a heading and tables of the first sentence's numbers, one for each
    head. Rows are tokens, columns features or keys."""
    return tuple(_numbers_of(trace, step) for step in trace.steps if _is_printed(step))


def numbers_remark(trace: ShapeTrace) -> tuple[str, ...]:
    """Return which numbers are not printed, one line for each reason."""
    kept = [step for step in trace.steps if step.values is not None]
    again = [step.name for step in kept if not _is_printed(step)]
    large = [step.name for step in trace.steps if step.values is None]
    lines = []
    if len(trace.tokens) > 1:
        lines.append(f"numbers of the first of {counted(len(trace.tokens), 'sentence')}; a .json file has those of all")
    if again:
        lines.append(f"not printed, as they are earlier numbers in another order: {', '.join(again)}")
    if large:
        lines.append(f"not printed, as they are many: {', '.join(large)}")
    return tuple(lines)


def _is_printed(step: TraceStep) -> bool:
    """Return whether a step has numbers, and they are not a view or copy of an earlier step's."""
    return step.values is not None and step.memory == "computed" and len(step.shape) in (3, 4)


def _numbers_of(trace: ShapeTrace, step: TraceStep) -> tuple[str, tuple[Table, ...]]:
    """Return a heading, and one table for (length, features), or one for each head of (n_heads, length, features)."""
    assert step.values is not None
    first, axes = step.values[0], step.axes[1:]
    heading = f"{step.name} = {step.equation}, {shape_text(step.shape)}"
    rows, columns = (_labels(trace, axis, first.shape[i - 2]) for i, axis in enumerate(axes[-2:]))
    matrices = first if first.ndim == 3 else first[None]
    names = [head_name(trace.layer, i) for i in range(len(matrices))] if first.ndim == 3 else [""]
    tables = (_matrix_table(*named, rows, columns) for named in zip(names, matrices, strict=True))
    return heading, tuple(tables)


def _labels(trace: ShapeTrace, axis: str, size: int) -> list[str]:
    """Return the labels along an axis: tokens of the first sentence, without padding, or else numbers."""
    is_of_tokens = axis in _OF_QUERIES or (axis in _OF_KEYS and _have_same_tokens(trace))
    if not (is_of_tokens and trace.tokens and len(trace.tokens[0]) <= size):
        return list(map(str, range(size)))
    return [quoted(token, _TOKEN) for token in trace.tokens[0]]


def _have_same_tokens(trace: ShapeTrace) -> bool:
    """Return whether keys and queries have the same tokens, as both are made of the same X."""
    made_of = {step.name: step.inputs for step in trace.steps if step.name in ("Q", "K")}
    return made_of.get("Q") == made_of.get("K")


def _matrix_table(name: str, matrix: NDArray[np.float32], rows: Sequence[str], columns: Sequence[str]) -> Table:
    """Return a table of numbers with a label for each row and column."""
    heads = (Column(name, align="left", is_key=True), *(Column(label, _number) for label in columns))
    return Table(
        heads,
        tuple((label, *numbers) for label, numbers in zip(rows, matrix[:, : len(columns)].tolist(), strict=False)),
    )


def _number(value: float) -> str:
    return "−∞" if value == -np.inf else number_text(value)


def _visits_table(followed: FollowedElement) -> Table:
    """Return the table of the followed element's place in each step."""
    columns = (
        Column("step", align="left", is_key=True),
        Column("coordinates", shape_text, "left"),
        Column("offset"),
        Column("number", align="left"),
    )
    rows = [(v.step, v.coordinates, v.offset, "same" if v.same_number else "new") for v in followed.visits]
    return Table(columns, tuple(rows))


def shape_text(sizes: Sequence[int]) -> str:
    """Return "(3, 6, 8)", or "(8)" for a single size."""
    return f"({', '.join(map(str, sizes))})"


def costs_text(steps: Sequence[TraceStep]) -> str:
    """Return "72 parameters, 2,448 FLOPs, 576 B", without those that are 0."""
    parameters, flops, size = (sum(getattr(s, name) for s in steps) for name in ("parameters", "flops", "bytes"))
    parts = [
        f"{readable_count(parameters)} parameters" if parameters else "",
        f"{readable_count(flops)} FLOPs" if flops else "",
        readable_bytes(size) if size else "",
    ]
    return ", ".join(filter(None, parts))


def following_text(followed: FollowedElement, trace: ShapeTrace) -> tuple[str, ...]:
    """Return a heading, and sentences on what happens to the followed element."""
    position, intruder = followed.element[1], followed.intruder
    heads = trace.step("Q heads")

    def token(batch: int, index: int) -> str:
        words = trace.tokens[batch] if trace.tokens else None
        if words is None:
            return f"position {index}"
        return f"“{quoted(words[index], 24)}”, position {index}" if index < len(words) else f"padding {index}"

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
        f"{head_name(trace.layer, followed.wrong[1])}, {token(followed.wrong[0], followed.wrong[2])}.",
        f"In its place at {shape_text(followed.right)} would stand Q{list(intruder)}, "
        f"of {token(intruder[0], intruder[1])}.",
        misplaced,
    )


def _share(share: float) -> str:
    return f"{share:.0%}" if share <= 0.995 or share == 1 else "More than 99%"

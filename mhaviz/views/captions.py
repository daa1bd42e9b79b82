"""The words that stand over pictures, the same in the terminal and in figures."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from mhaviz.records import (
    ROUNDING,
    Attention,
    AttentionMap,
    Axis,
    Cells,
    Evaluation,
    Explanation,
    FollowedElement,
    Kind,
    ScalingComparison,
    ScoreStatistics,
    ShapeTrace,
    TraceStep,
    Training,
)
from mhaviz.units import readable_bytes, readable_count
from mhaviz.views.labels import bare, cut, cut_words, harmless, in_ascii, title_words, visible

T = TypeVar("T")

_RULE = 8  # characters, such as those of / √1024

KINDS: dict[Kind, str] = {
    "self": "self-attention",
    "masked": "masked self-attention",
    "cross": "source-target attention",
}


_SIDES = "rows are queries, columns keys"
_ROLLOUT = "rollout: through this layer and all before it (Abnar and Zuidema 2020)"
_ONE = "a row sums to 1"
READING = f"{_SIDES}; {_ONE}"
"""How to read a map of weights."""


def reading_text(
    attention: Attention, pooled: Sequence[str] = (), drawn: Sequence[Cells] | None = None, hidden: str = "grey"
) -> str:
    """How to read these maps of weights.

    Args:
        attention: the maps.
        pooled: what a cell shows, of each map that has a cell a token; empty where that is a weight.
        drawn: the cells in the picture, as far as it is not said elsewhere what they are; None: those of the maps.
        hidden: as in ``hidden_text``.
    """
    shown = [m.cells for m in attention.maps] if drawn is None else drawn
    name = "share" if all(m.quantity.is_rollout for m in attention.maps) else "weight"
    parts = [_SIDES]
    if any(pooled) or any(not m.is_whole for m in attention.maps):
        kinds = [f"{text} {name}s" for text in dict.fromkeys(filter(None, pooled))]
        if not all(pooled):
            kinds = [f"of long ones, {text}" for text in kinds]
        parts += [*kinds, cells_texts(shown, name)]
        parts += ["what goes to no key goes to the head's sink"] * any(m.sink for m in attention.maps)
    else:
        parts.append(sums_text(attention.maps))
    parts += [_ROLLOUT] * any(m.quantity.is_rollout for m in attention.maps)
    return "; ".join(filter(None, [*parts, hidden_text(attention.maps, hidden), harmless(attention.source.remark)]))


def sums_text(maps: Sequence[AttentionMap]) -> str:
    """ "a row sums to 1", or "rows sum to between 0.98 and 2.00"; how many are zeros, as those of padding may be.

    Of heads with a sink it is said where the rest goes.
    """
    sinks = [m.sink for m in maps]
    if any(sinks):
        less = "less than 1, the rest goes" if all(sinks) else "1, or to less where the rest goes"
        return f"a row sums to {less} to the head's sink"
    sums = np.concatenate([m.row_sums.ravel() for m in maps])
    others = sums[sums != 0]
    zeros = len(sums) - len(others)
    if not others.size:
        return "all weights are 0"
    low, high = float(others.min()), float(others.max())
    is_one = low >= 1 - ROUNDING and high <= 1 + ROUNDING
    text = _ONE if is_one else f"rows sum to {_sums_range(low, high)}"
    return text + f", but {zeros:,} of {len(sums):,} to 0" * bool(zeros)


def _sums_range(low: float, high: float) -> str:
    decimals = 3 if f"{low:.2f}" == f"{high:.2f}" == "1.00" else 2  # more than ROUNDING from 1
    ends = [f"{end:,.{decimals}f}" for end in (low, high)]
    return f"between {ends[0]} and {ends[1]}" if ends[0] != ends[1] else ends[0]


def hidden_text(maps: Sequence[AttentionMap], mark: str = "grey") -> str:
    """What is hidden in these maps; nothing if nothing is. ``mark``: how it is shown."""
    windows: list[AttentionMap] = []
    others: list[AttentionMap] = []
    for m in maps:
        (windows if _window_hides(m) else others).append(m)
    is_causal = any(m.kind == "masked" for m in maps)
    if not windows:
        return f"{mark}: later keys, hidden" * is_causal
    reaches = sorted({m.reach for m in windows if m.reach is not None})
    where = f"more than {' or '.join(f'{r:,}' for r in reaches)} position{'s' * (reaches != [1])} away"
    if others:
        layers = sorted({m.layer for m in windows})
        named = "some maps"
        if not {m.layer for m in others} & set(layers):
            named = layers_text(layers) if len(layers) <= _MOST_LAYERS else "some layers"
        where = f"{where} in {named}"
    return f"{mark}: hidden keys, {('later, or ' if others else 'later or ') * is_causal}{where}"


_MOST_LAYERS = 6  # that are named one by one


def layers_text(layers: Sequence[int]) -> str:
    """ "layer 3", "layers 0 to 5", "layers 0, 2, 4"."""
    if len(layers) == 1:
        return f"layer {layers[0]}"
    if list(layers) == list(range(layers[0], layers[0] + len(layers))):
        return f"layers {layers[0]} to {layers[-1]}"
    return f"layers {', '.join(map(str, layers))}"


def _window_hides(m: AttentionMap) -> bool:
    """Whether some cell is hidden that would not be without the window."""
    if m.reach is None or m.hidden is None:
        return False
    without = replace(m, reach=None).hidden
    return bool((m.hidden if without is None else m.hidden & ~without).any())


def cells_texts(several: Sequence[Cells], name: str = "weight") -> str:
    """What the cells of several maps are, each said once; nothing if all are weights. ``name``: of a number."""
    kinds = list(dict.fromkeys(filter(None, (cells_text(cells, name) for cells in several))))
    if any(cells.are_tokens for cells in several):
        kinds = [f"of long ones, {text}" for text in kinds]
    if len({cells.quantity.reduction for cells in several if not cells.are_tokens}) > 1:
        first, other = "each cell is the largest of", f"of largest {name}s, it is the largest of"
        kinds = [text.replace(first, other).removesuffix(f" {name}s") for text in kinds]
    return "; ".join(kinds)


def cells_text(cells: Cells, name: str = "weight") -> str:
    """What a cell of a pooled map is; nothing if it is a weight. ``name``: of a number."""
    if cells.are_tokens:
        return ""
    tallest, widest = cells.rows.widest, cells.columns.widest
    if cells.quantity.reduction == "max":
        return f"each cell is the largest of up to {tallest:,} × {widest:,} {name}s"
    keys = f"up to {widest:,} keys" if widest > 1 else "a key"
    if tallest == 1:
        return f"each cell is a query's {name} on {keys}"
    return f"each cell is the mean over up to {tallest:,} queries of their {name} on {keys}"


def pooled_text(q_length: int, k_length: int, rows: int, columns: int) -> str:
    """What a cell shows, if it stands for more than one query or key; else nothing."""
    if rows >= q_length and columns >= k_length:
        return ""
    return f"each cell is the strongest of up to {-(-q_length // rows)} × {-(-k_length // columns)}"


def map_title(
    attention_map: AttentionMap,
    width: int,
    ascii_only: bool = False,
    shown: Callable[[str], str] = visible,
    part: str | None = None,
) -> str:
    """ "self-attention: i wonder what …", or "rollout of self-attention: …", in at most ``width`` cells.

    ``shown`` makes a text fit to be shown; ``part``: what to say of the map instead of ``part_text``.
    """
    m = attention_map
    head = "rollout of " * m.quantity.is_rollout + KINDS[m.kind] + (part_text(m) if part is None else part)
    sides = [(m.queries, m.rows.tokens.special)]
    if m.kind == "cross" or m.queries != m.keys:
        sides.append((m.keys, m.columns.tokens.special))
    return _title(head, sides, width, ascii_only, shown)


def part_text(attention_map: AttentionMap) -> str:
    """Which part of a map, and which reduction, where it is not all weights."""
    m = attention_map
    if m.is_whole:
        return ""
    where = f", {_run('query', 'queries', m.rows)}, {_run('key', 'keys', m.columns)}"
    if (m.rows.start, m.rows.end) == (m.columns.start, m.columns.end) and m.kind != "cross":
        where = f", {_run('token', 'tokens', m.rows)}"
    by = {"mass": "", "max": f", largest {m.quantity.name}s"}[m.quantity.reduction]
    return by + where


def _run(one: str, several: str, axis: Axis) -> str:
    if axis.end - axis.start == 1:
        return f"{one} {axis.start:,}"
    return f"{several} {axis.start:,} to {axis.end - 1:,}"


def pair_title(
    kind: Kind,
    queries: Sequence[str],
    keys: Sequence[str],
    width: int,
    ascii_only: bool = False,
    shown: Callable[[str], str] = visible,
) -> str:
    """The kind of attention and the sentence, or "target → source", in at most ``width`` cells.

    ``shown`` makes a text fit to be shown.
    """
    sides = [queries] if kind != "cross" and queries == keys else [queries, keys]
    return _title(KINDS[kind], [(side, ()) for side in sides], width, ascii_only, shown)


def tells_layer(attention: Attention) -> bool:
    """Whether a map must name its layer: there are several in the record, or in the model that it is of."""
    n_layers = attention.source.details.get("n_layers", 1)
    return len({m.layer for m in attention.maps}) > 1 or (isinstance(n_layers, int) and n_layers > 1)


def study_title(
    record: Explanation | ScalingComparison,
    width: int,
    ascii_only: bool = False,
    shown: Callable[[str], str] = visible,
) -> str:
    """The same of a study of one layer, which it names if there are several: "self-attention, layer 3: …"."""
    sides = [(record.queries, record.special_queries), (record.keys, record.special_keys)]
    sides = sides if record.kind == "cross" or record.queries != record.keys else sides[:1]
    layer = "" if record.layer is None else f", layer {record.layer}"
    return _title(KINDS[record.kind] + layer, sides, width, ascii_only, shown)


def _title(
    head: str,
    sides: Sequence[tuple[Sequence[str], Collection[int]]],
    width: int,
    ascii_only: bool,
    shown: Callable[[str], str],
) -> str:
    """``head`` and the texts of the sides, each of tokens and of the places of those that are not of the text."""
    arrow, ellipsis = (" -> ", "...") if ascii_only else (" → ", "…")
    texts = [title_words(tokens, special, shown) for tokens, special in sides]
    if ascii_only:
        texts = [list(map(in_ascii, words)) for words in texts]
    room = (width - len(head) - 2 - len(arrow) * (len(sides) - 1)) // len(sides)
    shortened = arrow.join(cut_words(words, max(room, 8), ellipsis) for words in texts)
    return cut(f"{head}: {shortened}", width, ellipsis)


def training_text(training: Training) -> str:
    """ "a translator of 105,213 parameters, trained on 7,500 sentences; 500 held out"."""
    model = "translator" if training.task == "translation" else "language model"
    return (
        f"a {model} of {training.parameters:,} parameters, trained on {training.training_sentences:,} sentences; "
        f"{training.held_out_sentences:,} held out"
    )


AVERAGED = "heads averaged"
"""Not the mean of the heads' error rates: that of their averaged weights."""


def alignment_text(evaluation: Evaluation) -> str:
    """What an alignment error rate is, or why there is none."""
    if evaluation.alignment is not None:
        return "alignment error rate of source-target attention: 0 if each word's largest weight is on its translation"
    if evaluation.task == "language":
        return "a language has no translations that could be aligned"
    return "no alignment error rate: none of these pairs has a gold alignment, a third column of i-j links"


def score_text(training: Training) -> str:
    """What the score is the share of: "exact match, 50 held-out sentences"."""
    number = training.scored_sentences
    return f"{training.score_name}, {number} held-out sentence{'s' * (number != 1)}"


def evenly(things: Sequence[T], most: int) -> list[T]:
    """At most so many of them, with equal gaps between as far as that goes, the last always among them."""
    if len(things) <= most:
        return list(things)
    return [things[-1 - place * (len(things) - 1) // (most - 1)] for place in reversed(range(most))]


def evaluation_text(evaluation: Evaluation) -> str:
    """What the model gets right, in a line."""
    number = f"{evaluation.sentences:,}{' held-out' * evaluation.held_out} sentence{'s' * (evaluation.sentences != 1)}"
    return f"{number}: {evaluation.score_name} {evaluation.score:.3f}, perplexity {evaluation.perplexity:,.3f}"


def rule_text(record: Explanation | ScalingComparison) -> str:
    """What becomes of q·k before the softmax, where it is short enough to stand over a column: "/ √64"."""
    return record.rule if len(record.rule) <= _RULE else "scaled"


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


def following_text(
    followed: FollowedElement, trace: ShapeTrace, shown: Callable[[str], str] = visible
) -> tuple[str, ...]:
    """What happens to a followed element, a sentence each; the first is a heading."""
    position, intruder = followed.element[1], followed.intruder
    heads = trace.step("Q heads")

    def token(batch: int, index: int) -> str:
        words = trace.tokens[batch] if trace.tokens else None
        if words is None:
            return f"position {index}"
        return f"“{cut(shown(bare(words[index])), 24)}”, position {index}" if index < len(words) else f"padding {index}"

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


@dataclass(frozen=True)
class Statistic:
    """How one of the numbers in ``ScoreStatistics`` is called and written."""

    name: str
    short: str
    text: Callable[[ScoreStatistics], str]
    value: Callable[[ScoreStatistics], float]


STATISTICS = (
    Statistic("standard deviation of the scores", "std", lambda s: f"{s.score_std:.2f}", lambda s: s.score_std),
    Statistic(
        "range of the scores",
        "range",
        lambda s: f"{s.score_min:.1f} to {s.score_max:.1f}",
        lambda s: s.score_max - s.score_min,
    ),
    Statistic("mean entropy of a row, in nats", "entropy", lambda s: f"{s.entropy:.2f}", lambda s: s.entropy),
    Statistic(
        "mean largest weight of a row", "largest", lambda s: f"{s.largest_weight:.2f}", lambda s: s.largest_weight
    ),
    Statistic("rows saturated (largest > 0.99)", "saturated", lambda s: f"{s.saturated:.0%}", lambda s: s.saturated),
    Statistic("mean Frobenius norm of the Jacobian", "Jacobian", lambda s: f"{s.jacobian:.3f}", lambda s: s.jacobian),
)
"""The numbers that stand beside every picture of scaling, in their order."""

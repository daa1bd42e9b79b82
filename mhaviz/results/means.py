"""Means of maps over heads, layers, texts and forward passes: which of them are defined, and what they are."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, counted, is_accepted, parameter, quoted
from mhaviz.inputs.spans import REST
from mhaviz.inputs.tokens import Ranges, Tokens
from mhaviz.numbering import listed_numbers, listed_runs
from mhaviz.results.axis import Axis
from mhaviz.results.module_names import calls_text, common_name
from mhaviz.results.quantity import MEANS, Quantity
from mhaviz.results.span_columns import with_columns_of_all

if TYPE_CHECKING:
    from mhaviz.results.attention import AttentionMap

Averaged = Literal["heads", "layers", "sentences", "examples", "passes"]
"""What maps may be averaged over. Sentences are the texts that a model was given, examples those of a recorded
batch."""

MeanOver = tuple[tuple[Averaged, int | None], ...]
"""What a map is the mean over, in the order of ``Averaged``, with the number of each: of heads that of all layers, or
None where an older file does not tell it."""

AVERAGED: tuple[Averaged, ...] = get_args(Averaged)
"""All that maps may be averaged over."""

_SINGULAR: dict[Averaged, str] = {
    "heads": "head",
    "layers": "layer",
    "sentences": "sentence",
    "examples": "example",
    "passes": "pass",
}
_TEXTS: frozenset[Averaged] = frozenset({"sentences", "examples"})


def require_averaged(names: object) -> tuple[Averaged, ...]:
    """Return what is to be averaged over, a name or several, each once. Raises ArgumentError if one is none of
    ``Averaged``."""
    given = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [names]
    wrong = [name for name in given if name not in AVERAGED]
    if wrong or not given:
        *before, last = AVERAGED
        got = quoted(wrong[0]) if wrong else "nothing"
        raise ArgumentError(f"{parameter('mean')}: expected {', '.join(before)} or {last}, got {got}")
    return tuple(name for name in AVERAGED if name in given)


def mean_text(over: MeanOver, with_heads: bool = True) -> str:
    """Return "mean over heads, 6 layers and 20 sentences"; "" of a map that is no mean.

    ``with_heads``: name heads, which a name of the quantity may say.
    """
    parts = [
        "heads" if number is None or name == "heads" else counted(number, _SINGULAR[name]) for name, number in over
    ]
    *before, last = [part for part in parts if with_heads or part != "heads"] or [""]
    return f"mean over {' and '.join(filter(None, [', '.join(before), last]))}" * bool(last)


def title_prefix(over: MeanOver, quantity: Quantity) -> str:
    """Return the start of a title, before the kind of attention, "mean over heads of norms of "; "" for weights of
    heads."""
    prefix, mean = quantity.title_prefix, mean_text(over)
    if not mean or quantity.row != "query":  # where the prefix is the whole title
        return prefix
    return f"{mean}{', ' if prefix.endswith(', ') else ' of '}{prefix}"


def averages_texts(over: MeanOver) -> bool:
    """Return whether a mean is over texts."""
    return any(name in _TEXTS for name, _ in over)


def averages_inputs(over: MeanOver) -> bool:
    """Return whether a mean is over texts or passes, which may have other tokens."""
    return averages_texts(over) or "passes" in dict(over)


def mean_remark(maps: Sequence["AttentionMap"], names: Sequence[Averaged]) -> str:
    """Return which heads, layers, texts and passes of these maps are averaged, "mean of heads 0 to 11, of layers 0 to
    5", and which sinks not all of them have."""
    heads = sorted({m.heads for m in maps if not m.quantity.of_all_heads}) if "heads" in names else []
    parts = [" or ".join(listed_numbers("head", numbers) for numbers in heads)]
    of_maps: dict[Averaged, set[int | None]] = {
        "layers": {m.layer for m in maps},
        "sentences": {m.sentence for m in maps},
        "examples": {m.sentence for m in maps},
        "passes": {m.pass_number for m in maps},
    }
    for name in names:
        numbers = sorted(number for number in of_maps.get(name, ()) if number is not None)
        parts.append(listed_runs(_SINGULAR[name], numbers) if len(numbers) > 1 else "")
    listed = ", of ".join(filter(None, parts))
    return "; ".join(filter(None, [f"mean of {listed}" * bool(listed), _sinks_remark(maps)]))


def _sinks_remark(maps: Sequence["AttentionMap"]) -> str:
    """Return which keys are sinks in some of these maps by span alone; the others have no column for them."""
    sinks = [{m.keys[j] for j in np.flatnonzero(m.are_apart)} - {REST} for m in maps if m.chance is not None]
    uneven = {name for of_map in sinks for name in of_map if not all(name in other for other in sinks)}
    names = ", ".join(map(quoted, sorted(uneven)[:4]))
    return f"a sink in some texts alone, and in the others part of a span: {names}" if names else ""


def mean_of(maps: Sequence["AttentionMap"], names: Sequence[Averaged]) -> "tuple[AttentionMap, ...]":
    """Return the mean of each group of maps that differ in nothing but what is averaged.

    Sums are of float64. Each head counts the same, also where layers have different numbers of heads.

    Args:
        maps: the maps.
        names: as ``require_averaged`` returns them.

    Raises:
        ArgumentError: as ``Attention.mean``.
    """
    _require_numbers_with_means(maps, names)
    _require_several(maps, names)
    if "layers" in names and "heads" not in names:
        _require_single_heads(maps)
        names = ("heads", *names)
    groups = _groups(maps, names)
    _require_all_inputs(groups, names)
    return tuple(_mean(group, names) for group in groups)


def _require_numbers_with_means(maps: Sequence["AttentionMap"], names: Sequence[Averaged]) -> None:
    """Raise ArgumentError if the mean of the numbers of a map has no meaning."""
    for m in maps:
        if m.quantity.reduction == "max" and m.is_pooled:
            over = " and ".join(names)
            raise ArgumentError(f"{m.name}: the mean over {over} is not defined for largest weights; pool by mass")
        if m.quantity.through_layers and "layers" in names:
            raise ArgumentError(
                f"{parameter('mean')} layers: a rollout goes through all layers up to its own; leave this out, or "
                f"average weights"
            )


def _require_several(maps: Sequence["AttentionMap"], names: Sequence[Averaged]) -> None:
    """Raise ArgumentError if there are not several texts or passes to average, or texts are called by another name."""
    for name in names:
        own: Averaged = "examples" if maps[0].is_recorded else "sentences"
        if name in _TEXTS and name != own:
            raise ArgumentError(f"{parameter('mean')} {name}: the texts of these maps are {own}; give {own}")
        numbers = {m.sentence if name in _TEXTS else m.pass_number for m in maps}
        if name in ("sentences", "examples", "passes") and len(numbers) < 2:
            chooses = "passes" if name == "passes" else "examples"
            advice = f", or choose several with {parameter(chooses)}" * is_accepted(chooses) * maps[0].is_recorded
            raise ArgumentError(f"{parameter('mean')} {name}: expected several {name}, got 1; leave this out{advice}")


def _require_single_heads(maps: Sequence["AttentionMap"]) -> None:
    """Raise ArgumentError if layers have heads, of which those of one number have nothing in common."""
    for m in maps:
        if not m.quantity.of_all_heads and m.heads != (0,):
            raise ArgumentError(
                f"{parameter('mean')} layers: head {m.heads[-1]} of one layer has nothing to do with head "
                f"{m.heads[-1]} of another; give {parameter('mean')} heads,layers"
            )


def _groups(maps: Sequence["AttentionMap"], names: Sequence[Averaged]) -> list[list["AttentionMap"]]:
    """Group maps by all that is not averaged. Layers are those of modules whose names share a pattern."""
    groups: list[list[AttentionMap]] = []
    alike = defaultdict[Hashable, list[tuple[list["AttentionMap"], set[str]]]](list)  # with names of modules
    for m in maps:
        same: tuple[Hashable, ...] = (
            None if _TEXTS.intersection(names) else m.sentence,
            None if "passes" in names else m.pass_number,
            None if "layers" in names else (m.layer, m.module),
            None if "heads" in names else m.heads,
            tuple(one for one in m.mean_over if one[0] != "heads" or "layers" not in names),
            m.kind,
            m.quantity,
        )
        group, modules = next(
            (one for one in alike[same] if common_name([*one[1], m.module]) is not None), (None, None)
        )
        if group is None or modules is None:
            group, modules = [], set()
            groups.append(group)
            alike[same].append((group, modules))
        group.append(m)
        modules.add(m.module)
    return groups


def _require_all_inputs(groups: Sequence[Sequence["AttentionMap"]], names: Sequence[Averaged]) -> None:
    """Raise ArgumentError if a text or pass lacks a map of the mean, or has it with another mask."""
    inputs = defaultdict[Hashable, dict[Hashable, "AttentionMap"]](dict)  # of each attention
    for group in groups:
        for m in group:
            inputs[_attention(m, names)].setdefault((m.sentence, m.pass_number), m)
    for group in groups:
        of_inputs = _by_input(group)
        layers = {m.layer: m.heads for m in next(iter(of_inputs.values()))}
        for of_input in of_inputs.values():
            if layers != {m.layer: m.heads for m in of_input}:
                raise ArgumentError(
                    f"{parameter('mean')}: expected the same layers and heads in all {_inputs_text(names)}, but "
                    f"{group[0].name} and {of_input[0].name} are of others; choose those that all have"
                )
        for attention in dict.fromkeys(_attention(m, names) for m in group):
            others = inputs[attention]
            if lacking := [m for of_input, m in others.items() if of_input not in of_inputs]:
                raise _not_alike(group[0], lacking[0], "the same mask and heads")


def _attention(m: "AttentionMap", names: Sequence[Averaged]) -> Hashable:
    """Return the place of an attention in the model, and its input as far as this is not averaged."""
    of_text = None if _TEXTS.intersection(names) else m.sentence
    return m.layer, m.module, of_text, None if "passes" in names else m.pass_number


def _inputs_text(names: Sequence[Averaged]) -> str:
    return " and ".join(name for name in names if name not in ("heads", "layers"))


def _by_input(group: Sequence["AttentionMap"]) -> dict[Hashable, list["AttentionMap"]]:
    """Return the maps of each text and pass. Raises ArgumentError if two of them are of one layer."""
    of_inputs = defaultdict[Hashable, list["AttentionMap"]](list)
    for m in group:
        of_inputs[m.sentence, m.pass_number].append(m)
    for of_input in of_inputs.values():
        numbers = [m.layer for m in of_input]
        again = next((m for place, m in enumerate(of_input) if m.layer in numbers[:place]), None)
        calls = calls_text([m.module for m in of_input])
        if again is not None or calls.startswith("calls"):
            of = (
                f"{calls} of {common_name([m.module for m in of_input])}" if again is None else f"two maps {again.name}"
            )
            raise ArgumentError(
                f"{parameter('mean')} layers: it is not known whether {of} are layers, or one layer that reads several "
                f"inputs; leave layers out"
            )
    return of_inputs


def _mean(group: Sequence["AttentionMap"], names: Sequence[Averaged]) -> "AttentionMap":
    """Return the mean of maps that differ in nothing but what is averaged."""
    averages_heads = "heads" in names and not group[0].quantity.of_all_heads
    if len(group) == 1 and not averages_heads:
        return group[0]
    group = with_columns_of_all(group)
    of_inputs = list(_by_input(group).values())
    for of_input in of_inputs:
        for m in of_input[1:]:
            if not (m.rows.is_same(of_input[0].rows) and m.columns.is_same(of_input[0].columns)):
                raise _not_alike(of_input[0], m, "the same tokens", f"choose others by {parameter('layer')}")
        _require_same_lengths(group[0], of_input[0])
    mean = _joined_maps(group, of_inputs, names, averages_heads)
    _require_same_masks(mean, group)
    return mean


def _joined_maps(
    group: Sequence["AttentionMap"],
    of_inputs: Sequence[Sequence["AttentionMap"]],
    names: Sequence[Averaged],
    averages_heads: bool,
) -> "AttentionMap":
    """Return the mean of maps that are alike. ``of_inputs``: the same maps, by text and pass."""
    first, reaches = group[0], {m.reach for m in group}
    numbers: dict[Averaged, int | None] = dict(first.mean_over)
    if averages_heads or "heads" in numbers:
        is_known = None not in {dict(m.mean_over).get("heads", 1) for m in group}
        numbers["heads"] = sum(_n_averaged(m) * len(m.heads) for m in of_inputs[0]) if is_known else None
    if len({m.layer for m in group}) > 1:
        numbers["layers"] = len(of_inputs[0])
    for name in names:
        if name in _TEXTS or name == "passes":
            numbers[name] = len({m.sentence if name in _TEXTS else m.pass_number for m in group})
    quantity = first.quantity
    if averages_heads:
        kept = {name: getattr(quantity, name) for name in ("reduction", "is_signed", "is_change")}
        quantity = replace(MEANS[quantity.key], **kept)
    lacking = next((m for m in group if (m.to_special is None) != (first.to_special is None)), None)
    if lacking is not None:
        raise _not_alike(first, lacking, "special tokens in both, or in neither")
    means: dict[str, Any] = {
        name: _mean_numbers(group, [getattr(m, name) for m in group], averages_heads)
        for name in _NUMBERS
        if getattr(first, name) is not None
    }
    return replace(
        first,
        **means,
        rows=_joined([of_input[0].rows for of_input in of_inputs]),
        columns=_joined([of_input[0].columns for of_input in of_inputs]),
        layer=None if "layers" in numbers else first.layer,
        heads=(0,) if averages_heads else first.heads,
        sentence=None if _TEXTS.intersection(names) else first.sentence,
        quantity=quantity,
        summary=None,
        reach=first.reach if len(reaches) == 1 else None,
        sink=any(m.sink for m in group),
        module=common_name([m.module for m in group]) or "",
        pass_number=None if "passes" in names else first.pass_number,
        queries_and_keys=None,
        windows=(),
        sinks=first.sinks if all(m.sinks == first.sinks for m in group) else None,
        mean_over=tuple((name, numbers[name]) for name in AVERAGED if name in numbers),
    )


_NUMBERS = ("weights", "to_special", "chance", "lookback")
"""Arrays of a map whose first axis is its heads."""


def _n_averaged(m: "AttentionMap") -> int:
    """Return of how many heads each matrix of a map is the mean; 1 where it is not known."""
    return dict(m.mean_over).get("heads") or 1


def _mean_numbers(
    group: Sequence["AttentionMap"], numbers: Sequence[NDArray[np.float32] | None], averages_heads: bool
) -> NDArray[np.float32]:
    """Return the mean of an array of each map, whose first axis is its heads, in which each head counts the same."""
    total: NDArray[np.float64] | float = 0.0
    for m, x in zip(group, numbers, strict=True):
        assert x is not None
        part = x.sum(axis=0, keepdims=True, dtype=np.float64) if averages_heads else x.astype(np.float64)
        total += part * _n_averaged(m)
    n_matrices = sum(_n_averaged(m) * (len(m.heads) if averages_heads else 1) for m in group)
    return np.asarray(total / n_matrices, np.float32)


def _require_same_lengths(first: "AttentionMap", other: "AttentionMap") -> None:
    """Raise ArgumentError unless maps of two texts or passes have the same spans, or as many tokens."""
    for side, plural, one, two in (
        ("query", "queries", first.rows, other.rows),
        ("key", "keys", first.columns, other.columns),
    ):
        if one.tokens.ranges or two.tokens.ranges:
            pairs = zip_longest(one.tokens.texts, two.tokens.texts)
            for place, (name, another) in enumerate(pairs):
                if name != another:
                    got = " and ".join("no span" if text is None else quoted(text) for text in (name, another))
                    raise _not_alike(first, other, "the same spans in the same order", f"{side} {place} is {got}")
        elif len(one.tokens) != len(two.tokens):
            got = f"got {len(one.tokens):,} and {len(two.tokens):,} {plural}"
            advice = f"give {parameter('by')} turn or a file of spans, or texts of one length"
            raise _not_alike(first, other, "texts of one length", f"{got}; {advice}")
        if not np.array_equal(one.edges, two.edges):
            raise _not_alike(
                first, other, "the same cells", f"they differ along the {plural}; pool both in the same way"
            )


def _require_same_masks(mean: "AttentionMap", group: Sequence["AttentionMap"]) -> None:
    """Raise ArgumentError unless the mask of a mean hides what that of each map hides."""
    if mean.chance is not None:  # which knows what is seen
        return
    hidden = _beyond(mean)
    for m in group:
        if not np.array_equal(_beyond(m), hidden):
            other = next((one for one in group if one.reach != m.reach), group[0])
            first, second = (m, other) if m is group[0] else (other, m)
            raise _not_alike(first, second, "the same mask", "the mean of maps with others is not defined")


def _beyond(m: "AttentionMap") -> NDArray[np.bool_]:
    beyond = replace(m, queries_and_keys=None).beyond
    return np.zeros(m.weights.shape[1:], np.bool_) if beyond is None else beyond


def _not_alike(first: "AttentionMap", other: "AttentionMap", expected: str, more: str = "") -> ArgumentError:
    """Return the error that two maps have no mean, which names both."""
    what = f"{first.name}, and {other.name}: expected {expected}"
    return ArgumentError(f"{parameter('mean')}: {what}" + f", {more}" * bool(more))


def _joined(axes: Sequence[Axis]) -> Axis:
    """Return the axis of the mean: labels that all texts share, and positions in place of others.

    Where some labels are shared, a position is written as "#3", and all are spans of one token, which no word joins.
    """
    first, every = axes[0], [axis.tokens for axis in axes]
    if len({*every}) == 1:
        return first
    are_same = [len({*texts}) == 1 for texts in zip(*(tokens.texts for tokens in every), strict=True)]
    texts = tuple(
        text if is_same else f"{' ' * text[:1].isspace()}#{place}" if any(are_same) else f"{place}"
        for place, (text, is_same) in enumerate(zip(first.tokens.texts, are_same, strict=True), first.start)
    )
    special, continued, ids, images, ranges = ({getattr(tokens, name) for tokens in every} for name in _PARTS)
    singles: tuple[Ranges, ...] = tuple(((i, i + 1),) for i in range(len(texts)))
    has_spans = any(ranges) or (any(are_same) and not all(are_same))
    tokens = Tokens(
        texts,
        tuple(sorted(set.intersection(*map(set, special)))),
        first.tokens.ids if len(ids) == 1 else (),
        first.tokens.images if len(images) == len(special) == 1 else (),
        first.tokens.continued if len(continued) == 1 and all(are_same) else (),
        (first.tokens.ranges if len(ranges) == 1 and any(ranges) else singles) if has_spans else (),
    )
    return replace(first, tokens=tokens)


_PARTS = ("special", "continued", "ids", "images", "ranges")

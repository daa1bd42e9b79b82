"""Titles of maps, and texts that explain how to read them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted
from mhaviz.inputs.patches import PATCH_NAME
from mhaviz.inputs.tokens import KIND_NAMES, OF_ONE_TEXT, Kind
from mhaviz.pages.blocks import Drawn, Title
from mhaviz.pages.labels import bare, cut, harmless, in_quotes, visible
from mhaviz.pages.numbers import percent
from mhaviz.pages.panels import SCORE
from mhaviz.pages.words import attention_title, patch_text
from mhaviz.results.attention import ROUNDING, Attention, AttentionMap, head_name
from mhaviz.results.axis import Axis
from mhaviz.results.means import mean_text
from mhaviz.results.quantity import WEIGHT, Cells
from mhaviz.results.sinks import PooledSink, Sinks, pooled_sinks
from mhaviz.units import with_minus

_TOKEN, _MOST_TEXTS = 16, 4  # most cells of the name of a sink, and texts whose sinks are said one by one
_ONE = "a row sums to 1"


def scores_reading(drawn: Drawn) -> str:
    """Return how to read pictures of scores and of weights, as far as a renderer has drawn them."""
    sides = "rows are queries, columns keys" * drawn.shows(SCORE, WEIGHT.name)
    return "; ".join(filter(None, [sides, "a row of a softmax sums to 1" * drawn.shows(WEIGHT.name)]))


def reading_text(attention: Attention, drawn: Drawn) -> str:
    """Return how to read these maps as a renderer has drawn them."""
    maps = drawn.maps(attention.maps)
    if not maps:
        return attention.source.remark
    name = WEIGHT.name if any(m.quantity.key == WEIGHT.key for m in maps) else maps[0].quantity.name
    sides = dict.fromkeys("queries" if m.quantity.row == "query" else f"{m.quantity.row}s" for m in maps)
    parts = [f"rows are {' or '.join(sides)}, columns keys"]
    if any(drawn.pooled) or any(not m.is_whole for m in maps):
        kinds = [f"{text} {name}s" for text in dict.fromkeys(filter(None, drawn.pooled))]
        if not all(drawn.pooled):
            kinds = [f"in long maps, {text}" for text in kinds]
        parts += [*kinds, cells_texts(drawn.cells, name)]
        if any(m.sink for m in maps):
            parts.append("what goes to no key goes to the head's sink")
    elif all(m.quantity.has_row_sums for m in maps):
        parts.append(sums_text(maps))
    parts += [_spans_text(maps), _special_text(maps)]
    parts += sinks_texts(maps, drawn.sinks) if drawn.sinks else []
    parts += dict.fromkeys(m.quantity.remark for m in maps)
    parts += [hidden_text(maps, drawn.hidden), attention.source.remark]
    return "; ".join(filter(None, parts))


def bars_reading(attention: Attention) -> str:
    """Return how to read bars, each of a key."""
    maps = attention.maps
    parts = [_spans_text(maps), _special_text(maps), *dict.fromkeys(m.quantity.remark for m in maps)]
    return "; ".join(filter(None, [*parts, attention.source.remark]))


def sums_text(maps: Sequence[AttentionMap]) -> str:
    """Return "a row sums to 1", or "rows sum to between 0.98 and 2.00", with the number of rows that are zeros.

    Where heads have sinks, it says that the rest goes to them.
    """
    maps = [m for m in maps if m.to_special is None]
    sums = [m.row_sums.ravel() for m in maps if not m.sink]
    others = _sums_of_rows(np.concatenate(sums)) if sums else ""
    if len(sums) == len(maps):
        return others
    where = " of layers with sinks" if others else ""
    to_sinks = f"a row{where} sums to less than 1, the rest goes to the head's sink"
    return "; ".join(filter(None, [others, to_sinks]))


def _sums_of_rows(sums: NDArray[np.float64]) -> str:
    """Return "a row sums to 1", or the range of these sums of rows."""
    sums = sums[np.isfinite(sums)]  # the sum is NaN where a weight is missing
    others = sums[sums != 0]
    zeros = len(sums) - len(others)
    if not others.size:
        return "all weights are 0"
    low, high = float(others.min()), float(others.max())
    is_one = low >= 1 - ROUNDING and high <= 1 + ROUNDING
    text = _ONE if is_one else f"rows sum to {_sums_range(low, high)}"
    return text + f", but {zeros:,} of {len(sums):,} to 0" * bool(zeros)


def _spans_text(maps: Sequence[AttentionMap]) -> str:
    """Return how weights of spans are made of those of tokens; "" without spans of several."""
    most = max((n for m in maps for axis in (m.rows, m.columns) for n in axis.tokens.counts), default=1)
    joined = f"a key has the sum over its tokens, a query the mean over its tokens; ({most}): of {most:,} tokens"
    return joined * (most > 1)


def _special_text(maps: Sequence[AttentionMap]) -> str:
    """Return "0.42 of a row goes to special tokens, on average"; "" where special tokens are drawn."""
    shares = [m.to_special for m in maps if m.to_special is not None]
    if not shares:
        return ""
    return with_minus(f"{np.concatenate(shares).mean():.2g}") + " of a row goes to special tokens, on average"


def sinks_texts(maps: Sequence[AttentionMap], look: str = "") -> list[str]:
    """Return "sink: [CLS] 47% of the weight of 12 heads (7.5 × uniform; next: tired 0.9)" for a text, and for a few
    texts each, in order; for many, one line for all. Of a pooled map it says that the sink does not stand apart.

    ``look``: how sinks that stand apart look.
    """
    of_texts = defaultdict[tuple[int | None, Kind], list[AttentionMap]](list)
    for m in maps:
        of_texts[m.sentence, _kind_before(m)].append(m)
    apart = {text: alike[0].sinks for text, alike in of_texts.items() if alike[0].sinks}
    pooled = {text: sinks for text, alike in of_texts.items() if (sinks := pooled_sinks(alike)[0])}
    said, end = [len({text[part] for text in of_texts}) > 1 for part in range(2)], f", {look}" * bool(look)
    texts = {text: _sinks_text(sinks, _weight_text(of_texts[text])) + end for text, sinks in apart.items()}
    texts |= {text: _pooled_sinks_text(sinks, _weight_text(of_texts[text])) for text, sinks in pooled.items()}
    if len(texts) <= _MOST_TEXTS:
        names = {
            text: [f"{m.text_name} {text[0]}"] * said[0] + [text[1]] * said[1] for text, (m, *_) in of_texts.items()
        }
        return [", ".join([*names[text], texts[text]]) for text in of_texts if text in texts]
    lines = []
    if apart:
        tokens = dict.fromkeys(_sink_name(one.token) for sinks in apart.values() for one in sinks.sinks)
        share = sum(one.share for sinks in apart.values() for one in sinks.sinks) / len(apart)
        listed = ", ".join(list(tokens)[:_MOST_TEXTS]) + ", …" * (len(tokens) > _MOST_TEXTS)
        where = f"in {len(apart):,} of {len(of_texts):,} texts"
        lines.append(f"sinks: {listed} {where}, {percent(share)} of {_weight_text(maps)} on average{end}")
    if pooled:
        lines.append(f"pooled: sinks not apart in {len(pooled):,} of {len(of_texts):,} texts")
    return lines


def _kind_before(m: AttentionMap) -> Kind:
    """Return the kind of a map, also of one whose rows are the heads of a query, which its title has."""
    if m.quantity.row == "query":
        return m.kind
    named = (kind for kind, name in KIND_NAMES.items() if m.quantity.title_prefix.endswith(name))
    return max(named, key=lambda kind: len(KIND_NAMES[kind]), default=m.kind)


def _weight_text(maps: Sequence[AttentionMap]) -> str:
    """Return of what the share of a sink is: "the weight of L3 H11", or of "12 heads", of which a picture may have
    fewer; "the weight of all queries" beside a single query, with the sinks of all."""
    of_heads = [m for m in maps if m.quantity.key == WEIGHT.key]
    if any(m.quantity.row != "query" or (m.sinks and m.rows.cells is not None) for m in maps):
        return f"the {'' if of_heads else 'mean '}weight of all queries"
    names = {(m.layer, m.module, head): head_name(m.layer, head) for m in of_heads for head in m.heads}
    if not names:
        return "the mean weight"
    return f"the weight of {counted(len(names), 'head') if len(names) > 1 else next(iter(names.values()))}"


def _pooled_sinks_text(sinks: Sequence[PooledSink], weight: str) -> str:
    of_each = [f"{_sink_name(one.token)}, {percent(one.share)}" for one in sinks]
    several = "s" * (len(sinks) > 1)
    return f"sink{several}: in the column{several} of {', and '.join(of_each)} of {weight}; pooled, so not apart"


def _sink_name(token: str) -> str:
    return in_quotes(cut(visible(bare(token)), _TOKEN))


def _sinks_text(sinks: Sinks, weight: str) -> str:
    of_each = [
        f"{_sink_name(one.token)} {percent(one.share)}{f' of {weight}' * (not i)} ({one.times_uniform:.1f} × uniform"
        for i, one in enumerate(sinks.sinks)
    ]
    following = f"next: {_sink_name(sinks.next_token)} {sinks.next_times_uniform:.1f})"
    return f"sink{'s' * (len(of_each) > 1)}: {'), '.join(of_each)}; {following}"


def _sums_range(low: float, high: float) -> str:
    decimals = 3 if f"{low:.2f}" == f"{high:.2f}" == "1.00" else 2  # some differ from 1 by more than ROUNDING
    ends = [f"{end:,.{decimals}f}" for end in (low, high)]
    return f"between {ends[0]} and {ends[1]}" if ends[0] != ends[1] else ends[0]


def hidden_text(maps: Sequence[AttentionMap], mark: str) -> str:
    """Return which keys are hidden in these maps; "" if none is. ``mark``: how a hidden cell looks."""
    windows: list[AttentionMap] = []
    others: list[AttentionMap] = []
    for m in maps:
        (windows if _window_hides(m) else others).append(m)
    is_causal = any(m.kind == "masked" for m in maps)
    though = _weighed_beyond_text(maps)
    if not windows:
        return f"{mark}: later keys, hidden{though}" * is_causal
    reaches = sorted({m.reach for m in windows if m.reach is not None})
    unit = "token" if any(m.has_spans for m in windows) else "position"
    where = f"more than {' or '.join(f'{r:,}' for r in reaches)} {unit}{'s' * (reaches != [1])} away"
    if others:
        layers = sorted({m.layer for m in windows if m.layer is not None})
        named = "some maps"
        if layers and not {m.layer for m in others} & set(layers):
            named = layers_text(layers) if len(layers) <= _MOST_LAYERS else "some layers"
        where = f"{where} in {named}"
    return f"{mark}: hidden keys, {('later, or ' if others else 'later or ') * is_causal}{where}{though}"


def _weighed_beyond_text(maps: Sequence[AttentionMap]) -> str:
    """Return ", though 1 of 6 rows gives weight to some"; "" where masks hide what they are meant to."""
    several = [m.weighed_beyond for m in maps if m.weighed_beyond is not None]
    n_rows = sum(int(cells.any(axis=1).sum()) for cells in several)
    give = f"{n_rows:,} of {sum(len(cells) for cells in several):,} rows give{'s' * (n_rows == 1)} weight to some"
    return f", though {give}" if n_rows else ""


_MOST_LAYERS = 6  # most layers that are named one by one


def layers_text(layers: Sequence[int]) -> str:
    """Return "layer 3", "layers 0 to 5", "layers 0, 2, 4"; "" for none, as of a mean over layers."""
    if not layers:
        return ""
    if len(layers) == 1:
        return f"layer {layers[0]}"
    if list(layers) == list(range(layers[0], layers[0] + len(layers))):
        return f"layers {layers[0]} to {layers[-1]}"
    return f"layers {', '.join(map(str, layers))}"


def passes_text(passes: Sequence[int | None]) -> str:
    """Return "pass 100", "passes 0 to 5", "passes 0, 100, 200", "21 passes from 0 to 2,000"."""
    numbers = [number for number in passes if number is not None]
    if len(numbers) == 1:
        return f"pass {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return f"passes {numbers[0]} to {numbers[-1]}"
    if len(numbers) <= _MOST_LAYERS:
        return f"passes {', '.join(map(str, numbers))}"
    return f"{len(numbers):,} passes from {min(numbers):,} to {max(numbers):,}"


def _window_hides(m: AttentionMap) -> bool:
    """Return whether the window hides some cell that would be visible without it."""
    if m.reach is None or m.beyond is None:
        return False
    without = replace(m, reach=None).beyond
    return bool((m.beyond if without is None else m.beyond & ~without).any())


def cells_texts(several: Sequence[Cells], name: str = "weight") -> str:
    """Return what the cells of several maps show; "" if each is one number. ``name``: name of the numbers."""
    kinds = list(dict.fromkeys(filter(None, (cells_text(cells, name) for cells in several))))
    if any(cells.are_tokens for cells in several):
        kinds = [f"in long maps, {text}" for text in kinds]
    if len({cells.quantity.reduction for cells in several if not cells.are_tokens}) > 1:
        first, other = "each cell is the largest of", f"of largest {name}s, it is the largest of"
        kinds = [text.replace(first, other).removesuffix(f" {name}s") for text in kinds]
    return "; ".join(kinds)


def cells_text(cells: Cells, name: str = "weight") -> str:
    """Return what a cell of a pooled map shows; "" if it is one number. ``name``: name of the numbers."""
    if cells.are_tokens:
        return ""
    tallest, widest = cells.rows.widest, cells.columns.widest
    if cells.quantity.reduction == "max":
        return f"each cell is the largest of up to {tallest:,} × {widest:,} {name}s"
    keys = f"up to {widest:,} keys" if widest > 1 else "a key"
    is_sum = widest > 1 and not cells.quantity.is_distribution  # of norms, not the norm of a sum
    if tallest == 1:
        own = f"the sum of a query's {name}s" if is_sum else f"a query's {name}"
        return f"each cell is {own} on {keys}"
    their = f"the sum of their {name}s" if is_sum else f"their {name}"
    return f"each cell is the mean over up to {tallest:,} queries of {their} on {keys}"


def pooled_text(q_length: int, k_length: int, rows: int, columns: int) -> str:
    """Return what a cell shows if it stands for several queries or keys; otherwise ""."""
    if rows >= q_length and columns >= k_length:
        return ""
    sides = [side for side in (-(-q_length // rows), -(-k_length // columns)) if side > 1]
    return f"each cell is the strongest of up to {' × '.join(map(str, sides))}"


def map_title(m: AttentionMap, model: str, layers: str = "", with_pass: bool = True) -> Title:
    """Return the title of a map, "self-attention, minilm, layer 3, pass 100, example 2: 17 tokens".

    ``layers``: names the layers, if needed; ``with_pass``: name the forward pass.
    """
    which = [layers, f"pass {m.pass_number}" if with_pass and m.pass_number is not None else ""]
    are_numbers = all(text.isdecimal() for axis in (m.rows, m.columns) for text in axis.tokens.texts)
    if m.sentence is not None and (m.is_recorded or are_numbers):  # positions are the same in all examples
        which.append(f"{m.text_name} {m.sentence}")
    about = "".join(f", {one}" for one in which if one) + _part_text(m)
    named = f", {harmless(model)}{about}" if model else about
    prefix = m.title_prefix
    if m.quantity.row != "query":
        query, _, what = prefix.rpartition(", ")
        kind = _kind_before(m)
        short = f"{query}, {kind}" if KIND_NAMES[kind] == what and kind != "other" else prefix
        keys = "keys" * m.columns.tokens.are_positions  # of the tokens, those that the query sees
        return Title(prefix + named, ((keys, m.columns.tokens),), short + about)
    title = attention_title(m.kind, m.rows.tokens, m.columns.tokens, named, prefix, about)  # the footnote has the model
    if mean := mean_text(m.mean_over, with_heads=False):  # which heads, the footnote has too
        return replace(title, short=f"{mean}, {m.quantity.title_prefix}{title.short.removeprefix(prefix)}")
    return title


def _part_text(attention_map: AttentionMap) -> str:
    """Return which part of a map is shown, and with which reduction; "" if it is all of it."""
    m = attention_map
    if m.is_whole:
        return ""
    runs = [(("query", "queries"), m.rows), (("key", "keys"), m.columns)]
    if m.quantity.row != "query":
        runs = runs[1:] if m.columns.start else []
    if (m.rows.start, m.rows.end) == (m.columns.start, m.columns.end) and m.kind in OF_ONE_TEXT:
        runs = [(("token", "tokens"), m.rows)]
    are_counted = [axis.start == 0 and axis.tokens.are_positions for _, axis in runs]  # the title gives their number
    where = "" if all(are_counted) else "".join(f", {_run(*names, axis)}" for names, axis in runs)
    by = {"mass": "", "max": f", largest {m.quantity.name}s"}[m.quantity.reduction]
    return by + where


def _run(one: str, several: str, axis: Axis) -> str:
    if axis.end - axis.start == 1:
        if patch := PATCH_NAME.fullmatch(axis.tokens.texts[0]):
            return patch_text(patch)
        return f"{one} {axis.start:,}"
    return f"{several} {axis.start:,} to {axis.end - 1:,}"

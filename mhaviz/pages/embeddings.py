"""Pages of embeddings and of positional encodings: matrices of features, and the similarity of their rows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.blocks import (
    Block,
    Column,
    Curves,
    Drawn,
    Matrices,
    Page,
    Plot,
    PlotAxis,
    Series,
    Stacks,
    Table,
    Text,
    Title,
)
from mhaviz.pages.colormaps import DIVERGING
from mhaviz.pages.labels import quoted
from mhaviz.pages.numbers import fixed
from mhaviz.pages.panels import Panel, Scale, end_of_scale
from mhaviz.pages.registry import shown
from mhaviz.results.axis import Axis
from mhaviz.results.embeddings import EmbeddedText, InputPart, PositionTable, Within

_NEAR = 3.0  # largest ratio of two scales that are made one
_QUOTED = 24  # characters of a token
_MOST_FEATURES = 64  # features drawn, from the first: a column for each, so that no sine and cosine share one

_MOST_DISTANCES = 16  # rows of the cosines by distance

_CONSTANT = ("T", "U")  # symbols of parts that may be the same for every token

_UNIT = Scale(DIVERGING, -1.0, 1.0, zeros=True, name="cosine")
"""Scale of cosines and sines."""

_ADDED = (
    "Positions are sines and cosines that are added to E: feature 2i of position p is sin(p / 10000^(2i/d_model)), "
    "feature 2i+1 the cosine of the same (Vaswani et al. 2017, section 3.5)."
)
_WITHIN: dict[Within, str] = {
    "rotary": "each attention rotates its queries and keys by their positions (rotary, Su et al. 2021)",
    "distance": "the attention adds a learned number for each distance to its scores (Raffel et al. 2020)",
    "alibi": "the attention subtracts a penalty for the distance from its scores (ALiBi, Press et al. 2022)",
}


@shown(EmbeddedText)
def embeddings_page(e: EmbeddedText) -> Page:
    """Return the page: the parts and X side by side, the cosines of their rows, and the tokens with ids."""
    reader = "what the decoder" if e.is_target else "what the first layer"
    head = f"{reader} reads, {e.source.model}"
    title: Title | str = Title(head, (("", e.tokens),), "input")
    blocks: list[Block] = []
    shown = [part for part in e.parts if not _is_one_row(part)]
    for n_features, parts in groupby(shown, lambda part: part.values.shape[1]):
        title = f"the same in {n_features:,} features" if blocks else title
        blocks.append(_features(title, tuple(parts), e))
    cosines = tuple(Panel(f"of {part.symbol}", part.cosines, _UNIT) for part in shown)
    title, tokens = "similarity of every two tokens: the cosine of their rows", Axis(e.tokens)
    blocks.append(Matrices(title, cosines, tokens, tokens, len(cosines)))
    blocks.append(Text(tuple(_sentences(e))))
    return Page(
        "",
        tuple(blocks),
        e.source.footnote,
        lambda drawn: _reading("tokens", drawn, e.source.remark, ids="beside a token: its id"),
    )


@shown(PositionTable)
def position_table_page(table: PositionTable) -> Page:
    """Return the page: the encodings of all positions, and the cosines of every two."""
    length, d_model = table.values.shape
    positions = Axis.numbered(length)
    title = "positional encoding: sines and cosines"
    equation = "PE[p, 2i] = sin(p / 10000^(2i/d_model)), PE[p, 2i+1] = cos(same)"
    panel = _panel("PE", equation, table.values, replace(_UNIT, name="PE"))
    cosines = Panel("cosine of every two rows", table.cosines, _UNIT)
    blocks: tuple[Block, ...] = (
        Matrices("", (panel,), positions, Axis.numbered(panel.values.shape[1]), 1, ("position", "feature")),
        Stacks(
            (Matrices("", (cosines,), positions, positions, 1, ("position", "position")),),
            (*_by_distance(table), Text(tuple(_turning_sentences(d_model)))),
        ),
    )
    return Page(title, blocks, table.source.footnote, lambda drawn: _reading("positions", drawn))


def _by_distance(table: PositionTable) -> Iterator[Curves]:
    """Yield the plot of the cosine of position 0 and each other; where d_model is even, of any two so far apart.

    With a single feature, a sine, position 0 has no direction and no cosine.
    """
    if table.values.shape[1] < 2:
        return
    distances, cosines = range(len(table.cosines)), tuple(map(float, table.cosines[0]))
    title = "cosine of positions 0 and p"
    plot = Plot(title, (Series("", tuple(map(float, distances)), cosines, 2),), PlotAxis("p"), PlotAxis())
    columns = Column("p", "{:,}".format, is_key=True), Column(title, "{:.2f}".format)
    yield Curves((plot,), Table(columns, tuple(zip(distances, cosines, strict=True)), most=_MOST_DISTANCES))


def _turning_sentences(d_model: int) -> Iterator[str]:
    """Explain the features of sinusoids, and why they distinguish positions."""
    slowest = 2 * np.pi * 10000 ** ((d_model - 1) // 2 * 2 / d_model)
    last = f", the last once in {slowest:,.0f}" if d_model > 2 else ""
    yield f"Each pair of features turns as p grows: the first pair goes round once in {2 * np.pi:.2f} positions{last}."
    if d_model % 2 == 0:
        yield (
            "So the cosine of two positions depends on their distance alone, and so does PE PEᵀ, which is d_model / 2 "
            "times as much (Vaswani et al. 2017, section 3.5)."
        )


def _features(title: Title | str, parts: Sequence[InputPart], e: EmbeddedText) -> Matrices:
    """Return a block of parts with equally many features, each on its scale."""
    scales = _scales(e.parts)
    panels = tuple(_panel(part.symbol, part.equation, part.values, scales[part.symbol]) for part in parts)
    return Matrices(
        title, panels, Axis(e.tokens), Axis.numbered(panels[0].values.shape[1]), len(panels), ids=e.tokens.ids
    )


def _panel(symbol: str, equation: str, values: NDArray[np.float32], scale: Scale) -> Panel:
    """Return a panel of the first features of a matrix; its title says the shape of the whole."""
    length, n_features = values.shape
    some = f"first {_MOST_FEATURES} of " if n_features > _MOST_FEATURES else ""
    shape = f"   ({length:,}, {some}{n_features:,})"
    return Panel(equation + shape, values[:, :_MOST_FEATURES], scale, short=symbol + shape)


def _scales(parts: Sequence[InputPart]) -> dict[str, Scale]:
    """Return the scale of each part: one for all before X, and for X, too, unless its numbers are of another size."""
    *before, X = (part.values for part in parts)
    of_parts, of_X = end_of_scale(before or [X]), end_of_scale([X])
    if 1 / _NEAR <= of_X / of_parts <= _NEAR:
        of_parts = of_X = end_of_scale([*before, X])
    ends = dict.fromkeys((part.symbol for part in parts), of_parts) | {parts[-1].symbol: of_X}
    names = {end: ", ".join(symbol for symbol in ends if ends[symbol] == end) for end in ends.values()}
    return {symbol: Scale(DIVERGING, -end, end, name=names[end]) for symbol, end in ends.items()}


def _is_one_row(part: InputPart) -> bool:
    """Return whether a part has the same row for every token, as token types of a single text do; it is not drawn."""
    return part.symbol in _CONSTANT and bool((part.values == part.values[0]).all())


def _reading(rows: str, drawn: Drawn, *remarks: str, ids: str = "") -> str:
    """Return how to read the pictures; ``ids``: what stands beside rows of features."""
    are_features, are_cosines = drawn.scales is None or bool(drawn.scales - {_UNIT.name}), drawn.shows(_UNIT.name)
    sides = f"rows are {rows}, columns features" if are_features else f"rows and columns are {rows}"
    sides += f"; in cosines both are {rows}" * (are_features and are_cosines)
    return "; ".join(dict.fromkeys(filter(None, [sides, *drawn.pooled, ids * are_features, *remarks])))


def _sentences(e: EmbeddedText) -> Iterator[str]:
    """Explain what X is, how the model knows positions, and how these change a token that occurs twice."""
    is_E, within = len(e.parts) == 1, " and ".join(_WITHIN[kind] for kind in e.within)
    if e.added:
        yield _ADDED
    elif not is_E:
        yield "X is what the first layer reads; how the model computes it is not shown."
    if within:
        yield f"No position is added: {within}." if is_E else f"{within[0].upper()}{within[1:]}."
    elif is_E:
        yield "No position is added: if the model knows positions, it is through its attention."
    for part in filter(_is_one_row, e.parts):
        yield f"{part.equation}: the same row for every token, which is not drawn."
    lengths = [f"{part.symbol} {part.norms.mean():.3g}" for part in e.parts]
    yield f"Mean norm of a row: {', '.join(lengths)}."
    if e.repeated is not None:
        first, second = e.repeated
        texts = (f"“{quoted(e.tokens.texts[i], _QUOTED)}” at {i}" for i in e.repeated)  # one token: "The" and "the"
        again = f"{' and '.join(texts)} have the same row of E"
        X = e.parts[-1]
        if np.array_equal(X.values[first], X.values[second]):
            yield f"{again}, and of X."
        else:
            yield f"{again}; their rows of X have the cosine {fixed(X.cosines[first, second], 2)}."

"""Small matrices as tiles: far enough apart for their titles, and fewer side by side where room is short."""

import math
from dataclasses import replace

from mhaviz.pages.blocks import Matrices
from mhaviz.results.axis import Axis
from mhaviz.views.measures import BODY, DRAWN_WIDER, SMALL, snap
from mhaviz.views.tiles.fit import LEAST_PITCH, THUMB, VALUES_UP_TO, Space, balanced, lay_out
from mhaviz.views.tiles.labels import LEAST_LABEL, Ruler, widest
from mhaviz.views.tiles.layout import GAP, Layout
from mhaviz.views.tiles.room import Room

_LEAST_WIDE = 1.0  # most inches of a panel's title beside others, where the page has a width
_WIDEST, _NARROWEST, _HIGHEST = {1: 6.84, 2: 4.5, 3: 3.6}, 2.8, 4.6  # inches: most of a panel, by panels side by side
_LEAST_FEATURE, _LEAST_LABELLED, _LEAST_NUMBERED = 0.02, 0.1, 0.335  # least inches of a cell, with label, with number
_INTO_LINES = 1.1  # most width of a number that stands alone / width of its cell
_HIGHEST_FEATURES = 4.0  # most inches of a panel of features, down
_OF_FEATURES, _OF_NUMBERS = (0.14, 0.2), (0.27, 0.42)  # most inches of a feature's cell, without and with a number
# In a grid: most inches of features across and down, and of tokens; inches of a row with numbers; digits of a number
_SIDE_BY_SIDE, _HIGH, _TOKENS, _ROW, _NUMBER = 10.4, 1.2, 2.8, 0.22, 5
_ABREAST = 0.6  # squeeze from which on matrices stand side by side; below it, cells with numbers are narrower, too
_LEAST_ROW = 0.17  # inches of a row with numbers of the least size
_NARROW_CELL, _NARROW_ROW = 0.3, 0.11  # most inches of a cell on a narrow page, and of a row of features
_AFTER_IDS = 0.12  # inches


def panels_layout(block: Matrices, room: Room) -> Layout:
    """Lay out small matrices, with titles over each, and with room for a column of token ids if there are any."""
    style, ruler, panels, across = room.style, room.ruler, block.panels, block.most_across
    titles = max(ruler.width(panel.title, SMALL, bold=True) for panel in panels) * DRAWN_WIDER
    space = Space(ruler, style.pixels, names=block.names)
    is_whole_page = style.heads_height is not None and style.room is None  # which no other page can relieve
    alike = block.alike or ((block.rows, block.columns),)
    labels = max(widest(ruler, ruler.labels(rows.tokens.texts), BODY) for rows, _ in alike) + space.beside_name
    labels += ids_width(block, BODY, ruler) + _AFTER_IDS if block.ids else 0.0
    width = room.style.across - labels - room.taken
    is_numbered = style.width is None and max(len(block.rows), len(block.columns)) <= VALUES_UP_TO
    is_numbered &= any(panel.numbers == "all" for panel in panels)
    are_features = block.columns.are_positions and not block.rows.are_same(block.columns)
    least_cell = _LEAST_FEATURE if are_features else _LEAST_NUMBERED if is_numbered else _LEAST_LABELLED
    least = len(block.columns) * least_cell
    if style.width is None:
        most_wide = min(max(width / across - GAP, least, titles), _WIDEST.get(across, _NARROWEST))
    else:
        wanted = 0.0 if block.columns.are_positions else len(block.columns) * LEAST_PITCH  # a label for each
        least = THUMB if is_whole_page else max(min(least, wanted), min(titles, _LEAST_WIDE), THUMB)
        across = max((n for n in range(1, across + 1) if width / n - GAP >= least), default=1)
        across = balanced(across, block.most_across)
        most = math.inf if are_features or not style.is_narrow else len(block.columns) * _NARROW_CELL
        most_wide = max(min(width / across - GAP, most), THUMB)
    n_lines = -(-len(panels) // across)
    space = replace(space, columns=across, height=n_lines * _HIGHEST, width=labels + across * (most_wide + GAP))
    if are_features:  # a row is as high as a label
        n_rows, n_columns = len(block.rows), len(block.columns)
        high, wide = _OF_NUMBERS if max(n_rows, n_columns) <= VALUES_UP_TO else _OF_FEATURES
        high = max(high * style.squeeze, min(high, _LEAST_ROW))
        high = min(high, _HIGHEST_FEATURES / n_rows, _NARROW_ROW if style.is_narrow else high)
        space = replace(space, shape=(high, min(wide, most_wide / n_columns)))
    text_length = max(panel.text_length for panel in panels)
    if room.in_line:
        most_wide = _WIDEST.get(room.in_line, _SIDE_BY_SIDE / room.in_line)
        feature = _OF_FEATURES[0] / min(room.in_line, 2)
        numbered = _LEAST_NUMBERED if style.is_narrow and style.squeeze < _ABREAST else _OF_NUMBERS[1]
        shape = (
            _in_line(block.rows, max(_ROW * style.squeeze, _LEAST_ROW), min(feature, _HIGH / len(block.rows))),
            _in_line(block.columns, numbered, min(feature, most_wide / len(block.columns))),
        )
        if style.width is not None:  # as wide as the page, where it stands alone
            width, abreast = max(width, THUMB), block.most_across
            beside = (width / abreast - GAP) / len(block.columns)
            if style.squeeze <= _ABREAST and _LEAST_LABELLED <= beside < shape[1]:  # rather than their numbers
                shape, across = (shape[0], beside), abreast
            else:
                shape = shape[0], min(shape[1], width / len(block.columns))
                most = max(int(width / (max(titles, shape[1] * len(block.columns)) + GAP)), 1)
                across = balanced(min(most, abreast), abreast)
        columns = across if style.width else block.most_across
        space = Space(ruler, style.pixels, columns, least_tile=math.inf, names=("", ""), shape=shape)
        text_length = max(text_length, _NUMBER)
    space = replace(space, text_length=text_length)
    if len(alike) > 1:
        layouts = [lay_out(len(panels), *axes, space) for axes in alike]
        left, size = max(one.queries.room for one in layouts), min(one.label_size for one in layouts)
        space = replace(space, left=left, most_label=size)
    layout = lay_out(len(panels), block.rows, block.columns, space)
    if found := [text for panel in panels if panel.numbers == "outlined" for text in panel.outlined_numbers()]:
        has_room = max(ruler.width(text, LEAST_LABEL) for text in found) <= _INTO_LINES * layout.keys.cell
        layout = replace(layout, value_size=LEAST_LABEL if has_room else None)
    if block.ids:
        left = snap(layout.queries.room + ids_width(block, layout.label_size, ruler) + _AFTER_IDS, style.pixels)
        layout = replace(layout, queries=replace(layout.queries, room=left))
    pitch = titles + GAP
    return layout.spread(pitch if style.width is None else min(pitch, width / across))


def _in_line(axis: Axis, with_number: float, feature: float) -> float:
    """Return the inches of a cell along an axis in a grid: with a number, of a feature, or of a token."""
    if len(axis) <= VALUES_UP_TO:
        return with_number
    return feature if axis.are_positions else min(_OF_FEATURES[0], _TOKENS / len(axis))


def ids_width(block: Matrices, size: float, ruler: Ruler) -> float:
    """Return the inches of the column of token ids."""
    return max(ruler.width(text, size) for text in ("id", *map(str, block.ids)))

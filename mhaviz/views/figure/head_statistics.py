"""What every head looks at, as a figure: a layers × heads panel of each number, a block for each kind of attention."""

from dataclasses import dataclass

from mhaviz.pages.head_statistics import (
    COLUMNS,
    counts_text,
    known_columns,
    left_out_text,
    notes,
    reading_text,
    title,
)
from mhaviz.records import Axis, HeadAverages, HeadStatistics
from mhaviz.views.figure.lettering import Lettering
from mhaviz.views.figure.mosaic import BESIDE, GAP, MosaicLayout, Space, decide_mosaic, draw_mosaic, draw_scale
from mhaviz.views.figure.sheet import (
    DRAWN_WIDER,
    MARGIN,
    QUIET,
    SMALL,
    TITLE,
    Sheet,
    foot_height,
    redraw_coarser,
    snap,
    text_width,
    wrap,
)
from mhaviz.views.head_statistics import named_scales, panels, scales
from mhaviz.views.look import Look
from mhaviz.views.panels import Panel

_TITLE, _LINE, _BETWEEN = 0.3, 0.15, 0.25  # inches: over a block, of the notes, after a block
_SCALE_WIDTH = 0.85  # inches, the numbers and the name beside the bar included
_LEAST_BAR, _MOST_BAR = 0.6, 2.5
_SCALE_NAME = 0.4  # inches, for the name over a bar and the gap to the one above
_MOST_WIDTH, _LEAST_WIDTH = 15.0, 5.5  # inches; what is narrower has no room for the notes
_COLUMNS = 5  # tiles side by side where several kinds are to have cells of one size


@dataclass(frozen=True)
class _Block:
    """A kind of attention: its panels, and how they stand."""

    title: str
    panels: list[Panel]
    layout: MosaicLayout

    @property
    def height(self) -> float:
        """In inches, with its title and what is between it and the next."""
        return _TITLE + self.layout.height + _BETWEEN


def head_statistics_figure(statistics: HeadStatistics, look: Look | None = None) -> Sheet:
    """Draw the means of all numbers; weights share one scale, from 0 to 1, entropy and distance have their own."""
    return redraw_coarser(lambda coarser: _sheet(statistics, coarser), look or Look())


def _sheet(s: HeadStatistics, look: Look) -> Sheet:
    blocks = [_block(s, kind, look) for kind in s.kinds]
    bars = named_scales(s, look.cmap)
    remark = "; ".join(filter(None, [reading_text(s), left_out_text(s)]))

    titles = [text_width(block.title, TITLE, bold=True) for block in blocks]
    beside = max([*(block.layout.width for block in blocks), *titles[1:]]) + BESIDE  # the first stands above the bars
    width = 2 * MARGIN + max(beside + _SCALE_WIDTH, titles[0], _LEAST_WIDTH)
    texts_below = filter(None, [counts_text(s), notes(known_columns(s.kinds))])
    lines = [line for text in texts_below for line in wrap(text, width - 2 * MARGIN, SMALL)]
    blocks_height = sum(block.height for block in blocks)
    top = _TITLE + blocks[0].layout.tile(0)[1]
    cells = blocks_height - _BETWEEN - blocks[-1].layout.keys.room - top  # from the first row of cells to the last
    bar = min(max((cells + _SCALE_NAME) / len(bars) - _SCALE_NAME, _LEAST_BAR), _MOST_BAR)
    pictures = max(blocks_height, top + len(bars) * (bar + _SCALE_NAME))
    foot = foot_height(width, s.source.footnote, remark)
    height = 2 * MARGIN + pictures + _LINE * len(lines) + 0.1 + foot
    sheet = Sheet(snap(width, look.dpi), snap(height, look.dpi), look.dpi)

    y = MARGIN + top
    for name, scale in bars.items():
        draw_scale(sheet, MARGIN + beside, y, bar, scale, name)
        y += bar + _SCALE_NAME
    y = MARGIN
    for block in blocks:
        sheet.write(MARGIN, y + 0.1, block.title, TITLE, bold=True)
        draw_mosaic(sheet, MARGIN, y + _TITLE, block.layout, block.panels)
        y += block.height
    y = MARGIN + pictures
    for line in lines:
        sheet.write(MARGIN, y, line, SMALL, colour=QUIET)
        y += _LINE
    sheet.foot(s.source.footnote, remark)
    return sheet


def _block(s: HeadStatistics, kind: HeadAverages, look: Look) -> _Block:
    shown = panels(kind, known_columns(s.kinds), scales(s, look.cmap))
    columns = None if len(s.kinds) == 1 else min(_COLUMNS, len(shown))
    layout = decide_mosaic(
        len(shown),
        Axis.of(f"{layer}" for layer in kind.layers),
        Axis.of(f"{head}" for head in range(kind.entropy.mean.shape[1])),
        Space(Lettering(), look.dpi, columns, _MOST_WIDTH * (columns or _COLUMNS) / _COLUMNS),
        text_length=max(panel.text_length for panel in shown),
    )
    longest = max(text_width(column.name, SMALL, bold=True) for column in COLUMNS)
    return _Block(title(kind), shown, layout.spread(longest * DRAWN_WIDER + GAP))

"""Bars of length 1, each divided into slices with their names, while these have room."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from mhaviz.pages.blocks import Bar, Bars, Slice
from mhaviz.pages.colormaps import SINK
from mhaviz.pages.labels import cut
from mhaviz.views.colours import needs_dark_text, palette
from mhaviz.views.figure.fonts import Fonts
from mhaviz.views.figure.measuring import fit_text
from mhaviz.views.figure.part import Part
from mhaviz.views.figure.sheet import FOOT_LINE, INK, QUIET, Sheet
from mhaviz.views.measures import BODY, DRAWN_WIDER, SMALL

_HEIGHT, _ROW, _AFTER_MEAN, _TICKS = 0.185, 0.22, 0.05, 0.16  # inches: a bar, from one to the next, a gap, the ends
_INSET, _BESIDE, _SQUARE = 0.04, 0.09, 0.08  # inches before a name in a slice; beside the bars; a colour in the key
_LEAST_BARS = 0.9  # least inches of bars: each has a name inside or beside it
_SHADES = {"target": 0.6, "word": 0.15, "rest": 0.04}  # fixed, as lengths are the weights: places in the colormap
_ITSELF = 246, 220, 203  # tint of the query's outline
_MOST_CELLS = 24  # of a name
_GREY = 0.33  # colour of sinks, as a share of theirs


class _Box(NamedTuple):
    """A slice of a bar, or what is behind its slices: its left side and width in inches, and its colour."""

    x: float
    width: float
    fill: NDArray[np.uint8]


class _Written(NamedTuple):
    """A text in a bar: its left side in inches, or its middle, its size and its colour."""

    x: float
    text: str
    size: float
    colour: str
    align: Literal["left", "center"] = "left"


class _Laid(NamedTuple):
    """A bar in its place: boxes, texts, and of what the key may have: names that its texts say, and those that they do
    not, with their colours."""

    boxes: Sequence[_Box]
    texts: Sequence[_Written]
    said: Collection[str]
    unsaid: Mapping[str, NDArray[np.uint8]]


class _Columns(NamedTuple):
    """Inches of the names and of the bars, and the name of the column of notes."""

    left: float
    across: float
    notes: str


@dataclass(frozen=True)
class BarsPart(Part):
    """Bars, as wide as their place."""

    block: Bars
    fonts: Fonts
    colormap: str

    after = 0.1

    @property
    def width(self) -> float:
        """Width that it needs, of names, bars and the key of colours that these may not have room to name."""
        texts = [
            self.block.rest,
            *(self.block.aside for bar in self.block.bars for one in bar.slices if _has_grey(one)),
        ]
        return max(self._left + _LEAST_BARS, *map(self._key_width, texts))

    def height(self, room: float) -> float:
        """Return the height in inches."""
        key = FOOT_LINE * len(self._key_lines(room))
        return _ROW * len(self.block.bars) + _AFTER_MEAN * self._has_mean + _TICKS + key

    @property
    def _has_mean(self) -> bool:
        return any(bar.is_mean for bar in self.block.bars)

    @property
    def _left(self) -> float:
        """Inches of the names and of the gap beside them."""
        names = (self.fonts.width(bar.name, BODY, bold=bar.is_mean) for bar in self.block.bars)
        return max(names) * DRAWN_WIDER + _BESIDE

    def _columns(self, room: float) -> _Columns:
        """Return the columns; bars to which notes would leave too little have none."""
        left = self._left
        notes = max(self._width(text, SMALL) for text in (self.block.notes, *(bar.note for bar in self.block.bars)))
        across = room - left - notes - _BESIDE
        return _Columns(left, across, self.block.notes) if across >= _LEAST_BARS else _Columns(left, room - left, "")

    def draw(self, sheet: Sheet, x: float, y: float, room: float) -> None:
        """Draw the bars with their top left corner at (x, y)."""
        columns = self._columns(room)
        begin, end = x + columns.left, x + columns.left + columns.across
        for bar in self.block.bars:
            middle = y + _HEIGHT / 2
            sheet.write(x, middle, bar.name, BODY, bold=bar.is_mean, vertical="center_baseline")
            laid = self._laid(bar, columns.across)
            for box in laid.boxes:
                self._box(sheet, begin + box.x, y, box.width, box.fill)
            for left, text, size, colour, align in laid.texts:
                sheet.write(begin + left, middle, text, size, colour=colour, align=align, vertical="center_baseline")
            if columns.notes:
                note = columns.notes if bar.is_mean else bar.note  # the mean comes first
                sheet.write(end + _BESIDE, middle, note, SMALL, colour=QUIET, vertical="center_baseline")
            y += _ROW + _AFTER_MEAN * bar.is_mean
        middle = y + _TICKS / 2 - (_ROW - _HEIGHT)
        sheet.write(begin, middle, "0", SMALL, colour=QUIET, vertical="center_baseline")
        sheet.write(end, middle, self.block.end, SMALL, colour=QUIET, align="right", vertical="center_baseline")
        if columns.notes and not self._has_mean:
            sheet.write(end + _BESIDE, middle, columns.notes, SMALL, colour=QUIET, vertical="center_baseline")
        y += _TICKS
        edge = 0.4 * sheet.zoom  # as some colours are nearly white
        lines = self._key_lines(room)
        widest = max((sum(self._key_width(text) for text, _ in line) for line in lines), default=0.0)
        for line in lines:
            middle, left = y + FOOT_LINE / 2, begin if widest <= columns.across + _BESIDE else x
            for text, fill in line:
                square = (left, middle - _SQUARE / 2), _SQUARE, _SQUARE
                sheet.page.add_patch(Rectangle(*square, facecolor=fill / 255, edgecolor=QUIET, linewidth=edge))
                sheet.write(left + _SQUARE + _INSET, middle, text, SMALL, colour=QUIET, vertical="center_baseline")
                left += self._key_width(text)
            y += FOOT_LINE

    def _key_lines(self, room: float) -> list[list[tuple[str, NDArray[np.uint8]]]]:
        """Return the lines of the key: names and colours of what no bar has room to name."""
        columns = self._columns(room)
        laid = [self._laid(bar, columns.across) for bar in self.block.bars]
        said = {name for bar in laid for name in bar.said}
        key = {name: fill for bar in laid for name, fill in bar.unsaid.items() if name not in said}
        if sum(map(self._key_width, key)) <= room - columns.left:
            return [[*key.items()]] if key else []
        return [[entry] for entry in key.items()]

    def _key_width(self, text: str) -> float:
        return _SQUARE + _INSET + self._width(text, SMALL) + _BESIDE

    def _laid(self, bar: Bar, across: float) -> _Laid:
        """Lay out the slices of words from the left while their names fit, the first with its name beside it if need
        be, and what is aside at the right."""
        words = [one for one in bar.slices if one.kind != "aside"]
        aside = sum(one.share for one in bar.slices if one.kind == "aside")
        end, limit = across * sum(one.share for one in words), across * (1 - aside)
        of_rest, of_aside = self._shade("rest"), palette(SINK)[round(_GREY * 255)]
        boxes, texts = [_Box(0.0, end, of_rest)], list[_Written]()
        x = covered = 0.0
        for place, one in enumerate(words):
            forms = self._forms(one)[bar.is_mean :]  # the text has the mean's numbers, of its weight on words
            text = self._fitting(forms, one.share * across - 2 * _INSET, BODY) if one.name else ""
            if not text and (place or bar.is_mean):
                break
            fill = self._fill(one)
            boxes.append(_Box(x, one.share * across, fill))
            inside, x = x, x + one.share * across
            if not text:  # the first, whose name is beside it, or shortened where there is more room
                free = limit - x - 2 * _INSET
                text = self._fitting(forms, free, SMALL)
                if is_inside := not text and x - inside > limit - x:
                    free = x - inside - 2 * _INSET
                text = text or fit_text(self._name(one), free / DRAWN_WIDER, SMALL, self.fonts.families)
                ground = fill if is_inside else of_rest
                left = (inside if is_inside else x) + _INSET
                texts.append(_Written(left, text, SMALL, INK if needs_dark_text(ground) else "white"))
                covered = max(x, left + self._width(text, SMALL) + _INSET)
                break
            texts.append(_Written(inside + _INSET, text, BODY, INK if needs_dark_text(fill) else "white"))
            covered = x
        said, unsaid = set[str](), dict[str, NDArray[np.uint8]]()
        has_rest = len(boxes) > 1  # where no word is named, all words are no rest
        quiet = QUIET if needs_dark_text(of_rest) else "white"
        if not has_rest:
            forms = f"{self.block.words} {end / across:.2f}", self.block.words
            text = self._fitting(forms, end - 2 * _INSET, SMALL)
            texts.append(_Written(end / 2, text, SMALL, quiet, "center"))
        elif end - covered > self._width(self.block.rest, SMALL) + 2 * _INSET:
            texts.append(_Written((covered + end) / 2, self.block.rest, SMALL, quiet, "center"))
            said.add(self.block.rest)
        elif end - x > 2 * _INSET:
            unsaid[self.block.rest] = of_rest
        for one in bar.slices:
            if _has_grey(one):
                boxes.append(_Box(limit, one.share * across, of_aside))
                room = one.share * across - 2 * _INSET
                text = self._fitting((self._text(one), f"{one.share:.2f}"), room, SMALL)
                texts.append(_Written(limit + one.share * across / 2, text, SMALL, INK, "center"))
                if text == self._text(one):
                    said.add(self.block.aside)
                elif room > 0:
                    unsaid[self.block.aside] = of_aside
        return _Laid(boxes, texts, said, unsaid)

    def _box(self, sheet: Sheet, x: float, y: float, width: float, fill: NDArray[np.uint8]) -> None:
        line = 0.8 * sheet.zoom
        sheet.page.add_patch(Rectangle((x, y), width, _HEIGHT, facecolor=fill / 255, edgecolor="white", linewidth=line))

    def _fill(self, one: Slice) -> NDArray[np.uint8]:
        if one.kind == "itself":
            return np.array(_ITSELF, np.uint8)
        return self._shade(one.kind if one.name else "rest")

    def _shade(self, kind: str) -> NDArray[np.uint8]:
        shade: NDArray[np.uint8] = palette(self.colormap)[round(_SHADES[kind] * 255)]
        return shade

    def _forms(self, one: Slice) -> tuple[str, str]:
        """Return the name of a slice with its number, and without."""
        return self._text(one), self._name(one)

    def _text(self, one: Slice) -> str:
        return f"{self._name(one)} {one.share:.2f}"

    def _name(self, one: Slice) -> str:
        return cut(self.fonts.shown(one.name), _MOST_CELLS)

    def _width(self, text: str, size: float) -> float:
        return self.fonts.width(text, size) * DRAWN_WIDER

    def _fitting(self, forms: Sequence[str], room: float, size: float) -> str:
        """Return the first form of a name that has room; "" if none has."""
        return next((form for form in forms if self._width(form, size) <= room), "")


def _has_grey(one: Slice) -> bool:
    return one.kind == "aside" and one.share > 0

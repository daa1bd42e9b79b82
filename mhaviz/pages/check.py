"""Page of a check: each finding in words, and the map as it is beside the map as it should be."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted
from mhaviz.pages.blocks import Block, Drawn, Grid, Matrices, Page, Text
from mhaviz.pages.colormaps import DIVERGING
from mhaviz.pages.labels import JOINED_EMOJI, cut, harmless
from mhaviz.pages.panels import WEIGHT, Outline, Panel, Scale, blanked, rounded_up
from mhaviz.pages.registry import CHECK_SUFFIXES, shown
from mhaviz.results.axis import Axis
from mhaviz.results.check import Check, Contrast, Finding

_TOKENS = "viridis_r"  # a token's number is no amount: token 0 is no paper
_MOST_ALONE = 2  # panels of the only picture of a page, such as heads; others have one
_MOST_OUTLINES, _MOST_OUTLINED = 16, 0.5  # lines around cells, and share of the cells inside, that still stand out
_MUCH = 0.5  # share of the largest difference from which on numbers differ most
_TEXT, _CODE, _NAME = 400, 100, 40  # most cells of a sentence, of a line of a program, and of a name
_NO_TOKEN, _NAN = "–", "NaN"  # marks
_SEEN = 0.005  # least weight that is not written as 0.00
_ROUNDING = 1e-6  # differences from here on count
_MANY = 100.0  # numbers from here on have no decimals, from a tenth of it one
_SIDES = ("as it is", "is"), ("as it should be", "should be")


@shown(Check, CHECK_SUFFIXES)
def check_page(check: Check) -> Page:
    """Return the page: each finding, errors first, and what was probed."""
    most = _MOST_ALONE if sum(finding.contrast is not None for finding in check) == 1 else 1
    pictures = {id(f): _Picture(f.contrast, f.code, most) for f in check if f.contrast}
    scale, blocks = _share_scale(pictures.values()), list[Block]()
    for finding in check:
        blocks += [Text((_heading(finding, len(check) == 1),), "heading"), Text(tuple(_lines(finding)))]
        if picture := pictures.get(id(finding)):
            blocks += [Text(lines) for lines in [picture.lines] if lines]
            drawn = picture.block(scale)
            blocks.append(drawn if len(pictures) == 1 else Grid(((drawn,),)))  # in which cells are small
        else:
            blocks.append(Text(("",)))
    blocks.append(Text(tuple(_probed_lines(check)), "quiet" if check else "plain"))

    def reading(drawn: Drawn) -> str:
        said = dict.fromkeys(text for picture in pictures.values() for text in picture.reading(drawn))
        if said and drawn.outlined("orange") and any(picture.marked.any() for picture in pictures.values()):
            are_all = all(picture.are_all_marked for picture in pictures.values())
            said["outlined: cells that differ" if are_all else "outlined: some of the cells that differ"] = None
        return "; ".join(filter(None, [*said, *dict.fromkeys(drawn.pooled), check.source.remark]))

    return Page(_title(check), tuple(blocks), check.source.footnote, reading if pictures else "")


def _title(check: Check) -> str:
    """Return "MyAttention: scores are not divided by √d_key", or "3 errors in MyAttention: scale, causal, padding"."""
    model, first = _said(check.source.model, _NAME), check.errors or check.findings
    if not first:
        return f"{model}: {check.summary}"
    if len(first) == 1:
        return f"{model}{'' if check.errors else ', a notice'}: {_what(first[0])}"
    codes = ", ".join(dict.fromkeys(_said(finding.code, _NAME) for finding in first))
    return f"{counted(len(first), first[0].severity)} in {model}: {codes}"


def _heading(finding: Finding, is_alone: bool) -> str:
    """Return "error mask-side: the padding mask hides queries in place of keys"; if the finding ``is_alone``, the title
    says what it is."""
    name = f"{finding.severity} {_said(finding.code, _NAME)}"
    return name if is_alone else f"{name}: {_what(finding)}"


def _what(finding: Finding) -> str:
    return _said(finding.mistake or finding.found)


def _lines(finding: Finding) -> Iterator[str]:
    """Yield what was tried, what came, where it is, and how to mend it."""
    parts = {
        "tried": finding.tried,
        "found": finding.found if finding.mistake else "",
        "where": "",
        "mend": finding.mend,
    }
    for name, text in parts.items():
        text = _where(finding) if name == "where" else _said(text)
        if text:
            yield f"{name}: {text}"


def _where(finding: Finding) -> str:
    """Return "attention.py:31, in blocks.0.attn: scores = q @ k.transpose(-2, -1)"."""
    line, module = finding.line, _said(finding.module, _NAME)
    if line is None:
        return module
    place = f"{_said(line.file, _CODE)}:{line.number}" + f", in {module}" * bool(module)
    return f"{place}: {_said(line.text.strip(), _CODE)}" if line.text.strip() else place


def _probed_lines(check: Check) -> Iterator[str]:
    """Yield what was probed, what could not be, with the reason, and what is ignored."""
    yield f"probed: {', '.join(_said(name, _NAME) for name in check.probed) or 'nothing'}"
    if check.unprobed:
        by_reason: dict[str, list[str]] = {}
        for one in check.unprobed:
            by_reason.setdefault(_said(one.reason), []).append(_said(one.name, _NAME))
        yield "not probed: " + "; ".join(f"{', '.join(names)} ({reason})" for reason, names in by_reason.items())
    if check.source.remark:
        yield f"masks: {_said(check.source.remark)}"
    if check.ignored:
        yield f"ignored: {', '.join(_said(code, _NAME) for code in check.ignored)}"


def _said(text: str, cells: int = _TEXT) -> str:
    """Return a text of a program in one line of at most ``cells``; joined emoji are split into their parts."""
    return cut(harmless(JOINED_EMOJI.sub("", text)), cells)


def _plain(name: str) -> str:
    """Return the name of a panel or of an axis in characters that all fonts have."""
    return cut(harmless(name).encode("ascii", "backslashreplace").decode(), _NAME)


@dataclass(frozen=True, eq=False)
class _Picture:
    """The contrast of a finding as it is drawn.

    Attributes:
        contrast: the contrast.
        code: code of the finding.
        most: most panels to be drawn, such as heads.
    """

    contrast: Contrast
    code: str
    most: int

    @cached_property
    def is_nan(self) -> NDArray[np.bool_]:
        """Whether a cell is NaN where it should be a number, and that is what was found, (panels, rows, columns)."""
        found, expected = self.contrast.found, self.contrast.expected
        return np.isnan(found) & ~np.isnan(expected) & (self.code == "nan")

    @cached_property
    def differences(self) -> NDArray[np.float64]:
        """Absolute difference in each cell, (panels, rows, columns); 0 where it is rounding, or not known."""
        found, expected = (np.asarray(side, np.float64) for side in (self.contrast.found, self.contrast.expected))
        with np.errstate(invalid="ignore"):  # ∞ − ∞
            differences = np.nan_to_num(np.abs(found - expected), posinf=np.inf)
        return np.where(self.is_nan, np.inf, np.where(differences < _ROUNDING, 0, differences))

    @cached_property
    def shown(self) -> list[int]:
        """Panels that are drawn, in their order: that of the element that is followed, and those that differ most."""
        of_panels = self.differences.reshape(len(self.differences), -1)
        largest, counts = of_panels.max(axis=1), np.count_nonzero(of_panels, axis=1)

        def size(i: int) -> tuple[bool, float, int]:
            is_followed = bool(self._name(i)) and re.search(rf"\b{re.escape(self._name(i))}\b", self._note) is not None
            return is_followed, float(largest[i]), int(counts[i])

        order = sorted(range(len(largest)), key=size, reverse=True)
        return sorted([i for i in order[: self.most] if largest[i]] or order[:1])

    @property
    def lines(self) -> tuple[str, ...]:
        """Remarks above the picture: the element that is followed, and which panels are drawn."""
        return tuple(filter(None, (self._note, self._shown_text)))

    @property
    def _note(self) -> str:
        return _said(self.contrast.note)

    @property
    def _shown_text(self) -> str:
        """Return "shown: head 0 and head 3 of 4; all of them differ"; "" where all panels are drawn."""
        others = [i for i in range(len(self.differences)) if i not in self.shown]
        if not others:
            return ""
        names = " and ".join(self._name(i) or f"panel {i}" for i in self.shown)
        wrong = np.count_nonzero(self.differences.any(axis=(1, 2)))
        are_wrong = "all" if wrong == len(self.differences) else f"{wrong}"
        said = f"{are_wrong} of them differ" if wrong > 1 else "no other is seen to differ"
        return f"shown: {names} of {len(self.differences)}; {said}"

    def _name(self, panel: int) -> str:
        names = self.contrast.panels
        return _plain(names[panel]) if panel < len(names) else ""

    @property
    def are_shares(self) -> bool:
        """Whether all known numbers are weights from 0 to 1."""
        return self.contrast.quantity == "weight" and self.ends[0] >= 0 and self.ends[1] <= 1 + _ROUNDING

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The least and the largest number."""
        known = np.concatenate([side[np.isfinite(side)] for side in (self.contrast.found, self.contrast.expected)])
        return float(known.min(initial=0.0)), float(known.max(initial=0.0))

    def _scale(self, shares: Scale) -> Scale:
        """Return the scale of all panels; ``shares``: that of weights from 0 to 1."""
        low, high = self.ends
        if self.contrast.quantity == "token":
            return Scale(_TOKENS, 0.0, max(high, 1.0), decimals=0, zeros=True, name="token")
        if self.contrast.quantity == "influence":
            return Scale(decimals=0, zeros=True, name="influence")
        if self.are_shares:
            return shares
        end = rounded_up(max(high, -low))
        decimals = 0 if end >= _MANY else 1 if end >= _MANY / 10 else 2
        name = f"{WEIGHT} of {_plain(self.code)}"
        if low < 0:
            return Scale(DIVERGING, -end, end, decimals, zeros=True, name=name)
        return Scale(high=end, decimals=decimals, zeros=True, name=name)

    def block(self, shares: Scale) -> Matrices:
        """Return each drawn panel as it is beside as it should be."""
        c, scale, panels = self.contrast, self._scale(shares), list[Panel]()
        for i, cells in zip(self.shown, self.marked, strict=True):
            name, outlined = self._name(i), _around(cells)
            before = f"{name} " * bool(name)
            for values, (title, short) in zip((c.found[i], c.expected[i]), _SIDES, strict=True):
                marks = np.where(self.is_nan[i] & np.isnan(values), _NAN, "")
                if c.quantity == "token":
                    marks, values = np.where(values < 0, _NO_TOKEN, marks), blanked(values, values < 0)
                title, short = before + title, before + short
                panels.append(Panel(title, values, scale, marks=marks, outlined=outlined, short=short))
        rows, columns = (Axis.of(labels) for labels in (c.rows, c.columns))
        row, column = map(_plain, c.axes)
        return Matrices("", tuple(panels), rows, columns, 2, (row, column))

    @cached_property
    def marked(self) -> NDArray[np.bool_]:
        """Cells of the drawn panels that are outlined, (panels, rows, columns): of those that differ the ones that tell
        most about the mistake, and few enough to stand out."""
        differences, is_nan = self.differences[self.shown], self.is_nan[self.shown]
        found, expected = (side[self.shown] for side in (self.contrast.found, self.contrast.expected))
        several = [differences > 0]
        if is_nan.any():
            several = [is_nan]
        elif self.contrast.quantity == "weight":
            gained, lost = (expected == 0) & (found >= _SEEN), (found == 0) & (expected >= _SEEN)
            several = [gained, lost, differences > _MUCH * differences.max()]
        for cells in several:
            if cells.any() and cells.mean() <= _MOST_OUTLINED and max(map(len, map(_around, cells))) <= _MOST_OUTLINES:
                return cells
        panel, row, _ = np.unravel_index(int(differences.argmax()), differences.shape)
        cells = np.zeros(differences.shape, np.bool_)
        cells[panel, row] = (differences[panel, row] == differences.max()) & (differences.max() > 0)
        return cells

    @property
    def are_all_marked(self) -> bool:
        """Whether all cells that differ in the drawn panels are outlined."""
        return np.array_equal(self.marked, self.differences[self.shown] > 0)

    def reading(self, drawn: Drawn) -> Iterator[str]:
        """Yield how to read the picture as a renderer has drawn it; nothing if it has not."""
        c, (row, column) = self.contrast, map(_plain, self.contrast.axes)
        if not drawn.shows(self._scale(Scale(name=WEIGHT)).name):
            return
        sides = [side[self.shown] for side in (c.found, c.expected)]
        line = "a line through a cell" if drawn.hidden == Drawn.hidden else ""
        yield f"{c.quantity}: a row for each {row}, a column for each {column}"
        if c.quantity == "token":
            yield "a cell has the number of the token that it is made of"
            if any((side < 0).any() for side in sides):
                yield f"{line or _NO_TOKEN}: no token, or more than one"
        if c.quantity == "influence":
            yield f"1: the {row} changes with the {column}, 0: it does not"
        if self.is_nan[self.shown].any():
            yield f"{line or _NAN}: no number"
        if any((np.isnan(side) & ~self.is_nan[self.shown]).any() for side in sides):
            yield f"{drawn.hidden}: not known"


def _around(differ: NDArray[np.bool_]) -> tuple[Outline, ...]:
    """Return lines around cells, (rows, columns): runs of a row, joined with equal runs of the rows below."""
    lines, open_runs = list[Outline](), dict[tuple[int, int], int]()  # the first row of each run
    for row, cells in enumerate([*differ, np.zeros(differ.shape[1], np.bool_)]):
        steps = np.diff(np.pad(cells, 1).astype(np.int8))
        runs = list(zip(np.flatnonzero(steps == 1).tolist(), np.flatnonzero(steps == -1).tolist(), strict=True))
        for run in [run for run in open_runs if run not in runs]:
            lines.append(Outline(range(open_runs.pop(run), row), range(*run), "orange"))
        for run in runs:
            open_runs.setdefault(run, row)
    return tuple(lines)


def _share_scale(pictures: Iterable[_Picture]) -> Scale:
    """Return the scale of all weights of the page that are from 0 to 1."""
    largest = max((picture.ends[1] for picture in pictures if picture.are_shares), default=1.0)
    return Scale(high=min(rounded_up(largest), 1.0) if largest > 0 else 1.0, zeros=True, name=WEIGHT)

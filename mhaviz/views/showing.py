"""How each record is shown: by a page of blocks, or by a figure and a view of its own, loaded when they are needed.

A new kind of record is a page in ``mhaviz.pages`` and a row here.
"""

import io
import warnings
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.pages.panels import DIVERGING, INK
from mhaviz.records.attention import Attention
from mhaviz.records.difference import Difference
from mhaviz.records.image import ImageAttention
from mhaviz.views.formats import (
    ABLATION_SUFFIXES,
    HEAD_SUFFIXES,
    MAP_SUFFIXES,
    PAGE_SUFFIXES,
    RECORD_SUFFIXES,
    check_outputs,
    save_all,
)
from mhaviz.views.style import Style
from mhaviz.views.terminal.screen import MOST_MAPS

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from mhaviz.pages.blocks import Page
    from mhaviz.views.figure.sheet import Sheet
    from mhaviz.views.html.notebook import Html

_OF_MAPS = ("numbers", "width", "font_size")
"""Fields of a style that pictures of maps alone read."""
_OF_PAGES = (*_OF_MAPS, "title", "footnote")
"""Those that have no meaning for Axes of matplotlib's."""

_MOST_IN_NOTEBOOK = 5_000_000
"""Characters of a page that a notebook keeps among its results."""


class Entry(NamedTuple):
    """How a record is shown.

    Attributes:
        page: the function of ``mhaviz.pages`` that makes its page.
        formats: in which it can be saved.
        cmap: the colours that it has by itself.
        listed: what its page takes in the terminal, which has no room for more.
    """

    page: str
    formats: Sequence[str] = RECORD_SUFFIXES
    cmap: str = INK
    listed: Mapping[str, Any] = {}


SHOWN = {
    "Ablation": Entry("ablation:ablation_page", ABLATION_SUFFIXES),
    "Attention": Entry("maps:attention_page", MAP_SUFFIXES, listed={"most": MOST_MAPS}),
    "Complexity": Entry("complexity:complexity_page"),
    "CorpusDifference": Entry("corpus_difference:corpus_difference_page"),
    "Difference": Entry("difference:difference_page", PAGE_SUFFIXES, DIVERGING, {"most": MOST_MAPS}),
    "EmbeddedText": Entry("embeddings:embeddings_page", cmap=DIVERGING),
    "Evaluation": Entry("training:evaluation_page"),
    "Explanation": Entry("explanation:explanation_page"),
    "HeadStatistics": Entry("head_statistics:head_statistics_page", HEAD_SUFFIXES),
    "ImplementationComparison": Entry("implementations:implementations_page"),
    "LayerMatrices": Entry("matrices:matrices_page"),
    "Masking": Entry("masking:masking_page"),
    "PositionTable": Entry("embeddings:position_table_page", cmap=DIVERGING),
    "ProjectionComparison": Entry("projections:projections_page"),
    "Report": Entry("report:report_page", PAGE_SUFFIXES),
    "ScalingComparison": Entry("scaling:scaling_page"),
    "ScalingSweep": Entry("scaling:sweep_page"),
    "Training": Entry("training:training_page"),
}
"""Every record that is shown in blocks, by the name of its class: the one place where it is entered."""

_DRAWINGS = {
    "ImageAttention": ("figure.image:image_figure", "terminal.image:ImageView"),
    "ShapeTrace": ("figure.flow:flow_figure", "terminal.trace:TraceView"),
}
"""Records that no blocks could show: the function that draws each, and its view in the terminal.

Each teaches by where things stand: features in strips that line up with their sums, products between their factors,
boxes with arrows, and a photo under its patches.
"""


def figure_of(record: object, style: Style | None = None, **details: Any) -> "Sheet":
    """The record as a figure; ``details``: what its drawing function takes beside it."""
    from mhaviz.views.figure.sheet import house_style

    with house_style():
        if type(record).__name__ in SHOWN:
            from mhaviz.views.figure.page import draw_page

            return draw_page(page_of(record, **details), style or fitted_style(record))
        draw: Callable[..., Sheet] = _find(record, 0)
        return draw(record, style or Style(), **details)


def view_of(record: object, style: Style | None = None, **details: Any) -> "RenderableType":
    """The record as something that rich prints; ``details``: as in ``figure_of``."""
    if type(record).__name__ in SHOWN:
        from mhaviz.views.terminal.page import PageView

        return PageView(page_of(record, **{**entry_of(record).listed, **details}), style or fitted_style(record))
    view: Callable[..., RenderableType] = _find(record, 1)
    return view(record, style or Style(), **details)


def page_of(record: object, **details: Any) -> "Page":
    """The page of a record that is shown in blocks; ``details``: what its function takes beside it."""
    page: Page = resolve_name(f"mhaviz.pages.{SHOWN[type(record).__name__].page}")(record, **details)
    return page


def entry_of(record: object) -> Entry:
    """How the record is shown, in whichever way."""
    return SHOWN.get(type(record).__name__, Entry(""))


def _find(record: object, way: Literal[0, 1]) -> Any:
    name = type(record).__name__
    if name not in _DRAWINGS:
        raise MhavizError(f"expected a record that can be shown, got {name}")
    return resolve_name(f"mhaviz.views.{_DRAWINGS[name][way]}")


def plot(record: object, **style: Any) -> "Figure":
    """The record as a figure: of maps an Axes a head; else the page that is saved."""
    record = _drawn(record)
    if isinstance(record, Attention):
        from mhaviz.views.figure.axes import axes_figure
        from mhaviz.views.figure.sheet import house_style

        if unread := [name for name in style if name in _OF_PAGES]:
            raise ArgumentError(f"{unread[0]} is for pictures that are saved; change this one by matplotlib")

        with house_style():
            return axes_figure(record, fitted_style(record, **style))
    figure = figure_of(record, fitted_style(record, **style))
    for notice in figure.notices:
        warnings.warn(notice, stacklevel=3)
    return figure


def save(record: object, paths: Sequence[Path], **style: Any) -> None:
    """Write the record in the format of each path's suffix; see ``mhaviz.records.shown.Shown.save``."""
    record = _drawn(record)
    check_outputs(paths, entry_of(record).formats)
    for notice in save_all(paths, record, fitted_style(record, **style)):
        warnings.warn(notice, stacklevel=3)


def in_notebook(record: object) -> dict[str, str]:
    """The record by MIME type: its page for the browser, of 5 MB at most, or else its picture."""
    record = _drawn(record)
    try:
        page = html_of(record)
    except MhavizError:  # it has none, or one that is too large for any browser
        page = None
    if page is not None and len(page) <= _MOST_IN_NOTEBOOK:
        return {"text/html": page._repr_html_()}
    return {"image/png": b64encode(figure_of(record, fitted_style(record))._repr_png_()).decode()}


def html_of(record: object, **style: Any) -> "Html":
    """The record's page for the browser; see ``mhaviz.records.shown.Shown.to_html``."""
    from mhaviz.views.html.notebook import Html
    from mhaviz.views.html.page import write_html

    record, stream = _drawn(record), io.BytesIO()
    write_html(record, fitted_style(record, **style), stream)
    return Html(stream.getvalue().decode("utf-8"))


def _drawn(record: object) -> object:
    """What is drawn of a record: the result of a computation says by itself in which record it is shown."""
    return record.to_attention() if hasattr(record, "to_attention") else record


def fitted_style(record: object, **style: Any) -> Style:
    """The style of a record.

    Raises:
        ArgumentError: a style that cannot be.
    """
    known = [field.name for field in fields(Style)]
    if unknown := [name for name in style if name not in known]:
        raise ArgumentError(f"a picture has no {unknown[0]}: expected a style among {', '.join(known)}")
    unread = [] if isinstance(record, Attention | Difference) else [name for name in style if name in _OF_MAPS]
    if isinstance(record, ImageAttention):
        unread = [name for name in unread if name == "numbers"]
    if unread:
        raise ArgumentError(f"{unread[0]} is for pictures of maps, and this is none; leave it out")
    return Style(**{"cmap": entry_of(record).cmap} | style)

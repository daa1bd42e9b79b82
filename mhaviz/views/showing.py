"""A record as a figure, in the terminal, as files and in a notebook. What draws it is loaded when it is needed."""

import io
import warnings
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.pages.registry import entry_of, page_of
from mhaviz.records.attention import Attention
from mhaviz.records.difference import Difference
from mhaviz.records.image import ImageAttention
from mhaviz.views.formats import check_outputs, save_all
from mhaviz.views.style import Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from mhaviz.views.figure.sheet import Sheet
    from mhaviz.views.html.notebook import Html

_OF_MAPS = ("numbers", "width", "font_size")
"""Fields of a style that pictures of maps alone read."""
_OF_PAGES = (*_OF_MAPS, "title", "footnote")
"""Those that have no meaning for Axes of matplotlib's."""

_MOST_IN_NOTEBOOK = 5_000_000
"""Characters of a page that a notebook keeps among its results."""


def figure_of(record: object, style: Style | None = None, **details: Any) -> "Sheet":
    """The record as a figure; ``details``: what its page takes beside it."""
    from mhaviz.views.figure.page import draw_page
    from mhaviz.views.figure.sheet import house_style

    style, own = style or Style(), entry_of(record).figure
    with house_style():
        if not own:
            return draw_page(page_of(record, **details), style)
        draw: Callable[..., Sheet] = resolve_name(f"mhaviz.views.figure.{own}")
        return draw(record, style)


def view_of(record: object, style: Style | None = None, **details: Any) -> "RenderableType":
    """The record as something that rich prints; ``details``: as in ``figure_of``."""
    from mhaviz.views.terminal.page import PageView

    style, own = style or Style(), entry_of(record).view
    if not own:
        return PageView(page_of(record, **details), style)
    view: Callable[..., RenderableType] = resolve_name(f"mhaviz.views.terminal.{own}")
    return view(record, style)


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
    return Style(**style)

"""A result as a figure, in the terminal, as files and in a notebook. Renderers are imported on first use."""

import io
import warnings
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhaviz.errors import ArgumentError, MhavizError, parameter, quoted
from mhaviz.pages.registry import entry_of, page_of
from mhaviz.results.attention import Attention
from mhaviz.views.formats import check_outputs, save_all
from mhaviz.views.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage
    from rich.console import RenderableType

    from mhaviz.views.figure.sheet import Sheet
    from mhaviz.views.html.notebook import Html

_CHOOSING = {
    "query": (("answer", "query"), ("of_query", "query")),
    "head": (("select", "head=head"),),
    "layer": (("select", "layer=layer"),),
    "mean": (("mean", ""),),
    "by": (("by", "by"),),
}
"""Methods of a result, and what they are called with, that choose what is no look of its picture."""

_MOST_IN_NOTEBOOK = 5_000_000
"""Characters of a page that a notebook shows; instead of a longer one it shows the figure."""


def figure_of(result: object, style: Style | None = None, **details: Any) -> "Sheet":
    """Return the result as a figure; ``details``: further arguments of the function that makes its page."""
    (sheet, *others) = figures_of(result, style, **details)
    if others:
        raise ArgumentError(f"{parameter('room')}: expected what a single figure has room for; save it, in files")
    return sheet


def figures_of(result: object, style: Style | None = None, **details: Any) -> "list[Sheet]":
    """Return the result as the figures that a room needs, or as one figure; ``details``: as in ``figure_of``."""
    from mhaviz.views.figure.page import draw_pages
    from mhaviz.views.figure.sheet import house_style

    with house_style():
        return draw_pages(page_of(result, **details), style or Style(), entry_of(result).formats)


def view_of(result: object, style: Style | None = None, **details: Any) -> "RenderableType":
    """Return the result as a renderable of rich; ``details``: as in ``figure_of``."""
    from mhaviz.views.terminal.page import PageView

    return PageView(page_of(result, **details), style or Style())


def plot(result: object, **style: Any) -> "Sheet":
    """Return the figure that ``save`` writes; see ``mhaviz.results.result.Result.plot``."""
    figure = figure_of(_drawn(result), _style_of(result, style))
    for notice in figure.notices:
        warnings.warn(notice, stacklevel=3)
    return figure


def plot_on(ax: "Axes", result: object, **style: Any) -> "AxesImage":
    """Draw the only head of a result on Axes of the user; see ``mhaviz.results.result.Result.plot``."""
    from mhaviz.views.figure.axes import draw_head

    for name in ("dpi", "columns", "width"):
        if style.get(name) is not None:
            raise ArgumentError(
                f"{parameter(name)}: expected none beside {parameter('ax')}, whose figure is yours, got "
                f"{quoted(style[name])}; leave it out"
            )
    shown = _drawn(result)
    if not isinstance(shown, Attention):
        raise ArgumentError(
            f"{parameter('ax')}: expected attention, of which one head is drawn, got {type(result).__name__}; leave it "
            f"out, and all of the result is drawn"
        )
    image, notices = draw_head(shown, _style_of(result, style), ax)
    for notice in notices:
        warnings.warn(notice, stacklevel=3)
    return image


def save(result: object, paths: Sequence[Path], **style: Any) -> None:
    """Write the result in the format of each path's suffix; see ``mhaviz.results.result.Result.save``."""
    chosen, result = _style_of(result, style), _drawn(result)
    check_outputs(paths, entry_of(result).formats)
    for notice in save_all(paths, result, chosen)[0]:
        warnings.warn(notice, stacklevel=3)


def in_notebook(result: object) -> dict[str, str]:
    """Return the result by MIME type: its page for the browser where that has at most 5 MB, else its figure."""
    result = _drawn(result)
    try:
        page = html_of(result)
    except MhavizError:  # it has no page, or one that is too large for browsers
        page = None
    if page is not None and len(page) <= _MOST_IN_NOTEBOOK:
        return {"text/html": page._repr_html_()}
    return {"image/png": b64encode(figure_of(result)._repr_png_()).decode()}


def html_of(result: object, **style: Any) -> "Html":
    """Return the result's page for the browser; see ``mhaviz.results.result.Result.to_html``."""
    from mhaviz.views.html.notebook import Html
    from mhaviz.views.html.page import write_html

    chosen, stream = _style_of(result, style), io.BytesIO()
    write_html(_drawn(result), chosen, stream)
    return Html(stream.getvalue().decode("utf-8"))


def _style_of(result: object, choices: dict[str, Any]) -> Style:
    """Return the style with these attributes. Raises ArgumentError as ``Style.of``, also for what a method chooses,
    which it names."""
    try:
        return Style.of(choices)
    except ArgumentError as error:
        methods = [method for name in choices for method in _CHOOSING.get(name, ())]
        if calls := [f"{method}({of})" for method, of in methods if hasattr(result, method)]:
            raise ArgumentError(f"{error}; draw what {' or '.join(calls)} returns") from error
        raise


def _drawn(result: object) -> object:
    """Return the attention of a result that has a method ``to_attention``, else the result itself."""
    return result.to_attention() if hasattr(result, "to_attention") else result

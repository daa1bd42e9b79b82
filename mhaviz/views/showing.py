"""How each record is shown: its figure and its view in the terminal, loaded when they are needed."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhaviz.errors import MhavizError
from mhaviz.pages.registry import PAGES, page_of
from mhaviz.views.look import Look, ends_at_largest

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from mhaviz.views.figure.sheet import Sheet

_SHOWN: dict[str, tuple[str, str, str]] = {
    "Explanation": ("explanation", "explanation_figure", "ExplanationView"),
    "ProjectionComparison": ("projections", "projections_figure", "ProjectionsView"),
    "Report": ("report", "report_figure", "ReportView"),
    "ScalingComparison": ("scaling", "scaling_figure", "ScalingView"),
    "ShapeTrace": ("flow", "flow_figure", "TraceView"),
}
"""Of each record that is no page of blocks alone: the module, the function that draws it, its view in the terminal."""

_TERMINAL_MODULES = {"flow": "trace"}


def figure_of(record: object, look: Look | None = None, **details: Any) -> "Sheet":
    """The record as a figure; ``details``: what its drawing function takes beside it."""
    from mhaviz.views.figure.sheet import house_style

    with house_style():
        if type(record) in PAGES:
            from mhaviz.views.figure.page import draw_page

            return draw_page(page_of(record, **details), look)
        module, function, _ = _find(record)
        draw: Callable[..., Sheet] = getattr(import_module(f"mhaviz.views.figure.{module}"), function)
        return draw(record, look or Look(), **details)


def view_of(record: object, look: Look | None = None, **details: Any) -> "RenderableType":
    """The record as something that rich prints; ``details``: as in ``figure_of``."""
    if type(record) in PAGES:
        from mhaviz.views.terminal.page import PageView

        return PageView(page_of(record, **details), look or Look())
    module, _, view = _find(record)
    made: Callable[..., RenderableType] = getattr(
        import_module(f"mhaviz.views.terminal.{_TERMINAL_MODULES.get(module, module)}"), view
    )
    return made(record, look or Look(), **details)


def _find(record: object) -> tuple[str, str, str]:
    name = type(record).__name__
    if name not in _SHOWN:
        raise MhavizError(f"expected a record that can be shown, got {name}")
    return _SHOWN[name]


def plot(record: object, **look: Any) -> "Figure":
    """The record as a figure: of maps an Axes a head; else the page that is saved."""
    from mhaviz.records import Attention

    record = _drawn(record)
    if isinstance(record, Attention):
        from mhaviz.views.figure.axes import axes_figure
        from mhaviz.views.figure.sheet import house_style

        with house_style():
            return axes_figure(record, Look(**look))
    return figure_of(record, Look(**look))


def save(record: object, paths: Sequence[Path], **look: Any) -> None:
    """Write the record in the format of each path's suffix; see ``mhaviz.records.shown.Shown.save``."""
    from mhaviz.records import Attention
    from mhaviz.views.files import FIGURE_SUFFIXES, check_outputs, save_all

    record = _drawn(record)
    more = (".json", ".safetensors") if isinstance(record, Attention) else (".json",)
    check_outputs(paths, (*FIGURE_SUFFIXES, *more))
    chosen = _fitted(record, look)
    save_all(paths, record, lambda: figure_of(record, chosen))


def png_of(record: object) -> bytes:
    """The record's page as PNG."""
    record = _drawn(record)
    return figure_of(record, _fitted(record, {}))._repr_png_()


def _drawn(record: object) -> object:
    """What is drawn of a record: the result of a computation says by itself in which record it is shown."""
    return record.to_attention() if hasattr(record, "to_attention") else record


def _fitted(record: object, look: dict[str, Any]) -> Look:
    """The look, whose colours end at the largest weight where maps are long or parts of one, unless it says more."""
    from mhaviz.records import Attention, Difference

    if isinstance(record, Difference):
        return Look(**{"cmap": "RdBu_r", "vmax": None} | look)
    if isinstance(record, Attention) and "vmax" not in look and ends_at_largest(record.maps):
        return Look(**look | {"vmax": None})
    return Look(**look)

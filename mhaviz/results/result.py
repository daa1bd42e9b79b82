"""What every result can do for whoever holds it: print itself in a line, be seen in a notebook, saved and drawn."""

from collections.abc import Mapping, Sized
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhaviz.errors import MhavizError, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Source:
    """What made the numbers: enough to print under a picture, and enough to make them again.

    Attributes:
        footnote: one line for people, such as "random weights, seed 0, d_model 512, 8 heads, cpu".
        details: the same for scripts, as plain JSON values.
        remark: what a picture's reader should know of its rows and columns, in a few words.
    """

    footnote: str
    details: Mapping[str, object] = field(default_factory=dict)
    remark: str = ""

    @property
    def model(self) -> str:
        """What made them, in a word or two, with which every footnote begins: "minilm", "random weights"."""
        return self.footnote.partition(", ")[0].partition(": ")[0]


def of_layer(layer: int | None) -> dict[str, int]:
    """What a document says of the layer: nothing where the model has but one."""
    return {} if layer is None else {"layer": layer}


def require_pandas() -> Any:
    """The module. Raises MhavizError if it is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise MhavizError("a data frame needs pandas; install it with pip install pandas") from error
    return pandas


class ShortRepr:
    """A dataclass whose ``repr`` gives the shapes of arrays, how many results, and no field that has its default."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__repr__" not in cls.__dict__:  # then dataclass would write one
            cls.__repr__ = ShortRepr.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        there: Any = self
        given = ((field.name, getattr(self, field.name), field) for field in fields(there))
        shown = ", ".join(f"{name}={_brief(value)}" for name, value, field in given if not _is_usual(value, field))
        return f"{type(self).__name__}({shown})"


def _is_usual(value: object, field: Any) -> bool:
    is_array = hasattr(value, "shape")
    return not is_array and field.default is not MISSING and bool(value == field.default)


def _brief(value: Any) -> str:
    if hasattr(value, "shape"):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, Source):
        return shortened(repr(value.footnote))
    if isinstance(value, tuple) and value and is_dataclass(value[0]):
        return f"{len(value)} × {type(value[0]).__name__}"
    if isinstance(value, Mapping):
        return shortened(f"{{{', '.join(map(str, value))}}}")
    if is_dataclass(value) and isinstance(value, Sized):
        return f"{type(value).__name__} of {len(value)}"
    return repr(value) if isinstance(value, ShortRepr) else shortened(repr(value))


class Result(ShortRepr):
    """A result that shows itself. Nothing that draws is loaded before it is asked for."""

    def save(self, *paths: str | Path, **style: Any) -> None:
        """Save it, in the format of each path's suffix: all files, or none.

        Args:
            paths: with suffixes of ``mhaviz.pages.registry.MAP_SUFFIXES``, such as .png, .pdf or .json.
            style: of pictures: ``cmap``, ``dpi``, ``columns``, ``vmax``, ``width`` and others; see
                ``mhaviz.views.style.Style``.

        Raises:
            ArgumentError: a suffix that is no format, a style that cannot be.
            MhavizError: a file cannot be written; nothing is left behind.
        """
        from mhaviz.views.showing import save

        save(self, [Path(path) for path in paths], **style)

    def to_dict(self) -> dict[str, Any]:
        """Its numbers and texts by name, as its JSON has them after the source; arrays and dataclasses as they are."""
        return {name: value for name, value in vars(self).items() if name != "source"}

    def to_html(self, **style: Any) -> str:
        """Its page for the browser as text, which a notebook shows as a frame; ``style``: as in ``save``.

        Raises:
            MhavizError: it has no maps, or so many that its page would be too large.
        """
        from mhaviz.views.showing import html_of

        return html_of(self, **style)

    def plot(
        self,
        *,
        cmap: str | None = None,
        dpi: int | None = None,
        columns: int | None = None,
        vmax: float | None = None,
        numbers: bool | None = None,
        log: bool | None = None,
        width: float | None = None,
        font_size: float | None = None,
        title: str | None = None,
        footnote: str | None = None,
    ) -> "Figure":
        """It as a matplotlib Figure, to go on working with; see ``mhaviz.views.style.Style``. None: as usual."""
        style = {name: value for name, value in locals().items() if name != "self" and value is not None}
        from mhaviz.views.showing import plot

        return plot(self, **style)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """How a notebook shows it: as its page, or as a picture where that is too large; elsewhere as a line."""
        from mhaviz.views.showing import in_notebook

        return {"text/plain": repr(self), **in_notebook(self)}

"""Base class of results: they print themselves in a line, show themselves in a notebook, and can be saved and drawn."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sized
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast, overload

from mhaviz.errors import MhavizError, shortened

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

RANDOM_WEIGHTS = "random weights"
"""Kind of a source whose weights are random, as those of no other source are known to be."""

_NAME = 32  # most characters of a model's name in a title


@dataclass(frozen=True)
class Source:
    """Source of a result's numbers: a line to print under a picture, and all that is needed to compute them again.

    Attributes:
        footnote: one line for people, such as "random weights, seed 0, d_model 512, 8 heads, cpu".
        details: the same facts for scripts, as plain JSON values.
        remark: short note on the rows and columns of a picture.
    """

    footnote: str
    details: Mapping[str, object] = field(default_factory=dict)
    remark: str = ""

    @property
    def model(self) -> str:
        """Name of the model, the recorded program or the file, short enough for titles: "minilm", "train.py"."""
        named = self.details.get("name") or self.details.get("program")
        return shortened(str(named or self.footnote.partition(", ")[0].partition(": ")[0]), _NAME)

    @property
    def is_random(self) -> bool:
        """Whether the weights are random, so that what heads look at, and how they differ, is chance."""
        return self.details.get("kind") == RANDOM_WEIGHTS

    @property
    def sides(self) -> tuple["Source", "Source"]:
        """Sources of A and B of a difference."""
        first, second = (cast(Mapping[str, object], self.details[side]) for side in ("first", "second"))
        return Source(str(first["footnote"]), first), Source(str(second["footnote"]), second)


def of_layer(layer: int | None) -> dict[str, int]:
    """Return the entry of a layer in a document; empty where the model has only one layer."""
    return {} if layer is None else {"layer": layer}


def require_pandas() -> Any:
    """Import pandas. Raises MhavizError if it is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise MhavizError("a data frame needs pandas; install it with pip install pandas") from error
    return pandas


class ShortRepr:
    """Base of dataclasses with a short ``repr``: shapes of arrays, lengths of tuples, no fields at their default."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__repr__" not in cls.__dict__:  # then dataclass would write one
            cls.__repr__ = ShortRepr.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        there: Any = self
        given = ((field.name, getattr(self, field.name), field) for field in fields(there))
        shown = ", ".join(f"{name}={_short(value)}" for name, value, field in given if not _is_default(value, field))
        return f"{type(self).__name__}({shown})"


def _is_default(value: object, field: Any) -> bool:
    is_array = hasattr(value, "shape")
    return not is_array and field.default is not MISSING and bool(value == field.default)


def _short(value: Any) -> str:
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


class Looks(TypedDict, total=False):
    """The fields of ``mhaviz.views.style.Style``, for editors and type checkers, which read no field of a class that
    results must not import. None is the default."""

    cmap: str | None
    dpi: float | None
    columns: int | None
    vmax: float | None
    log: bool | None
    positions: bool | None
    sinks: str | None
    width: float | None
    font_size: float | None
    title: str | None
    room: str | None


class Result(ShortRepr):
    """Base class of results. Libraries for drawing are imported only when something is drawn."""

    def save(self, *paths: str | Path, **style: Unpack[Looks]) -> None:
        """Save the result to files, each in the format of its suffix. Either all files are written, or none.

        Args:
            paths: names that end in .png, .svg or .pdf for a picture, or .json for all numbers. Maps also have .html, a
                page for the browser, and .csv, .npz and .safetensors; findings of a check have .sarif, for editors and
                code hosts.
            style: looks of pictures, as of ``plot``, and ``room``: "slide", "column" or "page", which a picture
                fits, with fewer heads, or in several files, such as name.png and name-2.png; a PDF has pages instead.

        Raises:
            ArgumentError: a suffix is not a format of this result, or a look is invalid.
            MhavizError: a file cannot be written.
        """
        from mhaviz.views.showing import save

        save(self, [Path(path) for path in paths], **style)

    def to_dict(self) -> dict[str, Any]:
        """Return numbers and texts by name, as in the JSON file but without the source. Arrays stay arrays."""
        return {name: value for name, value in vars(self).items() if name != "source"}

    def to_html(self, **style: Unpack[Looks]) -> str:
        """Return the page for the browser as text, which a notebook shows in a frame; ``style``: as in ``save``.

        Raises:
            MhavizError: the result has no maps, or so many that the page would be too large.
        """
        from mhaviz.views.showing import html_of

        return html_of(self, **style)

    @overload
    def plot(self, *, ax: None = None, **style: Unpack[Looks]) -> "Figure": ...

    @overload
    def plot(self, *, ax: "Axes", **style: Unpack[Looks]) -> "AxesImage": ...

    def plot(self, *, ax: "Axes | None" = None, **style: Unpack[Looks]) -> "Figure | AxesImage":
        """Draw the result as the matplotlib Figure that ``save`` writes, or one head on Axes of yours.

        Args:
            ax: Axes to draw in. The result then has a single head, as after ``select(head=3, layer=0)``. Its scale is
                that of this head alone; ``vmax`` gives several the same.
            style: looks; those that are left out, or None, are chosen:

                - cmap: "ink", from white to dark blue, or a colormap of matplotlib.
                - dpi: pixels an inch; 150, in the column or page of a paper 300.
                - columns: number of heads side by side.
                - vmax: number that gets the darkest colour.
                - log: whether the colour scale is logarithmic.
                - positions: whether tokens that occur more than once have their positions in their labels, as "the₃".
                - sinks: "apart", where keys that all queries give weight have a grey scale of their own, or "in".
                - width: width in inches.
                - font_size: size of labels in points, with which all other text scales.
                - title: title of the picture; "": no title.

        Returns:
            The Figure; with ``ax`` the image in it, as of ``ax.imshow``, for ``figure.colorbar(image)``. Hidden cells
            are NaN in it, and white.

        Raises:
            ArgumentError: a look is invalid; with ``ax``, the result has not exactly one head, or the look is one of
                whole figures: dpi, columns or width.
        """
        from mhaviz.views.showing import plot, plot_on

        return plot(self, **style) if ax is None else plot_on(ax, self, **style)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Representations for a notebook: the page, or a picture where the page is too large, and a line of text."""
        from mhaviz.views.showing import in_notebook

        return {"text/plain": repr(self), **in_notebook(self)}


class RowsResult(Result):
    """Result that is a table of numbers in long form, which a .csv file has as well."""

    @abstractmethod
    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows of the table, each a value for each column; unknown values are NaN."""

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return ``rows`` as a data frame. Raises MhavizError if pandas is not installed."""
        return require_pandas().DataFrame(list(self.rows()))

"""How records print themselves: in a line, as their numbers would fill the screen."""

from collections.abc import Mapping, Sized
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from mhaviz.errors import shortened
from mhaviz.records.source import Source


class Brief:
    """A dataclass whose ``repr`` gives the shapes of arrays, how many records, and no field that has its default."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__repr__" not in cls.__dict__:  # then dataclass would write one
            cls.__repr__ = Brief.__repr__  # type: ignore[method-assign]

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
    return repr(value) if isinstance(value, Brief) else shortened(repr(value))

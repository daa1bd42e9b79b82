"""An array in a file of any format, described without reading its numbers."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import MhavizError
from mhaviz.files.errors import ContentError, reading
from mhaviz.memory import free_main_memory, shortage

MOST_ARRAYS = 2**18
"""Most arrays in a file. The largest models have a third as many, and reading the names of more takes long."""

Numbers = Literal["float", "whole", "other"]
"""Type of the numbers of an array; "whole" is integers and booleans."""


@dataclass(frozen=True)
class SavedArray:
    """An array in a file, whose numbers are read on request.

    Attributes:
        path: the file.
        name: name of the array in it; "": no name.
        shape: shape of the array.
        dtype: name of its type, as in NumPy. For types that cannot be read, it also says what to save instead.
        numbers: whether it holds floats, whole numbers, or something else.
        load: returns the numbers, in any type that NumPy converts to float32.
    """

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: str
    numbers: Numbers
    load: Callable[[], NDArray[Any]]

    def read(self) -> NDArray[np.float32]:
        """Return a copy in float32; numbers that are too large become infinity. Raises MhavizError if it cannot."""
        with reading(self.path), np.errstate(over="ignore"):
            numbers = np.asarray(self.load(), np.float32, order="C")
            return numbers if numbers.flags.writeable else numbers.copy()  # if not writeable, it is the mapped file

    def read_finite(self) -> NDArray[np.float32]:
        """Return a copy in float32 of an array of finite floats.

        Raises:
            MhavizError: the array holds other numbers, does not fit into memory, or cannot be read.
        """
        self.require_floats()
        require_room([self])
        numbers = self.read()
        if not (finite := np.isfinite(numbers)).all():
            place = np.argwhere(~finite)[0].tolist()
            raise MhavizError(
                f"{self.path}: {self.name:.80}: expected finite numbers of float32, got {numbers[tuple(place)]:g} at "
                f"{place}"
            )
        return numbers

    def require_floats(self) -> None:
        """Raise MhavizError unless the array holds floating-point numbers."""
        if self.numbers != "float":
            raise MhavizError(f"{self.path}: {self.name:.80}: expected floating-point numbers, got {self.dtype}")


ArrayList = tuple[SavedArray, ...]
"""At least one array, from a list of arrays only, such as one for each layer of a model."""


def numbers_of(dtype: np.dtype[Any]) -> Numbers:
    """Return which numbers an array of this type holds."""
    return "float" if dtype.kind == "f" else "whole" if dtype.kind in "iub" else "other"


def require_few(number: int) -> None:
    """Raise ContentError if a file has too many arrays."""
    if number > MOST_ARRAYS:
        raise ContentError(f"expected at most {MOST_ARRAYS:,} arrays, got {number:,}; save fewer")


def require_room(arrays: Iterable[SavedArray]) -> None:
    """Raise MhavizError if these arrays, with the copies that reading makes, do not fit into memory together."""
    arrays = list(arrays)
    # float32 and a copy; float64 of an archive cannot be mapped, and is in memory beside its float32
    sizes = {(".npz", "float64"): 12}
    needed = sum(math.prod(one.shape) * sizes.get((one.path.suffix.lower(), one.dtype), 8) for one in arrays)
    if short := shortage(needed, free_main_memory()):
        with reading(arrays[0].path):
            raise ContentError(f"its numbers need {short}; save fewer heads or layers, a shorter input or a pooled map")

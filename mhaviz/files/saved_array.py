"""An array in a file, whatever the format, as it is known before its numbers are read."""

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

Numbers = Literal["float", "whole", "other"]
"""What an array holds; "whole": integers and truth values."""


@dataclass(frozen=True)
class SavedArray:
    """An array in a file.

    Attributes:
        path, name: where it is; an array that has no name is called "".
        shape: its sizes.
        dtype: the name of its type, as in numpy; of other things than numbers what they are, and what to save instead.
        numbers: what it holds.
        load: the numbers in the file, in any type that numpy converts to float32.
    """

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: str
    numbers: Numbers
    load: Callable[[], NDArray[Any]]

    def read(self) -> NDArray[np.float32]:
        """A copy of the numbers; too large ones become infinity. Raises MhavizError if they cannot be read."""
        with reading(self.path), np.errstate(over="ignore"):
            numbers = np.asarray(self.load(), np.float32, order="C")
            return numbers if numbers.flags.writeable else numbers.copy()  # not writeable: it is the file itself

    def read_finite(self) -> NDArray[np.float32]:
        """The same, of an array of floats that fits into memory and has nothing but finite numbers.

        Raises:
            MhavizError: it is none such, or cannot be read.
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
        """Raise MhavizError unless it has a floating-point number in every place."""
        if self.numbers != "float":
            raise MhavizError(f"{self.path}: {self.name:.80}: expected floating-point numbers, got {self.dtype}")


ArrayList = tuple[SavedArray, ...]
"""Arrays of a list that has nothing else, such as those of a model's layers; at least one."""


def numbers_of(dtype: np.dtype[Any]) -> Numbers:
    """What an array of this type holds."""
    return "float" if dtype.kind == "f" else "whole" if dtype.kind in "iub" else "other"


def require_room(arrays: Iterable[SavedArray]) -> None:
    """Raise MhavizError if the numbers of these arrays, and what becomes of them, do not fit into memory together."""
    arrays = list(arrays)
    # float32 and a copy; float64 of an archive, which cannot be mapped, is whole in memory beside its float32
    sizes = {(".npz", "float64"): 12}
    needed = sum(math.prod(one.shape) * sizes.get((one.path.suffix.lower(), one.dtype), 8) for one in arrays)
    if short := shortage(needed, free_main_memory()):
        with reading(arrays[0].path):
            raise ContentError(f"its numbers need {short}; save fewer heads or layers, a shorter input or a pooled map")

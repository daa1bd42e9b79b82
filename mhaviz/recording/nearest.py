"""Remembers what looked most like attention, for whoever recorded a program and found none."""

from dataclasses import dataclass

from torch import Tensor

from mhaviz.recording.modules import RunningModules


@dataclass(frozen=True)
class _Softmax:
    shape: tuple[int, ...]
    axis: int
    line: str
    is_product: bool


class Nearest:
    """The softmax that came nearest to attention: one of a product before one of anything else."""

    def __init__(self, modules: RunningModules) -> None:
        self._modules = modules
        self._found: _Softmax | None = None

    def softmax(self, x: Tensor, axis: int, is_product: bool) -> None:
        """A softmax of x over an axis, counted from the end."""
        if self._found is None or (is_product and not self._found.is_product):
            self._found = _Softmax(tuple(x.shape), axis, self._modules.line(), is_product)

    def text(self) -> str:
        """ "a softmax over the last axis of (2, 8, 10, 10), at train.py:12, attend, met no values that were seen"."""
        found = self._found
        if found is None:
            return "there was no softmax"
        axis = "last axis" if found.axis == -1 else f"axis {found.axis}"
        what = (
            "met no values that were seen"
            if found.is_product
            else "was of no product of queries with keys that are tokens"
        )
        shape = found.shape if len(found.shape) != 1 else f"({found.shape[0]},)"
        return f"a softmax over the {axis} of {shape}, at {found.line}, {what}"

"""Follow which regions of images a program's tensors are made of.

What moves numbers moves the numbers of their regions: they are given to the same function. What sums, such as a layer,
merges the regions of what it sums over. Whatever is not known to do either loses them.
"""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from mhaviz.observe.flex import is_flex
from mhaviz.observe.functions import COPIES, functions, keeps_places
from mhaviz.observe.handlers import Done, unseen
from mhaviz.observe.marks import MarksByMemory
from mhaviz.observe.region_cells import CELLS, CONVOLUTIONS, Unread, axes_of_images, numbers_of_axes
from mhaviz.observe.region_moves import MOVES, is_slim, transpose
from mhaviz.observe.region_numbers import fits, full, short
from mhaviz.observe.region_sums import SUMS, attend, keep
from mhaviz.observe.region_writes import WRITERS, seen_through, written
from mhaviz.observe.regions import Traced, compacted, version_of
from mhaviz.observe.told_patches import told_patches

Rule = Callable[["Tracer", Done], Traced | None]
"""Returns what the result of a call is made of; None: not known."""

ParameterOf = Callable[[Tensor], str]
"""Returns the name of the parameter that a tensor is a view of; "" if of none."""


class _Mark(NamedTuple):
    """What was noted of a tensor, and its version; None: it has none, as in inference mode."""

    of: Traced | Unread
    version: int | None


_RULES: dict[Any, Rule] = {**MOVES, **SUMS, **CELLS}


class Tracer:
    """Follows regions of images through the functions that a program calls.

    Args:
        parameter_of: see ``ParameterOf``.
        is_made: returns whether a layer is known to have made a tensor, which then is no image.
    """

    def __init__(self, parameter_of: ParameterOf, is_made: Callable[[Tensor], bool]) -> None:
        self._are_any = False  # most programs have no images
        self._traced, self.parameter_of, self.is_made = MarksByMemory[_Mark](), parameter_of, is_made

    def _noted(self, x: object) -> "Traced | Unread | None":
        """Return what was noted of a tensor; None: nothing, or others were written into it since, unseen."""
        mark = self._traced.get(x)
        is_stale = mark is None or (isinstance(x, Tensor) and mark.version != version_of(x))
        return None if mark is None or is_stale else mark.of

    def get(self, x: object) -> Traced | None:
        """Return what a tensor is made of; None: not known, or of no image."""
        traced = self._noted(x)
        if traced is None or not isinstance(x, Tensor):
            return None
        if isinstance(traced, Unread):
            traced = traced.pixels()
            self.set(x, traced)
        is_known = all(one.ndim == x.ndim and fits(one.shape, x.shape) for one in traced.all_numbers)
        return traced if is_known else None

    def get_moved(self, x: Tensor) -> Traced | None:
        """Return what a tensor was made of before its axes were moved in place."""
        mark = self._traced.get(x)
        return mark.of if mark is not None and isinstance(mark.of, Traced) else None

    def set(self, x: Tensor, traced: "Traced | Unread | None") -> None:
        """Note what a tensor is made of."""
        if traced is not None:
            self._are_any = True
            traced = compacted(traced) if isinstance(traced, Traced) else traced
            self._traced.set(x, _Mark(traced, version_of(x)))
        elif self._traced.get(x) is not None:
            self._traced.forget(x)

    def take(self, result: Any, seen: Any) -> None:
        """Copy what is known to ``result``, which was computed unseen, from ``seen``, the same tensors computed
        again."""
        for x, one in zip(*((each if isinstance(each, tuple) else (each,)) for each in (result, seen)), strict=True):
            if isinstance(x, Tensor) and (traced := self.get(one)) is not None:
                self.set(x, traced)

    def read(self, x: Tensor) -> None:
        """Note a tensor that a program's model is given: it is taken for images if it has their shape."""
        if self._noted(x) is None and (axes := axes_of_images(x)) is not None:
            with unseen():
                self.set(x, Unread(x.detach(), axes))

    def begins(self, module: nn.Module, args: Sequence[Any]) -> None:
        """Note the patches of which a module is told where they stand, unless that was seen."""
        told = told_patches(module, args, self.get)
        if told is not None and not any(map(_is_opaque, args)):
            x, place = told
            with unseen():
                self.set(x, place())

    def is_unread(self, x: Tensor) -> bool:
        """Return whether a tensor holds images as a program's model was given them."""
        return isinstance(self._noted(x), Unread)

    def may_follow(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Return whether a call may be of images."""
        if func in CONVOLUTIONS:
            return True
        return self._are_any and (bool(kwargs) or self._traced.may_hold(args))

    def follow(self, done: Done) -> None:
        """Note what the results of a call are made of."""
        if done.func not in CONVOLUTIONS and not any(self._traced.get(x) is not None for x in done.each()):
            return
        if done.func == _SET_DATA:
            self.set(done.first, None)
        if (out := done.kwargs.get("out")) is not None:  # to repeat the call would write into it
            for x in out if isinstance(out, list | tuple) else (out,):
                self.set(x, None)
            return
        if done.func is Tensor.__setitem__ or done.result is done.first:
            self._renew(done.first)
        result = done.first if done.func is Tensor.__setitem__ else done.result
        several = [result] if isinstance(result, Tensor) else result
        if not isinstance(several, list | tuple) or any(map(_is_opaque, [*several, *done.each()])):
            return
        with unseen():
            if done.func in WRITERS:
                self._write(done, result)
            elif isinstance(result, Tensor):
                self.set(result, self._after(done))
            elif done.func in _CUTS:
                self._cut(done)
            elif several and done.func in _FIRSTS and isinstance(several[0], Tensor):
                self.set(several[0], attend(self, done._replace(result=several[0])))

    def _after(self, done: Done) -> "Traced | Unread | None":
        images = self._noted(done.first)
        if isinstance(images, Unread):
            if keeps_places(done.func) and done.result.shape == images.x.shape:
                return images
            if _RULES.get(done.func) is transpose and done.result is not done.first:
                return images.moved(done.func(numbers_of_axes(images.x), *done.args[1:], **done.kwargs))
        rule = _RULES.get(done.func)
        if rule is not None:
            return rule(self, done)
        if is_flex(done.func):
            return attend(self, done)
        if done.func in COPIES or keeps_places(done.func):
            return keep(self, done)
        return None

    def _cut(self, done: Done) -> None:
        """Note what each of several parts of a tensor is made of."""
        traced = self.get(done.first)
        if traced is None:
            return
        dim = done.named("dim", 0)
        slim = is_slim(traced, done.first.shape, dim)
        parts = [list(done.func(full(one, done.first.shape, slim), *done.args[1:])) for one in traced.all_numbers]
        for x, *numbers in zip(copy(done.result), *parts, strict=False):  # the program has yet to take from an iterator
            self.set(x, Traced(traced.regions, *(short(one, x.shape) for one in numbers)))

    def _renew(self, x: Tensor) -> None:
        """Note that the last write into a tensor is the one that is followed now."""
        mark, version = self._traced.get(x), version_of(x)
        if mark is not None and mark.version is not None and version is not None and mark.version == version - 1:
            self._traced.set(x, mark._replace(version=version))

    def _write(self, done: Done, x: Tensor) -> None:
        """Note what a tensor is made of after others were written into it, and all that shares its memory."""
        traced = written(self, done)
        self.set(x, traced)
        if x is not done.first:
            return
        others = {id(one): one for one, _ in self._traced.of_memory(x)}
        if x._is_view() and x._base is not None:
            others.setdefault(id(x._base), x._base)
        others.pop(id(x), None)
        for one in others.values():
            self._renew(one)
            is_known = traced is not None and one.dtype == x.dtype
            self.set(one, seen_through(one, self.get(one), x, traced) if is_known and traced else None)


def _is_opaque(x: object) -> bool:
    """Return whether the numbers of a tensor cannot be read."""
    if not isinstance(x, Tensor):
        return False
    is_captured = x.is_cuda and torch.cuda.is_current_stream_capturing()
    return x.is_meta or x.is_nested or is_captured or torch._C._functorch.is_functorch_wrapped_tensor(x)


_CUTS = frozenset([*functions("chunk split split_with_sizes tensor_split unbind"), Tensor.__iter__])
_SET_DATA = Tensor.data.__set__  # type: ignore[attr-defined]
_FIRSTS = frozenset([F.multi_head_attention_forward, torch.native_dropout])
"""Functions that return several tensors, the first of which has the tokens of their first argument."""

"""Find attentions that are parts of one softmax: their outputs are joined by the sums of their exponentials.

Flash-decoding and ring attention take a softmax over a part of the keys at a time, and weigh its output by its share of
all exponentials (Milakov and Gimelshein 2018, arXiv 1805.02867). Attentions whose outputs are only added, such as those
to two memories, are no parts: the rows of each sum to 1.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.observe.by_hand import SOFTMAXES
from mhaviz.observe.functions import MULTIPLIES, functions
from mhaviz.observe.handlers import Done
from mhaviz.observe.layouts import Layouts
from mhaviz.observe.log import Log
from mhaviz.observe.marks import Marks
from mhaviz.observe.products import PRODUCTS


class _AttentionOutput(NamedTuple):
    """The numbers of the attentions, or of the sums of exponentials, that a tensor is made of."""

    of: frozenset[int] = frozenset()
    sums: frozenset[int] = frozenset()


class Merging:
    """Follows outputs of attentions, and sums of exponentials.

    An attention is a part if several sums weigh its output at once. If its own sums alone weigh it, as a gate does, it
    is whole.

    Args:
        log: is told which attentions are parts of one softmax.
        on_weighed: called with an attention whose output is multiplied by its own sums, or by a number for each head.
            The rows of its weights then sum to that.
        layouts: of the program's tensors.
    """

    def __init__(self, log: Log, on_weighed: Callable[[int], None], layouts: Layouts) -> None:
        self._marks, self._numbers = Marks[_AttentionOutput](), count()
        self._log, self._on_weighed, self._layouts = log, on_weighed, layouts

    def add_sums(self, x: Tensor) -> None:
        """Note sums of exponentials of scores, or their logarithms, made by the call that runs."""
        self._marks.set(x, _AttentionOutput(sums=frozenset([next(self._numbers)])))

    def may_follow(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Return whether a call may join outputs of attentions."""
        return len(self._marks) > 0 and self._marks.may_hold(args)

    def follow(self, done: Done) -> None:
        """Follow a finished call."""
        result, several = done.result, list(done.each())
        results = several[:1] if result is None else result if isinstance(result, list | tuple) else [result]
        # Single numbers do not count, as losses may be multiplied.
        tensors = [x for x in results if isinstance(x, Tensor) and x.is_floating_point() and x.ndim]
        if done.attention is not None and done.func is not F.multi_head_attention_forward:  # its output is projected
            self._marks.set(tensors[0], _AttentionOutput(frozenset([done.attention])))
            for x in tensors[1:]:
                self.add_sums(x)
            return
        found = [mark for x in several if (mark := self._marks.get(x)) is not None]
        has_sums = any(self._marks.get(x) is not None and all(x is not one for one in several) for x in tensors)
        if has_sums or not found or not tensors:
            return
        of, sums = (frozenset[int]().union(*sets) for sets in zip(*found, strict=True))
        if done.func in _NORMALISE and not of:  # parts along an axis
            sums |= {next(self._numbers)}
        if of and len(sums) > 1 and done.func in _WEIGH:
            for number in sorted(of):
                self._log.leave_out(number, _PARTS)
            return
        if len(of) == 1 and done.func in _WEIGH and (sums or self._is_for_each_head(several)):
            self._on_weighed(*of)
        if done.func not in _LAYERS:
            for x in tensors:
                self._marks.set(x, _AttentionOutput(of) if of else _AttentionOutput(sums=sums))

    def _is_for_each_head(self, factors: Sequence[Any]) -> bool:
        """Return whether one of two factors has a number for each head of the other, but none for each feature."""
        tensors = [x for x in factors if isinstance(x, Tensor)]
        for x, other in (tensors, tensors[::-1]) if len(tensors) == 2 else ():
            sizes = (1,) * (x.ndim - other.ndim) + tuple(other.shape)
            features = [axis for axis in range(-x.ndim, 0) if self._layouts.are_features(x, axis)]
            if len(sizes) == x.ndim and features[-1:] == [-1] and sizes[-1] == 1 and self._marks.get(other) is None:
                return any(sizes[axis] > 1 for axis in features)
        return False


_PARTS = "its softmax is computed for a part of the keys at a time, and the parts are joined by their sums"

_LAYERS = {*PRODUCTS, *functions("linear bilinear conv1d conv2d conv3d")}
"""Functions that compute something else from outputs."""

_WEIGH = {*PRODUCTS, *MULTIPLIES, *functions("div divide true_divide truediv lerp addcmul addcdiv")}
"""Functions by which sums may weigh outputs."""

_NORMALISE = {*SOFTMAXES, *functions("sum logsumexp log_softmax")}

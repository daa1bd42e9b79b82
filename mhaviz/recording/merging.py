"""Tells which attentions are parts of one softmax: their outputs are joined by the sums of their exponentials.

Flash-decoding and ring attention take a softmax over a part of the keys at a time, and weigh its output by its share of
all exponentials (Milakov and Gimelshein 2018, arXiv 1805.02867). Two attentions whose outputs are added, such as those
to two memories, have their own rows that sum to 1.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.recording.functions import functions
from mhaviz.recording.marks import Marks
from mhaviz.recording.products import PRODUCTS


class _Made(NamedTuple):
    """What a tensor is made of: the outputs of these attentions, those that sums weigh; of neither: of sums alone."""

    of: frozenset[int] = frozenset()
    weighed: frozenset[int] = frozenset()


class Merging:
    """Follows outputs of attentions, and sums of exponentials. ``on_merged`` is told which attentions were joined."""

    def __init__(self, on_merged: Callable[[frozenset[int]], None]) -> None:
        self._marks, self._on_merged, self._here = Marks[_Made](), on_merged, threading.local()

    def shown(self, attention: int) -> None:
        """Note that the function that runs is an attention; ``attention`` names it to ``on_merged``."""
        self._here.attention = attention

    def add_sums(self, x: Tensor) -> None:
        """Note sums of exponentials of scores, or their logarithms."""
        self._marks.set(x, _Made())

    def may_follow(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Whether a function of these may be an attention, or join some."""
        return hasattr(self._here, "attention") or (len(self._marks) > 0 and self._marks.may_hold(args))

    def follow(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """Follow a function that has run."""
        attention = self._here.__dict__.pop("attention", None)
        if attention is not None and func is not F.multi_head_attention_forward:  # whose output is a layer's
            output, *sums = result if isinstance(result, tuple | list) else (result,)
            self._marks.set(output, _Made(frozenset([attention])))
            for x in sums:
                if isinstance(x, Tensor) and x.is_floating_point():
                    self.add_sums(x)
            return
        several = [one for x in (*args, *kwargs.values()) for one in (x if isinstance(x, list | tuple) else (x,))]
        found = [mark for x in several if (mark := self._marks.get(x)) is not None]
        made = _Made(*(frozenset[int]().union(*sets) for sets in zip(*found, strict=True)))
        if made.of and _Made() in found:
            made = _Made(made.of, made.of)
        elif not found or (func in _LAYERS and len(made.weighed) != 1):  # those that are joined already are a layer's
            return
        if len(made.weighed) > 1:
            self._on_merged(made.weighed)
        for x in (args[0],) if result is None else result if isinstance(result, list | tuple) else (result,):
            if isinstance(x, Tensor) and x.is_floating_point() and x.ndim:  # losses of both may be added
                self._marks.set(x, made)


_LAYERS = {*PRODUCTS, *functions("linear bilinear conv1d conv2d conv3d")}
"""Functions that make something else of outputs, unless sums weigh these, or have weighed a part of one softmax."""

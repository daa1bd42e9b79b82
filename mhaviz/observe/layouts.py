"""Follow the axes of a program's tensors through the functions that it calls."""

import threading
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.observe.axes import (
    Axis,
    Cut,
    Layout,
    Origin,
    are_tokens,
    cut_layout,
    fitted,
    given_layout,
    has_rows,
    lost,
    origins_of,
    reordered,
    sum_of,
    through_along,
    with_cut,
)
from mhaviz.observe.axis_rules import AXIS_RULES, layout_of_any_product, layout_of_product
from mhaviz.observe.descent import FixedRows, Maker, are_rows_fixed
from mhaviz.observe.functions import functions, keeps_places
from mhaviz.observe.handlers import Done
from mhaviz.observe.marks import MarksByMemory
from mhaviz.observe.products import Product


class Layouts:
    """The layouts of a program's tensors; ``fixed``: see ``FixedRows``."""

    def __init__(self, fixed: FixedRows) -> None:
        self._layouts, self._fixed = MarksByMemory[Layout](), fixed
        self._here = threading.local()

    def get(self, x: Tensor) -> Layout | None:
        """Return the layout of a tensor; None: nothing is known of it."""
        layout = self._layouts.get(x)
        return layout if layout is not None and layout.shape == x.shape else None

    def of(self, x: Tensor, is_input: bool = False) -> Layout:
        """Return the layout of a tensor. It is made here if the tensor was not seen to be computed.

        ``is_input``: whether the program has been given the tensor.
        """
        layout = self.get(x)
        if layout is None:
            is_fixed = self.are_fixed(x)
            layout = given_layout(x.shape, is_input or is_fixed or not self._fixed.is_within())
            if x.is_floating_point():  # token ids are read once
                self._layouts.set(x, layout)
        return layout

    def maker(self, x: Tensor) -> Maker:
        """See ``FixedRows.maker``."""
        return self._fixed.maker(x)

    def are_fixed(self, x: Tensor) -> bool:
        """Return whether a tensor is known to be computed from parameters and constants alone."""
        return bool(are_rows_fixed([self._fixed.root(x)]))

    def are_made(self, x: Tensor) -> bool:
        """Return whether a tensor is known to hold rows, such as tokens, of features that a layer has made."""
        layout = self.get(x)
        return layout is not None and has_rows(layout.axes)

    def are_features(self, x: Tensor, axis: int) -> bool:
        """Return whether an axis is known to hold features that a layer has made."""
        layout = self.get(x)
        return layout is not None and any(origin.maker is not None for origin in origins_of(layout.axes[axis]))

    def are_tokens(self, x: Tensor, axis: int) -> bool:
        """Return whether an axis is known, and holds no features that layers have made."""
        layout = self.get(x)
        return layout is not None and -axis <= len(layout.axes) and are_tokens(layout.axes[axis])

    def are_one_feature(self, x: Tensor, tokens: int) -> bool:
        """Return whether a tensor is known to hold one feature, made by a layer, for each token along an axis."""
        layout = self.get(x)
        if layout is None or not self.are_tokens(x, tokens):
            return False
        makers = {(origin.size, n) for axis in layout.axes for origin, n in axis if origin.maker is not None}
        return makers == {(1, 1)} and not layout.scores

    def sum_tokens_and_features(self, x: Tensor, places: Sequence[int]) -> bool:
        """Return whether one of two products sums over features that layers have made, and the other over tokens.

        The first product is ``x``. The second is of ``x``, and sums over its axes ``places``.
        """
        layout = self.get(x)
        if layout is None or layout.scores is None:
            return False
        sums = layout.scores.summed, [layout.axes[place] for place in places]
        origins = [origins_of(*axes) for axes in sums]
        is_made = any(one.maker is not None for one in origins_of(*layout.axes))
        is_known = not any(
            one.is_lost or (one.maker is None and _may_be_features(one, is_made))
            for several in origins
            for one in several
        )
        return is_known and {all(map(are_tokens, axes)) for axes in sums} == {True, False}

    def take(self, result: Any, seen: Any) -> None:
        """Copy layouts to ``result``, which was computed unseen, from ``seen``, the same tensors computed again."""
        for x, one in zip(*((each if isinstance(each, tuple) else (each,)) for each in (result, seen)), strict=True):
            if isinstance(x, Tensor) and (layout := self.get(one)) is not None:
                self._layouts.set(x, layout)

    def note_queries(self, features: Sequence[Axis]) -> None:
        """Note the features of the queries, and of the keys, of the attention that is shown now.

        What it makes goes on with the queries: a decoder that reads a memory does not become a part of it.
        """
        self._here.queries = features[0] if len(features) == 2 else ()

    def note_product(self, x: Tensor, product: Product) -> None:
        """Note that the result of the call that runs is a product, which its function does not tell."""
        self._here.product = x, product

    def before(self, x: Tensor) -> Layout:
        """Return the layout that a tensor had before its axes were moved in place."""
        return self._layouts.get(x) or Layout(tuple(x.shape), tuple(map(lost, x.shape)))

    def of_call(self, query: Tensor, key: Tensor) -> Layout | None:
        """Return the layout of the scores of queries and keys, (…, length, features) each; None: not known."""
        if key.ndim > query.ndim:
            return None
        letters = "ABCDEFGHIJKLMNOP"[: query.ndim - 2]
        product = Product((query, key), (f"{letters}xy", f"{letters[query.ndim - key.ndim :]}zy"), f"{letters}xz")
        return layout_of_product(self, product, (*query.shape[:-1], key.shape[-2]))

    def may_follow(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Return whether the layouts of a call's results may be known."""
        return bool(kwargs) or func in _STARTS or self._layouts.may_hold(args) or not self._fixed.is_within()

    def follow(self, done: Done) -> None:
        """Note the layouts of what a call has made."""
        if self._fixed.is_within():
            self._follow(done)
        else:
            self._follow_input(done)
        if done.attention is None:
            return
        out = done.result[0] if isinstance(done.result, tuple | list) else done.result
        if _has_axes(out):
            layout = self.of(out)
            queries = self._here.__dict__.pop("queries", ())
            through = through_along(queries or layout.axes[-1]) | {done.attention}
            features = tuple((origin.replace(through=through), n) for origin, n in layout.axes[-1])
            self._layouts.set(out, layout.with_axis(-1, features))

    def _follow_input(self, done: Done) -> None:
        """Follow a call outside of modules, which may make their inputs, and whose arguments may be the program's."""
        results = done.result if isinstance(done.result, tuple | list) else (done.result,)
        made = [x for x in results if _has_axes(x) and x.is_floating_point()]
        given = [x for x in done.each() if _has_axes(x) and self._fixed.root(x) is None] if made else []
        for x in given:
            self.of(x)
        self._follow(done)
        for x in made if given else ():
            if self.get(x) is None:
                self._layouts.set(x, given_layout(x.shape))

    def _follow(self, done: Done) -> None:
        if type(done.result) is Tensor:
            if done.result.is_nested:
                return
            layout = self._after(done)
            if layout is not None and done.func in _PARTS:
                layout = _as_part(self.of(done.first), done.first, layout, done.result)
            if layout is not None:
                self._layouts.set(done.result, layout)
        elif done.func in _CUTS and done.args and isinstance(done.args[0], Tensor):
            source = self.of(done.args[0])
            dim = done.named("dim", 0 if done.func in _UNBINDS else None)
            for one in copy(done.result):  # the program has yet to take from this iterator
                self._layouts.set(one, _as_part(source, done.args[0], cut_layout(source, one.shape, dim), one))
        elif done.func in _SORTS and self.get(done.first) is not None:
            source = self.of(done.args[0])
            dim = done.named("dim", -1) % len(source.shape)
            if dim < len(source.shape) - 1:
                source = cut_layout(source, done.result[0].shape)
                self._layouts.set(done.result[0], reordered(source, {dim}))
        elif done.func in _RETURN_SEVERAL and type(done.result) is tuple and self.get(done.first) is not None:
            self._layouts.set(done.result[0], cut_layout(self.of(done.args[0]), done.result[0].shape))
        elif done.result is None and done.func is _SET_ITEM:
            self.write(done.args[0], done.args[2])
            self._layouts.set(done.args[0], self.of(done.args[0]))
        elif done.func == _SET_DATA:
            self._layouts.moved(done.args[0])

    def write(self, x: Tensor, values: Any) -> None:
        """Note that values were written into a tensor, which has their axes if nothing is known of its own."""
        read = self.get(values) if isinstance(values, Tensor) else None
        if read is not None and self.get(x) is None and x.ndim == values.ndim:
            self._layouts.set(x, Layout(tuple(x.shape), tuple(map(fitted, read.axes, x.shape))))

    def _after(self, done: Done) -> Layout | None:
        if (noted := self._here.__dict__.pop("product", None)) is not None and noted[0] is done.result:
            return layout_of_any_product(self, noted[1], done.result.shape)
        rule = AXIS_RULES.get(done.func)
        if rule is not None:
            return rule(self, done)
        layout = self.alike(done)
        if layout is None or done.attention is not None or keeps_places(done.func):
            return layout
        return reordered(layout, range(len(layout.shape)))

    def alike(self, done: Done) -> Layout | None:
        """Return the layout of the result of a function that leaves all numbers in their places, or cuts some off."""
        same, others, shape = list[tuple[Any, Layout]](), list[tuple[Any, Layout]](), done.result.shape
        for x in (*done.args, *done.kwargs.values()):
            if type(x) is list or type(x) is tuple:
                x = next((one for one in x if self._layouts.get(one) is not None), None)
            layout = self._layouts.get(x)
            if layout is None:
                continue
            (same if layout.shape == shape else others).append((x, layout))
        scores = [(layout, layout.scores) for _, layout in same if layout.scores is not None]
        if any(one.are_scores for _, one in scores):  # rather than those of a mask, or of positions
            is_lost = [any(origin.is_lost for origin in origins_of(*one.summed)) for _, one in scores]
            ranks = zip(is_lost, [not one.are_scores for _, one in scores], range(len(scores)), strict=True)
            layout, of = scores[min(ranks)[2]]
            return layout._replace(scores=replace(of, are_scores=True))
        if same:
            several = [*same, *others] if done.func in _SUMS else same
            if len(several) == 1:
                return same[0][1]
            active = [layout for x, layout in several if not self.are_fixed(x)]  # rather than positions
            return reduce(sum_of, active, active[0] if active and active[0].shape == shape else same[0][1])
        if not others:
            return None
        return cut_layout(others[0][1], shape, done.named("dim"))


def _may_be_features(origin: Origin, is_made: bool) -> bool:
    """Return whether an axis may be features: the last of a given tensor that is no image with other features."""
    return origin.given is not None and origin.given[0] == origin.given[1] - 1 and not (is_made and origin.given[1] > 3)


def _has_axes(x: Any) -> bool:
    return isinstance(x, Tensor) and x.ndim > 0 and not x.is_nested


def _as_part(source: Layout, x: Tensor, layout: Layout, result: Tensor) -> Layout:
    """Return the layout of a view, with what it has kept of each axis."""
    try:
        if result.untyped_storage().data_ptr() != x.untyped_storage().data_ptr():
            return layout
        first: Any = result.storage_offset() - x.storage_offset()
        of_result = list(zip(result.shape, result.stride(), strict=True))
        last: Any = first + sum((n - 1) * stride for n, stride in of_result)
    except (RuntimeError, NotImplementedError):  # the tensors have no storage
        return layout
    axes, scores, strides = list(layout.axes), layout.scores, x.stride()
    for place in sorted(range(x.ndim), key=strides.__getitem__, reverse=True):
        stride, size, axis = int(strides[place]), x.shape[place], source.axes[place]
        if size < 2 or not stride:
            continue
        (start, first), (end, last) = divmod(first, stride), divmod(last, stride)
        if len(origins_of(axis)) != 1:
            continue
        (origin,) = origins_of(axis)
        kept = [
            (one, n, step // stride)
            for one, (n, step) in enumerate(of_result)
            if n > 1 and step * (n - 1) == (end - start) * stride
        ]
        if start == end:
            kept = [(one, 1, 1) for one, axis in enumerate(axes) if result.shape[one] == 1 and origin in dict(axis)]
        own, n, step = kept[0] if len(kept) == 1 else (-1, 1, 1)
        cut = Cut(start, step, n, size)
        if cut.n == size or (start < end and own < 0):
            continue
        for one, factors in enumerate(axes):
            if one == own or scores is None or size * dict(factors).get(origin, 1) <= origin.size:  # not the other side
                axes[one] = with_cut(factors, origin, cut, beside=one != own)
        if scores is not None:
            summed = tuple(with_cut(factors, origin, cut, beside=True) for factors in scores.summed)
            scores = replace(scores, summed=summed)
    return layout._replace(axes=tuple(axes), scores=scores)


_SET_ITEM, _SET_DATA = Tensor.__setitem__, Tensor.data.__set__  # type: ignore[attr-defined]
_SUMS = frozenset(functions("add sub"))
_SORTS = frozenset(functions("sort topk"))
_UNBINDS = [*functions("unbind"), Tensor.__iter__]
_PARTS = frozenset([Tensor.__getitem__, *functions("narrow select")])
_CUTS = {*functions("chunk split split_with_sizes tensor_split"), *_UNBINDS}
_STARTS = {*AXIS_RULES, *_CUTS}
_RETURN_SEVERAL = {
    F.multi_head_attention_forward,
    torch.native_dropout,
    torch.lstm,
    torch.gru,
    torch.rnn_tanh,
    torch.rnn_relu,
}
"""Functions that return several tensors, the first of which has the tokens of their first argument."""

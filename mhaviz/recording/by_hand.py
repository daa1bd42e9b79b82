"""Recognises attention that is written by hand: product → scale, mask, bias → softmax → product with values.

Each tensor on this way is marked, and what is computed from a marked tensor is marked in its turn.

What is shown are the weights that the program's own softmax made. Nothing is computed a second time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.attention.padding import HIDES
from mhaviz.recording.descent import Axes, FixedRows, Sides, places_after, why_none
from mhaviz.recording.looks import Follow, Look, guarded, unseen
from mhaviz.recording.marks import Exponentials, Logarithms, Mark, Marks, Scores, Softmax, Weights
from mhaviz.recording.products import PRODUCTS, Product

OnWeights = Callable[[Tensor, Tensor, bool, "Meeting"], None]
"""Is called with weights, (…, q_length, k_length), with what they have made of the values, with whether they were mixed
with others before that, and with how that came."""


@dataclass(frozen=True)
class Meeting:
    """How weights have met values.

    Attributes:
        product: of the two.
        axis: of the keys in the weights.
        which: factor the weights are.
        multiply_again: computes what came of it once more, in its place; None: it would be added to what there is.
        have_met_again: tells, later on, whether the same weights have met other values since.
        visible: bool, (…, q_length, k_length): False where the softmax was given the score of a hidden key; None: not
            known.
        sides: what of it is fixed.
    """

    product: Product
    axis: int
    which: int
    multiply_again: Callable[[], None] | None
    have_met_again: Callable[[], bool]
    visible: Tensor | None
    sides: Sides

    @property
    def weights(self) -> Tensor:
        """What was multiplied by the values: the weights in the program's own axes, dropped out or cast."""
        return self.product.factors[self.which]

    def as_weights(self, x: Tensor) -> Tensor:
        """What has these axes as (…, q_length, k_length)."""
        return self.product.as_weights(x, self.axis, self.which)

    def values(self) -> Tensor | None:
        """(…, k_length, d_value), with the axes before that of ``as_weights``; see ``Product.as_values``."""
        return self.product.as_values(self.axis, self.which)

    def as_mixed(self, x: Tensor) -> Tensor:
        """What has the axes of what came of it as (…, q_length, d_value), where there are values."""
        return self.product.as_mixed(x, self.axis, self.which)


class ByHand:
    """Follows the tensors of a program, function by function.

    Args:
        on_weights: is called with each attention.
        on_softmax: is called with a softmax's input and axis, of what could become weights, and with whether it is of a
            product.
        on_unseen: is told, in a line, what looks like attention and is not shown.
        on_error: is told what goes wrong here.
        fixed: knows which tensors are no activations.
    """

    def __init__(
        self,
        on_weights: OnWeights,
        on_softmax: Callable[[Tensor, int, bool], None],
        on_unseen: Callable[[str], None],
        on_error: Callable[[Exception], None],
        fixed: FixedRows,
    ) -> None:
        self._marks = Marks()
        self._on_unseen, self._fixed = on_unseen, fixed
        self._on_weights, self._on_softmax, self._on_error = on_weights, on_softmax, on_error

    def looks(self) -> dict[Any, Look]:
        """Of each function that is looked at, what runs it."""
        looks: dict[Any, Look] = dict.fromkeys(_ELEMENTWISE, self._unless_unmarked(self._elementwise))
        for functions, follow in (
            (_VIEWS, self._view),
            (_MAPS, self._map),
            (_EXPONENTIALS, self._exp),
            (_SUMS, self._sum),
            (_LOG_SOFTMAXES, self._log_softmax),
            (_LOG_SUMS, self._log_sum),
            (_DIFFERENCES, self._difference),
            (_GREATER, self._greater),
            (_QUOTIENTS, self._quotient),
        ):
            looks |= dict.fromkeys(functions, self._unless_unmarked(follow))
        looks |= dict.fromkeys(SOFTMAXES, guarded(self._softmax, self._on_error))
        return looks | dict.fromkeys(PRODUCTS, guarded(self._product, self._on_error))

    def _unless_unmarked(self, follow: Follow) -> Look:
        """What runs functions of marked tensors, which are looked at, and of others, which are most."""
        marked, may_be_marked, look = self._marked, self._marks.may_hold, guarded(follow, self._on_error)

        def run(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
            found = marked(args, kwargs) if kwargs or may_be_marked(args) else None
            if found is None:
                return func(*args, **kwargs)
            source, mark = found
            if func in _IN_PLACE or kwargs.get("inplace") is True:
                try:
                    self._keep(source, mark)
                except Exception as error:  # such as a lack of memory, which would not have been the program's
                    self._on_error(error)
            return look(func, args, kwargs)

        return run

    def _keep(self, source: Tensor, mark: Mark) -> None:
        """Keep what a softmax has made before it is changed in place."""
        if isinstance(mark, Weights) and not mark.softmax.has_met and not mark.softmax.is_kept:
            made = source if mark.is_made else mark.softmax.made
            if made is not None:
                with unseen():
                    mark.softmax.made, mark.softmax.is_kept = made.clone(), True
            self._marks.set(source, replace(mark, is_made=False))

    def _product(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        product = PRODUCTS[func](args, kwargs) if isinstance(result, Tensor) else None
        if product is None:
            return
        axes = Axes(product.holders(), tuple(map(self._fixed.root, product.factors)))
        for which, factor in enumerate(product.factors):
            mark = self._marks.get(factor)
            if isinstance(mark, Weights):
                self._meet_values(mark, product, axes, which, result, partial(func, *args, **kwargs))
                return
            if isinstance(mark, Exponentials):
                mark = mark.scores
            if isinstance(mark, Scores) and mark.mapped and not axes.are_fixed and not mark.axes.are_fixed:
                summed = (axis for axis in range(factor.ndim) if product.summed_over(axis, which))
                if any(mark.axes.query(axis - factor.ndim) is not None for axis in summed):
                    self._on_unseen(f"{mark.mapped} of a product of activations is multiplied by others")
        self._marks.set(result, Scores(axes))

    def _meet_values(
        self, mark: Weights, product: Product, axes: Axes, which: int, result: Tensor, multiply: partial[Tensor]
    ) -> None:
        """Show weights where they first meet values: what else they are multiplied by is of the same attention."""
        axis = product.factors[which].ndim + mark.axis
        if not product.summed_over(axis, which):
            of_queries = mark.query is not None and product.summed_over(mark.query, which)
            if product.keeps_axes(axis, which) and not of_queries:  # a mixture of heads
                mark.softmax.is_mixed = True
                self._marks.set(result, mark.of(product.factors[which], result))
            elif not mark.softmax.has_met and not mark.softmax.axes.are_fixed:
                self._on_unseen("a softmax of a product is multiplied by others, which sums over another axis than it")
            return
        key = product.axes[which][axis]
        if sum(key in letters for letters in product.axes) > 2:
            self._on_unseen("a softmax of a product is multiplied by values and a factor for each key in one")
            return
        if mark.softmax.has_met:
            mark.softmax.has_met_again = True
            return
        A = product.factors[which] if mark.is_made else mark.softmax.made
        visible = mark.softmax.visible
        mark.softmax.has_met, mark.softmax.made, mark.softmax.visible = True, None, None
        if mark.query is not None and product.factors[which].shape[mark.query] > 1:
            letter = product.axes[which][mark.query]
            if letter in product.others(which) and letter in product.result:
                product = replace(product, query=letter)
        sides = self._sides(mark.softmax, product, axis, which)
        if A is None:  # what it had made was changed in place by a function that nobody looks at
            return
        with unseen():
            for view in mark.views:
                A, visible = view(A), None if visible is None else view(visible)
            adds = any(x is result for x in multiply.args)

            def multiply_again() -> None:
                result.copy_(multiply())

            softmax = mark.softmax
            again = None if adds else multiply_again
            meeting = Meeting(product, axis, which, again, lambda: softmax.has_met_again, None, sides)
            if visible is not None:
                meeting = replace(meeting, visible=meeting.as_weights(visible))
            self._on_weights(meeting.as_weights(A), result, mark.softmax.is_mixed, meeting)

    def _sides(self, softmax: Softmax, product: Product, key_axis: int, which: int) -> Sides:
        """What is fixed of weights that meet values, and whether they are those of attention."""
        axes, axis = softmax.axes, softmax.axis
        are_fixed = axes.are_fixed_beside(axis), axes.are_fixed_along(axis) is True
        if all(are_fixed) and not axes.are_fixed:
            return Sides(are_fixed)
        key = product.axes[which][key_axis]
        values = [number for number, letters in enumerate(product.axes) if key in letters and number != which]
        fixed = all(self._is_fixed_along(product, number, key) for number in values)
        why = why_none(axes.over_fixed(axis), fixed)
        if not why and product.query:
            why = "weighs values of each query's own, such as those of experts, not tokens"
        return Sides(are_fixed, why)

    def _is_fixed_along(self, product: Product, number: int, letter: str) -> bool:
        """Whether what stands along an axis of a factor is fixed: its rows, or the parameters that have made it."""
        factor = product.factors[number]
        if self._fixed.root(factor) is not None:
            return True
        mark, axis = self._marks.get(factor), product.axes[number].index(letter) - factor.ndim
        return isinstance(mark, Scores) and mark.axes.over_fixed(axis) is True

    def _softmax(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        x = args[0] if args else kwargs.get("input")
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        if isinstance(x, Tensor) and isinstance(result, Tensor) and isinstance(dim, int) and result.ndim > 1:
            scores, visible = self._marks.get(x), None
            if isinstance(scores, Scores) and type(x) is Tensor and not x.is_nested:
                with unseen():
                    visible = ~(x.detach() < HIDES)  # NaN hides nothing
            self._mark_weights(x, result, dim if dim < 0 else dim - result.ndim, scores, visible)

    def _mark_weights(
        self, x: Tensor, result: Tensor, axis: int, scores: Mark | None, visible: Tensor | None = None
    ) -> None:
        if not isinstance(scores, Scores):
            self._on_softmax(x, axis, False)
            return
        self._on_softmax(x, axis, not scores.axes.over_fixed(axis))
        softmax = Softmax(scores.axes, axis, visible=visible)
        self._marks.set(result, Weights(softmax, axis, scores.axes.query(axis)))

    def _log_softmax(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        self._logarithms(args, kwargs, result, sums=False)

    def _log_sum(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        self._logarithms(args, kwargs, result, sums=True)

    def _logarithms(self, args: Sequence[Any], kwargs: dict[str, Any], result: Any, sums: bool) -> None:
        x = args[0] if args else None
        scores = self._marks.get(x)
        if isinstance(x, Tensor) and isinstance(scores, Scores):
            dim = args[1] if len(args) > 1 else kwargs.get("dim")
            if isinstance(dim, int):
                self._marks.set(result, Logarithms(scores, dim if dim < 0 else dim - x.ndim, sums))

    def _difference(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        less = self._marks.get(args[1]) if len(args) > 1 else None
        if isinstance(less, Logarithms) and less.sums and isinstance(self._marks.get(args[0]), Scores):
            self._marks.set(result, Logarithms(less.scores, less.axis))
        else:
            self._elementwise(func, args, kwargs, result)

    def _map(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """What maps scores as another attention than that of a softmax does, or before one."""
        mark = self._marks.get(args[0]) if args else None
        if isinstance(mark, Scores) and isinstance(result, Tensor):
            self._marks.set(result, replace(mark, mapped=func.__name__.strip("_")))
        else:
            self._elementwise(func, args, kwargs, result)

    def _greater(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """The greater of two tensors, or the lesser; the greatest element of one is no score in its place."""
        if len(args) > 1 and isinstance(args[1], Tensor):
            self._elementwise(func, args, kwargs, result)

    def _exp(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        marked = self._marks.get(args[0]) if args else None
        if isinstance(marked, Scores):
            self._marks.set(result, Exponentials(replace(marked, mapped="exp")))
        elif isinstance(marked, Logarithms) and not marked.sums:
            self._mark_weights(result, result, marked.axis, marked.scores)

    def _sum(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        x = args[0] if args else None
        mark = self._marks.get(x)
        if isinstance(x, Tensor) and isinstance(mark, Exponentials) and isinstance(result, Tensor):
            dim = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis"))
            if isinstance(dim, list | tuple) and len(dim) == 1:
                (dim,) = dim
            if isinstance(dim, int):
                self._marks.set(result, replace(mark, axis=dim if dim < 0 else dim - x.ndim))

    def _quotient(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        above, below = (self._marks.get(x) for x in (*args[:2], None, None)[:2])
        if isinstance(above, Exponentials) and isinstance(below, Exponentials):
            if above.axis is None and below.axis is not None:
                self._mark_weights(result, result, below.axis, above.scores)
        else:
            self._elementwise(func, args, kwargs, result)

    def _elementwise(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """Whatever keeps each score or weight in its place."""
        found = self._marked(args, kwargs)
        if found is None:
            return
        source, mark = found
        if isinstance(result, Tensor):
            if not isinstance(mark, Weights):
                if func is not F.linear or _mixes_heads(source, result):
                    self._marks.set(result, mark)
            elif source.shape[-1] == 1 < result.shape[-1] and mark.axis != -1:
                if not mark.softmax.has_met and not mark.softmax.axes.over_fixed(mark.softmax.axis):
                    self._on_unseen("a softmax of a product is multiplied by values element by element")
            elif result.shape == source.shape or (result.ndim == source.ndim and mark.axis != -1):
                mark.softmax.is_mixed |= func in _MIXING and _has_another(args, source)
                self._marks.set(result, mark.of(source, result))
        elif result is None and args and args[0] is source:  # x[i] = y
            self._marks.set(source, mark)

    def _view(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        source = args[0] if args else None
        mark = self._marks.get(source)
        if mark is None or not isinstance(result, Tensor):
            return
        assert isinstance(source, Tensor)
        if isinstance(mark, Scores):
            places = places_after(func, source, args, kwargs, mark.axes.factors)
            self._marks.set(result, replace(mark, axes=mark.axes.moved(places)))
            return
        if not isinstance(mark, Weights):
            self._marks.set(result, mark)
            return
        axis = _axis_after(func, source, result, args, kwargs, mark.axis)
        places = places_after(func, source, args, kwargs, [mark.axis, mark.query or mark.axis])
        if axis is None:  # such as before an axis of 1 that was put behind it
            axis = places.get(mark.axis)
        if axis is not None:
            rest = args[1:]
            query = None if mark.query is None else places.get(mark.query)
            views = (*mark.views, lambda A: func(A, *rest, **kwargs))
            self._marks.set(result, replace(mark.of(source, result), axis=axis, query=query, views=views))

    def _marked(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Tensor, Mark] | None:
        """The first argument that is marked, with its mark: weights before scores."""
        found = None
        for x in (*args, *kwargs.values()):
            for one in x if isinstance(x, list | tuple) else (x,):
                mark = self._marks.get(one)
                if isinstance(mark, Weights):
                    return one, mark
                if mark is not None and (found is None or (_is_fixed(found[1]) and not _is_fixed(mark))):
                    found = one, mark
        return found


def _has_another(args: Sequence[Any], source: Tensor) -> bool:
    """Whether there is another tensor with numbers for it to be mixed with."""
    return any(isinstance(x, Tensor) and x is not source and x.numel() > 1 for x in args)


def _is_fixed(mark: Mark) -> bool:
    return isinstance(mark, Scores) and mark.axes.are_fixed


def _mixes_heads(scores: Tensor, result: Tensor) -> bool:
    """Whether a linear layer may have mixed the scores of heads: of hidden states, with three axes, it makes others."""
    return scores.ndim > 3 and result.shape == scores.shape


def _axis_after(
    func: Any, source: Tensor, result: Tensor, args: Sequence[Any], kwargs: dict[str, Any], axis: int
) -> int | None:
    """Where a view has put the axis of the keys, counted from the end; None: it has been cut, or joined with others."""
    before, after, ndim = source.shape, result.shape, source.ndim
    if func in _SWAPS:
        first, second = (_place(dim, ndim) for dim in _two(args, kwargs))
        return {first: second, second: first}.get(axis, axis)
    if func in _PERMUTES:
        dims = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:] or kwargs["dims"]
        return [_place(dim, ndim) for dim in dims].index(axis) - ndim
    if func in _TRANSPOSES:
        return {-1: -2, -2: -1}.get(axis, axis)
    tail = before[axis:]
    if after[axis:] == tail and len(after) >= len(tail):
        return axis
    if func in _CUTS and axis == -1 and len(after) == ndim and after[-1] < before[-1]:  # a column that is no key is cut
        return axis
    return None


def _two(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[int, int]:
    """The two axes of a function that swaps them."""
    names = "dim0 dim1", "axis0 axis1"
    given = [kwargs[name] for pair in names for name in pair.split() if name in kwargs]
    first, second = [*args[1:3], *given]
    return first, second


def _place(dim: int, ndim: int) -> int:
    return dim if dim < 0 else dim - ndim


def _functions(names: str) -> list[Any]:
    """Those of these names, wherever PyTorch has them: as functions, as methods, with an underscore for in place."""
    every = [name for one in names.split() for name in (one, f"{one}_", f"__{one}__", f"__r{one}__", f"__i{one}__")]
    return [getattr(home, name) for home in _HOMES for name in every if hasattr(home, name)]


_HOMES = (torch, Tensor, F)
_IN_PLACE = {
    getattr(home, name)
    for home in _HOMES
    for name in dir(home)
    if (name.endswith("_") and not name.startswith("_")) or name in ("__iadd__", "__isub__", "__imul__", "__itruediv__")
} | {Tensor.__setitem__}
"""The functions that change their first argument."""

_SWAPS = _functions("transpose swapaxes swapdims")
_PERMUTES = _functions("permute")
_TRANSPOSES = [Tensor.mT.__get__, Tensor.T.__get__]  # type: ignore[attr-defined]
_CUTS = _functions("getitem narrow")
SOFTMAXES = [torch.softmax, Tensor.softmax, F.softmax, torch.special.softmax]
_EXPONENTIALS = _functions("exp")
_SUMS = _functions("sum")
_LOG_SOFTMAXES = [torch.log_softmax, Tensor.log_softmax, F.log_softmax, torch.special.log_softmax]
_LOG_SUMS = [torch.logsumexp, Tensor.logsumexp, torch.special.logsumexp]
_DIFFERENCES = _functions("sub subtract")
_GREATER = _functions("max min")
_QUOTIENTS = _functions("div truediv true_divide divide")
_ELEMENTWISE = [
    *_functions(
        "add mul multiply masked_fill masked_scatter where dropout alpha_dropout feature_dropout to type float "
        "half bfloat16 double type_as maximum minimum nan_to_num neg contiguous "
        "clone detach cpu cuda tril triu cat concat concatenate gather index_select index_fill pad roll linear conv2d "
        "setitem index_put scatter addcmul batch_norm"
    ),
]
_MAPS = _functions("sigmoid exp2 relu tanh clamp clip clamp_min clamp_max softplus elu pow square gumbel_softmax")
"""Those that map scores one by one, or draw weights by them."""

_MIXING = {*_functions("add sub linear conv2d lerp addcmul"), *_functions("maximum minimum")}
"""Those that make of weights something else than the weights that they were, dropped out, masked or cast."""

_VIEWS = [
    *_SWAPS,
    *_PERMUTES,
    *_TRANSPOSES,
    *_CUTS,
    *_functions("view reshape view_as reshape_as flatten unflatten unsqueeze squeeze expand expand_as movedim select"),
]

"""Recognises attention that is written by hand: product → scale, mask, bias → softmax → product with values.

Each tensor on this way is marked, and what is computed from a marked tensor is marked in its turn. ``WeightsByHand``
follows the weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.attention.padding import HIDES
from mhaviz.recording.axes import Layouts
from mhaviz.recording.descent import UNKNOWN, Axes, FixedRows, places_after
from mhaviz.recording.functions import COPIES, VIEWS, functions
from mhaviz.recording.looks import Follow, Look, guarded, unseen
from mhaviz.recording.marks import Exponentials, Logarithms, Mark, Marks, Scores, Weights
from mhaviz.recording.products import PRODUCTS
from mhaviz.recording.weights import OnUnmet, OnWeights, WeightsByHand


class ByHand:
    """Follows the tensors of a program, function by function.

    Args:
        on_weights: is called with each attention.
        on_unmet: see ``OnUnmet``.
        on_unseen: is told, in a line, what looks like attention and is not shown.
        on_error: is told what goes wrong here.
        fixed: knows which tensors are no activations.
        layouts: of the program's tensors.
        on_sums: is called with sums of exponentials of scores, or their logarithms.
    """

    def __init__(
        self,
        on_weights: OnWeights,
        on_unmet: OnUnmet,
        on_unseen: Callable[[str], None],
        on_error: Callable[[Exception], None],
        fixed: FixedRows,
        layouts: Layouts,
        on_sums: Callable[[Tensor], None],
    ) -> None:
        self._marks = Marks[Mark]()
        self._on_unseen, self._fixed, self._layouts = on_unseen, fixed, layouts
        self._weights = WeightsByHand(self._marks, on_weights, on_unmet, on_unseen, on_error, fixed, layouts)
        self._on_error, self._on_sums = on_error, on_sums

    def looks(self) -> dict[Any, Look]:
        """Of each function that is looked at, what runs it."""
        looks: dict[Any, Look] = dict.fromkeys(_ELEMENTWISE, self._unless_unmarked(self._elementwise))
        for several, follow in (
            (VIEWS, self._view),
            (_MAPS, self._map),
            (_EXPONENTIALS, self._exp),
            (_SUMS, self._sum),
            (_LOG_SOFTMAXES, self._log_softmax),
            (_LOG_SUMS, self._log_sum),
            (_DIFFERENCES, self._difference),
            (_GREATER, self._greater),
            (_LARGESTS, self._largest),
            (_QUOTIENTS, self._quotient),
        ):
            looks |= dict.fromkeys(several, self._unless_unmarked(follow))
        follow_linear, linear = guarded(self._linear, self._on_error), looks[F.linear]
        looks[F.linear] = lambda func, args, kwargs: (
            follow_linear if len(args) > 1 and type(args[1]) is Tensor else linear
        )(func, args, kwargs)
        looks |= dict.fromkeys(SOFTMAXES, guarded(self._softmax, self._on_error))
        return looks | dict.fromkeys(PRODUCTS, guarded(self._product, self._on_error))

    def look_for(self, func: Any) -> Look | None:
        """What runs a function that is not in ``looks``: it may change weights. None: it does not."""
        name = getattr(func, "__name__", "")
        if func not in COPIES and (name in ("__get__", "__set__") or name.startswith("new_") or name.endswith("_like")):
            return None
        return self._unless_unmarked(lambda func, args, kwargs, result: None)

    def _unless_unmarked(self, follow: Follow) -> Look:
        """What runs functions of marked tensors, which are looked at, and of others, which are most."""
        marked, may_be_marked, look = self._marked, self._marks.may_hold, guarded(follow, self._on_error)

        def run(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
            found = marked(args, kwargs) if kwargs or may_be_marked(args) else None
            if found is None:
                return func(*args, **kwargs)
            return self._weights.run(func, args, kwargs) if isinstance(found[1], Weights) else look(func, args, kwargs)

        return run

    def _product(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        product = PRODUCTS[func](args, kwargs) if isinstance(result, Tensor) else None
        if product is None:
            return
        axes = Axes(product.holders(), tuple(map(self._fixed.root, product.factors)))
        for which, factor in enumerate(product.factors):
            mark = self._marks.get(factor)
            if isinstance(mark, Weights):
                self._weights.meet(product, which, result, partial(func, *args, **kwargs))
                return
            if isinstance(mark, Exponentials):
                mark = mark.scores
            if isinstance(mark, Scores) and mark.mapped and not axes.are_fixed and not mark.axes.are_fixed:
                summed = (axis for axis in range(factor.ndim) if product.summed_over(axis, which))
                if any(mark.axes.query(axis - factor.ndim) is not None for axis in summed):
                    self._on_unseen(f"{mark.mapped} of a product of activations is multiplied by others")
        self._marks.set(result, Scores(axes))

    def _linear(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """Queries times keys, by the function of a layer: what comes of them is not drawn, and said."""
        if self._marked(args, kwargs) is None and self._fixed.root(args[1]) is None and self._layouts.are_made(args[1]):
            self._marks.set(result, Scores(UNKNOWN, mapped=_LINEAR))
        self._elementwise(func, args, kwargs, result)

    def _softmax(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        x = args[0] if args else kwargs.get("input")
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        if isinstance(x, Tensor) and isinstance(result, Tensor) and isinstance(dim, int) and result.ndim > 1:
            scores, visible, axis = self._marks.get(x), None, dim if dim < 0 else dim - result.ndim
            is_plain = type(x) is Tensor and not x.is_nested and func is not F.softmin
            if is_plain and isinstance(scores, Scores) and not scores.axes.over_fixed(axis):
                with unseen():
                    visible = ~(x.detach() < HIDES)  # NaN hides nothing
            self._mark_weights(result, axis, scores, visible)

    def _mark_weights(self, result: Tensor, axis: int, of: Mark | None, visible: Tensor | None = None) -> None:
        """``of``: the mark of what the softmax is of."""
        if isinstance(of, Scores) and of.mapped in _LOST:
            self._on_unseen(f"a softmax of {_LOST[of.mapped]}")
            of = None
        if isinstance(of, Scores):
            self._weights.begin(result, axis, of, visible)
        elif isinstance(of, Weights):
            self._weights.begin_again(result, axis, of)
        else:
            self._weights.begin(result, axis, Scores(UNKNOWN), None)

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
            if sums:
                self._on_sums(result)

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

    def _largest(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """The largest scores, of other keys for each query."""
        mark = self._marks.get(args[0]) if args else None
        if isinstance(mark, Scores) and not mark.axes.are_fixed:
            self._marks.set(result[0], replace(mark, mapped=_LARGEST))

    def _exp(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        marked = self._marks.get(args[0]) if args else None
        if isinstance(marked, Scores):
            self._marks.set(result, Exponentials(replace(marked, mapped="exp")))
        elif isinstance(marked, Logarithms) and not marked.sums:
            self._mark_weights(result, marked.axis, marked.scores)

    def _sum(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        x = args[0] if args else None
        mark = self._marks.get(x)
        if isinstance(x, Tensor) and isinstance(mark, Exponentials) and isinstance(result, Tensor):
            dim = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis"))
            if isinstance(dim, list | tuple) and len(dim) == 1:
                (dim,) = dim
            if isinstance(dim, int):
                self._marks.set(result, replace(mark, axis=dim if dim < 0 else dim - x.ndim))
            self._on_sums(result)

    def _quotient(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        above, below = (self._marks.get(x) for x in (*args[:2], None, None)[:2])
        if isinstance(above, Exponentials) and isinstance(below, Exponentials):
            if above.axis is None and below.axis is not None:
                self._mark_weights(result, below.axis, above.scores)
        else:
            self._elementwise(func, args, kwargs, result)

    def _elementwise(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """Whatever keeps each score or weight in its place."""
        found = self._marked(args, kwargs)
        if found is None:
            return
        source, mark = found
        if isinstance(mark, Scores):
            mark = replace(mark, sinks=self._sinks(func, args, source, mark, result))
        if isinstance(result, Tensor):
            if func is not F.linear or _mixes_heads(source, result):
                self._marks.set(result, mark)
        elif result is None and args and args[0] is source:  # x[i] = y
            self._marks.set(source, mark)
        elif result is None and args and isinstance(mark, Scores) and not mark.axes.are_fixed:
            self._marks.set(args[0], replace(mark, axes=replace(mark.axes, factors={})))

    def _sinks(self, func: Any, args: Sequence[Any], source: Tensor, mark: Scores, result: Any) -> int:
        """How many numbers of the last axis are of no product, once scores may have been joined with others."""
        if func not in _JOINTS or not args or not isinstance(result, Tensor) or result.shape[-1] == source.shape[-1]:
            return mark.sinks
        several = [args[0]] if args[0] is source else args[0]
        marks = ((one.shape[-1], self._marks.get(one)) for one in several)
        of_products = sum(size - one.sinks for size, one in marks if isinstance(one, Scores))
        return max(result.shape[-1] - of_products, 0)

    def _view(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        source = args[0] if args else None
        mark = self._marks.get(source)
        if mark is None or not isinstance(source, Tensor) or not isinstance(result, Tensor):
            return
        if isinstance(mark, Scores):
            places = places_after(func, source, args, kwargs, mark.axes.factors)
            mark = replace(mark, axes=mark.axes.moved(places))
        self._marks.set(result, mark)

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


def _is_fixed(mark: Mark) -> bool:
    return isinstance(mark, Scores) and mark.axes.roots.count(None) < len(mark.axes.roots)


def _mixes_heads(scores: Tensor, result: Tensor) -> bool:
    """Whether a linear layer may have mixed the scores of heads: of hidden states, with three axes, it makes others."""
    return scores.ndim > 3 and result.shape == scores.shape


_LINEAR, _LARGEST = "F.linear", "topk"
_LOST = {
    _LINEAR: f"a product of activations by {_LINEAR}",
    _LARGEST: "the largest of a product of activations",
}
"""Scores whose softmax is not drawn."""
SOFTMAXES = [torch.softmax, Tensor.softmax, F.softmax, F.softmin, torch.special.softmax]
_EXPONENTIALS = functions("exp")
_SUMS = functions("sum")
_LOG_SOFTMAXES = [torch.log_softmax, Tensor.log_softmax, F.log_softmax, torch.special.log_softmax]
_LOG_SUMS = [torch.logsumexp, Tensor.logsumexp, torch.special.logsumexp]
_DIFFERENCES = functions("sub subtract")
_GREATER = functions("max min")
_LARGESTS = functions("topk")
_QUOTIENTS = functions("div truediv true_divide divide")
_JOINTS = functions("cat concat concatenate pad")
_ELEMENTWISE = [
    *functions(
        "add mul multiply masked_fill masked_scatter where dropout alpha_dropout feature_dropout to type float "
        "half bfloat16 double type_as maximum minimum nan_to_num neg contiguous "
        "clone detach cpu cuda tril triu cat concat concatenate gather index_select index_fill pad roll linear conv2d "
        "setitem index_put scatter addcmul batch_norm"
    ),
]
_MAPS = functions("sigmoid exp2 relu tanh clamp clip clamp_min clamp_max softplus elu pow square gumbel_softmax")
"""Those that map scores one by one, or draw weights by them."""

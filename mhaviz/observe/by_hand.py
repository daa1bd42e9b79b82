"""Recognise attention that is written out: product → scale, mask, bias → softmax → product with values.

Each tensor on this way is marked, and so is what is computed from a marked tensor. ``WeightsByHand`` follows the
weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import count
from math import isnan
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.attention.call import hides
from mhaviz.observe.descent import UNKNOWN, Axes
from mhaviz.observe.dropout import (
    DRAWN,
    OTHERS_DRAWN,
    UNIFORM,
    Noise,
    Random,
    Undropped,
    chance,
    drops,
    kept,
)
from mhaviz.observe.functions import COPIES, DROPOUTS, MULTIPLIES, VIEWS, axis_after, functions, writes
from mhaviz.observe.handlers import Done, Follow, Handler, guarded, unseen
from mhaviz.observe.marks import Marks
from mhaviz.observe.products import (
    PRODUCTS,
    Product,
    bilinear_product,
    product_by_elements,
    product_of,
    product_of_pairs,
)
from mhaviz.observe.readable import version_of
from mhaviz.observe.stages import LARGEST, SAMPLED, Mark, Scores, Starts, Weights, are_turned, place_in_stack
from mhaviz.observe.steps import StepName, TakeStep, no_steps, others_than
from mhaviz.observe.weights import LARGESTS, SCATTERS, STACKS, WeightsByHand


class ByHand:
    """Follows the tensors of a program to a softmax, function by function.

    Args:
        weights: follows them from there on.
        on_sums: called with sums of exponentials of scores, or their logarithms.
        on_error: called with exceptions that are raised here.
        on_step: called with each step.
        on_view: called with a view that is made here, of weights or values.
    """

    def __init__(
        self,
        weights: WeightsByHand,
        on_sums: Callable[[Tensor], None],
        on_error: Callable[[Exception], None],
        on_step: TakeStep = no_steps,
        on_view: Follow = lambda done: None,
    ) -> None:
        self._weights, self._on_sums, self._on_error, self._on_step = weights, on_sums, on_error, on_step
        self._on_view = on_view
        self._marks, self._fixed, self._layouts = weights.marks, weights.fixed, weights.layouts
        self._on_unseen = weights.on_unseen
        self._numbers = count()
        self._products = Marks[tuple[Product, Callable[[], Tensor]]]()
        self._pairs = Marks[tuple[tuple[Tensor, ...], list[int | None]]]()
        self._handler_of_others = self._guarded(self._if_marked(lambda done: None))

    def handlers(self) -> dict[Any, Handler]:
        """Return the handler of each function that is observed."""
        handlers: dict[Any, Handler] = {}
        for several, follow in (
            (_ELEMENTWISE, self._if_marked(self._elementwise)),
            (VIEWS, self._if_marked(self._view)),
            (_MAPS, self._if_marked(self._map)),
            (_GREATER, self._if_marked(self._greater)),
            (LARGESTS, self._if_marked(self._largest)),
            (_STEPS, self._if_marked(self._step)),
            (STACKS, self._if_marked(self._stack)),
            (SOFTMAXES, self._softmax),
            (PRODUCTS, self._product),
            (MULTIPLIES, self._multiply),
            (_SUMS, self._sum),
            (functions("mean"), self._mean),
            (_SCATTERS, self._if_marked(self._scatter)),
            (_EXPS, self._exp),
            ([F.linear], self._linear),
            ([torch.linalg.vecdot], self._vecdot),
            (functions("bilinear"), self._bilinear),
            ([F.grid_sample], self._sample),
            ([torch.sparse.softmax], lambda done: self._on_unseen("a softmax of a sparse tensor")),
            (DROPOUTS, self._dropout),
            (DRAWN, self._draw),
            (UNIFORM, self._draw_uniform),
            (OTHERS_DRAWN, lambda done: self._marks.set(done.result, Random.of(done.result))),
        ):
            handler_of = self._guarded(follow)
            handlers |= {func: handler_of(func) for func in several}
        return handlers

    def _guarded(self, follow: Follow) -> Callable[[Any], Handler]:
        """Return a function that chooses the handler of a function: what one may overwrite is kept."""
        reads, keeps = (guarded(follow, self._on_error, keep) for keep in (None, self._weights.keep))
        return lambda func: keeps if writes(func) or func in DROPOUTS else reads

    def handler_for(self, func: Any) -> Handler | None:
        """Return the handler of a function that is not in ``handlers``, as it may change weights; None: it does not."""
        name = getattr(func, "__name__", "")
        if func not in COPIES and (name in ("__get__", "__set__") or name.startswith("new_") or name.endswith("_like")):
            return None
        return self._handler_of_others(func)

    def _if_marked(self, follow: Follow) -> Follow:
        """Return a follower that leaves weights, and what depends on dropout, to ``WeightsByHand``, and scores to
        ``follow``; most calls have none of these."""

        def see(done: Done) -> None:
            found = self._marked(done) if done.kwargs or self._marks.may_hold(done.args) else None
            if found is None:
                return
            if isinstance(found[1], Noise):
                self._weights.follow_noise(done)
            elif isinstance(found[1], Random):
                self._weights.follow_random(done, found[0], found[1])
            else:
                (self._weights.follow if isinstance(found[1], Weights) else follow)(done)

        return see

    def _dropout(self, done: Done) -> None:
        """Follow dropout, or mark what it has made of a constant: a mask to multiply by."""
        x, made = done.first, done.result[0] if isinstance(done.result, tuple) else done.result
        if drops(done):
            self._on_step("dropout", made)
        if self._marks.get(x) is None and isinstance(x, Tensor) and made is not x and drops(done):
            if self._fixed.root(x) is not None:
                self._marks.set(made, Noise(Undropped.of(made, kept(x)), is_mask=True))
        else:
            self._if_marked(self._elementwise)(done)

    def _draw(self, done: Done) -> None:
        """Mark a random mask, unless weights are its probabilities."""
        with unseen():
            mean = chance(done)
        if isnan(mean) and any(self._weights.of(x) is not None for x in done.args):
            self._if_marked(lambda done: None)(done)
        else:
            self._marks.set(done.result, Random.of(done.result, mean=mean))

    def _draw_uniform(self, done: Done) -> None:
        if (done.named("from", 0), done.named("to", 1)) == (0, 1):
            self._marks.set(done.result, Random.of(done.result, low=0.0))

    def _product(self, done: Done) -> None:
        product = product_of(done) if isinstance(done.result, Tensor) else None
        if product is not None and len(product.factors) > 1:
            self._multiplied(done, product)

    def _multiplied(self, done: Done, product: Product, are_pairs: bool = False) -> None:
        """Follow a product of matrices, or a sum of products, which is the same; ``are_pairs``: see ``Scores``."""
        held = {axis: factors for axis, factors in product.holders().items() if factors}  # others were summed over
        axes = Axes(held, tuple(map(self._fixed.root, product.factors)), next(self._numbers))
        if len(product.factors) > 2 and not axes.are_fixed and self._is_whole_attention(product):
            self._on_unseen("queries, keys and values are multiplied without a softmax")
        if self._is_weighed_by_layer(product):
            self._on_unseen("tokens are weighed by numbers that a layer has made of each, without a softmax")
        for which, factor in enumerate(product.factors):
            mark = self._marks.get(factor)
            if isinstance(mark, Weights):
                multiply = partial(done.func, *done.args, **done.kwargs)
                self._weights.meet(product, which, done.result, multiply, done)
                return
            if not isinstance(mark, Scores) or mark.stage == "pairs":
                continue
            mixed = product.axis_mixed(which)  # heads are an axis of both queries and keys
            if mark.stage == "scores" and mixed is not None and len(mark.axes.factors.get(mixed, ())) > 1:
                self._marks.set(done.result, mark)
                return
            if not axes.are_fixed and not mark.axes.are_fixed:
                summed = [axis for axis in range(factor.ndim) if product.summed_over(axis, which)]
                is_one = mark.mapped and not (mark.is_by_matrix and self._is_by_matrix(product))
                is_one = is_one or self._layouts.sum_tokens_and_features(factor, summed)
                if is_one and any(mark.axes.query(axis - factor.ndim) is not None for axis in summed):
                    self._on_step("unweighed", done.result, product.factors, product, mark.axes.number, which=which)
                    how = f"by {mark.mapped} and no" if mark.mapped else "without a"
                    self._on_unseen(f"queries, keys and values are multiplied {how} softmax")
        name: StepName = "projection" if axes.are_fixed else "scores"
        self._on_step(name, done.result, product.factors, product, axes.number)
        scores = Scores(axes, starts=_starts(product), is_by_matrix=self._is_by_matrix(product))
        self._marks.set(done.result, replace(scores, stage="pairs") if are_pairs else scores)

    def _is_by_matrix(self, product: Product) -> bool:
        """Return whether the last of two factors is a matrix that was given as it is."""
        x = product.factors[-1]
        if len(product.factors) != 2 or x.ndim != 2 or x._base is not None:
            return False
        layout = self._layouts.get(x)
        return layout is None or all(origin.given is not None for axis in layout.axes for origin, _ in axis)

    def _is_weighed_by_layer(self, product: Product) -> bool:
        """Return whether each token is multiplied by the one feature that a layer has made of it, and all are summed.

        Zhou et al. 2018, "Deep Interest Network" (arXiv 1706.06978, section 4.3).
        """
        x, other = product.factors[:2]
        for number, one, V in ((0, x, other), (1, other, x)):
            summed = [axis - one.ndim for axis in range(one.ndim) if product.summed_over(axis, number)]
            if len(summed) == 1 and self._marks.get(one) is None and self._layouts.are_one_feature(one, summed[0]):
                return self._layouts.are_made(V)
        return False

    def _is_whole_attention(self, product: Product) -> bool:
        """Return whether a product sums over features of two factors, and over tokens of one of these and a third."""
        features, tokens = list[set[int]](), list[set[int]]()
        for letter in {*"".join(product.axes)} - {*product.result}:
            there = {which: axes.index(letter) - len(axes) for which, axes in enumerate(product.axes) if letter in axes}
            for several, is_one in ((features, self._layouts.are_features), (tokens, self._layouts.are_tokens)):
                if all(is_one(product.factors[which], axis) for which, axis in there.items()):
                    several.append({*there})
        return any(one & other and one - other and other - one for one in features for other in tokens)

    def _multiply(self, done: Done) -> None:
        """Follow weights times values, element by element. Once summed over the keys, this is a product of matrices."""
        self._if_marked(self._elementwise)(done)
        marks = [self._weights.of(x) for x in done.args]
        mark = next(filter(None, marks), None)
        n_weights = len(marks) - marks.count(None)
        if not n_weights and self._may_be_pairs(done):
            self._pairs.set(done.result, (tuple(done.args), _versions(done.result, *done.args)))
        if mark is None or n_weights > 1 or any(x is done.result for x in done.args):
            return
        A, V = done.args if marks[0] is mark else done.args[::-1]
        if isinstance(V, Tensor) and isinstance(done.result, Tensor):
            product = product_by_elements(done.result.shape, (A, V), mark.query, self._squeeze)
            is_each = A.shape == V.shape and mark.made.scores == UNKNOWN and self._layouts.are_made(A)
            if is_each or not set(product.axes[1]) <= set(product.axes[0]):  # otherwise it masks or scales the weights
                self._products.set(done.result, (product, partial(done.func, *done.args)))

    def _squeeze(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        return self._viewed(torch.squeeze, x, axes)

    def _select(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        """Return the first part of a tensor along axes, without these; they are in order, counted from the end."""
        places = [axis + x.ndim for axis in reversed(axes)]  # the last first, as those before it then stay in place
        return reduce(lambda x, place: self._viewed(torch.select, x, place, 0), places, x)

    def _viewed(self, func: Callable[..., Any], *args: Any) -> Tensor:
        """Return a view as the program might have made it."""
        with unseen():
            done = Done(func, args, {}, func(*args))
        self._if_marked(self._view)(done)
        self._layouts.follow(done)
        self._fixed.follow(done)
        self._on_view(done)
        viewed: Tensor = done.result
        return viewed

    def _may_be_pairs(self, done: Done) -> bool:
        """Return whether activations are multiplied that are vectors of the same features, such as a query and keys.

        The factors are held while the product lives, so gates and scales do not count.
        """
        x, other = done.args if len(done.args) == 2 else (None, None)
        return (
            type(x) is Tensor
            and type(other) is Tensor
            and not (x.is_nested or other.is_nested)
            and min(x.ndim, other.ndim) > 0
            and (x.shape != other.shape or x.numel() <= _MOST_IN_PAIRS)
            and x.is_floating_point()
            and 1 < x.shape[-1] == other.shape[-1]
            and x is not other
            and all(done.result is not factor for factor in (x, other))
            and all(self._fixed.root(one) is None and not self._are_scores(one) for one in (x, other))
        )

    def _are_scores(self, x: Tensor) -> bool:
        """Return whether a tensor holds scores, or a step of a softmax; projections are products of a fixed side."""
        mark = self._marks.get(x)
        return isinstance(mark, Scores) and (mark.stage != "scores" or not mark.axes.are_fixed)

    def _vecdot(self, done: Done) -> None:
        axis = done.named("dim", -1)
        x, other = done.argument(0), done.argument(1)
        if isinstance(x, Tensor) and isinstance(other, Tensor) and isinstance(axis, int):
            self._sum_pairs(done, (x, other), axis if axis < 0 else axis - max(x.ndim, other.ndim))

    def _bilinear(self, done: Done) -> None:
        """Follow scores of pairs of queries and keys, x W y, for which both were repeated."""
        x, other, weight = done.args[:3]
        if self._weights.of(x) is not None or self._weights.of(other) is not None:
            self._if_marked(lambda done: None)(done)
            return
        with unseen():
            product = bilinear_product(x, other, weight, self._select)
        if product is not None:
            self._multiplied(done, product)
            self._layouts.note_product(done.result, product)

    def _sum_pairs(self, done: Done, factors: Sequence[Tensor], axis: int) -> None:
        """Follow an elementwise product that was summed over an axis, counted from the end."""
        with unseen():
            keeps = done.result.ndim == max(x.ndim for x in factors)
            product = product_of_pairs(factors, axis, self._select, keeps)
        if product is None:
            return
        self._multiplied(done, product, are_pairs={*product.axes[0]} == {*product.axes[1]})
        self._layouts.note_product(done.result, product)

    def _sum_if_pairs(self, done: Done) -> bool:
        """Follow a sum of products of pairs of features, or its mean, and return whether it is such a sum."""
        pairs = self._pairs.get(done.first)
        if pairs is None:
            return False
        factors, versions = pairs
        self._pairs.forget(done.first)
        axis = -1 if done.first.ndim == 1 else _axis(done)
        if axis is None or versions != _versions(done.first, *factors):  # the program has written into one since
            return False
        self._sum_pairs(done, factors, axis)
        return True

    def _mean(self, done: Done) -> None:
        if not self._sum_if_pairs(done):
            self._if_marked(lambda done: None)(done)

    def _sum(self, done: Done) -> None:
        """Follow a step of a softmax that is written out, or the sum that completes a product of weights and values."""
        if self._sum_if_pairs(done):
            return
        found, axis = self._products.get(done.first), _axis(done)
        if found is None or axis is None:
            self._if_marked(self._step)(done)
            return
        product, multiply = found
        self._products.forget(done.first)
        with unseen():
            if not torch.equal(multiply(), done.first):  # the program has changed it, or its factors
                return
        rest, keeps = done.args[1:], done.result.ndim == done.first.ndim
        product = replace(product, result=product.result[:axis] + product.result[len(product.result) + axis + 1 :])
        result = done.result.squeeze(axis) if keeps else done.result
        func, kwargs = done.func, done.kwargs

        def again() -> Tensor:
            summed: Tensor = func(multiply(), *rest, **kwargs)
            return summed.view_as(result)

        self._weights.meet(product, 0, result, again)

    def _linear(self, done: Done) -> None:
        """Follow a layer, or a product of activations that the function of a layer computes."""
        x, weight = done.args[:2]
        is_layer = type(weight) is not Tensor or self._fixed.root(weight) is not None
        if not is_layer and (self._layouts.are_made(weight) or self._weights.of(x) or self._weights.of(weight)):
            self._product(done)
        else:
            self._on_step("projection", done.result, (x, weight))
            self._if_marked(self._elementwise)(done)

    def _sample(self, done: Done) -> None:
        """Mark what was read at points that a program has chosen, as deformable attention does."""
        self._marks.set(done.result, Scores(UNKNOWN, mapped=SAMPLED))

    def _softmax(self, done: Done) -> None:
        x, axis = done.first, _axis(done)
        if axis is None and done.func in (F.softmax, F.softmin) and done.named("dim") is None and isinstance(x, Tensor):
            axis = (0 if x.ndim in (0, 1, 3) else 1) - x.ndim  # as PyTorch chooses, with a warning
        if axis is not None and isinstance(x, Tensor) and isinstance(done.result, Tensor) and done.result.ndim:
            scores, visible = self._weights.of(x) or self._scores(x), None
            is_plain = type(x) is Tensor and not x.is_nested and done.func is not F.softmin
            if is_plain and isinstance(scores, Scores) and not scores.axes.over_fixed(axis):
                with unseen():
                    visible = ~hides(x.detach())
            with unseen():
                self._mark_weights(done, axis, scores, visible)

    def _mark_weights(self, done: Done, axis: int, of: Mark | None, visible: Tensor | None = None) -> None:
        """Mark the weights that a softmax has made; ``of``: the mark of its input."""
        if isinstance(of, Scores) and of.has_own:
            self._on_unseen("a softmax of scores of each query's own keys, joined with those of keys that all share")
            return
        number = (
            of.axes.number if isinstance(of, Scores) else of.made.scores.number if isinstance(of, Weights) else None
        )
        self._on_step("softmax", done.result, (done.first,), number=number, axis=axis)
        if isinstance(of, Scores):
            self._weights.begin(done, axis, of, visible)
        elif isinstance(of, Weights):
            self._weights.begin_again(done, axis, of)
        else:
            self._weights.begin(done, axis, Scores(UNKNOWN), None)

    def _exp(self, done: Done) -> None:
        """Follow the first step of a softmax that is written out, of any scores."""
        mark = self._marks.get(done.first)
        is_first = mark is None or isinstance(mark, Random) or (isinstance(mark, Scores) and mark.stage == "pairs")
        if is_first and isinstance(done.result, Tensor):
            self._marks.set(done.result, Scores(UNKNOWN, mapped="exp", stage="exp"))
        else:
            self._if_marked(self._step)(done)

    def _scatter(self, done: Done) -> None:
        """Mark sums of exponentials over each of several groups, such as the edges to each node of a graph."""
        found = [mark for x in done.each() if isinstance(mark := self._marks.get(x), Scores) and mark.stage == "exp"]
        if found:
            self._marks.set(done.result, replace(found[0], stage="sums", over=()))

    def _step(self, done: Done) -> None:
        """Follow a step of a softmax that is written out."""
        marks = [mark for x in done.args[:2] if isinstance(mark := self._marks.get(x), Scores)]
        step = _STEPS[done.func]
        if step == "div" and len(marks) == 2 and marks[1].stage == "sums" and not marks[1].over:
            self._on_unseen(
                "exponentials are divided by their sums over groups, as over the edges to each node of a graph"
            )
            return
        are_sums = step == "div" and [mark.stage for mark in marks] == ["sums", "sums"]
        if are_sums and not marks[0].axes.are_fixed and done.result.numel() > done.args[1].numel():  # it has features
            self._on_unseen("values are multiplied by exponentials, and divided by the sums of these afterwards")
        stage = _STAGE_AFTER.get((step, *(mark.stage for mark in marks)))
        over = () if step in ("sum", "logsumexp") else tuple(axis for mark in marks for axis in mark.over)
        if step in ("sum", "logsumexp", "log_softmax") and (axis := _axis(done)) is not None:
            over = (*over, axis)
        if stage is None and step in ("sub", "div"):
            self._elementwise(done)
        elif stage == "weights" and over:
            with unseen():
                visible = marks[0].visible if step == "div" else ~hides(done.first.detach())
                is_known = visible is not None and visible.shape == done.result.shape
                self._mark_weights(done, over[0], replace(marks[0], over=over), visible if is_known else None)
        elif stage == "exp":
            with unseen():
                visible = ~hides(done.first.detach())
            mapped = _both_names(marks[0].mapped, "exp")
            self._marks.set(done.result, replace(marks[0], mapped=mapped, stage=stage, visible=visible))
        elif stage is not None and over:
            self._marks.set(done.result, replace(marks[0], stage=stage, over=over))
        if stage is not None and stage.endswith("sums") and marks[0].axes != UNKNOWN:
            self._on_sums(done.result)

    def _map(self, done: Done) -> None:
        """Follow a function that maps scores, in place of a softmax or before one."""
        mark = self._scores(done.first)
        if mark is not None and isinstance(done.result, Tensor):
            self._marks.set(done.result, replace(mark, mapped=_both_names(mark.mapped, done.func.__name__.strip("_"))))
        else:
            self._elementwise(done)

    def _scores(self, x: object) -> Scores | None:
        """Return the mark of scores before any step of a softmax; None of other tensors."""
        mark = self._marks.get(x)
        return mark if isinstance(mark, Scores) and mark.stage == "scores" else None

    def _greater(self, done: Done) -> None:
        """Follow the elementwise maximum or minimum of two tensors, as that of a single one leaves no score in
        place."""
        if isinstance(done.argument(1), Tensor):
            self._elementwise(done)

    def _largest(self, done: Done) -> None:
        """Mark the largest scores, which are of other keys for each query."""
        mark = self._scores(done.first)
        if mark is not None and not mark.axes.are_fixed:
            self._marks.set(done.result[0], replace(mark, mapped=_both_names(mark.mapped, LARGEST)))

    def _elementwise(self, done: Done) -> None:
        """Follow a function that leaves each score or weight in its place."""
        found = self._marked(done)
        if found is None:
            return
        source, mark = found
        if isinstance(mark, Scores) and mark.stage == "exp" and mark.axes == UNKNOWN and done.func not in MULTIPLIES:
            return  # exponentials have many other uses
        if isinstance(mark, Scores) and done.func in SCATTERS and source is not done.first:
            mark = mark.in_place()
        if isinstance(mark, Scores) and not mark.are_sums:
            mark = replace(mark, sinks=self._sinks(done, source, mark), has_own=self._has_own(done))
        if isinstance(mark, Scores) and self._turns(done):
            mark = replace(mark, are_turned=True)
        if isinstance(mark, Scores) and self._drops_scores(done):
            mark = replace(mark, are_dropped=True)
        if self._on_step is not no_steps and isinstance(mark, Scores) and mark.stage == "scores":
            made = done.result if isinstance(done.result, Tensor) else source
            if others := others_than(source, done):
                self._on_step("combined", made, others, number=mark.axes.number)
        if isinstance(done.result, Tensor):
            if done.func is not F.linear or _mixes_heads(source, done.result):
                self._marks.set(done.result, mark)
        elif done.result is None and done.first is source:  # x[i] = y
            self._marks.set(source, mark)
        elif (
            done.result is None
            and done.args
            and isinstance(mark, Scores)
            and mark.stage in _JOINED
            and not mark.axes.are_fixed
        ):
            joined = replace(mark, axes=replace(mark.axes, factors={}), stage="scores")
            for x in (done.args[0], done.args[0]._base):  # x[i][j] = y
                if x is not None:
                    self._marks.set(x, joined)

    def _stack(self, done: Done) -> None:
        """Follow scores that a loop has computed apart, such as for each query, each pair or each head."""
        parts = done.first if isinstance(done.first, list | tuple) else ()
        found = (mark for x in parts if isinstance(mark := self._marks.get(x), Scores) and mark.stage in _JOINED)
        marks = [mark for mark in found if not mark.axes.are_fixed]
        if not parts or len(marks) < len(parts) or not isinstance(done.result, Tensor):
            return
        first, ndim = marks[0], done.result.ndim
        new = done.argument(1, 0) % ndim - ndim
        held = first.axes.factors
        shared = {axis: held[axis] for axis in held if all(mark.axes.factors.get(axis) == held[axis] for mark in marks)}
        joined = replace(
            first,
            axes=replace(first.axes, factors=shared).moved(partial(place_in_stack, new=new)),
            mapped=_both_names(*(mark.mapped for mark in marks)),
            stage="scores",
            are_dropped=any(mark.are_dropped for mark in marks),
            are_turned=any(mark.are_turned for mark in marks) or are_turned([mark.starts for mark in marks]),
        )
        self._marks.set(done.result, joined)

    def _turns(self, done: Done) -> bool:
        """Return whether scores of heads or queries are joined in another order; keys may come from any tensors."""
        if done.func not in _JOINTS or not isinstance(done.first, list | tuple) or not isinstance(done.result, Tensor):
            return False
        marks = [mark for x in done.first if isinstance(mark := self._marks.get(x), Scores)]
        return done.argument(1, 0) % done.result.ndim != done.result.ndim - 1 and are_turned([m.starts for m in marks])

    def _drops_scores(self, done: Done) -> bool:
        """Return whether a call changes scores by dropout, or by numbers that depend on it."""
        marks = [self._marks.get(x) for x in done.each()]
        is_masked = any(isinstance(mark, Noise) for mark in marks)
        are_dropped = any(isinstance(mark, Scores) and mark.are_dropped for mark in marks)
        return is_masked or are_dropped or (done.func in DROPOUTS and drops(done))

    def _has_own(self, done: Done) -> bool:
        """Return whether scores are joined, now or before, and only some of them have separate keys for each query."""
        scores = [(x, mark) for x in done.each() if isinstance(mark := self._marks.get(x), Scores)]
        queries = {axis for _, mark in scores if (axis := mark.axes.query(-1)) is not None}
        is_own = done.func in _JOINTS and any(
            x.shape[axis] > 1 and len(mark.axes.factors.get(axis, ())) > 1 for x, mark in scores for axis in queries
        )
        return is_own or any(mark.has_own for _, mark in scores)

    def _sinks(self, done: Done, source: Tensor, mark: Scores) -> int:
        """Return how many numbers of the last axis come from no product, as scores may have been joined with others."""
        args, result = done.args, done.result
        if (
            done.func not in _JOINTS
            or not args
            or not isinstance(result, Tensor)
            or result.shape[-1] == source.shape[-1]
        ):
            return mark.sinks
        several = [args[0]] if args[0] is source else args[0]
        marks = ((one.shape[-1], self._marks.get(one)) for one in several)
        of_products = sum(size - one.sinks for size, one in marks if isinstance(one, Scores))
        return max(result.shape[-1] - of_products, 0)

    def _view(self, done: Done) -> None:
        source = done.first
        mark = self._marks.get(source)
        if mark is None or not isinstance(source, Tensor) or not isinstance(done.result, Tensor):
            return
        if isinstance(mark, Scores) and not mark.are_sums:
            view = done.again()
            mark = replace(mark, axes=mark.axes.moved(partial(axis_after, done.func, view, source, done.result)))
        self._marks.set(done.result, mark)

    def _marked(self, done: Done) -> tuple[Tensor, Mark] | None:
        """Return the first argument that is marked, with its mark: weights before scores, and these before others,
        of which those that depend on dropout are first."""
        found = None
        is_of_first = done.func in COPIES or done.func in VIEWS  # others are examples, such as type_as's, or indices
        for x in (done.first,) if is_of_first else done.each():
            mark = self._marks.get(x)
            if isinstance(mark, Weights):
                return x, mark
            if mark is not None and (found is None or _rank(mark) < _rank(found[1])):
                found = x, mark
        return found


def _axis(done: Done) -> int | None:
    """Return the axis over which a function runs, counted from the end; None: not a single one, or not known."""
    dim = done.argument(1)
    if isinstance(dim, list | tuple) and len(dim) == 1:
        (dim,) = dim
    if not isinstance(dim, int) or not isinstance(done.first, Tensor):
        return None
    return dim if dim < 0 else dim - done.first.ndim


def _versions(*several: Tensor) -> list[int | None]:
    return [version_of(x) for x in several]


def _starts(product: Product) -> Starts:
    try:
        return tuple((x.untyped_storage()._cdata, int(x.storage_offset())) for x in product.factors)
    except (RuntimeError, NotImplementedError):  # a factor has no storage
        return ()


def _both_names(*names: str) -> str:
    return " and ".join(dict.fromkeys(filter(None, names)))


def _rank(mark: Mark) -> int:
    """Return 0 for scores, 1 for those with a fixed side, 2 for what depends on dropout, and 3 for random numbers."""
    if isinstance(mark, Scores):
        return int(mark.axes.roots.count(None) < len(mark.axes.roots))
    return 3 if isinstance(mark, Random) else 2


def _mixes_heads(scores: Tensor, result: Tensor) -> bool:
    """Return whether a linear layer may have mixed the scores of heads. Of three axes it makes hidden states."""
    return scores.ndim > 3 and result.shape == scores.shape


_MOST_IN_PAIRS = 1 << 16
"""Number of features in vectors of equal shape that are held until they are summed: gates of whole texts have more."""
_JOINED = ("pairs", "scores")
"""Stages of scores that a loop may join."""
SOFTMAXES = [torch.softmax, Tensor.softmax, F.softmax, F.softmin, torch.special.softmax]
_SUMS, _EXPS = functions("sum"), functions("exp")
_SCATTERS = functions("index_add scatter_add scatter_reduce")
_STEPS = {
    func: step
    for step, several in (
        ("exp", _EXPS),
        ("sum", _SUMS),
        ("div", functions("div truediv true_divide divide")),
        ("logsumexp", [*functions("logsumexp"), torch.special.logsumexp]),
        ("sub", functions("sub subtract")),
        ("log_softmax", [*functions("log_softmax"), torch.special.log_softmax]),
    )
    for func in several
}
_STAGE_AFTER: dict[tuple[str, ...], Any] = {
    ("exp", "scores"): "exp",
    ("sum", "exp"): "sums",
    ("div", "exp", "sums"): "weights",
    ("logsumexp", "scores"): "log sums",
    ("sub", "scores", "log sums"): "log weights",
    ("log_softmax", "scores"): "log weights",
    ("log_softmax", "log weights"): "log weights",  # Sinkhorn's iterations, over rows and columns in turn
    ("logsumexp", "log weights"): "log sums",
    ("sub", "log weights", "log sums"): "log weights",
    ("exp", "log weights"): "weights",
}
"""The stage of a step's result, by the stages of its arguments."""
_GREATER = functions("max min")
_JOINTS = functions("cat concat concatenate pad")
_ELEMENTWISE = [
    *functions(
        "add mul multiply masked_fill masked_scatter where to type float half bfloat16 "
        "double type_as maximum minimum nan_to_num neg contiguous "
        "clone detach cpu cuda tril triu cat concat concatenate gather index_select index_fill pad roll linear conv2d "
        "setitem index_put scatter addcmul batch_norm"
    ),
    F.one_hot,  # of an argmax
]
_MAPS = functions(
    "sigmoid logsigmoid exp2 relu leaky_relu silu gelu tanh clamp clip clamp_min clamp_max softplus elu pow square "
    "gumbel_softmax argmax cumsum cumprod logcumsumexp"
)
"""Functions that map scores one by one or along an axis, as where sticks are broken, or draw weights by them."""

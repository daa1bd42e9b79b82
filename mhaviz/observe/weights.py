"""Follow weights from a softmax to the values that they meet.

The weights that are drawn are those that meet the values, whatever the program has made of them by then: masked, gated,
normalised again, cast, or mixed with those of other heads or of another softmax. Dropout alone is left out, as it is in
inference; see ``dropout``.

Weights of which values meet a part at a time, such as a block of their keys, are not drawn.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial, reduce
from math import isnan, nan
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.errors import MhavizError
from mhaviz.observe.axes import Axis, Layout, Summed, cuts_along, origins_of
from mhaviz.observe.descent import UNKNOWN, FixedRows, FixedSides, are_rows_fixed, why_none
from mhaviz.observe.dropout import Noise, Random, Undropped, again, drops, kept, scale, share, stays_open
from mhaviz.observe.functions import (
    COPIES,
    DROPOUTS,
    MULTIPLIES,
    RESHAPES,
    VIEWS,
    axis_after,
    functions,
    writes,
)
from mhaviz.observe.handlers import Done, unseen
from mhaviz.observe.layouts import Layouts
from mhaviz.observe.log import SoftmaxNote
from mhaviz.observe.marks import Marks
from mhaviz.observe.modules import Place
from mhaviz.observe.observed import ObservedCall, WeightedValues, observed_weights, order_by_sizes
from mhaviz.observe.order import axes_at, order_of, place_of_queries
from mhaviz.observe.products import Product, Weighing
from mhaviz.observe.sides import sides_of_weights
from mhaviz.observe.stages import SAMPLED, Mark, Scores, SoftmaxWeights, Weights, are_turned, place_in_stack
from mhaviz.observe.steps import TakeStep, no_steps, others_than
from mhaviz.observe.tracing import Tracer
from mhaviz.observe.zeroing import zero_in_weights

OnWeights = Callable[[Sequence[Tensor], Callable[[Place], ObservedCall], Sequence[int], FixedSides], None]
"""Callback for weights that have met values. It is called with the weights, a function that takes the place where they
have met and returns the observed call, (q_length, k_length), and which sides are fixed."""

OnUnmet = Callable[[str], tuple[SoftmaxNote, ...]]
"""Takes the message for weights that never meet values, and returns notes on which ``on_met`` is called."""


class WeightsByHand:
    """Follows weights, function by function.

    Args:
        on_weights: see ``OnWeights``.
        on_unmet: see ``OnUnmet``.
        on_met: called with the notes on softmaxes once their weights have met values, or a part of them has.
        on_unseen: called with a message about what looks like attention and is not shown.
        fixed: the tensors that are no activations.
        layouts: of the program's tensors.
        tracer: follows the tokens that they are made of.
        module: returns the name of the module that runs; "" if none does.
        refuse_unless_asked: raises MhavizError, for this reason, unless the user has named what runs there.
        on_step: called with each step.

    Attributes:
        marks: of the program's tensors.
    """

    def __init__(
        self,
        on_weights: OnWeights,
        on_unmet: OnUnmet,
        on_met: Callable[[Iterable[SoftmaxNote]], None],
        on_unseen: Callable[[str], None],
        fixed: FixedRows,
        layouts: Layouts,
        tracer: Tracer,
        module: Callable[[], str],
        refuse_unless_asked: Callable[[Place, str], None],
        on_step: TakeStep = no_steps,
    ) -> None:
        self._refuse_unless_asked, self._on_step, self._tracer = refuse_unless_asked, on_step, tracer
        self.on_unseen, self.fixed, self.layouts, self._module = on_unseen, fixed, layouts, module
        self.marks, self._on_weights, self._on_unmet = Marks[Mark](), on_weights, on_unmet
        self._on_met = on_met

    def begin(self, done: Done, axis: int, scores: Scores, visible: Tensor | None) -> None:
        """Follow the weights that a softmax of scores has made.

        Args:
            done: the last step of the softmax.
            axis: the axis over which the softmax ran, counted from the end.
            scores: mark of its scores.
            visible: see ``SoftmaxWeights``.
        """
        A, sinks = done.result, scores.sinks if axis == -1 else 0
        axes = tuple(dict.fromkeys((axis, *scores.over)))
        why = _TURNED if scores.are_turned else _RANKED if scores.are_largest else ""
        made = SoftmaxWeights(
            scores.axes, axis, tuple(A.shape), axes, sinks, len(axes) > 1, why, visible, starts=scores.starts
        )
        if scores.axes.over_fixed(axis) is False:
            made.softmaxes = self._on_unmet(_UNMET)
        undropped = Undropped.of(A, None) if scores.are_dropped else self._without_dropout(done, A)
        self._set(A, Weights(made, axes, scores.axes.query(axis), undropped=undropped))

    def begin_again(self, done: Done, axis: int, before: Weights) -> None:
        """Follow the weights that a softmax of other weights has made."""
        A, closed = done.result, before.closed()
        undropped = None if closed.undropped is None else self._without_dropout(done, A)
        changed = _changed(A, [before], (axis,))
        self._set(A, replace(changed, undropped=undropped, mean=closed.mean, is_random=closed.is_random))

    def of(self, x: object) -> Weights | None:
        """Return the mark of weights; None of other tensors."""
        mark = self.marks.get(x)
        return mark if isinstance(mark, Weights) else None

    def follow(self, done: Done) -> None:
        """Follow a call that has weights among its arguments."""
        with unseen():
            self._follow(done)

    def _follow(self, done: Done) -> None:
        found = [(x, mark) for x in done.each() if (mark := self.of(x)) is not None]
        source, mark = found[0]
        if done.func in VIEWS:
            for x, view in _views(done, source):
                viewed = self._viewed(mark, done.func, view, source, x)
                undropped = mark.undropped and mark.undropped.viewed(source, view, x)
                self._set(x, viewed and replace(viewed, undropped=undropped, mean=mark.mean, is_random=mark.is_random))
            return
        made = _made_by(done)
        if made is None:
            return
        if self._on_step is not no_steps and (others := others_than(source, done)):
            self._on_step("combined", made, others, number=mark.made.scores.number)
        after = self._after(done, found, made)
        undropped = after.undropped
        if undropped is not None:  # what is no weights may change weights, such as the sum of a row
            self.marks.set(made, Noise(undropped))
        if not made.is_floating_point() or (done.func is Tensor.__setitem__ and made is not source):
            return
        if done.func in COPIES or done.func in DROPOUTS:
            self._set(made, after)
        elif done.func in MULTIPLIES and any(_are_sampled(self.marks.get(x)) for x in done.each()):
            self.on_unseen("a softmax weighs what grid_sample has read at some points")
        elif source.shape[-1] == 1 < made.shape[-1] and -1 not in mark.axes:
            return
        elif done.func in STACKS:
            marks, new = [one for _, one in found], done.argument(1, 0) % made.ndim - made.ndim
            changed = _changed(made, marks, tuple(place_in_stack(axis, new) for axis in mark.axes))
            if len({one.axes for one in marks}) > 1:
                return
            if are_turned([one.made.starts for one in marks]):
                changed.made.why_unknown = changed.made.why_unknown or _TURNED
            query = None if mark.query is None else place_in_stack(mark.query, new)
            changed = replace(changed, query=query, undropped=undropped, mean=after.mean, is_random=after.is_random)
            self._set(made, changed)
        elif along := _axes_of_keys(done, found, made):
            changed = _changed(made, [one for _, one in found], along)
            if done.func in SCATTERS and changed.made.why_unknown == _RANKED:
                changed.made.why_unknown = ""  # each stands where its value does
            elif done.func in LARGESTS:
                changed.made.why_unknown = changed.made.why_unknown or _RANKED
            changed.made.sinks, changed.made.visible = 0, None  # both are of other columns
            self._set(made, replace(changed, undropped=undropped, mean=after.mean, is_random=after.is_random))
        elif done.func is not F.linear or source.ndim > 3:  # from three axes a layer makes hidden states
            axes = [axis for x, one in found if _has_place_for(made, x, one.axes) for axis in one.axes]
            if axes:
                changed = _changed(made, [one for _, one in found], tuple(dict.fromkeys(axes)))
                if done.func in _REORDERS and (
                    done.func in _SORTS or done.args[0] is not source or _is_reordered(done.again(), source, mark)
                ):
                    changed.made.why_unknown = _REORDERED
                if done.func in _SUBTRACTS and len(found) > 1:  # Ye et al. 2024, arXiv 2410.05258
                    changed.made.is_difference = True
                    changed.made.why_unknown = changed.made.why_unknown and _DIFFERENCE
                self._set(made, replace(changed, undropped=undropped, mean=after.mean, is_random=after.is_random))

    def _after(self, done: Done, found: Sequence[tuple[Tensor, Weights]], made: Tensor) -> Weights:
        """Return the mark of weights, the first of those found, with what dropout and random numbers have made of them.

        Args:
            done: a call.
            found: the weights among its arguments, with their marks.
            made: its result.
        """
        A, mark = found[0]
        drawn = [(x, one) for x in done.each() if isinstance(one := self.marks.get(x), Random)]
        if len(drawn) == len(found) == 1 and (mark.undropped is None or mark.is_random):
            mask, random = drawn[0]
            factor = share(done, A, mask, random.mean_of(mask))
            x = done.before if made is A else A if mark.undropped is None else mark.undropped.numbers(A)
            if x is not None and not isnan(mark.mean * factor):
                return mark.masked(Undropped.of(made, x * factor), factor)
        is_random, by = any(one.is_random for _, one in found), scale(done, A)
        if drawn or (is_random and (len(found) > 1 or (by is None and not stays_open(done)))):
            undropped = self._with_random(done, [one for _, one in found], made)
            return replace(mark, undropped=undropped, mean=nan, is_random=True)
        mark = replace(mark, undropped=self._without_dropout(done, made))
        if by is not None:
            return mark.multiplied(by)
        return mark if mark.is_random or done.func in COPIES else replace(mark, mean=1.0)

    def _with_random(self, done: Done, marks: Sequence[Weights], made: Tensor) -> Undropped | None:
        """Return what ``made`` would hold without dropout, as random numbers among the arguments are none."""
        if not any(one.is_random and not isnan(one.mean) for one in marks):
            return self._without_dropout(done, made)
        if done.func in DROPOUTS:
            return Undropped.of(made, None if made is done.first else kept(done.first))
        return Undropped.of(made, None) if any(one.closed().undropped is not None for one in marks) else None

    def follow_random(self, done: Done, source: Tensor, mark: Random) -> None:
        """Follow a call that has random numbers among its arguments, and neither weights nor scores."""
        results = done.result if isinstance(done.result, tuple | list) else [_made_by(done)]
        for made in results:
            if isinstance(made, Tensor) and (made is source or self.marks.get(made) is None):
                with unseen():
                    after = mark.after(done, source, made)
                if after is not None:
                    self.marks.set(made, after)

    def follow_noise(self, done: Done) -> None:
        """Follow a call that has no weights among its arguments, but numbers that depend on dropout."""
        made = _made_by(done)
        if made is None or done.func in _LAYERS:
            return
        marks = [mark for x in done.each() if isinstance(mark := self.marks.get(x), Noise)]
        with unseen():
            undropped = self._without_dropout(done, made)
        if undropped is not None:
            is_known = all(mark.may_be_after(done, made) for mark in marks)
            self.marks.set(made, Noise(undropped if is_known else Undropped(None), marks[0].is_mask))

    def keep(self, done: Done) -> Tensor | None:
        """Return the numbers of the first argument without dropout, before a call that may change it.

        None: they are not known, or the call has nothing to do with dropout.
        """
        x, mark = done.first, self.marks.get(done.first)
        if mark is None or isinstance(mark, Scores | Random):
            return None
        if mark.undropped is not None:
            return mark.undropped.numbers(x)
        is_dropout = done.func in DROPOUTS and (writes(done.func) or bool(done.named("inplace")))
        if is_dropout or (writes(done.func) and any(map(self._is_noise, done.each()))):
            with unseen():
                before: Tensor = x.clone()
                return before
        return None

    def _is_noise(self, x: object) -> bool:
        """Return whether the numbers of a tensor depend on dropout, or are random."""
        return self._depends(x) or isinstance(self.marks.get(x), Random)

    def _depends(self, x: object) -> bool:
        """Return whether the numbers of a tensor are known to depend on dropout."""
        return getattr(self.marks.get(x), "undropped", None) is not None

    def _without_dropout(self, done: Done, made: Tensor) -> Undropped | None:
        """Return what ``made``, the result of a call, would hold without dropout; None: dropout has nothing to do with
        it."""
        is_changed = made is done.first
        if done.func in DROPOUTS:
            mark = self.marks.get(done.first)
            before = getattr(mark, "undropped", None)
            if before is None and not drops(done):
                return None
            x = done.before if is_changed else kept(done.first) if before is None else before.numbers(done.first)
            return Undropped.of(made, x)
        if not any(self._depends(x) for x in done.each()):
            return None
        args = [self._argument(x) for x in done.args]
        if is_changed:
            overwrites = done.func in (Tensor.copy_, Tensor.__setitem__) and self.marks.get(made) is None
            args[0] = made if overwrites else done.before
        is_known = not any(x is None and one is not None for x, one in zip(args, done.args, strict=True))
        return Undropped.of(made, again(done, args) if is_known else None)

    def _argument(self, x: Any) -> Any:
        """Return an argument as it would be without dropout; None: not known."""
        if isinstance(x, list | tuple):
            several = [self._argument(one) for one in x]
            is_known = not any(one is None and other is not None for one, other in zip(several, x, strict=True))
            return type(x)(several) if is_known else None
        undropped = getattr(self.marks.get(x), "undropped", None)
        if undropped is None:
            return x
        return undropped.numbers(x)

    def _set(self, x: Tensor, mark: Weights | None) -> None:
        if mark is not None:
            self.marks.set(x, mark)

    def _viewed(
        self, mark: Weights, func: Any, view: Callable[[Tensor], Tensor], source: Tensor, x: Tensor
    ) -> Weights | None:
        axes = tuple(axis_after(func, view, source, x, axis) for axis in mark.axes)
        known = tuple(axis for axis in axes if axis is not None)
        if not known and func not in RESHAPES:
            return None
        is_part = mark.is_part or (x.numel() < source.numel() and not mark.made.is_without_sinks(x, source, known))
        query = None if mark.query is None else axis_after(func, view, source, x, mark.query)
        if func in _INDEXED and x.ndim == source.ndim and not x._is_view() and _is_reordered(view, source, mark):
            changed = _changed(x, [mark], known)
            changed.made.why_unknown = _REORDERED
            return changed
        return replace(mark, axes=known, query=query, views=(*mark.views, view), is_part=is_part)

    def meet(
        self,
        product: Product,
        which: int,
        result: Tensor,
        multiply: Callable[[], Tensor],
        done: Done | None = None,
    ) -> None:
        """Follow the product of weights and values, and show the weights where they first meet values.

        What else they are multiplied by belongs to the same attention.

        Args:
            product: the product.
            which: the number of the factor that is the weights.
            result: the tensor that holds the product.
            multiply: computes the product again.
            done: the call that has computed it; None: there were several.
        """
        A = product.factors[which]
        found = self.of(A)
        assert found is not None
        mark, made = found.closed(), found.made
        along, number = found.axes, made.scores.number if made.scores != UNKNOWN else None
        self._on_step("values", result, product.factors, product, number, which=which, along=along)
        if any(self.of(factor) is not None for factor in product.factors[which + 1 :]):
            self._meet_weights(product, result, done)
            return
        axis = next((axis for axis in mark.axes if product.summed_over(A.ndim + axis, which)), None)
        if axis is None:
            if product.axis_mixed(which) not in (None, mark.query):  # it mixes heads
                self._set_product(result, _changed(result, [mark], mark.axes), [found], done)
            elif not mark.axes and made.scores != UNKNOWN:
                self._on_met(made.softmaxes)
                self.on_unseen("a softmax is multiplied by values after its axis of keys was split or joined")
            elif made.scores != UNKNOWN and any(product.summed_over(place, which) for place in range(A.ndim)):
                self._on_met(made.softmaxes)
                self.on_unseen("a softmax of queries times keys runs over another axis than its product with values")
            return
        if sum(product.axes[which][axis] in letters for letters in product.axes) > 2:
            return  # they are multiplied by a factor for each key as well
        if made.met_in is not None:
            made.has_met_again = True
            if made.met_in and made.met_in != self._module():
                self.on_unseen(f"values are multiplied by the weights of {made.met_in}")
            return
        if mark.query is not None and A.shape[mark.query] > 1:
            letter = product.axes[which][mark.query]
            if letter in product.others(which) and letter in product.result:
                product = replace(product, query=letter)
        how = Weighing(product, which, A.ndim + axis)
        if made.scores == UNKNOWN and how.places[-2] < 0:  # a router's, unless it is a pool of tokens
            pairs = zip(product.factors, product.axes, strict=True)
            keys = [(x, axes.find(product.axes[which][how.axis]) - x.ndim) for x, axes in pairs if x is not A]
            if not any(place >= -x.ndim and self.layouts.are_tokens(x, place) for x, place in keys):
                return
        sides, unclear = self._sides(made, how), ""
        if A.ndim == 1:
            self._on_met(made.softmaxes)
            if not sides.why or made.scores == UNKNOWN:
                self.on_unseen("a softmax of one query times keys is multiplied by values, query by query")
            return
        if (layout := self.layouts.get(A)) is not None:
            try:
                how = replace(how, query=place_of_queries(layout, how.alone, how.places[-2], how.axis))
            except MhavizError as error:
                unclear = str(error)
        if how.is_mixing or (mark.query not in (None, axis) and not how.keeps(mark.query)):
            unclear = _POOLED
        met = A if mark.undropped is None else mark.undropped.numbers(A)
        if met is None:
            unclear, met = unclear or _AFTER_DROPOUT, A
        made.is_dropped |= mark.undropped is not None
        made.is_random |= mark.is_random
        adds = done is not None and any(x is result for x in done.args)

        with unseen():
            self._show(mark, how, met, layout, sides, made.why_unknown or unclear, result, None if adds else multiply)

    def _set_product(self, result: Tensor, mark: Weights, of: Sequence[Weights], done: Done | None) -> None:
        """Mark a product of weights as weights; ``of``: the marks of its factors."""
        is_random = any(one.is_random for one in of)
        if done is None:
            is_dropped = any(one.closed().undropped is not None for one in of)
            undropped = Undropped.of(result, None) if is_dropped else None
        else:
            with unseen():
                undropped = self._with_random(done, of, result) if is_random else self._without_dropout(done, result)
        self._set(result, replace(mark, undropped=undropped, mean=nan if is_random else 1.0, is_random=is_random))

    def _show(
        self,
        mark: Weights,
        how: Weighing,
        met: Tensor,
        layout: Layout | None,
        sides: FixedSides,
        why_unknown: str,
        output: Tensor,
        multiply: Callable[[], Tensor] | None,
    ) -> None:
        """Show weights that have met values, unless they are a part of their softmax.

        Args:
            mark: their mark.
            how: their product with the values.
            met: their numbers, without dropout.
            layout: of the weights; None: not known.
            sides: which sides are fixed.
            why_unknown: reason why it is not known which of their keys are which; "" if it is.
            output: the tensor that holds the product.
            multiply: computes it again; None: it was added to what the tensor had held.
        """
        made, A = mark.made, how.as_weights(met)
        self._on_met(made.softmaxes)
        if mark.is_part:
            made.softmaxes = self._on_unmet(_IN_PARTS)
            return
        visible = None if (seen := mark.visible()) is None else how.as_weights(seen)
        made.met_in, made.visible = "" if sides.why else self._module(), None
        scores = Summed(((),), False) if layout is None or layout.scores is None else layout.scores
        if sides.are_fixed[0] and any(one.maker and one.added for one in origins_of(*scores.summed)):
            sides = FixedSides((None, sides.are_fixed[1]), NO_PRODUCT)

        def read(place: Place) -> ObservedCall:
            if why_unknown:
                raise MhavizError(why_unknown)
            order = order_of(layout, how.places, how.alone) or order_by_sizes(A.shape[:-2], place.batch_size)
            may_lack_heads = scores.are_pairs or sides.why or sides.are_fixed[0] is not False
            if may_lack_heads and not order.is_split:
                axes = f"axes of {' and '.join(map(str, A.shape[:-2]))} before the queries"
                raise MhavizError(f"it is not known whether one of its {axes} is heads; not shown")
            (key,) = axes_at(layout, how.places[-1:])
            if not sides.why and self._are_labels(how, key):
                self._refuse_unless_asked(place, "weighs one-hot rows, which are labels, or numbers of tokens")
            order = replace(order.of_tokens(scores.summed, is_by_hand=True), scores=made.keys_in)
            observed = observed_weights(A, order, visible, made.is_changed, made.is_difference)
            observed = replace(observed, is_before_dropout=made.is_dropped, is_random=made.is_random)

            def weighted() -> WeightedValues | None:
                with unseen():
                    V = how.values()
                    if V is None:
                        return None
                    V = order.arrange_keys(V).repeat_interleave(order.n_sharing, dim=1)
                    return WeightedValues(
                        V, output, lambda x: order.arrange(how.as_result(x)), lambda: made.has_met_again
                    )

            zero = multiply and zero_in_weights(
                how.weights, lambda x: order.arrange(how.as_weights(x)), lambda: output.copy_(multiply())
            )
            tokens = sides_of_weights(order, how, self._tracer.known(how.weights))
            return replace(observed, weighted=weighted, zero=zero, sides=tokens)

        self._on_weights((how.weights,), read, A.shape[-2:], sides)

    def _are_labels(self, how: Weighing, key: Axis) -> bool:
        """Return whether the values are one-hot rows, and not made of the tokens that the keys are."""
        V = how.values()
        if V is None or V.shape[-1] < 2 or int(V[(0,) * (V.ndim - 1)].count_nonzero()) != 1:  # one row is mostly enough
            return False
        own = how.product.axes[1 - how.which].index(how.product.axes[how.which][how.axis])
        is_same = cuts_along(self.layouts.of(how.product.factors[1 - how.which]).axes[own]) == cuts_along(key)
        return not is_same and bool(((V == 0) | (V == 1)).all() and (V.sum(-1) == 1).all())

    def _meet_weights(self, product: Product, result: Tensor, done: Done | None) -> None:
        """Follow the product of weights with other weights. It meets values in its turn, along any of its own axes."""
        found = [self.of(factor) for factor in product.factors]
        marks = [mark for mark in found if mark is not None]
        axes = tuple(axis for axis, holders in product.holders().items() if len(holders) == 1)
        if len(found) == len(marks) == 2 and not any(mark.made.scores.are_fixed for mark in marks) and axes:
            changed = _changed(result, marks[::-1], axes)
            changed.made.visible = None
            self._set_product(result, replace(changed, query=None), marks, done)

    def _sides(self, made: SoftmaxWeights, how: Weighing) -> FixedSides:
        """Return which sides are fixed when weights meet values, and why this is no attention, if it is none."""
        axes, axis, product = made.scores, made.over, how.product
        are_fixed = axes.are_fixed_beside(axis), axes.are_fixed_along(axis) if axis in axes.factors else False
        if False not in are_fixed and not axes.are_fixed:
            return FixedSides(are_fixed)
        key = product.axes[how.which][how.axis]
        values = [number for number, letters in enumerate(product.axes) if key in letters and number != how.which]
        found = {are_rows_fixed([self.fixed.root(product.factors[number])]) for number in values}
        fixed = False if False in found else None if None in found else True
        why = NO_PRODUCT if axes == UNKNOWN else why_none(axes.over_fixed(axis), fixed)
        if not why and product.query and made.why_unknown != _RANKED:
            why = "weighs values of each query's own, such as those of experts, not tokens"
        return FixedSides(are_fixed, why)


_UNMET = (
    "a softmax of queries times keys was not seen to be multiplied by values, as a product of matrices or a product "
    "and its sum, and is not drawn"
)
NO_PRODUCT = (
    "weighs rows by a softmax of scores not seen to be queries times keys, as in additive attention, pools or routers"
)
_IN_PARTS = "multiplies values by a part of its softmax at a time, such as a head or a block of keys; not shown"
_POOLED = "sums over its queries, or over heads, in the product with values; not shown"
_TURNED = (
    "joins scores in another order than their queries, keys or heads were cut in, and it is not known which are which; "
    "not shown"
)
_RANKED = (
    "weighs the keys of each query's largest scores or weights, and it is not known which keys these are; not shown"
)
_REORDERED = "reorders its keys or queries after the softmax, and it is not known which are which"

_AFTER_DROPOUT = "changes its weights after dropout, or drops scores; what they are without it is not known; not shown"
_CUT = "changes a part of its weights, and it is not known which tokens and heads these are of"

_DIFFERENCE = "subtracts two softmaxes, and it is not known which tokens and heads these are of; not shown"

_LAYERS = frozenset(functions("linear bilinear conv1d conv2d conv3d"))
"""Functions whose results are other tokens' features, and no matter of weights."""

STACKS = frozenset(functions("stack"))
LARGESTS = frozenset(functions("topk"))
SCATTERS = frozenset(functions("scatter scatter_add scatter_reduce"))
_JOINS_KEYS = LARGESTS | SCATTERS | frozenset(functions("cat concat concatenate"))

_SUBTRACTS = frozenset(functions("sub subtract"))
_SORTS = frozenset(functions("sort msort"))
_REORDERS = _SORTS | frozenset(functions("flip fliplr flipud roll rot90 gather take_along_dim"))
_INDEXED = frozenset(functions("getitem index_select"))


def _are_sampled(mark: Mark | None) -> bool:
    return isinstance(mark, Scores) and mark.mapped == SAMPLED


def _is_reordered(view: Callable[[Tensor], Tensor], source: Tensor, mark: Weights) -> bool:
    """Return whether a function that keeps numbers as they are puts keys or queries into another order."""
    for axis in (*mark.axes, *(() if mark.query is None else (mark.query,))):
        places = torch.arange(source.shape[axis], device=source.device).view(-1, *[1] * (-axis - 1))
        after = view(places.expand(source.shape))
        if after.ndim != source.ndim or bool((after.diff(dim=axis) <= 0).any()):
            return True
    return False


def _changed(x: Tensor, before: Sequence[Weights], axes: tuple[int, ...]) -> Weights:
    """Return the mark of weights that the program has made of others."""
    hides = [seen for mark in before if (seen := mark.visible()) is not None and seen.shape == x.shape]
    visible = reduce(torch.logical_or, hides) if len(hides) == len(before) else None
    why = next((mark.made.why_unknown for mark in before if mark.made.why_unknown), "")
    why = why or (_CUT if any(mark.is_part for mark in before) else "")
    first, sinks = before[0].made, max(mark.made.sinks for mark in before)
    made = SoftmaxWeights(first.scores, first.over, tuple(x.shape), axes, sinks, True, why, visible)
    made.starts = first.starts
    made.is_difference = any(mark.made.is_difference for mark in before)
    made.softmaxes = tuple(softmax for mark in before for softmax in mark.made.softmaxes)
    return Weights(made, axes, before[0].query)


def _axes_of_keys(done: Done, found: Sequence[tuple[Tensor, Weights]], made: Tensor) -> tuple[int, ...]:
    """Return the axis of keys along which weights are joined with others, put in place or ranked; empty: none."""
    dim = done.argument(2, -1) if done.func in LARGESTS else done.argument(1, 0)
    is_known = all(mark.made.scores != UNKNOWN for _, mark in found)  # a router's outputs have many other uses
    if done.func not in _JOINS_KEYS or not isinstance(dim, int) or not is_known:
        return ()
    axis = dim if dim < 0 else dim - made.ndim
    is_source = done.func not in SCATTERS or all(x is not done.first for x, _ in found)
    return (axis,) if is_source and all(axis in mark.axes and x.ndim == made.ndim for x, mark in found) else ()


def _has_place_for(made: Tensor, source: Tensor, axes: Sequence[int]) -> bool:
    """Return whether a function may have left each weight in its place in ``made``, or repeated it for others."""
    pairs = list(zip(reversed(made.shape), reversed(source.shape), strict=False))
    return (
        made.ndim >= source.ndim
        and all(after >= before for after, before in pairs)
        and all(made.shape[axis] == source.shape[axis] for axis in axes)
    )


def _views(done: Done, source: Tensor) -> Iterator[tuple[Tensor, Callable[[Tensor], Tensor]]]:
    """Iterate over the results of a view, each with a function that makes the same view of other tensors."""
    if done.first is not source:
        return
    view = done.again()
    if isinstance(done.result, Tensor):
        yield done.result, view
        return
    for number, x in enumerate(copy(done.result)):  # the program has yet to take from this iterator
        yield x, partial(_one_of, view, number)


def _one_of(view: Callable[[Tensor], Any], number: int, x: Tensor) -> Tensor:
    several: list[Tensor] = list(view(x))
    return several[number]


def _made_by(done: Done) -> Tensor | None:
    """Return the tensor that a call has made or changed, the first of several; None: none."""
    made = done.first if done.func is Tensor.__setitem__ else done.result
    made = made[0] if isinstance(made, tuple) and made else made  # of topk, sort, max
    return made if isinstance(made, Tensor) else None

"""An observed attention, with its axes in the order of mhaviz: batch_size, n_heads, q_length, k_length."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor, nn

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.errors import MhavizError
from mhaviz.observe.modules import Place
from mhaviz.observe.order import NO_ORDER, Order
from mhaviz.observe.recurrence import Run
from mhaviz.observe.token_regions import Sides
from mhaviz.observe.zeroing import Arrange, Zero, zero_in_output


@dataclass(frozen=True)
class WeightedValues:
    """Product of weights with values, as the program has it.

    Attributes:
        value: (batch_size, n_heads, k_length, d_value); of an ``AttentionCall``, its values.
        made: the product, with which the program goes on, in the program's own axes.
        arrange: puts the axes of ``made`` in the order batch_size, n_heads, q_length, d_value.
        have_met_again: returns, when called later, whether the same weights have since been multiplied by other values.
    """

    value: Tensor
    made: Tensor
    arrange: Arrange
    have_met_again: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class ObservedCall:
    """One attention that has just run.

    Attributes:
        call: its inputs, or the weights that it has computed.
        output: weighted values, (batch_size, n_heads, q_length, d_value); None: not known, or dropout has changed the
            weights.
        is_before_dropout: whether dropout has changed the weights that have met the values. Those of the call are the
            weights before it.
        is_random: whether random numbers of the program that are no dropout have changed the weights.
        are_fixed: whether the queries are fixed rows, such as learned ones, and whether the keys are; None: not known.
        zero: zeroes heads in the program's output, see ``Zero``; None: it is too late, or that tensor is not known.
        weighted: returns the product of its weights with values; only valid during the call. None, or a result of None:
            not known.
        nan: bool, (batch_size, q_length), True for queries whose softmax is NaN in the program, as they see no key, and
            whose weights in the call are 0; None: as all False.
        order: roles of the program's own axes.
        sides: regions of images and texts that queries and keys are.
        place: where in the program it ran.
        run: what its query is made of.
    """

    call: AttentionCall | AttentionWeights
    output: Tensor | None = None
    is_before_dropout: bool = False
    is_random: bool = False
    are_fixed: tuple[bool | None, bool | None] = False, False
    zero: Zero | None = None
    weighted: Callable[[], WeightedValues | None] | None = None
    nan: Tensor | None = None
    order: Order = NO_ORDER
    sides: Sides = (None, None)
    place: Place = Place()  # noqa: RUF009
    run: Run = field(default_factory=Run)

    @property
    def module(self) -> nn.Module | None:
        """Module in which it ran; None: no module."""
        return self.place.module

    @property
    def heads(self) -> frozenset[int]:
        """Numbers of its heads where they are only some of a layer's; empty: all, or not known.

        Heads are numbered as they stand in the softmax, whatever order the program had put them in before. Heads that
        stand on several axes are numbered in the order of the features where that is known; see ``Order.steps``.
        """
        cut, n_heads = self.order.heads, self.call.shape[1]
        if cut is None or not cut.step or cut.n != n_heads or cut.size == n_heads:
            return frozenset()
        return frozenset(range(cut.start, cut.start + cut.step * n_heads, cut.step))

    @property
    def has_patches(self) -> bool:
        """Whether some queries or keys are regions of images."""
        return any(side is not None and side.of_images is not None for side in self.sides)

    def in_order(self, order: Order) -> "ObservedCall":
        """Return this call, whose axes are the program's own, with its tensors arranged by ``order``.

        The mask must be broadcastable to (…, q_length, k_length).
        """
        call, output, zero, weighted = self.call, self.output, self.zero, self.weighted
        call = _in_order(call, order) if isinstance(call, AttentionCall) else call.arranged(order.arrange)
        if output is not None and not order.is_plain:
            zero = None if zero is None else zero_in_output(output, order.arrange)
            output = order.arrange(output)
        if not order.is_plain and weighted is not None and (product := weighted()) is not None:
            value = call.value if isinstance(call, AttentionCall) else order.arrange_keys(product.value)
            # The arrangement must not hold the product: its graph holds the arrangement, see ``gradients``.
            weighted = partial(replace, product, value=value, arrange=partial(_in_turn, product.arrange, order.arrange))
        return replace(self, call=call, output=output, zero=zero, weighted=weighted, order=order)


def _in_turn(first: Arrange, then: Arrange, x: Tensor) -> Tensor:
    return then(first(x))


def _in_order(call: AttentionCall, order: Order) -> AttentionCall:
    query, key, value, mask = call.query, call.key, call.value, call.mask
    if any(n == 1 < n_keys for n, n_keys in zip(query.shape[:-2], key.shape[:-2], strict=False)):
        raise MhavizError(
            f"its queries, {tuple(query.shape)}, are broadcast to its keys, {tuple(key.shape)}; expand them to show it"
        )
    if not order.is_plain:
        before = query.shape[:-2]
        key, value = (order.arrange_keys(x.expand(*before, *x.shape[-2:])) for x in (key, value))
        mask = None if mask is None else order.arrange(mask.expand(*before, query.shape[-2], mask.shape[-1]))
        query = order.arrange(query)
    elif key.shape[0] != query.shape[0] or query.shape[1] % key.shape[1]:
        key, value = (x.expand(*query.shape[:2], *x.shape[-2:]) for x in (key, value))
    if mask is not None:
        mask = mask.reshape((1,) * (4 - mask.ndim) + tuple(mask.shape))
        mask = mask.expand(*mask.shape[:3], key.shape[2])
    return replace(call, query=query, key=key, value=value, mask=mask)


OnRan = Callable[[Sequence[Tensor], Callable[[str], ObservedCall], tuple[int, int] | None], None]
"""Callback for an attention that has run.

It is called with the queries, keys and values; with a function that takes the name of the place, and returns the call
in the program's axes or raises MhavizError; and with (q_length, k_length), None if not known.
"""


def observed_weights(
    A: Tensor, order: Order, visible: Tensor | None, is_changed: bool, is_difference: bool = False
) -> ObservedCall:
    """Return the observed call of weights in the program's own axes, (…, q_length, k_length).

    If the softmax's weights are unchanged, what a row lacks to a sum of 1 is the weight of a sink.

    Args:
        A: weights.
        order: roles of their axes.
        visible: bool, of their shape: True where the softmax's score was not masked; None: not known. NaN of queries
            that see no key becomes 0.
        is_changed: whether the program has changed the weights since the softmax.
        is_difference: whether it has subtracted other weights from them.

    Raises:
        MhavizError: some weights are negative.
    """
    nan = None
    if visible is not None and bool(A.isnan().any()):
        is_nan = (A.isnan() & ~visible).all(dim=-1, keepdim=True)
        A, nan = A.masked_fill(is_nan, 0.0), order.arrange(is_nan.expand_as(A))[..., 0].any(dim=1)
    if bool((least := A.amin()) < 0):
        what = "subtracts two softmaxes, and " if is_difference else ""
        raise MhavizError(
            f"{what}multiplies its values by negative weights, down to {float(least):.3g}, which no map of weights can "
            "show"
        )
    if is_changed and visible is not None and _has_hidden(A, visible):
        visible = None
    sums = A.sum(dim=-1, dtype=torch.float32)
    leaves_some = not is_changed and bool(((sums < 1 - _ROUNDING) & (sums > _ROUNDING)).any())
    call = AttentionWeights(A, has_sink=leaves_some, seen=visible).arranged(order.arrange)
    return ObservedCall(call, nan=nan, order=order)


def _has_hidden(A: Tensor, visible: Tensor) -> bool:
    """Return whether keys that a mask hides have weight nevertheless, as after a second softmax.

    Both tensors are (…, q_length, k_length). Rows in which every key is hidden do not count.
    """
    return bool(((A != 0) & ~visible & visible.any(dim=-1, keepdim=True)).any())


_ROUNDING = 2**-6
"""Deviation from 1 that the sums of half-precision weights may have."""


def order_by_sizes(before: Sequence[int], batch_size: int | None) -> Order:
    """Return the order of axes of which only the lengths are known, if a single reading fits.

    ``before`` has the lengths of the axes before the queries.

    Raises:
        MhavizError: several readings fit.
    """
    sizes, several = tuple(before), [place for place, size in enumerate(before) if size > 1]
    batch = [place for place in several if sizes[place] == batch_size]
    if len(batch) == 1 or not several:
        factors = tuple(((size, place not in batch),) for place, size in enumerate(sizes))
        return Order(factors, is_split=several == batch)
    raise MhavizError(
        f"it is not known whether heads or the batch are on its axes of {' and '.join(map(str, sizes))} before the "
        f"queries; record what makes its queries as well, or call it from a module that is given the batch first"
    )


def example(call: AttentionCall | AttentionWeights, place: int) -> AttentionCall | AttentionWeights:
    """Return the call of a single example of the batch; the call itself, with all that it knows by now, if it has no
    other."""
    if call.shape[0] == 1:
        return call
    one = slice(place, place + 1)
    if isinstance(call, AttentionWeights):
        return call.arranged(lambda x: x[one])
    mask = call.mask
    if mask is not None and mask.shape[0] > 1:
        mask = mask[one]
    return replace(call, query=call.query[one], key=call.key[one], value=call.value[one], mask=mask)

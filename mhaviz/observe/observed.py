"""An attention that was observed while it ran, in the axes of mhaviz: batch_size, n_heads, q_length, k_length."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.errors import MhavizError
from mhaviz.observe.modules import Place
from mhaviz.observe.order import NO_ORDER, Order
from mhaviz.observe.zeroing import Arrange, Zero, zero_in_output


@dataclass(frozen=True)
class Mixed:
    """The values that weights by hand have met, and what has come of them.

    Attributes:
        value: (batch_size, n_heads, k_length, d_value).
        made: what the weights have made of them: the tensor with which the program goes on.
        arrange: puts the axes of that tensor in the order batch_size, n_heads, q_length, d_value.
        have_met_again: tells, later on, whether the same weights have met other values since.
    """

    value: Tensor
    made: Tensor
    arrange: Arrange
    have_met_again: Callable[[], bool]


@dataclass(frozen=True)
class ObservedCall:
    """One attention, as it has just run.

    Attributes:
        call: what it computed with, or the weights that it made.
        output: what it made of the values, (batch_size, n_heads, q_length, d_value); None: not known, or of weights
            that dropout had changed.
        are_fixed: whether the queries are fixed rows, such as learned ones, and whether the keys are; None: not known.
        zero: see ``Zero``; None: it is too late, or not known where the program has what the heads have made.
        mixed: of weights by hand, gives what they have met, while the program is where it is; None, or gives None: that
            is not known.
        visible: of weights, bool, of their shape: False where a mask hides a key, or its score did; None: not known.
        order: of the program's own axes.
        place: where it ran.
    """

    call: AttentionCall | AttentionWeights
    output: Tensor | None = None
    are_fixed: tuple[bool | None, bool | None] = False, False
    zero: Zero | None = None
    mixed: Callable[[], Mixed | None] | None = None
    visible: Tensor | None = None
    order: Order = NO_ORDER
    place: Place = Place()  # noqa: RUF009

    @property
    def module(self) -> nn.Module | None:
        """The module in which it ran."""
        return self.place.module

    @property
    def heads(self) -> frozenset[int]:
        """The numbers of its heads, if they are some of a layer's; none: all, or not known.

        All heads are numbered as they stand in the softmax, in whatever order a program has put them before, but for
        those of several axes, which are in the order of the features where that is known; see ``Order.steps``.
        """
        first, n_heads = self.order.heads or (0, 0)
        return frozenset(range(first, first + self.call.shape[1])) if n_heads > self.call.shape[1] else frozenset()

    def in_order(self, order: Order) -> "ObservedCall":
        """The same of one whose axes are the program's own. The mask broadcasts to (…, q_length, k_length)."""
        call, output, visible, zero = self.call, self.output, self.visible, self.zero
        if isinstance(call, AttentionCall):
            call = _in_order(call, order)
        else:
            call = replace(call, given=order.arrange(call.given))
            visible = None if visible is None else order.arrange(visible)
        if output is not None and not order.is_plain:
            zero = None if zero is None else zero_in_output(output, order.arrange)
            output = order.arrange(output)
        return replace(self, call=call, output=output, visible=visible, zero=zero, order=order)


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
"""Called with the queries, keys and values, with a reader of the rest in the program's axes, which takes the place's
name and may raise MhavizError, and with (q_length, k_length), if known."""


def observed_weights(A: Tensor, order: Order, visible: Tensor | None, is_changed: bool) -> ObservedCall:
    """Weights in the program's own axes, (…, q_length, k_length). Raises MhavizError if some are negative.

    ``visible``: of the scores of the softmax; ``is_changed``: whether the program has changed what the softmax made.
    What a row lacks to 1 goes to a sink, unless they are changed.
    """
    if bool((least := A.amin()) < 0):
        raise MhavizError(
            f"multiplies its values by negative weights, down to {float(least):.3g}, which no map of weights can show"
        )
    if is_changed and visible is not None and _has_hidden(A, visible):
        visible = None
    sums = A.sum(dim=-1, dtype=torch.float32)
    leaves_some = not is_changed and bool(((sums < 1 - _ROUNDING) & (sums > _ROUNDING)).any())
    call = AttentionWeights(order.arrange(A), has_sink=leaves_some)
    return ObservedCall(call, visible=None if visible is None else order.arrange(visible), order=order)


def _has_hidden(A: Tensor, visible: Tensor) -> bool:
    """Whether keys that a mask had hidden have weight all the same, as after a second softmax; (…, q_length, k_length).

    A row that sees no key has any weights.
    """
    return bool(((A != 0) & ~visible & visible.any(dim=-1, keepdim=True)).any())


_ROUNDING = 2**-6
"""How far rows of weights of half precision may be from a sum of 1."""


def order_by_sizes(before: Sequence[int], batch_size: int | None) -> Order:
    """The order of axes of which nothing is known but their lengths, where one reading alone fits.

    Raises:
        MhavizError: more do.
    """
    sizes, several = tuple(before), [place for place, size in enumerate(before) if size > 1]
    batch = [place for place in several if sizes[place] == batch_size]
    if len(batch) == 1 or not several:
        factors = tuple(((size, place not in batch),) for place, size in enumerate(sizes))
        return Order(factors, is_split=several == batch)
    raise MhavizError(
        f"whether heads or the batch are on its axes of {' and '.join(map(str, sizes))} before the queries is not "
        f"known; record what makes its queries as well, or call it from a module that is given the batch first"
    )


def example(call: AttentionCall | AttentionWeights, place: int) -> AttentionCall | AttentionWeights:
    """The same of one example of the batch alone."""
    one = slice(place, place + 1)
    if isinstance(call, AttentionWeights):
        return replace(call, given=call.given[one])
    mask = call.mask
    if mask is not None and mask.shape[0] > 1:
        mask = mask[one]
    return replace(call, query=call.query[one], key=call.key[one], value=call.value[one], mask=mask)

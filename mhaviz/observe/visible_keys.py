"""Which keys of an observed attention its mask lets queries see, and which places of a cache are filled."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.observe.observed import ObservedCall


def visible_of(observed: ObservedCall) -> Tensor | None:
    """Return which keys are visible, bool, broadcastable to the weights; None: nothing is hidden, as far as is known.

    A weight of 0 is no sign of a mask, as scores that are far lower than others lead to it too.
    """
    return observed.call.visible() if isinstance(observed.call, AttentionCall) else observed.call.seen


def is_same_mask(known: Tensor | None, now: Tensor | None) -> bool:
    """Return whether two masks hide the same keys; None: none."""
    if known is None or now is None:
        return known is now
    return known.shape == now.shape and torch.equal(known, now)


def sees_no_later(observed: ObservedCall, end: int) -> bool:
    """Return whether no query of any example sees a later key. The last query is lined up with the last key before
    ``end``.

    If there are fewer queries than keys, some last query must see that key: that of a block with a window to both sides
    does not.
    """
    call, (_, _, q_length, k_length) = observed.call, observed.call.shape
    if isinstance(call, AttentionCall) and call.mask is None:  # for long inputs (q_length, k_length) may not fit
        return call.causal and end == k_length
    visible = visible_of(observed)
    if visible is None:
        return False
    seen = visible.flatten(0, 1).any(dim=0).expand(q_length, k_length)
    return not bool(seen.triu(end - q_length + 1).any()) and (end == q_length or bool(seen[-1, end - 1]))


def sees_more(observed: ObservedCall) -> bool:
    """Return whether some query sees another number of keys than others, as it does not where a mask hides padding."""
    visible = visible_of(observed)
    if visible is None or observed.call.shape[2] == 1:
        return visible is not None
    n_seen = visible.expand(*visible.shape[:-2], *observed.call.shape[2:]).sum(-1)
    return bool((n_seen != n_seen[..., :1]).any())


def are_seen_named(observed: ObservedCall) -> bool:
    """Return whether it is known of all keys that some query sees which tokens they are."""
    places, is_seen = observed.order.tokens.places[1], _are_seen(observed)
    return places is not None and bool((places.is_named[:, : is_seen.shape[1]] | ~is_seen).all())


def sees_what_was_read_before(observed: ObservedCall) -> bool:
    """Return whether queries see tokens that stand behind them in their text and were read before them.

    That cannot be, so that their place in the text is not known, as in a ring whose first places are kept.
    """
    queries, keys = observed.order.tokens.places
    if queries is None or keys is None or not queries.are_placed:
        return False
    return keys.were_read_behind(queries, _are_seen(observed))


def _are_seen(observed: ObservedCall) -> NDArray[np.bool_]:
    """Return which keys some query sees, (batch_size or 1, k_length)."""
    call, k_length = observed.call, observed.call.shape[3]
    # By the causal rule alone the last query sees all, and for long inputs (q_length, k_length) may not fit.
    visible = None if isinstance(call, AttentionCall) and call.mask is None else visible_of(observed)
    if visible is None:
        return np.ones((1, k_length), np.bool_)
    is_seen: NDArray[np.bool_] = visible.flatten(1, 2).any(dim=1).expand(-1, k_length).cpu().numpy()
    return is_seen


def end_of_filled(observed: ObservedCall, k_length: int) -> int:
    """Return how many keys of a cache are filled; ``k_length`` of them were filled before.

    The mask tells which keys the queries see. For weights alone, which may be 0 for other reasons, all keys of the step
    count.
    """
    q_length, most = observed.call.shape[2:]
    if isinstance(observed.call, AttentionWeights) and observed.call.seen is None:
        return min(most, k_length + q_length)
    if (visible := visible_of(observed)) is None:
        return most
    seen = torch.nonzero(visible.flatten(0, -2).any(dim=0))
    return max(q_length, int(seen[-1]) + 1) if len(seen) else most


def without_unfilled(observed: ObservedCall, expected: int) -> ObservedCall:
    """Return the call without the keys from ``expected`` on, if no token weighs them: they are empty places of a cache.

    The queries must be the last ones, and see no later key. With other masks, keys are left as they are.
    """
    call = observed.call
    _, _, q_length, k_length = call.shape
    of_others = observed.order.tokens.are_same is False  # they are no cache of the queries' own
    if of_others or expected >= k_length or expected < q_length or not sees_no_later(observed, expected):
        return observed
    if _weigh_beyond(observed, expected):
        return observed
    if isinstance(call, AttentionWeights):
        return replace(observed, call=call.arranged(lambda x: x[..., :expected]))
    mask = None if call.mask is None else call.mask[..., :expected]
    key, value = call.key[:, :, :expected], call.value[:, :, :expected]
    return replace(observed, call=replace(call, key=key, value=value, mask=mask))


def _weigh_beyond(observed: ObservedCall, end: int) -> bool:
    """Return whether tokens give weight to keys from ``end`` on. Padding, whose own key no query sees, may.

    The last query is lined up with the last key before ``end``.
    """
    visible, weighed = visible_of(observed), observed.call.weighed()
    if visible is None or weighed is None or (isinstance(observed.call, AttentionCall) and observed.call.may_outweigh):
        return True
    q_length = observed.call.shape[2]
    are_tokens = visible.any(dim=(1, 2))[:, end - q_length : end]  # batch_size q_length
    beyond = weighed[..., end:].any(dim=(1, 3)).expand(-1, q_length)
    return bool((beyond & are_tokens).any())

"""The kind of an observed attention: self, masked, cross or other."""

from mhaviz.attention.call import AttentionCall
from mhaviz.inputs.tokens import Kind
from mhaviz.observe.observed import ObservedCall
from mhaviz.observe.places import Part
from mhaviz.observe.visible_keys import sees_more, sees_no_later


def kind_of(observed: ObservedCall) -> Kind:
    """Return the kind of an attention, by where its queries and keys come from as far as that is known."""
    _, _, q_length, k_length = observed.call.shape
    (query, key), are_same = observed.order.tokens.parts, observed.order.tokens.are_same
    if are_same is False or {True, False} <= {*observed.are_fixed}:  # some keys may be the fixed queries themselves
        keys = observed.order.tokens.places[1]
        has_learned = keys is not None and bool(keys.names) and observed.are_fixed[0] is True
        is_among = query is not None and key is not None and query.of == key.of
        return "other" if has_learned or (is_among and not observed.order.tokens.are_apart) else "cross"
    is_causal = isinstance(observed.call, AttentionCall) and observed.call.causal
    ends = {one.end for one in (query, key) if are_same and one is not None}
    in_order = len(ends) < 2 and (are_same or not any(one is not None and one.is_reordered for one in (query, key)))
    # For a decoder that begins to generate, the next step will tell.
    may_hide = (q_length > 1 or is_causal) and in_order and sees_no_later(observed, k_length)
    if may_hide and (are_same or is_causal or sees_more(observed)):
        return "masked"
    return "self" if are_same and (query == key or _is_within(query, key)) else "other"


def _is_within(query: Part | None, key: Part | None) -> bool:
    """Return whether all queries are among the keys."""
    if query is None or key is None:
        return False
    if query.at or key.at:
        return not (query.at or key.is_reordered) and {*query.places} <= {*key.places}
    return query.places[0] in key.places and query.places[-1] in key.places and query.step % key.step == 0

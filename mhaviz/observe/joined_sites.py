"""Which attentions of a forward pass are heads or queries of one, and which cannot be told apart.

The functions compare a run with the attentions that have run before it in the same forward pass, and change none.
"""

from collections.abc import Sequence

from mhaviz.observe.compared import Compared
from mhaviz.observe.known_keys import run_ends
from mhaviz.observe.modules import Place
from mhaviz.observe.observed import ObservedCall
from mhaviz.observe.observed_site import ObservedSite
from mhaviz.observe.order import SOME_EXAMPLES


def whole_of_heads(before: Sequence[ObservedSite], observed: ObservedCall) -> ObservedSite | None:
    """Return the attention whose other heads a run is of; None: no such is known.

    ``before``: the attentions that have run in the same call of a module.
    """
    first = next((one for one in before if one.heads and one.joins is None), None)
    if first is None or not observed.heads or (first.length, first.k_length) != observed.call.shape[2:]:
        return None
    there = [one.heads for one in before if one is first or one.joins is first]
    return None if observed.heads & frozenset().union(*there) else first


def is_unknown_head(before: Sequence[ObservedSite], observed: ObservedCall) -> bool:
    """Return whether a run is of one head, and not known of which, as others are that have run in the same call."""
    order = observed.order
    is_one = observed.call.shape[1] == 1 and not observed.heads
    if not is_one or order.tokens.examples is not None or order.tokens.parts[1] is None:
        return False
    others = (one for one in before if not one.heads and not one.last.is_turned(order))
    return any(one.last.tokens.parts == order.tokens.parts for one in others)


def may_be_of_list(observed: ObservedCall) -> bool:
    """Return whether a run may be a head in a list of modules: one head, of a module whose name ends in a number."""
    place = observed.place
    is_one = observed.call.shape[1] == 1 and not observed.heads
    return is_one and place.read is not None and place.name.rpartition(".")[2].isdigit()


def heads_of_list(sites: Sequence[ObservedSite], site: ObservedSite, observed: ObservedCall) -> list[ObservedSite]:
    """Return the heads of one attention, each of a module in a list, that a run is another head of; empty: it is none.

    They read the same tensor. Layers read what other layers have made, and the softmaxes of one module are no heads of
    a list.
    """
    place, lengths = observed.place, observed.call.shape[2:]
    if site.read is None:
        return []
    parent, (read, version) = place.name.rpartition(".")[0], (site.read[0](), site.read[1])
    return [
        one
        for one in sites
        if (one.root, one.forward, one.name.rpartition(".")[0]) == (place.root, place.forward, parent)
        if one.read is not None and one.read[0]() is read and one.read[1] == version
        if one.name != site.name and one.repeat == site.repeat and (one.length, one.k_length) == lengths
    ]


def whole_of_queries(before: Sequence[ObservedSite], observed: ObservedCall) -> ObservedSite | None:
    """Return the attention whose other queries a run is of; None: no such is known.

    They are other tokens of the same sequence, as in a loop over documents. Layers that share a module read the same
    tokens.

    Args:
        before: the attentions of the same module.
        observed: the run.
    """
    place, heads = observed.place, observed.heads
    running = [one for one in before if one.forward == place.forward and one.is_followed]
    for whole in (one for one in running if one.layer_of is one):
        same_heads = (
            one
            for one in running
            if one.layer_of is whole and not (heads and one.heads and heads.isdisjoint(one.heads))
        )
        shared = [share_queries(one.last.tokens, observed.order.tokens) for one in same_heads]
        if False in shared and True not in shared:
            return whole
    return None


def share_queries(tokens: Compared, others: Compared) -> bool | None:
    """Return whether two softmaxes over tokens of one sequence have a query in common; None: not known."""
    (query, key), (other, other_key) = tokens.parts, others.parts
    if query is None or key is None or other is None or other_key is None:
        return None
    if query.of != other.of or key.of != other_key.of:
        return None
    return not {*query.places}.isdisjoint(other.places)


def blocks_of_queries(before: Sequence[ObservedSite], site: ObservedSite, observed: ObservedCall) -> list[ObservedSite]:
    """Return the attentions of the same call of a module whose queries are others of the same keys, not known which.

    They may be blocks of the queries in any order. Queries as long as the module's input are all of them.
    """
    is_known = observed.order.tokens.parts[0] is not None
    if is_known or site.length == (observed.place.length or site.k_length):
        return []
    return [
        one
        for one in before
        if one.length == site.length and one.k_length == site.k_length in run_ends(one.keys, site.keys, site.k_length)
    ]


def not_told_apart(
    sites: Sequence[ObservedSite], before: Sequence[ObservedSite], site: ObservedSite, observed: ObservedCall
) -> tuple[list[ObservedSite], str]:
    """Return the attentions from which that of a run cannot be told apart, and why; empty: it can.

    Args:
        sites: all attentions.
        before: those that have run in the same call of a module.
        site: that of the run.
        observed: the run.
    """
    if others := _of_other_examples(sites, site, observed.place):
        return others, SOME_EXAMPLES
    return _slices(before, site, observed), _SAME_FEATURES


_SAME_FEATURES = (
    "runs several times with the same features; it is not known whether these are parts of one attention, such as some "
    "of its queries or heads"
)


def _of_other_examples(sites: Sequence[ObservedSite], site: ObservedSite, place: Place) -> list[ObservedSite]:
    """Return those that have run for other examples of the batch."""
    return [
        one
        for one in sites
        if (one.root, one.forward) == (place.root, place.forward)
        and (one.name == place.name or not place.is_module)
        and one.last.tokens.are_other_examples(site.last.tokens)
    ]


def _slices(before: Sequence[ObservedSite], site: ObservedSite, observed: ObservedCall) -> list[ObservedSite]:
    """Return those that have other slices of the same queries and keys.

    Known heads and queries are told apart, and so are softmaxes of all heads of the same tokens; heads that were chosen
    by indices may be any.
    """
    made, (query, keys) = site.last.tokens.made, site.last.tokens.parts
    if site.heads or site.is_block or not made:
        return []
    is_any_head, is_one = observed.order.are_heads_unordered, observed.call.shape[1] == 1
    return [
        one
        for one in before
        if one.last.tokens.made == made and not one.heads and not one.is_block and not one.last.is_turned(site.last)
        if query is None
        or (one.last.tokens.parts[1] == keys and (is_one or one.last.tokens.parts[0] != query))
        or (is_any_head and one.last.are_heads_unordered)
        if one.layer_of is not site.layer_of or share_queries(one.last.tokens, site.last.tokens) is not False
        if one.number not in site.last.tokens.through
    ]

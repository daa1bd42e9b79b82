"""Which runs of an attention go on with its current pass, as the steps of a decoder do.

A step of a decoder is recognised by its keys: those before its own are the last keys of its pass. If they are others,
or fewer, a new pass begins: of another text, after learned keys, of a copy of a cache, or after drafts that were
rejected.

A step of a recurrent decoder has one query over all keys of its pass, which is known to be made of what the step before
gave. That the keys are the same is not enough, as queries of other inputs may read one memory.

The functions change no attention.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall
from mhaviz.inputs.tokens import OF_ONE_TEXT
from mhaviz.observe.joined_sites import share_queries
from mhaviz.observe.kinds import kind_of
from mhaviz.observe.known_keys import are_equal, known_by, moved_examples, run_ends
from mhaviz.observe.modules import Place
from mhaviz.observe.observed import ObservedCall
from mhaviz.observe.observed_site import ObservedSite
from mhaviz.observe.places import inputs_of
from mhaviz.observe.visible_keys import end_of_filled, is_same_mask, sees_no_later, visible_of, without_unfilled


@dataclass(frozen=True)
class StepOfPass:
    """The last step that a forward pass has taken.

    Attributes:
        queries: number of its queries, and where they begin; None: the pass has taken none.
        moved: see ``ObservedSite``.
    """

    queries: tuple[int, int] | None = None
    moved: tuple[int, ...] = ()


@dataclass(frozen=True)
class DecoderStep:
    """A run that goes on with the current pass of its attention.

    Attributes:
        observed: its call, without keys of a cache that are not filled yet.
        form: "tokens": its queries are the next tokens, and the last of its keys; "cross": its queries are those of the
            last step of the forward pass, and its keys other tokens; "recurrent": its query is made of the last output.
        moved: see ``ObservedSite``.
        keys: what is known of all keys so far; see ``ObservedSite``.
    """

    observed: ObservedCall
    form: Literal["tokens", "cross", "recurrent"]
    moved: tuple[int, ...] = ()
    keys: Tensor | None = None


def step_of(site: ObservedSite, observed: ObservedCall, last: StepOfPass) -> DecoderStep | None:
    """Return a run as a step of the current pass of an attention; None: it is not known to be one."""
    place, (_, _, q_length, k_length) = observed.place, observed.call.shape
    if not site.length or (site.forward == place.forward and q_length > 1 and not is_next_block(site, observed)):
        return None  # two attentions, as ProphetNet's
    if site.kind not in OF_ONE_TEXT:
        step = _cross_step(site, observed, last) or _recurrent_step(site, observed)
        if step is not None:
            return step
    is_in_call, keys = place.is_module and site.call == place.call, site.last.tokens.parts[1]
    has_same_keys = keys is not None and keys == observed.order.tokens.parts[1]
    if site.kind == "cross" or q_length >= k_length or (is_in_call and has_same_keys):
        return None
    return _next_tokens(site, observed)


def _next_tokens(site: ObservedSite, observed: ObservedCall) -> DecoderStep | None:
    observed = without_unfilled(observed, end_of_filled(observed, site.k_length))
    _, _, q_length, k_length = observed.call.shape
    keys, now, n_before = site.keys, known_by(observed, k_length), k_length - q_length
    if not (0 < n_before <= site.k_length and (q_length == 1 or sees_no_later(observed, k_length))):
        return None
    if _are_other_tokens(observed):
        return None
    moved = moved_examples(keys, now, n_before) if site.is_followed and site.are_alike else ()
    ends = run_ends(keys, now, n_before) if site.is_followed and not moved else [n_before]
    if site.k_length not in ends:
        return None
    if keys is not None and now is not None:
        keys = torch.cat([keys[list(moved)] if moved else keys, now[:, n_before:]], dim=1)
    return DecoderStep(observed, "tokens", moved, keys)


def _are_other_tokens(observed: ObservedCall) -> bool:
    """Return whether the queries are known not to be the last keys, as where a window looks ahead."""
    (query, key), (_, _, q_length, k_length) = observed.order.tokens.places, observed.call.shape
    if query is None or key is None:
        return False
    for entry in range(max(len(query.source), len(key.source))):
        own = query.tokens_of(query.entry_of(entry), 0, q_length)
        other = key.tokens_of(key.entry_of(entry), k_length - q_length, k_length)
        if None not in own and None not in other and own != other:
            return True
    return False


def _cross_step(site: ObservedSite, observed: ObservedCall, last: StepOfPass) -> DecoderStep | None:
    _, _, q_length, k_length = observed.call.shape
    if last.queries != (q_length, site.length) or k_length != site.k_length:
        return None
    if site.is_followed and not run_ends(site.keys, known_by(observed, k_length), k_length):
        return None
    return DecoderStep(observed, "cross", last.moved, site.keys)


def _recurrent_step(site: ObservedSite, observed: ObservedCall) -> DecoderStep | None:
    if not reads_keys_again(site, observed) or why_no_recurrence(site, observed):
        return None
    return DecoderStep(observed, "recurrent", keys=site.keys)


def why_no_recurrence(site: ObservedSite, observed: ObservedCall) -> str:
    """Return why a run that reads the keys of the pass again is not known to be a step; "": it is."""
    if not observed.run.goes_on_from(site.run):
        return "no query is known to be made of what the run before gave"
    if observed.call.shape[0] > 1 and observed.run.has_moved_since(site.run):
        return "the examples of its batch may have changed their places, as the beams of a search do"
    return ""


def may_be_recurrent(site: ObservedSite, observed: ObservedCall) -> bool:
    """Return whether a run that reads the keys of the pass again may be a step, as far as its query tells."""
    is_same = site.alone is not None and torch.equal(site.alone, query_of(observed))  # the same text again
    is_other = share_queries(site.last.tokens, observed.order.tokens) is False
    return not (is_same or is_other or observed.are_fixed[0])


def reads_keys_again(site: ObservedSite, observed: ObservedCall) -> bool:
    """Return whether a single query reads the same keys as those of the current pass, which began with one as well."""
    _, _, q_length, k_length = observed.call.shape
    has_begun = site.alone is not None and (site.length == 1 or site.pass_number in site.recurrent)
    if q_length > 1 or not has_begun or k_length != site.k_length or observed.are_fixed[1] is not False:
        return False
    are_same = are_equal(site.keys, known_by(observed, k_length))
    return are_same and is_same_mask(site.seen, visible_of(observed))


def is_next_block(site: ObservedSite, observed: ObservedCall) -> bool:
    """Return whether queries are known to be the next tokens of the current pass, and keys all tokens up to these."""
    (query, key), (first, _) = observed.order.tokens.parts, site.last.tokens.parts
    if query is None or key is None or first is None or not site.is_followed:
        return False
    is_run = not (query.at or first.at) and query.step == first.step == 1
    are_next = query.of == first.of and is_run and query.start == first.start + site.length
    return are_next and key.of == query.of and key.is_first and key.n == query.start + query.n


def begins_again(site: ObservedSite, observed: ObservedCall) -> bool:
    """Return whether a call begins another pass of an attention that has run in the same forward pass.

    It is known to read none of the tokens that the attention has read, or it may be a step of a decoder. Layers that
    share a module go on with the same tokens.
    """
    if not (is_called_anew(site, observed.place) and site.is_followed):
        return False
    tokens, is_step = observed.order.tokens, False
    is_apart = tokens.is_apart_from(site.last.tokens) or (site.kind == "cross" and _is_of_other_queries(site, observed))
    is_of_another_text = site.number not in tokens.through and is_apart
    if not is_of_another_text and site.kind not in OF_ONE_TEXT and not observed.are_fixed[0]:
        is_other_query = share_queries(site.last.tokens, tokens) is False
        is_step = not is_other_query and reads_keys_again(site, observed)
    return (is_of_another_text or is_step) and site.kind == kind_of(observed)


def _is_of_other_queries(site: ObservedSite, observed: ObservedCall) -> bool:
    """Return whether queries of another text read the memory that the attention has read."""
    own, key = (inputs_of((side,)) for side in observed.order.tokens.places)
    other, other_key = (inputs_of((side,)) for side in site.last.tokens.places)
    return bool(own and other and key and own.isdisjoint(other) and key == other_key)


def is_called_anew(site: ObservedSite, place: Place) -> bool:
    """Return whether the module of an attention has been called again within a forward pass."""
    return place.is_module and site.forward == place.forward and site.call != place.call


def query_of(observed: ObservedCall) -> Tensor:
    """Return the queries, or the weights where the program computes these itself."""
    return (observed.call.query if isinstance(observed.call, AttentionCall) else observed.call.given).detach()

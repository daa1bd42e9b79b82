"""What the masks of recorded attentions tell: which tokens are padding, and which keys are hidden otherwise."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from mhaviz.api.recorded import Recorded
from mhaviz.attention.model import SiteCall
from mhaviz.attention.padding import Padding, padding_of
from mhaviz.inputs.tokens import OF_ONE_TEXT
from mhaviz.numbering import listed_runs
from mhaviz.observe.compared import Compared
from mhaviz.observe.joined_sites import share_queries
from mhaviz.observe.observed import ObservedCall
from mhaviz.observe.observed_site import ObservedSite
from mhaviz.observe.places import Part
from mhaviz.observe.sites import MOST_AT_A_LINE


class RecordedMasks:
    """Reads the masks of calls, and notes what they hide.

    Args:
        recorded: where it is noted.
    """

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._log = recorded.log
        self._padded_tokens: deque[tuple[Part, Tensor]] = deque(maxlen=16)  # of the last masks: False for padding
        self._hidden: tuple[int, list[tuple[ObservedSite, Compared, Tensor | None]]] = 0, []  # masks of a call

    def padding(self, site: ObservedSite, observed: ObservedCall) -> Padding | None:
        """Return the padding according to a call's mask; None: not known, or there is none.

        Masks of steps and of blocks of an input are not read, as they may hide keys outside a window as well. The mask
        of a decoder's self-attention tells which queries of its cross-attention are padding.
        """
        call, (own, of_keys) = observed.call, observed.order.tokens.parts
        batch_size, _, q_length, k_length = call.shape
        reads_itself, is_cross = site.kind in OF_ONE_TEXT and q_length == k_length, site.kind == "cross"
        if site.first_query or not (reads_itself or is_cross or observed.place.batch_size in (None, batch_size)):
            return None
        padding = padding_of(call, reads_itself)
        if reads_itself and padding is not None and of_keys is not None and of_keys.is_first:
            self._padded_tokens.append((of_keys, padding.queries))
        elif is_cross:
            of_queries = next((padded for tokens, padded in self._padded_tokens if tokens == own), None)
            if of_queries is not None and of_queries.shape == (batch_size, q_length):
                every = torch.ones_like(of_queries)
                padding = padding or Padding(every, every.new_ones(batch_size, k_length), every)
                padding = replace(padding, queries=of_queries)
        elif padding is not None and (places := places_of(observed)) is not None:
            are_keys = padding.keys[:, list(places)]
            padding = replace(padding, queries=are_keys | ~are_keys.any())  # a mask may hide from all what reads them
        if padding is not None and site.kind == "other" and not bool(padding.keys.all()):
            why = "no query may see some keys; whether they are padding, and which queries are, is not known"
            self._log.miss(f"{site.full_name}: {why}")
        return padding

    def is_no_padding(self, site: ObservedSite, observed: ObservedCall, padding: Padding | None) -> bool:
        """Return whether a call's mask hides keys for another reason than padding.

        It does if another softmax over the same keys, in the same call of a module, sees them. Attentions with such a
        mask are left out; those that see all keys are kept.
        """
        if site.first_query:  # the masks of steps are not read
            return False
        if observed.place.call != self._hidden[0]:
            self._hidden = observed.place.call, []
        tokens, hidden = observed.order.tokens, self._hidden[1]
        hidden.append((site, tokens, None if padding is None else padding.keys))
        del hidden[:-MOST_AT_A_LINE]
        # A causal mask hides later keys from all queries of a block, and the next block sees them.
        same = [
            (other, of, keys)
            for other, of, keys in hidden
            if tokens.parts[1] is not None and of.parts[1] == tokens.parts[1]
            if other is site or not (other.layer_of is site.layer_of and share_queries(of, tokens) is False)
        ]
        known = [keys for _, _, keys in same if keys is not None]
        if not known or (len(known) == len(same) and all(torch.equal(keys, known[0]) for keys in known)):
            return False
        for number in (site.number for site, _, keys in same if keys is not None):
            self._log.leave_out(
                number, "its mask hides keys that another softmax sees, and it is not known if as padding"
            )
        return padding is not None

    def note_unfilled(self, site: ObservedSite, keys: Sequence[int]) -> None:
        """Note the keys at the end that no query may see, such as places of a cache that is not full yet."""
        drawn, name = self._recorded.drawn_of(site), f"{site.full_name}, pass {site.pass_number}"
        if drawn is not None and keys:
            drawn.unfilled[name] = keys
        elif drawn is not None:
            drawn.unfilled.pop(name, None)

    def note_mask(
        self,
        site: ObservedSite,
        name: str,
        seen: SiteCall,
        weighing: Sequence[int],
        nan: Sequence[int],
        example: str,
    ) -> None:
        """Note which tokens of an example are left out because of a mask, which queries have weight despite it, and the
        softmax of which is NaN because of it."""
        drawn = self._recorded.drawn_of(site)
        assert drawn is not None
        masked = drawn.masked
        if seen.padding is not None and not bool(seen.padding.keys.all()):
            left_out = (~seen.padding.keys[0]).nonzero().flatten().tolist()
            # In other kinds, hidden keys may be those of a cache that is not full yet, or later ones.
            if seen.site.kind in OF_ONE_TEXT and seen.call.shape[2] == seen.call.shape[3]:
                self._recorded.remark(site, "tokens that masks hide from all queries are left out, as padding")
                what = f"{listed_runs('token', left_out)}, queries and keys, as padding"
            else:
                self._recorded.remark(site, "keys that no query may see are left out")
                what = listed_runs("key", left_out)
            why = "the mask hides them from all queries"
            masked.setdefault(f"{example}left out {what}: {why}", []).append(name)
            weighing = [query for query in weighing if bool(seen.padding.queries[0, query])]
            nan = [query for query in nan if bool(seen.padding.queries[0, query])]
        if seen.site.kind == "cross" and seen.padding is not None and not bool(seen.padding.queries[0].all()):
            queries = (~seen.padding.queries[0]).nonzero().flatten().tolist()
            why = "padding, as the mask of their self-attention tells"
            masked.setdefault(f"{example}left out {listed_runs('query', queries)}: {why}", []).append(name)
        if weighing:
            weighing = [site.first_query + query for query in weighing]
            what = f"{listed_runs('query', weighing)} weigh{'s' * (len(weighing) == 1)} keys that the mask hides from"
            what += " it" if len(weighing) == 1 else " them"
            masked.setdefault(f"{example}{what}", []).append(name)
        if nan:
            which = listed_runs("query", [site.first_query + query for query in nan])
            sees = "it sees no key" if len(nan) == 1 else "they see no key"
            masked.setdefault(f"{example}the softmax of {which} is NaN, as {sees}; drawn as 0", []).append(name)


def places_of(observed: ObservedCall) -> range | None:
    """Return the places of the queries among the keys, which are all tokens of a text; None: not known."""
    (own, keys), (_, _, q_length, k_length) = observed.order.tokens.parts, observed.call.shape
    if own is None or keys is None or own.of != keys.of or not (keys.is_first and keys.length == keys.n == k_length):
        return None
    places = own.places
    is_known = len(places) == q_length and {*places} <= {*keys.places}
    return places if is_known and isinstance(places, range) else None

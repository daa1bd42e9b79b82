"""Record the calls of a program's attentions while their tensors are valid."""

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from mhaviz.analyses.head_statistics import HeadStudy
from mhaviz.api.long_inputs import allowed_bytes
from mhaviz.api.recorded import BEFORE_DROPOUT, RANDOM, Drawn, Recorded
from mhaviz.api.recorded_masks import RecordedMasks, places_of
from mhaviz.api.recorded_patches import windows_of
from mhaviz.api.recorded_relevance import hold_recorded
from mhaviz.api.recorded_rows import placed, rows_called
from mhaviz.api.recorded_tokens import TokenNames
from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.model import OnAttention, Site, SiteCall, show
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import OF_ONE_TEXT, Kind
from mhaviz.observe.handlers import VisitorError
from mhaviz.observe.modules import Place
from mhaviz.observe.observed import ObservedCall, example
from mhaviz.observe.observed_site import ObservedSite
from mhaviz.observe.places import UNKNOWN, Places
from mhaviz.observe.regions import Source
from mhaviz.observe.visible_keys import sees_what_was_read_before


class _Reach(NamedTuple):
    """The queries that a pass has had so far.

    Attributes:
        last: the last position; UNKNOWN: none is known.
        sequences: of which they are tokens.
    """

    last: int = UNKNOWN
    sequences: frozenset[Source] = frozenset()

    def holds(self, queries: Places | None) -> bool:
        """Return whether all of these queries are tokens of the sequences that the pass has read."""
        return queries is not None and bool(queries.all_sequences) and queries.all_sequences <= self.sequences

    def goes_on(self, queries: Places | None) -> bool:
        """Return whether the places of a step are known: the program has put its tokens behind others, or the pass has
        read some of their text."""
        return queries is not None and (queries.are_placed or (self.holds(queries) and queries.are_whole))


class RecordedCalls:
    """Takes each call of the passes that are drawn, or counted.

    Args:
        recorded: what is appended to.
        names: names of the tokens.
        on_attention: see ``record``.
    """

    def __init__(self, recorded: Recorded, names: TokenNames, on_attention: OnAttention | None) -> None:
        self._recorded, self._names, self._on_attention = recorded, names, on_attention
        self._options, self._log, self._sites = recorded.options, recorded.log, recorded.sites
        self._maps, self._study = recorded.maps, recorded.study
        self._masks = RecordedMasks(recorded)
        self._orders: dict[int, Sequence[int]] = {}  # of the examples in the current pass, by the number of the site
        self._reach: dict[int, _Reach] = {}  # of the current pass, by the number of the site
        self._most_bytes = allowed_bytes(torch.device("cpu"))
        self._lock = threading.RLock()  # threads wait for one another

    def is_wanted(self, place: Place, q_length: int, k_length: int) -> bool:
        """Return whether a call may belong to a recorded pass. In a long training, nearly none does."""
        if self._study is not None:
            return True
        with self._lock:
            return not self._sites.pass_over(place, (q_length, k_length), self._options.passes.wants)

    def on_observed(self, observed: ObservedCall) -> int | None:
        """Record an observed call while its tensors are valid. Return the number of its site; None: it has none."""
        with self._lock:
            if (run := self._sites.run(observed)) is None:
                return None
            site, kept = run
            if self._options.wants(site) and not self._recorded.is_left_out(site.number):
                self._take(site, kept)
                self._masks.note_unfilled(site, range(kept.call.shape[3], observed.call.shape[3]))
            return site.number

    def on_refused(self, place: Place, lengths: Sequence[int]) -> None:
        """Note a call that is not shown."""
        with self._lock:
            self._sites.refuse(place, lengths)

    def on_weighed(self, number: int) -> None:
        """Note that the output of an attention is multiplied by a number for each of its heads."""
        if self._options.draws(site := self._sites.all[number]):
            self._recorded.remark(
                site, "weights are those before a gate or a sink that multiplies the outputs of some heads"
            )

    def _take(self, site: ObservedSite, observed: ObservedCall) -> None:
        is_wanted = self._options.passes.wants(site.pass_number)
        if not is_wanted and self._study is None:
            return
        windows = windows_of(observed.sides, observed.call.shape[0]) if is_wanted else []
        if not site.first_query:  # steps go on with the examples that the pass has begun with
            self._orders[site.number] = _order_of_examples(observed, windows)
        if order := self._orders.get(site.number, ()):
            windows = [windows[place] for place in order]
        if is_wanted:
            self._begin(site, observed, windows)
            self._note_examples(site, observed, windows)
        self._note_form(site, observed)
        self._recorded.device = str(observed.call.device)
        call, (batch_size, n_heads, q_length, k_length) = observed.call, observed.call.shape
        d_key = call.query.shape[3] if isinstance(call, AttentionCall) else 1
        heads = tuple(sorted(observed.heads or site.heads)) or tuple(range(n_heads))
        self._recorded.heads[site.number] = heads
        is_unplaced = site.pass_number in site.unplaced
        kind: Kind = "other" if is_unplaced else site.kind_in(site.pass_number)
        named = Site(kind, site.order, n_heads, d_key, site.number, site.full_name)
        name = f"{site.full_name}, pass {site.pass_number}"
        padding = self._masks.padding(site, observed)
        if self._masks.is_no_padding(site, observed, padding):
            return
        if is_wanted:
            hold_recorded(self._recorded, site, observed, padding)
        looks_around = observed.order.windows > 1 and q_length != k_length  # and pads the first window
        are_seen = None not in observed.order.tokens.places
        rows = ("row", "row") if (is_unplaced or looks_around) and not are_seen else rows_called(observed)
        # The queries of a masked map are the last keys; a prefix, or tokens of a cache, may come before them.
        counts = site.kind_in(site.pass_number) == "masked" and (site.first_query or not are_seen)
        first = site.k_length - q_length if counts else site.first_query

        before = self._note_reach(site, observed)
        is_nowhere = sees_what_was_read_before(observed)

        def seen_of(places: Sequence[int], of: ObservedCall) -> SiteCall:
            queries, keys = self._names.sides(
                observed.place.forward,
                call.shape,
                places,
                first,
                site.kind == "cross",
                rows,
                observed.order.tokens,
                observed.sides,
            )
            if not site.first_query and not rows[1] and not are_seen:
                parts = observed.order.tokens.parts
                several = [placed(one, parts) for one in zip(queries, keys, strict=True)]
                queries, keys = queries if rows[0] else tuple(own for own, _ in several), tuple(of for _, of in several)
            there = observed.order.tokens.places
            if not site.first_query or before.goes_on(there[0]):
                after = sys.maxsize if is_nowhere else UNKNOWN if before.holds(there[0]) else before.last
                queries = queries if rows[0] else self._names.at_places(queries, 0, there, places, k_length, after)
                keys = keys if rows[1] else self._names.at_places(keys, 1, there, places, k_length, after, rows[0])
            of_places = None if padding is None else padding.of_examples(places)
            return SiteCall(named, of.call, heads, queries, keys, of.output, padding=of_places)

        try:
            if is_wanted and self._on_attention is not None:
                self._visit(seen_of(range(batch_size), observed))
            among = places_of(observed) if site.kind in OF_ONE_TEXT and q_length < k_length else None
            is_whole = site.kind not in OF_ONE_TEXT or q_length == k_length or among is not None
            is_step = site.first_query > 0 and site.pass_number not in site.recurrent
            is_whole = is_whole and not is_step and k_length > 1
            if self._study is not None and site.heads:
                self._recorded.not_shown(
                    site, f"{site.name}: a softmax for each of its heads, which statistics do not count"
                )
            elif self._study is not None and not are_keys_told(observed):
                self._recorded.not_shown(
                    site, f"{site.name}: which tokens its keys are is not known; statistics count no such"
                )
            elif self._study is not None and is_whole:
                whole = seen_of(range(batch_size), observed)
                # The kind may change while the program runs; the number does not.
                number = site.layer_of.number
                whole = replace(whole, site=replace(named, layer=number, number=number), places=among)
                self._count(self._study, whole)
            elif is_step:
                self._recorded.counts.steps[site.number] += batch_size * q_length
            elif self._study is not None and q_length != k_length:
                why = "and these are not known to be the tokens of one text; statistics count no such"
                self._recorded.not_shown(site, f"{site.full_name}: begins with fewer queries than keys, {why}")
            if is_wanted:
                self._keep(site, observed, seen_of, name, windows)
        except MhavizError as error:
            self._recorded.not_shown(site, f"{name}: {error}")

    def _note_reach(self, site: ObservedSite, observed: ObservedCall) -> "_Reach":
        """Note how far the queries of a pass reach, and return how far those before its last run did."""
        before = self._reach.get(site.number, _Reach()) if site.first_query else _Reach()
        queries = observed.order.tokens.places[0]
        if queries is not None:
            last = max(before.last, queries.reach[1])
            self._reach[site.number] = _Reach(last, before.sequences | queries.all_sequences)
        return before

    def _begin(self, site: ObservedSite, observed: ObservedCall, windows: Sequence[Sequence[int]]) -> None:
        """Note a run of a pass that is drawn. A pass that begins takes the place of what was the last one until now."""
        stays = self._options.passes.keeps(site.pass_number)  # even if others follow
        if not site.first_query and (last := self._recorded.drawn.pop((site.number, False), None)) is not None:
            self._maps.forget_pass(site.number, last.pass_number)
        drawn = self._recorded.drawn.setdefault((site.number, stays), Drawn(site.pass_number))
        drawn.pass_number, drawn.batch_size = site.pass_number, max(drawn.batch_size, len(windows))

    def _note_examples(self, site: ObservedSite, observed: ObservedCall, windows: Sequence[Sequence[int]]) -> None:
        """Note that the batch axis holds some examples only, or more than once: maps are numbered by its entries."""
        examples, order = _examples_of(observed, windows), observed.order
        is_told = order.windows == 1 and not order.called and len({*examples}) > 1
        if is_told and sorted(examples) != [*range(len(examples))]:
            listed = ", ".join(map(str, examples[:_MOST_LISTED])) + ", …" * (len(examples) > _MOST_LISTED)
            self._log.miss(
                f"{site.full_name}: its batch axis holds examples {listed} of what was read; maps have the numbers of "
                "its entries"
            )
            self._recorded.remark(site, "examples are numbered as the entries of some batch axis")

    def _count(self, study: HeadStudy, whole: SiteCall) -> None:
        """Add the examples of a call to the statistics. Each attention numbers them as they come, over all passes."""
        number = whole.site.number
        start = self._recorded.counts.examples[number]
        numbers = range(start, start + len(whole.queries))
        show(lambda seen: study.add(seen, numbers), whole, "statistics", "they do not count it")
        self._recorded.counts.examples[number] = numbers.stop
        self._recorded.counts.has_batches |= len(numbers) > 1
        n_padded = 0 if whole.padding is None else int((~whole.padding.queries).sum())
        self._recorded.counts.padded[number] += n_padded
        self._recorded.counts.queries[number] += len(whole.queries) * whole.call.shape[2] - n_padded

    def _keep(
        self,
        site: ObservedSite,
        observed: ObservedCall,
        seen_of: Callable[[Sequence[int], ObservedCall], SiteCall],
        name: str,
        windows: Sequence[Sequence[int]],
    ) -> None:
        batch_size = len(windows)
        there = self._options.examples_of(batch_size)
        if not there:
            self._recorded.not_shown(
                site, f"{name}: has {batch_size:,} along its batch axis, and none of those asked for"
            )
        if self._maps.bytes > self._most_bytes:
            self._recorded.not_shown(
                site, f"{name} and what came later is left out: the maps have filled the memory that they may take"
            )
            return
        if site.moved:
            order = self._orders.get(site.number) or range(batch_size)
            moved = [order.index(site.moved[place]) for place in order]
            self._maps.move(site.number, site.pass_number, moved)
            self._recorded.remark(
                site, "an example is a beam of a search, and its map is of the text that it ends with"
            )
        if any(len(windows[number]) > 1 for number in there):
            self._recorded.remark(
                site, "of an image that is cut into windows, a map shows the first alone; over the image all are drawn"
            )
        wanted = range(batch_size) if there and site.are_alike else there
        for number, window, place in ((n, w, place) for n in wanted for w, place in enumerate(windows[n])):
            output = None if observed.output is None else observed.output[place : place + 1]
            one = seen_of([place], ObservedCall(example(observed.call, place), output))
            try:
                grows = site.kind in OF_ONE_TEXT
                self._maps.add(one, site.pass_number, number, batch_size, site.first_query, grows, window)
                if number not in there or window:
                    continue
                weighing = _weighing_hidden(observed, place)
                nan = [] if observed.nan is None else observed.nan[place].nonzero().flatten().tolist()
                self._masks.note_mask(
                    site, name, one, weighing, nan, f"of example {number}, " if batch_size > 1 else ""
                )
            except MhavizError as error:
                of = f", example {number}" if len(there) > 1 else ""
                self._recorded.not_shown(site, f"{name}{of}: {error}")

    def _visit(self, seen: SiteCall) -> None:
        assert self._on_attention is not None
        try:
            self._on_attention(seen)
        except BaseException as error:
            raise VisitorError(error) from error

    def _note_form(self, site: ObservedSite, observed: ObservedCall) -> None:
        """Note where weights were changed, and where the rows and columns of a map are not tokens of one input."""
        batch_size, n_heads, q_length, k_length = observed.call.shape
        name = site.full_name
        if observed.is_before_dropout:
            self._recorded.remark(site, BEFORE_DROPOUT)
        if observed.is_random:
            self._recorded.remark(site, RANDOM)
        if any(observed.are_fixed):
            self._recorded.remark(site, "fixed rows are parameters or constants of the program, not tokens")
        if observed.order.is_assumed and isinstance(observed.call, AttentionWeights):
            axes = f"{name}: axes of {batch_size:,} and {n_heads:,} before the queries are taken as (batch, heads)"
            self._log.miss(f"{axes}, as nothing tells which is which")
            self._recorded.remark(site, "axes are taken as (batch, heads, queries, keys), as nothing tells")
        if not observed.order.is_numbered:
            self._recorded.remark(site, "some heads are numbered as they stand in the softmax")
        windows = observed.order.windows
        if windows > 1 and not observed.has_patches:
            lengths, why = f"{q_length:,} tokens", ""
            if q_length != k_length:
                lengths = f"{q_length:,} {'query' if q_length == 1 else 'queries'} and {k_length:,} keys"
                if None in observed.order.tokens.places:
                    why = "; which tokens these are is not known, and they are called rows"
            self._log.miss(f"{name}: {windows:,} windows of {lengths} each stand in its batch axis{why}")
            self._recorded.remark(site, "of inputs that are cut into windows, a map is of one window")
        if observed.order.called == "head":
            self._log.miss(
                f"{name}: its queries and keys are the {k_length:,} heads of one token, not tokens; before the product "
                "a transpose of tokens and heads may be missing"
            )
            self._recorded.remark(site, "some rows and columns are heads of one token, not tokens")
        if q_length == k_length and rows_called(observed) == ("channel", "channel"):
            self._log.miss(f"{name}: weighs {q_length:,} channels of a head, not tokens")
            self._recorded.remark(site, "some rows and columns are channels, not tokens")


def are_keys_told(observed: ObservedCall) -> bool:
    """Return whether it is known which tokens the keys are, as far as they are some that were followed."""
    keys = observed.order.tokens.places[1]
    return keys is None or not keys.is_known.any() or bool((keys.is_named | ~keys.is_known).all())


def _order_of_examples(observed: ObservedCall, windows: Sequence[Sequence[int]]) -> Sequence[int]:
    """Return the place in the batch of each example, where the program has put these in another order; empty: it has
    not, or that is not known."""
    examples = _examples_of(observed, windows)
    is_moved = sorted(examples) == [*range(len(windows))] != examples
    return [examples.index(number) for number in range(len(windows))] if is_moved else ()


def _examples_of(observed: ObservedCall, windows: Sequence[Sequence[int]]) -> list[int]:
    """Return of which example of what the program has read each entry of the batch is; empty: it is not known."""
    queries = observed.order.tokens.places[0]
    if queries is None or [[place] for place in range(len(queries.source))] != windows:
        return []
    if not queries.is_named.any(axis=1).all():  # rows that a function has made may be of any example
        return []
    return [queries.example_of(entry) for entry in range(len(windows))]


_MOST_LISTED = 8
"""Most numbers of examples in a message."""


def _weighing_hidden(observed: ObservedCall, place: int) -> list[int]:
    """Return the queries of an example that weigh keys which the mask is meant to hide from them."""
    weighing = observed.call.weighing_hidden()  # of all examples, which are looked through at once
    if weighing is None:
        return []
    rows = weighing[place if len(weighing) > 1 else 0].any(dim=0).expand(observed.call.shape[2])
    queries: list[int] = rows.nonzero().flatten().tolist()
    return queries

"""Tell the attentions of a program apart: which one has run, in which of its forward passes, and of which kind.

An attention is known by the name of its module. One that runs again within a forward pass, as ALBERT's layers do,
counts as another. It begins another pass if it is known to read another text, as a siamese encoder does, and is of the
same layer if it is known to read other tokens of the same text, as in a loop over packed documents.

A decoder that generates text calls its attentions again for each token, with the keys of all tokens so far: these steps
are one pass. So are those of a recurrent decoder, which reads the same keys again.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from mhaviz.inputs.tokens import OF_ONE_TEXT, Kind
from mhaviz.observe.decoder_steps import (
    DecoderStep,
    StepOfPass,
    begins_again,
    is_called_anew,
    is_next_block,
    may_be_recurrent,
    query_of,
    reads_keys_again,
    step_of,
    why_no_recurrence,
)
from mhaviz.observe.joined_sites import (
    blocks_of_queries,
    heads_of_list,
    is_unknown_head,
    may_be_of_list,
    not_told_apart,
    whole_of_heads,
    whole_of_queries,
)
from mhaviz.observe.kinds import kind_of
from mhaviz.observe.known_keys import are_alike, known_by
from mhaviz.observe.log import Log
from mhaviz.observe.modules import Place
from mhaviz.observe.observed import ObservedCall
from mhaviz.observe.observed_site import ObservedSite
from mhaviz.observe.visible_keys import are_seen_named, visible_of, without_unfilled

MOST_SITES = 4096
"""Number of attentions that are told apart."""

MOST_REPEATS, MOST_AT_A_LINE = 256, 64
"""How many runs of one attention count as different attentions: within a forward pass, and at one line of a program
without modules, where nothing tells what a forward pass is."""

MOST_REFUSED = 1024
"""Number of forward passes, the latest, that count though an attention was refused in them."""

MOST_PASSES = 64
"""Number of forward passes, in as many threads, that may run at once."""


@dataclass
class _Pass:
    """What a forward pass has done so far.

    Attributes:
        repeats: how often each attention has run, by its root and name.
        last: its last step.
        has_cache: whether a single query has read tokens of its own text, which later steps do from a cache.
    """

    repeats: dict[tuple[int, str], int] = field(default_factory=dict)
    last: StepOfPass = field(default_factory=StepOfPass)
    has_cache: bool = False


class Sites:
    """The attentions of a program, found as they run.

    Each run is compared with those before it: ``decoder_steps`` tells which go on with a pass, and ``joined_sites``
    which are of one attention. What they tell is noted here alone, at once, as each call is shown with the number of
    its attention.

    The beams of a search change places between steps. Their keys tell which text each goes on from.

    Args:
        log: is told what is not told apart, and which attentions are left out.
        is_drawn: returns whether the current pass of an attention is wanted. There are no messages about others.

    Attributes:
        all: all attentions, in the order in which they first ran.
    """

    def __init__(self, log: Log, is_drawn: Callable[[ObservedSite], bool]) -> None:
        self._log, self._is_drawn = log, is_drawn
        self.all: list[ObservedSite] = []
        self._sites: dict[tuple[int, str, int], ObservedSite] = {}
        self._refused: dict[tuple[int, str], deque[int]] = {}  # forward passes, by the root and the name of the place
        self._passes: dict[int, _Pass] = {}  # by ``Place.forward``, the most recent last

    def others_read(self) -> Iterator[tuple[ObservedSite, ObservedSite]]:
        """Iterate over attentions that are known to go on from those of another kind, with the first of that kind.

        Cross attention is none of them. See ``ObservedSite.goes_on_from``.
        """
        sites = [site for site in self.all if site.kind != "cross"]
        numbers: dict[Kind, set[int]] = {}
        for site in sites:
            numbers.setdefault(site.kind, set()).add(site.number)
        for site in sites:
            for others in (of_kind for kind, of_kind in numbers.items() if kind != site.kind):
                read = map(self.all.__getitem__, sorted(others & site.last.tokens.through))
                if (first := next(filter(site.goes_on_from, read), None)) is not None:
                    yield site, first

    def refuse(self, place: Place, lengths: Sequence[int]) -> None:
        """Note an attention that is not shown, as its pass counts all the same; ``lengths``: of queries and keys.

        A single query over more keys may be a step of a pass.
        """
        if place.forward and len({*lengths}) == 1:
            self._refused.setdefault((place.root, place.name), deque(maxlen=MOST_REFUSED)).append(place.forward)

    def _next_pass(self, site: ObservedSite, place: Place) -> int:
        """Return the number of the pass that a run begins, after those that were refused since the last."""
        forwards = self._refused.get((place.root, place.name), ()) if site.part_of is None else ()
        return site.next_pass + len({forward for forward in forwards if site.forward < forward < place.forward})

    def pass_over(self, place: Place, lengths: tuple[int, int], is_wanted: Callable[[int], bool]) -> bool:
        """Count a run if it begins an unwanted pass, and return whether it does; ``lengths``: of queries and keys.

        A run of one query, or of fewer than keys, may be a step of the current pass, which ``run`` finds out.
        """
        q_length, k_length = lengths
        if q_length < k_length or q_length == 1 or (now := self._pass(place)).last.queries:
            return False
        name = place.root, place.name
        repeat = now.repeats.get(name, 0)
        site, first = self._sites.get((*name, repeat)), self._sites.get((*name, 0))
        if first is None or first.needs_tokens:
            return False
        if site is None:  # which attention it is can only be told in a pass that is read
            is_passed_over = first.forward == place.forward and not first.is_followed
            if is_passed_over and not is_wanted(first.pass_number):
                now.repeats[name] = repeat + 1
                return True
            return False
        if is_wanted(self._next_pass(site, place)):
            return False
        now.repeats[name] = site.repeat + 1
        site.passes, site.forward = self._next_pass(site, place) + 1, place.forward
        site.length, site.k_length, site.is_followed = *lengths, False
        site.keys = None
        return True

    def _pass(self, place: Place) -> _Pass:
        """Return the forward pass that runs there. Each thread may run one."""
        now = self._passes.pop(place.forward, None)
        if now is None:
            now = _Pass()
            self._passes.pop(0, None)  # outside of modules, a pass ends where another begins
        elif self._passes and 0 < place.forward < next(reversed(self._passes)):
            self._log.miss(
                "forward passes run at once in several threads: maps of one number may be of different passes"
            )
        self._passes[place.forward] = now
        if len(self._passes) > MOST_PASSES:
            del self._passes[next(iter(self._passes))]
        return now

    def run(self, observed: ObservedCall) -> tuple[ObservedSite, ObservedCall] | None:
        """Return which attention has run, and its call without those keys of a cache that are not filled yet.

        None: there are too many attentions, or this one is left out.
        """
        place, now = observed.place, self._pass(observed.place)
        name = place.root, place.name
        keys = takewhile(self._sites.__contains__, ((*name, repeat) for repeat in range(MOST_REPEATS)))
        sites = [self._sites[key] for key in keys]
        repeat = now.repeats.get(name, 0)
        for one in sites:  # one module may be the attention of all layers, each of which has a site
            if (step := step_of(one, observed, now.last)) is not None:
                now.repeats[name] = max(repeat, one.repeat + 1)
                self._go_on(one, step, now)
                return one, step.observed
            self._note_no_step(one, observed)
        beside = [one for one in sites if (one.call, one.forward) == (place.call, place.forward)]
        while 0 < repeat <= len(sites) and begins_again(sites[repeat - 1], observed):
            sites[0].needs_tokens, repeat = True, repeat - 1
        now.repeats[name] = repeat + 1
        observed = without_unfilled(observed, observed.call.shape[2])
        site = self._sites.get((*name, repeat)) or self._add(repeat, observed, sites, beside)
        if site is None:
            return None
        self._begin_pass(site, observed, now)
        self._note_blocks(site, blocks_of_queries(beside, site, observed))
        others, why = not_told_apart(self.all, beside, site, observed)
        for one in (*others, site) if others else ():
            self._log.leave_out(one.number, why)
        return None if others else (site, observed)

    def _add(
        self, repeat: int, observed: ObservedCall, sites: Sequence[ObservedSite], beside: Sequence[ObservedSite]
    ) -> ObservedSite | None:
        """Add the attention of a run, and note of which others it is a part; None: there are too many.

        Args:
            repeat: how often an attention of its name has run before it within the forward pass.
            observed: the run.
            sites: the attentions of the same module.
            beside: those of them that have run in the same call.
        """
        place, kind = observed.place, kind_of(observed)
        most = MOST_REPEATS if place.is_module else MOST_AT_A_LINE
        if repeat >= most:
            where = "in a forward pass" if place.is_module else "with no module around it"
            self._log.miss(f"{place.name}: runs more than {most} times {where}; the rest is left out")
            return None
        if len(self._sites) >= MOST_SITES:
            self._log.miss(f"only {MOST_SITES:,} attentions are told apart, and those that ran later are left out")
            return None
        order = sum(other.kind == kind and other.layer_of is other for other in self._sites.values())
        site = ObservedSite(len(self._sites), place.name, place.root, repeat, place.is_module, kind, order)
        site.heads, site.read = observed.heads, place.read if may_be_of_list(observed) else None
        self._sites[place.root, place.name, repeat] = site
        self.all.append(site)
        if is_unknown_head(beside, observed):
            self._log.miss(
                f"{site.name}: runs several times, one head each; it is not known which heads of which layer"
            )
        site.joins = whole_of_heads(beside, observed)
        heads = heads_of_list(self.all, site, observed)
        for one in (*heads, site) if heads else ():
            one.heads_of, _, number = one.name.rpartition(".")
            one.heads = frozenset({int(number)})
            if one is not heads[0]:
                one.joins, one.order = heads[0], heads[0].order
        if place.is_module and site.joins is None:
            site.part_of = whole_of_queries(sites, observed)
        if (whole := site.layer_of) is not site:
            site.order = whole.order
        return site

    def _begin_pass(self, site: ObservedSite, observed: ObservedCall, now: _Pass) -> None:
        """Note that a pass of an attention begins."""
        was_drawn = self._is_drawn(site)
        site.passes, site.forward = self._next_pass(site, observed.place) + 1, observed.place.forward
        self._note_kind(site, observed)
        self._note_other_keys(site, observed, was_drawn)
        _, _, site.length, site.k_length = observed.call.shape
        site.n_step = site.length
        site.keys, site.is_followed = known_by(observed, site.k_length), True
        self._note_query(site, observed, now)
        site.moved, site.are_alike = (), are_alike(site.keys)
        site.last, site.call = observed.order, observed.place.call
        own, others = site.may_be_fixed
        site.may_be_fixed = own or observed.are_fixed[0] is None, others or observed.are_fixed[1] is None

    def _note_kind(self, site: ObservedSite, observed: ObservedCall) -> None:
        """Note a pass that is masked where the first was not. That one is not masked, its weights tell."""
        if site.kind == "self" and site.passes > 1 and kind_of(observed) == "masked":
            if site.has_choice:
                site.masked.add(site.pass_number)
            else:
                site.kind = "masked"
        site.has_choice |= observed.call.shape[3] > 1

    def _note_other_keys(self, site: ObservedSite, observed: ObservedCall, was_drawn: bool) -> None:
        """Note a pass that begins with more keys than queries, other keys than in the pass before.

        The keys may be those of a cache that has lost or moved some, such as rejected drafts, or of another text.
        """
        q_length, k_length = observed.call.shape[2:]
        site.n_before = k_length - q_length if site.passes == 1 else site.n_before
        own, keys = observed.order.tokens.parts
        is_known = own is not None and keys is not None and keys.is_first and own.of == keys.of
        if site.kind not in OF_ONE_TEXT or k_length - q_length in (0, site.n_before) or is_known:
            return
        site.unplaced.add(site.pass_number)
        site.has_other_keys |= was_drawn or self._is_drawn(site)
        if not are_seen_named(observed):
            site.unnamed.add(site.pass_number)

    def _note_query(self, site: ObservedSite, observed: ObservedCall, now: _Pass) -> None:
        """Note what tells whether later runs are steps of the pass that begins, if it begins with a single query."""
        is_one = observed.call.shape[2] == 1
        now.has_cache |= is_one and site.kind in OF_ONE_TEXT
        is_one &= not now.has_cache
        site.run, observed.run.is_followed = observed.run, is_one
        site.alone = query_of(observed).clone() if is_one else None
        visible = visible_of(observed) if is_one else None
        site.seen = None if visible is None else visible.clone()

    def _note_blocks(self, site: ObservedSite, others: Sequence[ObservedSite]) -> None:
        for one in (*others, site) if others else ():
            one.is_block = True
        if others and self._is_drawn(site):
            self._log.miss(
                f"{site.name}: runs several times with the same keys, as for blocks of its queries; it is not known "
                f"which tokens its queries are, and they are called rows"
            )

    def _go_on(self, site: ObservedSite, step: DecoderStep, now: _Pass) -> None:
        """Note that an attention goes on with its current pass."""
        place, n_step = step.observed.place, step.observed.call.shape[2]
        if step.form == "tokens":
            site.kind, site.needs_tokens = "masked", site.needs_tokens or is_next_block(site, step.observed)
            now.last = StepOfPass((n_step, site.length), step.moved)
            site.k_length += n_step
        elif step.form == "recurrent":
            site.run, step.observed.run.is_followed = step.observed.run, True
            site.recurrent.add(site.pass_number)
        site.keys, site.moved = step.keys, step.moved
        site.has_moved |= bool(site.moved) and self._is_drawn(site)
        site.forward, site.n_step = place.forward, n_step
        site.length += n_step

    def _note_no_step(self, site: ObservedSite, observed: ObservedCall) -> None:
        """Note a run that may be a step of a recurrent decoder, if it is not known to be one."""
        if site.kind in OF_ONE_TEXT or not site.length or not reads_keys_again(site, observed):
            return
        if (why := why_no_recurrence(site, observed)) and may_be_recurrent(site, observed) and self._is_drawn(site):
            is_in_pass = site.forward == observed.place.forward and not is_called_anew(site, observed.place)
            then = "it counts as another attention" if is_in_pass else "a new pass begins"
            self._log.miss(
                f"{site.name}: runs again with one query and the same keys, and it is not known whether these are "
                f"steps of one text: {why}; {then}"
            )

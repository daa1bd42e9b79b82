"""Tell the attentions of a program apart: which one has run, in which of its forward passes, and of which kind.

An attention is known by the name of its module. One that runs again within a forward pass, as ALBERT's layers do,
counts as another. It begins another pass if it is known to read another text, as a siamese encoder does, and is of the
same layer if it is known to read other tokens of the same text, as in a loop over packed documents.

A decoder that generates text calls its attentions again for each token, with the keys of all tokens so far: these steps
are one pass. So are those of a recurrent decoder, which reads the same keys again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from weakref import ref

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall
from mhaviz.inputs.tokens import OF_ONE_TEXT, Kind
from mhaviz.observe.compared import Compared
from mhaviz.observe.kinds import kind_of
from mhaviz.observe.known_keys import are_alike, are_equal, known_by, moved_examples, run_ends
from mhaviz.observe.log import Log
from mhaviz.observe.modules import Place
from mhaviz.observe.observed import ObservedCall
from mhaviz.observe.order import NO_ORDER, SOME_EXAMPLES, Order
from mhaviz.observe.recurrence import Run
from mhaviz.observe.visible_keys import end_of_filled, is_same_mask, sees_no_later, visible_of, without_unfilled

MOST_SITES = 4096
"""Number of attentions that are told apart."""

MOST_REPEATS, MOST_AT_A_LINE = 256, 64
"""How many runs of one attention count as different attentions: within a forward pass, and at one line of a program
without modules, where nothing tells what a forward pass is."""

MOST_PASSES = 64
"""Number of forward passes, in as many threads, that may run at once."""


@dataclass
class ObservedSite:
    """An attention of a program.

    Attributes:
        number: its place among all attentions, in the order in which they first ran.
        name: of the module, or of the line.
        root: see ``Place``.
        repeat: how often an attention of this name runs before it within a forward pass.
        is_module: whether the name is a module's.
        kind: of its first run; "masked" once steps have joined it.
        order: its place among the attentions of its kind.
        passes: number of passes that it has run in.
        length: number of tokens that its queries have been, in the current pass.
        k_length: number of tokens that its keys have been, in the current pass.
        keys: a few features of each key and of its value, (batch_size, k_length, features), by which it is recognised;
            None: not known.
        is_followed: whether the current pass is read. If it is not, steps are counted by their numbers of keys alone.
        forward, call: the forward pass of its last run, and the call of its module; see ``Place``.
        is_block: whether its queries are some of its module's, and nothing tells which.
        unplaced: numbers of the passes that began with other keys than the first tokens of a text, in their order.
        unnamed: those of which it is not known either which tokens the keys are.
        has_other_keys: whether one of these passes, or the pass before it, is drawn.
        n_step: number of queries in its last run.
        n_before: how many more keys than queries its first run had, such as learned keys.
        last: order of its last run that was no step.
        may_be_fixed: whether its queries may be constants of the program as well as tokens, and whether its keys may.
        heads: the heads of its first run; empty: all, or not known.
        joins: the attention whose other heads these are, as in a loop over heads; None: it is one of its own.
        part_of: the attention whose other queries these are, as in a loop over documents of one sequence, or over
            blocks; None: no other is known.
        heads_of: the list of modules whose attentions are the heads of one; "": none.
        read: of its first run; see ``Place``.
        run: its last run.
        alone: the query of the first run of the current pass, or its weights, if it was alone; None: it was not.
        seen: which keys it sees, as the mask tells; None: all, or not known.
        recurrent: numbers of the passes that are made of several runs of one query each.
        are_alike: whether some examples of its batch have begun the current pass with the same keys, as beams do.
        moved: for each example of its last run, the example of the run before whose text it goes on from; empty: its
            own.
        has_moved: whether examples of a pass that is drawn have.
        needs_tokens: whether its tokens tell in which pass it runs, as of two texts or of blocks in one forward pass.
    """

    number: int
    name: str
    root: int
    repeat: int
    is_module: bool
    kind: Kind
    order: int
    passes: int = 0
    length: int = 0
    k_length: int = 0
    keys: Tensor | None = None
    is_followed: bool = True
    forward: int = -1
    call: int = 0
    is_block: bool = False
    unplaced: set[int] = field(default_factory=set)
    unnamed: set[int] = field(default_factory=set)
    has_other_keys: bool = False
    n_step: int = 0
    n_before: int = 0
    last: Order = NO_ORDER
    may_be_fixed: tuple[bool, bool] = False, False
    heads: frozenset[int] = frozenset()
    joins: "ObservedSite | None" = None
    part_of: "ObservedSite | None" = None
    heads_of: str = ""
    read: "tuple[ref[Tensor], int] | None" = None
    run: Run = field(default_factory=Run)
    alone: Tensor | None = None
    seen: Tensor | None = None
    recurrent: set[int] = field(default_factory=set)
    are_alike: bool = False
    moved: tuple[int, ...] = ()
    has_moved: bool = False
    needs_tokens: bool = False

    @property
    def pass_number(self) -> int:
        """Number of the current pass, counted from 0."""
        return self.passes - 1

    @property
    def next_pass(self) -> int:
        """Number of the pass that its next run begins. What is a part of an attention runs in the pass of that."""
        return self.passes if self.part_of is None else self.part_of.passes - 1

    @property
    def layer_of(self) -> "ObservedSite":
        """The attention with which it is counted as a layer; itself unless it has other heads or queries of another."""
        whole = self.joins or self
        return whole.part_of or whole

    @property
    def first_query(self) -> int:
        """Where the queries of its last run begin; above 0 for a step that has joined its pass."""
        return self.length - self.n_step

    @property
    def full_name(self) -> str:
        """The name, with the number of its run within a forward pass from the second on: "attn #2"."""
        name = f"{self.heads_of}.*" if self.heads_of else self.name
        return f"{name} #{self.repeat + 1}" if self.repeat else name

    def goes_on_from(self, other: "ObservedSite") -> bool:
        """Return whether it is known to read what another attention has made, of the same tokens."""
        sequences = self.last.tokens.sequences
        return other.number in self.last.tokens.through and not sequences.isdisjoint(other.last.tokens.sequences)


@dataclass
class _Pass:
    """What a forward pass has done so far.

    Attributes:
        repeats: how often each attention has run, by its root and name.
        joined: number of queries in its last step, and where they begin; None: it had no step.
        moved: as of the attention that has joined last; see ``ObservedSite``.
        has_cache: whether a single query has read tokens of its own text, which later steps do from a cache.
    """

    repeats: dict[tuple[int, str], int] = field(default_factory=dict)
    joined: tuple[int, int] | None = None
    moved: tuple[int, ...] = ()
    has_cache: bool = False


class Sites:
    """The attentions of a program, found as they run.

    A step of a decoder is recognised by its keys: those before its own are the last keys of its pass. If they are
    others, or fewer, a new pass begins: of another text, after learned keys, of a copy of a cache, or after
    drafts that were rejected. A step of a recurrent decoder has one query over all keys of its pass, which is known to
    be made of what the step before gave. That the keys are the same is not enough: several inputs may read one memory.

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

    def pass_over(self, place: Place, lengths: tuple[int, int], is_wanted: Callable[[int], bool]) -> bool:
        """Count a run if it begins an unwanted pass, and return whether it does; ``lengths``: of queries and keys.

        A run of one query, or of fewer than keys, may be a step of the current pass, which ``run`` finds out.
        """
        q_length, k_length = lengths
        if q_length < k_length or q_length == 1 or (now := self._pass(place)).joined:
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
        if is_wanted(site.next_pass):
            return False
        now.repeats[name] = site.repeat + 1
        site.passes, site.forward = site.next_pass + 1, place.forward
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
        place = observed.place
        repeats, name = self._pass(place).repeats, (place.root, place.name)
        keys = takewhile(self._sites.__contains__, ((*name, repeat) for repeat in range(MOST_REPEATS)))
        sites = [self._sites[key] for key in keys]
        beside = [one for one in sites if (one.call, one.forward) == (place.call, place.forward)]
        repeat = repeats.get(name, 0)
        for one in sites:  # one module may be the attention of all layers, each of which has a site
            if (step := self._step(one, observed)) is not None:
                repeats[name] = max(repeat, one.repeat + 1)
                return one, step
        while 0 < repeat <= len(sites) and _begins_again(sites[repeat - 1], observed):
            sites[0].needs_tokens, repeat = True, repeat - 1
        repeats[name] = repeat + 1
        site = self._sites.get((*name, repeat))
        observed = without_unfilled(observed, observed.call.shape[2])
        if site is None:
            most = MOST_REPEATS if place.is_module else MOST_AT_A_LINE
            if repeat >= most:
                where = "in a forward pass" if place.is_module else "with no module around it"
                self._log.miss(f"{place.name}: runs more than {most} times {where}; the rest is left out")
                return None
            if len(self._sites) >= MOST_SITES:
                self._log.miss(f"only {MOST_SITES:,} attentions are told apart, and those that ran later are left out")
                return None
            kind = kind_of(observed)
            order = sum(other.kind == kind and other.layer_of is other for other in self._sites.values())
            site = ObservedSite(len(self._sites), place.name, place.root, repeat, place.is_module, kind, order)
            self._sites[*name, repeat] = site
            self.all.append(site)
            self._join_heads(site, beside, observed)
            self._join_list(site, observed)
            self._join_parts(site, sites, observed)
        was_drawn = self._is_drawn(site)
        site.passes, site.forward = site.next_pass + 1, place.forward
        self._note_other_keys(site, observed, was_drawn)
        _, _, site.length, site.k_length = observed.call.shape
        site.n_step = site.length
        site.keys, site.is_followed = known_by(observed, site.k_length), True
        self._begin_steps(site, observed)
        site.moved, site.are_alike = (), are_alike(site.keys)
        site.last, site.call = observed.order, place.call
        own, others = site.may_be_fixed
        site.may_be_fixed = own or observed.are_fixed[0] is None, others or observed.are_fixed[1] is None
        self._note_blocks(site, beside, observed)
        if self._is_some_examples(site, place) or self._is_slice(site, beside, observed):
            return None
        return site, observed

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
        places = observed.order.tokens.places[1]
        if places is None or not places.is_named.all():
            site.unnamed.add(site.pass_number)

    def _join_heads(self, site: ObservedSite, before: Sequence[ObservedSite], observed: ObservedCall) -> None:
        """Note of which attention, in the same call of a module, these are other heads."""
        site.heads = observed.heads
        order, is_one = observed.order, observed.call.shape[1] == 1 and not site.heads
        is_one = is_one and order.tokens.examples is None and order.tokens.parts[1] is not None
        others = [one for one in before if not one.heads and not one.last.is_turned(order)]
        if is_one and any(one.last.tokens.parts == order.tokens.parts for one in others):
            self._log.miss(
                f"{site.name}: runs several times, one head each; it is not known which heads of which layer"
            )
        first = next((one for one in before if one.heads and one.joins is None), None)
        if first is None or not site.heads or (first.length, first.k_length) != observed.call.shape[2:]:
            return
        there = [one.heads for one in before if one is first or one.joins is first]
        if not site.heads & frozenset().union(*there):
            site.joins, site.order = first, first.order

    def _join_list(self, site: ObservedSite, observed: ObservedCall) -> None:
        """Note that single heads in a list of modules, which read the same tensor, are heads of one attention.

        Layers read what other layers have made. Several softmaxes of one module are no heads of a list.
        """
        place = observed.place
        parent, _, number = place.name.rpartition(".")
        if place.read is None or site.heads or observed.call.shape[1] > 1 or not number.isdigit():
            return
        site.read = place.read
        read, lengths = place.read[0](), observed.call.shape[2:]
        several = [
            one
            for one in self.all
            if (one.root, one.forward, one.name.rpartition(".")[0]) == (place.root, place.forward, parent)
            if one.read is not None and one.read[0]() is read and one.read[1] == place.read[1]
            if one.name != site.name and one.repeat == site.repeat and (one.length, one.k_length) == lengths
        ]
        for head, one in enumerate([*several, site] if several else ()):
            one.heads, one.heads_of = frozenset({head}), parent
            if head:
                one.joins, one.order = several[0], several[0].order

    def _join_parts(self, site: ObservedSite, before: Sequence[ObservedSite], observed: ObservedCall) -> None:
        """Note of which attention, in the same forward pass, these are other queries; ``before``: of the same module.

        They are other tokens of the same sequence. Layers that share a module read the same tokens.
        """
        place, tokens = observed.place, observed.order.tokens
        if not place.is_module or site.joins is not None:
            return
        running = [other for other in before if other.forward == place.forward and other.is_followed]
        for whole in (other for other in running if other.layer_of is other):
            of_heads = [
                share_queries(other.last.tokens, tokens)
                for other in running
                if other.layer_of is whole and not (site.heads and other.heads and site.heads.isdisjoint(other.heads))
            ]
            if False in of_heads and True not in of_heads:
                site.part_of, site.order = whole, whole.order
                return

    def _is_some_examples(self, site: ObservedSite, place: Place) -> bool:
        """Return whether the run is of some of the examples only; if so, send a message."""
        others = [
            other
            for other in self.all
            if (other.root, other.forward) == (place.root, place.forward)
            and (other.name == place.name or not place.is_module)
            and other.last.tokens.are_other_examples(site.last.tokens)
        ]
        if others:
            self._leave_out((*others, site), SOME_EXAMPLES)
        return bool(others)

    def _is_slice(self, site: ObservedSite, before: Sequence[ObservedSite], observed: ObservedCall) -> bool:
        """Return whether these are slices of queries and keys, and the same call of a module has had others.

        If so, send a message. Known heads and queries are told apart, and so are several softmaxes of all heads of the
        same tokens; heads that were chosen by indices may be any.
        """
        made, (own, keys) = site.last.tokens.made, site.last.tokens.parts
        is_any_head = observed.order.are_heads_unordered
        if site.heads or site.is_block or not made:
            return False
        is_one = observed.call.shape[1] == 1
        others = [
            one
            for one in before
            if one.last.tokens.made == made and not one.heads and not one.is_block and not one.last.is_turned(site.last)
            if own is None
            or (one.last.tokens.parts[1] == keys and (is_one or one.last.tokens.parts[0] != own))
            or (is_any_head and one.last.are_heads_unordered)
            if one.layer_of is not site.layer_of or share_queries(one.last.tokens, site.last.tokens) is not False
            if one.number not in site.last.tokens.through
        ]
        if others:
            self._leave_out(
                (*others, site),
                "runs several times with the same features; it is not known whether these are parts of one attention, "
                "such as some of its queries or heads",
            )
        return bool(others)

    def _leave_out(self, sites: Iterable[ObservedSite], why: str) -> None:
        for site in sites:
            self._log.leave_out(site.number, why)

    def _note_blocks(self, site: ObservedSite, before: Sequence[ObservedSite], observed: ObservedCall) -> None:
        """Note that the queries of attentions with the same keys, within one call of a module, are not known.

        They may be blocks of the queries in any order. Queries as long as the module's input are all of them.
        """
        is_known = observed.order.tokens.parts[0] is not None
        if is_known or site.length == (observed.place.length or site.k_length):
            return
        for one in before:
            if one.length == site.length and one.k_length == site.k_length in run_ends(
                one.keys, site.keys, site.k_length
            ):
                one.is_block = site.is_block = True
        if site.is_block and self._is_drawn(site):
            self._log.miss(
                f"{site.name}: runs several times with the same keys, as for blocks of its queries; it is not known "
                f"which tokens its queries are, and they are called rows"
            )

    def _step(self, site: ObservedSite, observed: ObservedCall) -> ObservedCall | None:
        """Return the run as a step of the current pass; None: it is not known to be one."""
        place = observed.place
        _, _, q_length, k_length = observed.call.shape
        is_next_block = _is_next_block(site, observed)
        if not site.length or (site.forward == place.forward and q_length > 1 and not is_next_block):
            return None  # two attentions, as ProphetNet's
        if site.kind not in OF_ONE_TEXT:
            step = self._cross_step(site, observed) or self._recurrent_step(site, observed)
            if step is not None:
                return step
        is_in_call = place.is_module and site.call == place.call
        has_same_keys = (
            site.last.tokens.parts[1] is not None and site.last.tokens.parts[1] == observed.order.tokens.parts[1]
        )
        if site.kind == "cross" or q_length >= k_length or (is_in_call and has_same_keys):
            return None
        observed = without_unfilled(observed, end_of_filled(observed, site.k_length))
        k_length = observed.call.shape[3]
        now, n_before = known_by(observed, k_length), k_length - q_length
        if not (0 < n_before <= site.k_length and (q_length == 1 or sees_no_later(observed, k_length))):
            return None
        site.moved = moved_examples(site.keys, now, n_before) if site.is_followed and site.are_alike else ()
        ends = run_ends(site.keys, now, n_before) if site.is_followed and not site.moved else [n_before]
        if site.k_length not in ends:
            return None
        if site.keys is not None and now is not None:
            known = site.keys[list(site.moved)] if site.moved else site.keys
            site.keys = torch.cat([known, now[:, n_before:]], dim=1)
        site.kind, self._pass(place).joined, self._pass(place).moved = "masked", (q_length, site.length), site.moved
        site.needs_tokens |= is_next_block
        site.k_length += q_length
        return self._go_on(site, observed)

    def _cross_step(self, site: ObservedSite, observed: ObservedCall) -> ObservedCall | None:
        """Return the run of an attention to other tokens as a step, with the queries of the last step; None: it is
        none."""
        _, _, q_length, k_length = observed.call.shape
        if self._pass(observed.place).joined != (q_length, site.length) or k_length != site.k_length:
            return None
        if site.is_followed and not run_ends(site.keys, known_by(observed, k_length), k_length):
            return None
        site.moved = self._pass(observed.place).moved
        return self._go_on(site, observed)

    def _begin_steps(self, site: ObservedSite, observed: ObservedCall) -> None:
        """Note what tells whether later runs are steps of the pass that begins, if it begins with a single query."""
        is_one, now = observed.call.shape[2] == 1, self._pass(observed.place)
        now.has_cache |= is_one and site.kind in OF_ONE_TEXT
        is_one &= not now.has_cache
        site.run, observed.run.is_followed = observed.run, is_one
        site.alone = _query_of(observed).clone() if is_one else None
        visible = visible_of(observed) if is_one else None
        site.seen = None if visible is None else visible.clone()

    def _recurrent_step(self, site: ObservedSite, observed: ObservedCall) -> ObservedCall | None:
        """Return the run as a step of a recurrent decoder, which reads the keys of the pass again; None: it is none."""
        if not _reads_keys_again(site, observed):
            return None
        batch_size, why = observed.call.shape[0], ""
        if not observed.run.goes_on_from(site.run):
            why = "no query is known to be made of what the run before gave"
        elif batch_size > 1 and observed.run.has_moved_since(site.run):
            why = "the examples of its batch may have changed their places, as the beams of a search do"
        if why:
            is_same = site.alone is not None and torch.equal(site.alone, _query_of(observed))  # the same text again
            is_other = share_queries(site.last.tokens, observed.order.tokens) is False
            if not (is_same or is_other or observed.are_fixed[0]) and self._is_drawn(site):
                is_in_pass = site.forward == observed.place.forward and not _is_called_anew(site, observed.place)
                then = "it counts as another attention" if is_in_pass else "a new pass begins"
                self._log.miss(
                    f"{site.name}: runs again with one query and the same keys, and it is not known whether these are "
                    f"steps of one text: {why}; {then}"
                )
            return None
        site.run, observed.run.is_followed, site.moved = observed.run, True, ()
        site.recurrent.add(site.pass_number)
        return self._go_on(site, observed)

    def _go_on(self, site: ObservedSite, observed: ObservedCall) -> ObservedCall:
        site.has_moved |= bool(site.moved) and self._is_drawn(site)
        site.forward, site.n_step = observed.place.forward, observed.call.shape[2]
        site.length += site.n_step
        return observed


def _is_next_block(site: ObservedSite, observed: ObservedCall) -> bool:
    """Return whether queries are known to be the next tokens of the current pass, and keys all tokens up to these."""
    (query, key), (first, _) = observed.order.tokens.parts, site.last.tokens.parts
    if query is None or key is None or first is None or not site.is_followed:
        return False
    is_run = not (query.at or first.at) and query.step == first.step == 1
    are_next = query.of == first.of and is_run and query.start == first.start + site.length
    return are_next and key.of == query.of and key.is_first and key.n == query.start + query.n


def _begins_again(site: ObservedSite, observed: ObservedCall) -> bool:
    """Return whether a call begins another pass of an attention that has run in the same forward pass.

    It is known to read none of the tokens that the attention has read, or it may be a step of a decoder. Layers that
    share a module go on with the same tokens.
    """
    if not (_is_called_anew(site, observed.place) and site.is_followed):
        return False
    tokens, is_step = observed.order.tokens, False
    is_of_another_text = site.number not in tokens.through and tokens.is_apart_from(site.last.tokens)
    if not is_of_another_text and site.kind not in OF_ONE_TEXT and not observed.are_fixed[0]:
        is_other_query = share_queries(site.last.tokens, tokens) is False
        is_step = not is_other_query and _reads_keys_again(site, observed)
    return (is_of_another_text or is_step) and site.kind == kind_of(observed)


def _is_called_anew(site: ObservedSite, place: Place) -> bool:
    """Return whether the module of an attention has been called again within a forward pass."""
    return place.is_module and site.forward == place.forward and site.call != place.call


def _reads_keys_again(site: ObservedSite, observed: ObservedCall) -> bool:
    """Return whether a single query reads the same keys as those of the current pass, which began with one as well."""
    _, _, q_length, k_length = observed.call.shape
    has_begun = site.alone is not None and (site.length == 1 or site.pass_number in site.recurrent)
    if q_length > 1 or not has_begun or k_length != site.k_length or observed.are_fixed[1] is not False:
        return False
    are_same = are_equal(site.keys, known_by(observed, k_length))
    return are_same and is_same_mask(site.seen, visible_of(observed))


def share_queries(tokens: Compared, others: Compared) -> bool | None:
    """Return whether two softmaxes over tokens of one sequence have a query in common; None: not known."""
    (query, key), (other, other_key) = tokens.parts, others.parts
    if query is None or key is None or other is None or other_key is None:
        return None
    if query.of != other.of or key.of != other_key.of:
        return None
    return not {*query.places}.isdisjoint(other.places)


def _query_of(observed: ObservedCall) -> Tensor:
    """Return the queries, or the weights where the program computes these itself."""
    return (observed.call.query if isinstance(observed.call, AttentionCall) else observed.call.given).detach()

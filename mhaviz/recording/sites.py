"""Tells the attentions of a program apart: which one has run, in which of its forward passes, of which kind.

An attention is known by its module's name; one that runs again within a forward pass, as ALBERT's layers do, counts as
another. A decoder that writes calls its attentions again for each token, with the keys of all tokens so far: these
steps are one pass.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.recording.caught import Caught
from mhaviz.recording.modules import Place
from mhaviz.records import Kind

MOST_SITES = 4096
"""So many attentions are told apart."""

MOST_REPEATS, MOST_AT_A_LINE = 256, 64
"""So many runs of one attention within a forward pass, and at one line of a program without modules, count as others:
what a forward pass is, nothing tells there."""

_CROSS = re.compile(r"cross|encoder_attn|encdec|enc_dec|encoder_decoder|multihead_attn", re.IGNORECASE)
"""In the names of modules whose keys are of other tokens than their queries."""


@dataclass
class SeenSite:
    """An attention of a program.

    Attributes:
        number: its place among all, in the order in which they first ran.
        name: the module's, or the line's.
        root: see ``Place``.
        repeat: how often it had run before within its forward pass.
        is_module: whether the name is a module's.
        kind: of its first run; "masked" once steps have joined it.
        order: its place among those of its kind.
        passes: how many it has run in.
        length: tokens that its queries have been of, in the pass that goes on.
        k_length: keys of its last run.
        keys: a number of each of these, (batch_size, k_length), by which they are known again; None: not known.
        is_reordered: whether the keys of the pass that goes on have changed between its steps.
        forward: the forward pass of its last run; see ``Place``.
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
    is_reordered: bool = False
    forward: int = -1


@dataclass(frozen=True)
class Run:
    """One run of an attention.

    Attributes:
        site: which.
        pass_number: which of its passes, counted from 0.
        first_query: where its queries begin: above 0 of a step that goes on with its pass.
        caught: what it computed with, without keys that are not there yet (of a cache that is filled bit by bit).
    """

    site: SeenSite
    pass_number: int
    first_query: int
    caught: Caught


class Sites:
    """The attentions of a program, found as they run. ``miss``: is told what is not told apart, in a line."""

    def __init__(self, miss: Callable[[str], None]) -> None:
        self._sites: dict[tuple[int, str, int], SeenSite] = {}
        self._miss = miss
        self._forward = -1
        self._repeats: dict[tuple[int, str], int] = {}
        self._joined: tuple[int, int, int] | None = None  # forward pass, queries and length of the last step

    @property
    def all(self) -> tuple[SeenSite, ...]:
        """In the order in which they first ran."""
        return tuple(self._sites.values())

    def pass_over(self, place: Place, lengths: tuple[int, int], is_wanted: Callable[[int], bool]) -> bool:
        """Count a run of so many queries and keys that begins a pass that is not wanted; whether it does.

        A run of fewer queries than keys may be a step of a pass that goes on: that is for ``run`` to tell.
        """
        q_length, k_length = lengths
        if q_length < k_length or (self._joined is not None and self._joined[0] == place.forward):
            return False
        self._begin(place)
        name = place.root, place.name
        site = self._sites.get((*name, self._repeats.get(name, 0)))
        if site is None or is_wanted(site.passes):
            return False
        self._repeats[name] = site.repeat + 1
        site.passes, site.forward = site.passes + 1, place.forward
        site.length, site.k_length, site.keys = *lengths, None
        return True

    def _begin(self, place: Place) -> None:
        if place.forward != self._forward:
            self._forward = place.forward
            self._repeats.clear()

    def run(self, place: Place, caught: Caught) -> Run | None:
        """Which attention this is; None: there are too many."""
        self._begin(place)
        name = place.root, place.name
        for repeat in range(MOST_REPEATS):  # one module may be the attention of all layers: each has a site
            site = self._sites.get((*name, repeat))
            if site is None:
                break
            if (step := self._step(site, place, caught)) is not None:
                return None if site.is_reordered else step
        repeat = self._repeats.get(name, 0)
        self._repeats[name] = repeat + 1
        site = self._sites.get((*name, repeat))
        caught = _without_unfilled(caught, caught.call.shape[2])
        if site is None:
            most = MOST_REPEATS if place.is_module else MOST_AT_A_LINE
            if repeat >= most:
                where = "in a forward pass" if place.is_module else "with no module around it"
                self._miss(f"{place.name}: runs more than {most} times {where}; the rest is left out")
                return None
            if len(self._sites) >= MOST_SITES:
                self._miss(f"{MOST_SITES:,} attentions are told apart, and those that ran later are left out")
                return None
            kind = _kind(place.name, caught)
            order = sum(other.kind == kind for other in self._sites.values())
            site = SeenSite(len(self._sites), place.name, place.root, repeat, place.is_module, kind, order)
            self._sites[*name, repeat] = site
        site.passes, site.forward = site.passes + 1, place.forward
        _, _, site.length, site.k_length = caught.call.shape
        site.keys, site.is_reordered = _known_by(caught.call), False
        return Run(site, site.passes - 1, 0, caught)

    def _step(self, site: SeenSite, place: Place, caught: Caught) -> Run | None:
        """The run as a step of the pass that goes on, if it is one."""
        _, _, q_length, k_length = caught.call.shape
        if site.forward == place.forward and q_length > 1:  # a module with two attentions, as ProphetNet's
            return None
        expected = site.length + q_length
        if not site.length:
            return None
        if site.kind == "cross":
            goes_on = self._joined == (place.forward, q_length, expected) and k_length == site.k_length
        else:
            caught = _without_unfilled(caught, expected)
            is_cut, k_length = caught.call.shape[3] < k_length, caught.call.shape[3]
            if k_length == expected:  # several queries are shown without the keys that are later than they are
                goes_on = (q_length == 1 or _sees_no_later(caught.call)) and (not is_cut or _sees_last(caught.call))
            else:
                goes_on = q_length == 1 < k_length and self._is_windowed(site, place, k_length)
        if not goes_on:
            return None
        run = Run(site, site.passes - 1, site.length, caught)
        if site.kind != "cross":
            self._look_for_changes(site, caught.call)
            site.kind, self._joined = "masked", (place.forward, q_length, expected)
        site.length, site.k_length, site.forward = expected, caught.call.shape[3], place.forward
        return run

    def _look_for_changes(self, site: SeenSite, call: AttentionCall | AttentionWeights) -> None:
        """Say so where the keys of earlier tokens are not what they were: a search with beams goes on with others."""
        before, site.keys = site.keys, _known_by(call)
        if site.is_reordered or before is None or site.keys is None or site.k_length > call.shape[3]:
            return
        now = site.keys[:, : site.k_length]
        if now.shape == before.shape and bool((now - before).abs().amax() <= _SAME_KEY * before.abs().amax()):
            return
        if call.shape[3] != site.k_length:  # of a window all keys move on
            site.is_reordered = True
            self._miss(
                f"{site.name}: drawn as far as token {site.length}, where the keys of earlier tokens changed, as in a "
                f"search with beams; record it with one beam"
            )

    def _is_windowed(self, site: SeenSite, place: Place, k_length: int) -> bool:
        """Whether one query goes on with the pass of a site whose cache has lost its first keys.

        The number of keys does not tell layers apart that share a module: then each takes one step in a forward pass.
        """
        is_next = site.forward != place.forward or (site.root, site.name, 1) not in self._sites
        return is_next and site.length > 1 and site.k_length <= k_length <= site.length


_SAME_KEY = 0.1
"""A cache that is kept in fewer bits gives keys back so much changed, of the largest, and more is another key."""


def _known_by(call: AttentionCall | AttentionWeights) -> Tensor | None:
    """The first feature of the first head's keys, (batch_size, k_length)."""
    return call.key[:, 0, :, 0].detach().float().clone() if isinstance(call, AttentionCall) else None


def _without_unfilled(caught: Caught, expected: int) -> Caught:
    """Without the keys from ``expected`` on, if no query sees them: they are places of a cache that are still empty.

    The queries are the last ones, and see no later key: of other masks keys are left as they are.
    """
    call = caught.call
    _, _, q_length, k_length = call.shape
    if expected >= k_length or expected < q_length:
        return caught
    visible = call.visible()
    if visible is None:
        return caught
    seen = visible[:1, :1].expand(1, 1, q_length, k_length)[0, 0]
    last = expected - q_length + torch.arange(q_length, device=seen.device)  # key that each query sees last
    if bool((seen & (torch.arange(k_length, device=seen.device) > last[:, None])).any()):
        return caught
    if isinstance(call, AttentionWeights):
        return replace(caught, call=replace(call, given=call.given[..., :expected]))
    mask = None if call.mask is None else call.mask[..., :expected]
    key, value = call.key[:, :, :expected], call.value[:, :, :expected]
    return replace(caught, call=replace(call, key=key, value=value, mask=mask))


def _kind(name: str, caught: Caught) -> Kind:
    call = caught.call
    _, _, q_length, k_length = call.shape
    if caught.reads_itself is False or q_length > k_length or (caught.reads_itself is None and _CROSS.search(name)):
        return "cross"
    if q_length < k_length and not _sees_no_later(call):
        return "cross"
    return "masked" if _sees_no_later(call) else "self"


def _sees_last(call: AttentionCall | AttentionWeights) -> bool:
    """Whether the last query sees the last key, as that of its own token."""
    visible = call.visible()
    return visible is None or bool(visible[:1, :, -1:, -1].any())


def _sees_no_later(call: AttentionCall | AttentionWeights) -> bool:
    """Whether no query sees a later key, queries and keys being lined up at their ends."""
    _, _, q_length, k_length = call.shape
    if isinstance(call, AttentionCall) and call.mask is None:
        return call.causal
    visible: Tensor | None = call.visible()
    if visible is None or q_length == 1:  # of a decoder that begins to write, the next step will tell
        return False
    seen = visible[:1].flatten(0, 1).any(dim=0).expand(q_length, k_length)
    return not bool(seen.triu(k_length - q_length + 1).any())

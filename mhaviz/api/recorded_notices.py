"""What is told of a recording: which attention was not seen, is not drawn, or is only drawn in part."""

from collections.abc import Iterable, Iterator, Sequence

from mhaviz.api.recorded import BEFORE_DROPOUT, RANDOM, Recorded
from mhaviz.api.recorded_layers import layers_of
from mhaviz.api.recording_options import RecordingOptions
from mhaviz.errors import counted, parameter
from mhaviz.numbering import listed_numbers, listed_runs
from mhaviz.observe.mode import Observer
from mhaviz.observe.observed_site import ObservedSite


class RecordedNotices:
    """Messages on a recording.

    Args:
        recorded: what was seen.
        observer: how it was seen.
    """

    def __init__(self, recorded: Recorded, observer: Observer) -> None:
        self._recorded, self._observer = recorded, observer
        self._options, self._log, self._sites = recorded.options, recorded.log, recorded.sites

    @property
    def missed(self) -> list[str]:
        """Messages about attention that was not observed, or lacks a head that was asked for, one line each."""
        lines = self.left_out(self._sites.all) + self._log.missed
        return [*lines, *self._with_other_keys(), *self._with_beams(), *self._without_heads()]

    @property
    def every(self) -> list[str]:
        """Messages about attention that was not observed or not kept, one line each."""
        lines = [*self.missed, *self._observer.outside]
        wanted, sizes = self._options.examples or (), self._batch_sizes
        of = self._options.examples_of
        batches = self._recorded.batches(range(len(self._sites.all)))
        if batches.mixed and wanted != (0,):
            lines.append(f"{batches.advice}; drawn is the first")
        elif most := max((size for size in sizes if len(of(size)) < size), default=0):
            kept = "the first" if wanted == (0,) else f"{len(of(most))}"
            lines.append(f"kept {kept} of up to {most:,} along the batch axis; {parameter('examples')} chooses others")
        if sizes and (beyond := [place for place in wanted if place >= max(sizes)]):
            lines.append(f"there was no example {beyond[0]:,}: the axis had {max(sizes):,} at most")
        masked: dict[str, list[str]] = {}
        for drawn in self._recorded.drawn_whole:
            for what, names in drawn.masked.items():
                masked.setdefault(what, []).extend(names)
            for name, keys in drawn.unfilled.items():
                what = f"left out {listed_runs('key', keys)}: the mask hides them from all queries"
                masked.setdefault(what, []).append(name)
        lines += [f"{_listed_names(names)}: {what}" for what, names in list(masked.items())[:_MOST_NOTED]]
        if (others := len(masked) - _MOST_NOTED) > 0:
            lines.append(f"masks leave out tokens of other examples, or do not hide some, in {others:,} more ways")
        most = self._recorded.most_passes
        if most and (late := self._options.passes.beyond(most - 1)):
            lines.append(f"there was no pass {late[0]:,}: the program made {most:,}")
        remarks = {text for drawn in self._recorded.drawn_whole for text in drawn.remarks}
        lines += [text for text in (BEFORE_DROPOUT, RANDOM) if text in remarks]
        if self._options.passes.is_first and most > 1 and self._recorded.n_maps:
            lines.append(f"drawn is the first of {most:,} forward passes; {parameter('passes')} chooses others")
        return lines

    def _with_beams(self) -> Iterator[str]:
        """Iterate over the message on attentions whose examples change places, if any do."""
        if names := list(dict.fromkeys(site.name for site in self._sites.all if site.has_moved)):
            yield (
                f"{_listed_names(names)}: examples of the batch change places between steps, as the beams of a search "
                "do; a map is of the text that its example ends with, which may not be the one that the search has "
                "chosen; mhaviz show draws that one from the attentions and beam_indices of generate, saved in a dict"
            )

    def _with_other_keys(self) -> Iterator[str]:
        """Iterate over the message on attentions with a pass whose keys do not continue those before, if any have."""
        for are_named in (False, True):
            sites = (site for site in self._sites.all if site.has_other_keys and are_named != bool(site.unnamed))
            if names := list(dict.fromkeys(site.name for site in sites)):
                why = "as after rejected drafts, which the pass before still holds, in a cache that lost or moved some"
                which = "" if are_named else ", and it is not known which tokens its keys are"
                yield (
                    f"{_listed_names(names)}: keys do not continue those of the steps before, {why}, or for another "
                    f"text; a new pass begins{which}"
                )

    def _without_heads(self) -> Iterator[str]:
        """Iterate over messages on attentions in the drawn layers that lack a head that was asked for."""
        wanted, layers, heads = self._options.heads or (), self._options.layers, dict[int, set[int]]()
        of_site = layers_of(self._sites)
        for site in self._recorded.shown:
            if (taken := self._recorded.heads_of(site)) and (layers is None or of_site[site.number] in layers):
                heads.setdefault(site.layer_of.number, set()).update(taken)
        for number, there in heads.items():
            if lacking := [head for head in wanted if head not in there]:
                has = f"{self._sites.all[number].full_name}: has {listed_numbers('head', sorted(there))}"
                yield f"{has}, not {', '.join(map(str, lacking))}" + "; not drawn" * there.isdisjoint(wanted)

    def left_out(self, sites: Iterable[ObservedSite]) -> list[str]:
        """Return why those of these attentions are not drawn that are left out, and whose passes were to be drawn."""
        why = self._log.left_out
        wanted = (site for site in sites if site.number in why and self._options.wants(site))
        asked = (site for site in wanted if self._options.passes.begins_by(site.passes - 1))
        return [*dict.fromkeys(f"{site.name}: {why[site.number]}; not shown" for site in asked)]

    @property
    def _batch_sizes(self) -> list[int]:
        """Sizes of the largest drawn batches."""
        return [drawn.batch_size for drawn in self._recorded.drawn_whole]

    def why_empty(self) -> str:
        """Return why no map was recorded."""
        seen = f"saw {counted(self._observer.operations, 'operation')} and "
        if self._sites.all:
            which = listed_attentions(self._sites.all)
            # Why an attention that has run is not drawn says more than what is noted on how it was read.
            reasons = (*self._recorded.reasons.values(), *self.missed)
            absent = self._what_is_not_there()
            why = absent or next(iter(reasons), "")
            return f"{seen}{which}, and none that was {'asked for' if absent else 'drawn'}{': ' if why else ''}{why}"
        forked = "; processes that were forked are not followed" * self._observer.has_forked
        unmet = f"no softmax of queries times keys was seen to be multiplied by values{forked}"
        missed = next(iter([*self.missed, *self._observer.outside]), unmet)
        return f"{seen}no attention; {missed}"

    def _what_is_not_there(self) -> str:
        """Return a message on the option that fits nothing that has run; "" if there is no such option."""
        options = self._options
        if unmatched := without_match(options, self._sites.all):
            return unmatched
        last = self._recorded.most_passes - 1
        if not options.passes.begins_by(last):
            return f"{parameter('passes')}: expected {f'some of 0 to {last:,}' if last else 'the only pass, 0'}"
        most = max(self._batch_sizes, default=0)
        if options.examples and most and min(options.examples) >= most:
            return f"{parameter('examples')}: expected some of 0 to {most - 1:,}"
        return ""


def listed_attentions(sites: Sequence[ObservedSite]) -> str:
    """Return the number of attentions, and the names of the first: "4 attentions (a, b, c, …)"."""
    names = ", ".join(site.full_name for site in sites[:3]) + ", …" * (len(sites) > 3)
    return f"{counted(len(sites), 'attention')} ({names})"


def without_match(options: RecordingOptions, sites: Iterable[ObservedSite]) -> str:
    """Return a message on patterns that match the name of none of these attentions; "" if they match some."""
    if any(map(options.wants, sites)):
        return ""
    return f"{parameter('module')}: expected a pattern of these names, got {', '.join(options.patterns or ())}"


_MOST_NOTED = 4
"""Number of notices on masks that are given one by one."""


def _listed_names(names: Sequence[str]) -> str:
    """Return the name of an attention, or the first name and how many there are."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more"

"""What a recording comes to: attention maps, a rollout, statistics of heads."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from torch import Tensor

from mhaviz.analyses.recorded_maps import RecordedMap
from mhaviz.analyses.rollout import rollout_of_maps
from mhaviz.api.joined_maps import with_heads_joined, with_windows_joined
from mhaviz.api.recorded import Recorded
from mhaviz.api.recorded_layers import layers_of, number_in
from mhaviz.api.recorded_notices import RecordedNotices
from mhaviz.api.recorded_relevance import relevance_of
from mhaviz.api.recorded_rows import as_rows, as_steps, named
from mhaviz.api.recorded_tokens import TokenNames, rows_of
from mhaviz.errors import ArgumentError, MhavizError, counted, parameter
from mhaviz.inputs.tokens import KIND_NAMES, Kind, Tokens
from mhaviz.numbering import listed_numbers
from mhaviz.observe.observed_site import ObservedSite
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.head_statistics import HeadStatistics
from mhaviz.results.relevance import Relevance
from mhaviz.results.result import Source


class RecordedAttention:
    """Reads what was recorded so far. Only messages on what cannot be named are added.

    Args:
        recorded: what was seen.
        notices: messages on it.
        names: names of the tokens.
        program: name of the program.
    """

    def __init__(self, recorded: Recorded, notices: RecordedNotices, names: TokenNames, program: str) -> None:
        self._recorded, self._notices, self._names, self._program = recorded, notices, names, program
        self._options, self._sites = recorded.options, recorded.sites

    @property
    def attention(self) -> Attention:
        """See ``Recording.attention``."""
        attention = self._attention_of(self._options.layers)
        return attention if self._options.heads is None else attention.select(self._options.heads)

    def _attention_of(self, wanted: tuple[int, ...] | None) -> Attention:
        """Return all heads of these layers; None: of all layers."""
        if self._recorded.n_maps == 0:
            raise MhavizError(self._notices.why_empty())
        layers = layers_of(self._sites)
        found = [one for one in self._drawn_maps() if wanted is None or layers[one.number] in wanted]
        if not found:
            there = (layers[one.number] for one in self._drawn_maps())
            raise self._no_such_layer(layers, there, "its passes are others than were chosen")
        found, remark = self._of_one_batch(found)
        has_passes = len({one.pass_number for one in found}) > 1
        has_examples = any(one.example for one in found)
        known: dict[Tokens, Tokens] = {}
        of_maps = dict.fromkeys((one.number, self._options.passes.keeps(one.pass_number)) for one in found)
        remarks = {text: None for key in of_maps for text in self._recorded.drawn[key].remarks}

        def names_of(tokens: Tokens) -> Tokens:
            if tokens not in known:
                known[tokens] = self._names.name(tokens)
            return known[tokens]

        maps = []
        for number, pass_number, one, _, _, m in found:
            layer, site = layers[number], self._sites.all[number]
            is_unplaced = pass_number in site.unplaced
            kind: Kind = "other" if site.is_block or is_unplaced else _kind_of(m, site.kind_in(pass_number))
            queries, keys = named((m.rows.tokens, m.columns.tokens), kind, names_of)
            if kind != "masked":  # a causal mask orders tokens, not examples of a batch or constants
                own, others = zip(site.last.tokens.may_be_batch, site.may_be_fixed, strict=True)
                if pass_number in site.recurrent:
                    queries = as_steps(queries, remarks)
                queries = as_rows(queries, *own, remarks) if queries == m.rows.tokens else queries
                keys = as_rows(keys, *others, remarks) if keys == m.columns.tokens else keys
            is_unnamed = pass_number in site.unnamed
            if site.is_block or is_unnamed:
                queries = rows_of("row", 0, len(queries))
            if is_unnamed:
                keys = rows_of("row", 0, len(keys))
            maps.append(
                replace(
                    m,
                    rows=replace(m.rows, tokens=queries),
                    columns=replace(m.columns, tokens=keys),
                    kind=kind,
                    layer=layer,
                    heads=self._recorded.heads_of(site) if site.heads_of else m.heads,
                    module=(site.joins or site).full_name,
                    sentence=one if has_examples else None,
                    pass_number=pass_number if has_passes or not self._options.passes.is_first else None,
                )
            )
        self._names.finish()
        source = self._source(*remarks, self._names.remark, remark, which=self._which_of_several(found))
        return Attention(source, with_heads_joined(with_windows_joined(maps, found)))

    def _drawn_maps(self) -> list[RecordedMap]:
        """Return the maps of the examples that are drawn, and not those of beams from which others may go on."""
        maps = self._recorded.maps.result(lambda number: not self._recorded.is_left_out(number))
        return [one for one in maps if one.example in self._options.examples_of(one.batch_size)]

    def _of_one_batch(self, found: list[RecordedMap]) -> tuple[list[RecordedMap], str]:
        """Keep only the first example of passes whose batch axes differ in length: which others match is not known.

        Returns:
            These maps, and a remark on them.

        Raises:
            MhavizError: no map is left.
        """
        batches = self._recorded.batches({m.number for m in found})
        kept = [m for m in found if m.example == 0 or m.pass_number not in batches.mixed]
        if not kept:
            raise MhavizError(batches.advice)
        return kept, batches.why if batches.mixed else batches.hold

    def _require_all(self, what: str) -> None:
        """Raise ArgumentError unless all attention was observed; ``what``: what goes through it."""
        if missed := self._notices.missed:
            raise ArgumentError(f"{what} goes through all attention of a program, and misses some: {missed[0]}")

    def _require_one_stack(self, what: str) -> None:
        """Raise ArgumentError unless all attention was observed, and each layer is known to read the one before it."""
        self._require_all(what)
        sites = [site for site in self._sites.all if site.kind != "cross" and site.joins is None]
        of_other_kind = {one.number: other for one, other in self._sites.others_read()}
        last: dict[Kind, ObservedSite] = {}
        for site in sites:
            before, last[site.kind] = last.get(site.kind), site
            if before is not None and not site.goes_on_from(before):
                raise ArgumentError(
                    f"{what} goes through layers that read one another, and of {before.full_name} and "
                    f"{site.full_name} that is not known, as of two towers; record the one or the other"
                )
            if (other := of_other_kind.get(site.number)) is not None:
                raise ArgumentError(
                    f"{what} goes through layers of one kind, and {site.full_name}, {KIND_NAMES[site.kind]}, reads "
                    f"what {other.full_name} has made, {KIND_NAMES[other.kind]}"
                )

    @property
    def rollout(self) -> Attention:
        """See ``Recording.rollout``."""
        self._require_one_stack("a rollout")
        rolled, wanted = rollout_of_maps(self._attention_of(None)), self._options.layers
        maps = tuple(m for m in rolled.maps if wanted is None or m.layer in wanted)
        if not maps:
            there = (m.layer for m in rolled.maps if m.layer is not None)
            why = "a rollout goes through no source-target attention"
            raise self._no_such_layer(layers_of(self._sites), there, why)
        return replace(rolled, maps=maps)

    def relevance(self, y: Tensor, name: str) -> Relevance:
        """See ``Recording.relevance``."""
        if any(site.kind == "cross" for site in self._sites.all):
            self._require_all("relevance")
        else:
            self._require_one_stack("relevance")
        return relevance_of(self._recorded, self._attention_of(None), y, name)

    @property
    def head_statistics(self) -> HeadStatistics:
        """See ``Recording.head_statistics``."""
        study = self._recorded.study
        if study is None:
            raise ArgumentError("statistics are computed while a program runs; write mhaviz.record(…, statistics=True)")
        whole = {site.number for site in self._recorded.shown if not site.heads_of}
        if not study.sums or whole.isdisjoint(self._recorded.heads):
            raise MhavizError(self._notices.why_empty())
        found, layers = study.result(self._source_of_statistics()), layers_of(self._sites)
        kinds = [one.select(tuple(number for number in one.layers if number in whole)) for one in found.kinds]
        kinds = [replace(one, layers=tuple(layers[number] for number in one.layers)) for one in kinds]
        there = [layer for one in kinds for layer in one.layers]
        if not there:
            raise MhavizError(self._notices.why_empty())
        if self._options.layers is not None:
            kinds = [chosen for one in kinds if (chosen := one.select(self._options.layers)).layers]
        if not kinds:
            raise self._no_such_layer(layers, there, "statistics count no steps of a decoder and no single tokens")
        return replace(found, kinds=tuple(kinds), is_recorded=True)

    def _no_such_layer(self, layers: dict[int, int], there: Iterable[int], other_reason: str) -> MhavizError:
        """Return the error for layers that were asked for, and that have not run or are not shown.

        Args:
            layers: layer of each attention.
            there: layers that are shown.
            other_reason: why those that have run are not, if no message says it.
        """
        wanted = self._options.layers or ()
        ran = [site for site in self._sites.all if self._options.wants(site)]
        asked = [site for site in ran if layers[site.number] in wanted]
        text = ", ".join(map(str, wanted))
        if not asked:
            has = listed_numbers("layer", sorted({layers[site.number] for site in ran}))
            return ArgumentError(f"{parameter('layer')}: there is no layer {text}; the recording has {has}")
        reasons = [self._recorded.reasons[site.number] for site in asked if site.number in self._recorded.reasons]
        reasons += self._notices.left_out(asked)
        shown = listed_numbers("layer", sorted({*there}))
        return MhavizError(f"{parameter('layer')}: expected {shown}, got {text}; {next(iter(reasons), other_reason)}")

    def _source(self, *remarks: str, which: Iterable[str] = ()) -> Source:
        shown: dict[int, set[int]] = {}
        for site in self._recorded.shown:
            if heads := self._recorded.heads_of(site):
                shown.setdefault(site.layer_of.number, set()).update(heads)
        outside = [number for number in shown if not self._sites.all[number].is_module]
        if len(outside) > 1:
            why = "what runs outside of modules is counted by its calls, whether these are layers or parts of one"
            remarks = (*remarks, why)
        layers = layers_of(self._sites)
        if any(number_in(site) not in (None, layers[site.number]) for site in self._sites.all):
            remarks = (*remarks, "layers are numbered as they ran, and not as in the names of modules")
        n_heads = list(map(len, shown.values()))
        several = f"{min(n_heads)} to {max(n_heads)}" if min(n_heads) < max(n_heads) else f"{n_heads[0]}"
        count, what = len(shown), "call" if len(outside) == len(shown) > 1 else "attention"
        parts = [
            f"recorded: {self._program or 'a program'}",
            f"{counted(count, what)} of {several} head{'s' * (several != '1')}",
            *which,
            self._recorded.device,
        ]
        details = {
            "kind": "recording",
            "program": self._program,
            "n_attentions": count,
            "n_heads": max(n_heads),
            "device": self._recorded.device,
        }
        if missed := self._notices.missed:
            details["notices"] = missed
        names = list(dict.fromkeys(line.partition(": ")[0] for line in missed if re.search("not (drawn|shown)", line)))
        if names:
            wanted = self._options.heads
            drawn = {
                self._sites.all[number].full_name
                for number in shown
                if wanted is None or not {*wanted}.isdisjoint(shown[number])
            }
            lacking = [f"more of {name}" if name in drawn else name for name in names[:3]]
            remarks = (*remarks, f"not drawn: {', '.join(lacking)}{', …' * (len(names) > 3)}")
        return Source(", ".join(parts), details, "; ".join(filter(None, remarks)))

    def _which_of_several(self, shown: Sequence[RecordedMap]) -> Iterator[str]:
        """Iterate over "the first of 61 passes" and "the first of 16 examples", where no others were chosen."""
        n_passes = max(self._sites.all[one.number].passes for one in shown)
        if self._options.passes.is_first and n_passes > 1:
            yield f"the first of {n_passes:,} passes"
        batch_size = max(one.batch_size for one in shown)
        if self._options.examples == (0,) and batch_size > 1:
            yield f"the first of {batch_size:,} examples"

    def _source_of_statistics(self) -> Source:
        """Return the source of statistics, with the passes that were averaged, and what they leave out."""
        source, last = self._source(*self._recorded.remarks), self._recorded.most_passes - 1
        passes = f"passes 0 to {last:,}" if last else "pass 0"
        counts = self._recorded.counts
        padded = max(counts.padded.values(), default=0)
        remark = f"{padded:,} positions that masks tell to be padding do not count"
        if not padded:
            remark = "no mask tells which queries are padding: all of a batch count" if counts.has_batches else ""
        most = max(counts.steps or counts.queries, key=lambda number: counts.steps[number], default=0)
        queries, steps = counts.queries[most], counts.steps[most]
        queries_text = f"{queries:,} queries of whole inputs count, and not {steps:,} of a decoder's steps"
        of_steps = f"of {self._sites.all[most].full_name} {queries_text}" if steps else ""
        return Source(
            f"{source.footnote}, {passes}",
            {**source.details, "passes": [0, last], "padded": padded, "queries": queries, "queries_of_steps": steps},
            "; ".join(filter(None, [source.remark, remark, of_steps])),
        )


def _kind_of(m: AttentionMap, kind: Kind) -> Kind:
    """Return the kind of a map of an attention of this kind, which passes with other masks may have as well."""
    if kind != "masked":
        return kind
    as_masked = replace(m, kind=kind)
    beyond, hidden = as_masked.weighed_beyond, as_masked.hidden
    return "self" if beyond is not None and hidden is not None and beyond.any() and not hidden.any() else kind

"""``mhaviz.record``: the attention of any PyTorch program that runs inside it."""

import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakMethod

import numpy as np
import torch

from mhaviz.analyses.head_statistics import HeadStudy
from mhaviz.analyses.recorded_maps import RecordedMap, RecordedMaps
from mhaviz.analyses.rollout import rollout_of_maps
from mhaviz.api.long_inputs import allowed_bytes
from mhaviz.api.recorded_patches import windows_of
from mhaviz.api.recorded_tokens import TokenNames, rows_of
from mhaviz.api.recording_options import RecordingOptions
from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.model import OnAttention, Site, SiteCall, show
from mhaviz.attention.padding import Padding, padding_of
from mhaviz.errors import ArgumentError, MhavizError, counted, parameter
from mhaviz.inputs.tokens import KIND_NAMES, OF_ONE_TEXT, Kind, Tokens
from mhaviz.numbering import Numbers, listed_numbers, listed_runs
from mhaviz.observe.compared import Compared
from mhaviz.observe.handlers import VisitorError
from mhaviz.observe.mode import Watch
from mhaviz.observe.modules import Place
from mhaviz.observe.observed import ObservedCall, example
from mhaviz.observe.places import Part
from mhaviz.observe.sites import MOST_AT_A_LINE, ObservedSite, Sites, share_queries
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.head_statistics import HeadStatistics
from mhaviz.results.result import Source

if TYPE_CHECKING:
    from torch import nn


def record(
    model: "nn.Module | None" = None,
    *,
    on_attention: OnAttention | None = None,
    module: str | Sequence[str] | None = None,
    layer: Numbers = None,
    head: Numbers = None,
    passes: "int | str | Iterable[int] | None" = None,
    examples: int | Sequence[int] | Literal["all"] = 0,
    pool: Literal["mass", "max"] | None = None,
    size: int | None = None,
    tokens: Sequence[str] | None = None,
    grid: tuple[int, int] | tuple[int, int, int] | None = None,
    statistics: bool = False,
    page: bool = False,
    program: str = "",
    on_notice: Callable[[str], None] | None = None,
) -> "Recording":
    """Record the attention of a PyTorch program without changing its code.

        >>> model = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
        >>> with mhaviz.record(model) as recording:
        ...     output = model(torch.randn(1, 5, 8))
        >>> recording.attention.save("page.html")

    Attention is observed in ``F.scaled_dot_product_attention``, the layers of ``torch.nn``, ``flex_attention``, and
    where it is written out as product → softmax → product. The program computes the same bits as without a recording,
    except for code under ``torch.compile``: it runs uncompiled, and may differ in the last digits. Code compiled by
    ``torch.jit``, and threads that started before the recording, are not observed, and a notice says so. Attention
    computed with NumPy is not observed either, without a notice. Weights of a program in training are those before
    dropout, as in inference; random masks of its own that are no dropout are drawn as they met the values, and a notice
    says so. A profile by ``torch.profiler`` leaves out the operators of the recorder, but not the time and memory that
    they take, their kernels on a GPU, or Python's stack.

    Args:
        model: module whose attention is recorded, and at which names begin; None: all attention that runs.
        on_attention: called with each attention of the recorded passes as it runs, with all examples of the batch. The
            tensors are the program's own: do not change or keep them.
        module: pattern, or several, for the names of the attentions to record, such as "blocks.*.attn"; None: all.
            Weights over fixed rows, such as those of a router of experts, are recorded only if a pattern names them.
        layer, head: one number or several, counted from 0, that are drawn; None: all.
        passes: forward passes to record, counted from 0 for each attention: a number, several, or a text such as
            "0,100,200-" or "0,last"; None: the first pass of each attention. All steps in which a decoder writes a
            text count as one pass, also those of a recurrent decoder, each of whose queries is seen to be made of what
            the step before gave. A second text of a forward pass, as of a siamese encoder, is another pass.
        examples: examples of a batch that are drawn: a number, several, or "all". Those of a search with up to 16 beams
            are its beams: each has the map of the text that it ends with.
        pool, size: how maps of more than ``size`` tokens are pooled; see ``attend``.
        tokens: names of the tokens; None: from the only transformers tokenizer in memory, if token ids were looked up
            in a table of about its size; else positions. Names are "row 0", "row 1", … where it is not clear that these
            are tokens: they may be examples of a batch, or constants of a module.
        grid: rows and columns of an image's patches, or these and the position of the first; None: as the program has
            made them of an image.
        statistics: compute ``head_statistics`` as well, over all passes and all examples.
        page: keep queries and keys for a page for the browser; see ``attend``.
        program: name of what was recorded, for pictures; "": the class of the model.
        on_notice: called at the end of the recording, with one line for each attention that was not observed.

    Raises:
        ArgumentError: an argument is invalid.
    """
    chosen = RecordingOptions(module, layer, head, passes, examples, pool, size, tokens, grid, page)
    return Recording(model, chosen, on_attention, statistics, program, on_notice)


@dataclass
class _Drawn:
    """What is told of the passes of an attention that are drawn.

    Attributes:
        pass_number: of the latest.
        batch_size: of the largest batch.
        remarks: on their maps.
        masked: names of the attentions, with their passes, by what masks do to some tokens of these maps.
    """

    pass_number: int
    batch_size: int = 0
    remarks: dict[str, None] = field(default_factory=dict)
    masked: dict[str, list[str]] = field(default_factory=dict)


class Recording(ContextDecorator):
    """A recording of attention, as ``mhaviz.record`` returns it: a context manager, and a decorator of functions.

    Entering it again continues the recording. ``attention`` is available as soon as one attention has run.

    Examples:
        >>> layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
        >>> x = torch.randn(1, 5, 8)
        >>> with mhaviz.record(layer) as recording:
        ...     output, _ = layer(x, x, x)
        >>> recording.attention[0].weights.shape  # (n_heads, q_length, k_length)
        (2, 5, 5)
    """

    def __init__(
        self,
        model: "nn.Module | None",
        options: RecordingOptions,
        on_attention: OnAttention | None,
        statistics: bool,
        program: str,
        on_notice: Callable[[str], None] | None,
    ) -> None:
        if model is not None and not isinstance(model, torch.nn.Module):
            raise ArgumentError(
                f"expected a torch.nn.Module to record, or nothing, got {type(model).__name__}; to record all "
                "that runs in a function, write @mhaviz.record() over it"
            )
        self._options, self._on_attention, self._on_notice = options, on_attention, on_notice
        self._program = program or (type(model).__name__ if model is not None else "")
        on_observed, is_wanted = _weakly(self._on_observed), _weakly(self._is_wanted)
        self._watch = Watch(on_observed, model, is_wanted, options.names, _weakly(self._on_weighed))
        self._log = self._watch.log
        self._sites = Sites(self._log, _weakly(self._is_drawn))
        self._names = TokenNames(self._watch.inputs, options.tokens, options.grid, self._log.miss)
        self._maps = RecordedMaps(options.pooling, options.page)
        self._study = HeadStudy() if statistics else None
        self._counted: Counter[int] = Counter()  # examples, by the number of the attention
        self._padded: Counter[int] = Counter()  # padding queries, likewise
        self._padded_tokens: deque[tuple[Part, torch.Tensor]] = deque(maxlen=16)  # of the last masks: False for padding
        self._queries: Counter[int] = Counter()  # queries that count, likewise
        self._hidden: tuple[int, list[tuple[ObservedSite, Compared, torch.Tensor | None]]] = 0, []  # masks of a call
        self._steps: Counter[int] = Counter()  # queries of a decoder's steps, which do not count
        self._has_batches = False
        self._most_bytes = allowed_bytes(torch.device("cpu"))
        self._heads: dict[int, tuple[int, ...]] = {}  # by the number of the attention
        self._device = "cpu"
        self._remarks: dict[str, None] = {}  # on all passes
        self._drawn: dict[tuple[int, bool], _Drawn] = {}  # by attention, and whether its passes stay: see ``_begin``
        self._reasons: dict[int, str] = {}  # why an attention is not shown, at first; see ``_not_shown``
        self._told: set[str] = set()
        self._entered, self._lock = threading.local(), threading.RLock()  # threads wait for one another

    def __enter__(self) -> "Recording":
        watching = self._watch.watching()
        watching.__enter__()
        _open.append(self)  # whose callbacks do not keep it alive
        vars(self._entered).setdefault("stack", []).append(watching)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entered.stack.pop().__exit__(kind, error, traceback)
        del _open[next(i for i, one in enumerate(_open) if one is self)]
        if self._on_notice is not None:
            for line in self.notices:
                if line not in self._told:
                    self._told.add(line)
                    self._on_notice(line)
        if isinstance(error, VisitorError):
            raise error.raised from None

    def __repr__(self) -> str:
        return f"<mhaviz Recording: {len(self._sites.all)} attentions, {self._n_maps} maps>"

    @property
    def is_empty(self) -> bool:
        """Whether no map has been recorded."""
        return self._n_maps == 0

    @property
    def _n_maps(self) -> int:
        return sum(number not in self._log.left_out for number in self._maps.numbers)

    @property
    def notices(self) -> list[str]:
        """Messages about attention that was not observed or not kept, one line each."""
        lines = [*self.missed, *self._watch.outside]
        wanted, sizes = self._options.examples or (), self._batch_sizes
        if most := max(filter(self._leaves_out, sizes), default=0):
            kept = "the first" if wanted == (0,) else f"{len(self._examples_of(most))}"
            lines.append(f"kept {kept} of up to {most:,} along the batch axis; {parameter('examples')} chooses others")
        if sizes and (beyond := [place for place in wanted if place >= max(sizes)]):
            lines.append(f"there was no example {beyond[0]:,}: the axis had {max(sizes):,} at most")
        masked: dict[str, list[str]] = {}
        for one in self._drawn_whole:
            for what, names in one.masked.items():
                masked.setdefault(what, []).extend(names)
        lines += [f"{_listed_names(names)}: {what}" for what, names in list(masked.items())[:_MOST_NOTED]]
        if (others := len(masked) - _MOST_NOTED) > 0:
            lines.append(f"masks leave out tokens of other examples, or do not hide some, in {others:,} more ways")
        most = self._most_passes
        if most and (late := self._options.passes.beyond(most - 1)):
            lines.append(f"there was no pass {late[0]:,}: the program made {most:,}")
        remarks = {text for drawn in self._drawn_whole for text in drawn.remarks}
        lines += [text for text in (_BEFORE_DROPOUT, _RANDOM) if text in remarks]
        if self._options.passes.is_first and most > 1 and not self.is_empty:
            lines.append(f"drawn is the first of {most:,} forward passes; {parameter('passes')} chooses others")
        return lines

    @property
    def _drawn_whole(self) -> list["_Drawn"]:
        """What is told of attentions that are drawn, and are no parts of others."""
        return [drawn for (number, _), drawn in self._drawn.items() if number not in self._log.left_out]

    @property
    def _batch_sizes(self) -> list[int]:
        """Sizes of the largest drawn batches."""
        return [drawn.batch_size for drawn in self._drawn_whole]

    def _leaves_out(self, batch_size: int) -> bool:
        """Return whether some examples of a batch are not drawn."""
        return len(self._examples_of(batch_size)) < batch_size

    def _examples_of(self, batch_size: int) -> Sequence[int]:
        """Return the examples of a batch that are drawn."""
        wanted = self._options.examples
        return range(batch_size) if wanted is None else [place for place in wanted if place < batch_size]

    @property
    def _most_passes(self) -> int:
        """Number of passes of the attention that ran most often, among those that are recorded."""
        return max((site.passes for site in self._sites.all if self._options.wants(site)), default=0)

    @property
    def missed(self) -> list[str]:
        """Messages about attention that was not observed, or lacks a head that was asked for, one line each."""
        lines = self._left_out(self._sites.all) + self._log.missed
        return [*lines, *self._with_other_keys(), *self._with_beams(), *self._without_heads()]

    def _is_shown(self, site: ObservedSite) -> bool:
        return site.number not in self._log.left_out

    def _left_out(self, sites: Iterable[ObservedSite]) -> list[str]:
        """Return why those of these attentions are not drawn that are left out, and whose passes were to be drawn."""
        last = ((site, site.passes - 1) for site in sites if not self._is_shown(site) and self._options.wants(site))
        asked = (site for site, last_pass in last if self._options.passes.begins_by(last_pass))
        return [*dict.fromkeys(f"{site.name}: {self._log.left_out[site.number]}; not shown" for site in asked)]

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
        if names := list(dict.fromkeys(site.name for site in self._sites.all if site.has_other_keys)):
            yield (
                f"{_listed_names(names)}: keys do not continue those of the steps before, as after rejected drafts, "
                "which the pass before still holds, in a cache that has lost or moved some, or for another text; a new "
                "pass begins, and it is not known which tokens its keys are"
            )

    def _without_heads(self) -> Iterator[str]:
        """Iterate over messages on attentions in the drawn layers that lack a head that was asked for."""
        wanted, layers, heads = self._options.heads or (), self._layers(), dict[int, set[int]]()
        for number, own in self._heads.items():
            site = self._sites.all[number]
            if self._is_shown(site) and (self._options.layers is None or layers[number] in self._options.layers):
                heads.setdefault(site.layer_of.number, set()).update(own)
        for number, there in heads.items():
            if lacking := [head for head in wanted if head not in there]:
                has = f"{self._sites.all[number].full_name}: has {listed_numbers('head', sorted(there))}"
                yield f"{has}, not {', '.join(map(str, lacking))}" + "; not drawn" * there.isdisjoint(wanted)

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of the attentions that have run, in the order in which they first ran."""
        return tuple(site.full_name for site in self._sites.all)

    @property
    def attention(self) -> Attention:
        """Attention maps of the program so far, one attention after the other.

        Raises:
            ArgumentError: no such layer or head was recorded.
            MhavizError: no attention was recorded, or none of the layer could be drawn.
        """
        attention = self._attention_of(self._options.layers)
        return attention if self._options.heads is None else attention.select(self._options.heads)

    def _attention_of(self, wanted: tuple[int, ...] | None) -> Attention:
        """Return all heads of these layers; None: of all layers."""
        if self.is_empty:
            raise MhavizError(self._why_empty())
        layers = self._layers()
        found = [one for one in self._drawn_maps() if wanted is None or layers[one.number] in wanted]
        if not found:
            there = (layers[one.number] for one in self._drawn_maps())
            raise self._no_such_layer(layers, there, "its passes are others than were chosen")
        found, remark = self._of_one_batch(found)
        has_passes = len({one.pass_number for one in found}) > 1
        has_examples = any(one.example for one in found)
        named: dict[Tokens, Tokens] = {}
        of_maps = dict.fromkeys((one.number, self._options.passes.keeps(one.pass_number)) for one in found)
        remarks = {text: None for key in of_maps for text in self._drawn[key].remarks}

        def names_of(tokens: Tokens) -> Tokens:
            if tokens not in named:
                named[tokens] = self._names.name(tokens)
            return named[tokens]

        maps = []
        for number, pass_number, one, _, _, m in found:
            layer, site = layers[number], self._sites.all[number]
            is_unplaced = pass_number in site.unplaced
            kind: Kind = "other" if site.is_block or is_unplaced else _kind_of(m, site.kind)
            queries, keys = _named((m.rows.tokens, m.columns.tokens), kind, names_of)
            if kind != "masked":  # a causal mask orders tokens, not examples of a batch or constants
                own, others = zip(site.last.tokens.may_be_batch, site.may_be_fixed, strict=True)
                if pass_number in site.recurrent:
                    queries = _as_steps(queries, remarks)
                queries = _as_rows(queries, *own, remarks) if queries == m.rows.tokens else queries
                keys = _as_rows(keys, *others, remarks) if keys == m.columns.tokens else keys
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
                    module=(site.joins or site).full_name,
                    sentence=one if has_examples else None,
                    pass_number=pass_number if has_passes or not self._options.passes.is_first else None,
                )
            )
        self._names.finish()
        source = self._source(*remarks, self._names.remark, remark, which=self._which_of_several(found))
        return Attention(source, _with_heads_joined(_with_windows_joined(maps, found)))

    def _drawn_maps(self) -> list[RecordedMap]:
        """Return the maps of the examples that are drawn, and not those of beams from which others may go on."""
        maps = self._maps.result(lambda number: number not in self._log.left_out)
        return [one for one in maps if one.example in self._examples_of(one.batch_size)]

    def _of_one_batch(self, found: list[RecordedMap]) -> tuple[list[RecordedMap], str]:
        """Keep only the first example of passes whose batch axes differ in length: which others match is not known.

        Returns:
            These maps, and a remark on them.

        Raises:
            MhavizError: no map is left.
        """
        sizes: dict[int, dict[int, str]] = {}
        for one in found:
            of_pass = sizes.setdefault(one.pass_number, {})
            of_pass.setdefault(one.batch_size, self._sites.all[one.number].full_name)
        lengths = next((names for names in sizes.values() if len(names) > 1), {})
        if not lengths:
            return found, ""
        hold = f"batch axes hold {' and '.join(f'{size:,} ({name})' for size, name in lengths.items())}"
        again = {site.name for site in self._sites.all if site.repeat}  # in a loop over the batch, there may be 1 each
        several = {number: {n for n, name in of.items() if n > 1 or name in again} for number, of in sizes.items()}
        mixed = {pass_number for pass_number, lengths in several.items() if len(lengths) > 1}
        kept = [one for one in found if one.example == 0 or one.pass_number not in mixed]
        why = f"{hold}, and which of them match is not known"
        advice = f"{why}; {parameter('module')} chooses those of one length"
        if not kept:
            raise MhavizError(advice)
        if len(kept) < len(found):
            self._log.miss(f"{advice}; drawn is the first")
        return kept, why if mixed else hold

    def require_rollout(self) -> None:
        """Raise ArgumentError unless all modules and all heads are recorded, as a rollout goes through all."""
        chosen = {"module": self._options.patterns, "head": self._options.heads}
        if unheeded := [name for name, one in chosen.items() if one is not None]:
            raise ArgumentError(
                f"a rollout goes through all modules and all heads; leave out {', '.join(map(parameter, unheeded))}"
            )

    def _require_one_stack(self) -> None:
        """Raise ArgumentError unless all attention was observed, and each layer is known to read the one before it."""
        if self.missed:
            raise ArgumentError(f"a rollout goes through all attention of a program, and misses some: {self.missed[0]}")
        sites = [site for site in self._sites.all if site.kind != "cross" and site.joins is None]
        of_other_kind = {one.number: other for one, other in self._sites.others_read()}
        last: dict[Kind, ObservedSite] = {}
        for site in sites:
            before, last[site.kind] = last.get(site.kind), site
            if before is not None and not site.goes_on_from(before):
                raise ArgumentError(
                    f"a rollout goes through layers that read one another, and of {before.full_name} and "
                    f"{site.full_name} that is not known, as of two towers; record the one or the other"
                )
            if (other := of_other_kind.get(site.number)) is not None:
                raise ArgumentError(
                    f"a rollout goes through layers of one kind, and {site.full_name}, {KIND_NAMES[site.kind]}, reads "
                    f"what {other.full_name} has made, {KIND_NAMES[other.kind]}"
                )

    @property
    def rollout(self) -> Attention:
        """Attention rollout up to each layer (Abnar and Zuidema 2020, arXiv 2005.00928).

        Raises:
            ArgumentError: modules or heads were chosen, maps are pooled, all attention is cross attention, or the
                layers are not known to be one stack of one kind and length.
            MhavizError: as ``attention``.
        """
        self.require_rollout()
        self._require_one_stack()
        rolled, wanted = rollout_of_maps(self._attention_of(None)), self._options.layers
        maps = tuple(m for m in rolled.maps if wanted is None or m.layer in wanted)
        if not maps:
            there = (m.layer for m in rolled.maps if m.layer is not None)
            raise self._no_such_layer(self._layers(), there, "a rollout goes through no source-target attention")
        return replace(rolled, maps=maps)

    @property
    def head_statistics(self) -> HeadStatistics:
        """Statistics of where each head looks, averaged over all passes and examples.

        They leave out the steps of a decoder that writes, inputs of a single token, and padding, which is read from the
        mask of each example.

        Raises:
            ArgumentError: the recording was made without ``statistics``, or there is no such layer.
            MhavizError: no attention was recorded, or none that statistics count.
        """
        if self._study is None:
            raise ArgumentError("statistics are computed while a program runs; write mhaviz.record(…, statistics=True)")
        whole = {site.number for site in self._sites.all if self._is_shown(site) and not site.heads_of}
        if not self._study.sums or whole.isdisjoint(self._heads):
            raise MhavizError(self._why_empty())
        found, layers = self._study.result(self._source_of_statistics()), self._layers()
        kinds = [one.select(tuple(number for number in one.layers if number in whole)) for one in found.kinds]
        kinds = [replace(one, layers=tuple(layers[number] for number in one.layers)) for one in kinds]
        there = [layer for one in kinds for layer in one.layers]
        if not there:
            raise MhavizError(self._why_empty())
        if self._options.layers is not None:
            kinds = [chosen for one in kinds if (chosen := one.select(self._options.layers)).layers]
        if not kinds:
            raise self._no_such_layer(layers, there, "statistics count no steps of a decoder and no single tokens")
        return replace(found, kinds=tuple(kinds), is_recorded=True)

    def _is_wanted(self, place: Place, q_length: int, k_length: int) -> bool:
        """Return whether a call may belong to a recorded pass. In a long training, nearly none does."""
        if self._study is not None:
            return True
        with self._lock:
            return not self._sites.pass_over(place, (q_length, k_length), self._options.passes.wants)

    def _is_drawn(self, site: ObservedSite) -> bool:
        return self._options.wants(site) and self._options.passes.wants(site.passes - 1)

    def _on_observed(self, observed: ObservedCall) -> int | None:
        """Record an observed call while its tensors are valid. Return the number of its site; None: it has none."""
        with self._lock:
            if (run := self._sites.run(observed)) is None:
                return None
            site, kept = run
            if self._options.wants(site) and self._is_shown(site):
                self._take(site, kept)
                self._note_unfilled(site, range(kept.call.shape[3], observed.call.shape[3]))
            return site.number

    def _on_weighed(self, number: int) -> None:
        if self._is_drawn(site := self._sites.all[number]):
            self._remark(site, "weights are those before a gate or a sink that multiplies the outputs of some heads")

    def _take(self, site: ObservedSite, observed: ObservedCall) -> None:
        is_wanted = self._options.passes.wants(site.pass_number)
        if not is_wanted and self._study is None:
            return
        windows = windows_of(observed.sides, observed.call.shape[0]) if is_wanted else []
        windows = _in_their_order(windows, observed)
        if is_wanted:
            self._begin(site, observed, windows)
        self._note_form(site, observed)
        self._device = str(observed.call.device)
        call, (batch_size, n_heads, q_length, k_length) = observed.call, observed.call.shape
        d_key = call.query.shape[3] if isinstance(call, AttentionCall) else 1
        heads = tuple(sorted(observed.heads or site.heads)) or tuple(range(n_heads))
        self._heads[site.number] = heads
        is_unplaced = site.pass_number in site.unplaced
        kind: Kind = "other" if is_unplaced else site.kind
        named = Site(kind, site.order, n_heads, d_key, site.number, site.full_name)
        name = f"{site.full_name}, pass {site.pass_number}"
        padding = self._padding(site, observed)
        if self._is_no_padding(site, observed, padding):
            return
        looks_around = observed.order.windows > 1 and q_length != k_length  # and pads the first window
        are_seen = None not in observed.order.tokens.places
        rows = ("row", "row") if (is_unplaced or looks_around) and not are_seen else _rows_called(observed)
        # The queries of a masked map are the last keys; a prefix, or tokens of a cache, may come before them.
        counts = site.kind == "masked" and (site.first_query or not are_seen)
        first = site.k_length - q_length if counts else site.first_query

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
                several = [_placed(one, parts, site.kind) for one in zip(queries, keys, strict=True)]
                queries, keys = queries if rows[0] else tuple(own for own, _ in several), tuple(of for _, of in several)
            there = observed.order.tokens.places
            if not site.first_query or (there[0] is not None and there[0].are_placed):
                queries = queries if rows[0] else self._names.at_places(queries, 0, there, places)
                keys = keys if rows[1] else self._names.at_places(keys, 1, there, places, rows[0])
            of_places = None if padding is None else padding.of_examples(places)
            return SiteCall(named, of.call, heads, queries, keys, of.output, padding=of_places)

        try:
            if is_wanted and self._on_attention is not None:
                self._visit(seen_of(range(batch_size), observed))
            among = _places_of(observed) if site.kind in OF_ONE_TEXT and q_length < k_length else None
            is_whole = site.kind not in OF_ONE_TEXT or q_length == k_length or among is not None
            is_step = site.first_query > 0 and site.pass_number not in site.recurrent
            is_whole = is_whole and not is_step and k_length > 1
            if self._study is not None and site.heads:
                self._not_shown(site, f"{site.name}: a softmax for each of its heads, which statistics do not count")
            elif self._study is not None and (part := observed.order.tokens.parts[1]) is not None and not part.step:
                self._not_shown(site, f"{site.name}: which tokens its keys are is not known; statistics count no such")
            elif self._study is not None and is_whole:
                whole = seen_of(range(batch_size), observed)
                # The kind may change while the program runs; the number does not.
                number = site.layer_of.number
                whole = replace(whole, site=replace(named, layer=number, number=number), places=among)
                self._count(self._study, whole)
            elif is_step:
                self._steps[site.number] += batch_size * q_length
            elif self._study is not None and q_length != k_length:
                why = "and these are not known to be the tokens of one text; statistics count no such"
                self._not_shown(site, f"{site.full_name}: begins with fewer queries than keys, {why}")
            if is_wanted:
                self._keep(site, observed, seen_of, name, windows)
        except MhavizError as error:
            self._not_shown(site, f"{name}: {error}")

    def _begin(self, site: ObservedSite, observed: ObservedCall, windows: Sequence[Sequence[int]]) -> None:
        """Note a run of a pass that is drawn. A pass that begins takes the place of what was the last one until now."""
        stays = self._options.passes.keeps(site.pass_number)  # even if others follow
        if not site.first_query and (last := self._drawn.pop((site.number, False), None)) is not None:
            self._maps.forget_pass(site.number, last.pass_number)
        drawn = self._drawn.setdefault((site.number, stays), _Drawn(site.pass_number))
        drawn.pass_number, drawn.batch_size = site.pass_number, max(drawn.batch_size, len(windows))

    def _not_shown(self, site: ObservedSite, line: str) -> None:
        """Note why a run of an attention is not drawn, or not counted."""
        self._log.miss(line)
        self._reasons.setdefault(site.number, line)

    def _remark(self, site: ObservedSite, text: str) -> None:
        """Note a remark on the current pass of an attention."""
        self._remarks[text] = None
        drawn = self._drawn.get((site.number, self._options.passes.keeps(site.pass_number)))
        if drawn is not None:
            drawn.remarks[text] = None

    def _padding(self, site: ObservedSite, observed: ObservedCall) -> Padding | None:
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
        elif padding is not None and (places := _places_of(observed)) is not None:
            are_keys = padding.keys[:, list(places)]
            padding = replace(padding, queries=are_keys | ~are_keys.any())  # a mask may hide from all what reads them
        if padding is not None and site.kind == "other" and not bool(padding.keys.all()):
            why = "no query may see some keys; whether they are padding, and which queries are, is not known"
            self._log.miss(f"{site.full_name}: {why}")
        return padding

    def _is_no_padding(self, site: ObservedSite, observed: ObservedCall, padding: Padding | None) -> bool:
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

    def _count(self, study: HeadStudy, whole: SiteCall) -> None:
        """Add the examples of a call to the statistics. Each attention numbers them as they come, over all passes."""
        number = whole.site.number
        start = self._counted[number]
        numbers = range(start, start + len(whole.queries))
        show(lambda seen: study.add(seen, numbers), whole, "statistics", "they do not count it")
        self._counted[number] = numbers.stop
        self._has_batches |= len(numbers) > 1
        n_padded = 0 if whole.padding is None else int((~whole.padding.queries).sum())
        self._padded[number] += n_padded
        self._queries[number] += len(whole.queries) * whole.call.shape[2] - n_padded

    def _keep(
        self,
        site: ObservedSite,
        observed: ObservedCall,
        seen_of: Callable[[Sequence[int], ObservedCall], SiteCall],
        name: str,
        windows: Sequence[Sequence[int]],
    ) -> None:
        batch_size = len(windows)
        there = self._examples_of(batch_size)
        if not there:
            self._not_shown(site, f"{name}: has {batch_size:,} along its batch axis, and none of those asked for")
        if self._maps.bytes > self._most_bytes:
            self._not_shown(
                site, f"{name} and what came later is left out: the maps have filled the memory that they may take"
            )
            return
        if site.moved:
            self._maps.move(site.number, site.pass_number, site.moved)
            self._remark(site, "an example is a beam of a search, and its map is of the text that it ends with")
        if any(len(windows[number]) > 1 for number in there):
            self._remark(
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
                self._note_mask(site, name, one, weighing, nan, f"of example {number}, " if batch_size > 1 else "")
            except MhavizError as error:
                of = f", example {number}" if len(there) > 1 else ""
                self._not_shown(site, f"{name}{of}: {error}")

    def _note_unfilled(self, site: ObservedSite, keys: Sequence[int]) -> None:
        """Note the keys at the end that no query may see, such as places of a cache that is not full yet."""
        drawn = self._drawn.get((site.number, self._options.passes.keeps(site.pass_number)))
        if keys and drawn is not None and not site.first_query:
            what = f"left out {listed_runs('key', keys)}: the mask hides them from all queries"
            drawn.masked.setdefault(what, []).append(f"{site.full_name}, pass {site.pass_number}")

    def _note_mask(
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
        masked = self._drawn[site.number, self._options.passes.keeps(site.pass_number)].masked
        if seen.padding is not None and not bool(seen.padding.keys.all()):
            left_out = (~seen.padding.keys[0]).nonzero().flatten().tolist()
            # In other kinds, hidden keys may be those of a cache that is not full yet, or later ones.
            if seen.site.kind in OF_ONE_TEXT and seen.call.shape[2] == seen.call.shape[3]:
                self._remark(site, "tokens that masks hide from all queries are left out, as padding")
                what = f"{listed_runs('token', left_out)}, queries and keys, as padding"
            else:
                self._remark(site, "keys that no query may see are left out")
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
            self._remark(site, _BEFORE_DROPOUT)
        if observed.is_random:
            self._remark(site, _RANDOM)
        if any(observed.are_fixed):
            self._remark(site, "fixed rows are parameters or constants of the program, not tokens")
        if observed.order.is_assumed and isinstance(observed.call, AttentionWeights):
            axes = f"{name}: axes of {batch_size:,} and {n_heads:,} before the queries are taken as (batch, heads)"
            self._log.miss(f"{axes}, as nothing tells which is which")
            self._remark(site, "axes are taken as (batch, heads, queries, keys), as nothing tells")
        if not observed.order.is_numbered:
            self._remark(site, "some heads are numbered as they stand in the softmax")
        keys = observed.order.tokens.parts[1]
        if (
            site.kind == "masked"
            and None in observed.order.tokens.places
            and keys is not None
            and keys.step
            and keys.start < 0
        ):
            before = counted(-keys.start, "key")
            self._remark(site, f"numbers count {before} that stand before the tokens, such as learned ones")
        windows = observed.order.windows
        if windows > 1 and not observed.has_patches:
            lengths, why = f"{q_length:,} tokens", ""
            if q_length != k_length:
                lengths = f"{q_length:,} {'query' if q_length == 1 else 'queries'} and {k_length:,} keys"
                if None in observed.order.tokens.places:
                    why = "; which tokens these are is not known, and they are called rows"
            self._log.miss(f"{name}: {windows:,} windows of {lengths} each stand in its batch axis{why}")
            self._remark(site, "of inputs that are cut into windows, a map is of one window")
        if observed.order.called == "head":
            self._log.miss(
                f"{name}: its queries and keys are the {k_length:,} heads of one token, not tokens; before the product "
                "a transpose of tokens and heads may be missing"
            )
            self._remark(site, "some rows and columns are heads of one token, not tokens")
        if q_length == k_length and _rows_called(observed) == ("channel", "channel"):
            self._log.miss(f"{name}: weighs {q_length:,} channels of a head, not tokens")
            self._remark(site, "some rows and columns are channels, not tokens")

    def _layers(self) -> dict[int, int]:
        """Return the layer of each attention: the number in its name, or else its place in its stack.

        A stack holds the attentions of one kind, as encoders and decoders are counted. Attentions of other kinds are in
        the same stack if one reads the other's output on the same tokens, unless all their names have numbers.
        """
        whole = [site for site in self._sites.all if site.layer_of is site]
        stacks = {kind: [site for site in whole if site.kind == kind] for kind in dict.fromkeys(s.kind for s in whole)}
        unnumbered = {kind for kind, sites in stacks.items() if kind != "cross" and not _numbers_in(sites)}
        for kinds in dict.fromkeys(frozenset((site.kind, other.kind)) for site, other in self._sites.others_read()):
            if kinds <= stacks.keys() and kinds & unnumbered:
                merged = {one.number: one for kind in kinds for one in stacks[kind]}
                stacks |= {one.kind: [merged[number] for number in sorted(merged)] for one in merged.values()}
        layers: dict[int, int] = {}
        for sites in stacks.values():
            layers |= zip((site.number for site in sites), _numbers_in(sites) or range(len(sites)), strict=True)
        return {site.number: layers[site.layer_of.number] for site in self._sites.all}

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
        reasons = [self._reasons[site.number] for site in asked if site.number in self._reasons]
        reasons += self._left_out(asked)
        shown = listed_numbers("layer", sorted({*there}))
        return MhavizError(f"{parameter('layer')}: expected {shown}, got {text}; {next(iter(reasons), other_reason)}")

    def _source(self, *remarks: str, which: Iterable[str] = ()) -> Source:
        shown: dict[int, set[int]] = {}
        for site in self._sites.all:
            if site.number in self._heads and self._is_shown(site):
                shown.setdefault(site.layer_of.number, set()).update(self._heads[site.number])
        outside = [number for number in shown if not self._sites.all[number].is_module]
        if len(outside) > 1:
            why = "what runs outside of modules is counted by its calls, whether these are layers or parts of one"
            remarks = (*remarks, why)
        if any(_number_in(self._sites.all[number]) not in (None, layer) for number, layer in self._layers().items()):
            remarks = (*remarks, "layers are numbered as they ran, and not as in the names of modules")
        n_heads = list(map(len, shown.values()))
        several = f"{min(n_heads)} to {max(n_heads)}" if min(n_heads) < max(n_heads) else f"{n_heads[0]}"
        count, what = len(shown), "call" if len(outside) == len(shown) > 1 else "attention"
        parts = [
            f"recorded: {self._program or 'a program'}",
            f"{counted(count, what)} of {several} head{'s' * (several != '1')}",
            *which,
            self._device,
        ]
        details = {
            "kind": "recording",
            "program": self._program,
            "n_attentions": count,
            "n_heads": max(n_heads),
            "device": self._device,
        }
        if self.missed:
            details["notices"] = self.missed
        names = list(
            dict.fromkeys(one.partition(": ")[0] for one in self.missed if re.search("not (drawn|shown)", one))
        )
        if names:
            wanted = self._options.heads
            drawn = {
                self._sites.all[number].full_name
                for number in shown
                if wanted is None or not {*wanted}.isdisjoint(self._heads[number])
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
        source, last = self._source(*self._remarks), self._most_passes - 1
        passes = f"passes 0 to {last:,}" if last else "pass 0"
        padded = max(self._padded.values(), default=0)
        remark = f"{padded:,} positions that masks tell to be padding do not count"
        if not padded:
            remark = "no mask tells which queries are padding: all of a batch count" if self._has_batches else ""
        most = max(self._steps or self._queries, key=lambda number: self._steps[number], default=0)
        queries, steps = self._queries[most], self._steps[most]
        queries_text = f"{queries:,} queries of whole inputs count, and not {steps:,} of a decoder's steps"
        of_steps = f"of {self._sites.all[most].full_name} {queries_text}" if steps else ""
        return Source(
            f"{source.footnote}, {passes}",
            {**source.details, "passes": [0, last], "padded": padded, "queries": queries, "queries_of_steps": steps},
            "; ".join(filter(None, [source.remark, remark, of_steps])),
        )

    def _why_empty(self) -> str:
        seen = f"saw {counted(self._watch.operations, 'operation')} and "
        if self._sites.all:
            n_sites = len(self._sites.all)
            names = ", ".join(self.modules[:3]) + ", …" * (n_sites > 3)
            which = f"{counted(n_sites, 'attention')} ({names})"
            # Why an attention that has run is not drawn says more than what is noted on how it was read.
            reasons = (*self._reasons.values(), *self.missed)
            absent = self._what_is_not_there()
            why, asked = absent or next(iter(reasons), ""), "drawn" if self._reasons and not absent else "asked for"
            return f"{seen}{which}, and none that was {asked}{': ' if why else ''}{why}"
        forked = "; processes that were forked are not followed" * self._watch.has_forked
        unmet = f"no softmax of queries times keys was seen to be multiplied by values{forked}"
        missed = next(iter([*self.missed, *self._watch.outside]), unmet)
        return f"{seen}no attention; {missed}"

    def _what_is_not_there(self) -> str:
        """Return a message on the option that fits nothing that has run; "" if there is no such option."""
        options, sites = self._options, [site for site in self._sites.all if self._options.wants(site)]
        if not sites:
            return f"{parameter('module')}: expected a pattern of these names, got {', '.join(options.patterns or ())}"
        last = self._most_passes - 1
        if not options.passes.begins_by(last):
            return f"{parameter('passes')}: expected {f'some of 0 to {last:,}' if last else 'the only pass, 0'}"
        most = max(self._batch_sizes, default=0)
        if options.examples and most and min(options.examples) >= most:
            return f"{parameter('examples')}: expected some of 0 to {most - 1:,}"
        return ""


_open: list["Recording"] = []
"""Recordings that have been entered, as often as they have been."""


def _weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method, and does not keep its object alive.

    A recording that no variable holds any more is freed at once, with its maps. They may be large, and the garbage
    collector counts objects, not bytes.
    """
    held = WeakMethod(method)

    def call(*args: Any) -> Any:
        bound = held()
        return None if bound is None else bound(*args)

    return call


def _kind_of(m: AttentionMap, kind: Kind) -> Kind:
    """Return the kind of a map of an attention of this kind, which passes with other masks may have as well."""
    if kind != "masked":
        return kind
    as_masked = replace(m, kind=kind)
    beyond, hidden = as_masked.weighed_beyond, as_masked.hidden
    return "self" if beyond is not None and hidden is not None and beyond.any() and not hidden.any() else kind


def _places_of(observed: ObservedCall) -> range | None:
    """Return the places of the queries among the keys, which are all tokens of a text; None: not known."""
    (own, keys), (_, _, q_length, k_length) = observed.order.tokens.parts, observed.call.shape
    if own is None or keys is None or own.of != keys.of or not (keys.is_first and keys.length == keys.n == k_length):
        return None
    places = own.places
    is_known = len(places) == q_length and {*places} <= {*keys.places}
    return places if is_known and isinstance(places, range) else None


def _in_their_order(windows: list[list[int]], observed: ObservedCall) -> list[list[int]]:
    """Return the places in the batch of each example, where the program has put these in another order."""
    queries = observed.order.tokens.places[0]
    if queries is None or [[place] for place in range(len(queries.source))] != windows:
        return windows
    examples = [queries.example_of(entry) for entry in range(len(windows))]
    is_moved = sorted(examples) == [*range(len(windows))] != examples
    return [[examples.index(number)] for number in range(len(windows))] if is_moved else windows


def _weighing_hidden(observed: ObservedCall, place: int) -> list[int]:
    """Return the queries of an example that weigh keys which the mask is meant to hide from them."""
    weighing = observed.call.weighing_hidden()  # of all examples, which are looked through at once
    if weighing is None:
        return []
    rows = weighing[place if len(weighing) > 1 else 0].any(dim=0).expand(observed.call.shape[2])
    queries: list[int] = rows.nonzero().flatten().tolist()
    return queries


_MOST_NOTED = 4
"""Number of notices on masks that are given one by one."""


def _listed_names(names: Sequence[str]) -> str:
    """Return the name of an attention, or the first name and how many there are."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more"


_BEFORE_DROPOUT = "some weights are those before dropout"
"""Remark on a program in training, whose weights are drawn as they would be in inference."""

_RANDOM = "random numbers of the program changed some weights"
"""Remark on weights that met values after a random mask that is no dropout, or other random numbers."""


def _rows_called(observed: ObservedCall) -> tuple[str, str]:
    """Return the names of queries and keys that are not tokens, such as "fixed", and "" for tokens."""
    if (called := observed.order.called) and not any(observed.are_fixed):
        return called, called
    queries, keys = ("fixed" if fixed else "" for fixed in observed.are_fixed)
    return queries or "row" * bool(keys), keys  # queries of fixed keys may be anything


def _as_rows(tokens: Tokens, may_be_batch: bool, may_be_fixed: bool, remarks: dict[str, None]) -> Tokens:
    """Rename positions to rows where they may be examples of a batch or constants instead of tokens; add a remark."""
    others = ["an example of a batch"] * may_be_batch + ["a constant of the program"] * may_be_fixed
    if not others or not any(text.isdecimal() for text in tokens.texts):
        return tokens
    remarks[f"“row i” is a token or {' or '.join(others)}, as nothing tells"] = None
    if any(text.startswith("row ") for text in tokens.texts):  # which is the number of a row, not of a token
        return rows_of("row", 0, len(tokens))
    return replace(tokens, texts=tuple(f"row {text}" if text.isdecimal() else text for text in tokens.texts))


_STEP = re.compile(r"^(?:row )?(\d+)$", re.ASCII)
"""Name of the query of a step by its position, or as a row."""


def _as_steps(tokens: Tokens, remarks: dict[str, None]) -> Tokens:
    """Rename positions of a recurrent decoder's queries to steps; add a remark."""
    remarks["the query of a step is made of what the step before gave"] = None
    return replace(tokens, texts=tuple(_STEP.sub(r"step \1", text) for text in tokens.texts))


def _with_heads_joined(maps: Sequence[AttentionMap]) -> tuple[AttentionMap, ...]:
    """Join the maps that hold different heads of the same attention."""
    found: dict[tuple[object, ...], list[AttentionMap]] = {}
    for m in maps:
        of = m.pass_number, m.sentence, m.kind, m.layer, m.module, m.quantity.key, m.quantity.reduction
        found.setdefault((*of, m.rows.tokens, m.columns.tokens, m.weights.shape[1:]), []).append(m)
    joined: list[AttentionMap] = []
    for several in found.values():
        heads = [head for m in several for head in m.heads]
        if len(several) == 1 or len(set(heads)) < len(heads):
            joined += several
            continue
        weights = np.concatenate([m.weights for m in several])[np.argsort(heads)]
        sink = any(m.sink for m in several)
        reach = several[0].reach if len({m.reach for m in several}) == 1 else None
        whole = replace(several[0], weights=weights, heads=tuple(sorted(heads)), sink=sink, reach=reach)
        joined.append(replace(whole, queries_and_keys=None, windows=_heads_of_windows(several, heads)))
    return tuple(joined)


def _heads_of_windows(several: Sequence[AttentionMap], heads: Sequence[int]) -> tuple[AttentionMap, ...]:
    """Return the windows of maps with some of the heads each, with all heads; none if they have other windows."""
    if len({len(m.windows) for m in several}) > 1:
        return ()
    order = np.argsort(heads)
    return tuple(
        replace(of[0], weights=np.concatenate([m.weights for m in of])[order], heads=tuple(sorted(heads)))
        for of in zip(*(m.windows for m in several), strict=True)
    )


def _with_windows_joined(maps: Sequence[AttentionMap], found: Sequence[RecordedMap]) -> list[AttentionMap]:
    """Return the maps without those of further windows, which the first window's has; see ``AttentionMap.windows``."""
    several: dict[tuple[int, int, int], list[AttentionMap]] = {}
    for m, one in zip(maps, found, strict=True):
        several.setdefault((one.number, one.pass_number, one.example), []).append(m)
    return [replace(of[0], windows=tuple(of)) if len(of) > 1 else of[0] for of in several.values()]


def _placed(sides: tuple[Tokens, Tokens], parts: tuple[Part | None, Part | None], kind: Kind) -> tuple[Tokens, Tokens]:
    """Name queries and keys by their places in a sequence: as the tokens there are called, or by position.

    Queries and keys before or behind the sequence, or in unknown places, are called rows.
    """
    own, part = parts
    if kind == "masked" and part is not None and part.step and part.start < 0:
        return sides  # already numbered from the first key on
    known: dict[int, str] = {}
    if own is not None and part is not None and own.of == part.of:
        for tokens, one in zip(sides, parts, strict=True):
            known |= enumerate(tokens.texts) if _is_whole(one) else ()

    def called(row: int, place: int, length: int) -> str:
        return known.get(place, str(place)) if 0 <= place < length else f"row {row}"

    placed = []
    for tokens, one in zip(sides, parts, strict=True):
        if one is not None and one.n == len(tokens) and not (_is_whole(one) or tokens.ids or tokens.images):
            places = one.places or [-1] * one.n
            tokens = Tokens(tuple(called(row, place, one.length) for row, place in enumerate(places)))
        placed.append(tokens)
    return placed[0], placed[1]


def _is_whole(part: Part | None) -> bool:
    """Return whether this is the beginning of a sequence, or all of it, and nothing else."""
    return part is not None and part.is_first and part.n <= part.length


def _named(sides: tuple[Tokens, Tokens], kind: Kind, name: Callable[[Tokens], Tokens]) -> tuple[Tokens, Tokens]:
    """Name queries and keys. If both are of one text, names that are known on one side are used on the other."""
    queries, keys = map(name, sides)
    if kind not in OF_ONE_TEXT:
        return queries, keys
    known: dict[str, tuple[str, bool]] = {}
    for before, after in zip(sides[::-1], (keys, queries), strict=True):
        for place, (old, new) in enumerate(zip(before.texts, after.texts, strict=True)):
            if old != new:
                known[old] = new, place in after.special
    several = []
    for before, after in zip(sides, (queries, keys), strict=True):
        found = [
            known.get(old, (new, place in after.special)) if old == new else (new, place in after.special)
            for place, (old, new) in enumerate(zip(before.texts, after.texts, strict=True))
        ]
        special = tuple(place for place, (_, is_special) in enumerate(found) if is_special)
        several.append(replace(after, texts=tuple(text for text, _ in found), special=special))
    return several[0], several[1]


def _numbers_in(sites: Sequence[ObservedSite]) -> list[int]:
    """Return the number in each name, such as 3 in "blocks.3.attn"; [] unless all names have different numbers."""
    numbers = [number for site in sites if (number := _number_in(site)) is not None]
    return numbers if len(set(numbers)) == len(sites) else []


def _number_in(site: ObservedSite) -> int | None:
    found = re.search(r"(?:^|\.)(\d{1,9})(?=\.|$)", site.name) if site.is_module else None
    return None if found is None else int(found[1])

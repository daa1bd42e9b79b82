"""Statistics of what each head of a model attends to, averaged over any number of sentences in constant memory.

Most numbers are sums of weights on certain keys, such as the one before the query. These keys do not depend on the head
or the layer. So they are found once for a batch, and each layer takes one more matrix product.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from mhaviz.analyses.bootstrap import add_numbers, head_numbers, number_shapes, poisson_weights
from mhaviz.analyses.sums import Pieces, Study, Sums, stacked
from mhaviz.attention.call import AttentionCall, AttentionWeights, entropy
from mhaviz.attention.model import CorpusModel, SiteCall, are_tokens, is_counted
from mhaviz.attention.padding import Padding
from mhaviz.errors import MhavizError
from mhaviz.inputs.probes import Probe
from mhaviz.inputs.tokens import OF_ONE_TEXT, Kind, Text, Tokens
from mhaviz.results.head_statistics import (
    EDGES,
    N_BINS,
    SINK_ABOVE,
    STATISTICS,
    Average,
    HeadAverages,
    HeadStatistics,
)
from mhaviz.results.result import Source

_FIRST, _SINK, _ENTROPY, _DISTANCE, _RETRIEVAL, _NEEDLE_PLACE = map(
    STATISTICS.index, ("first", "sink", "entropy", "distance", "retrieval", "needle")
)
_INNER_EDGES = [np.array(EDGES[name][1:]) for name in STATISTICS]
_BLOCK = 2**24  # weights whose logarithms are in memory at a time

_OF_ALL_QUERIES = ("entropy", "distance")
"""Statistics that are defined for every query. Others need a certain key, such as a previous token."""


class HeadStudy(Study):
    """Running averages of the statistics of all heads.

    Statistics are computed in float64 if the model computes in float64, else in float32. Sums over sentences are in
    float64.

    Args:
        probe: what the sentences are generated for; None: they come from a corpus or a program.
        needle: ids of a needle that is in each sentence twice; empty: none.
        texts_apart: as in ``poisson_weights``.
    """

    name = "heads"

    def __init__(self, probe: Probe | None = None, needle: Sequence[int] = (), texts_apart: int = 1) -> None:
        super().__init__()
        self._probe, self._needle, self._texts_apart = probe, tuple(needle), texts_apart
        self._counted: _Counted | None = None
        self._pieces = Pieces()

    def shapes(self, n_heads: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the sums of statistics, of their chance values, and of their histograms."""
        means = n_heads, len(STATISTICS)
        chance = {"chance.mean": means, "chance.count": (1, len(STATISTICS)), "chance.deviations": means}
        others = {"queries": (len(STATISTICS),), "bins": (*means, N_BINS)}
        return number_shapes(*means) | chance | others

    def add(self, seen: SiteCall, numbers: Sequence[int]) -> None:
        """Add the sentences of a call, computed on the device of the call.

        Args:
            seen: call of one attention, for one or several sentences.
            numbers: index of each of these sentences in the corpus, from 0.
        """
        if self._needle and any(seen.pieces):
            raise MhavizError(
                "expected texts that the model can read in one piece, as each has the needle twice, got one that is "
                "too long; give shorter texts"
            )
        counted = self._counted
        if counted is None or not counted.is_of(seen, numbers):  # all layers of a forward pass have the same tokens
            drawn = poisson_weights(numbers, self._texts_apart)
            counted = self._counted = _Counted.of(seen, numbers, drawn, self._needle)
        weights = seen.call.weights().nan_to_num(nan=0.0)  # NaN of padding; not in place, as the program may own them
        site = seen.site.kind, seen.site.layer
        sums = self.of(*site, weights.shape[1])
        whole, (totals, chance, queries) = self._pieces.joined(
            site,
            seen.pieces,
            numbers,
            counted.totals(weights, seen.call.has_sink),
            counted.chance(seen),
            counted.queries,
        )
        if whole:
            values, has = _means(totals, queries), queries > 0
            add_numbers(sums, values, has, counted.drawn_of(whole))
            sums.add_values(np.broadcast_to(_means(chance, queries), values.shape), has[:, None], "chance.")
            sums["queries"] += queries.sum(axis=0)
            for place, edges in enumerate(_INNER_EDGES):
                bins = np.searchsorted(edges, values[has[:, place], :, place], side="right")  # sentences n_heads
                np.add.at(sums["bins"][:, place], (np.arange(bins.shape[1]), bins), 1)

    @property
    def options(self) -> dict[str, Any]:
        """See ``Study.options``."""
        return {"probe": msgspec.to_builtins(self._probe)}

    def read(
        self,
        models: Sequence[CorpusModel],
        texts: Sequence[str],
        pieces: Sequence[Text | None],
        numbers: Sequence[int],
    ) -> None:
        """See ``Study.read``; takes one model."""
        (model,) = models

        def add(seen: SiteCall) -> None:
            start = seen.sentence or 0  # some models run one sentence at a time
            self.add(seen, numbers[start : start + len(seen.queries)])

        model.run(model.encode_unnamed(texts, pieces), add, batched=True)

    def result(self, source: Source, too_long: int = 0) -> HeadStatistics:
        """Return the averages over all sentences so far; ``too_long``: number of sentences that could not be read."""
        kinds = []
        for kind, layers, sums in self.layers():
            by_name = {name: self._average(sums, place) for place, name in enumerate(STATISTICS)}
            whole = by_name["entropy"]
            kinds.append(HeadAverages(kind, layers, whole.sentences, whole.queries, **by_name))
        return HeadStatistics(source, tuple(kinds), too_long, probe=self._probe)

    def _average(self, layers: Sequence[Sums], place: int) -> Average:
        """Return the average of one number for all layers."""
        by_layer = np.array([(one["count"][0, place], one["queries"][place]) for one in layers], np.int64)
        sentences, queries = by_layer.max(axis=0).tolist()
        return Average(
            **head_numbers(layers, place, self._texts_apart),
            sentences=sentences,
            queries=queries,
            chance=stacked([one.mean("chance.")[:, place] for one in layers]),
            counts=stacked([one["bins"][:, place] for one in layers], 0).astype(np.int64),
            by_layer=by_layer,
        )


@dataclass(frozen=True)
class _Counted:
    """Weights and queries of a batch that each statistic counts, the same for all heads of all layers.

    Attributes:
        sides, kind, numbers, padding, places: tokens of queries and keys, kind of attention, indices and padding of the
            batch; see ``SiteCall``.
        visible: bool, (batch_size, q_length, k_length), False for padding and for queries that are not counted.
        names: names of the statistics that are sums of weights.
        factors: float32, (batch_size, len(names), q_length · k_length). Each of these statistics is the sum of weight
            times factor over queries and keys.
        queries: int64, (batch_size, n_statistics), number of queries that each statistic is the sum over.
        reading: bool, (batch_size, q_length, k_length), True for tokens of earlier needles that a query may copy;
            None: no needle.
        drawn: float64, (batch_size, replicates), how often the bootstrap draws each sentence.
        chances: cache of the chance sums, by the identity of the mask and whether later keys are hidden, each with its
            mask for as long as that lives.
    """

    sides: tuple[tuple[Tokens, ...], tuple[Tokens, ...]]
    kind: Kind
    numbers: tuple[int, ...]
    padding: Padding | None
    places: range | None
    visible: Tensor
    names: tuple[str, ...]
    factors: Tensor
    queries: NDArray[np.int64]
    reading: Tensor | None
    drawn: NDArray[np.float64]
    chances: dict[tuple[int, bool], tuple[ref[Tensor] | None, NDArray[np.float64]]] = field(default_factory=dict)

    def is_of(self, seen: SiteCall, numbers: Sequence[int]) -> bool:
        """Return whether this was found for the very batch of a call."""
        queries, keys = self.sides
        is_batch = seen.queries is queries and seen.keys is keys and seen.site.kind == self.kind
        is_padded_alike = seen.padding is self.padding or (
            seen.padding is not None and seen.padding.is_same(self.padding)
        )
        return is_batch and is_padded_alike and (self.numbers, self.places) == (tuple(numbers), seen.places)

    @classmethod
    def of(
        cls, seen: SiteCall, numbers: Sequence[int], drawn: NDArray[np.float64], needle: Sequence[int]
    ) -> "_Counted":
        """Find the weights and queries that are counted in the batch of a call."""
        is_query, (_, is_key) = is_counted(seen, seen.call.device), are_tokens(seen, seen.call.device)
        visible = is_query[:, :, None] & is_key[:, None]  # batch_size q_length k_length
        factors = _factors(seen.keys, is_key, visible, seen.site.kind, seen.places)
        reading = _reading(seen.keys, visible, needle) if needle and seen.site.kind == "masked" else None
        if reading is not None:
            factors["needle"] = reading
        there = {name: factor.any(dim=-1) for name, factor in factors.items()}  # batch_size q_length
        there |= {name: is_query for name in _OF_ALL_QUERIES if name in factors or name == "entropy"}
        there["sink"] = there["first"]
        if reading is not None:
            there["retrieval"] = there["needle"]
        no_query = torch.zeros_like(is_query)
        queries = torch.stack([there.get(name, no_query).sum(dim=-1) for name in STATISTICS], dim=-1)
        summed_up = torch.stack([factor.float() for factor in factors.values()], dim=1).flatten(2)
        return cls(
            (seen.queries, seen.keys),
            seen.site.kind,
            tuple(numbers),
            seen.padding,
            seen.places,
            visible,
            tuple(factors),
            summed_up,
            queries.cpu().numpy(),
            reading,
            drawn,
        )

    def totals(self, weights: Tensor, has_sink: bool) -> NDArray[np.float64]:
        """Compute the sums over queries of all statistics but ``sink``, (batch_size, n_heads, n_statistics).

        ``has_sink``: rows may sum to less than 1, and are divided by their sum for entropy and distance.
        """
        totals = weights.new_zeros(*weights.shape[:2], len(STATISTICS))
        factors = self.factors.to(weights.dtype)
        totals[..., _places(self.names)] = weights.flatten(2) @ factors.mT
        shares = weights
        if has_sink:
            shares = weights.masked_fill(~self.visible[:, None], 0.0)
            shares = shares / shares.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
            if "distance" in self.names:
                place = self.names.index("distance")
                totals[..., _DISTANCE] = (shares.flatten(2) @ factors[:, place, :, None])[..., 0]
        totals[..., _ENTROPY] = _entropies(shares, self.visible)
        if self.reading is not None:
            totals[..., _RETRIEVAL] = self._hits(weights, self.reading)
        return totals.cpu().double().numpy()

    def chance(self, seen: SiteCall) -> NDArray[np.float64]:
        """Return the same sums for a head with uniform weights on all keys that a query sees, (batch_size, 1 or
        n_heads, n_statistics).
        """
        call = seen.call
        if isinstance(call, AttentionWeights):  # each layer has its own
            return self._chance(call)
        mask, key = call.mask, (id(call.mask), call.causal)
        of, chance = self.chances.get(key, (None, None))
        if chance is None or (of is not None and of() is not mask):  # another mask had this id
            chance = self._chance(call)
            for gone in [old for old, (of, _) in self.chances.items() if of is not None and of() is None]:
                del self.chances[gone]
            self.chances[key] = None if mask is None else ref(mask), chance
        return chance

    def _chance(self, call: AttentionCall | AttentionWeights) -> NDArray[np.float64]:
        visible = seen_keys(call)
        visible = self.visible[:, None] if visible is None else visible & self.visible[:, None]
        n_keys = visible.sum(dim=-1, keepdim=True).clamp(min=1)  # batch_size 1|n_heads q_length 1
        dtype = torch.promote_types(
            call.query.dtype if isinstance(call, AttentionCall) else call.given.dtype, torch.float32
        )
        uniform = visible / n_keys.to(dtype)
        totals = uniform.new_zeros(*uniform.shape[:2], len(STATISTICS))
        totals[..., _places(self.names)] = uniform.flatten(2) @ self.factors.to(dtype).mT
        totals[..., _ENTROPY] = (n_keys.to(dtype).log()[..., 0] * self.visible.any(dim=-1)[:, None]).sum(dim=-1)
        totals[..., _RETRIEVAL] = totals[..., _NEEDLE_PLACE]
        return totals.cpu().double().numpy()

    def drawn_of(self, numbers: Sequence[int]) -> NDArray[np.float64]:
        """Return how often these sentences of the batch are drawn. Pieces of a sentence share its index."""
        if tuple(numbers) == self.numbers:
            return self.drawn
        return self.drawn[[self.numbers.index(number) for number in numbers]]

    def _hits(self, weights: Tensor, reading: Tensor) -> Tensor:
        """Count the queries whose largest weight lies on a token that they may copy, (batch_size, n_heads)."""
        sentence, query = reading.any(dim=-1).nonzero(as_tuple=True)
        largest = weights[sentence, :, query].argmax(dim=-1)  # queries n_heads
        hits = reading[sentence, query].gather(1, largest).to(weights.dtype)
        return weights.new_zeros(weights.shape[:2]).index_add_(0, sentence, hits)


def _places(names: Sequence[str]) -> list[int]:
    return [STATISTICS.index(name) for name in names]


def _means(totals: NDArray[np.float64], queries: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return means over queries, and for ``sink`` 1 or 0, (batch_size, n_heads, n_statistics)."""
    means = totals / np.maximum(queries, 1)[:, None]
    means[..., _SINK] = means[..., _FIRST] > SINK_ABOVE
    return means


def seen_keys(call: AttentionCall | AttentionWeights) -> Tensor | None:
    """Return which keys a query sees, bool, (batch_size or 1, n_heads or 1, q_length or 1, k_length); None: all.

    If only weights are known, and not the mask, these are the keys to which some head gives weight.
    """
    if isinstance(call, AttentionWeights):
        weighed, seen = call.weighed(), call.seen
        if seen is None:
            return weighed.any(dim=1, keepdim=True)
        visible: Tensor | None = seen | (weighed & ~seen.any(dim=-1, keepdim=True))
    else:
        visible = call.weighed()
    if visible is None or visible.shape[1] == 1:
        return visible
    first = visible[:, :1]  # masks of each head nearly always hide the same keys
    return first if bool((visible == first).all()) else visible


def _reading(keys: tuple[Tokens, ...], visible: Tensor, needle: Sequence[int]) -> Tensor:
    """Return a mask of the tokens of earlier needles that a query may copy, (batch_size, q_length, k_length)."""
    reading = torch.zeros_like(visible)
    for row, tokens in zip(reading, keys, strict=True):
        for query, copied in reading_of(tokens.ids, needle):
            row[query, copied] = True
    return reading


def reading_of(ids: Sequence[int], needle: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Return the queries that predict a token of the last needle, each with the keys that it may copy from.

    These keys hold the predicted token in an earlier needle, as in Wu et al. 2024 (arXiv 2404.15574, section 2), except
    that the last needle is given instead of generated. Empty where the needle is not there twice.
    """
    length = len(needle)
    starts = [i for i in range(len(ids) - length + 1) if ids[i] == needle[0] and list(ids[i : i + length]) == [*needle]]
    if not length or not starts:
        return []
    last = starts[-1]
    before = {j for start in starts if start + length <= last for j in range(start, start + length)}
    if not before:
        return []
    return [(last + k - 1, [j for j in sorted(before) if ids[j] == needle[k]]) for k in range(length)]


def _factors(
    keys: tuple[Tokens, ...], is_key: Tensor, visible: Tensor, kind: Kind, places: range | None
) -> dict[str, Tensor]:
    """Return the factors of each weight by statistic, (batch_size, q_length, k_length) each, as far as defined.

    ``is_key``: bool, (batch_size, k_length), False for padding.
    """
    is_first = is_key & (is_key.cumsum(dim=-1) == 1)
    is_text = is_key.clone()
    for row, tokens in zip(is_text, keys, strict=True):
        row[list(tokens.special)] = False
    factors = {"first": visible & is_first[:, None], "separators": visible & ~is_text[:, None]}
    if kind not in OF_ONE_TEXT:
        return factors

    positions = torch.arange(is_key.shape[1], device=is_key.device)
    own = positions if places is None else positions[list(places)]
    offsets = positions - own[:, None]  # q_length k_length
    factors |= {
        "distance": visible * offsets.abs(),
        "itself": visible & (offsets == 0),
        "previous": visible & (offsets == -1),
        "next": visible & (offsets == 1),
    }
    if kind == "masked":
        del factors["next"]
    if all(len(tokens.ids) == len(tokens) for tokens in keys):  # without ids, equal tokens cannot be found
        ids = pad_sequence([torch.tensor(tokens.ids) for tokens in keys], batch_first=True).to(is_key.device)
        is_same = (ids[:, own, None] == ids[:, None]) & is_text[:, own, None] & is_text[:, None]
        copies = visible & is_same & (offsets < 0)
        factors |= {"copies": copies, "induction": pad(copies[..., :-1], (1, 0))}  # the key after each copy
    return factors


def _entropies(weights: Tensor, visible: Tensor) -> Tensor:
    """Compute the sum of the entropies of all queries, (batch_size, n_heads)."""
    parts = []
    for a in torch.split(weights, max(_BLOCK // visible.numel(), 1), dim=1):
        seen = a if bool(visible.all()) else a.masked_fill(~visible[:, None], 0.0)
        parts.append(entropy(seen, (-2, -1)))
    return torch.cat(parts, dim=1)

"""What every head of a model looks at, averaged over many sentences."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import nan
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.probes import Probe
from mhaviz.results.attention import Attention
from mhaviz.results.head_numbers import LEVEL, HeadNumbers, HeadsOfKind, HeadTable
from mhaviz.results.quantity import NORM, WEIGHT
from mhaviz.results.result import Source


@dataclass(frozen=True)
class Average(HeadNumbers):
    """One number of every head; where layers saw different numbers of sentences, as in a program, those of the most.

    Attributes:
        queries: how many count, in all sentences.
        chance: float64, (n_layers, n_heads): the number of a head that gives all keys that a query sees the same
            weight, on the same sentences.
        counts: int64, (n_layers, n_heads, n_bins): how many sentences have a number in each bin; the bins lie between
            the ``EDGES`` of the number, and the last one has all that is above, too.
        by_layer: int64, (n_layers, 2): the sentences and the queries of each layer.
    """

    queries: int
    chance: NDArray[np.float64]
    counts: NDArray[np.int64]
    by_layer: NDArray[np.int64]

    of_heads = (*HeadNumbers.of_heads, "chance")

    def of_head(self, row: int, column: int) -> dict[str, Any]:
        """See ``HeadNumbers``."""
        sentences, queries = self.by_layer[row].tolist()
        return super().of_head(row, column) | {"sentences": sentences, "queries": queries}

    def select(self, rows: Sequence[int]) -> "Average":
        """That of the layers in these rows."""
        chosen = list(rows)
        sentences, queries = self.by_layer[chosen].max(axis=0, initial=0).tolist()
        kept: dict[str, Any] = {name: getattr(self, name)[chosen] for name in (*self.of_heads, "counts", "by_layer")}
        return replace(self, sentences=sentences, queries=queries, **kept)


@dataclass(frozen=True)
class HeadAverages(HeadsOfKind):
    """What the heads of one kind of attention look at.

    Let a(i, j) be the weight that the query at position i of a sentence gives to the key at position j, and t(i) the
    token there. Each number is the mean over the queries i for which it is defined; padding is neither query nor key.
    A head that always looks at the previous token has exactly 1 in ``previous``, and so on. Where a softmax has a sink,
    so that a(i, j) sum to less than 1, entropy and distance are of a(i, j) / Σ_j a(i, j), and the others of a(i, j).

    A number that has no meaning is NaN for all heads: what compares positions or tokens of one sentence, in
    source-target attention (all but entropy, first and separators); ``next``, in masked attention, which hides it.

    Attributes:
        sentences, queries: how many there were, in the layer that saw the most.
        entropy: −Σ_j a(i, j) ln a(i, j), in nats: 0 where one key has it all, ln(keys) where all have the same; as in
            Clark et al. 2019 (arXiv 1906.04341, section 3.3).
        distance: Σ_j a(i, j) |i − j|, in tokens: the attention distance of Vig and Belinkov 2019 (arXiv 1906.04284) for
            each query, whose weights sum to 1.
        itself: a(i, i); with ``previous`` and ``next`` as in Clark et al., section 3.1.
        previous: a(i, i − 1), of all queries but the first of a sentence.
        next: a(i, i + 1), of all queries but the last.
        first: a(i, 0), the key that gets what is of no use elsewhere in many models: the attention sink of Xiao et al.
            2023 (arXiv 2309.17453).
        separators: Σ_j a(i, j) over the keys that are not of the text, such as [CLS], [SEP] and <s>, of sentences that
            have one; Clark et al., section 3.2.
        copies: Σ_j a(i, j) over j < i with t(j) = t(i), neither special, of the queries that have such an earlier copy:
            what the duplicate token heads of Wang et al. 2022 (arXiv 2211.00593) look at.
        induction: Σ_j a(i, j + 1) over the same j, of the same queries: the weight on what followed an earlier copy,
            the prefix matching of Olsson et al. 2022 (arXiv 2209.11895). What followed a copy just before is the query.
        sink: 1 of a sentence whose mean a(i, 0) is above 0.3, else 0: its mean is the share of such sentences. The mean
            over all heads is the sink rate of Gu et al. 2024 (arXiv 2410.10781, section 3.2) with their ε = 0.3.
        retrieval: of the queries i that predict a token of a needle that stands earlier in the text, the share whose
            largest weight lies on that token in the needle: the retrieval score of Wu et al. 2024 (arXiv 2404.15574,
            section 2), on a needle that is given at the end, too, instead of written by the model. Masked attention
            alone, and where there is a needle.
        needle: Σ_j a(i, j) over the same tokens of the needle, of the same queries.
    """

    sentences: int
    queries: int
    entropy: Average
    distance: Average
    itself: Average
    previous: Average
    next: Average
    first: Average
    separators: Average
    copies: Average
    induction: Average
    sink: Average
    retrieval: Average
    needle: Average

    @property
    def sink_rate(self) -> float:
        """The mean of ``sink`` over all heads, from 0 to 1; NaN where nothing is known of it."""
        return float(np.nanmean(self.sink.mean)) if self.sink.is_known else nan

    def select(self, layers: Collection[int]) -> "HeadAverages":
        """Those of these layers."""
        rows = [row for row, layer in enumerate(self.layers) if layer in layers]
        averages: dict[str, Any] = {name: self.number(name).select(rows) for name in STATISTICS}
        about = {name: getattr(averages["entropy"], name) for name in ("sentences", "queries")}
        return replace(self, layers=tuple(self.layers[row] for row in rows), **about, **averages)


STATISTICS: tuple[str, ...] = tuple(f.name for f in fields(HeadAverages) if f.type is Average)
"""The names of all numbers, in their order."""


OF_A_NEEDLE = ("retrieval", "needle")
"""Those that are known of texts with a needle alone."""

SINK_ABOVE = 0.3
"""ε of Gu et al. 2024 (arXiv 2410.10781): a mean weight above this on the first key is a sink."""

N_BINS = 40
"""Of every histogram."""

_NATS_A_BIN = 0.25
_OCTAVES = tuple(2**i + quarter * 2**i / 4 for i in range(1, 10) for quarter in range(4))
_TOKENS = (0.0, 0.5, 1.0, 1.5, *_OCTAVES)

EDGES: Mapping[str, tuple[float, ...]] = {
    name: tuple(i / N_BINS for i in range(N_BINS)) for name in STATISTICS if name not in ("entropy", "distance")
} | {"entropy": tuple(_NATS_A_BIN * i for i in range(N_BINS)), "distance": _TOKENS}
"""Where the bins of each number's histogram begin: fixed, so that histograms of parts of a corpus add up."""


SHOWN = "show"
"""Of the source's details: says what stood in place of the weights, "norms"; it is not there of weights."""


@dataclass(frozen=True)
class HeadStatistics(HeadTable):
    """What every head of a model looks at.

    Attributes:
        kinds: one for each kind of attention that the model has.
        too_long: how many sentences were left out, as the model cannot read so many tokens.
        examples: the weights of all heads on some of the sentences, for a page in which heads can be looked at.
        is_recorded: whether the sentences are examples of the batches of a program that ran.
        probe: what the sentences were made for, if they are none of a corpus.
        replicates, seed: of the bootstrap that the intervals are of.
    """

    source: Source
    kinds: tuple[HeadAverages, ...]
    too_long: int = 0
    examples: Attention | None = None
    is_recorded: bool = False
    probe: Probe | None = None
    replicates: int = 0
    seed: int = 0

    @property
    def are_of_norms(self) -> bool:
        """Whether the numbers are of shares of norms, ‖A_ij · v_j W_O‖, in place of weights."""
        return self.source.details.get(SHOWN) == "norms"

    @property
    def quantity(self) -> str:
        """What the numbers are of, as it is called in files: "weight", or "norm" of shares of norms."""
        return (NORM if self.are_of_norms else WEIGHT).key

    def _about_rows(self) -> dict[str, str]:
        return {"quantity": self.quantity}

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; without examples."""
        kinds = [
            {
                "kind": kind.kind,
                "layers": kind.layers,
                "sentences": kind.sentences,
                "queries": kind.queries,
                "sink_rate": kind.sink_rate,
                "statistics": {name: kind.number(name) for name in STATISTICS},
            }
            for kind in self.kinds
        ]
        return {
            "quantity": self.quantity,
            "too_long": self.too_long,
            "probe": msgspec.to_builtins(self.probe),
            "bootstrap": {"replicates": self.replicates, "seed": self.seed, "level": LEVEL},
            "edges": EDGES,
            "kinds": kinds,
        }

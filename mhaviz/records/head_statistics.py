"""What every head of a model looks at, averaged over many sentences."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.records.attention import Attention
from mhaviz.records.brief import Brief
from mhaviz.records.shown import Shown
from mhaviz.records.source import Source
from mhaviz.records.tokens import Kind


@dataclass(frozen=True)
class Average(Brief):
    """One number of every head, over sentences: of each sentence, the mean over its queries counts once.

    Attributes:
        mean: float64, (n_layers, n_heads): the mean over the sentences; NaN where there is nothing to average, and
            where a layer has fewer heads than another.
        spread: the same shape: the standard deviation between the sentences, √(Σ (x − mean)² / (sentences − 1)); NaN
            for fewer than two.
        sentences: how many have a query that counts.
        queries: how many count, in all sentences.
    """

    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    sentences: int
    queries: int

    @property
    def is_known(self) -> bool:
        """Whether there was anything to average."""
        return bool(np.isfinite(self.mean).any())


@dataclass(frozen=True)
class HeadAverages(Brief):
    """What the heads of one kind of attention look at.

    Let a(i, j) be the weight that the query at position i of a sentence gives to the key at position j, and t(i) the
    token there. Each number is the mean over the queries i for which it is defined; padding is neither query nor key.
    A head that always looks at the previous token has exactly 1 in ``previous``, and so on.

    A number that has no meaning is NaN for all heads: what compares positions or tokens of one sentence, in
    source-target attention (all but entropy, first and separators); ``next``, in masked attention, which hides it.

    Attributes:
        kind: of attention.
        layers: their numbers, in the order of the rows of every array.
        sentences, queries: how many there were.
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
    """

    kind: Kind
    layers: tuple[int, ...]
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

    def average(self, name: str) -> Average:
        """That of a name in ``STATISTICS``."""
        average: Average = getattr(self, name)
        return average

    def select(self, layers: Collection[int]) -> "HeadAverages":
        """Those of these layers."""
        rows = [row for row, layer in enumerate(self.layers) if layer in layers]
        averages: dict[str, Any] = {
            name: replace(one, mean=one.mean[rows], spread=one.spread[rows])
            for name, one in ((name, self.average(name)) for name in STATISTICS)
        }
        return replace(self, layers=tuple(self.layers[row] for row in rows), **averages)

    def heads(self) -> Iterator[tuple[int, int]]:
        """(row, column) of every head that there is, layer by layer."""
        for row, column in np.argwhere(np.isfinite(self.entropy.mean)):
            yield int(row), int(column)


STATISTICS: tuple[str, ...] = tuple(f.name for f in fields(HeadAverages) if f.type is Average)
"""The names of all numbers, in their order."""


@dataclass(frozen=True)
class HeadStatistics(Shown):
    """What every head of a model looks at.

    Attributes:
        kinds: one for each kind of attention that the model has.
        too_long: how many sentences were left out, as the model cannot read so many tokens.
        examples: the weights of all heads on some of the sentences, for a page in which heads can be looked at.
        is_recorded: whether the sentences are examples of the batches of a program that ran.
    """

    source: Source
    kinds: tuple[HeadAverages, ...]
    too_long: int = 0
    examples: Attention | None = None
    is_recorded: bool = False

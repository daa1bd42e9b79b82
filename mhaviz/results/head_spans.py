"""How much heads look at each span of texts, such as the turns of chats, averaged over many."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.attention import head_name
from mhaviz.results.head_numbers import BOOTSTRAP, LEAST_FOR_INTERVAL, AverageOfFew, HeadsOfKind, HeadTable
from mhaviz.results.result import Source
from mhaviz.results.span_ranking import LEAST_MASS, TURNS


@dataclass(frozen=True)
class SpansOfKind(HeadsOfKind):
    """Numbers of the heads of one kind of attention, over texts.

    Attributes:
        query: name of the span of the queries.
        texts: number of texts, each of which has queries of the span.
        spans: of each span, the mean weight that its queries give it, ``SpanNumbers.mass``,
            beside the mean ``SpanNumbers.chance``.
        rest: float64, (n_layers, n_heads), mean weight on keys in no span.
        sinks: float64, (n_layers, n_heads), mean weight on sinks.
        lookback: mean lookback ratio of the queries; NaN: they have none.
    """

    query: str
    texts: int
    spans: dict[str, AverageOfFew]
    rest: NDArray[np.float64]
    sinks: NDArray[np.float64]
    lookback: AverageOfFew

    @property
    def numbers(self) -> dict[str, Any]:
        """See ``HeadsOfKind``."""
        return self.spans

    def number(self, name: str) -> Any:
        """See ``HeadsOfKind``."""
        return self.spans[name]

    def ratios(self, span: str) -> NDArray[np.float64]:
        """Return mean weight / mean weight of uniform attention, (n_layers, n_heads); NaN where nothing is seen."""
        mean, chance = self.spans[span].mean, self.spans[span].chance
        return np.divide(mean, chance, out=np.full_like(mean, np.nan), where=chance > 0)

    @cached_property
    def best(self) -> tuple[str, int, int] | None:
        """The common span and the place of the head with the largest ratio, among those with at least 5% of the weight
        on it; None: there is none."""
        found = list[tuple[float, str, int, int]]()
        for span in self.common:
            ratios = np.where(self.spans[span].mean >= LEAST_MASS, self.ratios(span), -1.0)
            row, column = map(int, np.unravel_index(np.argmax(ratios), ratios.shape))
            found.append((float(ratios[row, column]), span, row, column))
        ratio, span, row, column = max(found, default=(-1.0, "", 0, 0))
        return (span, row, column) if ratio >= 0 else None

    @property
    def others(self) -> list[str]:
        """Names of the spans but for that of the queries."""
        return [span for span in self.spans if span != self.query]

    @property
    def common(self) -> list[str]:
        """Names of the other spans that at least half of the texts have."""
        return [span for span in self.others if 2 * self.spans[span].sentences >= self.texts]

    def name_of(self, row: int, column: int) -> str:
        """Return the name of a head, "L3 H5"."""
        return head_name(self.layers[row], column)

    def turns(self, span: str, row: int, column: int) -> bool:
        """Return whether a head turns to a span: twice uniform, and 5% of the weight."""
        number = self.spans[span]
        return bool(number.mean[row, column] >= LEAST_MASS and self.ratios(span)[row, column] >= TURNS)


@dataclass(frozen=True)
class HeadSpans(HeadTable):
    """How much the queries of one span of texts look at the other spans.

    Attributes:
        kinds: one for each kind of attention within a text.
        query: name of the span of the queries.
        without: number of texts left out, as they have no such span.
        too_long: number of texts left out because they have more tokens than the model can read.
    """

    source: Source
    kinds: tuple[SpansOfKind, ...]
    query: str
    without: int = 0
    too_long: int = 0

    @property
    def texts(self) -> int:
        """Number of texts."""
        return max(kind.texts for kind in self.kinds)

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``."""
        return {
            "query": self.query,
            "texts": self.texts,
            "without_query": self.without,
            "too_long": self.too_long,
            "bootstrap": BOOTSTRAP | {"least": LEAST_FOR_INTERVAL},
            "kinds": [
                {
                    "kind": kind.kind,
                    "layers": kind.layers,
                    "spans": kind.spans,
                    "rest": kind.rest,
                    "sinks": kind.sinks,
                    "lookback": kind.lookback,
                    "best": kind.best and {"span": kind.best[0], "head": kind.name_of(*kind.best[1:])},
                }
                for kind in self.kinds
            ],
        }

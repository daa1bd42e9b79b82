"""How much heads look at each span of texts, averaged over many: a map by span of each text, one text at a time."""

from collections import defaultdict
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.analyses.averages import averages
from mhaviz.analyses.span_numbers import span_numbers
from mhaviz.analyses.sums import stacked
from mhaviz.attention.model import Inputs, Model
from mhaviz.errors import ArgumentError, quoted
from mhaviz.inputs.span_choice import SpanChoice
from mhaviz.inputs.tokens import OF_ONE_TEXT, Kind
from mhaviz.results.attention import AttentionMap
from mhaviz.results.head_numbers import AverageOfFew
from mhaviz.results.head_spans import HeadSpans, SpansOfKind
from mhaviz.results.result import Source
from mhaviz.results.span_numbers import REST

_SINKS, _LOOKBACK = "sinks", "lookback"

_Numbers = dict[str, NDArray[np.float64]]


class SpanStudy:
    """What the queries of a span look at, over texts.

    Args:
        query: name of the span; None: the last span of the first text.
    """

    def __init__(self, query: str | None) -> None:
        self.query = query
        self._layers = dict[Kind, tuple[int, ...]]()
        self._texts = defaultdict[Kind, list[tuple[_Numbers, _Numbers]]](list)
        self._spans = dict[str, None]()
        self.without = 0

    def add(self, model: Model, inputs: Inputs, choice: SpanChoice) -> None:
        """Add one text, which is left out if it has no queries of the span.

        Raises:
            ArgumentError: as what finds the spans; the model has no attention within a text.
            MhavizError: as ``Model.run``.
        """
        source = inputs.texts[0].source
        spans = [span.name for span in choice.of_text(None)(source)]
        if self.query is None:
            self.query = max(choice.of_text(None)(source), key=lambda span: span.ranges[-1]).name
        if self.query not in spans:
            self.without += 1
            return
        kinds = dict.fromkeys(site.kind for site in model.sites(inputs))
        within = [kind for kind in kinds if kind in OF_ONE_TEXT and inputs.texts[0].sides(kind) == (source, source)]
        if not within:
            raise ArgumentError(f"expected attention within a text, got {' and '.join(kinds)}")
        maps = span_numbers(model, inputs, choice).maps
        for kind in within:
            layers = [m for m in maps if m.kind == kind]
            self._layers[kind] = tuple(m.layer or 0 for m in layers)
            self._texts[kind].append(_of_text(layers, self.query))
            self._spans |= dict.fromkeys(name for m in layers for name in _spans_of(m))

    def result(self, source: Source, too_long: int) -> HeadSpans:
        """Return the means over the texts so far. Raises ArgumentError if none has the span."""
        if not self._texts:
            raise ArgumentError(f"expected texts with a span {quoted(self.query)}, got none")
        assert self.query is not None
        kinds = tuple(self._kind(kind, layers) for kind, layers in self._layers.items())
        n_texts = len(next(iter(self._texts.values())))
        return HeadSpans(source, kinds, self.query, n_texts, self.without, too_long)

    def _kind(self, kind: Kind, layers: tuple[int, ...]) -> SpansOfKind:
        texts = self._texts[kind]
        shape = next(iter(texts[0][0].values())).shape
        names = [*self._spans, REST, _SINKS, _LOOKBACK]
        nothing = np.full(shape, nan)
        values = np.array([np.stack([of.get(name, nothing) for name in names], axis=-1) for of, _ in texts])
        chances = np.array([np.stack([of.get(name, nothing) for name in names], axis=-1) for _, of in texts])
        has = np.isfinite(values).any(axis=2)  # texts n_layers numbers
        n = np.maximum(has.sum(axis=0), 1)[:, None]
        chance = np.where(has[:, :, None], np.nan_to_num(chances), 0.0).sum(axis=0) / n
        found: dict[str, dict[str, Any]] = averages(values, has, names)
        numbers = {name: AverageOfFew(**found[name], chance=chance[..., i]) for i, name in enumerate(names)}
        lookback = replace(numbers.pop(_LOOKBACK), chance=np.full(shape, 0.5))
        rest, sinks = (np.nan_to_num(numbers.pop(name).mean) for name in (REST, _SINKS))
        assert self.query is not None
        return SpansOfKind(kind, layers, self.query, numbers, rest, sinks, lookback)


def _spans_of(m: AttentionMap) -> list[str]:
    """Return the names of the columns that are spans."""
    assert m.chance is not None
    return [m.keys[j] for j in np.flatnonzero(~np.isnan(m.chance).all(axis=(0, 1)))]


def _of_text(layers: list[AttentionMap], query: str) -> tuple[_Numbers, _Numbers]:
    """Return the weights that the queries of a span give each span, and those of uniform attention, each (n_layers,
    n_heads), by the name of the span; and the lookback ratio."""
    row = layers[0].queries.index(query)
    spans = _spans_of(layers[0])
    masses, chances = dict[str, list[NDArray[np.float64]]](), dict[str, list[NDArray[np.float64]]]()
    for m in layers:
        assert m.chance is not None
        assert m.lookback is not None
        weights, chance = m.weights[:, row].astype(np.float64), m.chance[:, row].astype(np.float64)
        own = {name: weights[:, m.keys.index(name)] for name in spans}
        is_rest = np.array([name == REST for name in m.keys])
        is_rest[: len(spans)] = False
        is_sink = np.arange(len(m.keys)) >= len(spans) + is_rest.sum()
        own |= {REST: weights[:, is_rest].sum(axis=1), _SINKS: weights[:, is_sink].sum(axis=1)}
        own[_LOOKBACK] = m.lookback[:, row].astype(np.float64)
        for name, number in own.items():
            masses.setdefault(name, []).append(number)
        for name in spans:
            chances.setdefault(name, []).append(chance[:, m.keys.index(name)])
    return {name: stacked(of) for name, of in masses.items()}, {name: stacked(of) for name, of in chances.items()}

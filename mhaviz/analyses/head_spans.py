"""How much heads look at each span of texts, averaged over many: a map by span of each text, one text at a time."""

from collections import defaultdict
from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhaviz.analyses.averages import averages
from mhaviz.analyses.span_numbers import MapBesideUniform, maps_beside_uniform
from mhaviz.analyses.sums import stacked
from mhaviz.attention.model import Inputs, Model
from mhaviz.errors import ArgumentError, counted, parameter, quoted
from mhaviz.inputs.span_choice import SpanChoice
from mhaviz.inputs.tokens import OF_ONE_TEXT, Kind
from mhaviz.results.head_numbers import AverageOfFew
from mhaviz.results.head_spans import HeadSpans, SpansOfKind
from mhaviz.results.result import Source

_Numbers = dict[str, NDArray[np.float64]]
"""Of each span, a number of each head, (n_layers, n_heads)."""


class _OfText(NamedTuple):
    """Numbers of the heads for one text, each (n_layers, n_heads): weights and those of uniform attention by span,
    weights on the rest and on sinks, and the lookback ratio, also of uniform attention."""

    masses: _Numbers
    chances: _Numbers
    rest: NDArray[np.float64]
    sinks: NDArray[np.float64]
    lookback: NDArray[np.float64]
    uniform_lookback: NDArray[np.float64]


class SpanStudy:
    """What the queries of a span look at, over texts.

    Args:
        query: name of the span; None: the last span of the first text.
    """

    def __init__(self, query: str | None) -> None:
        self.query = query
        self._layers = dict[Kind, tuple[int, ...]]()
        self._texts = defaultdict[Kind, list[_OfText]](list)
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
        maps = maps_beside_uniform(model, inputs, choice)
        for kind in within:
            layers = [of_layer for of_layer in maps if of_layer.map.kind == kind]
            self._layers[kind] = tuple(m.layer or 0 for m, _ in layers)
            self._texts[kind].append(_of_text(layers, self.query))
            self._spans |= dict.fromkeys(self._texts[kind][-1].masses)

    def result(self, source: Source, too_long: int) -> HeadSpans:
        """Return the means over the texts so far; ``too_long``: number of texts that the model cannot read.

        Raises:
            ArgumentError: no text has the span; the model can read none.
        """
        left_out = f"{counted(too_long, 'text')} left out: longer than the model can read"
        if self.query is None or not (self._texts or self.without):
            raise ArgumentError(f"expected at least one text that the model can read, got none: {left_out}")
        if not self._texts:
            raise ArgumentError(
                f"{parameter('query')}: expected texts with a span {quoted(self.query)}, got none among "
                f"{counted(self.without, 'text')}{f'; {left_out}' * bool(too_long)}"
            )
        kinds = tuple(self._kind(kind, layers) for kind, layers in self._layers.items())
        return HeadSpans(source, kinds, self.query, self.without, too_long)

    def _kind(self, kind: Kind, layers: tuple[int, ...]) -> SpansOfKind:
        texts, names = self._texts[kind], [*self._spans]
        nothing = np.full(texts[0].rest.shape, nan)
        others = [np.stack([text.rest, text.sinks, text.lookback], axis=-1) for text in texts]
        masses, chances = (
            np.array([np.stack([of_text.get(name, nothing) for name in names], axis=-1) for of_text in of_texts])
            for of_texts in zip(*((text.masses, text.chances) for text in texts), strict=True)
        )
        values = np.concatenate([masses, others], axis=-1)  # texts n_layers n_heads numbers
        has = np.isfinite(values).any(axis=2)
        n = np.maximum(has[..., : len(names)].sum(axis=0), 1)[:, None]
        chance = np.nan_to_num(chances).sum(axis=0) / n
        found = [*averages(values, has, list(map(str, range(values.shape[-1])))).values()]
        rest, sinks, lookback = found[len(names) :]
        spans = {name: AverageOfFew(**found[i], chance=chance[..., i]) for i, name in enumerate(names)}
        looks_back = AverageOfFew(**lookback, chance=_mean([text.uniform_lookback for text in texts]))
        assert self.query is not None
        return SpansOfKind(kind, layers, self.query, len(texts), spans, rest["mean"], sinks["mean"], looks_back)


def _mean(of_texts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the mean over the texts that have a number; NaN: none has."""
    has = np.isfinite(of_texts)
    sums, n = np.sum(of_texts, axis=0, where=has), has.sum(axis=0)
    means: NDArray[np.float64] = np.divide(sums, n, out=np.full(n.shape, nan), where=n > 0)
    return means


def _of_text(layers: list[MapBesideUniform], query: str) -> _OfText:
    """Return the numbers of the queries of a span, from the maps of a text by span, which have the same columns."""
    first = layers[0].map
    row = first.queries.index(query)
    weights, chance, lookback, uniform_lookback = (
        stacked([x[:, row].astype(np.float64) for x in of_layers if x is not None])
        for of_layers in zip(*((m.weights, m.chance, m.lookback, uniform) for m, uniform in layers), strict=True)
    )
    are_spans = ~first.are_apart
    are_sinks = np.isin(np.arange(len(first.keys)), first.sinks.keys if first.sinks else [])
    masses, chances = (
        {first.keys[j]: x[..., j] for j in np.flatnonzero(are_spans).tolist()} for x in (weights, chance)
    )
    rest, sinks = (weights[..., those].sum(axis=2) for those in (~are_spans & ~are_sinks, are_sinks))
    return _OfText(masses, chances, rest, sinks, lookback, uniform_lookback)

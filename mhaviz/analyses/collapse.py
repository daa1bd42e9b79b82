"""Collapse of attention heads, told from a few numbers of each head while a model learns.

Zhai et al. 2023 (arXiv 2303.06296) call pathologically low attention entropy, with highly concentrated scores, entropy
collapse, which comes with losses that oscillate or diverge. They give no number. The signs here are:

- entropy: below ``COLLAPSED`` of that of uniform weights in ``CONSECUTIVE`` samples in a row, with scores above
  ``SHARP_SCORE``, after it was above ``HEALTHY``. Where scores are not known, it is below ``COLLAPSED_ALONE``.
- scores: the largest is above ``LARGE_SCORE``, and ``GROWTH`` times as large as in the first sample.
- not finite: scores or weights are NaN or infinite.

Each is told once of a head. A head that has learnt to look at one key, as in copying, has not collapsed: those of
``samples/reverse.py`` have 0.015 of the entropy of uniform weights, with scores of 20. Of one that is sharp from the
start it is not known; see ``Health.sharp_from_start``.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from mhaviz.inputs.tokens import Kind
from mhaviz.results.health import COLLAPSED, SHARP_SCORE, Collapse, Sign

COLLAPSED_ALONE, HEALTHY = 0.001, 0.2
"""Entropy, as a share of that of uniform weights, below which a head has collapsed whatever its scores, and above which
it is well."""

CONSECUTIVE = 2
"""Number of samples in a row with so low an entropy: one alone may be of an unusual batch."""

LARGE_SCORE, GROWTH = 100.0, 10.0
"""Largest score that is well, and the growth since the first sample above which it is not. Kimi K2 (arXiv 2507.20534,
section 2.1) clips scores to 100. In float32, exp(−104) is 0: weights of other keys, and gradients, vanish."""


@dataclass
class _Head:
    """What is kept of a head.

    Attributes:
        first: number of the first sample, and the largest score in it.
        healthy: number of the last sample with a healthy entropy, and its entropy; None: there was none.
        low: the samples in a row with a low entropy, as (pass, entropy, entropy of uniform weights).
        told: signs that were seen.
    """

    first: tuple[int, float]
    healthy: tuple[int, float] | None = None
    low: list[tuple[int, float, float]] = field(default_factory=list)
    told: set[Sign] = field(default_factory=set)


class CollapseRule:
    """Finds collapses as samples come."""

    def __init__(self) -> None:
        self._heads: dict[tuple[int, int], _Head] = {}

    def collapses(
        self,
        attention: int,
        kind: Kind,
        layer: int,
        head: int,
        number: int,
        largest: float,
        entropy: float,
        uniform: float,
    ) -> Iterator[Collapse]:
        """Take the numbers of a head in a sampled pass, and iterate over the signs of a collapse that are new.

        Args:
            attention: identifies the attention, whose kind and layer may become known later.
            kind, layer, head: the head.
            number: number of the pass.
            largest: largest score; NaN: not known, or some score is NaN.
            entropy, uniform: entropy, and that of uniform weights.
        """
        state = self._heads.setdefault((attention, head), _Head((number, largest)))

        def found(sign: Sign, at: int, value: float, of: float, before: tuple[int, float]) -> Iterator[Collapse]:
            if sign not in state.told:
                state.told.add(sign)
                yield Collapse(sign, kind, layer, head, at, value, of, before[1], before[0])

        if (uniform > 0 and math.isnan(entropy)) or math.isinf(largest):
            yield from found("not finite", number, largest, uniform, state.first)
            return
        share = entropy / uniform if uniform > 0 else math.nan
        is_low = share < (COLLAPSED if largest > SHARP_SCORE else COLLAPSED_ALONE if math.isnan(largest) else 0)
        state.low = [*state.low[1 - CONSECUTIVE :], (number, entropy, uniform)] if is_low else []
        if share > HEALTHY:
            state.healthy = number, entropy
        if len(state.low) == CONSECUTIVE and state.healthy is not None:
            yield from found("entropy", *state.low[0], state.healthy)
        if largest > LARGE_SCORE and largest > GROWTH * state.first[1]:
            yield from found("scores", number, largest, uniform, state.first)

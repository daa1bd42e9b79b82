"""Heads on which predictions depend: an estimate from gradients, beside what zeroing each head does."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mhaviz.results.head_numbers import BOOTSTRAP, HeadNumbers, HeadsOfKind, HeadTable
from mhaviz.results.relevance import Explained, rank_correlation
from mhaviz.results.result import Source


@dataclass(frozen=True)
class RelevantHeads(HeadsOfKind):
    """Numbers of the heads of one kind of attention, for a scalar y of each text.

    Let ξ be a factor of a head's output, which is 1, and 0 if the head is zeroed.

    Attributes:
        estimate: |∂y/∂ξ| = |Σ_ij A_ij ∂y/∂A_ij|, the size of the change of y without the head to first order, in units
            of y (Michel et al. 2019, arXiv 1905.10650, section 4.1).
        fall: y less y with the head zeroed.
        change: KL(p ‖ q) of the distribution p over all choices, and q with the head zeroed, in bits, as of
            ``Ablation``; NaN where y is not the logit of one of several choices.
    """

    estimate: HeadNumbers
    fall: HeadNumbers
    change: HeadNumbers


NUMBERS = ("estimate", "fall", "change")
"""Names of the numbers of ``RelevantHeads``, in order."""


@dataclass(frozen=True)
class HeadRelevance(HeadTable):
    """Heads on which the predictions of a model depend, averaged over texts.

    Attributes:
        source: the model.
        explained: what y is in the first text; where the top prediction is explained, each text has a y of its own.
        kinds: one for each kind of attention.
        sentences: number of texts.
        too_long: number of texts left out because they have more tokens than the model can read.
    """

    source: Source
    explained: Explained
    kinds: tuple[RelevantHeads, ...]
    sentences: int
    too_long: int = 0

    @property
    def compared(self) -> str:
        """Number by which zeroing is measured: "change", or "fall" where that is not known."""
        return "change" if any(kind.change.is_known for kind in self.kinds) else "fall"

    @property
    def agreement(self) -> float | None:
        """Spearman's rank correlation over all heads between the estimate and the size of what zeroing changes; None:
        there are fewer than three heads."""
        estimates, changes = (
            np.concatenate([np.abs(kind.number(name).mean).ravel() for kind in self.kinds])
            for name in ("estimate", self.compared)
        )
        known = np.isfinite(estimates) & np.isfinite(changes)
        return rank_correlation(estimates[known], changes[known])

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``."""
        about = {name: getattr(self, name) for name in ("sentences", "too_long", "agreement", "compared", "kinds")}
        return {"explained": vars(self.explained)} | about | {"bootstrap": BOOTSTRAP}

"""Heads on which predictions depend: the gradient at a factor of each head's output, and what zeroing it changes."""

from collections.abc import Callable, Collection, Sequence
from math import nan

import numpy as np

from mhaviz.analyses.bootstrap import add_numbers, head_numbers, number_shapes, poisson_weights
from mhaviz.analyses.predictions import divergence
from mhaviz.analyses.sums import Sums, stacked
from mhaviz.attention.model import CorpusModel, Site
from mhaviz.attention.targets import Score, Why
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import KIND_NAMES, Kind, Text
from mhaviz.results.head_numbers import HeadNumbers
from mhaviz.results.head_relevance import NUMBERS, HeadRelevance, RelevantHeads
from mhaviz.results.relevance import Explained
from mhaviz.results.result import Source


class HeadRelevanceStudy:
    """Running averages of what each head is worth for a scalar y of each text.

    Args:
        model: the model; the heads of its selected attentions are measured.
        why: see ``Model.target``.
        heads: indices of the heads in each attention; None: all.
    """

    def __init__(self, model: CorpusModel, why: Why, heads: Collection[int] | None = None) -> None:
        self._model, self._why = model, why
        self._heads = [
            (site, head) for site in model.sites() for head in range(site.n_heads) if heads is None or head in heads
        ]
        self._sums = {site: Sums(number_shapes(site.n_heads, len(NUMBERS))) for site, _ in self._heads}
        self._explained: Explained | None = None
        self._texts = 0

    @property
    def n_passes(self) -> int:
        """Number of passes for each text."""
        return 2 + len(self._heads)

    def add(self, text: Text, number: int, on_pass: Callable[[int], None] = lambda done: None) -> None:
        """Add a text.

        Args:
            text: the text.
            number: its index in the corpus, from 0.
            on_pass: called with the number of passes that are done.

        Raises:
            ArgumentError, MhavizError: as ``Model.target`` and ``Model.graded``.
        """
        target = self._model.target(self._why, text)
        self._explained, self._texts = self._explained or target.explained, self._texts + 1
        run = self._model.graded(text, target)
        estimates = {site: graded.head_sums() for site, graded in run.attentions}
        on_pass(2)
        values = {site: np.zeros((1, site.n_heads, len(NUMBERS))) for site in self._sums}
        for done, (site, head) in enumerate(self._heads, 3):
            zeroed = self._model.zeroing([(site, head)]).score(text, target)
            estimate = abs(float(estimates[site][head])) if site in estimates else 0.0
            values[site][0, head] = estimate, run.score.y - zeroed.y, _change(run.score, zeroed)
            on_pass(done)
        has = np.array([[True, True, run.score.row is not None]])
        for site, sums in self._sums.items():
            add_numbers(sums, values[site], has, poisson_weights([number]))

    def result(self, source: Source, too_long: int = 0) -> HeadRelevance:
        """Return the averages so far; ``too_long``: number of texts that could not be read."""
        if self._explained is None:
            raise MhavizError("expected a text that the model can read, got none")
        there = {site.kind for site in self._sums}
        kinds = tuple(self._of_kind(kind) for kind in KIND_NAMES if kind in there)
        return HeadRelevance(source, self._explained, kinds, self._texts, too_long)

    def _of_kind(self, kind: Kind) -> RelevantHeads:
        sites = sorted((site for site in self._sums if site.kind == kind), key=lambda site: site.layer)
        numbers = {name: self._number(sites, place) for place, name in enumerate(NUMBERS)}
        return RelevantHeads(kind, tuple(site.layer for site in sites), **numbers)

    def _number(self, sites: Sequence[Site], place: int) -> HeadNumbers:
        """Return one number for all layers; NaN for heads that were not chosen, and where a layer has fewer heads."""
        sums = [self._sums[site] for site in sites]
        chosen = stacked([np.array([(site, head) in self._heads for head in range(site.n_heads)]) for site in sites], 0)
        numbers = {name: np.where(chosen, values, nan) for name, values in head_numbers(sums, place).items()}
        return HeadNumbers(**numbers, sentences=int(sums[0]["count"][0, place]))


def _change(before: Score, after: Score) -> float:
    """Return KL(p ‖ q) of the choices with all heads, p, and without one, q, in bits; 0 if there are no choices."""
    if before.row is None or after.row is None:
        return 0.0
    bits, _ = divergence(before.row[None], after.row[None], np.array([-1]))
    return float(bits[0])

"""The four stages of a head as panels, the same in the terminal and in figures."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mhaviz.pages.panels import Panel, Scale
from mhaviz.pages.projections import Pair
from mhaviz.records.projections import ProjectionComparison, ProjectionStage
from mhaviz.views.labels import bare, cut, position_suffixes
from mhaviz.views.style import Style

DIVERGENCE = "Purples"  # no map of weights: white is the same, the darkest has nothing in common
MOST_FEATURES = 24
"""Of the outputs, the first features that are drawn: a cell of each can still be told from the next."""

_PAIR_CELLS = 14  # cells of the terminal for each of the two words that serve as an example


def shown_pair(c: ProjectionComparison, shown: Callable[[str], str]) -> Pair:
    """The two words that serve as an example; ``shown`` makes a token fit to be shown."""
    if c.pair is None:
        return None
    suffixes = position_suffixes(c.tokens)
    first, second = (cut(shown(bare(c.tokens[i])), _PAIR_CELLS) + suffixes[i] for i in c.pair)
    return first, second


def score_scale(c: ProjectionComparison) -> Scale:
    """One scale for the scores of all stages. It ends at the largest score of two different words.

    A word's score for itself is several times larger in the first two stages, and would leave all others pale.
    """
    scores = np.stack([stage.scores for stage in c.stages])
    if len(c.tokens) > 1:
        scores = scores[:, ~np.eye(len(c.tokens), dtype=np.bool_)]
    return Scale.around_zero(scores)


def weight_scale(c: ProjectionComparison, style: Style) -> Scale:
    """One scale for the weights of all stages and all heads."""
    style.require_of_weights()
    return Scale(style.cmap, 0.0, style.vmax or 1.0)


def score_panel(stage: ProjectionStage, scale: Scale, title: str = "scores S") -> Panel:
    """The scores of one stage."""
    return Panel(title, stage.scores, scale)


def weight_panel(stage: ProjectionStage, scale: Scale, title: str = "weights A = softmax(S)") -> Panel:
    """The weights of one stage; blank where a query leaves itself out."""
    return Panel(title, np.where(np.isnan(stage.scores), np.float32(np.nan), stage.weights), scale)


def output_scale(c: ProjectionComparison) -> Scale:
    """One scale for the outputs of all stages, as far as they are drawn."""
    return Scale.around_zero(np.stack([_first_features(stage) for stage in c.stages]))


def output_panel(stage: ProjectionStage, scale: Scale) -> Panel:
    """The first features of the outputs of one stage, (q_length, features)."""
    shown, d_model = _first_features(stage), stage.outputs.shape[1]
    features = f", features 0–{shown.shape[1] - 1} of {d_model}" if shown.shape[1] < d_model else ""
    return Panel(f"outputs O{features}", shown, scale)


def _first_features(stage: ProjectionStage) -> NDArray[np.float32]:
    return stage.outputs[:, :MOST_FEATURES]


def head_weight_panels(c: ProjectionComparison, scale: Scale) -> list[Panel]:
    """The weights of every head."""
    left_out = np.isnan(c.stages[0].scores)
    return [
        Panel(f"head {i}", np.where(left_out, np.float32(np.nan), weights), scale) for i, weights in enumerate(c.heads)
    ]


def divergence_panel(c: ProjectionComparison) -> Panel:
    """Heads × heads."""
    return Panel("divergence of heads", c.divergence.astype(np.float32), Scale(DIVERGENCE))

"""The four stages of a head in words and as panels, the same in the terminal and in figures."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mhaviz.records import ProjectionComparison, ProjectionStage
from mhaviz.views.labels import bare, cut, position_suffixes, visible
from mhaviz.views.look import Look
from mhaviz.views.panels import Panel, Scale

DIVERGENCE = "Purples"  # no map of weights: white is the same, the darkest has nothing in common
SCORE_REMARK = "scores; a word's own may lie beyond"
_PAIR_CELLS = 14  # cells of the terminal for each of the two words that serve as an example


@dataclass(frozen=True)
class StageText:
    """What stands over and under one stage.

    Attributes:
        name: with its number.
        formula: the scores and the outputs.
        remark: what the stage shows, in a sentence or two.
        numbers: (name, number), the measures of the stage.
    """

    name: str
    formula: str
    remark: str
    numbers: tuple[tuple[str, str], ...]


def stage_texts(c: ProjectionComparison, shown: Callable[[str], str] = visible) -> list[StageText]:
    """The words for every stage; ``shown`` makes a token fit to be shown."""
    root = f"√{c.d_model}"
    formulas = (
        f"S = x·x / {root},  O = A X",
        f"S = Wx·Wx / {root},  O = A X",
        f"S = Wq x·Wk x / {root},  O = A X",
        f"S = Wq x·Wk x / {root},  O = A V,  V = X Wv",
    )
    names = (
        "1  plain self-attention",
        "2  one projection W, shared",
        "3  queries and keys: Wq and Wk",
        "4  values as well: Wv",
    )
    stages = zip(names, formulas, _remarks(c, shown), c.stages, strict=True)
    return [StageText(name, formula, remark, _numbers(c, stage, shown)) for name, formula, remark, stage in stages]


def _remarks(c: ProjectionComparison, shown: Callable[[str], str]) -> tuple[str, str, str, str]:
    pair = _pair(c, shown)
    if pair is None:
        alike, broken = "one word has no other", "the symmetry can break, but not with one word"
    else:
        alike = f"“{pair[0]} {pair[1]}” and “{pair[1]} {pair[0]}” look alike"
        broken = "the symmetry breaks"
    return (
        _likeness(c),
        f"W chooses which features are compared. S is still symmetric: {alike}.",
        f"What a word asks for is no longer what it offers: {broken}.",
        "S and A are those of stage 3, but the outputs are no longer weighted averages of the inputs.",
    )


def _likeness(c: ProjectionComparison) -> str:
    if c.exclude_self:
        return "A word is compared with every other, but not with itself. Likeness is mutual: S is symmetric."
    share = f"{c.stages[0].self_weight:.0%} of its weight"
    if c.stages[0].self_weight > 0.5:
        return f"A word is most like itself, and gives itself {share} on average; --exclude-self leaves it out."
    return f"S is how alike two words are, which is mutual; a word gives itself {share} on average."


def _numbers(
    c: ProjectionComparison, stage: ProjectionStage, shown: Callable[[str], str]
) -> tuple[tuple[str, str], ...]:
    numbers = [
        ("asymmetry ‖S − Sᵀ‖ / ‖S‖", ratio_text(stage.asymmetry)),
        ("from averages ‖O − A X‖ / ‖A X‖", ratio_text(stage.departure)),
    ]
    if not c.exclude_self:
        numbers.append(("mean weight on itself", f"{stage.self_weight:.2f}"))
    pair = _pair(c, shown)
    if pair and c.pair:
        (i, j), (first, second) = c.pair, pair
        numbers.append((f"score of {first} → {second}", f"{stage.scores[i, j]:z.1f}"))
        numbers.append((f"score of {second} → {first}", f"{stage.scores[j, i]:z.1f}"))
    return tuple(numbers)


def _pair(c: ProjectionComparison, shown: Callable[[str], str]) -> tuple[str, str] | None:
    if c.pair is None:
        return None
    suffixes = position_suffixes(c.tokens)
    first, second = (cut(shown(bare(c.tokens[i])), _PAIR_CELLS) + suffixes[i] for i in c.pair)
    return first, second


def ratio_text(ratio: float | None) -> str:
    """A number of two decimals; a dash for 0 / 0."""
    return "–" if ratio is None else f"{ratio:z.2f}"


def split_text(c: ProjectionComparison) -> str:
    """What the heads are, over their maps."""
    n_heads = len(c.heads)
    features = f"{c.d_model // n_heads} feature{'s' * (c.d_model != n_heads)}"
    return f"the same matrices as {n_heads} heads of {features} each" if n_heads > 1 else f"one head of {features}"


def divergence_text(c: ProjectionComparison) -> str:
    """How unlike the heads are, in a sentence or two."""
    if c.mean_divergence is None:
        return "One head: there is no other to differ from."
    n_pairs = len(c.heads) * (len(c.heads) - 1) // 2
    pairs = f"the {n_pairs} pairs of heads" if n_pairs > 1 else "the two heads"
    return (
        f"Jensen–Shannon divergence, 0 the same, 1 nothing in common; {c.mean_divergence:.2f} on average over {pairs}. "
        "Heads that differ see different things: the reason for having several."
    )


def score_scale(c: ProjectionComparison) -> Scale:
    """One scale for the scores of all stages. It ends at the largest score of two different words.

    A word's score for itself is several times larger in the first two stages, and would leave all others pale.
    """
    scores = np.stack([stage.scores for stage in c.stages])
    if np.isnan(scores).all():
        return Scale.around_zero(np.ones(1, np.float32))
    if len(c.tokens) > 1:
        scores = scores[:, ~np.eye(len(c.tokens), dtype=np.bool_)]
    return Scale.around_zero(scores)


def weight_scale(c: ProjectionComparison, look: Look) -> Scale:
    """One scale for the weights of all stages and all heads."""
    largest = look.vmax
    if largest is None:
        largest = max(float(weights.max()) for weights in (*(stage.weights for stage in c.stages), c.heads))
    return Scale(look.cmap, 0.0, largest or 1.0)


def score_panel(stage: ProjectionStage, scale: Scale, title: str = "scores S") -> Panel:
    """The scores of one stage."""
    return Panel(title, stage.scores, scale)


def weight_panel(stage: ProjectionStage, scale: Scale, title: str = "weights A = softmax(S)") -> Panel:
    """The weights of one stage; grey where a query leaves itself out."""
    return Panel(title, np.where(np.isnan(stage.scores), np.float32(np.nan), stage.weights), scale)


def head_weight_panels(c: ProjectionComparison, scale: Scale) -> list[Panel]:
    """The weights of every head."""
    left_out = np.isnan(c.stages[0].scores)
    return [
        Panel(f"head {i}", np.where(left_out, np.float32(np.nan), weights), scale) for i, weights in enumerate(c.heads)
    ]


def divergence_panel(c: ProjectionComparison) -> Panel:
    """Heads × heads."""
    return Panel("divergence of heads", c.divergence.astype(np.float32), Scale(DIVERGENCE))

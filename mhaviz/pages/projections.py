"""The four stages of a head, and how unlike heads are, in words."""

from dataclasses import dataclass

from mhaviz.pages.blocks import NOTHING, Title
from mhaviz.pages.words import attention_title
from mhaviz.records.projections import ProjectionComparison, ProjectionStage
from mhaviz.records.tokens import Tokens

SCORE_REMARK = "scores; a word's own may lie beyond"
OUTLINED = "outlined: the two words that score each other most unlike in stage 3"

Pair = tuple[str, str] | None
"""The two words that serve as an example, as a medium can show them; None: there is but one."""


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


def projections_title(c: ProjectionComparison) -> Title:
    """Over everything."""
    return attention_title("self", Tokens(c.tokens), Tokens(c.tokens))


def stage_texts(c: ProjectionComparison, pair: Pair) -> list[StageText]:
    """The words for every stage."""
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
    stages = zip(names, formulas, _remarks(c, pair), c.stages, strict=True)
    return [StageText(name, formula, remark, _numbers(c, stage, pair)) for name, formula, remark, stage in stages]


def _remarks(c: ProjectionComparison, pair: Pair) -> tuple[str, str, str, str]:
    if pair is None:
        alike, broken = "one word has no other", "the symmetry can break, but not with one word"
    else:
        alike = f"“{pair[0]} {pair[1]}” and “{pair[1]} {pair[0]}” look alike"
        broken = f"the symmetry breaks, most between “{pair[0]}” and “{pair[1]}”"
    return (
        _likeness(c),
        f"W chooses which features are compared. S is still symmetric: {alike}.",
        f"What a word asks for is no longer what it offers: {broken}.",
        "S and A are those of stage 3, but the outputs are no longer weighted averages of the inputs.",
    )


def _likeness(c: ProjectionComparison) -> str:
    if not c.include_self:
        return "A word is compared with every other, but not with itself. Likeness is mutual: S is symmetric."
    share = f"{c.stages[0].self_weight:.0%} of its weight"
    if c.stages[0].self_weight > 0.5:
        return f"A word is most like itself, and gives itself {share} on average."
    return f"S is how alike two words are, which is mutual; a word gives itself {share} on average."


def _numbers(c: ProjectionComparison, stage: ProjectionStage, pair: Pair) -> tuple[tuple[str, str], ...]:
    numbers = [
        ("asymmetry ‖S − Sᵀ‖ / ‖S‖", _ratio(stage.asymmetry)),
        ("departure ‖O − A X‖ / ‖A X‖", _ratio(stage.departure)),
    ]
    if c.include_self:
        numbers.append(("mean weight on itself", f"{stage.self_weight:.2f}"))
    if pair and c.pair:
        (i, j), (first, second) = c.pair, pair
        numbers.append((f"score of {first} → {second}", f"{stage.scores[i, j]:z.1f}"))
        numbers.append((f"score of {second} → {first}", f"{stage.scores[j, i]:z.1f}"))
    return tuple(numbers)


def _ratio(ratio: float | None) -> str:
    """A number of two decimals; a dash for 0 / 0."""
    return NOTHING if ratio is None else f"{ratio:z.2f}"


def split_text(c: ProjectionComparison) -> str:
    """What the heads are, over their maps."""
    n_heads = len(c.heads)
    features = f"{c.d_model // n_heads} feature{'s' if c.d_model != n_heads else ''}"
    return f"the same matrices as {n_heads} heads of {features} each" if n_heads > 1 else f"one head of {features}"


def divergence_text(c: ProjectionComparison) -> str:
    """How unlike the heads are, in a sentence or two."""
    if c.mean_divergence is None:
        return "One head: there is no other to differ from."
    n_pairs = len(c.heads) * (len(c.heads) - 1) // 2
    pairs = f"the {n_pairs} pairs of heads" if n_pairs > 1 else "the two heads"
    return (
        "Jensen–Shannon divergence in bits, 0 the same, 1 nothing in common; "
        f"{c.mean_divergence:.2f} on average over {pairs}. "
        "Heads that differ see different things: the reason for having several."
    )

"""Page of projections: a head built up in four stages, and the divergence of heads."""

from collections.abc import Iterator

import numpy as np

from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.blocks import NOTHING, Block, Column, Drawn, Matrices, Page, Stacks, Table, Text
from mhaviz.pages.labels import quoted
from mhaviz.pages.map_words import scores_reading
from mhaviz.pages.numbers import fixed
from mhaviz.pages.panels import SCORE, WEIGHT, Outline, Panel, Scale, blanked
from mhaviz.pages.registry import shown
from mhaviz.pages.words import attention_title
from mhaviz.results.attention import head_name
from mhaviz.results.axis import Axis
from mhaviz.results.projections import ProjectionComparison, ProjectionStage

_SIDES = "query", "key"
_NAMES = (  # of the stages, and short ones for narrow tiles
    ("plain", "plain"),
    ("one projection W", "one W"),
    ("Wq and Wk", "Wq, Wk"),
    ("Wv as well", "and Wv"),
)
_OUTLINED = "the two words that score each other most unlike in stage 3"
_OUTLINED_UP_TO = 40  # tokens; with more, cells are too small to be outlined
_MOST_FEATURES = 24  # features of the outputs drawn, from the first, so that their cells can be distinguished
_ABREAST = 8  # heads side by side
_QUOTED = 14  # characters of each of the two words of the example
_DIVERGENCE = "Purples"  # unlike the colormap of weights; white: the same, darkest: nothing in common

Pair = tuple[str, str] | None
"""The two words of the example, escaped and shortened; None: there is only one word."""


@shown(ProjectionComparison)
def projections_page(c: ProjectionComparison) -> Page:
    """Return the page: scores, weights and outputs of the four stages side by side, then the heads and their
    divergence."""
    tokens, heads = Axis.of(c.tokens), Axis.numbered(len(c.heads))
    scores, weights = _score_scale(c), Scale(name=WEIGHT)
    drawn = [stage.outputs[:, :_MOST_FEATURES] for stage in c.stages]
    outputs = Scale.around_zero(np.stack(drawn), "output")
    hidden = np.isnan(c.stages[0].scores)
    pairs = () if c.pair is None or len(c.tokens) > _OUTLINED_UP_TO else (c.pair, c.pair[::-1])
    outlined = tuple(Outline(range(i, i + 1), range(j, j + 1)) for i, j in pairs)
    maps = [
        Panel(
            f"stage {i}, {name}: S",
            stage.scores,
            scores,
            outlined=outlined,
            numbers="outlined",
            short=f"{i} {short}: S",
        )
        for i, ((name, short), stage) in enumerate(zip(_NAMES, c.stages, strict=True), 1)
    ]
    maps += [
        Panel(
            f"stage {i}: A = softmax(S)",
            blanked(s.weights, hidden),
            weights,
            outlined=outlined,
            numbers="none",
            short=f"{i} {short}: A",
        )
        for i, ((_, short), s) in enumerate(zip(_NAMES, c.stages, strict=True), 1)
    ]
    some = f"feature, the first {_MOST_FEATURES} of {c.d_model}" if c.d_model > _MOST_FEATURES else "feature"
    results = [Panel(f"stage {i}: O", values, outputs) for i, values in enumerate(drawn, 1)]
    features = Axis.numbered(drawn[0].shape[1])
    split = tuple(
        Panel(head_name(0, i), blanked(values, hidden), weights, numbers="none") for i, values in enumerate(c.heads)
    )
    title = attention_title("self", Tokens(c.tokens), Tokens(c.tokens), f", {c.source.model}")
    divergence = Panel(
        "divergence of heads", c.divergence.astype(np.float32), Scale(_DIVERGENCE, name="divergence, bits")
    )
    lines = -(-len(split) // _ABREAST)
    blocks: list[Block] = [
        Matrices(title, tuple(maps), tokens, tokens, 4, _SIDES),
        Matrices("", tuple(results), tokens, features, 4, ("", some)),
        Text(tuple(_stage_texts(c, _quoted(c)))),
        _measures(c, _quoted(c)),
    ]
    said = Text((_divergence_text(c), ""))
    of_heads = Matrices("", split, tokens, tokens, -(-len(split) // lines), _SIDES)
    blocks.append(Text((_split_text(c),), "heading"))
    if len(c.heads) > 1:
        pairs_of_heads = Matrices("", (divergence,), heads, heads, 1, names=("head", "head"))
        blocks.append(Stacks((pairs_of_heads, said), (of_heads,)))
    else:
        blocks += [of_heads, said]

    def reading(drawn: Drawn) -> str:
        itself = f"{drawn.hidden}: a word with itself, left out" * (drawn.shows(SCORE, WEIGHT) and bool(hidden.any()))
        scored = ", with their scores in or above the cells" * drawn.shows(SCORE)
        marked = f"in thick outlines{scored}: {_OUTLINED}" * drawn.outlined()
        return "; ".join(filter(None, [scores_reading(drawn), *dict.fromkeys(drawn.pooled), itself, marked]))

    return Page(_lesson(c), tuple(blocks), c.source.footnote, reading)


def _score_scale(c: ProjectionComparison) -> Scale:
    """Return the scale of the scores of all stages, which ends at the largest score of two different words.

    In the first two stages a word's score with itself is several times larger, and would leave all others pale.
    """
    scores = np.stack([stage.scores for stage in c.stages])
    if len(c.tokens) > 1:
        scores = scores[:, ~np.eye(len(c.tokens), dtype=np.bool_)]
    return Scale.around_zero(scores, SCORE)


def _quoted(c: ProjectionComparison) -> Pair:
    if c.pair is None:
        return None
    first, second = (quoted(c.tokens[i], _QUOTED) for i in c.pair)
    return (first, second) if first != second else (f"{first} {c.pair[0]}", f"{second} {c.pair[1]}")


def _lesson(c: ProjectionComparison) -> str:
    """Return the title: the scores of the two words in stage 3, if they differ in the digits that are written."""
    if c.pair is not None and (first := _quoted(c)):
        there, back = (_score_text(c.stages[2], pair) for pair in (c.pair, c.pair[::-1]))
        if there != back:
            one, other = first
            return f"Why projections: {one} → {other} scores {there}, {other} → {one} {back}"
    return "Why projections: a head in four stages"


def _score_text(stage: ProjectionStage, pair: tuple[int, int]) -> str:
    return fixed(stage.scores[pair], 1)


def _stage_texts(c: ProjectionComparison, pair: Pair) -> Iterator[str]:
    """Return the formulas of each stage, and what it shows."""
    root = f"√{c.d_model}"
    formulas = (
        f"S = x·x / {root}, O = A X",
        f"S = Wx·Wx / {root}, O = A X",
        f"S = Wq x·Wk x / {root}, O = A X",
        f"S = Wq x·Wk x / {root}, O = A V, V = X Wv",
    )
    for number, (formula, remark) in enumerate(zip(formulas, _remarks(c, pair), strict=True), 1):
        yield f"stage {number}: {formula}. {remark}"


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


def _measures(c: ProjectionComparison, pair: Pair) -> Table:
    """Return the table of measures, with a column for each stage."""
    stages = c.stages
    rows: list[tuple[str, ...]] = [
        ("asymmetry ‖S − Sᵀ‖ / ‖S‖", *(_ratio(stage.asymmetry) for stage in stages)),
        ("departure ‖O − A X‖ / ‖A X‖", *(_ratio(stage.departure) for stage in stages)),
    ]
    if c.include_self:
        rows.append(("mean weight on itself", *(f"{stage.self_weight:.2f}" for stage in stages)))
    if pair and c.pair:
        for (i, j), (one, other) in ((c.pair, pair), (c.pair[::-1], pair[::-1])):
            rows.append((f"score of {one} → {other}", *(_score_text(stage, (i, j)) for stage in stages)))
    columns = Column("stage", align="left", is_key=True), *(Column(str(i)) for i in range(1, len(stages) + 1))
    return Table(columns, tuple(rows))


def _ratio(ratio: float | None) -> str:
    """Return a number with two decimals; a dash for 0 / 0."""
    return NOTHING if ratio is None else fixed(ratio, 2)


def _split_text(c: ProjectionComparison) -> str:
    """Return the title of the maps of all heads."""
    n_heads = len(c.heads)
    features = f"{c.d_model // n_heads} feature{'s' if c.d_model != n_heads else ''}"
    return f"the same matrices as {n_heads} heads of {features} each" if n_heads > 1 else f"one head of {features}"


def _divergence_text(c: ProjectionComparison) -> str:
    """Return the mean divergence of the heads, and that it is chance, in a sentence or two."""
    if c.mean_divergence is None:
        return "One head: there is no other to differ from."
    n_pairs = len(c.heads) * (len(c.heads) - 1) // 2
    pairs = f"the {n_pairs} pairs of heads" if n_pairs > 1 else "the two heads"
    mean = f"Jensen–Shannon divergence in bits, 0 the same, 1 nothing in common; {c.mean_divergence:.2f} on average"
    chance = " The weights are random: heads differ by chance."
    return f"{mean} over {pairs}.{chance * c.source.is_random}"

"""What the page of maps by span says: titles, tables and marks, of numbers that are made by hand."""

from dataclasses import replace

import numpy as np
import pytest
from made import made_map, span_map

from mhaviz.pages.blocks import SpanGrid, Table, Text
from mhaviz.pages.span_weights import spans_page
from mhaviz.results.attention import Attention
from mhaviz.results.means import mean_of
from mhaviz.results.quantity import MEANS
from mhaviz.results.result import Source
from mhaviz.results.sinks import sinks_at

ASK, DOC, REPLY = NAMES = ("question", "document", "answer")
APART = ("(rest)", "<s>")
CHANCE = [[0.5, 0, 0], [0.25, 0.5, 0], [0.2, 0.4, 0.1]]
"""What uniform attention gives: nothing to what comes later."""


def rows_of(*of_answer):
    """Weights of heads whose answers give so much to the question, the document and itself, with a sink."""
    first, second = [0.5, 0, 0, 0.1, 0.4], [0.2, 0.5, 0, 0.1, 0.2]
    return np.array([[first, second, [*given, 0.0, 1 - sum(given)]] for given in of_answer])


def attention(*maps):
    return Attention(Source("made by hand"), maps)


def of_heads(*of_answer, **more):
    return span_map(NAMES, rows_of(*of_answer), CHANCE, apart=APART, **more)


def page(*maps, query=None):
    given = attention(*maps)
    return spans_page(given if query is None else given.of_query(query))


def blocks(page, kind):
    return [block for block in page.blocks if isinstance(block, kind)]


@pytest.mark.parametrize(
    ("of_answer", "title"),
    [
        (
            [(0.1, 0.2, 0.1), (0.44, 0.1, 0.1)],
            "“answer” looks at “question” in L0 H1: 44% of its weight, 2.2 × uniform",
        ),
        ([(0.4, 0.2, 0.1)], "“answer” looks at “question” in L0 H0: 40% of its weight, 2.0 × uniform"),
        (
            [(0.39, 0.2, 0.1), (0.1, 0.1, 0.8)],
            "No head turns “answer” to another span: at most 1.9 × uniform, to “question” in L0 H0",
        ),
        ([(0.04, 0.02, 0.9)], "L0 H0 gives no other span 5% of the weight of “answer”"),
    ],
)
def test_a_head_turns_at_twice_uniform(of_answer, title):
    assert page(of_heads(*of_answer), query="answer").title == title


def test_all_spans_are_looked_at_where_no_query_is_chosen():
    title = "“answer” looks at “question” in L0 H0: 50% of its weight, 2.5 × uniform"
    assert page(of_heads((0.5, 0.1, 0.1))).title == title
    few = page(of_heads((0.3, 0.1, 0.1))).title
    assert few == "L0 H0 turns a span to no other span: at most 1.5 × uniform, “answer” to “question”"
    alone = span_map((ASK,), [[[1.0]]], [[1.0]])
    assert page(alone).title == "No span sees another"


def test_a_short_span_with_little_weight_is_not_told():
    """Eight times uniform, at 3% of the weight."""
    short = [[0.5, 0, 0], [0.1, 0.5, 0], [0.00375, 0.6, 0.1]]
    m = replace(of_heads((0.03, 0.7, 0.1)), chance=np.pad(np.float32([short]), [(0, 0), (0, 0), (0, 2)]))
    m.chance[..., 3:] = np.nan
    shown = page(m, query="answer")
    assert shown.title == "L0 H0 turns “answer” to no other span: at most 1.2 × uniform, to “document”"
    (table,) = blocks(shown, Table)
    assert table.rows[0][:5] == (ASK, 10, pytest.approx(0.03), pytest.approx(0.00375), pytest.approx(8))


def test_a_later_layer_is_named():
    shown = page(of_heads((0.1, 0.1, 0.1)), of_heads((0.1, 0.1, 0.1), (0.6, 0.1, 0.1), layer=7), query="answer")
    assert shown.title.startswith("“answer” looks at “question” in L7 H1: 60%")
    (grid,) = blocks(shown, SpanGrid)
    assert [(panel.title, panel.outlined) for panel in grid.panels] == [("layer 0", ()), ("layer 7", ((0, 1),))]
    assert grid.panels[1].shares[grid.panels[1].outlined[0]] == pytest.approx(0.6)


def test_heads_that_a_layer_lacks_are_blank():
    maps = of_heads((0.1, 0.1, 0.1), heads=(5,)), of_heads((0.2, 0.1, 0.1), (0.6, 0.1, 0.1), layer=1, heads=(2, 5))
    (grid,) = blocks(page(*maps, query="answer"), SpanGrid)
    assert grid.columns == ("5", "2")
    np.testing.assert_allclose([panel.shares[0] for panel in grid.panels], [[0.1, np.nan], [0.6, 0.2]], rtol=1e-6)
    assert [panel.outlined for panel in grid.panels] == [(), ((0, 0),)]
    assert [grid.text(grid.panels[0], 0, j) for j in range(2)] == ["10", ""]
    assert grid.longest_text == "70"


def test_the_query_itself_is_no_other_span():
    shown = page(of_heads((0.1, 0.1, 0.8)), query="answer")
    assert shown.title == "L0 H0 turns “answer” to no other span: at most 0.5 × uniform, to “question”"
    (table,) = blocks(shown, Table)
    assert [row[0] for row in table.rows] == [ASK, DOC, "itself", *APART]


def test_itself_is_another_span_in_another_text():
    m = replace(of_heads((0.1, 0.1, 0.8)), kind="cross")
    shown = page(m, query="answer")
    assert shown.title.startswith("“answer” looks at “answer” in L0 H0: 80%")


def test_queries_after_a_cache_are_not_the_keys_at_their_places():
    """The first of 5 queries is key 15."""
    words = [f"w{i}" for i in range(20)]
    A = np.tril(np.random.default_rng(0).random((2, 20, 20)) + 0.1)
    A[:, :, :15] *= 10
    A /= A.sum(axis=2, keepdims=True)
    spans = [{"name": "prompt", "tokens": [0, 5]}, {"name": "more", "tokens": [5, 15]}]
    spans.append({"name": "answer", "tokens": [15, 20]})
    m = made_map(words[15:], words, A[:, 15:].astype(np.float32), "masked").by(spans)
    (table,) = blocks(page(m, query="answer"), Table)
    assert [row[0] for row in table.rows] == ["prompt", "more", "itself"]


def test_numbers_of_the_table_are_those_of_numpy():
    random = np.random.default_rng(0)
    mass = random.dirichlet(np.ones(5), (4, 3))
    chance = mass[..., :3] / random.uniform(0.3, 4, (4, 3, 3))
    maps = [
        span_map(NAMES, mass[:2], chance[:2], apart=APART, kind="self", lengths=[3, 40, 7]),
        span_map(NAMES, mass[2:], chance[2:], apart=APART, kind="self", lengths=[3, 40, 7], layer=1),
    ]
    (table,) = blocks(page(*maps, query="document"), Table)
    assert [column.heading for column in table.columns] == [
        "span", "tokens", "weight", "uniform", "×", "heads ≥ 2 ×", "strongest"
    ]  # fmt: skip
    assert [row[1] for row in table.rows] == [3, 40, 7, 1, 1]
    ratios = np.where(mass[:, 1, :3] >= 0.05, mass[:, 1, :3] / chance[:, 1], 0)
    for key in range(3):
        mean, uniform = mass[:, 1, key].mean(), chance[:, 1, key].mean()
        assert table.rows[key][2:5] == pytest.approx((mean, uniform, mean / uniform), rel=1e-6)
        assert table.rows[key][5] == (ratios[:, key] >= 2).sum()
        best = ratios[:, key].argmax()
        assert table.rows[key][6].startswith(f"L{best // 2} H{best % 2}: ")
        assert table.rows[key][6].endswith(f"{ratios[best, key]:.1f} ×")
    for key in (3, 4):
        assert table.rows[key][2:] == (pytest.approx(mass[:, 1, key].mean()), None, None, None, None)


def test_pairs_of_spans_are_ranked_by_their_strongest_head():
    shown = page(of_heads((0.1, 0.6, 0.1), (0.3, 0.2, 0.3)))
    (table,) = blocks(shown, Table)
    assert [row[:2] for row in table.rows] == [(REPLY, ASK), (REPLY, DOC), (DOC, ASK)], "nobody sees what comes later"
    assert table.rows[0][2:] == (*map(pytest.approx, (0.2, 0.2, 1.0)), 0, "L0 H1: 30%, 1.5 ×")
    (grid,) = blocks(shown, SpanGrid)
    assert [panel.title for panel in grid.panels] == ["L0 H0", "L0 H1"], "few heads, each by itself"
    assert [[grid.text(grid.panels[0], i, j) for j in range(5)] for i in range(3)] == [
        ["50", "", "", "10", "40"], ["20", "50", "", "10", "20"], ["10", "60", "10", "0", "20"]
    ]  # fmt: skip
    assert (grid.rows, grid.columns, grid.apart) == (NAMES, (*NAMES, *APART), (0, 2))


def test_many_heads_are_drawn_as_their_mean():
    given = np.random.default_rng(0).uniform(0.1, 0.3, (9, 3))
    (grid,) = blocks(page(of_heads(*given)), SpanGrid)
    (panel,) = grid.panels
    assert panel.title == "mean of 9 heads"
    np.testing.assert_allclose(panel.shares[2, :3], given.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(panel.colours[2, :3], given.mean(axis=0) / CHANCE[2], rtol=1e-6)


def test_the_line_of_lookback_ratios_has_those_of_all_heads():
    ratios = np.array([[np.nan, 0.2, 0.5], [np.nan, 0.3, 0.9]])
    layers = of_heads((0.1, 0.1, 0.1), (0.1, 0.1, 0.1), lookback=ratios), of_heads((0.1, 0.1, 0.1), layer=1)
    (line,) = blocks(page(*layers, query="answer"), Text)
    assert line.lines[0].startswith("lookback ratio 0.70, 0.50 to 0.90 by head: weight on a token before “answer” /")
    (line,) = blocks(page(of_heads((0.1, 0.1, 0.1), lookback=ratios[:1]), query="answer"), Text)
    assert line.lines[0].startswith("lookback ratio 0.50: ")
    assert not blocks(page(*layers, query="question"), Text), "nothing is before it"


def test_a_mean_is_on_average():
    m = mean_of([of_heads((0.5, 0.1, 0.1), (0.5, 0.1, 0.1))], ("heads",))[0]
    shown = page(m, query="answer")
    assert shown.title == "“answer” looks at “question” in layer 0: 50% of its weight, 2.5 × uniform"
    (table,) = blocks(shown, Table)
    assert [column.heading for column in table.columns][2:] == ["weight", "uniform", "×"], "nothing about single heads"
    assert all(len(row) == 5 for row in table.rows)
    layers = [of_heads((0.5, 0.1, 0.1)), of_heads((0.7, 0.1, 0.1), layer=1)]
    title = page(*mean_of(layers, ("heads", "layers")), query="answer").title
    assert title == "“answer” looks at “question” on average: 60% of its weight, 3.0 × uniform"


def test_of_a_mean_nothing_is_said_of_heads():
    """A head may turn where the mean does not."""
    few = mean_of([of_heads((0.5, 0.1, 0.1), (0.1, 0.1, 0.8)), of_heads((0.1, 0.1, 0.8), layer=1)], ("heads", "layers"))
    title = page(*few, query="answer").title
    assert title == "The mean turns “answer” to no other span: at most 1.2 × uniform, to “question”"
    none = mean_of([of_heads((0.04, 0.04, 0.8)), of_heads((0.04, 0.04, 0.8), layer=1)], ("heads", "layers"))
    assert page(*none, query="answer").title == "The mean gives no other span 5% of the weight of “answer”"


def test_several_texts_have_headings():
    texts = [of_heads((0.5, 0.1, 0.1), sentence=0), of_heads((0.1, 0.1, 0.1), sentence=1)]
    shown = page(*texts)
    assert shown.title == ""
    headings = [block.lines[0] for block in blocks(shown, Text) if block.style == "heading"]
    assert headings[0].startswith("sentence 0, masked self-attention: “answer” looks at “question”")
    assert headings[1].startswith("sentence 1, masked self-attention: L0 H0 turns a span to no other span")
    assert len(blocks(shown, SpanGrid)) == len(blocks(shown, Table)) == 2


def test_a_mean_over_texts_has_no_numbers_of_tokens():
    texts = [of_heads((0.5, 0.1, 0.1), sentence=i, lengths=[9 + i, 10, 11]) for i in range(2)]
    counted = blocks(page(texts[0], query="answer"), SpanGrid)[0].rows
    assert counted == ("question (9)", "document (10)", "answer (11)", *APART)
    for over in (["sentences"], ["sentences", "heads"]):
        shown = page(*mean_of(texts, over), query="answer")
        assert blocks(shown, SpanGrid)[0].rows == (*NAMES, *APART)
        assert [row[1] for row in blocks(shown, Table)[0].rows] == [None] * 5
    passes = [replace(m, sentence=None, pass_number=m.sentence) for m in texts]
    assert blocks(page(*mean_of(passes, ["passes"]), query="answer"), SpanGrid)[0].rows == (*NAMES, *APART)


def test_names_that_are_cut_begin_with_their_place():
    long = [f"{'a sentence of many words ' * 2}and then {end}" for end in ("this", "that")]
    m = span_map((*long, "end"), rows_of((0.5, 0.1, 0.1)), CHANCE, apart=APART)
    (grid,) = blocks(page(m), SpanGrid)
    assert grid.rows == grid.columns[:3]
    assert [name[:12] for name in grid.rows] == ["#0 a sentenc", "#1 a sentenc", "#2 end"]
    assert grid.columns[3:] == APART
    (grid,) = blocks(page(m, query="end"), SpanGrid)
    assert [name[:3] for name in grid.rows] == ["#0 ", "#1 ", "#2 ", "(re", "<s>"]


def test_a_span_has_one_place_among_rows_and_columns():
    """A sink alone is a row without a column."""
    words = [f" w{i}" for i in range(20)]
    A = np.tril(np.ones((1, 20, 20)))
    A[:, :, 0] = 20
    A /= A.sum(axis=2, keepdims=True)
    m = made_map(words, words, A.astype(np.float32), "masked", sinks=sinks_at([0]))
    spans = [{"name": f"{'a long name ' * 4}{i}", "tokens": [max(3 * i - 2, 0), 3 * i + 1]} for i in range(3)]
    (grid,) = blocks(page(m.by(spans)), SpanGrid)
    assert grid.rows[1:] == grid.columns[:2]
    assert not grid.rows[0].startswith("#")
    (table,) = blocks(page(m.by(spans)), Table)
    assert {row[:2] for row in table.rows} == {(grid.rows[2], grid.rows[1])}, "a span is not another than itself"


def test_spans_of_one_name_are_told_apart():
    m = span_map(("Yes.", "No.", "Yes."), rows_of((0.5, 0.1, 0.1)), CHANCE, apart=APART)
    assert page(m).title.startswith("“#2 Yes.” looks at “#0 Yes.” in L0 H0")
    shown = page(m, query=2)
    (table,) = blocks(shown, Table)
    assert [row[0] for row in table.rows] == ["#0 Yes.", "#1 No.", "itself", *APART]


@pytest.mark.parametrize(
    ("given", "below", "above"),
    [((0.2, 0.4, 0.1), False, False), ((0.02, 0.4, 0.1), True, False), ((0.1, 0.1, 0.8), False, False),
     ((0.1, 0.05, 0.81), False, True), ((0.025, 0.1, 0.8), False, False)],
)  # fmt: skip
def test_numbers_beyond_the_scale_are_marked(given, below, above):
    m = of_heads(given)
    m.chance[:, 2, :3] = 0.2, 0.4, 0.1  # of which 1/8 and 8 are exact
    (grid,) = blocks(page(m), SpanGrid)
    ratios = grid.panels[0].colours
    assert (grid.scale.below, grid.scale.above) == (below, above), ratios
    assert grid.scale.ends == ("≤ 1/8" if below else "1/8", "≥ 8" if above else "8")


def test_the_reading_names_what_is_grey():
    assert "in grey: sinks (<s>) and the rest, which is in no span" in page(of_heads((0.1, 0.1, 0.1))).remark
    assert "grey" not in page(span_map((ASK,), [[[1.0]]], [[1.0]])).remark


def test_a_span_that_sees_no_other_has_no_heads_that_turn():
    alone = page(span_map(("answer",), [[[1.0]]], [[1.0]]))
    assert alone.title == "No span sees another"
    assert not blocks(alone, Table)
    mass = np.array([[[1.0, 0.0], [0.4, 0.6]]] * 2)
    first = page(span_map(("question", "answer"), mass, np.tri(2) / [[1], [2]]), query="question")
    assert first.title == "“question” sees no other span"
    (table,) = blocks(first, Table)
    assert table.rows[1][-1] == "not seen"


def test_means_of_layers_are_no_heads():
    maps = [span_map(("question", "answer"), [[[1.0, 0.0], [x, 1 - x]]], np.tri(2) / [[1], [2]],
            layer=layer, lookback=[[np.nan, x]]) for layer, x in enumerate((0.3, 0.6))]  # fmt: skip
    means = [replace(m, quantity=MEANS["weight"], mean_over=(("heads", 12),)) for m in maps]
    shown = page(*means, query="answer")
    assert shown.title.startswith(
        "No layer turns “answer” to another span: at most 1.2 × uniform, to “question” in layer"
    )
    (table,) = blocks(shown, Table)
    assert [column.heading for column in table.columns][-2] == "layers ≥ 2 ×"
    assert "of layers that give it so much" in table.notes
    assert "by layer" in blocks(shown, Text)[0].lines[0]


def test_cells_of_neighbours_have_the_same_places_in_rows_and_columns():
    """Of a first span of sinks alone, which has no row in common with the columns."""
    names = tuple(f"turn {i}" for i in range(80))
    mass = np.full((1, 80, 80), 1 / 80)
    shown = page(span_map(names, mass[:, 2:], np.full((78, 80), 1 / 80), rows=names[2:]))
    (grid,) = blocks(shown, SpanGrid)
    assert grid.rows[0] == "#2 to #4"
    assert grid.rows[-1].rpartition(" ")[2] == grid.columns[-1].rpartition(" ")[2] == "#79"

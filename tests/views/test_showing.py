"""Every record is shown, and its page says the same in every medium."""

import importlib
import json
import pkgutil
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
from drawn import inside, letters, texts
from looking import encoded, traced

import mhaviz.pages
from mhaviz.analyses.difference import compare, joined_source
from mhaviz.analyses.explanation import explain
from mhaviz.analyses.masking import masking
from mhaviz.analyses.matrices import layer_matrices
from mhaviz.analyses.projections import compare_projections
from mhaviz.analyses.scaling import compare_scaling, sweep_scaling
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.inputs.tokens import Tokens
from mhaviz.models.single_layer import RandomLayer
from mhaviz.pages import registry
from mhaviz.pages.blocks import Dots, Grid, Matrices, Page, Table, Text, leaves
from mhaviz.pages.registry import page_of
from mhaviz.results.attention import Attention
from mhaviz.results.cache_budget import CacheBudget
from mhaviz.results.complexity import Complexity, CostTerm, LongestInput, TimeOrder
from mhaviz.results.corpus_difference import CorpusDifference, Divergence, KindDivergence
from mhaviz.results.head_numbers import HeadNumbers
from mhaviz.results.head_relevance import HeadRelevance, RelevantHeads
from mhaviz.results.health import Collapse, Health, LayerHealth
from mhaviz.results.implementations import Implementation, ImplementationComparison
from mhaviz.results.relevance import Explained, Relevance, WordRelevance
from mhaviz.results.report import Report
from mhaviz.results.result import Result, Source
from mhaviz.results.timing import Timing
from mhaviz.results.training import AlignmentErrors, Evaluation, LearningPoint, Training
from mhaviz.views.data import document
from mhaviz.views.figure.page import draw_page
from mhaviz.views.showing import figure_of, figures_of, view_of
from mhaviz.views.style import ROOMS, Style
from mhaviz.views.terminal.page import PageView

SOURCE = Source("made by hand")
TIMES = Timing(0.1, 3, 2**20, quartiles=(0.1, 0.2)), Timing(0.4, 3, 2**22, quartiles=(0.4, 0.5))
TERMS = (
    CostTerm("O", "H Wo", "projections", "8·N·d_model²", "4·N", (1000, 4000), (64, 256)),
    CostTerm("A", "softmax(S)", "attention", "5·n_heads·N²", "4·n_heads·N²", (500, 8000), (512, 8192)),
)
DIVERGENCE = Divergence(
    *[np.array([[0.25, 0.5]])] * 4,
    5,
    50,
    np.array([[0.25, 0.5]]),
    *[np.array([[3, 4]])] * 3,
    *[np.array([["a", "b"]])] * 2,
)
NUMBERS = HeadNumbers(*[np.array([[0.25, 0.5]])] * 4, 40)
RECORDS = [
    Complexity(
        SOURCE,
        8,
        2,
        (16, 64),
        TERMS,
        4096,
        TIMES,
        TIMES,
        TIMES,
        8,
        16,
        TimeOrder("unmeasured", ()),
        (LongestInput("cpu", 2**20, 9),),
    ),
    Evaluation(SOURCE, "translation", "exact match", 0.75, 1.5, 20, True, AlignmentErrors((0.5, 0.25), 0.125, 40)),
    ImplementationComparison(
        SOURCE, (16, 64), (Implementation("loops", "for, for", True, TIMES, (1e-7, 1e-7), (1.0, 1.0)),), "float64"
    ),
    sweep_scaling(["one", "two"], 0, (2, 8), draws=2),
    CacheBudget(
        SOURCE,
        ("rows", "h2o", "snapkv"),
        (8, 16),
        (0, 1),
        {name: np.array([[[0.5, 0.25]] * 2, [[0.75, 0.5]] * 2]) for name in ("rows", "h2o", "snapkv")},
        {name: np.full((2, 2, 2), np.nan) for name in ("rows", "h2o", "snapkv")},
        (1, 1),
        (40,),
    ),
    Health(
        SOURCE,
        2,
        3,
        (
            LayerHealth(
                "masked", 0, "blocks.0", (0, 1), np.array([0, 2]), np.ones(2, bool), *np.full((5, 2, 2), [0.5, 0.25])
            ),
        ),
        (Collapse("not finite", "masked", 0, 1, 2, np.inf, 1.5, 0.5, 0),),
    ),
    Relevance(
        SOURCE,
        Explained("label", "NEGATIVE"),
        6.5,
        "NEGATIVE",
        WordRelevance(
            Tokens(("so", " bad"), ranges=(((0, 1),), ((1, 2),))),
            np.array([0.25, 0.5]),
            np.zeros(2, bool),
            np.array([0.5, 5.0]),
            ("NEGATIVE", "POSITIVE"),
        ),
    ),
    HeadRelevance(
        SOURCE, Explained("label", "NEGATIVE"), (RelevantHeads("self", (0,), NUMBERS, NUMBERS, NUMBERS),), 40
    ),
    Training(SOURCE, "translation", "exact match", (LearningPoint(10, 4.0, 0.5),), 10, 7500, 500, 50, 105_213),
]


@pytest.fixture(scope="module")
def records(random_map, random_heads, random_effects):
    """One of every kind that is shown in blocks."""
    first, second = (Attention(SOURCE, (random_map(2, ("the", "black", "cat"), seed=seed),)) for seed in (0, 1))
    layer = RandomLayer(8, 2, device_name="cpu", causal=True)
    scaled = compare_scaling(*encoded(layer, ["the black cat"]), [0])
    of_words = mhaviz.load(d_model=8, n_heads=2, device="cpu").attend("the cat sat on my mat")
    embedded = mhaviz.load(d_model=8, n_heads=1, device="cpu").embeddings("the cat the")
    some = [
        *RECORDS,
        first,
        of_words.answer("cat"),
        of_words.lines("cat"),
        embedded,
        mhaviz.sinusoids(3, 4),
        compare(first, second),
        random_heads(),
        random_effects(n_heads=9),
        masking(*encoded(layer, ["the black cat", "a dog"]), [0], 0.3),
        compare_projections(layer.projection_inputs("the black cat")),
        scaled,
        explain(*encoded(layer, ["the black cat"]), 1, 0),
        layer_matrices(*encoded(layer, ["the black cat"]), [0, 1]),
        Report(first, traced(layer, ["the black cat"]), scaled),
        CorpusDifference(joined_source(SOURCE, SOURCE), (KindDivergence("self", (2,), DIVERGENCE),)),
    ]
    return {type(record).__name__: record for record in some}


def test_every_page_is_tried(records):
    for module in pkgutil.iter_modules(mhaviz.pages.__path__):
        importlib.import_module(f"mhaviz.pages.{module.name}")
    assert len(records) == 24
    own = {
        "Check",
        "HeadPairs",
        "HeadSpans",
        "ImageAttention",
        "ImageRelevance",
        "ShapeTrace",
    }  # which tests of their own try
    assert set(records) | own == {kind.__name__ for kind in registry._ENTRIES}
    assert all(document(record) for record in records.values())
    with pytest.raises(MhavizError, match="expected a result that can be shown, got Source"):
        figure_of(SOURCE)


def test_a_new_result_needs_a_page_and_a_line(show, tmp_path):
    @dataclass(frozen=True)
    class Answer(Result):
        source: Source
        number: int

    @registry.shown(Answer)
    def answer_page(answer):
        return Page("the answer", (Text((f"is {answer.number}",)),), answer.source.footnote)

    try:
        answer = Answer(SOURCE, 42)
        assert "is 42" in show(view_of(answer))
        answer.save(tmp_path / "a.png", tmp_path / "a.json")
        assert json.loads((tmp_path / "a.json").read_text())["number"] == 42
        with pytest.raises(ArgumentError, match="cannot tell the format"):
            answer.save(tmp_path / "a.csv")
    finally:
        del registry._ENTRIES[Answer]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(24))
def test_in_a_column_letters_have_at_least_six_points(records, number):
    for sheet in figures_of(list(records.values())[number], Style(room="column", dpi=50)):
        inside(sheet)
        assert min(letters(sheet)) >= 6 - 1e-6
        assert max(text.get_fontsize() for text in sheet.page.texts) <= sheet.title_size
        assert (sheet.get_size_inches() <= np.add(ROOMS["column"], 0.03)).all()


@pytest.mark.parametrize("number", range(24))
def test_paper_and_terminal_say_what_the_page_says(show, records, number):
    record = list(records.values())[number]
    page, style = page_of(record), Style()
    drawn = texts(draw_page(page, style))
    listed = re.sub(r"\x1b\[[0-9;]*m", "", show(PageView(page, style), 240))
    for text in filter(None, (getattr(page.title, "head", page.title), page.footnote)):
        assert text in " ".join(drawn)
        assert text in listed
    if not any(isinstance(block, Grid) for block in page.blocks):  # whose columns stay side by side
        assert draw_page(page, replace(style, width=7.0)).get_size_inches()[0] == pytest.approx(7, abs=0.02)
    of_grids = {id(one) for block in page.blocks if isinstance(block, Grid) for one in leaves([block])}
    for block in leaves(page.blocks):
        for text in said(block):
            assert text in " ".join(drawn)
            is_listed = " ".join(text.split()) in " ".join(listed.split())  # which wraps lines
            assert is_listed or id(block) in of_grids  # a terminal has no room for the factors of a product


def said(block):
    """The words of a block that paper and terminal share."""
    if isinstance(block, Table):
        return filter(None, (text for row in block.texts() for text in row))
    if isinstance(block, Matrices):
        return (getattr(block.title, "head", block.title), *(panel.title for panel in block.panels))
    if isinstance(block, Dots):
        return (block.table.heading, *(dot.name for dot in block.dots))
    return block.lines if isinstance(block, Text) else ()


def test_a_page_without_blocks_has_its_title_and_footnote():
    assert texts(draw_page(Page("nothing yet", (), "made by hand"), Style())) == ["nothing yet", "made by hand"]


def test_a_page_that_is_too_long_for_a_picture():
    with pytest.raises(ArgumentError, match=r"got at least 140 × 3\d,\d{3}; save it as data"):
        draw_page(Page("a book", (Text(("a line",) * 10_000),), "made by hand"), Style())

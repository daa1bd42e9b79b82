"""Hostile tokens in every view that has tokens: a picture writes them as they are, and in the terminal none acts.

Long maps, recordings and images, which name tokens elsewhere, have tests of their own; so has the footnote, which all
have (``test_safe_text.py``).
"""

import io
import json
import re
from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pytest
from drawn import inside, texts
from hostile import HOSTILE as EVERY
from hostile import acts, without_isolates
from looking import attend, encoded, traced
from made import remade, span_map
from pypdf import PdfReader
from rich.cells import cell_len

import mhaviz
from mhaviz.analyses.averages import averages
from mhaviz.analyses.difference import compare
from mhaviz.analyses.explanation import explain
from mhaviz.analyses.masking import masking
from mhaviz.analyses.matrices import layer_matrices
from mhaviz.analyses.projections import compare_projections
from mhaviz.analyses.scaling import compare_scaling
from mhaviz.inputs.pairs import WordPair
from mhaviz.inputs.tokens import Tokens
from mhaviz.models.single_layer import RandomLayer
from mhaviz.results.attention import Attention
from mhaviz.results.head_numbers import AverageOfFew
from mhaviz.results.head_pairs import HeadPairs, PairLook, PairsOfKind
from mhaviz.results.head_spans import HeadSpans, SpansOfKind
from mhaviz.results.result import Source
from mhaviz.results.trace import follow_element
from mhaviz.views.showing import figure_of, view_of
from mhaviz.views.style import Style

HOSTILE = (*EVERY[:14], "मस्ते", "مرحبا", "x" * 5000, "")
"""Of each kind; ``test_recordings.py`` and ``test_safe_text.py`` draw all of them."""
WORDS = [" ".join(f"w{i}" for i in range(len(HOSTILE)))]
SIDES = {"queries": Tokens(HOSTILE), "keys": Tokens(HOSTILE)}


def maps(seed=0):
    attention = attend(RandomLayer(16, 2, seed=seed), WORDS)
    return replace(attention, maps=(remade(attention.maps[0], queries=HOSTILE, keys=HOSTILE),))


def masks():
    found = masking(*encoded(RandomLayer(16, 2, causal=True), [*WORDS, "a"]), [0], 0.3)
    return replace(found, sentences=(replace(found.sentences[0], **SIDES), *found.sentences[1:]))


def trace():
    found = replace(traced(RandomLayer(16, 2), WORDS), tokens=(HOSTILE,))
    return replace(found, followed=follow_element(found, (0, 0, 5)))


def explained(position):
    found = explain(*encoded(RandomLayer(16, 2), WORDS), 3, 0)
    return replace(found, queries=HOSTILE, keys=HOSTILE, position=position)


def embedded():
    found = mhaviz.load(d_model=64, n_heads=1).embeddings(WORDS[0])
    return replace(found, tokens=Tokens(HOSTILE, (), found.tokens.ids))


def projections():
    found = compare_projections(RandomLayer(16, 2).projection_inputs(WORDS[0]))
    return replace(found, tokens=HOSTILE, pair=(6, 13))


def by_span(n_heads, query=None, **more):
    """Spans of hostile names, beside sinks that are hostile tokens."""
    apart = ("(rest)", *EVERY[:4], "مرحبا")
    mass = np.random.default_rng(0).dirichlet(np.ones(len(HOSTILE) + len(apart)), (n_heads, len(HOSTILE)))
    found = Attention(Source("hand"), (span_map(HOSTILE, mass, mass[..., : len(HOSTILE)] / 3, apart=apart, **more),))
    return found if query is None else found.of_query(query)


def average(shape):
    """A number of heads over 3 texts."""
    values = np.random.default_rng(0).uniform(size=(3, *shape, 1))
    (number,) = averages(values, np.ones((3, shape[0], 1), bool), ["x"]).values()
    return AverageOfFew(**number, chance=number["mean"] / 4)


def spans_of_texts(query):
    shape, zeros = (2, 3), np.zeros((2, 3))
    spans = {name: average(shape) for name in HOSTILE}
    kinds = (SpansOfKind("masked", (0, 1), query, 3, spans, zeros, zeros, average(shape)),)
    return HeadSpans(Source("hand", {"model": "hand"}), kinds, query)


def pairs():
    """Of pairs of hostile words in hostile texts, of which the best head misses most."""
    looks = tuple(
        PairLook(
            WordPair(HOSTILE[i] + WORDS[0], HOSTILE[i], HOSTILE[i - 1]),
            Tokens(HOSTILE),
            i,
            (i - 1) % len(HOSTILE),
            np.full((1, 2), 0.4),
            np.full((1, 2), 0.1),
            np.full((1, 2), (i - 1 - i % 3) % len(HOSTILE)),
            np.full((1, 2), 0.4),
        )
        for i in range(len(HOSTILE))
    )
    numbers = [average((1, 2)) for _ in range(4)]
    kind = PairsOfKind("self", (0,), *numbers, np.array([0.1]), looks)
    return HeadPairs(Source("hand", {"model": "hand"}), (kind,))


RESULTS = {
    "maps": maps,
    "difference": lambda: compare(maps(), maps(1)),
    "matrices": lambda: replace(layer_matrices(*encoded(RandomLayer(16, 2), WORDS), (0,)), **SIDES),
    "masks": masks,
    "trace": trace,
    "scaling": lambda: replace(
        compare_scaling(*encoded(RandomLayer(16, 2), WORDS), [0]), queries=HOSTILE, keys=HOSTILE
    ),
    "projections": projections,
    "embeddings": embedded,
    "spans": lambda: by_span(3),
    "spans of many heads": lambda: by_span(12, kind="self"),
    "one span": lambda: by_span(3, "مرحبا"),
    "spans of texts": lambda: spans_of_texts("[/x]"),
    "pairs": pairs,
    **{f"the query {HOSTILE[place]!a}": lambda place=place: explained(place) for place in (0, 6)},
}


@cache
def result(name):
    return RESULTS[name]()


@pytest.mark.parametrize("name", RESULTS)
def test_a_picture_writes_them_as_they_are(name):
    sheet = figure_of(result(name), Style(dpi=40))
    sheet.save(io.BytesIO(), "png")
    inside(sheet)
    assert not any(text.get_parse_math() for text in sheet.page.texts)
    assert not acts(without_isolates("".join(texts(sheet))))
    if name == "maps":
        assert {"$x^2$", "[bold]", r"two\x0alines", "\\x1b[31mred", "nul\\x00", "<script>aler…1)</script>"} <= set(
            texts(sheet)
        )


@pytest.mark.parametrize("width", [40, 120])
@pytest.mark.parametrize("name", RESULTS)
def test_none_acts_in_the_terminal(show, name, width):
    shown = re.sub(r"\x1b\[[0-9;]*m", "", show(view_of(result(name)), width, "truecolor"))
    assert acts(shown) == []
    assert max(cell_len(line) for line in shown.split("\n")) <= width


@pytest.mark.filterwarnings("ignore:no installed font", "ignore:the picture is")
@pytest.mark.parametrize("name", ["spans", "one span", "spans of texts", "pairs"])
def test_files_of_spans_hold_them_as_text(tmp_path, name):
    suffixes = ("svg", "pdf", "json", "csv", *["html"] * name.endswith(("spans", "span")))
    for suffix in suffixes:
        result(name).save(tmp_path / f"a.{suffix}")
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert not [element for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("script")]
    assert not acts(without_isolates("".join(ElementTree.fromstring(svg).itertext())))
    assert len(PdfReader(tmp_path / "a.pdf").pages) == 1
    document = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert any(name in json.dumps(document) for name in ("[bold]", "[/x]"))
    if "html" in suffixes:
        html = (tmp_path / "a.html").read_text(encoding="utf-8")
        assert "<script>alert" not in html
        assert "[bold]" in html

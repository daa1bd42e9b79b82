"""Hostile tokens in every view that has tokens: a picture writes them as they are, and in the terminal none acts.

Long maps, recordings and images, which name tokens elsewhere, have tests of their own; so has the footnote, which all
have (``test_safe_text.py``).
"""

import io
import re
from dataclasses import replace
from functools import cache

import pytest
from drawn import inside, texts
from hostile import HOSTILE as EVERY
from hostile import acts, without_isolates
from looking import attend, encoded, traced
from made import remade
from rich.cells import cell_len

import mhaviz
from mhaviz.analyses.difference import compare
from mhaviz.analyses.explanation import explain
from mhaviz.analyses.masking import masking
from mhaviz.analyses.matrices import layer_matrices
from mhaviz.analyses.projections import compare_projections
from mhaviz.analyses.scaling import compare_scaling
from mhaviz.inputs.tokens import Tokens
from mhaviz.models.single_layer import RandomLayer
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

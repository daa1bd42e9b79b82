"""Words that are read from right to left stand over their numbers. The oracle is the order that UAX #9 says."""

import re
import unicodedata

import numpy as np
import pytest
from hostile import ISOLATED, acts
from hypothesis import given
from hypothesis import strategies as st
from looking import encoded
from made import made_map
from rich.cells import cell_len
from rich.text import Text
from shown import heatmap_view

from mhaviz.analyses.explanation import explain
from mhaviz.models.single_layer import RandomLayer
from mhaviz.results.attention import Attention
from mhaviz.results.result import Source
from mhaviz.views.showing import view_of
from mhaviz.views.text import isolated

ARABIC = ("أحب", "آلية", "الانتباه", "كثيرا")
HEBREW = ("אני", "אוהב", "את", "זה")
FSI, PDI = "\u2068", "\u2069"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def attention(tokens, length=None):
    tokens = tokens * (length or 1)
    weights = np.full((2, len(tokens), len(tokens)), 1 / len(tokens), np.float32)
    return Attention(Source("made by a test"), (made_map(tokens, tokens, weights),))


def explanation(tokens):
    return explain(*encoded(RandomLayer(16, 2, device_name="cpu"), [" ".join(tokens)]), 1, 0)


def columns_of(line):
    """Where words and numbers stand when a line is shown, as UAX #9 orders it, base direction left to right.

    Enough of the algorithm for what these lines hold: an isolate counts as a neutral character, and outside isolates
    runs from one right-to-left character to the next, over neutral ones and digits, are turned around.
    """
    line = ANSI.sub("", line)
    cells, depth = [], 0
    for character in line:
        depth += (character == FSI) - (character == PDI)
        if character not in (FSI, PDI):
            cells.append((character, "ON" if depth else unicodedata.bidirectional(character)))
    strong = [i for i, (_, kind) in enumerate(cells) if kind in ("R", "AL")]
    turned = list(range(len(cells)))
    if strong:
        last = max(i for i, (_, kind) in enumerate(cells) if kind in ("R", "AL", "EN", "AN"))
        turned[strong[0] : last + 1] = turned[strong[0] : last + 1][::-1]
    return "".join(cells[i][0] for i in turned)


@pytest.mark.parametrize("tokens", [ARABIC, HEBREW, ("the", "אוהב", "mat", "زهرة")])
@pytest.mark.parametrize("colour", [None, "256", "truecolor"])
def test_columns_stay_under_their_words(show, tokens, colour):
    header, *rows = show(heatmap_view(attention(tokens)), 100, colour).splitlines()[2:7]
    assert columns_of(header).split() == [*tokens, *tokens]
    for word, row in zip(tokens, rows, strict=True):
        assert columns_of(row).split()[0] == word
    for line in (header, *rows):
        assert cell_len(ANSI.sub("", line)) == cell_len(columns_of(line))


def test_tables_keep_their_columns(show):
    for line in show(view_of(explanation(HEBREW)), 100).splitlines():
        if re.match(r"\d ", line):
            assert columns_of(line) == ANSI.sub("", line).replace(FSI, "").replace(PDI, "")


@pytest.mark.parametrize("length", [1, 8, 60])
@pytest.mark.parametrize("colour", [None, "truecolor"])
def test_isolates_are_balanced(show, length, colour):
    for view in (heatmap_view(attention(ARABIC, length)), view_of(explanation(ARABIC * length))):
        for width in (30, 60, 100):
            for line in show(view, width, colour).splitlines():
                depths = np.cumsum([(c == FSI) - (c == PDI) for c in line])
                assert set(depths.tolist()) <= {0, 1}
                assert not depths.size or depths[-1] == 0
                assert cell_len(ANSI.sub("", line)) <= width


def test_other_words_and_terminals_have_none(show):
    assert FSI not in show(heatmap_view(attention(("the", "我", "naïve"))), 80)
    assert show(heatmap_view(attention(ARABIC)), 80, encoding="ascii").isascii()


def test_blanks_stay_outside():
    assert isolated("  אני ") == f"  {FSI}אני{PDI} "
    assert isolated(" 12 ") == " 12 "


@given(st.text(st.sampled_from(f"{FSI}{PDI}\u2066\u202eaא \x1b")))
def test_isolates_of_users_act_on_nothing_else(show, text):
    """What a view forgets to escape may hold isolates of its own: around a Hebrew word they do what ours do."""
    shown = show(Text(text))
    assert not acts(shown)
    assert shown.count(FSI) == shown.count(PDI) == len(ISOLATED.findall(shown))

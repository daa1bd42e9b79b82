import re

import pytest

import mhaviz
from mhaviz.views.showing import view_of


def embedded(text, d_model=64):
    return mhaviz.load(d_model=d_model, n_heads=1, device="cpu").embeddings(text)


@pytest.mark.parametrize(("n_tokens", "width"), [(1, 60), (12, 100), (40, 60), (128, 100), (600, 60)])
def test_a_screen_or_two(show, n_tokens, width):
    e = embedded(" ".join(f"w{i}" for i in range(n_tokens)), 512)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", show(view_of(e), width)).splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= width
    for title in ("E = lookup(ids) · √d_model", "PE = sin and cos", "X = E + PE", "of E", "of PE", "of X"):
        assert any(title in line for line in lines), title
    text = " ".join(" ".join(lines).split())
    assert ("the strongest of up to" in text) == (width == 60 or n_tokens > 12)


def test_ids_of_rows(show):
    text = show(view_of(embedded("the cat sat the")), 100)
    rows = [line.split() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]
    assert [row[:2] for row in rows if row[:1] == ["1"]] == [["1", "the₀"], ["1", "the₃"]] * 3
    assert "beside a token: its id" in text
    assert "“the” at 0 and “the” at 3" in text


def test_positions(show):
    text = show(view_of(mhaviz.sinusoids(200, 128)), 100)
    assert "cosine of every two rows" in text
    assert "the strongest of up to" in " ".join(text.split())

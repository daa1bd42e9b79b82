import dataclasses
import re

import numpy as np
import pytest
from looking import encoded
from rich.cells import cell_len
from shown import number_text

from mhaviz.analyses.explanation import explain
from mhaviz.models.single_layer import RandomLayer
from mhaviz.pages.explanation import MOST_KEYS
from mhaviz.views.showing import view_of
from mhaviz.views.terminal.tables import bar


def explanation(sentence="one two three two", position=2, n_heads=2, **options):
    d_model = options.pop("d_model", 16)
    return explain(*encoded(RandomLayer(d_model, n_heads, device_name="cpu", **options), [sentence]), position, 0)


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def rows(shown, part):
    """The rows of the first or the second table: cells by key."""
    lines = [re.split(r"\s{2,}|\s*\|\s*", line.strip()) for line in shown.split("output: ")[part].splitlines()]
    keys = [cells for cells in lines if len(cells) > 3 and cells[0].isdecimal() and not cells[1].isdecimal()]
    found: dict[int, list[str]] = {}
    for cells in keys:  # of all parts
        found.setdefault(int(cells[0]), []).extend(cells[1:])
    return found


@pytest.mark.parametrize("width", [40, 80, 160])
def test_every_number_is_there(show, width):
    e = explanation()
    shown = plain(show(view_of(e), width, None))
    assert max(cell_len(line) for line in shown.split("\n")) <= width
    scores, contributions = rows(shown, 0), rows(shown, 1)
    assert list(scores) == [0, 1, 2, 3]
    assert list(contributions) == np.argsort(-e.sizes).tolist()
    for key in range(4):
        assert number_text(e.scores[key], "z.2f") in scores[key]
        assert f"{e.weights[key]:.2f}" in scores[key]
        assert number_text(e.similarities[key], "z.2f") in scores[key]
        assert f"{e.sizes[key]:.2f}" in contributions[key]
        assert f"{e.shares[key]:.0%}" in contributions[key]
        strongest = np.argsort(-np.abs(e.products[key]))[:3]
        assert ", ".join(f"{i} {number_text(e.products[key, i], '+.1f')}" for i in strongest) in shown
    assert f"{np.linalg.norm(e.output):.2f}" in shown.split("= output", 1)[1]
    assert e.source.footnote in " ".join(shown.split())


@pytest.mark.parametrize("width", [40, 80, 160])
def test_numbers_of_many_digits_stay_in_their_columns(show, width):
    e = explanation()
    names = ("query", "key", "products", "similarities", "scores", "value", "contributions", "sizes", "output")
    e = dataclasses.replace(e, **{name: getattr(e, name) * np.float32(1e19) for name in names})
    shown = plain(show(view_of(e), width))
    assert max(cell_len(line) for line in shown.split("\n")) <= width
    assert not re.search(r"[0-9]{7}\.[0-9]", shown)
    assert f"{np.linalg.norm(e.output.astype(float)):.3g}" in shown


def test_the_strongest_key_and_its_features(show):
    e = explanation()
    key = int(np.argmax(e.weights))
    feature = int(np.argmax(np.abs(e.products[key])))
    shown = show(view_of(e), 200)
    assert f"“{e.keys[key]}” at position {key} weighs most, {e.weights[key]:.2f}: features {feature} (" in shown
    assert "L0 H0: “three” at position 2 looks most at " in shown


def test_hidden_keys_are_said_to_be_hidden(show):
    shown = plain(show(view_of(explanation(causal=True, position=1)), 100))
    scores, contributions = rows(shown, 0), rows(shown, 1)
    assert ["hidden" in scores[key] for key in range(4)] == [False, False, True, True]
    assert sorted(contributions) == [0, 1]


def test_nothing_to_see(show):
    e = explanation()
    zeros = {
        name: np.zeros_like(getattr(e, name)) for name in ("weights", "contributions", "sizes", "shares", "output")
    }
    blind = dataclasses.replace(e, visible=np.zeros(4, bool), scores=np.full(4, np.nan, np.float32), **zeros)
    assert "Every key is hidden" in show(view_of(blind), 80)


@pytest.mark.parametrize(("length", "d_key"), [(1, 512), (16, 3), (17, 1), (300, 512)])
def test_any_size(show, length, d_key):
    e = explanation(" ".join(f"w{i}" for i in range(length)), 0, 1, d_model=d_key)
    for width in (40, 160):
        shown = plain(show(view_of(e), width, "truecolor"))
        assert max(cell_len(line) for line in shown.split("\n")) <= width
        assert len(rows(shown, 0)) == min(length, MOST_KEYS)
        assert ("strongest of up to" in shown) == (d_key == 512)
        rest = length - MOST_KEYS
        if rest > 0:
            heaviest = np.sort(e.weights)[::-1]
            assert f"and {rest} more, together {heaviest[MOST_KEYS:].sum():.2f}" in shown
            assert f"{rest} more" in shown.split("output: ")[1]
        else:
            assert " more" not in shown


def test_bars():
    assert [bar(share, 4) for share in (0, 0.01, 0.5, 0.53, 1)] == ["", "", "██", "██▏", "████"]

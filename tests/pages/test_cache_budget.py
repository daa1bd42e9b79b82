"""What is said of a smaller cache, before anybody draws it."""

import numpy as np
import pytest

from mhaviz.pages.blocks import Curves, Matrices, Table, Text
from mhaviz.pages.cache_budget import MASS, cache_budget_page
from mhaviz.results.cache_budget import CacheBudget
from mhaviz.results.result import Source


def made(shares, budgets=(64, 256, 1024), n_layers=2, n_heads=2, lengths=(4096,), groups=(1, 1)):
    """A result in which each policy keeps these shares at each budget, of all heads alike."""
    shape = len(budgets), n_layers, n_heads
    share = {one: np.broadcast_to(np.array(of)[:, None, None], shape).copy() for one, of in shares.items()}
    spread = {one: np.full(shape, np.nan) for one in shares}
    layers = tuple(range(n_layers))
    return CacheBudget(Source("made"), tuple(shares), budgets, layers, share, spread, groups, lengths)


SHARES = {
    "columns": [0.3, 0.5, 0.7],
    "rows": [0.8, 0.93, 0.9999],
    "window": [0.4, 0.71, 0.8],
    "h2o": [0.5, 0.88, 0.9],
    "snapkv": [0.2, 0.6, 0.95],
}


HELD = "256 of 4,096 keys hold 93% of the attention"


def only(*policies, **changed):
    return made({one: (SHARES | changed)[one] for one in policies})


def block(page, kind, number=0):
    return [one for one in page.blocks if isinstance(one, kind)][number]


@pytest.mark.parametrize(
    ("found", "title"),
    [
        (
            made(SHARES),
            f"{HELD}: H2O keeps 88%, window 71%; SnapKV, which rereads the text, 60%",
        ),
        (
            made(SHARES | {"snapkv": [0.9, 0.92, 0.95]}),  # is not ranked above those that evict for good
            f"{HELD}: H2O keeps 88%, window 71%; SnapKV, which rereads the text, 92%",
        ),
        (
            only("rows", "snapkv"),
            f"{HELD}: SnapKV, which rereads the text, keeps 60%",
        ),
        (
            only("rows", "window", "h2o", window=[0.5, 0.876, 0.9]),
            f"{HELD}: no policy stands out, all keep 88%",
        ),
        (
            only("rows", "window", "h2o", "snapkv", window=[0.5, 0.874, 0.9]),
            f"{HELD}: H2O and window keep 87% to 88%; SnapKV, which rereads the text, 60%",
        ),
        (only("columns", "h2o"), "256 of 4,096 keys hold 50% of the attention: H2O keeps 88%"),
        (only("h2o", "window"), "256 of 4,096 keys: H2O keeps 88%, window 71%"),
        (only("columns", "rows"), "256 of 4,096 keys: rows keeps 93%, columns 50%"),
        (
            made(SHARES, lengths=(2000, 3000)),
            "256 of 2,000 to 3,000 keys hold 93% of the attention: H2O keeps 88%, window 71%; SnapKV, "
            "which rereads the text, 60%",
        ),
        (
            made({one: of[:2] for one, of in SHARES.items()}, budgets=(64, 256)),
            "64 of 4,096 keys hold 80% of the attention: H2O keeps 50%, window 40%; SnapKV, "
            "which rereads the text, 20%",
        ),
    ],
)
def test_titles(found, title):
    assert cache_budget_page(found).title == title


def test_a_head_is_named_where_it_stands_out():
    found = made(SHARES)
    assert "loses most" not in " ".join(block(cache_budget_page(found), Text).lines)
    found.share["h2o"][1, 1, 0] = 0.4
    page = cache_budget_page(found)
    about = block(page, Text)
    assert about.style == "subtitle"
    assert about.lines[0] == (
        "4 heads of 2 layers; 1 text of 4,096 tokens; means over 3,072 queries, those after the first 1,024 tokens"
    )
    assert about.lines[1] == "L1 H0 loses most: H2O keeps 40% of its attention"
    assert [row[0] for row in block(page, Table).rows] == ["L1 H0", "L0 H0", "L0 H1", "L1 H1"]


def test_grouped_heads_are_said():
    page = cache_budget_page(made(SHARES, groups=(4, 1)))
    assert "4 heads of 2 layers, in groups of 1 or 4 that share keys and a budget; " in block(page, Text).lines[0]


def test_curves_and_their_table():
    found = made(SHARES)
    found.share["h2o"][:, 0, 0] -= 0.4
    curves = block(cache_budget_page(found), Curves)
    (plot,) = curves.plots
    by_name = {series.name: series for series in plot.series}
    assert list(by_name) == ["columns", "rows", "window", "H2O", "SnapKV"]
    h2o = by_name["H2O"]
    np.testing.assert_allclose(h2o.ys, np.array(SHARES["h2o"]) - 0.1)
    np.testing.assert_allclose(h2o.band, [np.quantile(one, (0.25, 0.75)) for one in found.share["h2o"].reshape(3, 4)])
    assert (by_name["rows"].colour, by_name["rows"].line, by_name["rows"].band) == (None, "dashed", ())
    assert plot.y.limits == (0, 1)
    assert curves.table.texts()[1] == ("256", "50%, 50%", "93%, 93%", "71%, 71%", "78%, 48%", "60%, 60%")
    assert curves.table.texts()[2][2] == ">99%, >99%"
    assert "rows: each query's largest weights, of the sum over heads that share keys" in plot.notes
    (snapkv,) = (note for note in plot.notes if note.startswith("SnapKV"))
    assert snapkv.endswith("rereading all of the text at each vote")


def test_heads_are_shown_by_a_policy_whose_keys_never_return():
    found = made(SHARES | {"snapkv": [0.9, 0.92, 0.95]})
    assert ("what H2O keeps of each head",) in [
        text.lines for text in cache_budget_page(found).blocks if isinstance(text, Text)
    ]


def test_a_single_budget_has_no_curve():
    found = made({one: of[:1] for one, of in SHARES.items()}, budgets=(64,))
    page = cache_budget_page(found)
    assert not [one for one in page.blocks if isinstance(one, Curves)]
    assert block(page, Table).heading == "attention kept"


def test_heads_by_budget_on_one_scale():
    found = made(SHARES)
    heads = block(cache_budget_page(found), Matrices)
    assert [panel.title for panel in heads.panels] == ["64 keys", "256 keys", "1,024 keys"]
    (scale,) = heads.scales
    assert (scale.low, scale.high, scale.name) == (0, 1, "attention kept")
    np.testing.assert_allclose(np.stack([panel.values for panel in heads.panels]), found.share["h2o"], rtol=1e-6)


def test_mass_is_not_called_quality():
    page = cache_budget_page(made(SHARES))
    assert (MASS,) in [one.lines for one in page.blocks if isinstance(one, Text)]


def test_heads_that_a_layer_lacks_are_blank():
    found = made(SHARES)
    for share in found.share.values():
        share[:, 0, 1] = np.nan
    page = cache_budget_page(found)
    assert "3 heads of 2 layers" in block(page, Text).lines[0]
    assert page.remark == "rows are layers, columns heads; blank: no such head"
    assert cache_budget_page(found).title.startswith("256 of 4,096 keys hold 93%")

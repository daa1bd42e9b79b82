import json
from dataclasses import fields, replace
from io import StringIO

import numpy as np
import pytest
from rounding import rounding

from mhaviz.pages.blocks import Panels
from mhaviz.pages.head_distributions import distribution_panels
from mhaviz.pages.head_numbers import Order
from mhaviz.pages.head_statistics import head_statistics_page
from mhaviz.results.head_statistics import N_BINS, STATISTICS
from mhaviz.views.data import document, write_json
from mhaviz.views.html.contents import contents_of
from mhaviz.views.style import Style

CLOSE = rounding()


def parts(statistics):
    """The panels of each kind, by their titles, and the names of the scales beside the first."""
    page = head_statistics_page(statistics)
    blocks = [block for block in page.blocks if isinstance(block, Panels) and len(block.panels) > 1]
    return [{panel.title: panel for panel in b.panels} for b in blocks], [scale.name for scale in page.bars(blocks[0])]


def test_scales(random_heads):
    statistics = random_heads(kinds=("self", "cross"))
    (of_self, of_cross), bars = parts(statistics)
    weights = [name for name in STATISTICS[2:] if name in of_self]
    assert {(of_self[name].scale.low, of_self[name].scale.high) for name in weights} == {(0.0, 1.0)}
    for name, kinds in (("entropy", statistics.kinds), ("distance", statistics.kinds[:1])):
        assert of_self[name].scale.high == max(kind.number(name).mean.max() for kind in kinds)
    assert bars == ["entropy, nats", "distance, tokens", "weight, share"]
    assert parts(random_heads(kinds=("cross",)))[1] == ["entropy, nats", "weight, share"]
    assert list(of_cross) == ["entropy", "first", "separators", "sink"]
    np.testing.assert_array_equal(of_cross["first"].values, statistics.kinds[1].first.mean.astype(np.float32))


def test_norms_are_said_to_be_norms(random_heads):
    weights = random_heads()
    norms = replace(weights, source=replace(weights.source, details={**weights.source.details, "show": "norms"}))
    pages = [head_statistics_page(statistics) for statistics in (norms, weights)]
    titles = [next(block.title for block in page.blocks if isinstance(block, Panels)) for page in pages]
    assert titles[0] == f"norms of {titles[1]}"
    assert parts(norms)[1][-1] == "share of norms"
    assert [document(statistics)["quantity"] for statistics in (norms, weights)] == ["norm", "weight"]
    assert {row["quantity"] for row in norms.rows()} == {"norm"}
    assert list(norms.to_dataframe().quantity.unique()) == ["norm"]


def test_measures_of_norms_are_shares(random_heads):
    weights = random_heads(1, 1)
    norms = replace(weights, source=replace(weights.source, details={"show": "norms"}))
    for record, first in ((weights, "weight on the first token"), (norms, "share on the first token")):
        measures = contents_of(record, Style()).document["measures"]
        assert [measure["meaning"] for measure in measures if measure["name"] == "first"] == [first]


def test_heads_that_look_nowhere_else_have_a_scale(random_heads):
    statistics = random_heads()
    (kind,) = statistics.kinds
    zero = replace(kind.entropy, mean=np.zeros((2, 3)))
    ((panels,), _) = parts(replace(statistics, kinds=(replace(kind, entropy=zero),)))
    assert panels["entropy"].scale.high == 1.0


def test_data(random_heads):
    statistics = random_heads(kinds=("masked", "cross"), too_long=2)
    stream = StringIO()
    write_json(document(statistics), stream)
    data = json.loads(stream.getvalue())
    assert data["too_long"] == 2
    for kind, record in zip(data["kinds"], statistics.kinds, strict=True):
        assert (kind["kind"], kind["layers"]) == (record.kind, [0, 1])
        for name, numbers in kind["statistics"].items():
            for field in fields(record.number(name)):
                read = np.array(numbers[field.name], float)
                np.testing.assert_array_equal(read, getattr(record.number(name), field.name))
    assert data["kinds"][0]["statistics"]["next"]["mean"] == [[None] * 3] * 2


def test_a_page_for_the_browser_has_intervals_and_chance(random_heads):
    statistics = random_heads(kinds=("masked",))
    document = contents_of(statistics, Style()).document
    (averages,) = document["statistics"]
    assert [measure["name"] for measure in document["measures"]] == list(averages["means"])
    assert not {"next", "retrieval", "needle"} & set(averages["means"]), "of which nothing is known"
    for part in ("low", "high", "chance"):
        found = np.array(averages[f"{part}s"]["induction"])
        np.testing.assert_array_equal(found, getattr(statistics.kinds[0].induction, part))


def test_the_distribution_is_of_the_first_heads(random_heads):
    statistics = random_heads(3, 4)
    page = head_statistics_page(statistics, Order("first"))
    _, panels = (block for block in page.blocks if isinstance(block, Panels))
    assert panels.title == "distribution of first over sentences: 6 of 12 heads"
    first = statistics.kinds[0].first
    row, column = np.unravel_index(first.mean.argmax(), first.mean.shape)
    low, high = first.low[row, column], first.high[row, column]
    label = f"L{row} H{column}  {first.mean.max():.2f}, {low:.2f}–{high:.2f}"
    assert panels.rows.tokens.texts[0] == label
    expected = first.counts[row, column] / first.counts[row, column].sum()
    (drawn,) = panels.panels
    np.testing.assert_allclose(drawn.values[0], expected[: drawn.values.shape[1]], rtol=CLOSE)
    assert drawn.values.sum() == pytest.approx(len(panels.rows))


def test_many_bins_are_drawn_as_pairs():
    counts = np.arange(1, N_BINS + 1)
    panels = distribution_panels("first", {"0.0": counts}, N_BINS - 1, "sentence", 1)
    np.testing.assert_allclose(panels.panels[0].values[0], (counts[::2] + counts[1::2]) / counts.sum(), rtol=CLOSE)
    assert panels.columns.tokens.texts[:3] == ("0", "0.05", "0.1")


def test_no_distribution_of_a_single_sentence(random_heads):
    statistics = random_heads()
    (kind,) = statistics.kinds
    counts = np.zeros_like(kind.first.counts)
    counts[..., 2] = 1
    alone = replace(statistics, kinds=(replace(kind, first=replace(kind.first, counts=counts)),))
    page = head_statistics_page(alone, Order("first"))
    assert len([block for block in page.blocks if isinstance(block, Panels)]) == 1

"""What is said of heads that were zeroed, before anybody draws it."""

from dataclasses import replace

import numpy as np
import pytest

from mhaviz.pages.ablation import ablation_page
from mhaviz.pages.blocks import Dots, Matrices, Text
from mhaviz.pages.colormaps import DIVERGING, INK
from mhaviz.pages.head_numbers import Order


def block(page, kind):
    return next(one for one in page.blocks if isinstance(one, kind))


def test_heads_are_ranked_by_what_changes(random_effects):
    ablation = random_effects()
    table = block(ablation_page(ablation), Dots).table
    means = ablation.kinds[0].change.mean
    expected = sorted(zip(*np.where(np.isfinite(means)), strict=True), key=lambda head: -means[head])
    assert [row[0] for row in table.rows] == [f"L{layer} H{head}" for layer, head in expected]
    assert table.rows[0][1] == (means[expected[0]], means[expected[0]] / 3)
    assert [column.heading for column in table.columns] == ["head", "change", "95%", "loss"]
    low, high = means[expected[0]] - 0.1, means[expected[0]] + 0.1
    assert table.texts()[0][2] == f"{low:.2f}{'–' if high >= 0 else ' to '}{high:.2f}"


@pytest.mark.parametrize(
    ("order", "heading"),
    [
        (Order("loss", most=3), "heads by loss, highest first: 3 of 4"),
        (Order("change"), "heads by change, highest first"),
    ],
)
def test_orders(random_effects, order, heading):
    ablation = random_effects()
    table = block(ablation_page(ablation, order), Dots).table
    assert table.heading == heading
    numbers = [row[1][0] for row in table.rows]
    assert numbers == sorted(numbers, reverse=True)


def test_scales_tell_what_is_below_0(random_effects):
    change, loss = block(ablation_page(random_effects()), Matrices).panels
    assert (change.scale.colormap, change.scale.low) == (INK, 0)
    assert (loss.scale.colormap, loss.scale.low) == (DIVERGING, -loss.scale.high)
    assert loss.scale.coloured(INK) == loss.scale  # which has no middle
    assert change.scale.coloured("bone").colormap == loss.scale.coloured("bone").colormap == "bone"


def test_small_changes_have_digits(random_effects):
    table = block(ablation_page(random_effects(prediction="embedding", size=1e-4, seed=3)), Dots).table
    assert all(len(row[1].partition("±")[0].lstrip("0.")) >= 1 for row in table.texts()[:1])
    assert "0.0000±" not in table.texts()[0][1]


def test_words(random_effects):
    page = ablation_page(random_effects(too_long=2))
    texts = [one for one in page.blocks if isinstance(one, Text)]
    (dots,) = (one for one in page.blocks if isinstance(one, Dots))
    first = dots.dots[0]
    assert page.title == f"made by a test: without {first.name} the next token changes most, by {first.value:.2f} bits"
    assert texts[0].lines == (
        "masked self-attention: 4 heads, each zeroed by itself, means over 10 sentences, 50 tokens",
    )
    assert texts[-1].lines == (
        "the whole model's loss: 4.50 bits a token",
        "2 sentences were left out: longer than the model can read",
    )
    assert page.remark == "rows are layers, columns heads; blank: no such head, or not zeroed"
    embeddings = ablation_page(random_effects(prediction="embedding", kinds=("self",)))
    assert [one.style for one in embeddings.blocks if isinstance(one, Text)] == ["subtitle"]
    assert [panel.title for panel in block(embeddings, Matrices).panels] == ["change"]
    assert "1 − cosine" in block(embeddings, Dots).table.notes


def test_several_kinds_are_told_apart(random_effects):
    table = block(ablation_page(random_effects(kinds=("self", "cross"))), Dots).table
    assert {row[0] for row in table.rows} == {"self", "cross"}
    assert table.columns[0].heading == "kind"


def title(ablation, numbers, order="change"):
    """The title where heads have these numbers."""
    (kind,) = ablation.kinds
    number = replace(kind.number(order), mean=np.array([numbers]))
    changed = replace(kind, layers=(0,), **{order: number} if order == "change" else {"change": number, order: number})
    return ablation_page(replace(ablation, kinds=(changed,)), Order(order)).title


def test_a_title_where_no_head_has_an_effect(random_effects):
    effects, nan = random_effects(1, 2), float("nan")
    assert title(effects, [0.0, 0.0]) == "made by a test: no head changes the predictions"
    assert title(effects, [-0.1, -0.2], "loss") == "made by a test: no head makes the predictions better"
    assert title(effects, [nan, nan]) == "made by a test: no head has a known effect"
    embeddings = random_effects(1, 2, prediction="embedding")
    assert title(embeddings, [0.0, 0.0]) == "made by a test: no head changes the embeddings"


def test_a_title_of_one_head_and_of_tiny_effects(random_effects):
    effects, nan = random_effects(1, 2), float("nan")
    assert title(effects, [0.25, nan]) == "made by a test: without L0 H0 the next token changes by 0.25 bits"
    assert title(effects, [-2.0, 1e-5], "loss") == (
        "made by a test: without L0 H1 the next token is worse predicted most, by 1.0e−05 bits"
    )

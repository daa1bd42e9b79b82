"""Numbers as texts, by a table that the page for the browser is tested against, too."""

import json
from pathlib import Path

import pytest

from mhaviz.pages.numbers import fixed, percent, short
from mhaviz.pages.panels import Scale

TABLE = json.loads((Path(__file__).parents[1] / "web" / "numbers.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("rule", "name"), [(fixed, "fixed"), (short, "short")])
def test_a_number_is_written_by_one_rule(rule, name):
    assert [rule(number, length) for number, length, _ in TABLE[name]] == [text for *_, text in TABLE[name]]


def test_a_cell_has_its_number_unless_that_rounds_to_0():
    for number, scale, low, text in TABLE["cells"]:
        assert Scale(low=low, **scale).text(number) == text


def test_a_share_is_nothing_only_where_it_is_0():
    assert [percent(share) for share in (0.0, 1e-9, 0.005, 0.0051, 0.474, 1.0)] == [
        "0%",
        "<1%",
        "<1%",
        "1%",
        "47%",
        "100%",
    ]

"""What changes without heads, as data."""

import csv
import json
from dataclasses import replace

import msgspec
import pytest
from drawn import texts

from mhaviz.errors import ArgumentError
from mhaviz.inputs.probes import Needle, Probe, RandomRepeats
from mhaviz.pages.registry import page_of
from mhaviz.views.figure.page import draw_page
from mhaviz.views.style import Style
from mhaviz.views.terminal.page import PageView


def test_files(tmp_path, random_effects):
    ablation = random_effects(kinds=("self", "cross"))
    ablation.save(tmp_path / "a.json", tmp_path / "a.csv")
    found = json.loads((tmp_path / "a.json").read_text())
    assert (found["prediction"], found["sentences"], found["loss"]) == ("next token", 10, 4.5)
    assert found["kinds"][1]["change"]["mean"][0] == [*ablation.kinds[1].change.mean[0, :2], None]
    lines = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert len(lines) == 2 * 4 * 2
    one = ablation.kinds[0].loss
    assert lines[3] == {
        "kind": "self",
        "layer": "0",
        "head": "1",
        "number": "loss",
        **{name: repr(float(getattr(one, name)[0, 1])) for name in ("mean", "spread", "low", "high")},
        "sentences": "10",
        "predictions": "50",
    }
    table = ablation.to_dataframe()
    assert (len(table), list(table.columns)) == (16, list(lines[0]))


def test_what_is_not_known_is_empty(tmp_path, random_effects):
    random_effects(prediction="embedding").save(tmp_path / "a.csv")
    assert {line["number"] for line in csv.DictReader((tmp_path / "a.csv").read_text().splitlines())} == {"change"}
    random_effects(prediction="embedding").save(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["loss"] is None


def test_what_is_zeroed_is_said(show, random_effects, random_heads):
    for record in (random_effects(), random_heads()):
        zeroed = replace(record, source=replace(record.source, remark="L0 H1 is zeroed"))
        page, style = page_of(zeroed), Style()
        assert "L0 H1 is zeroed" in texts(draw_page(page, style))
        assert "L0 H1 is zeroed" in show(PageView(page, style), 80)


def test_there_is_no_page_for_the_browser(tmp_path, random_effects):
    with pytest.raises(ArgumentError, match=r"\.json, \.csv"):
        random_effects().save(tmp_path / "a.html")


@pytest.mark.parametrize(
    ("probe", "texts", "between"),
    [
        (None, "means over 10 sentences, 50 tokens", "between sentences"),
        (
            RandomRepeats(16, 10),
            "means over 10 sequences of 16 random tokens, repeated, 50 tokens",
            "between sequences",
        ),
        (Needle("x", depths=(0.0, 0.5)), "10 sentences with a needle at 2 depths, 50 tokens", "between sentences"),
    ],
)
def test_what_the_means_are_over(tmp_path, show, random_effects, probe, texts, between):
    ablation = random_effects(probe=probe)
    shown = " ".join(show(PageView(page_of(ablation), Style()), 150).split())
    assert texts in shown
    assert between in shown
    ablation.save(tmp_path / "a.json")
    assert msgspec.convert(json.loads((tmp_path / "a.json").read_text())["probe"], Probe | None) == probe

"""What pictures, terminals and files show of the findings of a check."""

import io
import json
import re
from dataclasses import replace
from itertools import pairwise
from urllib.parse import unquote

import checked
import numpy as np
import pytest
from checked import ALL, made_check
from drawn import images, inside, texts
from hostile import HOSTILE, acts
from rich.cells import cell_len

import mhaviz
from mhaviz.errors import ArgumentError
from mhaviz.results.check import Finding, Line
from mhaviz.views.data import write_data
from mhaviz.views.showing import figure_of, figures_of, view_of
from mhaviz.views.style import Style

PILE = next(text for text in HOSTILE if len(text) == 501)


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def hostile_finding(text):
    contrast = replace(
        checked.mask_side(2).contrast, note=text, panels=(text, text), axes=(text, text), rows=(text,) * 6
    )
    return Finding(text, "error", text, text, text, text, text, Line(text, 1, text), contrast)


def sarif(check):
    stream = io.BytesIO()
    write_data(check, ".sarif", stream)
    return json.loads(stream.getvalue())


def test_a_figure_shows_both_maps_on_one_scale():
    finding = checked.mask_side()
    sheet = figure_of(made_check(finding))
    for name, values in (("as it is", finding.contrast.found), ("as it should be", finding.contrast.expected)):
        (image,) = images(sheet, name)
        np.testing.assert_array_equal(np.asarray(image.get_array(), np.float32), values[0])
    (is_now, should_be) = (images(sheet, name)[0] for name in ("as it is", "as it should be"))
    assert is_now.get_clim() == should_be.get_clim()
    assert is_now.get_cmap()(np.arange(256)).tolist() == should_be.get_cmap()(np.arange(256)).tolist()
    said = texts(sheet)
    assert "MyAttention: the padding mask hides queries in place of keys" in said
    assert {"as it is", "as it should be", "query", "key", "weight"} < set(said)
    inside(sheet)


@pytest.mark.slow
@pytest.mark.parametrize("room", ["slide", "column", "page"])
def test_every_finding_has_room(room):
    sheets = figures_of(made_check(*ALL), Style(room=room))
    said = " ".join(text for sheet in sheets for text in texts(sheet))
    assert all(f"{finding.severity} {finding.code}" in said for finding in ALL)
    for sheet in sheets:
        inside(sheet)
        assert len(images(sheet, "as it is")) == len(images(sheet, "as it should be"))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_drawn_as_they_are(text):
    sheet = figure_of(made_check(hostile_finding(text), checked.missing_scale(), probed=(text,)))
    if text != PILE:  # in the title, above which is nothing
        inside(sheet)
    assert not any(acts(line.translate(dict.fromkeys([0x2066, 0x2067, 0x2068, 0x2069]))) for line in texts(sheet))


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("width", [40, 80])
def test_hostile_texts_do_not_act_on_a_terminal(show, text, width):
    assert not acts(show(view_of(made_check(hostile_finding(text), checked.missing_scale())), width))


@pytest.mark.parametrize(("width", "encoding"), [(80, "utf-8"), (80, "ascii"), (120, "utf-8"), (40, "utf-8")])
def test_a_terminal_shows_all_findings(show, width, encoding):
    shown = show(view_of(made_check(*ALL)), width, encoding=encoding)
    assert max(map(cell_len, shown.split("\n"))) <= width + 4 * (encoding == "ascii")  # "sqrt" and "->" are longer
    said = " ".join(shown.split())
    assert all(f"{finding.severity} {finding.code}" in said for finding in ALL)
    assert shown.isascii() == (encoding == "ascii")
    assert "\\u" not in shown


@pytest.mark.parametrize(("width", "colour"), [(80, "truecolor"), (80, "256"), (120, None)])
def test_maps_stand_side_by_side_in_a_terminal(show, width, colour):
    shown = plain(show(view_of(made_check(checked.causal_off_by_one())), width, colour))
    assert sum("as it is" in line and "as it should be" in line for line in shown.split("\n")) == 1
    rows = [line.split() for line in plain(show(view_of(made_check(checked.heads_layout())), width)).split("\n")]
    assert ["5", "▁1", "▁1", "█5", "█5"] in rows
    assert ["5", "█5", "█5", "█5", "█5"] in rows


def test_no_findings_are_a_line(show):
    shown = show(view_of(made_check()), 120)
    assert shown.split("\n")[:2] == [
        "MyAttention: nothing wrong in 10 probes",
        "probed: scale, softmax-axis, heads-layout, causal, padding, mask-side, row-sum, batch, nan, eval",
    ]


@pytest.mark.slow
def test_it_is_saved_in_its_formats(tmp_path):
    check = made_check(*ALL)
    with pytest.warns(UserWarning, match="inches high"):
        check.save(*(tmp_path / f"check{suffix}" for suffix in (".png", ".svg", ".pdf", ".json", ".sarif")))
    saved = json.loads((tmp_path / "check.json").read_text())
    assert [finding["code"] for finding in saved["findings"]] == [finding.code for finding in ALL]
    assert saved["findings"][4]["contrast"]["found"][0][3] == [None] * 4
    assert saved["findings"][0]["line"]["number"] == 31
    check.save(tmp_path / "part.png", tmp_path / "part.sarif", room="slide")
    assert (tmp_path / "part-2.png").exists()
    with pytest.raises(ArgumentError, match=r"\.sarif"):
        check.save(tmp_path / "check.html")


def test_sarif_holds_each_finding():
    log = sarif(made_check(*ALL, checked.missing_scale(), rules={"scale": "scores are not divided by √d_key"}))
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("mhaviz", mhaviz.__version__)
    assert [rule["id"] for rule in driver["rules"]] == [finding.code for finding in ALL]
    assert driver["rules"][2]["shortDescription"] == driver["rules"][2]["fullDescription"]
    assert driver["rules"][2]["shortDescription"] == {"text": "scores are not divided by √d_key"}
    assert driver["rules"][0]["shortDescription"] == {"text": "mask-side"}
    assert [rule["helpUri"].rpartition("/")[2] for rule in driver["rules"]] == [
        f"checks.md#{rule['id']}" for rule in driver["rules"]
    ]
    for result, finding in zip(run["results"], (*ALL, checked.missing_scale()), strict=True):
        assert result["ruleId"] == finding.code == driver["rules"][result["ruleIndex"]]["id"]
        assert result["level"] == ("error" if finding.severity == "error" else "note")
        assert result["message"]["text"] == f"{finding.mistake}; found: {finding.found}; mend: {finding.mend}"
    first, second, third, fourth, fifth, *_ = run["results"]
    assert first["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "attention.py"},
                "region": {"startLine": 31, "snippet": {"text": checked.mask_side().line.text}},
            },
            "logicalLocations": [{"name": "MyAttention", "fullyQualifiedName": "MyAttention", "kind": "module"}],
        }
    ]
    assert second["locations"][0]["logicalLocations"][0] == {
        "name": "attn",
        "fullyQualifiedName": "blocks.0.attn",
        "kind": "module",
    }
    assert "logicalLocations" not in third["locations"][0]
    assert "physicalLocation" not in fourth["locations"][0]
    assert "locations" not in fifth
    assert run["properties"]["unprobed"][0] == {"name": "packed", "reason": "takes no numbers of documents"}


def test_sarif_without_findings_says_what_was_probed():
    (run,) = sarif(made_check())["runs"]
    assert run["results"] == run["tool"]["driver"]["rules"] == []
    assert run["properties"]["probed"] == list(checked.PROBED)


@pytest.mark.parametrize(("file", "uri"), [
    ("models/attention.py", "models/attention.py"),
    ("my file #1.py", "my%20file%20%231.py"),
    ("/srv/a b.py", "file:///srv/a%20b.py"),
    ("c:d.py", "c%3Ad.py"),
    ("<stdin>", "%3Cstdin%3E"),
    ("\udcff.py", "%ED%B3%BF.py"),
])  # fmt: skip
def test_a_file_is_the_reference_of_a_uri(file, uri):
    (run,) = sarif(made_check(replace(checked.mask_side(), line=Line(file, 3))))["runs"]
    assert run["results"][0]["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": uri},
        "region": {"startLine": 3},
    }


@pytest.mark.parametrize("text", [*HOSTILE, "{0} and {{1}}", "[a](1)", "x[0](y){z}"])
def test_hostile_texts_are_literal_in_sarif(text):
    (run,) = sarif(made_check(hostile_finding(text), rules={text: text}))["runs"]
    (result,) = run["results"]
    message = result["message"]["text"]
    assert not acts(message)
    assert "](" not in message
    runs = [len(list(group)) for group in _runs(message)]
    assert all(length % 2 == 0 for length in runs), "every brace is doubled"
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] if text else ""
    assert unquote(uri, errors="surrogatepass") == text if text != " " else True


def _runs(text):
    """Runs of equal braces."""
    places = [i for i, character in enumerate(text) if character in "{}"]
    groups = [[places[0]]] if places else []
    for before, place in pairwise(places):
        if place == before + 1 and text[place] == text[before]:
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups

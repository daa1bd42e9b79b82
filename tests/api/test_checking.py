"""``check``: its findings as a sequence, as text and as JSON, and what it refuses."""

import json
from collections.abc import Sequence

import pytest
from checks import planted_a
from checks.right_base import Heads

from mhaviz.api.checking import check
from mhaviz.errors import ArgumentError
from mhaviz.results.check import Check, Finding

D_MODEL = 32


def layer_of(name):
    return next(one for one in planted_a.MISTAKES if one.name == name).make()


@pytest.fixture(scope="module")
def found():
    """Two errors, and what could not be probed."""
    return check(layer_of("RootOfTheLength"), d_model=D_MODEL)


def test_a_sequence_of_findings(found):
    assert isinstance(found, Sequence)
    assert len(found) == 2
    assert [finding.code for finding in found] == [found[0].code, found[1].code] == ["scale", "padding"]
    assert found.codes == ("scale", "padding")
    assert all(isinstance(finding, Finding) for finding in found)
    assert found[-1] is found[1]
    assert found[0] in found
    with pytest.raises(IndexError):
        _ = found[2]


def test_a_slice_is_a_check(found):
    part = found[:1]
    assert isinstance(part, Check)
    assert part.codes == ("scale",)
    assert part.source == found.source
    assert part.probed == found.probed
    assert not found[2:]


def test_what_is_right_is_empty():
    found = check(Heads(), d_model=D_MODEL, ignore=["uniform-row"])
    assert not found
    assert list(found) == []
    assert found.errors == ()
    assert found.summary == f"nothing wrong in {len(found.probed)} probes"
    assert repr(found) == f"<mhaviz Check of Heads: {found.summary}>"


def test_errors_and_notices():
    found = check(layer_of("SubtractionLost"), d_model=D_MODEL)
    assert found
    assert found.errors == tuple(found)
    noticed = check(Heads(), d_model=D_MODEL)
    assert noticed
    assert noticed.errors == ()
    assert noticed.summary == "1 notice"


def test_errors_come_first():
    """``uniform-row`` is probed before ``causal``."""
    heads = Heads()
    found = check(lambda x, keep=None, causal=False: heads(x, keep), d_model=D_MODEL)
    assert [(finding.severity, finding.code) for finding in found] == [("error", "causal"), ("notice", "uniform-row")]
    assert found.summary == "1 error and 1 notice"


def test_it_prints_each_finding_with_its_line_and_its_remedy(found):
    """In a single line, as pytest writes a line end as two characters."""
    first, *parts = repr(found).split(" | ")
    assert first == "<mhaviz Check of RootOfTheLength: 2 errors>"
    for part, finding in zip(parts, found, strict=True):
        assert part == f"{finding.severity} {finding.code} at {finding.line}: {finding.message}; {finding.mend}"


def test_codes_to_ignore(found):
    layer = layer_of("RootOfTheLength")
    other = check(layer, d_model=D_MODEL, ignore={"padding"})
    assert other.codes == ("scale",)
    assert other.ignored == ("padding",)
    assert not check(layer, d_model=D_MODEL, ignore=("scale", "padding"))


def test_an_unknown_code_is_said_before_anything_runs():
    def attend(x):
        raise AssertionError

    with pytest.raises(ArgumentError, match=r"ignore.*, scale, .*got scales$"):
        check(attend, d_model=D_MODEL, ignore=["scales"])


@pytest.mark.parametrize("d_model", [0, -1, 2.5, "32"])
def test_a_number_of_features_that_is_none(d_model):
    with pytest.raises(ArgumentError, match="d_model"):
        check(Heads(), d_model=d_model)


def test_all_of_it_as_json(found, tmp_path):
    found.save(tmp_path / "check.json")
    document = json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))
    assert [one["code"] for one in document["findings"]] == ["scale", "padding"]
    assert document["probed"] == list(found.probed)
    assert {one["name"]: one["reason"] for one in document["unprobed"]} == {
        one.name: one.reason for one in found.unprobed
    }
    for one, finding in zip(document["findings"], found, strict=True):
        assert one["message"] == finding.message
        assert one["severity"] == finding.severity
        assert one["line"]["number"] == finding.line.number
    assert document["source"]["name"] == "RootOfTheLength"


def test_a_contrast_as_json(tmp_path):
    check(layer_of("MaskStandsUpright"), d_model=D_MODEL).save(tmp_path / "check.json", tmp_path / "check.sarif")
    (one,) = json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))["findings"]
    contrast = one["contrast"]
    assert contrast["quantity"] == "weight"
    assert len(contrast["found"]) == len(contrast["expected"]) == len(contrast["panels"])
    for row in contrast["expected"][0]:
        assert sum(row) == pytest.approx(1)
    (run,) = json.loads((tmp_path / "check.sarif").read_text(encoding="utf-8"))["runs"]
    assert [result["ruleId"] for result in run["results"]] == [one["code"]]

"""JUnit's XML of a difference, read back by Python's own parser."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hostile import HOSTILE
from made import made_map

from mhaviz.analyses.difference import compare
from mhaviz.records import Attention, CorpusDifference, KindDivergence, Limits, Source


@pytest.fixture
def read(tmp_path):
    """Save a record as .xml, and read its one test suite."""

    def saved(record):
        path = tmp_path / "junit.xml"
        record.save(path)
        (suite,) = ElementTree.parse(path).getroot()
        return suite

    return saved


def attention(*heads, footnote="made by a test", layer=0):
    weights = np.array(heads, np.float32)
    tokens = tuple(map(str, range(weights.shape[1])))
    return Attention(Source(footnote), (replace(made_map(tokens, tokens, weights), layer=layer),))


UNIFORM, FIRST = [[0.5, 0.5]] * 2, [[1, 0]] * 2


def corpus(mean, largest=None, footnote="made by a test"):
    """Of one layer."""
    mean = np.array([mean], float)
    largest = mean if largest is None else np.array([largest], float)
    where = np.where(largest > 0, 3, -1)
    kind = KindDivergence("self", (2,), 5, 50, mean, np.zeros_like(mean), largest, where, where + 1)
    return CorpusDifference(Source(footnote), (kind,))


def counts(suite):
    return tuple(int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped"))


def test_a_head_is_a_case_and_fails_above_the_limit(read):
    difference = compare(attention(UNIFORM, UNIFORM), attention(UNIFORM, FIRST))
    suite = read(replace(difference, limits=Limits(0.1, 0.2)))
    assert counts(suite) == (2, 1, 0, 0)
    good, bad = suite.iter("testcase")
    assert (good.get("classname"), good.get("name"), bad.get("name")) == ("mhaviz.layer 0, self", "head 0", "head 1")
    assert good.find("failure") is None
    bits = difference.maps[0].divergence[1]
    assert bad.find("failure").get("message") == (
        f"expected a divergence of at most 0.1 bits, got {bits:.4g}; "
        f"expected a divergence of at most 0.2 bits in every row, got {bits:.4g} in row 0"
    )
    assert bad.findtext("system-out") == f"divergence {bits!r} bits".replace("np.float64(", "").replace(")", "")
    assert {one.get("name"): one.get("value") for one in suite.iter("property")} == {
        "source": "A: made by a test; B: made by a test",
        "fail-above": "0.1",
        "fail-above-row": "0.2",
    }


def test_what_nobody_can_tell_is_an_error_if_a_limit_is_given(read):
    torn = [[0.5, 0.7], [0.5, 0.5]]
    difference = compare(attention(UNIFORM, UNIFORM), attention(UNIFORM, torn))
    assert counts(read(difference)) == (2, 0, 0, 1)
    suite = read(replace(difference, limits=Limits(0.1)))
    assert counts(suite) == (2, 0, 1, 0)
    (error,) = suite.iter("error")
    assert error.get("message") == "row 0 of the second sums to 1.2; expected rows that sum to 1"
    lone = replace(difference, only_after=("layer 7, self",), limits=Limits(row=0.5))
    assert [case.get("name") for case in read(lone).iter("testcase")][-1] == "all heads"
    assert counts(read(lone)) == (3, 0, 2, 0)


def test_of_a_corpus(read):
    suite = read(replace(corpus([0.05, 0.3, np.nan], [0.5, 0.4, np.nan]), limits=Limits(0.1, 0.45)))
    assert counts(suite) == (2, 2, 0, 0)
    assert [failure.text for failure in suite.iter("failure")] == [
        "expected a divergence of at most 0.45 bits in every row, got 0.5 in row 4 of sentence 3",
        "expected a divergence of at most 0.1 bits, got 0.3",
    ]
    assert counts(read(corpus([0.05, 0.3]))) == (2, 0, 0, 0)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_shown_and_are_xml(read, text):
    suite = read(corpus([0.1], footnote=f"{text}]]><failure/>"))
    assert "]]><failure/>" in suite.find("properties/property").get("value")
    assert not list(suite.iter("failure"))


def test_the_same_difference_is_the_same_file(tmp_path):
    for name in ("a.xml", "b.xml"):
        corpus([0.1, 0.2]).save(tmp_path / name)
    text = Path(tmp_path / "a.xml").read_bytes()
    assert text == Path(tmp_path / "b.xml").read_bytes()
    assert text.startswith(b"<?xml version='1.0' encoding='utf-8'?>\n<testsuites ")


def test_a_limit_is_a_share_of_one_bit():
    with pytest.raises(ValueError, match=r"expected bits from 0 to 1, got 1\.5"):
        Limits(row=1.5)

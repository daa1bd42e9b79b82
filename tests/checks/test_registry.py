"""Codes stay as they are, as users ignore them by name, and each has its page."""

import pytest

from mhaviz.checks.registry import codes

CODES = (
    "eval-dropout",
    "random",
    "input-changed",
    "shape",
    "heads-layout",
    "groups",
    "softmax-axis",
    "mask-after-softmax",
    "row-sum",
    "sinks",
    "not-attention",
    "batch",
    "isolated",
    "softcap",
    "scale",
    "mask-polarity",
    "mask-side",
    "mask-value",
    "padding",
    "nan",
    "uniform-row",
    "causal",
    "positions",
    "cache",
    "packed",
    "dead-parameter",
)


def test_codes_are_stable():
    """A code that is renamed is found no more by those who ignore it, or who have written it into their CI."""
    assert tuple(codes()) == CODES


def test_a_cause_runs_before_what_follows_from_it():
    for place, code in enumerate(CODES):
        assert codes()[code].unless <= set(CODES[:place])


@pytest.mark.parametrize("code", CODES)
def test_each_code_has_a_page(code):
    one = codes()[code]
    first, empty, *rest = one.explanation.splitlines()
    assert one.code == code
    assert one.meaning == first
    assert first.endswith(".")
    assert len(first) <= 100
    assert not empty
    text = "\n".join(rest)
    assert 0 < text.index("Why it hides: ") < text.index("How to mend it: ")
    assert text.endswith(".")
    assert one.name

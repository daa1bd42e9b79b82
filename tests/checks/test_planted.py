"""Layers with a mistake each: the mistake is found, and nothing is found in the same layer without it."""

from pathlib import Path

import checks.planted_a
import checks.planted_b
import numpy as np
import pytest

from mhaviz.api.checking import check
from mhaviz.checks.registry import codes

MODULES = {"a": checks.planted_a, "b": checks.planted_b}
MISTAKES = {f"{one.style}-{one.name}": one for module in MODULES.values() for one in module.MISTAKES}
RIGHT = {f"{letter}-{name}": right for letter, module in MODULES.items() for name, *right in module.RIGHT}
FIRST = {one.code: f"{letter}-{one.name}" for letter, module in MODULES.items() for one in reversed(module.MISTAKES)}
"""The first right layer beside a mistake of each code."""

FURTHER = {
    "view-RootOfTheLength": {"padding"},  # the length that divides counts padding
}
"""What else is found, with the reason."""

AS_NOTICES = {
    "grouped-KeysAndValuesTiled": "consistent, and other implementations do it",
    "grouped-ScaledByGroups": "24 is no size that a layer tells, so that 1/√24 may be somebody's choice",
    "function-scaled_by_d_key": "muP divides by d_key",
    "function-smallest_float": "many libraries live with it",
    "packed-BoundaryTooLate": "told by positions alone, which need not mean documents",
}
"""Mistakes that may be on purpose, with the reason."""


def checked(make, d_model, kwargs):
    return check(make(), d_model=d_model, **kwargs)


SHOWN = {f"{one.style}-{one.name}" for module in MODULES.values() for one in module.MISTAKES[::6]} | set(AS_NOTICES)
"""Those that are checked in each run."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in SHOWN)) for name in MISTAKES]
)
def test_the_mistake_is_found(name):
    mistake = MISTAKES[name]
    found = checked(mistake.make, mistake.d_model, mistake.kwargs)
    assert mistake.code in found.codes
    assert set(found.codes) - {mistake.code} == FURTHER.get(name, set())
    (finding,) = (one for one in found if one.code == mistake.code)
    assert finding.severity == ("notice" if name in AS_NOTICES else "error")
    assert finding.tried
    assert finding.mend
    if finding.line is not None:
        lines = (Path(__file__).parent / Path(finding.line.file).name).read_text().splitlines()
        assert Path(finding.line.file).name in ("planted_a.py", "planted_b.py")
        assert finding.line.text == lines[finding.line.number - 1].strip()
    if finding.contrast is not None:
        found, expected = finding.contrast.found, finding.contrast.expected
        size = max(len(finding.contrast.panels), 1), len(finding.contrast.rows), len(finding.contrast.columns)
        assert found.shape == expected.shape == size
        assert not np.allclose(found, expected, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in FIRST.values())) for name in RIGHT]
)
def test_nothing_is_found_without_the_mistake(name):
    assert not checked(*RIGHT[name])


def test_each_code_is_planted():
    """But for two that are on purpose: right_layers has these."""
    assert set(FIRST) == set(codes()) - {"sinks", "softcap"}
    assert set(FURTHER) | set(AS_NOTICES) <= set(MISTAKES)


def test_each_mistake_has_a_name_of_its_own():
    assert len(MISTAKES) == sum(len(module.MISTAKES) for module in MODULES.values())
    assert len(RIGHT) == sum(len(module.RIGHT) for module in MODULES.values())

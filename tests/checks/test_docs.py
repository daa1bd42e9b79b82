"""The pages of all codes: the documentation has them as the probes do, and each can be read by itself."""

from pathlib import Path

import make_checks
import pytest

from mhaviz.checks.registry import codes

ALL = codes()


def test_the_pages_are_those_of_the_probes():
    made = "python samples/make_checks.py makes it again"
    assert make_checks.PAGES.read_text(encoding="utf-8") == make_checks.pages(), made


def test_the_table_of_the_tour_is_that_of_the_probes():
    tour = make_checks.TOUR.read_text(encoding="utf-8")
    assert make_checks.with_table(tour) == tour, "python samples/make_checks.py makes it again"


@pytest.mark.parametrize("code", ALL)
def test_a_page_is_short_and_ends_with_how_to_mend_it(code):
    lines = ALL[code].explanation.splitlines()
    assert len(lines) <= 12
    parts = "\n".join(lines).split("\n\n")
    assert [part.split(":")[0] for part in parts[-2:]] == ["Why it hides", "How to mend it"]
    assert all(line.count("``") % 2 == 0 for line in lines), "code stands on a single line"


def test_every_file_of_probes_is_run():
    """A file that is not listed in the registry is never imported."""
    folder = Path(__file__).parents[2] / "mhaviz" / "checks" / "probes"
    run = {one.find.__module__.rpartition(".")[2] for one in ALL.values()}
    assert run == {path.stem for path in folder.glob("*.py")} - {"__init__"}

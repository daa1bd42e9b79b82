import re
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len
from shown import head_statistics_view

from mhaviz.pages.head_numbers import Order, known_measures
from mhaviz.pages.head_statistics import MEASURES

KINDS = ("self", "masked", "cross")


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def widest(text):
    return max(cell_len(line) for line in text.split("\n"))


def words(text):
    return " ".join(text.split())


@pytest.mark.parametrize(("width", "colour"), [(40, None), (80, "truecolor"), (160, None)])
def test_every_number_is_there(show, random_heads, width, colour):
    statistics = random_heads()
    shown = plain(show(head_statistics_view(statistics), width, colour))
    assert widest(shown) <= width
    (kind,) = statistics.kinds
    table = shown.split("heads by entropy, lowest first")[1]
    is_bare = "left out for want of room: 95%, standard deviations; a .csv file has all" in words(table)
    for name, decimals in (("entropy", 2), ("distance", 1), ("induction", 2)):
        spreads = [] if is_bare else kind.number(name).spread.flat
        for number in (*kind.number(name).mean.flat, *spreads):
            assert f"{number:.{decimals}f}" in table
    assert ("standard deviation between sentences" in words(shown)) != is_bare
    assert "made by a test" in shown


@pytest.mark.parametrize(("width", "parts"), [(160, 1), (80, 2)])
def test_one_table_or_its_parts(show, random_heads, width, parts):
    shown = show(head_statistics_view(random_heads()), width)
    assert len(re.findall(r"^ +L\d+ H\d+ +\d\.\d\d", shown, re.MULTILINE)) == 6 * parts


@pytest.mark.parametrize(("size", "kinds", "width"), [
    ((1, 1), ("self",), 40), ((1, 1), KINDS, 160), ((12, 12), ("self",), 80), ((12, 12), KINDS, 40),
    ((2, 100), ("self",), 80), ((2, 100), KINDS, 160),
])  # fmt: skip
def test_any_size_fits(show, random_heads, size, kinds, width):
    statistics = random_heads(*size, kinds)
    for colour in (None, "truecolor"):
        shown = plain(show(head_statistics_view(statistics), width, colour))
        assert widest(shown) <= width
        if width == 80 and colour and len(kinds) == 1:
            assert shown.count("\n") <= 130


@pytest.mark.parametrize(("width", "sentences", "sort"), [
    (60, 1, "entropy"), (60, 10, "sink"), (80, 1, "induction"), (80, 10, "entropy"), (150, 1, "sink"),
    (150, 10, "induction"),
])  # fmt: skip
def test_notes_are_of_what_the_table_shows(show, random_heads, width, sentences, sort):
    """Each column has one, and ± is explained where it is written."""
    statistics = random_heads(sentences=sentences)
    shown = show(head_statistics_view(statistics, order=Order(sort)), width)
    parts = shown.split(f"heads by {sort}")[1].split("copies, induction: of")[0]
    table, after = re.split(r"^(?=chance: )", parts, maxsplit=1, flags=re.MULTILINE)
    headings = "  ".join(re.findall(r"^ *head +(.*)", table, re.MULTILINE))
    in_table = set(re.split(r"  +", headings.strip())) - {"head"}
    assert len(in_table) >= 9
    noted = set(re.findall(r"(?:^|; |–[\d.]+ )(95%|[a-z]+|±): ", words(after)))
    assert noted - {"±", "chance"} == in_table
    assert ("±" in noted) == ("±" in table)
    known = {measure.name for measure in known_measures(statistics.kinds, MEASURES)}
    assert in_table == known | ({"95%"} if sentences > 1 else set())


def test_pictures_are_means_on_their_scales(show, random_heads):
    statistics = random_heads(1, 2)
    (kind,) = statistics.kinds
    some = replace(kind.previous, mean=np.array([[0.0, 1.0]]))
    shown = show(
        head_statistics_view(replace(statistics, kinds=(replace(kind, previous=some),)), order=Order("previous")), 80
    )
    assert "scales: previous, itself, " in shown
    assert any(line.split()[:2] == ["0", "█"] for line in shown.splitlines())


def test_what_is_left_out_is_said(show, random_heads):
    shown = words(show(head_statistics_view(random_heads(32, 32, too_long=3), order=Order("entropy", most=5)), 80))
    assert "heads by entropy, lowest first: 5 of 1,024" in shown
    assert "and 8 panels more: -o page.png has all" in shown
    assert "3 sentences were left out: longer than the model can read" in shown


def test_no_picture_and_a_dash_where_there_is_no_number(show, random_heads):
    shown = show(head_statistics_view(random_heads(1, 1, ("self", "cross"))), 160)
    cross = shown.split("source-target attention\n")[1].split("distance: Σ")[0]
    assert "previous" not in cross
    row, chance = (line for line in shown.splitlines() if line.strip().startswith("cross  "))
    assert row.split().count("–") == chance.split().count("–") == 6
    assert "next" not in show(head_statistics_view(random_heads(kinds=("masked",))), 160)

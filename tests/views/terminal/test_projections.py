import dataclasses
import re

import pytest
from rich.cells import cell_len
from shown import number_text

from mhaviz.analyses.projections import compare_projections
from mhaviz.models.single_layer import RandomLayer
from mhaviz.views.showing import view_of
from mhaviz.views.style import Style


def comparison(sentence="one two three", n_heads=2, include_self=True):
    return compare_projections(RandomLayer(16, n_heads, device_name="cpu").projection_inputs(sentence), include_self)


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def widest(text):
    return max(cell_len(line) for line in text.split("\n"))


@pytest.mark.parametrize(("width", "colour"), [(40, None), (80, "truecolor"), (160, None)])
def test_every_number_is_there(show, width, colour):
    c = comparison()
    shown = plain(show(view_of(c), width, colour))
    assert widest(shown) <= width
    for stage in c.stages:
        assert f"{stage.asymmetry:.2f}" in shown
        assert f"{stage.departure:.2f}" in shown
        for pair in (c.pair, c.pair[::-1]):
            assert number_text(stage.scores[pair], "z.1f") in shown
    assert f"{c.divergence[0, 1]:.2f} on average" in " ".join(shown.split())
    assert "divergence, bits" in shown
    assert c.source.footnote in " ".join(shown.split())
    assert "heads differ by chance" in " ".join(shown.split()), "as the weights are random, nothing follows"


def test_each_number_stands_under_its_stage(show):
    c = comparison()
    shown = show(view_of(c), 100)
    for name, attribute in (("asymmetry", "asymmetry"), ("departure", "departure")):
        (line,) = re.findall(rf"^ {name} .*$", shown, re.MULTILINE)
        assert line.split()[-4:] == [f"{getattr(stage, attribute):.2f}" for stage in c.stages]


def test_the_two_words_that_look_alike_until_the_symmetry_breaks(show):
    c = comparison()
    shown = " ".join(show(view_of(c), 100).split())
    first, second = (c.tokens[i] for i in c.pair)
    assert f"“{first} {second}” and “{second} {first}” look alike" in shown
    there, back = (
        re.search(rf"score of {one} → {other} (\S+ \S+ \S+ \S+)", shown)[1].split()
        for one, other in ((first, second), (second, first))
    )
    assert there[:2] == back[:2]
    assert there[2] != back[2]
    assert f"the symmetry breaks, most between “{first}” and “{second}”" in shown


def test_outputs_of_every_stage(show):
    c = comparison()
    shown = plain(show(view_of(c), 100))
    assert [f"stage {i}: O" in shown for i in range(1, 5)] == [True] * 4
    assert re.search("   output$", shown, re.MULTILINE)


def test_what_a_word_gives_itself(show):
    c = comparison()
    assert f"gives itself {c.stages[0].self_weight:.0%} of its weight" in show(view_of(c), 200)
    assert "not with itself" in show(view_of(comparison(include_self=False)), 200)


def test_nothing_to_divide_is_a_dash(show):
    c = comparison("one", 1)
    c = dataclasses.replace(
        c, stages=tuple(dataclasses.replace(stage, asymmetry=None, departure=None) for stage in c.stages)
    )
    shown = show(view_of(c), 80)
    assert len(re.findall(r"‖( +–){4}", shown)) == 2
    assert "nan" not in shown.lower()
    assert "One head" in shown


@pytest.mark.parametrize(("length", "n_heads"), [(1, 16), (12, 1), (60, 16)])
def test_any_size(show, length, n_heads):
    c = comparison(" ".join(f"w{i}" for i in range(length)), n_heads)
    for width in (40, 160):
        shown = plain(show(view_of(c, Style(vmax=None)), width, "truecolor"))
        assert widest(shown) <= width
        assert f"L0 H{n_heads - 1}" in shown

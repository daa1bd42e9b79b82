"""Lines between words, beside transformers in float64, and what pictures, terminals and JSON make of them."""

import io
import json
import re

import numpy as np
import pytest
from drawn import inside, letters, texts
from hypothesis import given
from hypothesis import strategies as st
from made import made_map
from matplotlib.colors import to_hex
from matplotlib.patches import PathPatch
from rich.console import Console

from mhaviz.errors import ArgumentError
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.blocks import Bars, Drawn, Links, leaves
from mhaviz.pages.colormaps import HEADS
from mhaviz.pages.lines import lines_page
from mhaviz.pages.registry import page_of
from mhaviz.results.attention import Attention
from mhaviz.results.lines import HeadLinks, Link, TextLinks
from mhaviz.results.result import RANDOM_WEIGHTS, Source
from mhaviz.views.figure.page import draw_pages
from mhaviz.views.style import ROOMS, Style
from mhaviz.views.terminal.page import PageView
from mhaviz.views.tiles.lines import MOST_ROWS, lay_out

IT, TIRED = 8, 11
CLOSE = 1e-6


def made(weights, keys="abcdefg", queries=None, kind="self", **more):
    weights = np.asarray(weights, np.float32)
    return made_map(queries or keys, keys, weights / weights.sum(-1, keepdims=True), kind, **more)


def result(*maps, **details):
    return Attention(Source("made", details), maps)


def sheets(lines, room=None, **style):
    return draw_pages(lines_page(lines), Style(room=room, **style))


def drawn(sheet):
    """Lines of a sheet: colour, width, opacity, and both ends."""
    of_sheet = [one for one in sheet.page.patches if isinstance(one, PathPatch)]
    for one in of_sheet:
        (x0, y0), *_, (x1, y1) = one.get_path().vertices
        yield to_hex(one.get_edgecolor()), one.get_linewidth(), one.get_alpha(), (x0, y0), (x1, y1)


def shown(lines, width=80):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(PageView(lines_page(lines), Style()))
    return console.file.getvalue().splitlines()


def test_every_line_from_all_words_has_the_weight_of_transformers(animal, by_hand):
    (text,) = animal.select(layer=3, head=[1, 8, 10]).lines().texts
    assert text.shown == tuple(range(1, 13))  # without [CLS] and [SEP]
    for one in text.heads:
        a = by_hand[3, one.head]
        expected = {(i, j): a[i, j] for i in range(1, 13) for j in range(1, 13) if a[i, j] >= 0.1}
        found = {(link.query, link.key): link.weight for link in one.links}
        assert found.keys() == expected.keys()
        assert list(found.values()) == pytest.approx([expected[pair] for pair in found], abs=CLOSE)
        assert one.carried == pytest.approx(sum(expected.values()) / a[1:13, 1:13].sum(), abs=CLOSE)
    (document,) = animal.select(layer=3, head=1).lines().to_dict()["lines"]
    assert document["query_indices"] == text.shown
    assert document["key_token_ranges"][3] == ((3, 6),), "didn't"
    (of_head,) = document["heads"]
    pairs = [(one["query_index"], one["key_index"]) for one in of_head["lines"]]
    assert pairs == [(link.query, link.key) for link in text.heads[0].links]
    assert of_head["aside"][0]["key_index"] == 0
    assert of_head["aside"][0]["weight"] == pytest.approx(by_hand[3, 1, 1:13, 0].mean(), abs=CLOSE)


def test_the_lines_of_a_query_are_the_three_strongest_of_its_ranked_heads(animal, by_hand):
    (text,) = animal.lines("it").texts
    (look,) = animal.answer("it").looks
    assert [(one.layer, one.head) for one in text.heads] == [(one.layer, one.head) for one in look.ranked[:5]]
    for one in text.heads:
        row = by_hand[one.layer, one.head, IT]
        best = sorted(range(1, 13), key=lambda j: -row[j])[:3]
        assert [link.key for link in one.links] == [j for j in best if row[j] >= 0.1]
        assert [link.weight for link in one.links] == pytest.approx([row[link.key] for link in one.links], abs=CLOSE)
        assert {link.query for link in one.links} == {IT}


def test_what_is_drawn_and_said(animal, tmp_path):
    lines = animal.lines("it")
    (sheet,) = sheets(lines)
    links = [(i, link) for i, one in enumerate(lines.texts[0].heads) for link in one.links]
    paths = list(drawn(sheet))
    expected = sorted((HEADS[i], 0.5 + 3.2 * link.weight, 0.25 + 0.75 * link.weight) for i, link in links)
    assert sorted(path[:3] for path in paths) == [(colour, *map(pytest.approx, rest)) for colour, *rest in expected]
    heights = {text.get_text(): text.get_position()[1] for text in sheet.page.texts if text.get_ha() == "left"}
    names = {HEADS[i]: {} for i, _ in links}
    assert len({path[3] for path in paths}) == 1  # they begin at the query
    for colour, _, _, _, (_, y) in paths:
        nearest = min((word for word in heights), key=lambda word: abs(heights[word] - y))
        names[colour][nearest] = y
    assert {word for of_head in names.values() for word in of_head} == {"tired", "animal", "because", "was", "too"}
    at_tired = sorted(y for of_head in names.values() for word, y in of_head.items() if word == "tired")
    assert len(at_tired) == len(set(at_tired)) == 3  # side by side
    assert texts(sheet)[0] == "“it” looks at “tired” (L2 H1 0.71) and “animal” (L3 H1 0.68)"
    out = shown(lines)
    assert "it ─ L2 H1 0.71 ─ tired" in out
    assert "aside: [CLS] 10% (L2 H1 13%, L3 H1 10%, L2 H3 13%, L0 H5 6%, L2 H8 11%)" in out
    assert "lines: weights of at least 0.10, at most 3 of a head" in "\n".join(out)
    lines.save(tmp_path / "a.json", tmp_path / "a.svg", tmp_path / "a.pdf")
    (document,) = json.loads((tmp_path / "a.json").read_text())["lines"]
    assert document["heads"][0]["lines"] == [{"query_index": IT, "key_index": TIRED, "weight": links[0][1].weight}]


def test_an_all_words_picture_has_a_panel_and_a_colour_for_each_head(animal):
    lines = animal.select(layer=3, head=[1, 8, 10]).lines()
    (block,) = leaves(lines_page(lines).blocks)
    assert [panel.note for panel in block.panels] == [
        "“it” looks at “animal” 0.68",
        "“too” looks at “because” 0.55",
        "“because” looks at “didn't” 0.29",
    ]
    (sheet,) = sheets(lines)
    assert [path[0] for path in drawn(sheet)] == [HEADS[i] for i in range(3) for _ in lines.texts[0].heads[i].links]
    assert "53 lines carry 37 to 69% of the weight that a head gives to words" in texts(sheet)


def test_heads_of_a_title_without_lines_are_named(animal):
    said = animal.select(layer=[0, 5]).lines("street")
    assert lines_page(said).title == "“street” looks strongly only where other words look, too: at “the” (L0 H2 1.00)"
    assert not any(one.name == "L0 H2" for one in said.texts[0].heads)
    assert any(line.startswith("not ranked: L0 H2 “the” 1.00 (previous word, usually") for line in shown(said, 300))
    assert not any("not ranked" in line for line in shown(animal.lines("it"), 300))


@pytest.mark.parametrize("query", ["[CLS]", "[SEP]", "."])
def test_lines_from_a_special_token_have_its_place(animal, query, tmp_path):
    lines = animal.lines(query)
    (text,) = lines.texts
    assert [i for i in text.rows if text.queries.texts[i] == query] == [*text.shown]
    assert len(text.rows) == 12 + (query != ".")
    layout = lay_out(text, text.heads)
    assert {line.begin for line in layout.lines} == {row.y for row in layout.left if row.has_line}
    lines.save(tmp_path / "a.png")


def test_the_end_of_a_translation_is_no_word():
    weights = np.random.default_rng(0).dirichlet(np.full(5, 0.2), (2, 5))
    cross = made(weights, "abcde", ["u", "v", "x", "y", "<end>"], kind="cross", special_queries=(4,))
    assert result(cross).lines().texts[0].shown == (0, 1, 2, 3)
    assert result(cross).lines("<end>").texts[0].rows == (0, 1, 2, 3, 4)


EYE, FLAT = np.eye(7) + 0.01, np.ones((7, 7))


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (EYE, "words look mostly at themselves"),
        (np.eye(7, k=-1) + 0.01, "words look mostly at the word before"),
        (np.eye(7, k=1) + 0.01, "words look mostly at the word after"),
        (np.eye(7)[[3] * 7] + 0.01, "words look mostly at “d”"),
        (FLAT + 9 * (np.arange(49).reshape(7, 7) == 2 * 7 + 5), "“c” looks at “f” 0.62"),
    ],
)
def test_the_title_says_what_words_do(weights, said):
    lines = result(made(weights[None])).lines()
    assert lines_page(lines).title == f"L0 H0: {said}"
    by_chance = result(made(weights[None]), kind=RANDOM_WEIGHTS).lines()
    assert lines_page(by_chance).title == f"L0 H0: {said}, by chance: the weights are random"


def test_lines_of_a_word_that_looks_at_none_strongly_have_the_head_of_their_title():
    of_word = np.where((np.arange(7) == 4) | np.eye(7, k=2, dtype=bool), 0.3, 1.0)
    of_word[2, 4] = 2.0
    of_all = FLAT + np.where(np.arange(7) == 5, 1.4, 0)
    lines = result(made(np.stack([of_word, of_all]), "abcdefg")).lines("c")
    assert lines_page(lines).title == "“c” looks at no other word strongly: at most 0.29, at “f” in L0 H1"
    (text,) = lines.texts
    assert text.look is not None
    assert [(one.layer, one.head) for one in text.look.ranked] == [(0, 0)]
    assert [one.name for one in text.heads] == ["L0 H1", "L0 H0"]


def test_a_title_says_that_words_of_many_heads_look_at_one_word_each():
    weights = np.stack([np.eye(4), np.eye(4)[::-1], np.eye(4)]) + 0.01
    weights[2, 0] = 1
    lines = result(made(weights, "abcd", queries="pqrs", kind="cross")).lines()
    said = "In 3 heads most words look at one word each: in 11 of 12 cases with a weight of at least 0.90"
    assert lines_page(lines).title == said
    itself = result(made(weights, "abcd")).lines()
    assert lines_page(itself).title.startswith("L0 H0: words look mostly at themselves")


def test_between_two_texts_no_word_is_itself():
    lines = result(made(np.eye(4, 7)[None] + 0.01, queries="abcd", kind="cross")).lines()
    (text,) = lines.texts
    assert (text.rows, text.columns) == ((0, 1, 2, 3), tuple(range(7)))
    assert lines_page(lines).title == "L0 H0: “a” looks at “a” 0.94"


def test_heads_too_diffuse_for_lines_are_left_out_and_named():
    words = [f"w{i}" for i in range(20)]
    m = made(np.stack([np.eye(20) + 0.001, np.ones((20, 20))]), words)
    page = lines_page(result(m).lines())
    assert page.blocks[-1].lines == ("too diffuse for lines: L0 H1 (0%)",)
    with pytest.raises(ArgumentError, match=r"carry 20% of its weight on words, got L0 H1 with 0%"):
        result(m).select(head=1).lines()


def test_texts_too_diffuse_for_lines_are_left_out_and_named_and_a_head_keeps_its_colour():
    words = [f"w{i}" for i in range(20)]
    flat, near, nothing = np.ones((20, 20)), np.eye(20) + 0.001, np.full((20, 20), np.nan)
    several = [[flat, near, near], [near, near, near], [flat] * 3, [nothing] * 3, [nothing, near, flat]]
    maps = [made(np.stack(of_text), words, sentence=i) for i, of_text in enumerate(several)]
    lines = result(*maps).lines()
    page = lines_page(lines)
    assert [block.lines[0][:10] for block in page.blocks if getattr(block, "style", "") == "heading"] == [
        f"sentence {i}" for i in (0, 1, 4)
    ]
    assert page.reading(Drawn()).endswith("; too diffuse for lines: sentence 2; NaN: sentence 3")
    colours = [
        {one.name: i for p in block.panels for one, i in zip(p.heads, p.colours, strict=True)}
        for block in page.blocks
        if isinstance(block, Links)
    ]
    assert [list(of_text) for of_text in colours] == [["L0 H1", "L0 H2"], ["L0 H0", "L0 H1", "L0 H2"], ["L0 H1"]]
    assert colours[0].items() | colours[2].items() <= colours[1].items()
    assert len(set(colours[1].values())) == 3
    document = lines.to_dict()["lines"][2]
    assert (document["heads"], len(document["too_diffuse"])) == ([], 3)
    (text,) = result(maps[4]).lines().texts
    assert [one.head for one in (*text.heads, *text.diffuse)] == [1, 2]  # the head with NaN is neither
    inside(*sheets(lines))
    by_query = lines_page(result(*maps[:3]).lines("w3"))
    assert [text.lines[0][:10] for text in by_query.blocks if getattr(text, "style", "") == "heading"] == [
        "sentence 0",
        "sentence 1",
    ]
    short = result(maps[0], made(np.eye(3)[None], ["w3", "b", "c"], sentence=7)).lines("w3")
    reason = "expected at least 4 words that the query sees, got 3: of so few, each gets much weight"
    assert lines_page(short).blocks[-1].lines == (f"left out: sentence 7: {reason}",)
    assert short.to_dict()["left_out"] == [{"sentence": 7, "kind": "self", "reason": reason}]


def test_a_part_says_how_much_its_own_lines_carry(animal):
    lines = animal.select(layer=3, head=[1, 8, 10]).lines()
    several = [" ".join(texts(sheet)) for sheet in sheets(lines, "column")]
    assert "part 1 of 2" in several[0]
    (head,) = (one for one in lines.texts[0].heads if one.head == 10)
    said = f"{len(head.links)} lines carry {head.carried:.0%} of the weight that this head gives to words"
    assert said in several[1]
    assert "53 lines carry 37 to 69% of the weight that a head gives to words" in shown(lines)


@pytest.mark.parametrize("query", [None, "#5", "#0"])
@pytest.mark.parametrize("shift", [1, 7])
def test_tokens_whose_texts_are_unknown_are_no_words(query, shift):
    weights = np.stack([np.roll(np.eye(30), -shift, axis=0), np.eye(30) + 0.02])
    attention = result(made(weights, [*map(str, range(30))]))
    said = [attention.lines(query)]
    if query:
        assert page_of(said[0]).title.startswith(f"position “{query[1:]}” looks")
        said += [attention.answer(query), result(made(0 * weights + 1, [*map(str, range(30))])).answer(query)]
    for one in said:
        console = Console(width=200, file=io.StringIO(), color_system=None)
        console.print(PageView(page_of(one), Style()))
        for text in (console.file.getvalue(), *map(" ".join, map(texts, draw_pages(page_of(one), Style())))):
            assert "position" in text
            assert "word" not in text


@pytest.mark.parametrize(("target", "is_written"), [(3, False), (40, True)])
def test_a_number_of_tokens_is_explained_where_it_is_shown(target, is_written):
    words = [*(f" w{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(40)), " did", "n't"]
    weights = np.full((1, 42, 42), 0.001)
    weights[0, 5, target] = 1
    lines = result(made(weights, words)).lines(5)
    note = "(2): a word of 2 tokens"
    assert any(text.endswith("words") for text in texts(*sheets(lines)))  # folded
    assert (note in " ".join(texts(*sheets(lines)))) == is_written
    assert (note in shown(lines)) == is_written


@pytest.mark.parametrize("width", [1.5, 1.6, 1.8, 2.2, 3])
def test_no_number_beside_narrow_lines_is_cut(width):
    long = "supercalifragilisticexpialidocious"
    pieces = [" " + long[:4], *(long[i : i + 3] for i in range(4, len(long), 3)), " did", "n", "'t"]
    after = [" cat", " elephant", " dog", " elephant", *(f" {chr(97 + i)}x" for i in range(26))]
    weights = np.full((1, 44, 44), 0.001)
    weights[0, :, [10, 13, 15, 17]] = 1
    (sheet,) = sheets(result(made(weights, pieces + after)).lines(" cat"), width=width)
    inside(sheet)
    written = texts(sheet)
    of_words = [text for text in written if text[:3] in {"sup", "did"}]
    counts = [re.sub(r"^[a-z'…]+", "", text) for text in of_words]
    assert {*counts} <= {"", " (11)", " (3)"}
    assert ("(3): a word of 3 tokens" in " ".join(written)) == (" (3)" in counts)
    assert {*counts} == {" (11)", " (3)"} or width < 3
    assert sum(bool(re.fullmatch(r"e[a-z…]* #15", text)) for text in written) == 2
    assert {text.removesuffix(" words") for text in written if text.startswith("⋮")} == {"⋮ 27", "⋮ 28"}


def test_bars_of_a_head_are_explained_though_all_heads_give_sinks_little():
    weights = np.stack([np.eye(7)] * 4)
    weights[0, 1:, 0] = 0.1
    lines = result(made(weights, ["[CLS]", *"abcdef"], special_keys=(0,), special_queries=(0,))).lines()
    assert {"aside", "[CLS] 9%"} <= {*texts(*sheets(lines))}
    assert lines_page(lines).reading(Drawn()).endswith("; aside: mean weight of special tokens and sinks, from 3% on")


def test_words_do_mostly_what_most_of_those_do_that_have_a_choice():
    """Under a causal mask the first word has no choice, and the second hardly any."""
    weights = [[1, 0, 0, 0], [0.3, 0.7, 0, 0], [0.5, 0.2, 0.3, 0], [0.1, 0.03, 0.82, 0.05]]
    page = lines_page(result(made([weights], "abcd", kind="masked")).lines())
    assert page.title == "L0 H0: “d” looks at “c” 0.82"
    assert page.reading(Drawn()).endswith("; masked: no word sees a later one")
    weights[2], weights[3] = [0.2, 0.2, 0.6, 0], [0.1, 0.1, 0.2, 0.6]
    assert lines_page(result(made([weights], "abcd", kind="masked")).lines()).title == (
        "L0 H0: words look mostly at themselves"
    )


def test_a_perfect_head_has_its_habit_and_a_single_word_is_not_most():
    weights = np.roll(np.eye(8), -1, axis=1)
    title = lines_page(result(made([weights], "abcdefgh")).lines()).title
    assert title == "L0 H0: words look mostly at the word before"
    weights = np.eye(4)[[0, 1, 2, 3]]
    weights[3] = [0.9, 0, 0, 0.1]
    title = lines_page(result(made([weights], "abcd", kind="masked")).lines()).title
    assert title == "L0 H0: “d” looks at “a” 0.90"


def test_a_mask_that_fails_to_hide_is_not_said_to_hide():
    weights = np.tril(np.ones((6, 6)))
    weights[1, 4] = 1
    given = result(made([weights], "abcdef", kind="masked"))
    assert "masked" not in lines_page(given.lines()).reading(Drawn())


def test_a_key_that_few_words_see_is_not_what_most_look_at():
    weights = np.tril(np.ones((8, 8)))
    weights[:5, 0], weights[5:, 5] = 99, 99  # most of the weight on words is then on "f"
    keys = ["<s>", *"abcdefg"]
    attention = result(made([weights], keys, kind="masked", special_keys=(0,), special_queries=(0,)))
    assert lines_page(attention.lines()).title == "L0 H0: “f” looks at “e” 0.94"


def test_lines_to_fewer_words_than_tell_are_refused():
    for queries, keys in (("abc", "abc"), ("abcdef", "x")):
        given = result(made(np.ones((1, len(queries), len(keys))), keys, queries, "cross"))
        with pytest.raises(
            ArgumentError, match=rf"lines: expected at least 4 words to look at, got {len(keys)}: of so"
        ):
            given.lines()


def test_the_lines_of_many_heads_are_read_on_one_screen():
    weights = np.random.default_rng(0).dirichlet(np.full(12, 0.2), (8, 12))
    attention = result(made(weights, [*"abcdefghijkl"]))
    lines = attention.lines()
    out = shown(lines)
    assert len(out) <= 40
    links = [line for line in out if " ─ " in line]
    for one in lines.texts[0].heads:
        strongest = sorted((link.weight for link in one.links), reverse=True)[:3]
        of_head = [line for line in links if one.name in line]
        assert sorted(f"{weight:.2f}" for weight in strongest) == sorted(line.split()[4] for line in of_head)
    n_links = sum(len(one.links) for one in lines.texts[0].heads)
    assert f"and {n_links - 24} weaker lines; fewer heads have more, -o page.png and .json have all" in out
    few = attention.select(head=range(5)).lines()
    assert sum(" ─ " in line for line in shown(few)) == sum(min(len(one.links), 20) for one in few.texts[0].heads)


def test_the_link_that_a_brief_panel_names_is_among_its_lines():
    weights = 0.3 * np.eye(12) + np.random.default_rng(0).dirichlet(np.full(12, 2.0), (6, 12))
    out = shown(result(made(weights, [*"abcdefghijkl"])).lines(), 300)
    named = [re.match(r"(L0 H\d): “(.)” looks at “(.)” (\S+)$", line) for line in out]
    links = {tuple(line.split(" ─ ")) for line in out if " ─ " in line}
    assert sum(map(bool, named)) == 6
    for one in filter(None, named):
        head, query, key, weight = one.groups()
        assert (query, f"{head} {weight}", key) in links


def test_words_beside_lines_are_cut_where_panels_would_stand_one_below_the_other():
    weights = np.random.default_rng(0).dirichlet(np.full(11, 0.2), (8, 11))
    attention = result(made(weights, [*"abcdefghij", 70 * "W"]))
    (several,), (single,) = sheets(attention.lines()), sheets(attention.select(head=0).lines())
    assert several.bbox.height < several.bbox.width
    inside(several)
    (cut,), (longer,) = ({text for text in texts(sheet) if text.startswith("W")} for sheet in (several, single))
    assert len(cut) < len(longer)  # alone it has room


@pytest.mark.parametrize("width", [1, 1.2, 1.5, 1.6, 1.7, 2, 2.5])
@pytest.mark.parametrize("form", ["answer", "lines"])
def test_narrow_pictures_are_inside_or_refused(animal, form, width):
    one = getattr(animal, form)("it")
    try:
        (sheet,) = draw_pages(page_of(one), Style(width=width))
    except ArgumentError as error:
        least = float(
            re.search(r"expected at least (\S+) inches for what is drawn, got \S+; give more$", str(error))[1]
        )
        assert 1.2 < width + 0.05 < least <= 1.7 or width < 1.3
        draw_pages(page_of(one), Style(width=least))
        return
    inside(sheet)
    if form == "lines":
        assert "[CLS] 10%" in texts(sheet)
    else:
        assert {"special tokens and sinks", "share of the weight on words", "“tired”"} <= {
            text.removesuffix(" 0.71") for text in texts(sheet)
        }


def test_captions_stand_beside_a_single_panel_where_it_has_room(animal):
    (slide,) = sheets(animal.lines("it"), "slide")
    (column,) = sheets(animal.lines("it"), "column")
    for sheet, is_beside in ((slide, True), (column, False)):
        places = {text.get_text(): text.get_position() for text in sheet.page.texts if text.get_ha() == "left"}
        captions = [xy for text, xy in places.items() if text.startswith("L")]
        assert len(captions) == 5
        assert all((x > places["tired"][0]) == is_beside for x, _ in captions)
        inside(sheet)


def test_parts_of_panels_and_bars_have_the_numbers_that_they_are_about(animal):
    (block,) = leaves(lines_page(animal.select(layer=3, head=[1, 8, 10]).lines()).blocks)
    (bars,) = (one for one in leaves(page_of(animal.answer("it")).blocks) if isinstance(one, Bars))
    assert [bar.name for bar in bars.bars][:2] == ["mean", "L2 H1"]
    for whole, ends in (
        (block, [("L3 H1", "L3 H8"), ("L3 H10",)]),
        (bars, [("L2 H1",), ("L3 H1", "L2 H3", "L0 H5", "L2 H8")]),
    ):
        for part, names in zip((whole.pieces(0, 2), whole.pieces(2, whole.n_pieces)), ends, strict=True):
            column = [one.heading for one in part.table.columns].index("head")
            assert tuple(dict.fromkeys(row[column] for row in part.table.rows)) == names


@pytest.mark.parametrize(
    ("maps", "query", "message"),
    [
        ([made(np.ones((9, 7, 7)))], None, "expected at most 8 heads, as lines of more cannot be told apart, got 9"),
        ([made(np.ones((1, 31, 31)), [f"w{i}" for i in range(31)])], None, "expected at most 30 words, .* got 31"),
        ([made(np.ones((1, 31, 31)), [*map(str, range(31))])], None, "expected at most 30 positions, .* got 31"),
        (
            [made(np.ones((1, 20, 20)), [*map(str, range(20))])],
            "#3",
            "a position that gives some position .* on positions",
        ),
        ([made(np.ones((1, 20, 20)), [*map(str, range(20))])], None, "20% of its weight on positions"),
        ([made(np.ones((1, 3, 3)), [*map(str, range(3))])], "#1", "at least 4 positions that the query sees"),
        ([made(np.ones((1, 20, 20)), [f"w{i}" for i in range(20)])], "w3", "weight of at least 0.10 .* got 'w3'"),
        ([made(np.ones((1, 7, 7))).mean()], None, "expected weights of single heads"),
        ([made(np.full((1, 7, 7), np.nan))], None, "expected weights, got NaN in every head"),
        (
            [made(np.eye(7)[None] + 0.1, sentence=0), made(np.ones((1, 31, 31)), ["w"] * 31, sentence=1)],
            None,
            "got 31 in sentence 1",
        ),
        ([made(np.ones((1, 20, 20)), "abcdefghijklmnopqrst", sentence=i) for i in (1, 2)], None, "0% in sentence 1"),
        ([made(np.ones((1, 20, 20)), "abcdefghijklmnopqrst", sentence=i) for i in (1, 2)], "c", "'c' in sentence 1"),
    ],
)
def test_what_has_no_lines_says_why(maps, query, message):
    with pytest.raises(ArgumentError, match=message):
        result(*maps).lines(query)


def text_of(n, pairs, query=None):
    words = Tokens(tuple(f"w{i}" for i in range(n)))
    heads = tuple(
        HeadLinks(0, h, np.zeros((1, n)), tuple(Link(i, j, 0.5) for i, j in of_head), 1.0)
        for h, of_head in enumerate(pairs)
    )
    return TextLinks(words, words, tuple(range(n)) if query is None else (query,), np.zeros(n, bool), heads), heads


@given(st.data())
def test_no_two_words_overlap_and_all_lines_end_at_their_words(data):
    has_query = data.draw(st.booleans())
    n = data.draw(st.integers(4, 400 if has_query else MOST_ROWS))
    query = data.draw(st.integers(0, n - 1)) if has_query else None
    word = st.integers(0, n - 1)
    pair = st.tuples(word if query is None else st.just(query), word)
    n_heads = data.draw(st.integers(1, 5 if has_query else 1))
    pairs = [data.draw(st.lists(pair, min_size=1, max_size=3, unique=True)) for _ in range(n_heads)]
    text, heads = text_of(n, pairs, query)
    layout = lay_out(text, heads)
    for column in (layout.left, layout.right):
        heights = [row.y for row in column]
        assert (np.diff(heights) >= 1 - 1e-9).all()
        assert min(heights) >= 0.5 - 1e-9
        assert max(heights) <= layout.rows - 0.5 + 1e-9
        assert [word for row in column for word in range(row.word, row.word + row.n_words)] == list(range(n))
        assert len(column) <= MOST_ROWS + 1
        assert any(row.is_folded for row in column) <= (n > MOST_ROWS)
    left, right = ({row.word: row.y for row in column if not row.is_folded} for column in (layout.left, layout.right))
    assert sorted((line.head, line.link.query, line.link.key) for line in layout.lines) == sorted(
        (h, *one) for h, of_head in enumerate(pairs) for one in of_head
    )
    for line in layout.lines:
        assert line.begin == left[line.link.query]
        assert abs(line.end - right[line.link.key]) < 0.5
    ends = {(line.head, line.link.key): line.end for line in layout.lines}
    assert len(set(ends.values())) == len(ends)
    with_line = {row.word for row in layout.right if row.has_line}
    assert with_line == {j for of_head in pairs for _, j in of_head}


def test_runs_without_lines_are_folded_and_the_query_stands_where_it_is_among_the_keys():
    text, heads = text_of(60, [[(40, 1), (40, 42)], [(40, 42)]], 40)
    layout = lay_out(text, heads)
    rows = [(f"⋮ {row.n_words}" if row.is_folded else f"w{row.word}") for row in layout.right]
    assert rows == ["w0", "w1", "w2", "⋮ 38", "w41", "w42", "w43", "⋮ 16"]
    assert [row.word for row in layout.left if not row.is_folded] == [39, 40, 41]
    (same,) = (row.y for row in layout.left if row.word == 40)
    assert same == len(rows) / 2  # the query is folded among the keys


LONG = "Donaudampfschifffahrtsgesellschaftskapitän"
UGLY = ["שלום", LONG, "\x1b[31m", "猫", "$x^2$", "مرحبا", "the", "the", 4 * LONG, "<s>", "%s"]


@pytest.mark.parametrize("room", [None, *ROOMS])
@pytest.mark.slow
def test_ugly_words_are_written_inside_every_room(room):
    n = len(UGLY)
    weights = np.random.default_rng(0).dirichlet(np.full(n, 0.2), (8, n))
    attention = result(made(weights, UGLY))
    for lines in (attention.lines(), attention.lines(4)):
        for sheet in sheets(lines, room):
            inside(sheet)
            assert min(letters(sheet)) >= 6
        assert all(len(line) <= 84 for line in shown(lines))
    narrow = sheets(attention.select(head=0).lines(), width=1.5)
    assert len(narrow) == 1

"""What a page holds and how it is written, without a browser."""

import json
import re
from dataclasses import dataclass, replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hostile import HOSTILE
from made import span_map

import mhaviz
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.attention import attention_page
from mhaviz.pages.blocks import Block, Column, Stacks, Table
from mhaviz.pages.colormaps import HEADS
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.result import Source
from mhaviz.views.html.contents import contents_of
from mhaviz.views.style import Style

HARMFUL = ("</script><script>hacked()</script>", "<!--<script>", "</title><b>", "\ud800", "\u2028", *HOSTILE)


class Elements(HTMLParser):
    """The elements of a page, and the text in each that has a name."""

    def __init__(self, text):
        super().__init__()
        self.found, self.texts, self._names = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self._names.append(dict(attrs).get("id", tag))

    def handle_data(self, data):
        if self._names:
            self.texts[self._names[-1]] = self.texts.get(self._names[-1], "") + data


def made(tokens, n_heads=1, **others):
    n = len(tokens)
    weights = np.full((n_heads, n, n), 1 / n, np.float32)
    axis = Axis(Tokens(tuple(tokens)))
    return Attention(Source("made by a test"), (AttentionMap(weights, axis, axis, **others),))


@pytest.mark.parametrize(
    ("tokens", "labels", "joined"),
    [
        ("a b", ["a", "␣", "b"], [1, 2]),
        (["a", " b", "  ", "c", "d ", "e", " \n", "f"], ["a", "b", "␣␣", "c", "d", "e", r"␣\x0a", "f"], [2, 3, 4]),
    ],
)
def test_blanks_that_are_tokens_are_seen(tokens, labels, joined):
    (side,) = contents_of(made(tokens), Style()).document["tokens"]
    assert (side["labels"], side["joined"]) == (labels, joined)


def test_the_script_runs_after_the_thumbnails_and_before_all_other_numbers():
    page = Elements(mhaviz.load("random").attend(" ".join(map(str, range(600)))).to_html())
    names = list(page.texts)
    assert names[-5:] == ["chunk-0", "script", "chunk-1", "chunk-2", "end"]


def test_the_cells_of_a_long_input_are_in_its_page():
    """The browser computes only weights between its tokens; those of a shorter input all, of few features."""
    model = mhaviz.load("random", n_heads=2, d_model=64)
    for length, size, has_values in ((600, 100, True), (600, 600, False), (100, 100, True)):
        attention = model.attend(" ".join(map(str, range(length))), size=size, page=True)
        (m,) = contents_of(attention, Style()).document["maps"]
        assert (m["parts"][0]["values"] is not None, m["call"] is not None) == (has_values, True)


def by_span(sentence=None, **more):
    """Weights between spans, of which the answer looks at the question, beside a sink."""
    mass = np.array([[[0.5, 0.0, 0.5], [0.6, 0.1, 0.3]], [[0.4, 0.0, 0.6], [0.1, 0.1, 0.8]]])
    return span_map(("question", "answer"), mass, [[0.5, 0], [0.2, 0.5]], apart=("<s>",), sentence=sentence, **more)


def test_a_page_of_spans_has_their_title_and_their_table():
    one = Attention(Source("made by a test"), (by_span(),))
    for given, heading in (
        (one, "from span to another, mean of 2 heads"),
        (one.of_query("answer"), "what “answer” looks"),
    ):
        document = contents_of(given, Style()).document
        assert document["title"] == "“answer” looks at “question” in L0 H0: 60% of its weight, 3.0 × uniform"
        (table,) = document["tables"]
        assert table["heading"].startswith(heading)
        assert "L0 H0: 60%, 3.0 ×" in table["rows"][0]
        assert document["tokens"][-1]["labels"] == ["question (10)", "answer (10)", "<s>"]
    assert contents_of(one, Style(title="mine")).document["title"] == "mine"


def test_a_page_of_the_spans_of_several_texts_has_what_is_said_of_each():
    two = Attention(Source("made by a test"), (by_span(0), by_span(1)))
    first, second = (table["heading"] for table in contents_of(two, Style()).document["tables"])
    assert first.startswith("sentence 0, masked self-attention: “answer” looks at “question” in L0 H0")
    assert first.endswith("; from span to another, mean of 2 heads, those with the strongest head first")
    assert second.startswith("sentence 1, masked self-attention: ")


@pytest.mark.parametrize("harmful", HARMFUL, ids=lambda text: ascii(text)[:30])
def test_no_text_becomes_an_element(harmful):
    """Tokens, footnotes and titles."""
    attention = replace(made([harmful, "b"]), source=Source(harmful))
    for record, style in (
        (attention, {}),
        (attention, {"title": harmful}),
        (mhaviz.diff(attention, attention), {}),
    ):
        page = Elements(record.to_html(**style))
        n_chunks = sum(name.startswith("chunk-") for name in page.texts)
        assert page.found.count("script") == 2 + n_chunks
        assert set(page.found) <= {"html", "head", "meta", "title", "style", "body", "p", "main", "script"}
        document = json.loads(page.texts["document"])
        written = [document["title"], *document["tokens"][0]["labels"]]
        assert all(text.isprintable() and len(text) <= 1000 for text in written)
        assert document["footnote"].isprintable()


def test_the_same_record_has_the_same_bytes():
    first, second = (mhaviz.load("random").attend("the cat sat").to_html() for _ in range(2))
    assert first == second


def test_a_page_without_maps_is_refused(tmp_path):
    with pytest.raises(MhavizError, match="expected at least one map for a page for the browser, got none"):
        Attention(Source("made"), ()).save(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_records_without_maps_have_no_page():
    with pytest.raises(MhavizError, match="expected maps for a page for the browser, got Explanation"):
        mhaviz.load("random").explain("a b", "a").to_html()


def test_a_long_name_of_a_model_is_cut_wherever_it_is_in_a_title():
    source = Source("made", {"name": "m" * 30 + "-of-" + "n" * 30})
    cross, selfish = made("abc"), made("ab")
    maps = (replace(selfish.maps[0], kind="masked"), replace(cross.maps[0], kind="cross"))
    for result in (Attention(source, selfish.maps), Attention(source, maps), Attention(source, maps * 2)):
        title = contents_of(result, Style()).document["title"]
        assert re.search(", m{15,20}…n{15,20}[:;]", title), title


def test_the_title_is_that_of_the_style():
    assert contents_of(made("ab"), Style(title="Mine")).document["title"] == "Mine"
    assert contents_of(made("ab"), Style(title="")).document["title"]  # a tab of a browser has a name
    difference = mhaviz.diff(made("ab"), made("ab"))
    assert contents_of(difference, Style(title="Mine")).document["title"] == "Mine"
    assert contents_of(difference, Style()).document["title"].startswith("B − A")


def test_words_say_how_many_tokens_they_have():
    axis = Axis(Tokens(("a", " cat", "s")))
    m = AttentionMap(np.eye(3, dtype=np.float32)[None], axis, axis, "masked", reach=1).by("word")
    page = contents_of(Attention(Source("made"), (m,)), Style()).document
    assert page["tokens"][0]["labels"] == ["a", "cats (2)"]
    assert page["maps"][0]["reach"] is None  # the page would count words


@dataclass(frozen=True)
class Unknown(Block):
    """A block of a kind that the page for the browser has no picture of."""

    @property
    def as_table(self):
        return Table(
            (Column("head", is_key=True), Column("number", "{:.1f}".format)), (("L0 H0", 0.25),), "new numbers"
        )


def test_a_block_without_a_picture_is_a_table(monkeypatch):
    def page_of(attention):
        page = attention_page(attention)
        return replace(page, blocks=(*page.blocks, Stacks((Unknown(),), ())))

    assert contents_of(made("ab"), Style()).document["tables"] == []  # heads of maps are pictures
    monkeypatch.setattr("mhaviz.views.html.contents.attention_page", page_of)
    (table,) = contents_of(made("ab"), Style()).document["tables"]
    assert (table["heading"], table["rows"]) == ("new numbers", [["L0 H0", "0.2"]])


def test_lines_have_the_colours_of_heads_in_figures():
    light, dark = contents_of(made("ab"), Style()).document["headColours"]
    assert light == HEADS
    assert len(set(dark)) == len(dark) == len(HEADS)
    assert dark[0] == light[0]
    assert dark[6] != light[6] == "#000000"  # which could not be seen on a dark page


def test_one_call_is_written_for_two_maps_of_it():
    attention = mhaviz.load("random").attend(" ".join(map(str, range(700))), size=64, page=True)
    first, second = contents_of(replace(attention, maps=attention.maps * 2), Style()).document["maps"]
    assert first["call"] is second["call"] is not None

"""The page of a shaded text, read by an HTML parser: what it says, and that nothing in it acts."""

import base64
import hashlib
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hostile import HOSTILE

from mhaviz.inputs.tokens import Tokens
from mhaviz.results.relevance import Explained, Relevance, WordRelevance
from mhaviz.results.result import Source


class Read(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.inside = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = dict(attributes).get("class", tag)

    def handle_data(self, data):
        self.texts.append((self.inside, data))


def relevance(words, shares, falls):
    tokens = Tokens(tuple(words), ranges=tuple(((i, i + 1),) for i in range(len(words))))
    aside = np.zeros(len(words), np.bool_)
    side = WordRelevance(tokens, np.array(shares, float), aside, np.array(falls, float), ("",) * len(words))
    return Relevance(Source("a model"), Explained("label", "GOOD"), 2.0, "", side)


@pytest.fixture
def page():
    return relevance(["a", " dull", " plot"], [1, 3, 0], [0.1, 1.5, math.nan]).to_html()


def test_the_text_stands_in_its_order_with_its_shades(page):
    read = Read(page)
    words = [(name, text) for name, text in read.texts if name.startswith("shade")]
    assert [text.strip() for _, text in words if text.strip()] == ["a", "dull", "plot"]
    shades = dict(re.findall(r"\.(shade\d+) \{ background: (#[0-9a-f]{6})", page))
    darkness = {text: sum(bytes.fromhex(shades[name][1:])) for name, text in words if text.strip()}
    assert darkness["dull"] < darkness["a"] < darkness["plot"] == 3 * 255
    titles = [attributes["title"] for tag, attributes in read.tags if tag == "span"]
    assert titles == ["share of the relevance of all words: 25%", "share of the relevance of all words: 75%",
                      "share of the relevance of all words: 0%"]  # fmt: skip


def test_the_title_and_the_table_are_those_of_the_picture(page):
    read = Read(page)
    texts = [text for _, text in read.texts]
    assert "“dull” counts most of the 2 most relevant: without it the logit of GOOD falls from 2.00 to 0.50" in texts
    assert {"“dull”", "75%", "1.50"} <= {*texts}
    assert [attributes["value"] for tag, attributes in read.tags if tag == "progress"] == ["1.0000", "0.3333"]


def test_the_policy_allows_the_style_sheet_alone(page):
    metas = [attributes for tag, attributes in Read(page).tags if tag == "meta"]
    (policy,) = (one["content"] for one in metas if one.get("http-equiv") == "Content-Security-Policy")
    (styles,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(styles.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_words_are_text(word):
    read = Read(relevance([word, " b"], [3, 1], [1, 0]).to_html())
    assert {tag for tag, _ in read.tags} <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "p", "span", "table", "tr", "th", "td", "progress")
    }
    assert all(not name.startswith("on") and name != "style" for _, attributes in read.tags for name in attributes)
    assert not any("\x1b" in text or "\u202e" in text for _, text in read.texts)

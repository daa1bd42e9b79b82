"""Page of links between words: lines of the strongest weights, with what they tell in a line."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted
from mhaviz.inputs.spans import unit_of
from mhaviz.pages.answer import (
    by_chance,
    key_names,
    not_ranked_text,
    query_names,
    query_text,
    texts_blocks,
    texts_names,
    texts_remarks,
    title_text,
)
from mhaviz.pages.blocks import Block, Column, LinkPanel, Links, Page, Table, Text
from mhaviz.pages.colormaps import HEADS
from mhaviz.pages.labels import in_quotes
from mhaviz.pages.registry import RESULT_SUFFIXES, shown
from mhaviz.results.answer import LEAST_WORDS, in_text
from mhaviz.results.lines import LEAST_WEIGHT, MOST_OF_HEAD, HeadLinks, Lines, Link, TextLinks

_LEAST_ASIDE = 0.03  # least mean weight of a special token or sink that is stated
_MOSTLY, _LEAST_LINKS = 0.5, 3  # share of words, each with this share of its weight, and least links, of "mostly"
_OFFSETS = {0: "themselves", -1: "the {} before", 1: "the {} after"}
_MOST_IN_TITLE = 2  # heads
_SINGLE, _OF_WORDS = 0.9, 0.75  # least weight of a single word, and least share of words that look at one, to say so
_ASIDE, _SEEN = "aside", "left: queries, right: keys; width and opacity of a line: weight"


@shown(Lines, RESULT_SUFFIXES)
def lines_page(lines: Lines) -> Page:
    """Return the page of links; of several texts, each has a heading."""
    is_random, footnote = lines.source.is_random, lines.source.footnote
    names = texts_names([*lines.texts, *lines.left_out])
    named = list(zip(lines.texts, names, strict=False))
    drawn = [(text, name) for text, name in named if text.heads]
    diffuse = ", ".join(name for text, name in named if not text.heads and text.diffuse)
    missing = ", ".join(name for text, name in named if not text.heads and not text.diffuse)
    colours = _colours([text for text, _ in drawn])
    reading = (
        f"lines: weights of at least {LEAST_WEIGHT:.2f}"
        + f", at most {MOST_OF_HEAD} of a head" * any(text.look is not None for text, _ in drawn)
        + f"; {_ASIDE}: mean weight of special tokens and sinks, from {_LEAST_ASIDE:.0%} on"
        * any(_asides(one, of_panel) for one, _ in drawn for of_panel in _panels(one))
        + "".join(f"; {text}" for text in texts_remarks(text for text, _ in drawn))
        + f"; too diffuse for lines: {diffuse}" * bool(diffuse)
        + f"; NaN: {missing}" * bool(missing)
    )
    if len(names) == 1:
        (text,) = lines.texts
        return Page(_title(text, is_random, in_text(text)), tuple(_blocks(text, colours[0])), footnote, reading)
    texts = (
        (name, _title(text, is_random), _blocks(text, of_text))
        for (text, name), of_text in zip(drawn, colours, strict=True)
    )
    blocks = texts_blocks(texts, zip(names[len(lines.texts) :], lines.left_out, strict=True))
    return Page("", blocks, footnote, reading)


def _colours(texts: Sequence[TextLinks]) -> list[tuple[int, ...]]:
    """Return the number of the colour of each head of each text: a head has the same in all, if they are enough."""
    names = [[one.name for one in text.heads] for text in texts]
    every = list(dict.fromkeys(chain.from_iterable(names)))
    return [
        tuple((every if len(every) <= len(HEADS) else of_text).index(name) for name in of_text) for of_text in names
    ]


def _title(text: TextLinks, is_random: bool, where: str = "") -> str:
    if text.look:
        return title_text(text.look, is_random, where)
    if (single := _single(text)) and not is_random:
        return single
    best = sorted(text.heads, key=lambda one: -_strongest(text, one).weight)[:_MOST_IN_TITLE]
    said = "; ".join(f"{one.name}: {_habit(text, one)[0]}" for one in best)
    return by_chance(said, is_random)


def _single(text: TextLinks) -> str:
    """Return that most words look at a single word of another text, if in several heads they do; "": they do not."""
    largest = np.concatenate([one.weights[:, ~text.aside].max(axis=1) for one in text.heads])
    n_single = int((largest >= _SINGLE).sum())
    if text.is_of_one_text or len(text.heads) < 2 or n_single <= _OF_WORDS * len(largest):
        return ""
    said = f"in {n_single} of {len(largest)} cases with a weight of at least {_SINGLE:.2f}"
    units = f"{unit_of(text.queries)}s look at one {unit_of(text.keys)}"
    return f"In {len(text.heads)} heads most {units} each: {said}"


def _habit(text: TextLinks, head: HeadLinks) -> tuple[str, Link | None]:
    """Return what words do in a head: "words look mostly at the word before", or its strongest link, and this link."""
    if common := _common(text, head):
        return common, None
    link = _strongest(text, head)
    name = "itself" if _is_of_itself(text, link) else f"“{key_names(text)[link.key]}”"
    return f"{query_text(text, link.query)} looks at {name} {link.weight:.2f}", link


def _common(text: TextLinks, head: HeadLinks) -> str:
    """Return what most words do in a head: "words look mostly at the word before"; "": they do nothing in common."""
    units = f"{unit_of(text.queries)}s"
    if len(head.links) >= _LEAST_LINKS:
        offset = _most(text, head, lambda link: link.key - link.query) if text.is_of_one_text else None
        if offset in _OFFSETS:
            return f"{units} look mostly at {_OFFSETS[offset].format(unit_of(text.keys))}"
        if (key := _most(text, head, lambda link: link.key)) is not None:
            return f"{units} look mostly at “{key_names(text)[key]}”"
    return ""


def _most(text: TextLinks, head: HeadLinks, number: Callable[[Link], int]) -> int | None:
    """Return the number of those links of most words that have most of a word's weight on words; None: these differ.

    Words that see a single word, as the first does under a causal mask, do not count: it has all of their weight.
    """
    on_words = {query: row for query, row in _on_words(text, head).items() if _n_seen(text, query) > 1}
    counts = Counter(
        number(link)
        for link in head.links
        if link.query in on_words and link.weight >= _MOSTLY * on_words[link.query].sum()
    )
    least = max(_MOSTLY * len(on_words), _LEAST_LINKS - 1)
    return next((most for most, n in counts.most_common(1) if n > least), None)


def _on_words(text: TextLinks, head: HeadLinks) -> dict[int, NDArray[np.float64]]:
    """Return the weights on words of each query that has links, (n_keys,)."""
    return dict(zip(text.shown, np.where(text.aside, 0.0, head.weights), strict=True))


def _n_seen(text: TextLinks, query: int) -> int:
    """Return how many words a query may see."""
    return sum(text.kind != "masked" or key <= query for key in text.columns)


def _strongest(text: TextLinks, head: HeadLinks) -> Link:
    """Return the strongest link of a head: of a word that sees few others, or to itself, only if it has no others."""

    def strength(link: Link) -> tuple[bool, bool, float]:
        return not _is_of_itself(text, link), _n_seen(text, link.query) >= LEAST_WORDS, link.weight

    return max(head.links, key=strength)


def _is_of_itself(text: TextLinks, link: Link) -> bool:
    return text.is_of_one_text and link.query == link.key


def _blocks(text: TextLinks, colours: tuple[int, ...]) -> list[Block]:
    are_several = len(text.heads) > 1  # else the title says what it does
    if text.look:
        captions = tuple(f"{one.name} {_best_link(text, one)}" for one in text.heads)
        panels = [LinkPanel(text.heads, colours, captions, _asides(text, text.heads))]
    else:
        panels = [
            LinkPanel((one,), (colour,), (one.name,), _asides(text, (one,)), said * are_several, link)
            for one, colour in zip(text.heads, colours, strict=True)
            for said, link in [_habit(text, one)]
        ]
    diffuse = ", ".join(f"{one.name} ({one.carried:.0%})" for one in text.diffuse)
    left_out = [Text((f"too diffuse for lines: {diffuse}",), "quiet")] * bool(diffuse)
    not_ranked = not_ranked_text(text.look) if text.look and not text.look.has_strong else ""  # the title names these
    links = Links(_table(text), text, tuple(panels), _ASIDE, _SEEN, partial(_carried, unit_of(text.keys)))
    return [links, *[Text((not_ranked,), "quiet")] * bool(not_ranked), *left_out]


def _panels(text: TextLinks) -> list[tuple[HeadLinks, ...]]:
    """Return the heads of each panel: all of a single query, or one."""
    return [text.heads] if text.look else [(one,) for one in text.heads]


def _best_link(text: TextLinks, head: HeadLinks) -> str:
    best = _strongest(text, head)
    name = "itself" if _is_of_itself(text, best) else in_quotes(key_names(text)[best.key])
    return f"{name} {best.weight:.2f}"


def _asides(text: TextLinks, heads: Sequence[HeadLinks]) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Return special tokens and sinks that get much weight on average: "[CLS] 36%", and the weight from each head."""
    each = ((int(j), tuple(float(one.weights[:, j].mean()) for one in heads)) for j in np.flatnonzero(text.aside))
    means = ((j, weights, sum(weights) / len(weights)) for j, weights in each)
    return tuple(
        (f"{in_quotes(key_names(text)[j])} {mean:.0%}", weights) for j, weights, mean in means if mean >= _LEAST_ASIDE
    )


def _carried(unit: str, heads: Sequence[HeadLinks]) -> str:
    """Return "53 lines carry 37 to 69% of the weight that a head gives to words", or to another ``unit``."""
    n_lines = sum(len(one.links) for one in heads)
    shares = sorted(one.carried for one in heads)
    low, high = f"{shares[0]:.0%}", f"{shares[-1]:.0%}"
    share = low if low == high else f"{low[:-1]} to {high}"
    head = "this head" if len(shares) == 1 else "a head"
    verb = "carries" if n_lines == 1 else "carry"
    return f"{counted(n_lines, 'line')} {verb} {share} of the weight that {head} gives to {unit}s"


def _table(text: TextLinks) -> Table:
    columns = (
        Column("query", align="left", is_key=True),
        Column("head", align="left", is_key=True),
        Column("key", align="left"),
        Column("weight", "{:.2f}".format),
    )
    rows = tuple(
        (query_names(text)[link.query], one.name, key_names(text)[link.key], link.weight)
        for one in text.heads
        for link in one.links
    )
    return Table(columns, rows)

"""Links between words: the weights that are strong enough for a line from a word to a word that it looks at."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted, is_accepted, parameter, quoted
from mhaviz.inputs.spans import unit_of, words_or_tokens
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.answer import (
    LEAST_WORDS,
    LeftOut,
    Look,
    OfText,
    UnansweredError,
    about,
    are_one_text,
    are_whole,
    by_text,
    in_text,
    sides_document,
    word_sides,
)
from mhaviz.results.attention import head_name
from mhaviz.results.result import Result, ShortRepr, Source
from mhaviz.results.spans import SpanSide

if TYPE_CHECKING:
    from mhaviz.results.attention import Attention, AttentionMap

LEAST_WEIGHT = 0.10
"""Least weight of a link."""

MOST_OF_HEAD = 3
"""Most links of a head from a single chosen query."""

MOST_HEADS = 8
"""Most heads of a picture, as many as there are colours."""

_MOST_WORDS = 30  # words of a side, where all queries have links
_LEAST_CARRIED = 0.2  # least share of a head's weight on words that its links carry


@dataclass(frozen=True)
class Link:
    """A weight from a word to a word.

    Attributes:
        query, key: indices of the words among those of their sides.
        weight: the weight.
    """

    query: int
    key: int
    weight: float


@dataclass(frozen=True, eq=False)
class HeadLinks(ShortRepr):
    """Links of one head.

    Attributes:
        layer, head: indices of the head.
        weights: float64, (queries, n_keys), weights of the queries that have links, by word.
        links: the links, query by query, the strongest of each first.
        carried: share of the weight of these queries on words that the links carry.
    """

    layer: int
    head: int
    weights: NDArray[np.float64]
    links: tuple[Link, ...]
    carried: float

    @property
    def name(self) -> str:
        """Name of the head, "L3 H5"."""
        return head_name(self.layer, self.head)

    @property
    def is_diffuse(self) -> bool:
        """Whether the links carry less than a fifth of the weight on words, and so say little of it."""
        return self.carried < _LEAST_CARRIED


@dataclass(frozen=True, eq=False)
class TextLinks(OfText):
    """Links between the words of one text, or of two.

    Attributes:
        queries, keys: the words of both sides. Where blanks do not tell words, as in Chinese, each token is one.
        shown: indices of the queries that have links: one, or all words.
        aside: bool, (n_keys,), special tokens and sinks, to which there are no links.
        heads: heads with links, the first at most eight; empty: those of no head would carry enough.
        diffuse: heads that are left out, as their links would carry less than a fifth of their weight on words.
        look: what the only query looks at; None: all words have links.
        kind, sentence, pass_number, is_recorded, has_spans, mean_over: as of ``OfText``.
    """

    queries: Tokens
    keys: Tokens
    shown: tuple[int, ...]
    aside: NDArray[np.bool_]
    heads: tuple[HeadLinks, ...]
    diffuse: tuple[HeadLinks, ...] = ()
    look: Look | None = None

    @property
    def is_of_one_text(self) -> bool:
        """Whether queries and keys are the same words."""
        return are_one_text(self.kind, self.queries, self.keys)

    @property
    def weighs_later(self) -> bool:
        """Whether a query gives weight to words after its place, which a mask may fail to hide."""
        rows = ((query, row) for one in self.heads for query, row in zip(self.shown, one.weights, strict=True))
        return any(row[query + 1 :].any() for query, row in rows)

    @property
    def rows(self) -> tuple[int, ...]:
        """Indices of the queries that have a place: those with links, and the others that are words."""
        aside = {*self.queries.special, *(np.flatnonzero(self.aside).tolist() if self.is_of_one_text else ())}
        return tuple(i for i in range(len(self.queries)) if i in self.shown or i not in aside)

    @property
    def columns(self) -> tuple[int, ...]:
        """Indices of the keys that are words."""
        return tuple(np.flatnonzero(~self.aside).tolist())


@dataclass(frozen=True)
class Lines(Result):
    """Links between words.

    Attributes:
        source: where the maps come from.
        texts: the links of each text, of which at least one has some.
        left_out: texts that have the only query, but too few words or no numbers.
    """

    source: Source
    texts: tuple[TextLinks, ...]
    left_out: tuple[LeftOut, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``. Each text has the words of ``sides_document``; ``query_indices``: queries with lines;
        ``carried``: share of their weight on words that the lines carry; ``aside``: of each special token and sink, its
        mean weight from these queries."""
        left_out = {"left_out": [one.to_dict() for one in self.left_out]} if self.left_out else {}
        return {"least_weight": LEAST_WEIGHT, "lines": [_document(text) for text in self.texts], **left_out}


def lines(attention: "Attention", query: int | str | None = None) -> Lines:
    """Return the links of heads; see ``Attention.lines``."""
    left_out = tuple[LeftOut, ...]()
    if query is not None:
        answer = attention.answer(query)
        texts, left_out = tuple(map(_of_look, answer.looks)), answer.left_out
    else:
        sinks = {id(m): found.keys if found else () for m, found in zip(attention.maps, attention.sinks, strict=True)}
        texts = tuple(_of_maps(maps, sinks[id(maps[0])]) for maps in texts_of(attention))
    if not any(text.heads for text in texts):
        raise _without_links(texts)
    return Lines(attention.source, texts, left_out)


def _without_links(texts: Sequence[TextLinks]) -> UnansweredError:
    """Return the error of texts of which none has links."""
    text = max(texts, key=lambda one: max((head.carried for head in one.diffuse), default=-1.0))
    where, query, key = in_text(text), unit_of(text.queries), unit_of(text.keys)
    if text.look:
        return UnansweredError(
            f"{parameter('query')}: expected a {query} that gives some {key} a weight of at least {LEAST_WEIGHT:.2f} "
            f"in a head, so that lines carry {_LEAST_CARRIED:.0%} of its weight on {key}s, got "
            f"{quoted(text.look.word.strip())}{where}"
        )
    if not text.diffuse:
        return UnansweredError(f"lines: expected weights, got NaN in every head{where}")
    best = max(text.diffuse, key=lambda one: one.carried)
    which = best.name if len(text.diffuse) == 1 else f"{counted(len(text.diffuse), 'head')}, {best.name} most"
    return UnansweredError(
        f"lines: expected a head whose lines, of weights of at least {LEAST_WEIGHT:.2f}, carry "
        f"{_LEAST_CARRIED:.0%} of its weight on {key}s, got {which} with {best.carried:.0%}{where}"
    )


def texts_of(attention: "Attention") -> "list[list[AttentionMap]]":
    """Return the maps of each text, which need not have their weights yet, if all its words may have links.

    Raises:
        UnansweredError: as ``Attention.lines`` without a query.
    """
    if are_whole(attention):  # but perhaps too long, or too short
        sides = {axis.tokens: m for m in reversed(attention.maps) for axis in (m.rows, m.columns)}
        n_words = {tokens: _n_words(tokens) for tokens in sides}
        most = max(n_words, key=n_words.__getitem__)
        if n_words[most] > _MOST_WORDS:
            raise UnansweredError(
                f"lines: expected at most {_MOST_WORDS} {unit_of(most)}s, as lines from more hide each other, got "
                f"{n_words[most]:,}{in_text(sides[most])}{_one_query()}"
            )
        keys = max((m.columns.tokens for m in attention.maps), key=n_words.__getitem__)
        if n_words[keys] < LEAST_WORDS:
            raise UnansweredError(
                f"lines: expected at least {LEAST_WORDS} {unit_of(keys)}s to look at, got {n_words[keys]}: of so few, "
                f"each gets much weight"
            )
    texts = by_text(attention, "lines")
    require_few(max(sum(len(m.heads) for m in maps) for maps in texts))
    return texts


def _n_words(tokens: Tokens) -> int:
    words = SpanSide.of(tokens, words_or_tokens).axis.tokens
    return len(words) - len(words.special)


def require_few(n_heads: int) -> None:
    """Raise UnansweredError if the links of so many heads, of all words, cannot be told apart."""
    if n_heads > MOST_HEADS:
        choices = " and ".join(parameter(name) for name in ("layer", "head") if is_accepted(name))
        raise UnansweredError(
            f"lines: expected at most {MOST_HEADS} heads, as lines of more cannot be told apart, got "
            f"{n_heads}; choose by {choices}{_one_query()}"
        )


def _one_query() -> str:
    return f"; {parameter('query')} WORD has the lines of one" * is_accepted("query")


def _document(text: TextLinks) -> dict[str, Any]:
    asides = np.flatnonzero(text.aside).tolist()
    heads = [
        {
            "layer": one.layer,
            "head": one.head,
            "carried": one.carried,
            "lines": [{"query_index": link.query, "key_index": link.key, "weight": link.weight} for link in one.links],
            "aside": [{"key_index": j, "weight": float(one.weights[:, j].mean())} for j in asides],
        }
        for one in text.heads
    ]
    return {
        **text.numbers,
        "kind": text.kind,
        **sides_document(text.queries, text.keys),
        "query_indices": text.shown,
        "heads": heads,
        "too_diffuse": [{"layer": one.layer, "head": one.head, "carried": one.carried} for one in text.diffuse],
    }


def _of_look(look: Look) -> TextLinks:
    """Return the links of one query, of the heads that its answer shows."""
    shown = look.shown
    every = [_links(one.layer, one.head, one.weights[None], (look.query,), look.aside, MOST_OF_HEAD) for one in shown]
    heads = tuple(one for one in every if one.links)
    on_words = sum(float(one.weights[:, ~look.aside].sum()) for one in heads)
    is_diffuse = not heads or sum(link.weight for one in heads for link in one.links) < _LEAST_CARRIED * on_words
    clear, diffuse = ((), tuple(every)) if is_diffuse else (heads, ())
    return TextLinks(look.queries, look.keys, (look.query,), look.aside, clear, diffuse, look, **about(look))


def _of_maps(maps: "Sequence[AttentionMap]", sinks: Sequence[int]) -> TextLinks:
    """Return the links of all words in maps of one text; ``sinks``: positions of its sinks."""
    first = maps[0]
    rows, columns, queries, keys, aside = word_sides(first, sinks)
    text = TextLinks(queries, keys, (), aside, (), **about(first))
    shown = text.rows
    by_word = (
        (m.layer, head, rows.means(columns.sums(weights), axis=0))
        for m in maps
        if m.layer is not None  # as all have one, being of single heads
        for head, weights in zip(m.heads, m.weights.astype(np.float64), strict=True)
    )
    heads = [
        _links(layer, head, weights[[*shown]], shown, aside)
        for layer, head, weights in by_word
        if np.isfinite(weights).all()
    ]
    clear = tuple(one for one in heads if not one.is_diffuse)
    diffuse = tuple(one for one in heads if one.is_diffuse)
    return replace(text, shown=shown, heads=clear, diffuse=diffuse)


def _links(
    layer: int,
    head: int,
    weights: NDArray[np.floating],
    shown: Sequence[int],
    aside: NDArray[np.bool_],
    most: int | None = None,
) -> HeadLinks:
    """Return the links of a head: of each query, the ``most`` largest weights that are large enough; None: all.

    ``weights``: those of the queries ``shown``, (queries, n_keys).
    """
    links = list[Link]()
    on_words = np.where(aside, 0.0, weights)
    for query, row in zip(shown, on_words, strict=True):
        best = np.argsort(-row, kind="stable")[:most].tolist()
        links += [Link(query, j, float(row[j])) for j in best if row[j] >= LEAST_WEIGHT]
    carried = sum(link.weight for link in links) / (float(on_words.sum()) or 1.0)
    return HeadLinks(layer, head, weights.astype(np.float64), tuple(links), carried)

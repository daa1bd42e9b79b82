"""What a word looks at: the words that it gives weight, and the heads that look at one from it as from few others."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError, is_accepted, parameter, quoted
from mhaviz.inputs.spans import SpansOf, are_nameless, unit_of, words_or_tokens
from mhaviz.inputs.tokens import Kind, Tokens
from mhaviz.numbering import listed_runs
from mhaviz.results.attention import text_name
from mhaviz.results.axis import Axis, no_such, require_single, words_with
from mhaviz.results.means import MeanOver, mean_text
from mhaviz.results.quantity import WEIGHT
from mhaviz.results.result import Result, ShortRepr, Source
from mhaviz.results.spans import SpanSide

if TYPE_CHECKING:
    from mhaviz.results.attention import Attention, AttentionMap

STRONG = 0.3
"""Least weight of a word that is looked at strongly."""

LEAST_SHOWN = 0.1  # least weight of a target that is worth a bar
_MOST_SHOWN = 5  # heads of pictures
LEAST_WORDS = 4
"""Least number of words that a query sees: of fewer, one is always strong."""

LEAST_OTHERS = 3
"""Least number of other words whose mean is known."""

TIMES_OTHERS = 2.0
"""Least weight of a ranked head / what other words give the same offset, or the same word."""


@dataclass(frozen=True, eq=False)
class HeadLook(ShortRepr):
    """What a word looks at in one head.

    Attributes:
        layer, head: indices of the head.
        weights: float64, (n_keys,), weights that the word gives to the words of the keys.
        target: index of the strongest word that it sees: neither itself nor a special token or a sink.
        same_offset: mean weight that other words give to the word at the same distance from them; None: unknown, as
            fewer than 3 see such a word, or keys and queries are different texts.
        same_word: mean weight that other words give to the target; None: unknown, as fewer than 3 see it.
    """

    layer: int
    head: int
    weights: NDArray[np.float64]
    target: int
    same_offset: float | None
    same_word: float | None

    @property
    def weight(self) -> float:
        """Weight of the target."""
        return float(self.weights[self.target])

    @property
    def others(self) -> float | None:
        """What other words give, to the target or at the same distance, whichever is more; None: unknown."""
        return max((mean for mean in (self.same_offset, self.same_word) if mean is not None), default=None)

    @property
    def is_ranked(self) -> bool:
        """Whether the target's weight is more than 2 × what other words give: the head does not look there anyway."""
        return self.others is not None and self.weight > TIMES_OTHERS * self.others


@dataclass(frozen=True, eq=False, kw_only=True)
class OfText(ShortRepr):
    """What is of the maps of one text, of one kind of attention.

    Attributes:
        kind: kind of the attention.
        sentence, pass_number: as of ``AttentionMap``.
        is_recorded: whether the maps are of a running program.
        has_spans: whether the maps are of spans, such as words, so that positions count these.
        mean_over: what the maps are means over, such as texts.
    """

    kind: Kind = "self"
    sentence: int | None = None
    pass_number: int | None = None
    is_recorded: bool = False
    has_spans: bool = False
    mean_over: MeanOver = ()

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers of the sentence and of the pass, as far as it has them, and of what it is the mean over."""
        numbers = {"sentence": self.sentence, "pass": self.pass_number, "mean_over": dict(self.mean_over) or None}
        return {name: number for name, number in numbers.items() if number is not None}


@dataclass(frozen=True, eq=False)
class Look(OfText):
    """What a word looks at in one text, in all heads of one kind of attention.

    Attributes:
        query: index of the word among those of the queries.
        queries, keys: the words of both sides. Where blanks do not tell words, as in Chinese, each token is one.
        aside: bool, (n_keys,), special tokens and sinks, which are stated but no words.
        heads: all heads whose numbers are finite, those with the largest weight of a target first.
        kind, sentence, pass_number, is_recorded, has_spans, mean_over: as of ``OfText``.
    """

    query: int
    queries: Tokens
    keys: Tokens
    aside: NDArray[np.bool_]
    heads: tuple[HeadLook, ...]

    @property
    def word(self) -> str:
        """Text of the word."""
        return self.queries.texts[self.query]

    @property
    def itself(self) -> int | None:
        """Index of the word among the keys; None: these are another text."""
        return self.query if are_one_text(self.kind, self.queries, self.keys) else None

    @cached_property
    def mean(self) -> NDArray[np.float64]:
        """Mean of the weights over the heads, (n_keys,)."""
        mean: NDArray[np.float64] = np.mean([look.weights for look in self.heads], axis=0)
        return mean

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """Of the mean weight on words, the share of each, (n_keys,); 0 for what is aside."""
        on_words = np.where(self.aside, 0.0, self.mean)
        return on_words / (on_words.sum() or 1.0)

    @property
    def weighs_later(self) -> bool:
        """Whether the word gives weight to words after its place, which a mask may fail to hide."""
        return bool(self.mean[self.query + 1 :].any())

    @property
    def ranked(self) -> tuple[HeadLook, ...]:
        """Heads that look at their target from this word, and not from others."""
        return tuple(look for look in self.heads if look.is_ranked)

    @property
    def telling(self) -> tuple[HeadLook, ...]:
        """Ranked heads whose target has enough weight for a bar."""
        return tuple(one for one in self.ranked if one.weight >= LEAST_SHOWN)

    @property
    def has_strong(self) -> bool:
        """Whether some ranked head looks at its target strongly."""
        return any(one.weight >= STRONG for one in self.ranked)

    @property
    def shown(self) -> tuple[HeadLook, ...]:
        """Heads of pictures, at most five: those that tell something of this word, or else all; first the one with the
        largest weight, where none is strong."""
        heads = self.telling or self.heads
        if not any(one.weight >= STRONG for one in self.heads):
            heads = self.heads[0], *(one for one in heads if one is not self.heads[0])
        return heads[:_MOST_SHOWN]

    @property
    def not_ranked(self) -> tuple[HeadLook, ...]:
        """Heads that look at their target from other words as well, or of which this is unknown."""
        return tuple(look for look in self.heads if not look.is_ranked)


@dataclass(frozen=True, eq=False)
class LeftOut(OfText):
    """A text that has the word, but cannot tell what it looks at.

    Attributes:
        reason: what was expected of it, and what it has.
        kind, sentence, pass_number, is_recorded, has_spans, mean_over: as of ``OfText``.
    """

    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return its numbers and kind, and the reason, for JSON."""
        return {**self.numbers, "kind": self.kind, "reason": self.reason}


@dataclass(frozen=True)
class Answer(Result):
    """What a word looks at, in each text that has it and can tell.

    Attributes:
        source: where the maps come from.
        looks: what it looks at in each text, at least one.
        left_out: the other texts that have it.
    """

    source: Source
    looks: tuple[Look, ...]
    left_out: tuple[LeftOut, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``. Each text has the words of ``sides_document``, the ``query`` among them, the
        ``shares`` of the keys, and its heads in their order, of which those ranked come first; ``left_out``: texts that
        have the word without an answer, if there are some."""
        left_out = [one.to_dict() for one in self.left_out]
        return {"answers": [_document(look) for look in self.looks], **({"left_out": left_out} if left_out else {})}


class UnansweredError(ArgumentError):
    """Maps that cannot tell what a word looks at, though they have it."""


def answer(attention: "Attention", query: int | str) -> Answer:
    """Return what a word looks at; see ``Attention.answer``."""
    texts = texts_with(attention, query)
    sinks = {id(m): of_map.keys if of_map else () for m, of_map in zip(attention.maps, attention.sinks, strict=True)}
    found = [_look(maps, query, sinks[id(maps[0])]) for maps in texts]
    looks = tuple(one for one in found if isinstance(one, Look))
    left_out = tuple(one for one in found if isinstance(one, LeftOut))
    if not looks:
        raise _unanswered(left_out[0])
    return Answer(attention.source, looks, left_out)


def weights_of(attention: "Attention", query: int | str) -> "Attention":
    """Return the weights of a query, as maps of it by word, in the order of the maps. Texts that an answer leaves out
    are among them: their weights are no less known.

    Raises:
        ArgumentError: as ``texts_with``.
    """
    rows = dict[int, "AttentionMap"]()
    for maps in texts_with(attention, query):
        (word,) = _words_with(query, maps[0])
        rows |= {id(m): (m if m.has_spans else m.in_spans(_spans_with(query, m))).of_query(word) for m in maps}
    return replace(attention, maps=tuple(rows[id(m)] for m in attention.maps if id(m) in rows))


def is_answerable(attention: "Attention") -> bool:
    """Return whether the maps are of the weights of single heads, of all tokens of a text that is known; they may be
    pooled."""
    return not why_unanswerable(attention)


def are_beside_chance(attention: "Attention") -> bool:
    """Return whether the maps are of spans that are no words, which have a picture of their own, also of one query."""
    return any(m.chance is not None for m in attention.maps)


def why_unanswerable(attention: "Attention") -> str:
    """Return what maps lack that an answer needs; "": they are as ``is_answerable`` has it."""
    for m in attention.maps:
        lacking = _lacking(m)
        if not lacking and any(are_nameless(axis.tokens) for axis in (m.rows, m.columns)):
            lacking = "expected names of tokens, got positions"
        if lacking:
            return f"{m.name}: {lacking}"
    return ""


def are_whole(attention: "Attention") -> bool:
    """Return whether the maps are as ``is_answerable``, but of a text that may be unknown."""
    return not any(map(_lacking, attention.maps))


def by_text(attention: "Attention", what: str) -> "list[list[AttentionMap]]":
    """Return the maps of each text and kind of attention, which need not have their weights yet.

    Raises:
        UnansweredError: maps are not of all tokens of a text, or not of weights of single heads; named ``what``.
    """
    texts = defaultdict[Hashable, list["AttentionMap"]](list)
    for m in attention.maps:
        _require_weights(m, what)
        texts[m.sentence, m.kind, m.pass_number, m.rows.tokens.texts, m.columns.tokens.texts].append(m)
    return [*texts.values()]


def texts_with(attention: "Attention", query: int | str) -> "list[list[AttentionMap]]":
    """Return the maps of each text that has a word, which need not have their weights yet.

    Raises:
        ArgumentError: as ``Attention.answer``, as far as weights and sinks are not needed.
    """
    having = [maps for maps in by_text(attention, parameter("query")) if _words_with(query, maps[0])]
    for m, *_ in having:
        require_single(query, sorted(_words_with(query, m).values()), where=in_text(m), is_named=_is_joined(query, m))
    if not having:
        raise _no_such_word(query, attention.maps)
    few = [LeftOut(reason, **about(maps[0])) for maps in having if (reason := _too_few(maps, query))]
    if len(few) == len(having):
        raise _unanswered(few[0])
    return having


def lacking_text(attention: "Attention", query: int | str, by_word: bool = True) -> str:
    """Return which of several texts, or passes, lack a word that others have, or unless ``by_word`` a token; "": none.

    A word that only some kinds of attention have as a query, such as that of a translation, is not lacking.
    """
    firsts = {(m.pass_number, m.sentence, m.kind, m.rows.tokens): m for m in attention.maps}
    has = defaultdict[tuple[int | None, int | None], bool](bool)
    for (pass_number, sentence, *_), m in firsts.items():
        has[pass_number, sentence] |= bool(_words_with(query, m) if by_word else m.rows.places(query))
    lacking = [text for text, is_there in has.items() if not is_there]
    if not 0 < len(lacking) < len(has):
        return ""
    passes, sentences = ([number for number in side if number is not None] for side in zip(*lacking, strict=True))
    which = f"{len(lacking):,} of {len(has):,} texts"
    if (len(passes), len(sentences)) in ((len(lacking), 0), (0, len(lacking))):
        name = "pass" if passes else text_name(attention.maps[0].is_recorded)
        which = listed_runs(name, passes or sentences)
    return f"{parameter('query')}: {quoted(query)} is not in {which}"


def in_text(of: "OfText | AttentionMap") -> str:
    """Return " in sentence 2" of a text that has a number, " in pass 3", " in the mean over 3 sentences"; "" else."""
    named = {text_name(of.is_recorded): of.sentence, "pass": of.pass_number}
    numbered = "".join(f" in {name} {number}" for name, number in named.items() if number is not None)
    return numbered + (f" in the {mean}" if (mean := mean_text(of.mean_over, with_heads=False)) else "")


def _unanswered(text: LeftOut) -> UnansweredError:
    """Return the error that no text has an answer, for the reason of the first."""
    where = "" if text.sentence is None else f"{text_name(text.is_recorded)} {text.sentence}: "
    return UnansweredError(f"{parameter('query')}: {where}{text.reason}")


def sides_document(queries: Tokens, keys: Tokens) -> dict[str, Any]:
    """Return the words of both sides for JSON, and the tokens of each, as ``describe`` has them. What is called an
    index there is the number of a word in these lists."""
    return {
        "queries": queries.texts,
        "keys": keys.texts,
        "query_token_ranges": queries.ranges,
        "key_token_ranges": keys.ranges,
    }


def _document(look: Look) -> dict[str, Any]:
    heads = [
        {
            "layer": one.layer,
            "head": one.head,
            "is_ranked": one.is_ranked,
            "looks_at": look.keys.texts[one.target],
            "looks_at_index": one.target,
            "weight": one.weight,
            "same_offset": one.same_offset,
            "same_word": one.same_word,
            "weights": one.weights,
        }
        for one in (*look.ranked, *look.not_ranked)
    ]
    return {
        **look.numbers,
        "kind": look.kind,
        "query": look.word,
        "query_index": look.query,
        **sides_document(look.queries, look.keys),
        "aside_indices": np.flatnonzero(look.aside),
        "mean": look.mean,
        "shares": look.shares,
        "heads": heads,
    }


def _has_weights(m: "AttentionMap") -> bool:
    quantity = m.quantity
    return quantity.key == WEIGHT.key and not (quantity.is_signed or quantity.of_all_heads) and quantity.row == "query"


def _lacking(m: "AttentionMap") -> str:
    """Return what was expected of a map, which may be pooled, and what it has; "": it has all."""
    if not _has_weights(m):
        return "expected weights of single heads, got other numbers"
    if m.chance is not None:
        return "expected tokens or words, got other spans"
    if any(axis.tokens.images for axis in (m.rows, m.columns)):  # none is before another
        return "expected the words of a text, got patches of an image"
    if m.to_special is not None or not (m.is_whole or m.is_pooled):
        return "expected the queries and keys of all tokens, got some of them"
    return ""


def _require_weights(m: "AttentionMap", what: str) -> None:
    """Raise UnansweredError unless a map has the weights of all its tokens."""
    name = f"{what}: {m.name}"
    if lacking := _lacking(m):
        raise UnansweredError(f"{name}: {lacking}")
    if m.is_pooled:
        length = max(len(m.rows.tokens), len(m.columns.tokens))
        size = f"{parameter('size')} {length}" if is_accepted("size") else f"{length:,} cells where it is computed"
        raise UnansweredError(
            f"{name}: expected the weights of single tokens, got {length:,} tokens in cells of several; give {size}"
        )


def _too_few(maps: "Sequence[AttentionMap]", query: int | str, sinks: Sequence[int] = ()) -> str:
    """Return that the query sees too few words in some map of a text; "" if it sees enough.

    ``sinks``: positions of sinks, which are no words, as far as they are known.
    """
    rows, columns, _, _, aside = word_sides(maps[0], sinks, _spans_with(query, maps[0]))
    (word,) = _words_with(query, maps[0])
    n_words = min(int((_sees(m, rows.owners == word, columns) & ~aside).sum()) for m in maps)
    few = f"expected at least {LEAST_WORDS} {unit_of(maps[0].columns.tokens)}s that the query sees, got {n_words}"
    few += ": of so few, each gets much weight"
    return few if n_words < LEAST_WORDS else ""


def _sees(m: "AttentionMap", pieces: NDArray[np.bool_], columns: SpanSide) -> NDArray[np.bool_]:
    """Return which keys a word sees, as some of its ``pieces`` does, (n_keys,)."""
    return np.asarray(columns.sums(m.seen[pieces].sum(axis=0)) > 0)


def _words_with(query: int | str, m: "AttentionMap") -> dict[int, int]:
    """Return the words of ``_spans_with`` that a query names, by their text, by that of a token in them or by a token's
    position, and for each the position of its first token, or of the one that the query names. Of maps of words,
    positions are of words."""
    return words_named(query, m.rows, _spans_with(query, m))


def words_named(query: int | str, axis: Axis, spans_of: SpansOf) -> dict[int, int]:
    """Return the spans of an axis that a query names, as ``_words_with`` those of the queries of a map."""
    words = SpanSide.of(axis.tokens, spans_of)
    if isinstance(query, str):
        owners = words.owners[:0] if axis.exactly(query) else words.owners  # a token's text is no label
        if places := words.axis.named(query, owners):
            return {place: int(np.argmax(words.owners == place)) for place in places}
    return {int(words.owners[place]): place for place in reversed(axis.places(query))}


def _is_joined(query: int | str, m: "AttentionMap") -> bool:
    """Return whether a query is several words, whose first has the same position as all of them."""
    return len(_spans_with(query, m)(m.rows.tokens)) < len(words_or_tokens(m.rows.tokens))


def _spans_with(query: int | str, m: "AttentionMap") -> SpansOf:
    """Return what finds the words of a map, ``words_with`` the query; those of a map by word stay as they are."""
    return words_or_tokens if m.has_spans else words_with(query)


def _no_such_word(query: int | str, maps: "Sequence[AttentionMap]") -> ArgumentError:
    """Return the error that no map has the word, with those of a map. Raises PiecesError if several are the query."""
    if isinstance(query, str):
        for m in maps:
            m.rows.require_no_pieces(query)
    m = next((m for m in maps if _is_key(query, m)), maps[0])
    return no_such_word(query, m.rows, is_key=_is_key(query, m))


def no_such_word(query: int | str, axis: Axis, option: str = "query", is_key: bool = False) -> ArgumentError:
    """Return the error that an axis has no such word; other arguments as of ``no_such``."""
    words = SpanSide.of(axis.tokens, words_or_tokens)
    firsts = [int(np.argmax(words.owners == word)) for word in range(len(words.axis))]
    names = zip(firsts, words.axis.tokens.texts, strict=True)
    return no_such("word", query, names, axis.end, option, is_key)


def _is_key(query: int | str, m: "AttentionMap") -> bool:
    keys = SpanSide.of(m.columns.tokens, _spans_with(query, m))
    return isinstance(query, str) and bool(keys.axis.named(query, keys.owners))


def are_one_text(kind: Kind, queries: Tokens, keys: Tokens) -> bool:
    """Return whether the words of both sides are of the same text, so that a word is itself among the keys."""
    return kind != "cross" and queries.texts == keys.texts


def word_sides(
    m: "AttentionMap", sinks: Sequence[int], spans_of: SpansOf = words_or_tokens
) -> tuple[SpanSide, SpanSide, Tokens, Tokens, NDArray[np.bool_]]:
    """Return which tokens are in which words, of ``spans_of``, of the queries and of the keys, the words of both, and
    which keys have only special tokens and ``sinks``, (n_keys,)."""
    rows, columns = (SpanSide.of(axis.tokens, spans_of) for axis in (m.rows, m.columns))
    queries, keys = (
        axis.tokens if axis.tokens.ranges else side.axis.tokens for axis, side in ((m.rows, rows), (m.columns, columns))
    )
    of_words = ~np.isin(np.arange(len(m.columns.tokens)), [*m.columns.tokens.special, *sinks])
    return rows, columns, queries, keys, columns.sums(of_words.astype(np.int64)) == 0


def _look(maps: "Sequence[AttentionMap]", query: int | str, sinks: Sequence[int]) -> Look | LeftOut:
    """Return what a word looks at in maps of one text, or why they cannot tell; ``sinks``: positions of its sinks."""
    first = maps[0]
    if few := _too_few(maps, query, sinks):
        return LeftOut(few, **about(first))
    (word,) = _words_with(query, first)
    rows, columns, queries, keys, aside = word_sides(first, sinks, _spans_with(query, first))
    is_of_one_text = are_one_text(first.kind, queries, keys)
    not_others = {word, *queries.special, *(np.flatnonzero(aside).tolist() if is_of_one_text else ())}
    others = np.array([i for i in range(len(queries)) if i not in not_others], np.int64)
    pieces, of_words = rows.owners == word, np.flatnonzero(~aside)
    heads = list[HeadLook]()
    for m in maps:
        assert m.layer is not None  # as maps are of single heads
        seen, can_be_target = m.seen, ~aside & _sees(m, pieces, columns)
        if is_of_one_text:
            can_be_target[word] = False
        of_word = columns.sums(m.weights[:, pieces].astype(np.float64)).mean(axis=1)
        for head, weights, of_head in zip(m.heads, of_word, m.weights, strict=True):
            target = int(np.where(can_be_target, weights, -1.0).argmax())
            along = others[np.isin(others + target - word, of_words)] if is_of_one_text else others[:0]
            giving = others[others != target] if is_of_one_text else others
            offset = _mean(of_head, seen, (rows, columns), along, along + target - word)
            crowd = _mean(of_head, seen, (rows, columns), giving, np.full_like(giving, target))
            if np.isfinite([*weights, offset or 0.0, crowd or 0.0]).all():
                heads.append(HeadLook(m.layer, head, weights, target, offset, crowd))
    if not heads:
        return LeftOut("expected weights, got NaN in every head", **about(first))
    heads.sort(key=lambda look: -look.weight)
    return Look(word, queries, keys, aside, tuple(heads), **about(first))


def about(of: "AttentionMap | OfText") -> dict[str, Any]:
    """Return the attributes of ``OfText`` of a map, or of another of its text."""
    return {one.name: getattr(of, one.name) for one in fields(OfText)}


def _mean(
    weights: NDArray[np.floating],
    seen: NDArray[np.bool_],
    sides: tuple[SpanSide, SpanSide],
    queries: NDArray[np.int64],
    keys: NDArray[np.int64],
) -> float | None:
    """Return the mean weight that words give to a word each, of those that see it; None if they are fewer than 3.

    Only the cells of these words are read, as the map of all words would take long.

    Args:
        weights: of one head by token, (q_length, k_length).
        seen: which of them are seen, by token.
        sides: the words of both sides, each of which is a run of tokens.
        queries, keys: indices of the words, (pairs,).
    """
    rows, columns = (side.edges for side in sides)
    n_queries, n_keys = np.diff(rows)[queries], np.diff(columns)[keys]
    sizes = n_queries * n_keys
    pair = np.repeat(np.arange(len(sizes)), sizes)  # of each token and token, that of their words
    row, column = np.divmod(np.arange(len(pair)) - np.repeat(np.cumsum(sizes) - sizes, sizes), n_keys[pair])
    cells = rows[queries][pair] + row, columns[keys][pair] + column
    by_word = np.bincount(pair, weights[cells], len(sizes)) / n_queries
    seeing = np.bincount(pair, seen[cells], len(sizes)) > 0
    return float(by_word[seeing].mean()) if seeing.sum() >= LEAST_OTHERS else None

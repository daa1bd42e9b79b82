"""Which heads link the words of pairs: the weight from one word to the other, beside what other words give.

Of the weights of a layer, only three sums of each word are kept: from the query to the word, from the word to the key,
and from the word to the one at the same distance. They are summed a block of queries at a time.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.analyses.averages import averages
from mhaviz.analyses.head_statistics import seen_keys
from mhaviz.analyses.key_sums import key_sums
from mhaviz.analyses.sums import stacked
from mhaviz.attention.model import CorpusModel, Inputs, SiteCall, are_tokens
from mhaviz.errors import ArgumentError, parameters_named, quoted
from mhaviz.inputs.pairs import WordPair
from mhaviz.inputs.spans import Span, span_tokens, words_or_tokens
from mhaviz.inputs.tokens import KIND_NAMES, Kind, Tokens
from mhaviz.results.answer import LEAST_OTHERS, LEAST_WORDS, no_such_word, words_named
from mhaviz.results.axis import Axis, require_single, words_with
from mhaviz.results.head_numbers import AverageOfFew
from mhaviz.results.head_pairs import HALF, HeadPairs, PairLook, PairsOfKind
from mhaviz.results.result import Source
from mhaviz.results.sinks import KeySums

_BLOCK = 2**24  # weights that are in memory at a time
_NUMBERS, _SHARES = ("weight", "found", "half", "usual"), ("found", "half")


@dataclass(frozen=True, eq=False)
class PlacedPair:
    """A pair of words, and where they are in its text.

    Attributes:
        pair: the pair.
        tokens: tokens of the text, with their labels.
        words: the words of the text, among them the two of the pair.
        query, key: indices of these.
    """

    pair: WordPair
    tokens: Tokens
    words: tuple[Span, ...]
    query: int
    key: int

    @classmethod
    def of(cls, pair: WordPair, tokens: Tokens, kinds: Sequence[Kind]) -> "PlacedPair":
        """Find the words of a pair, for these kinds of attention.

        Raises:
            ArgumentError: the text lacks a word, or has it several times; both are the same word; the key comes after
                the query, which masked attention hides.
        """
        with parameters_named(lambda name: f"{pair.where}: {name}", lambda name: False):  # these are fields
            query, key = (_word(tokens, getattr(pair, name), name) for name in ("query", "key"))
        (start, end), (key_start, key_end) = query.ranges[0], key.ranges[0]
        if start < key_end and key_start < end:
            raise ArgumentError(f"{pair.where}: expected two words, got one, {quoted(query.name.strip())}")
        if "masked" in kinds and key_start > start:
            raise ArgumentError(
                f"{pair.where}: expected a key before the query, as {KIND_NAMES['masked']} hides later ones, got "
                f"{quoted(query.name.strip())} before {quoted(key.name.strip())}; swap them, or leave the pair out"
            )
        kept = (
            one
            for one in words_or_tokens(tokens)
            if all(one.ranges[0][1] <= of.ranges[0][0] or of.ranges[0][1] <= one.ranges[0][0] for of in (query, key))
        )
        words = tuple(sorted((query, key, *kept), key=lambda one: one.ranges))
        return cls(pair, tokens, words, words.index(query), words.index(key))

    @property
    def edges(self) -> NDArray[np.int64]:
        """Where words begin among the tokens, and where the last one ends, (n_words + 1,)."""
        return np.array([*(word.ranges[0][0] for word in self.words), len(self.tokens)], np.int64)


def _word(tokens: Tokens, name: str | int, option: str) -> Span:
    """Return the word of this name. Raises ArgumentError, which names ``option``, unless there is exactly one."""
    axis, spans_of = Axis(tokens), words_with(name)
    found = words_named(name, axis, spans_of)
    require_single(name, sorted(found.values()), option, is_named=True)
    if not found:
        raise no_such_word(name, axis, option)
    return spans_of(tokens)[next(iter(found))]


class PairStudy:
    """What the queries of pairs look at, in all heads of a model."""

    def __init__(self) -> None:
        self._looks = defaultdict[Kind, dict[int, tuple[PairLook, NDArray[np.float64], NDArray[np.float64]]]](dict)
        self._layers: dict[Kind, tuple[int, ...]] = {}

    def add(self, model: CorpusModel, inputs: Inputs, placed: Sequence[PlacedPair], numbers: Sequence[int]) -> None:
        """Run a model on the texts of these pairs.

        Args:
            model: the model.
            inputs: its inputs for the texts.
            placed: the pairs.
            numbers: index of each pair.

        Raises:
            MhavizError: as ``Model.run``.
        """
        kinds = dict.fromkeys(site.kind for site in model.sites(inputs))
        texts = {(kind, i): _TextSums(one) for kind in kinds for i, one in enumerate(placed)}
        cells: dict[int, _Cells] = {}

        def on_attention(seen: SiteCall) -> None:
            start = seen.sentence or 0  # some models run one sentence at a time
            end = start + len(seen.queries)
            if start not in cells:
                cells[start] = _Cells.of(placed[start:end])
            _add_call(seen, cells[start], [texts[seen.site.kind, i] for i in range(start, end)])

        model.run(inputs, on_attention, batched=True)
        for (kind, i), text in texts.items():
            self._layers[kind] = tuple(text.layers)
            self._looks[kind][numbers[i]] = text.look()

    def result(self, source: Source, too_long: int = 0) -> HeadPairs:
        """Return the numbers of all pairs so far; ``too_long``: number of pairs whose texts could not be read."""
        kinds = (self._kind(kind, layers) for kind, layers in self._layers.items())
        return HeadPairs(source, tuple(kinds), too_long)

    def _kind(self, kind: Kind, layers: tuple[int, ...]) -> PairsOfKind:
        looks, chances, picks = zip(*(self._looks[kind][number] for number in sorted(self._looks[kind])), strict=True)
        weights, usual, found = (
            np.array([getattr(look, name) for look in looks]) for name in ("weights", "usual", "found")
        )
        there = ~np.isnan(weights[0])  # n_layers n_heads
        values = np.where(there[..., None], np.stack([weights, found, weights > HALF, usual], axis=-1), nan)
        has = np.ones((*values.shape[:2], len(_NUMBERS)), np.bool_)  # pairs n_layers numbers
        is_known = (~np.isnan(usual) | ~there).all(axis=2)  # pairs n_layers
        has[..., 1] = has[..., 3] = is_known
        numbers = averages(values, has, _NUMBERS, _SHARES)
        by_chance = np.where(there, np.mean(chances, axis=0), nan)
        chance = dict.fromkeys(_NUMBERS, np.full_like(by_chance, nan)) | {"weight": by_chance}
        of = {name: AverageOfFew(**one, chance=chance[name]) for name, one in numbers.items()}
        picked = np.where(is_known, picks, 0.0).sum(axis=0) / np.maximum(is_known.sum(axis=0), 1)
        return PairsOfKind(kind, layers, **of, picked=picked, looks=looks)


@dataclass(frozen=True, eq=False)
class _Cells:
    """The weights that are summed of the texts of a batch, sorted by query.

    Attributes:
        sentence, query, key: int64, (n_cells,), position of each weight.
        slot: int64, (n_cells,), the sum that it belongs to. Each text has three for each of its words: from the query
            to the word, from the word to the key, and from the word to the one at the same distance.
        factor: float64, (n_cells,), 1 / number of tokens of the word that gives the weight.
        edges: for each text, the number of its first slot, and at the end the number of all.
    """

    sentence: Tensor
    query: Tensor
    key: Tensor
    slot: Tensor
    factor: Tensor
    edges: tuple[int, ...]

    @classmethod
    def of(cls, placed: Sequence[PlacedPair]) -> "_Cells":
        """Return the cells of the texts of these pairs."""
        columns, edges = list[tuple[NDArray[Any], ...]](), [0]
        for number, one in enumerate(placed):
            words, n = np.arange(len(one.words)), len(one.words)
            after = words + one.key - one.query
            has_after = (after >= 0) & (after < n)
            for slots, giving, getting in (
                (words, np.full(n, one.query), words),
                (words + n, words, np.full(n, one.key)),
                ((words + 2 * n)[has_after], words[has_after], after[has_after]),
            ):
                pair, rows, keys, factors = _between(one.edges, giving, getting)
                columns.append((np.full_like(pair, number), rows, keys, edges[-1] + slots[pair], factors))
            edges.append(edges[-1] + 3 * n)
        whole = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
        order = np.argsort(whole[1], kind="stable")
        sentence, query, key, slot, factor = (torch.from_numpy(column[order]) for column in whole)
        return cls(sentence, query, key, slot, factor, tuple(edges))

    def sums(self, A: Tensor, start: int) -> Tensor:
        """Return the sums over a block of weights A, (batch_size, n_heads, queries, k_length), whose first query is at
        ``start``: float64, (n_slots, n_heads)."""
        ends = torch.searchsorted(self.query, torch.tensor([start, start + A.shape[2]])).tolist()
        block = slice(*ends)
        sentence, query, key = (x[block].to(A.device) for x in (self.sentence, self.query - start, self.key))
        values = A[sentence, :, query, key].cpu() * self.factor[block, None]
        return values.new_zeros(self.edges[-1], A.shape[1]).index_add_(0, self.slot[block], values)


def _between(
    edges: NDArray[np.int64], giving: NDArray[np.int64], getting: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the cells between pairs of words: of each its pair, its query, its key, and 1 / number of its queries.

    Args:
        edges: where words begin among the tokens, and where the last one ends.
        giving, getting: indices of the words, (pairs,).
    """
    sizes = np.diff(edges)
    n_cells, n_keys = sizes[giving] * sizes[getting], sizes[getting]
    pair = np.repeat(np.arange(len(giving)), n_cells)
    row, column = np.divmod(np.arange(len(pair)) - np.repeat(np.cumsum(n_cells) - n_cells, n_cells), n_keys[pair])
    return pair, edges[giving][pair] + row, edges[getting][pair] + column, 1 / sizes[giving][pair]


class _TextSums:
    """Sums of the weights of one text, in all layers.

    Attributes:
        layers: the layers so far.
        of_keys: what the keys get in all of them, by which sinks are found.
    """

    def __init__(self, placed: PlacedPair) -> None:
        self._placed, self.layers, self.of_keys = placed, list[int](), KeySums(len(placed.tokens))
        self._sums = list[tuple[NDArray[np.float64], NDArray[np.float64]]]()

    def add(self, layer: int, sums: NDArray[np.float64], uniform: NDArray[np.float64]) -> None:
        """Add the sums of a layer, (3 · n_words, n_heads), and those of a head with uniform weights, with 1 or n_heads
        columns."""
        n = len(self._placed.words)
        self.layers.append(layer)
        self._sums.append((sums.reshape(3, n, -1), np.broadcast_to(uniform, sums.shape).reshape(3, n, -1)))

    def _aside(self) -> NDArray[np.bool_]:
        """Return which words are special tokens or sinks, (n_words,)."""
        tokens = self._placed.tokens
        sinks = self.of_keys.of_text(len(tokens), tokens)
        is_aside = np.isin(np.arange(len(tokens)), [*tokens.special, *(sinks.keys if sinks else ())])
        return np.asarray(np.logical_and.reduceat(is_aside, self._placed.edges[:-1]))

    def look(self) -> tuple[PairLook, NDArray[np.float64], NDArray[np.float64]]:
        """Return what the query looks at in all layers, its weight on the key by chance, (n_layers, n_heads), and the
        probability that a word picked at random is the key, (n_layers,)."""
        aside, placed = self._aside(), self._placed
        layers = [_of_layer(placed, aside, *sums) for sums in self._sums]
        weights, usual, targets, strongest, chance, picked = zip(*layers, strict=True)
        words = span_tokens(placed.words, placed.tokens)
        of_heads = stacked(weights), stacked(usual), stacked(targets, -1).astype(np.int64), stacked(strongest)
        look = PairLook(placed.pair, words, placed.query, placed.key, *of_heads)
        return look, stacked(chance), np.array(picked)


def _of_layer(
    placed: PlacedPair, aside: NDArray[np.bool_], sums: NDArray[np.float64], uniform: NDArray[np.float64]
) -> tuple[Any, ...]:
    """Return the weights of ``PairLook`` in one layer, (n_heads,) each, the weight by chance, and the probability that
    a word picked at random is the key; the rules are those of ``Attention.answer``."""
    (given, crowd, along), (query, key) = sums, (placed.query, placed.key)
    seen: NDArray[np.bool_] = np.any(uniform > 0, axis=2)  # 3 n_words
    can_be_target = seen[0] & ~aside
    n_words = int(can_be_target.sum())
    can_be_target[query], can_be_target[key] = False, True
    targets = np.where(can_be_target[:, None], given, -1.0).argmax(axis=0)
    numbers = np.arange(len(placed.words))
    is_other, after = ~aside & (numbers != query), numbers + key - query
    inside = (after >= 0) & (after < len(numbers))
    is_along = is_other & inside & ~aside[np.where(inside, after, 0)] & seen[2]
    means = [
        of[those].mean(axis=0)
        for of, those in ((crowd, is_other & (numbers != key) & seen[1]), (along, is_along))
        if those.sum() >= LEAST_OTHERS
    ]
    is_known = means and n_words >= LEAST_WORDS
    usual = np.max(means, axis=0) if is_known else np.full(given.shape[1], nan)
    strongest = np.take_along_axis(given, targets[None], axis=0)[0]
    return given[key], usual, targets, strongest, uniform[0][key], 1 / can_be_target.sum()


def _add_call(seen: SiteCall, cells: _Cells, texts: Sequence[_TextSums]) -> None:
    """Add the weights of a call to the sums of its texts, a block of queries at a time."""
    batch_size, n_heads, q_length, k_length = seen.call.shape
    is_query, is_key = are_tokens(seen, seen.call.device)
    are_read, by_mask = is_query[:, None, :, None] & is_key[:, None, None], seen_keys(seen.call)
    visible = are_read if by_mask is None else are_read & by_mask  # batch_size 1|n_heads q_length k_length
    at_once = max(_BLOCK // (batch_size * n_heads * k_length), 1)
    keys = torch.zeros(3, batch_size, k_length, dtype=torch.float64)
    sums: list[Any] = [0.0, 0.0]
    for start in range(0, q_length, at_once):
        sees, of_padding = visible[:, :, start : start + at_once], ~are_read[:, :, start : start + at_once]
        A = seen.call.weights(start, start + at_once).masked_fill(of_padding, 0.0)
        n_seen = sees.sum(dim=-1, keepdim=True).clamp(min=1)
        for place, of in enumerate((A, sees / n_seen.to(A.dtype))):
            sums[place] = sums[place] + cells.sums(of, start)
        keys += key_sums(A, sees)
    of_heads, uniform = (one.numpy() for one in sums)
    by_key = keys.numpy()
    for number, text in enumerate(texts):
        part = slice(*cells.edges[number : number + 2])
        text.add(seen.site.layer, of_heads[part], uniform[part])
        length = len(seen.keys[number])
        ratios, totals, readers = by_key[:, number, :length]
        text.of_keys.add_sums(n_heads, len(seen.queries[number]), ratios, totals, readers)

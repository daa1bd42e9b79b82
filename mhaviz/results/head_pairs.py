"""Which heads link the words of pairs, such as a pronoun and its antecedent."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.pairs import WordPair
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.answer import TIMES_OTHERS
from mhaviz.results.attention import head_name
from mhaviz.results.head_numbers import BOOTSTRAP, LEAST_FOR_INTERVAL, LEVEL, AverageOfFew, HeadsOfKind, HeadTable
from mhaviz.results.intervals import at_least, student
from mhaviz.results.result import ShortRepr, Source

HALF = 0.5
"""A larger weight on a key is most of the query's weight."""


@dataclass(frozen=True, eq=False)
class PairLook(ShortRepr):
    """What the query of a pair looks at, in all heads of one kind of attention.

    Arrays have shape (n_layers, n_heads), and NaN or −1 for heads that a layer lacks because another layer has more.

    Attributes:
        pair: the pair, as it was given.
        words: the words of the text.
        query, key: indices of the pair's words among them.
        weights: float64, weight that the query gives the key.
        usual: float64, mean weight that other words give the key, or that they give the word at the same distance from
            them, whichever is more; NaN: not known, as fewer than 3 see such a word, or the query sees fewer than 4.
        targets: int64, index of the strongest word that the query sees, as ``HeadLook.target``: neither itself nor a
            special token or a sink, unless this is the key.
        target_weights: float64, weight that the query gives the target.
    """

    pair: WordPair
    words: Tokens
    query: int
    key: int
    weights: NDArray[np.float64]
    usual: NDArray[np.float64]
    targets: NDArray[np.int64]
    target_weights: NDArray[np.float64]

    @property
    def found(self) -> NDArray[np.bool_]:
        """Whether the key is the target, and gets more than 2 × its usual weight, as ``HeadLook.is_ranked``."""
        return np.asarray((self.targets == self.key) & (self.weights > TIMES_OTHERS * self.usual))

    def to_dict(self) -> dict[str, Any]:
        """Return all but the tokens of the words, for JSON."""
        texts = self.words.texts
        return {
            "text": self.pair.text,
            "query": texts[self.query],
            "query_index": self.query,
            "key": texts[self.key],
            "key_index": self.key,
            "words": texts,
            "weights": self.weights,
            "usual": self.usual,
            "looks_at_indices": self.targets,
            "looks_at_weights": self.target_weights,
        }


@dataclass(frozen=True)
class BestHead(ShortRepr):
    """The head that gives the keys of pairs the most weight, and not because other words do.

    Attributes:
        row, column: its place in the arrays.
        n_found: number of pairs whose key it finds; see ``PairsOfKind.found``.
        n_pairs: number of pairs of which that is known.
        by_luck: whether the best of so many heads, which each pick one of the words at random, finds as many with a
            probability of 0.05 or more.
        ties: places of other such heads which may give the keys as much weight, as the 95% interval of the mean
            difference, by Student, pair by pair, contains 0.
    """

    row: int
    column: int
    n_found: int
    n_pairs: int
    by_luck: bool
    ties: tuple[tuple[int, int], ...]

    @property
    def finds_most(self) -> bool:
        """Whether it finds the keys of more than half of the pairs."""
        return 2 * self.n_found > self.n_pairs


@dataclass(frozen=True)
class PairsOfKind(HeadsOfKind):
    """Numbers of the heads of one kind of attention, over pairs.

    The weight of a query on a key is the sum over the tokens of the key, and the mean over the tokens of the query, as
    of ``Attention.by``.

    Attributes:
        weight: weight of the query on the key.
        found: share of the pairs whose key is the strongest of the words that the query sees, and gets more than 2 ×
            its ``usual`` weight, so that the head does not look there anyway; see ``PairLook.found``.
        half: share of the pairs whose weight is above one half.
        usual: ``PairLook.usual``.
        picked: float64, (n_layers,), mean probability that a word picked at random is the key.
        looks: each pair, in the order in which they were given.
    """

    weight: AverageOfFew
    found: AverageOfFew
    half: AverageOfFew
    usual: AverageOfFew
    picked: NDArray[np.float64]
    looks: tuple[PairLook, ...]

    @cached_property
    def best(self) -> BestHead | None:
        """The head with the largest ``weight`` of those with more than 2 × their ``usual`` one; None: there is none."""
        weight, n = self.weight.mean, len(self.looks)
        is_special = weight > TIMES_OTHERS * self.usual.mean
        if not is_special.any():
            return None
        row, column = map(int, np.unravel_index(np.argmax(np.where(is_special, weight, -1.0)), weight.shape))
        weights = np.array([look.weights for look in self.looks])  # pairs n_layers n_heads
        ahead = weights[:, row, column, None, None] - weights
        reach = student(n - 1) * ahead.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.inf
        may_be_equal = is_special & (ahead.mean(axis=0) <= reach)
        n_pairs = int(self.found.by_layer[row])
        n_found = round(float(self.found.mean[row, column]) * n_pairs)
        n_heads = int(np.isfinite(weight).sum())
        luck = n_heads * at_least(n_found, n_pairs, float(self.picked[row]))
        ties = ((int(i), int(j)) for i, j in np.argwhere(may_be_equal) if (i, j) != (row, column))
        return BestHead(row, column, n_found, n_pairs, luck >= 1 - LEVEL, tuple(ties))

    def missed(self, row: int, column: int) -> list[PairLook]:
        """Return the pairs whose key a head does not find, those with the least weight first."""
        missed = (look for look in self.looks if not look.found[row, column])
        return sorted(missed, key=lambda look: float(look.weights[row, column]))

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, the best head, and the pairs that it misses, for JSON."""
        best = self.best
        return {
            "kind": self.kind,
            "layers": self.layers,
            "numbers": self.numbers,
            "best": None if best is None else self._best_document(best),
            "pairs": [look.to_dict() for look in self.looks],
        }

    def _best_document(self, best: BestHead) -> dict[str, Any]:
        def name(row: int, column: int) -> str:
            return head_name(self.layers[row], column)

        numbers = {look: number for number, look in enumerate(self.looks)}
        return {
            "head": name(best.row, best.column),
            "found": best.n_found,
            "of": best.n_pairs,
            "by_luck": best.by_luck,
            "ties": [name(*tie) for tie in best.ties],
            "missed": [numbers[look] for look in self.missed(best.row, best.column)],
        }


@dataclass(frozen=True)
class HeadPairs(HeadTable):
    """Which heads link the words of pairs.

    Attributes:
        kinds: one for each kind of attention that sees both words.
        too_long: number of pairs left out because their texts have more tokens than the model can read.
    """

    source: Source
    kinds: tuple[PairsOfKind, ...]
    too_long: int = 0

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``. An index is of a word in ``words``, and ``missed`` has indices of ``pairs``."""
        return {
            "too_long": self.too_long,
            "bootstrap": BOOTSTRAP | {"least": LEAST_FOR_INTERVAL},
            "kinds": [kind.to_dict() for kind in self.kinds],
        }

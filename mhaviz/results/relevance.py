"""Relevance of the words of a text for a prediction, beside what removing a word does to it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Tokens
from mhaviz.results.result import RowsResult, ShortRepr, Source

Removal = Literal["top", "all", "none"]
"""Words that are removed: the five with the largest relevance, each, or none, as in a recorded program."""

MOST_REMOVED = 5
"""Number of words that are removed by default."""


@dataclass(frozen=True)
class Together:
    """What removing several words at once does: those with the largest relevance.

    Attributes:
        count: number of words.
        fall: y less y without them.
        without: what the model chooses without them; "": not known.
    """

    count: int
    fall: float
    without: str


@dataclass(frozen=True)
class Explained:
    """What is explained, a scalar y of a model's output.

    Attributes:
        kind: "token": its logit; "label": its logit; "score": an output that is no choice, as of a regression;
            "written": the mean logit of all tokens that a decoder has written; "function": what a function returns.
        choice: the token, the label, the written text, or the name of the function.
        is_top: whether the model's own top prediction was asked for, and not one that the user names.
    """

    kind: Literal["token", "label", "score", "written", "function"]
    choice: str
    is_top: bool = False

    def named(self, choice: str) -> str:
        """Return what y is, such as "the logit of “ Paris”"; ``choice``: the choice as it can be shown."""
        if self.kind == "written":
            return "the mean logit of what is written"
        if self.kind == "function":
            return choice
        if self.kind == "score":
            return f"the score {choice}"
        return f"the logit of {choice if self.kind == 'label' else f'“{choice}”'}"


@dataclass(frozen=True, eq=False)
class WordRelevance(ShortRepr):
    """Relevance of the words of a text.

    Attributes:
        words: the words. Where blanks do not tell words, as in Chinese, each token is one.
        relevance: float64, (n_words,), at least 0, in no unit: only its ratios mean something.
        aside: bool, (n_words,): words that were not given, such as special tokens or what the model has written.
        falls: float64, (n_words,), y less y without the word; NaN: the word was not removed.
        without: what the model chooses without the word, of each word; "": not known.
    """

    words: Tokens
    relevance: NDArray[np.float64]
    aside: NDArray[np.bool_]
    falls: NDArray[np.float64]
    without: tuple[str, ...]

    @property
    def shares(self) -> NDArray[np.float64]:
        """Share of each word in the relevance of the words that are not aside, (n_words,); of others NaN."""
        of_words = np.where(self.aside, 0.0, self.relevance)
        return np.where(self.aside, np.nan, of_words / (of_words.sum() or 1.0))

    @property
    def aside_share(self) -> float:
        """Share of what is aside in all relevance."""
        return float(self.relevance[self.aside].sum() / (self.relevance.sum() or 1.0))

    @property
    def ranked(self) -> list[int]:
        """Indices of the words that are not aside, by relevance, the largest first."""
        order = np.argsort(-self.relevance, kind="stable")
        return [int(j) for j in order if not self.aside[j]]

    @property
    def removed(self) -> list[int]:
        """Indices of the words that were removed, by relevance, the largest first."""
        return [j for j in self.ranked if not np.isnan(self.falls[j])]

    @property
    def agreement(self) -> float | None:
        """Spearman's rank correlation between relevance and fall, over the words that were removed; None: there are
        fewer than three."""
        return rank_correlation(self.relevance[self.removed], self.falls[self.removed])

    def to_dict(self) -> dict[str, Any]:
        """Return a list of words with their numbers."""
        numbers = zip(
            self.words.texts, self.words.ranges, self.relevance, self.aside, self.falls, self.without, strict=True
        )
        return {
            "words": [
                {"word": word, "tokens": tokens, "relevance": float(r), "aside": bool(aside), "fall": float(fall)}
                | {"without": without}
                for word, tokens, r, aside, fall, without in numbers
            ]
        }


@dataclass(frozen=True)
class Relevance(RowsResult):
    """What the words of a text have to do with a prediction: an estimate, and the effect of removing them.

    The estimate is attention × gradient (Chefer, Gur and Wolf 2021, arXiv 2103.15679): positive parts only, through
    the weights of attention only. It is no proof of cause.

    Attributes:
        source: the model.
        explained: what y is.
        y: value of y.
        chosen: what the model chooses, by the highest logit; "": there is no single choice.
        text: the words of the text, or of the source of an encoder with a decoder.
        written: the words that its decoder reads; None: it has none.
        removal: which words were removed.
        together: what removing the first of them at once does; None: not computed.
    """

    source: Source
    explained: Explained
    y: float
    chosen: str
    text: WordRelevance
    written: WordRelevance | None = None
    removal: Removal = "top"
    together: Together | None = None

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``."""
        about = {"explained": vars(self.explained), "y": self.y, "chosen": self.chosen}
        texts = {"text": self.text.to_dict()} | ({} if self.written is None else {"written": self.written.to_dict()})
        together = {} if self.together is None else {"together": vars(self.together)}
        return about | {"removal": self.removal, "agreement": self.text.agreement} | together | texts

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the words, those of the text first, as rows of a table; see ``RowsResult``."""
        for name, side in (("text", self.text), ("written", self.written)):
            for place, word in enumerate([] if side is None else side.to_dict()["words"]):
                yield {"side": name, "position": place, **word}


def rank_correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float | None:
    """Compute Spearman's rank correlation, with mean ranks of equal numbers; None: of fewer than three numbers, or if
    all numbers of a side are equal."""
    if len(x) < 3:
        return None
    ranks = [_ranks(numbers) for numbers in (x, y)]
    centred = [one - one.mean() for one in ranks]
    size = float(np.sqrt((centred[0] ** 2).sum() * (centred[1] ** 2).sum()))
    return float((centred[0] * centred[1]).sum()) / size if size else None


def _ranks(x: NDArray[np.float64]) -> NDArray[np.float64]:
    _, which, counts = np.unique(x, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: NDArray[np.float64] = ends - (counts - 1) / 2
    return means[which]

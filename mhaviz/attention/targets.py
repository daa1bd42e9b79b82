"""Targets: the scalar y of a model's output that is explained, such as the logit of a token or of a label."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from mhaviz.errors import ArgumentError, MhavizError, parameter, quoted
from mhaviz.inputs.tokens import Text, Tokens
from mhaviz.results.relevance import Explained

LABEL = "label="
"""Beginning of a target that is the label of a classifier."""

TOP = "top"
"""Target that is the model's own top prediction."""

_AT_POSITION = re.compile(r"(.+) #(\d{1,9})")

_LISTED = 12  # most choices that a message lists

Why = str | Callable[[Any], Tensor]
"""What is explained: a token, "label=NAME", "top", the model's own top prediction, or a function from the model's
output to a scalar."""

Places = Callable[[Text], Sequence[tuple[int, int]]]
"""Returns the elements of the logits, (rows, columns), whose mean is y for a text."""


@dataclass(frozen=True)
class Target:
    """A scalar y of a model's output.

    Attributes:
        explained: what it is.
        value: returns y for the model's output on a text, as a tensor with one element.
        row: returns the logits of all choices, (n_choices,), where y is one of them; None: it is not.
        name_of: returns the name of a choice.
    """

    explained: Explained
    value: Callable[[Any, Text], Tensor]
    row: Callable[[Any, Text], Tensor] | None = None
    name_of: Callable[[int], str] = str

    def score(self, output: Any, text: Text) -> "Score":
        """Return what comes of the target for the model's output on a text. Raises MhavizError if y is not finite."""
        row = None if self.row is None else self.row(output, text).detach()
        chosen = "" if row is None else self.name_of(int(row.argmax()))
        return Score(require_finite(float(self.value(output, text).detach())), chosen, row)


class Score(NamedTuple):
    """What comes of a target.

    Attributes:
        y: its value.
        chosen: name of the choice with the highest logit; "": there is no single choice.
        row: the logits of all choices, (n_choices,); None: as above.
    """

    y: float
    chosen: str
    row: Tensor | None


def target_of_function(function: Callable[[Any], Tensor]) -> Target:
    """Return the target of a function from the model's output to a scalar, under the function's name."""
    name = getattr(function, "__name__", "y")
    name = "y" if name == "<lambda>" else name

    def value(output: Any, text: Text) -> Tensor:
        y = function(output)
        if not isinstance(y, Tensor) or y.numel() != 1:
            got = f"a tensor of shape {tuple(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
            raise ArgumentError(f"expected a scalar from {quoted(name)}, got {got}; choose an element, or sum them")
        return y

    return Target(Explained("function", name), value)


def target_of_logits(
    explained: Explained,
    logits: Callable[[Any], Tensor],
    places: Places,
    name_of: Callable[[int], str] | None = None,
) -> Target:
    """Return the target of one logit, or of the mean of several.

    Args:
        explained: what it is.
        logits: returns the logits, (rows, columns), of an output.
        places: see ``Places``.
        name_of: returns the name of a column, where y is a single logit and the highest of its row is chosen.
    """

    def value(output: Any, text: Text) -> Tensor:
        rows, columns = zip(*places(text), strict=True)
        return logits(output)[list(rows), list(columns)].mean()

    def row(output: Any, text: Text) -> Tensor:
        ((place, _),) = places(text)
        return logits(output)[place]

    return Target(explained, value) if name_of is None else Target(explained, value, row, name_of)


def target_of_written(
    why: str,
    written: Tokens,
    logits: Callable[[Any], Tensor],
    first: Callable[[Text], int],
    name_of: Callable[[int], str],
) -> Target:
    """Return the target of all that a decoder has written, or of a token of it.

    Args:
        why: the token; "top": all.
        written: what it has written.
        logits, name_of: as of ``target_of_logits``.
        first: returns the row that predicts the first written token of a text.

    Raises:
        ArgumentError: as ``place_of_written``.
    """
    ids = written.ids
    if why == TOP:
        explained = Explained("written", "".join(written.texts), is_top=True)
        return target_of_logits(explained, logits, lambda text: [(first(text) + i, ids[i]) for i in range(len(ids))])
    place = place_of_written(why, written.texts)
    explained = Explained("token", written.texts[place])
    return target_of_logits(explained, logits, lambda text: [(first(text) + place, ids[place])], name_of)


def require_one_text(texts: Sequence[Text]) -> Text:
    """Return the one text. Raises ArgumentError if there are several."""
    if len(texts) != 1:
        raise ArgumentError(f"{parameter('why')} explains one prediction, got {len(texts)} texts; give one of them")
    return texts[0]


def label_of(why: str, labels: Sequence[str]) -> int:
    """Return the index of the label that a target names.

    Raises:
        ArgumentError: the target names no label; the classifier has no such label.
    """
    if not why.startswith(LABEL):
        raise ArgumentError(
            f"{parameter('why')}: expected {LABEL}NAME, as the model is a classifier, got {quoted(why)}; it has "
            f"{_listed(labels)}"
        )
    wanted = why.removeprefix(LABEL)
    alike = [i for i, label in enumerate(labels) if label == wanted]
    alike = alike or [i for i, label in enumerate(labels) if label.casefold() == wanted.casefold()]
    if len(alike) != 1:
        raise ArgumentError(f"{parameter('why')}: the model has no label {quoted(wanted)}; it has {_listed(labels)}")
    return alike[0]


def place_of_written(why: str, written: Sequence[str]) -> int:
    """Return the place of a token among those that a decoder has written: "noir", or "noir #3" at a position.

    Raises:
        ArgumentError: it is not among them, or more than once and named without its position.
    """
    named = _AT_POSITION.fullmatch(why)
    there = [i for i, label in enumerate(written) if label == why]
    there = there or [i for i, label in enumerate(written) if label.strip() == why.strip()]
    if not there and named and int(named[2]) < len(written) and written[int(named[2])].strip() == named[1].strip():
        there = [int(named[2])]
    if len(there) != 1:
        how_often = f"{len(there)} times" if there else "not"
        counts = Counter(label.strip() for label in written)
        listed = [f"{label} #{i}" if counts[label.strip()] > 1 else label for i, label in enumerate(written)]
        raise ArgumentError(
            f"{parameter('why')}: {quoted(why)} is {how_often} among the written tokens, {_listed(listed)}; name one "
            f"of these, or {TOP}, for all of them"
        )
    return there[0]


def require_finite(y: float) -> float:
    """Return y. Raises MhavizError if it is NaN or infinite."""
    if not math.isfinite(y):
        raise MhavizError(f"expected a finite y, got {y}; take another copy of the model, or another target")
    return y


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names[:_LISTED])) + f", … ({len(names)} in all)" * (len(names) > _LISTED)

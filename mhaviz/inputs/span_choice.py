"""Choice of the spans that maps show in place of tokens."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from mhaviz.errors import ArgumentError, counted, parameter, quoted
from mhaviz.inputs.named_spans import NamedSpan, find_spans, named_spans
from mhaviz.inputs.sentences import lines, roles, sentences, turns
from mhaviz.inputs.spans import SpansOf, words

SpanKind = Literal["word", "sentence", "line", "turn"]
"""Spans that are found in any text."""

By = SpanKind | Sequence[NamedSpan | Mapping[str, Any]] | Sequence[Sequence[NamedSpan | Mapping[str, Any]]]
"""Spans: a kind; a list of named ones, for one text or alike in all; or such a list for each text."""

_FINDERS: dict[str, SpansOf] = {"word": words, "sentence": sentences, "line": lines, "turn": turns, "role": roles}


@dataclass(frozen=True)
class SpanChoice:
    """Choice of spans.

    Attributes:
        kind: kind of the spans, or "span" where a user names them.
        named: named spans of each text, or of all texts alike; empty: spans of a kind.
    """

    kind: str
    named: tuple[tuple[NamedSpan, ...], ...] = ()

    @classmethod
    def of(cls, by: "By | SpanChoice") -> "SpanChoice":
        """Return the choice for an argument ``by``. Raises ArgumentError if it is none."""
        if isinstance(by, SpanChoice):
            return by
        if isinstance(by, str):
            if by not in get_args(SpanKind):
                kinds = ", ".join(get_args(SpanKind))
                raise ArgumentError(
                    f"{parameter('by')}: expected {kinds}, or a list of named spans (on the command line, a JSON file "
                    f"of it), got {quoted(by)}"
                )
            return cls(by)
        given: Any = list(by) if isinstance(by, Iterable) and not isinstance(by, Mapping) else by
        are_of_texts = isinstance(given, list) and given and all(isinstance(part, list | tuple) for part in given)
        return cls("span", tuple(map(named_spans, given if are_of_texts else [given])))

    @property
    def are_words(self) -> bool:
        """Whether the spans are words, which are shown as tokens are; others are shown beside uniform attention."""
        return self.kind == "word"

    def of_text(self, sentence: int | None) -> SpansOf:
        """Return what finds the spans of a text; ``sentence``: its number, None: it is the only one.

        Raises:
            ArgumentError: spans are named for other texts.
        """
        if not self.named:
            return _FINDERS[self.kind]
        number = 0 if len(self.named) == 1 else sentence or 0
        if number >= len(self.named) or (sentence is None and len(self.named) > 1):
            texts = "one text" if sentence is None else f"text {sentence}"
            raise ArgumentError(
                f"{parameter('by')}: expected spans of {texts}, got lists for {counted(len(self.named), 'text')}"
            )
        return partial(find_spans, self.named[number])


ROLES = SpanChoice("role")
"""The messages of a chat, those of one role together, which are alike in many chats."""

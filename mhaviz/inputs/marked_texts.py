"""Texts with spans in them: chats, whose messages are spans, and texts with spans that a user names."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mhaviz.errors import ArgumentError, begun_by
from mhaviz.inputs.given import Given, require_messages
from mhaviz.inputs.named_spans import NamedSpan, in_json, named_spans
from mhaviz.inputs.span_choice import ROLES, SpanChoice

EXAMPLE = (
    '[{"role": "user", "content": "Hello"}, …], or {"text": "Hello. Goodbye.", "spans": [{"name": "greeting", "text": '
    '"Hello"}, …]}'
)


@dataclass(frozen=True)
class MarkedText:
    """A text with spans.

    Attributes:
        given: the text, or a chat.
        spans: its named spans; empty: the messages of the chat, those of one role together.
        where: where it is given, which begins errors: "chats.jsonl, line 3".
    """

    given: Given
    spans: tuple[NamedSpan, ...] = ()
    where: str = ""

    @property
    def choice(self) -> SpanChoice:
        """What finds its spans."""
        return SpanChoice("span", (self.spans,)) if self.spans else ROLES

    @classmethod
    def of(cls, given: Any, where: str) -> "MarkedText":
        """Return a text for the messages of a chat, or for a mapping with these as "messages", or with "text" and
        "spans". Raises ArgumentError if it is none of them."""
        if isinstance(given, MarkedText):
            return given
        if isinstance(given, Mapping) and "spans" in given:
            text = given.get("text")
            with begun_by(where):
                spans = named_spans(given["spans"])
            if not (isinstance(text, str) and text.strip()):
                got = "an empty one" if text == "" else in_json(text) if "text" in given else "none"
                raise ArgumentError(f"{where}: text: expected a text, got {got}")
            return cls(Given((text,)), spans, where)
        messages = given.get("messages") if isinstance(given, Mapping) else given
        if not isinstance(messages, Sequence) or isinstance(messages, str):
            raise ArgumentError(f"{where}: expected {EXAMPLE}, got {in_json(given)}")
        return cls(Given(chat=require_messages(messages, f"{where}: ")), (), where)


def marked_texts(given: Any, of: str) -> list[MarkedText]:
    """Return texts, each given as ``MarkedText.of`` has it; ``of``: what they are of, which begins errors.

    Raises:
        ArgumentError: there is none; as ``MarkedText.of``.
    """
    if not isinstance(given, Iterable) or isinstance(given, (str, Mapping)):
        raise ArgumentError(f"{of}: expected texts, such as {EXAMPLE}, got {in_json(given)}")
    texts = [MarkedText.of(text, f"{of}, text {number}") for number, text in enumerate(given, 1)]
    if not texts:
        raise ArgumentError(f"{of}: expected at least one text, such as {EXAMPLE}, got none")
    return texts

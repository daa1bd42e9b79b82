"""What a user gives a model to read: sentences, a pair, a chat, or tokens by their numbers."""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import msgspec

from mhaviz.errors import ArgumentError, parameter, quoted

Message = Mapping[str, Any]
"""Of a chat: its ``role``, its ``content``, and what else a model's template reads of it."""


class _Message(TypedDict):
    role: str
    content: str


_Messages = Annotated[list[_Message], msgspec.Meta(min_length=1)]

_TEXTS = ("sentences", "target", "generate")
"""The others are for models that have a tokenizer of their own."""


class GivenOptions(TypedDict, total=False):
    """What may be given beside sentences and a target, or in their place; see ``Given``."""

    pair: str | None
    chat: Sequence[Message] | None
    ids: Sequence[int] | Sequence[Sequence[int]] | None
    source_language: str | None
    target_language: str | None
    generate: int


@dataclass(frozen=True)
class Given:
    """What a model is to read: sentences, or in their place a chat or ids.

    Attributes:
        sentences: any number of them.
        target: of an encoder with a decoder: what its decoder should make. Of a single layer: the queries.
        pair: a second text after the one sentence, as a model that compares two texts reads them: by the pair template
            of its tokenizer, with token types if the model has them.
        chat: messages, each with a ``role`` and a ``content``, which the checkpoint's chat template makes one text of.
        ids: the numbers of the tokens of each sequence; no other token is added.
        source_language, target_language: codes of a model of many languages, such as "eng_Latn" and "fra_Latn".
        generate: so many tokens a decoder goes on writing after them, greedily.

    Raises:
        ArgumentError: what does not go together, or is none of this.
    """

    sentences: tuple[str, ...] = ()
    target: str | None = None
    pair: str | None = None
    chat: tuple[Message, ...] | None = None
    ids: tuple[tuple[int, ...], ...] | None = None
    source_language: str | None = None
    target_language: str | None = None
    generate: int = 0

    def __post_init__(self) -> None:
        instead = self.instead
        if len(instead) > 1:
            raise ArgumentError(f"{' and '.join(map(parameter, instead))} are two inputs; leave out one")
        if instead and self.sentences:
            raise ArgumentError(f"{parameter(instead[0])} takes the place of a sentence; leave out one of them")
        if instead and self.pair is not None:
            raise ArgumentError(f"{parameter('pair')} goes with a sentence, got {parameter(instead[0])}; leave out one")
        if self.pair is not None and len(self.sentences) != 1:
            raise ArgumentError(f"{parameter('pair')} goes with one sentence, got {len(self.sentences)}")
        if self.pair is not None and not self.pair.strip():
            raise ArgumentError(f"{parameter('pair')}: expected a text, got an empty one")
        if self.target is not None and self.ids is not None and len(self.ids) > 1:
            raise ArgumentError(f"a target goes with one sequence of ids, got {len(self.ids)}; give one of them")

    @classmethod
    def of(
        cls, texts: "str | Sequence[str] | Given", target: str | None = None, options: GivenOptions | None = None
    ) -> "Given":
        """Of what a method of a loaded model has been called with: texts, or all of it already.

        Raises:
            ArgumentError: messages or ids that are none; as the class does.
        """
        asked: dict[str, Any] = dict(options or {})
        if isinstance(texts, Given):
            if target is not None or any(value is not None for value in asked.values()):
                raise ArgumentError("what is given is whole; leave out what stands beside it")
            return texts
        if asked.get("chat") is not None:
            asked["chat"] = require_messages(asked["chat"], f"{parameter('chat')}: ")
        if asked.get("ids") is not None:
            asked["ids"] = _sequences(asked["ids"])
        return cls(tuple(require_texts(texts)), target, **asked)

    @property
    def instead(self) -> tuple[str, ...]:
        """What is given in the place of sentences."""
        return tuple(name for name in ("chat", "ids") if getattr(self, name) is not None)

    @property
    def others(self) -> tuple[str, ...]:
        """What is given beside sentences and a target, or in their place."""
        return tuple(name for name, value in vars(self).items() if name not in _TEXTS and value is not None)


def require_texts(texts: Any) -> Iterator[str]:
    """One text, or several, one by one. Raises ArgumentError when it comes to what is none."""
    if not isinstance(texts, Iterable):
        raise ArgumentError(f"expected a text, or several in a list, got {quoted(texts)}")
    for text in [texts] if isinstance(texts, str) else texts:
        if not isinstance(text, str):
            raise ArgumentError(f"expected a text, or several in a list, got {quoted(text)} among them")
        yield text


def require_messages(chat: Any, of: str = "") -> tuple[Message, ...]:
    """The messages of a chat. ``of``: what an error begins with.

    Raises ArgumentError if it is none: messages with a role and a content that are texts.
    """
    try:
        messages = tuple(chat)
        msgspec.convert(list(messages), _Messages)
    except (TypeError, msgspec.ValidationError) as error:
        expected = 'a list of messages such as {"role": "user", "content": "Hello"}'
        raise ArgumentError(f"{of}expected {expected}: {error}") from None
    return messages


def _sequences(ids: object) -> tuple[tuple[int, ...], ...]:
    """Of one sequence, or of several."""
    try:
        parts: list[Any] = list(ids)  # type: ignore[call-overload]
        nested = [part for part in parts if isinstance(part, Sequence) or getattr(part, "ndim", None)]
        sequences = tuple(tuple(map(operator.index, part)) for part in (parts if nested else [parts]))
    except TypeError:
        raise ArgumentError(
            f"{parameter('ids')}: expected whole numbers, or several lists of them, got {quoted(ids)}"
        ) from None
    for sequence in sequences:
        if not sequence:
            raise ArgumentError(f"{parameter('ids')}: expected at least one token, got none")
        if min(sequence) < 0:
            raise ArgumentError(f"{parameter('ids')}: expected numbers from 0 on, got {quoted(min(sequence))}")
    return sequences

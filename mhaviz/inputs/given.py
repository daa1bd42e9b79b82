"""Inputs that a user gives to a model: sentences, a pair of texts, a chat, or ids of tokens."""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypedDict

import msgspec

from mhaviz.errors import ArgumentError, parameter, quoted

Message = Mapping[str, Any]
"""Message of a chat, with its ``role``, its ``content``, and any other fields that the chat template reads."""


class _Message(TypedDict):
    role: str
    content: str


_Messages = Annotated[list[_Message], msgspec.Meta(min_length=1)]

_TEXTS = ("sentences", "target", "generate")
"""Fields of ``Given`` for all models. The others are only for models with a tokenizer."""


class GivenOptions(TypedDict, total=False):
    """Optional inputs in addition to sentences and a target, or instead of them; see ``Given``."""

    pair: str | None
    chat: Sequence[Message] | None
    ids: Sequence[int] | Sequence[Sequence[int]] | None
    source_language: str | None
    target_language: str | None
    generate: int
    image: Any


@dataclass(frozen=True)
class Given:
    """Inputs for a model: sentences, or instead of them a chat or ids.

    Attributes:
        sentences: any number of sentences.
        target: target of the decoder, for an encoder with a decoder; for a single layer, the text of the queries.
        pair: second text after the one sentence, for models that compare two texts. The tokenizer's pair template joins
            them, with token types if the model has them.
        chat: messages, each with a ``role`` and a ``content``, which the tokenizer's chat template joins to one text.
        ids: ids of the tokens of each sequence; no other token is added.
        source_language, target_language: language codes of a multilingual model, such as "eng_Latn" and "fra_Latn".
        generate: number of tokens that a decoder generates after the input, greedily.
        image: images, each a path, a PIL image, or a uint8 array, for models with an image processor.

    Raises:
        ArgumentError: inputs that exclude each other; an empty pair; a pair or a target for several texts.
    """

    sentences: tuple[str, ...] = ()
    target: str | None = None
    pair: str | None = None
    chat: tuple[Message, ...] | None = None
    ids: tuple[tuple[int, ...], ...] | None = None
    source_language: str | None = None
    target_language: str | None = None
    generate: int = 0
    image: tuple[Any, ...] | None = None

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
        """Return the inputs for the arguments of a loaded model's method; ``texts`` may already be all of them.

        Raises:
            ArgumentError: invalid messages or ids; as the class.
        """
        asked: dict[str, Any] = dict(options or {})
        if isinstance(texts, Given):
            if target is not None or any(value is not None for value in asked.values()):
                raise ArgumentError("expected only a Given, got other inputs beside it; leave them out")
            return texts
        if asked.get("chat") is not None:
            asked["chat"] = require_messages(asked["chat"], f"{parameter('chat')}: ")
        if asked.get("ids") is not None:
            asked["ids"] = _sequences(asked["ids"])
        if asked.get("image") is not None:
            asked["image"] = tuple(asked["image"]) if isinstance(asked["image"], list | tuple) else (asked["image"],)
        return cls(tuple(require_texts(texts)), target, **asked)

    def without_role(self, role: str) -> "Given":
        """Return the inputs without a chat's messages of a role.

        Raises:
            ArgumentError: there is no chat, no such message, or no other.
        """
        if self.chat is None:
            raise ArgumentError("expected a chat to leave messages out of, got none")
        kept = tuple(message for message in self.chat if message["role"] != role)
        if len(kept) in (0, len(self.chat)):
            roles = ", ".join(dict.fromkeys(quoted(message["role"]) for message in self.chat))
            raise ArgumentError(f"expected a role of some messages, not all, got {quoted(role)}; there are {roles}")
        return replace(self, chat=kept)

    @property
    def instead(self) -> tuple[str, ...]:
        """Names of the inputs that are given instead of sentences."""
        return tuple(name for name in ("chat", "ids") if getattr(self, name) is not None)

    @property
    def others(self) -> tuple[str, ...]:
        """Names of the inputs that are given in addition to sentences and a target, or instead of them."""
        return tuple(name for name, value in vars(self).items() if name not in _TEXTS and value is not None)


def require_texts(texts: Any) -> Iterator[str]:
    """Yield one text, or several. Raises ArgumentError at the first item that is no text."""
    if not isinstance(texts, Iterable):
        raise ArgumentError(f"expected a text, or several in a list, got {quoted(texts)}")
    for text in [texts] if isinstance(texts, str) else texts:
        if not isinstance(text, str):
            raise ArgumentError(f"expected a text, or several in a list, got {quoted(text)} among them")
        yield text


def require_messages(chat: Any, of: str = "") -> tuple[Message, ...]:
    """Return the messages of a chat. Raises ArgumentError unless each has a role and a content that are texts.

    ``of``: beginning of an error's message.
    """
    try:
        messages = tuple(chat)
        msgspec.convert(list(messages), _Messages)
    except (TypeError, UnicodeError, msgspec.ValidationError) as error:  # a name may hold a lone surrogate
        expected = 'a list of messages such as {"role": "user", "content": "Hello"}'
        raise ArgumentError(f"{of}expected {expected}: {error}") from None
    return messages


def _sequences(ids: object) -> tuple[tuple[int, ...], ...]:
    """Return ids of one sequence, or of several, as tuples. Raises ArgumentError if they are no ids."""
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

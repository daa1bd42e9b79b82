"""Texts in segments as a model reads them: the messages of a chat, and pairs, joined by the tokenizer's template.

Templates of chats are Jinja; transformers runs them in a sandbox.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from mhaviz.errors import ArgumentError, MhavizError, as_one_line, parameter
from mhaviz.inputs.given import Message
from mhaviz.inputs.tokens import PAIR, Segment, Text, Tokens
from mhaviz.models.transformers.read import (
    asks_the_tokenizer,
    encodable,
    name_tokens,
    named,
    no_token,
    pieces_shown,
    special_of,
)

_ANSWERS = "assistant"
"""The role of the model in what it reads, whatever its template calls it."""

_PROMPT = "generation prompt"
"""What a template puts where the model is to begin its answer."""

_MOST_SEGMENTS = 64  # messages; to find each the template is run once more


@asks_the_tokenizer
def read_chat(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], name: str, answers: bool = False
) -> Text:
    """The tokens of a chat, and those of each message, with what the template puts around it.

    Args:
        tokenizer: of the model.
        messages: each with a role and a content.
        name: of the model, for errors.
        answers: whether the model will write on: then a generation prompt ends the text, or, where the last message is
            the assistant's own, the text ends with it, unfinished.

    Raises:
        ArgumentError: its chat template makes no token of these messages.
        MhavizError: it has none, or one that refuses the messages, or cannot be run.
    """
    continues = answers and messages[-1]["role"] == _ANSWERS
    ends = {"continue_final_message": True} if continues else {"add_generation_prompt": answers}
    text = _rendered(tokenizer, messages, name, **ends)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=tokenizer.is_fast)
    ids: list[int] = encoded["input_ids"]
    if not ids:
        raise ArgumentError(f"{parameter('chat')}: the chat template of {name} makes no token of these messages")
    special = special_of(tokenizer, ids)  # which the template has written as text
    if not tokenizer.is_fast:
        return Text(name_tokens(tokenizer, ids, special))
    offsets: list[tuple[int, int]] = encoded["offset_mapping"]
    labels = pieces_shown(tokenizer, text, ids, offsets, special)
    tokens = Tokens(tuple(labels), special, tuple(ids))
    return Text(tokens, segments=_segments(tokenizer, messages, name, text, [start for start, _ in offsets]))


def _rendered(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], name: str, **ends: Any) -> str:
    with as_one_line(f"the chat template of {name} refuses these messages", "see which roles it expects, and in order"):
        rendered = tokenizer.apply_chat_template([dict(message) for message in messages], tokenize=False, **ends)
    return encodable(tokenizer, str(rendered))


def _segments(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], name: str, text: str, starts: Sequence[int]
) -> tuple[Segment, ...]:
    """What is of each message, found by the text of the messages up to it.

    Messages whose end is not found so, as a template says something else of a shorter chat, are one with the next.
    ``starts``: where in the text each token begins.
    """
    if len(messages) > _MOST_SEGMENTS:
        return ()
    found: list[Segment] = []
    roles: list[str] = []
    reached = 0
    for number, message in enumerate(messages, start=1):
        roles.append(str(message["role"]))
        try:
            before = _rendered(tokenizer, messages[:number], name)
        except MhavizError:  # a system's message alone
            continue
        if number == len(messages) and before.startswith(text):  # which the model is to continue
            before = text
        end = bisect_left(starts, len(before))
        if text.startswith(before) and end > reached:
            found.append(Segment(" + ".join(roles), reached, end))
            roles, reached = [], end
    if reached < len(starts):
        found.append(Segment(" + ".join(roles) or _PROMPT, reached, len(starts)))
    return tuple(found)


@asks_the_tokenizer
def read_pair(tokenizer: PreTrainedTokenizerBase, first: str, second: str, name: str) -> Text:
    """Two texts, with the special tokens around and between them, and the type of each token.

    The types are those that the tokenizer gives by itself; none if they are all 0, as without them.

    Args:
        tokenizer: of the model.
        first, second: the texts.
        name: of the model, for errors.

    Raises:
        ArgumentError: a text without tokens; a tokenizer that does not tell where the second begins, or puts no token
            between the two.
    """
    texts = encodable(tokenizer, first), encodable(tokenizer, second)
    if not tokenizer.is_fast:
        raise ArgumentError(f"{parameter('pair')}: the tokenizer of {name} does not tell where the second text begins")
    encoded = tokenizer(*texts, return_offsets_mapping=True)
    ids: list[int] = encoded["input_ids"]
    sides = encoded.sequence_ids(0)
    places = [[i for i, side in enumerate(sides) if side == number] for number in (0, 1)]
    for text, place in zip(texts, places, strict=True):
        if not place:
            raise no_token(text)
    runs = [(place[0], place[-1] + 1) for place in places]
    if runs[1][0] <= runs[0][1]:
        raise ArgumentError(
            f"{parameter('pair')}: the tokenizer of {name} has no template for pairs, and puts no token between two "
            f"texts; give one text"
        )
    special = tuple(i for i, side in enumerate(sides) if side is None)
    labels = [label for number in ids for label in named(tokenizer, [number])]
    offsets: list[tuple[int, int]] = encoded["offset_mapping"]
    for text, (start, end) in zip(texts, runs, strict=True):
        labels[start:end] = pieces_shown(tokenizer, text, ids[start:end], offsets[start:end], ())
    types: Sequence[int] = encoded.get("token_type_ids") or ()
    segments = tuple(Segment(called, *run) for called, run in zip(PAIR, runs, strict=True))
    return Text(Tokens(tuple(labels), special, tuple(ids)), types=tuple(types) if any(types) else (), segments=segments)

"""Reading of chats and pairs of texts, which the tokenizer's templates join to one text with segments.

Chat templates are programs in Jinja. transformers runs them in a sandbox, which limits what they reach, but neither how
long they run nor how much they write.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from transformers import PreTrainedTokenizerBase

from mhaviz.errors import ArgumentError, MhavizError, as_one_line, counted, parameter
from mhaviz.inputs.given import Message
from mhaviz.inputs.passage import Passage
from mhaviz.inputs.tokens import PAIR, Segment, Text, Tokens
from mhaviz.models.transformers.confinement import confined
from mhaviz.models.transformers.read import (
    asks_the_tokenizer,
    encodable,
    name_tokens,
    named,
    no_token,
    pieces_shown,
    special_of,
    with_words,
    without_surrogates,
)

_ANSWERS = "assistant"
"""Role of the model's own messages."""

_PROMPT = "generation prompt"
"""Name of the segment that a template adds for the model to begin its answer."""

_PLACEHOLDER = "mhaviz{}placeholder"
"""Word in the place of a message."""

_ANY_PLACEHOLDER = re.compile(_PLACEHOLDER.format("[0-9]+"))

_MOST_SEGMENTS = 64  # most messages whose segments are found, as the template is run again for each

_MOST_ADDED, _MOST_GROWTH = 2**16, 16
"""Most characters that a template may make of nothing, and of each one of the messages."""


@asks_the_tokenizer
def read_chat(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], name: str, answers: bool = False
) -> Text:
    """Return the tokens of a chat, with a segment for each message and what the template adds to it.

    Args:
        tokenizer: tokenizer of the model.
        messages: messages, each with a role and a content.
        name: name of the model, for errors.
        answers: whether the model will generate text. Then the text ends with a generation prompt or, if the last
            message is the assistant's, with this message, left open.

    Raises:
        ArgumentError: the text of the chat has no tokens.
        MhavizError: the tokenizer has no chat template, or the template rejects the messages, fails, takes too long or
            makes too long a text.
    """
    continues = answers and messages[-1]["role"] == _ANSWERS
    ending = {"continue_final_message": True} if continues else {"add_generation_prompt": answers}
    advice = "give fewer or shorter messages, or take another copy of its files"
    what = f"the chat template of {name}"
    text, ends, around = confined(lambda: _rendered(tokenizer, messages, name, ending), what, advice)
    text = encodable(tokenizer, text)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=tokenizer.is_fast)
    ids: list[int] = encoded["input_ids"]
    if not ids:
        raise ArgumentError(f"{parameter('chat')}: the chat template of {name} gives no token for these messages")
    special = special_of(tokenizer, ids)  # special tokens that the template wrote as text
    if not tokenizer.is_fast:
        return Text(name_tokens(tokenizer, ids, special))
    offsets: list[tuple[int, int]] = encoded["offset_mapping"]
    labels = pieces_shown(tokenizer, text, ids, offsets, special)
    passage = Passage.given(text, offsets)
    turns = _turns(messages, text, around, passage)
    tokens = with_words(Tokens(tuple(labels), special, tuple(ids), turns=turns, passage=passage), encoded)
    return Text(tokens, segments=_segments(messages, ends, [start for start, _ in offsets]))


def _rendered(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], name: str, ending: Mapping[str, Any]
) -> tuple[str, list[int | None], list[str]]:
    """Return the text of a chat, for each message where the text of the chat up to it ends, and what the template adds
    around the messages; empty if it does not write each of them once.

    Where the shorter chat is not the beginning of the text, or the template rejects it, such as a system message alone,
    the end is None. No end is given for more than 64 messages, as the template is run again for each.
    """
    text = _text(tokenizer, messages, name, **ending)
    ends: list[int | None] = []
    for number in range(1, len(messages) + 1) if len(messages) <= _MOST_SEGMENTS else ():
        try:
            before = _text(tokenizer, messages[:number], name)
        except MhavizError:
            before = ""
        if number == len(messages) and before.startswith(text):  # the last message is left open
            before = text
        ends.append(len(before) if before and text.startswith(before) else None)
    return text, ends, _around(tokenizer, messages, name, ending)


def _around(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], name: str, ending: Mapping[str, Any]
) -> list[str]:
    """Return what the template writes before, between and after the messages, by running it on words in their place;
    empty if it does not write each of them once, in order."""
    words = [_PLACEHOLDER.format(number) for number in range(len(messages))]
    replaced = [{**message, "content": word} for message, word in zip(messages, words, strict=True)]
    try:
        text = _text(tokenizer, replaced, name, **ending)
    except MhavizError:
        return []
    return _ANY_PLACEHOLDER.split(text) if _ANY_PLACEHOLDER.findall(text) == words else []


def _turns(messages: Sequence[Message], text: str, around: Sequence[str], passage: Passage) -> tuple[Segment, ...]:
    """Return the tokens of each message without what the template writes around it. A message that the template has
    changed, but for blanks at its ends, has no tokens; nor has any after it, as it is not known where they are."""
    turns, reached, is_known = list[Segment](), 0, bool(around)
    for number, message in enumerate(messages):
        content = without_surrogates(str(message["content"]))
        reached += len(around[number]) if is_known else 0
        forms = content, content.strip()
        written = next((form for form in forms if _stands(text, around, number, reached, form)), None)
        is_known = is_known and written is not None
        places = passage.tokens_in(reached, reached + len(written)) if written is not None and is_known else []
        turns.append(Segment(str(message["role"]), *((places[0], places[-1] + 1) if places else (0, 0))))
        reached += len(written or "")
    return tuple(turns)


def _stands(text: str, around: Sequence[str], number: int, start: int, content: str) -> bool:
    """Return whether a message stands in a text, with what the template writes around it."""
    if not around:
        return False
    before, after = around[number], around[number + 1]
    return text.startswith(before + content + after, start - len(before))


def _text(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], name: str, **ending: Any) -> str:
    with _of_template(tokenizer, name):
        rendered = tokenizer.apply_chat_template([dict(message) for message in messages], tokenize=False, **ending)
    text = without_surrogates(str(rendered))
    if len(text) > _MOST_ADDED + _MOST_GROWTH * sum(len(str(message)) for message in messages):
        made = f"{len(text):,} characters of {counted(len(messages), 'message')}"
        raise MhavizError(f"the chat template of {name} makes {made}; take another copy of its files")
    return text


@contextmanager
def _of_template(tokenizer: PreTrainedTokenizerBase, name: str) -> Iterator[None]:
    """Convert any error of a chat template inside this block to a MhavizError, also that there is no template."""
    try:
        with as_one_line(f"the chat template of {name} refuses these messages", "see which roles it expects, in order"):
            yield
    except MhavizError as error:
        if getattr(tokenizer, "chat_template", None) is None:
            raise MhavizError(f"{name} has no chat template; take a model that is made for chats") from error
        raise


def _segments(messages: Sequence[Message], ends: Sequence[int | None], starts: Sequence[int]) -> tuple[Segment, ...]:
    """Return the segment of each message. A message whose end is None shares a segment with the next one.

    Args:
        messages: the messages.
        ends: end of each message in the text.
        starts: start of each token in the text.
    """
    if not ends:
        return ()
    found: list[Segment] = []
    roles: list[str] = []
    reached = 0
    for message, place in zip(messages, ends, strict=True):
        roles.append(str(message["role"]))
        end = reached if place is None else bisect_left(starts, place)
        if end > reached:
            found.append(Segment(" + ".join(roles), reached, end))
            roles, reached = [], end
    if reached < len(starts):
        found.append(Segment(" + ".join(roles) or _PROMPT, reached, len(starts)))
    return tuple(found)


@asks_the_tokenizer
def read_pair(tokenizer: PreTrainedTokenizerBase, first: str, second: str, name: str) -> Text:
    """Return the tokens of two texts, with special tokens around and between them, and the type of each token.

    The types are those of the tokenizer; empty if they are all 0.

    Args:
        tokenizer: tokenizer of the model.
        first, second: the texts.
        name: name of the model, for errors.

    Raises:
        ArgumentError: a text without tokens; a tokenizer that does not report where the second text begins, or puts no
            token between the two.
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
    own = special_of(tokenizer, ids)  # that stand in the texts, and most of those around them
    special = tuple(i for i, side in enumerate(sides) if side is None or i in own)
    labels = [label for number in ids for label in named(tokenizer, [number])]
    offsets: list[tuple[int, int]] = encoded["offset_mapping"]
    for text, (start, end) in zip(texts, runs, strict=True):
        inside = [i - start for i in own if start <= i < end]
        labels[start:end] = pieces_shown(tokenizer, text, ids[start:end], offsets[start:end], inside)
    types: Sequence[int] = encoded.get("token_type_ids") or ()
    segments = tuple(Segment(called, *run) for called, run in zip(PAIR, runs, strict=True))
    passage = _passage_of_pair(texts, runs, offsets)
    tokens = with_words(Tokens(tuple(labels), special, tuple(ids), turns=segments, passage=passage), encoded)
    return Text(tokens, types=tuple(types) if any(types) else (), segments=segments)


def _passage_of_pair(
    texts: tuple[str, str], runs: Sequence[tuple[int, int]], offsets: Sequence[tuple[int, int]]
) -> Passage:
    """Return two texts, the second on a line after the first, with the places of the tokens in them."""
    moved = len(texts[0]) + 1
    (_, first_end), (second_start, second_end) = runs
    placed = [
        (start + moved, end + moved) if second_start <= i < second_end else (start, end) if i < first_end else (0, 0)
        for i, (start, end) in enumerate(offsets)
    ]
    return Passage.given("\n".join(texts), placed)

"""Two texts as a model that compares them reads them: joined by the pair template of its tokenizer."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from mhaviz.errors import ArgumentError, parameter
from mhaviz.inputs.tokens import PAIR, Segment, Text, Tokens
from mhaviz.models.transformers.read import asks_the_tokenizer, encodable, named, no_token, pieces_shown


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

"""Study of spans over many texts, such as the turns of chats."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from mhaviz.analyses.head_spans import SpanStudy
from mhaviz.attention.model import CorpusModel, Inputs
from mhaviz.errors import TooLongError, begun_by, counted
from mhaviz.files.errors import name_of
from mhaviz.files.json_lines import of_a_file, read_objects
from mhaviz.inputs.given import Message
from mhaviz.inputs.marked_texts import EXAMPLE, MarkedText, marked_texts
from mhaviz.models.load import Notice
from mhaviz.results.head_spans import HeadSpans

MarkedTexts = str | Path | Iterable[MarkedText | Sequence[Message] | Mapping[str, Any]]
"""A file of texts with spans, or the texts: the messages of a chat, or a mapping with "text" and "spans"."""


def spans_of(
    model: CorpusModel,
    given: MarkedTexts,
    query: str | None,
    on_notice: Notice,
    on_progress: Callable[[float, int], None],
) -> HeadSpans:
    """Run ``LoadedModel.head_spans`` for all attentions to which ``model`` is restricted."""
    texts = _read(Path(given)) if isinstance(given, (str, Path)) else marked_texts(given, "`texts`")
    study, too_long = SpanStudy(query), 0
    with of_a_file() if isinstance(given, (str, Path)) else nullcontext():
        for number, text in enumerate(texts, 1):
            try:
                with begun_by(text.where):
                    inputs = model.read(text.given)
                    _require_length(model, inputs)
                    study.add(model, inputs, text.choice)
            except TooLongError:
                too_long += 1
            on_progress(number / len(texts), number)
    found = study.result(model.describe(), too_long)
    for n, why in ((too_long, "longer than the model can read"), (study.without, f"without a span “{study.query}”")):
        if n:
            on_notice(f"{counted(n, 'text')} of {len(texts):,} left out: {why}")
    return found


def _require_length(model: CorpusModel, inputs: Inputs) -> None:
    """Raise TooLongError if a text is longer than the model is made for, also where it has positions for it."""
    if model.max_length is not None and inputs.longest > model.max_length:
        raise TooLongError(f"expected at most {model.max_length:,} tokens, got {inputs.longest:,}")


def _read(path: Path) -> list[MarkedText]:
    """Read texts from a file, which may be one chat. Raises MhavizError if it cannot be read, or has others."""
    found = read_objects(path, "text", EXAMPLE)
    if all(isinstance(value, dict) and "role" in value for value, _ in found):
        found = [([message for message, _ in found], name_of(path))]
    with of_a_file():
        return [MarkedText.of(value, where) for value, where in found]

"""Predictions of a model of transformers that are explained: their targets, and their gradients at its attentions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from mhaviz.attention.model import GradedRun
from mhaviz.attention.targets import (
    LABEL,
    TOP,
    Score,
    Target,
    Why,
    label_of,
    target_of_function,
    target_of_logits,
    target_of_written,
)
from mhaviz.errors import ArgumentError, MhavizError, parameter, quoted
from mhaviz.inputs.tokens import Text
from mhaviz.models.graded_run import graded_run, hold_site
from mhaviz.models.transformers.load import Loaded
from mhaviz.models.transformers.read import id_of, name_tokens, plain_ids
from mhaviz.models.transformers.run import Hook, run, run_hooked
from mhaviz.models.transformers.sites import few_tokens
from mhaviz.models.transformers.texts import Texts
from mhaviz.observe.gradients import gradients_beside_attention
from mhaviz.observe.observed import ObservedCall
from mhaviz.results.relevance import Explained

_LENGTHS = (4, 3)
"""Numbers of tokens of an encoder and of a decoder on which it is tested whether tokens mix outside of attention."""


def target_of(texts: Texts, why: Why, text: Text, is_masked: bool) -> Target:
    """Return the target of a model; see ``Model.target``.

    Args:
        texts: the model with its reader.
        why, text: see ``Model.target``.
        is_masked: whether all attention is masked self-attention, so that the last token predicts the next one.
    """
    if callable(why):
        return target_of_function(why)
    loaded = texts.loaded
    if loaded.is_classifier:
        return _target_of_label(loaded, why, lambda: _output(texts, text))
    if why.startswith(LABEL):
        raise ArgumentError(
            f"{parameter('why')}: {LABEL}NAME is for a classifier, got {loaded.name} ({type(loaded.model).__name__}); "
            f"name a token, or top"
        )
    if loaded.is_top_random or loaded.model.get_output_embeddings() is None:  # type: ignore[no-untyped-call]
        raise ArgumentError(
            f"{parameter('why')}: {loaded.name} ({type(loaded.model).__name__}) has no head that predicts a token or a "
            f"label; give a function of its output in Python, or another model"
        )
    if loaded.has_encoder or text.prompt:
        written = text.produced if loaded.has_encoder else text.source[text.prompt :]
        assert written is not None
        return target_of_written(why, written, _logits, lambda text: _first_row(loaded, text), _token_name(loaded))
    if is_masked:
        return _target_of_token(texts, why, text, lambda text: len(text.source) - 1)
    mask = id_of(loaded.tokenizer, "mask_token_id")
    there = text.source.ids.count(mask) if mask is not None else 0
    if mask is None or there != 1:
        name = "mask token" if mask is None else _token_name(loaded)(mask).strip()
        raise ArgumentError(
            f"{parameter('why')}: {loaded.name} predicts masked tokens; expected one {name} in the text, got {there}"
        )
    return _target_of_token(texts, why, text, lambda text: text.source.ids.index(mask))


def _first_row(loaded: Loaded, text: Text) -> int:
    """Return the row of the logits that predicts the first written token."""
    if loaded.has_encoder:
        return 0
    if not text.prompt:
        raise MhavizError("expected a prompt before what is written, got none")
    return text.prompt - 1


def _logits(output: Any) -> Tensor:
    logits: Tensor = output["logits"][0]
    return logits if logits.ndim > 1 else logits[None]


def target_of_image(loaded: Loaded, why: Why, output: Callable[[], Any]) -> Target:
    """Return the target of a classifier of images.

    Args:
        loaded: the model.
        why: see ``Model.target``.
        output: returns its output on the image.

    Raises:
        ArgumentError: the model is no classifier, or has no such label.
    """
    if callable(why):
        return target_of_function(why)
    if not loaded.is_classifier:
        raise ArgumentError(
            f"{parameter('why')}: {loaded.name} ({type(loaded.model).__name__}) has no head that predicts a label of "
            f"an image; give a function of its output in Python, or another model"
        )
    return _target_of_label(loaded, why, output)


def _target_of_label(loaded: Loaded, why: str, output: Callable[[], Any]) -> Target:
    config: Any = loaded.model.config
    labels = _told_apart([str(config.id2label.get(i, i)) for i in range(config.num_labels)])
    is_score = config.problem_type == "regression" or len(labels) == 1
    if why == TOP and is_score and len(labels) > 1:
        raise ArgumentError(f"{parameter('why')}: {loaded.name} gives scores and chooses none; name one by {LABEL}NAME")
    top = 0 if is_score or why != TOP else int(_logits(output())[0].argmax())
    number = top if why == TOP else label_of(why, labels)
    is_choice = not is_score and config.problem_type != "multi_label_classification"
    explained = Explained("score" if is_score else "label", labels[number], why == TOP and is_choice)
    return target_of_logits(explained, _logits, lambda text: [(0, number)], labels.__getitem__ if is_choice else None)


def _told_apart(labels: Sequence[str]) -> list[str]:
    """Return labels, those that are alike with their numbers."""
    return [f"{label} ({i})" if labels.count(label) > 1 else label for i, label in enumerate(labels)]


def _target_of_token(texts: Texts, why: str, text: Text, row_of: Any) -> Target:
    """Return the target of a token at one place; ``row_of``: returns the place in a text."""
    name_of = _token_name(texts.loaded)
    is_top = why == TOP
    number = int(_logits(_output(texts, text))[row_of(text)].argmax()) if is_top else _id_of_token(texts.loaded, why)
    explained = Explained("token", name_of(number), is_top)
    return target_of_logits(explained, _logits, lambda text: [(row_of(text), number)], name_of)


def _token_name(loaded: Loaded) -> Any:
    return lambda number: name_tokens(loaded.tokenizer, [number]).texts[0]


def _id_of_token(loaded: Loaded, why: str) -> int:
    """Return the id of a token. Raises ArgumentError if the text is of several tokens."""
    found = [plain_ids(loaded.tokenizer, text) for text in (why, f" {why}", why.lstrip())]
    for ids in found:
        if len(ids) == 1 and ids[0] != id_of(loaded.tokenizer, "unk_token_id"):
            return ids[0]
    pieces = ", ".join(map(quoted, name_tokens(loaded.tokenizer, found[0]).texts[:8])) or "none"
    raise ArgumentError(
        f"{parameter('why')}: expected a single token of the model, got {quoted(why)}, which is {len(found[0])} "
        f"({pieces}); name the first of them"
    )


def _output(texts: Texts, text: Text) -> Any:
    return run(texts.loaded, texts.batch([text]), whole=True)


def score(texts: Texts, text: Text, target: Target, hook: Hook) -> Score:
    """Run the model on a text with a hook on its attentions, and return what comes of a target."""
    with torch.no_grad():
        output = run_hooked(texts.loaded, texts.batch([text]), hook, whole=True)
        return target.score(output, text)


def graded(texts: Texts, text: Text, target: Target) -> GradedRun:
    """Run the model on a text, and return the target's gradients at its attentions; see ``Model.graded``."""
    loaded = texts.loaded
    with torch.inference_mode(False), torch.enable_grad():
        _require_attention_alone(loaded)
        owner = object()
        output = run_hooked(loaded, texts.batch([text]), partial(_hold, loaded, owner), whole=True, with_graph=True)
        return graded_run(loaded.name, owner, loaded.sites, target, output, text)


def _mixing(loaded: Loaded) -> str:
    """Return where tokens mix outside of attention in a model; "": nowhere.

    The model runs on a few tokens. A hidden state must depend on the embedding of its own token alone, once no gradient
    passes through attention.
    """
    if loaded.unshown:
        return "has attention in a form of its own"
    source_length, target_length = _LENGTHS
    length = target_length if loaded.has_encoder else source_length

    output: Any = run_hooked(loaded, few_tokens(loaded, *_LENGTHS), partial(_hold, loaded, object()), with_graph=True)
    hidden = output["last_hidden_state"] if "last_hidden_state" in output else output[0]
    sides = [(hidden, length)]
    if loaded.has_encoder and output.get("encoder_last_hidden_state") is not None:
        sides.append((output["encoder_last_hidden_state"], source_length))
    for side, n in sides:
        for row in range(n):
            for gradient in gradients_beside_attention(side[0, row].float().square().sum(), "EmbeddingBackward0"):
                read = gradient.reshape(-1, gradient.shape[-1]).abs().sum(dim=-1).nonzero().flatten().tolist()
                n_rows = gradient.shape[:-1].numel()
                if n_rows in _LENGTHS and set(read) - ({row} if n_rows == n else set()):
                    return "mixes tokens outside of attention"
    return ""


_checked = WeakKeyDictionary[nn.Module, str]()
"""Result of ``_mixing`` for each model."""


def _require_attention_alone(loaded: Loaded) -> None:
    """Raise MhavizError if tokens mix outside of attention, as in Mamba or by convolutions."""
    if loaded.model not in _checked:
        _checked[loaded.model] = _mixing(loaded)
    if why := _checked[loaded.model]:
        raise MhavizError(
            f"{loaded.name} ({loaded.type}) {why}; relevance goes through the weights of attention alone, and would "
            f"miss that; mhaviz ablate measures what heads change"
        )


def _hold(loaded: Loaded, owner: object, number: int, observed: ObservedCall) -> None:
    site = next((site for site in loaded.sites if site.number == number), None)
    hold_site(loaded.name, owner, site, observed)

"""Runs a model with a hook on its attentions: what each is called with, or else the weights that the model gives."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.errors import MhavizError
from mhaviz.models.pretrained.capture import listening
from mhaviz.models.pretrained.loading import Loaded
from mhaviz.records import ROUNDING, Kind


@dataclass(frozen=True)
class AttentionRun:
    """An attention of a model, as it has run once.

    Attributes:
        number: counts the attentions of a forward pass, in the order in which they run.
        call: what it computes with, or the weights that it gives; None: they are of a form that cannot be shown.
        output: (batch_size, n_heads, q_length, d_value); module: the attention; None where they cannot be seen.
        kind: as in ``AttentionMap``, where the model's name for its weights tells.
        layer: the place of its weights among those of its name.
    """

    number: int
    call: AttentionCall | AttentionWeights | None
    output: Tensor | None = None
    module: nn.Module | None = None
    kind: Kind | None = None
    layer: int | None = None


class _SeenEnoughError(MhavizError):
    """Ends a forward pass."""


class _OursError(MhavizError):
    """Carries what was raised by a hook, not by the model, through the model."""

    def __init__(self, raised: Exception) -> None:
        super().__init__(str(raised))
        self.raised = raised


def run_hooked(
    loaded: Loaded,
    ids: Tensor,
    mask: Tensor | None,
    target_ids: Tensor | None,
    hook: Callable[[AttentionRun], None],
    last: int | None = None,
) -> None:
    """One forward pass, as of ``run``; ``hook`` is called with each attention.

    What comes after the attention with the number ``last`` is not computed, where the hook is called as they run.
    """
    if not loaded.captured:
        outputs = run(loaded, ids, mask, target_ids, output_attentions=True)
        lengths = {ids.shape[1]} | ({target_ids.shape[1]} if target_ids is not None else set())
        for number, (kind, layer, given) in enumerate(_given(outputs)):
            hook(AttentionRun(number, _weights(given, lengths), kind=kind, layer=layer))
        return
    numbers = count()

    def listen(module: nn.Module, call: AttentionCall, output: Tensor) -> None:
        number = next(numbers)
        try:
            hook(AttentionRun(number, call, output, module))
        except Exception as error:
            raise _OursError(error) from error
        if number == last:
            raise _SeenEnoughError

    try:
        with listening(listen), suppress(_SeenEnoughError):
            run(loaded, ids, mask, target_ids)
    except _OursError as error:
        raise error.raised from None


def run(loaded: Loaded, ids: Tensor, mask: Tensor | None, target_ids: Tensor | None, **asked: object) -> object:
    """One forward pass, without what stands on top of the last layer.

    Args:
        loaded: the model.
        ids: (batch_size, length).
        mask: (batch_size, length); 0 for padding; None: no padding.
        target_ids: (batch_size, target length), for a decoder beside an encoder.
        asked: what else to ask of the model.
    """
    model: nn.Module = loaded.model.base_model
    fields: dict[str, object] = {"input_ids": ids, "attention_mask": torch.ones_like(ids) if mask is None else mask}
    if target_ids is not None:
        fields["decoder_input_ids"] = target_ids
    if field_of(loaded.config, "use_cache") is not None:
        fields["use_cache"] = False
    with torch.no_grad(), loaded.running():
        return model(**fields, return_dict=True, **asked)


def field_of(config: Any, name: str) -> Any:
    """A field of a configuration; None if it has no such, or if each layer has its own."""
    try:
        return getattr(config, name, None)
    except RuntimeError:
        return None


def form_of_its_own(loaded: Loaded) -> MhavizError:
    """An error of an attention that cannot be shown."""
    attention = attention_class(loaded)
    named = f" ({attention})" if attention else ""
    return MhavizError(
        f"{loaded.name}, {loaded.type}, gives its attention in a form of its own{named}, and not as weights of queries "
        f"and keys: it cannot be drawn"
    )


def attention_class(loaded: Loaded) -> str:
    """What the model calls its attention, in the innermost of what has the name; nothing if it has none."""
    names = {name: type(module).__name__ for name, module in loaded.model.base_model.named_modules()}
    attentions = [name for name, kind in names.items() if "attention" in kind.lower()]
    return names[max(attentions, key=lambda name: name.count("."))] if attentions else ""


def _given(outputs: object) -> Iterator[tuple[Kind | None, int, object]]:
    """Kind, layer and weights of every attention that a model has returned: encoder, then masked and cross by layer."""

    def of(name: str, kind: Kind | None) -> list[tuple[Kind | None, int, object]]:
        all_layers = enumerate(getattr(outputs, name, None) or ())
        return [(kind, layer, weights) for layer, weights in all_layers if weights is not None]

    yield from of("encoder_attentions", "self")
    yield from of("attentions", None)
    yield from sorted(of("decoder_attentions", "masked") + of("cross_attentions", "cross"), key=lambda one: one[1])


def _weights(given: object, lengths: set[int]) -> AttentionWeights | None:
    """What a model has given as weights, (batch_size, n_heads, q_length, k_length), which may be NaN.

    None: they are no weights, or their queries and keys are not the tokens that were read, which have these lengths.
    """
    if not isinstance(given, Tensor) or given.ndim != 4 or not set(given.shape[2:]) <= lengths:
        return None
    A = given.float()
    sums = A.sum(dim=-1)
    if bool((A < 0).any() | (sums > 1 + 2 * ROUNDING).any()):
        return None
    return AttentionWeights(A, bool(((sums < 1 - ROUNDING) & (sums > 0)).any()))

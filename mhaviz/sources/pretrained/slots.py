"""Which attention is which: found out by letting the model read a few tokens, so that nothing is assumed of it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor, nn

from mhaviz.errors import MhavizError
from mhaviz.maps.attention_call import AttentionCall
from mhaviz.records import Kind
from mhaviz.sources.pretrained.capture import listening
from mhaviz.sources.pretrained.eager import UnknownFormError, eager_calls
from mhaviz.sources.pretrained.loading import Loaded, run_eagerly
from mhaviz.sources.pretrained.reading import usual_ids

SOURCE_LENGTH, TARGET_LENGTH = 4, 3
"""Tokens that an encoder and a decoder read: the two sides of an attention are told apart by how many there are."""

_SAME = 1e-2
"""Weights that differ by more than this were made by another rule; half precision differs by less."""


class _HeardEnoughError(MhavizError):
    """Ends a forward pass."""


class _OursError(MhavizError):
    """Carries what was raised by who hears of an attention, not by the model, through the model."""

    def __init__(self, raised: Exception) -> None:
        super().__init__(str(raised))
        self.raised = raised


@dataclass(frozen=True)
class Slot:
    """One of a model's attentions, in the order in which they run.

    Attributes:
        kind, layer: as in ``AttentionMap``; encoder, decoder and cross attention are each counted from 0.
        n_heads, d_key: its sizes.
    """

    kind: Kind
    layer: int
    n_heads: int
    d_key: int


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
    if getattr(loaded.config, "use_cache", None) is not None:
        fields["use_cache"] = False
    with torch.no_grad(), loaded.running():
        return model(**fields, return_dict=True, **asked)


def hear(
    loaded: Loaded,
    ids: Tensor,
    mask: Tensor | None,
    target_ids: Tensor | None,
    heard: Callable[[int, AttentionCall, Tensor | None, nn.Module | None], None],
    last: int | None = None,
) -> None:
    """One forward pass; ``heard`` is told of each attention, by its number in the order in which they run.

    It is called with the inputs, and with the output and the module where they can be seen. What comes after the
    attention with the number ``last`` is not computed.
    """
    if not loaded.captured:
        lengths = {ids.shape[1]} | ({target_ids.shape[1]} if target_ids is not None else set())
        try:
            for number, call in enumerate(eager_calls(run(loaded, ids, mask, target_ids, output_attentions=True))):
                _require_lengths(call, lengths)
                heard(number, call, None, None)
        except UnknownFormError:
            raise UnknownFormError(
                f"{loaded.name}, {loaded.type}, gives its attention in a form of its own, which is no "
                f"map of queries and keys: it cannot be drawn"
            ) from None
        return
    numbers = count()

    def listen(module: nn.Module, call: AttentionCall, output: Tensor) -> None:
        number = next(numbers)
        try:
            heard(number, call, output, module)
        except Exception as error:
            raise _OursError(error) from error
        if number == last:
            raise _HeardEnoughError

    try:
        with listening(listen), suppress(_HeardEnoughError):
            run(loaded, ids, mask, target_ids)
    except _OursError as error:
        raise error.raised from None


def find_slots(loaded: Loaded) -> tuple[Loaded, tuple[Slot, ...]]:
    """The attentions of a model; the model may have to run eagerly to show them.

    Raises:
        MhavizError: it has no attention, or none that could be drawn, or does not read text.
    """
    slots = _probe(loaded)
    if loaded.captured and (not slots or not _follows_eager(loaded)):
        loaded = run_eagerly(loaded)
        slots = _probe(loaded)
    if not slots:
        raise MhavizError(f"{loaded.name}, {loaded.type}, has no attention to be shown")
    return loaded, tuple(slots)


def _probe(loaded: Loaded) -> list[Slot]:
    """The attentions that run for a few tokens; none if what is captured is not one attention a layer."""
    found: list[tuple[Kind, int | None, int, int]] = []

    def heard(number: int, call: AttentionCall, output: Tensor | None, module: nn.Module | None) -> None:
        _, n_heads, _, d_key = call.query.shape
        _require_lengths(call, {SOURCE_LENGTH, TARGET_LENGTH})
        layer = getattr(module, "layer_idx", None)
        found.append((_kind(call), layer if isinstance(layer, int) else None, n_heads, d_key))

    try:
        hear(loaded, *_few_tokens(loaded), heard)
    except UnknownFormError:
        if loaded.captured:
            return []
        raise
    except MhavizError as error:
        if error.__cause__ is None:
            raise
        raise MhavizError(f"{loaded.name}, {loaded.type}, cannot be run on text alone") from error.__cause__
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, RuntimeError) as error:
        if "allocate memory" in str(error) or type(error).__name__ == "OutOfMemoryError":
            raise
        raise MhavizError(f"{loaded.name}, {loaded.type}, cannot be run on text alone") from error
    return _numbered(found, getattr(loaded.config, "num_hidden_layers", None))


def _numbered(found: Sequence[tuple[Kind, int | None, int, int]], layers: int | None) -> list[Slot]:
    """With the layers' own numbers, where they have some: in some models not every layer has an attention.

    None at all where a layer has several attentions of a kind: they are parts of one, such as DiffLlama's two.
    """
    slots: list[Slot] = []
    for kind, layer, n_heads, d_key in found:
        own = [number for k, number, *_ in found if k == kind]
        count = sum(slot.kind == kind for slot in slots)
        has_numbers = layer is not None and None not in own
        if has_numbers and len(set(own)) < len(own) and len(own) != layers:
            return []
        is_own = has_numbers and len(set(own)) == len(own)
        slots.append(Slot(kind, layer if is_own and layer is not None else count, n_heads, d_key))
    return slots


def _require_lengths(call: AttentionCall, lengths: set[int]) -> None:
    """Raise UnknownFormError if queries or keys are not the tokens that were read."""
    if not {call.query.shape[2], call.key.shape[2]} <= lengths:
        raise UnknownFormError


def _kind(call: AttentionCall) -> Kind:
    q_length, k_length = call.query.shape[2], call.key.shape[2]
    if q_length != k_length:
        return "cross"
    visible = call.visible()
    later = torch.ones(q_length, k_length, dtype=torch.bool, device=call.query.device).triu(1)
    return "masked" if visible is not None and not bool((visible & later).any()) else "self"


def _few_tokens(loaded: Loaded) -> tuple[Tensor, None, Tensor | None]:
    usual = usual_ids(loaded.tokenizer, 1000)
    ids = torch.tensor([[usual[i % len(usual)] for i in range(SOURCE_LENGTH)]], device=loaded.device)
    return ids, None, ids[:, :TARGET_LENGTH] if loaded.has_encoder else None


def _follows_eager(loaded: Loaded) -> bool:
    """Whether a model that does not run on SDPA has no rule of its own that we do not know."""
    if loaded.model._supports_sdpa:
        return True
    captured: list[Tensor] = []
    hear(loaded, *_few_tokens(loaded), lambda number, call, output, module: captured.append(call.weights()))
    implementation = loaded.config._attn_implementation
    eager: list[Tensor] = []
    hear(run_eagerly(loaded), *_few_tokens(loaded), lambda number, call, *_: eager.append(call.weights()))
    loaded.model.set_attn_implementation(implementation)
    if len(captured) != len(eager):
        return False
    return all(bool(((a - b).abs() < _SAME).all()) for a, b in zip(captured, eager, strict=True))

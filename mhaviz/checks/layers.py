"""An attention layer as probes call it: ``layer(x, keep, causal)``."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.checks.masking import NO_MASKING, Masking
from mhaviz.errors import MhavizError

_CACHES = ("cache", "kv_cache", "past_key_value", "past_key_values", "layer_past", "past", "past_kv")
_DOCUMENTS = ("documents", "document_ids", "doc_ids", "segment_ids", "seq_ids", "sequence_ids")
_POSITIONS = ("position_ids", "positions", "pos", "pos_ids", "input_pos")
_STARTS = ("start_pos", "start", "offset", "past_length")


class Projections(nn.Module):
    """Fixed random projections to heads, for a function that has none."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads, self.changed = n_heads, False
        generator = torch.Generator().manual_seed(0)
        for name in ("query", "key", "value"):
            self.register_buffer(name, torch.randn(d_model, d_model, generator=generator) / d_model**0.5)

    def forward(self, x: Tensor, name: str) -> Tensor:
        """Return (batch_size, n_heads, length, d_key)."""
        weight: Tensor = getattr(self, name)
        projected: Tensor = x @ weight.to(x.dtype)
        return projected.view(*x.shape[:2], self.n_heads, -1).transpose(1, 2)


@dataclass(frozen=True)
class Layer:
    """An attention that can be called by probes.

    Attributes:
        name: for people.
        call: the layer as ``call(x, memory, **arguments)``, where x is (batch_size, q_length, d_model) and memory, of
            cross-attention, (batch_size, k_length, d_model), else None.
        d_model: number of features of a token.
        modules: modules that run in it.
        parameters: names of the parameters of its signature.
        is_cross: whether keys and values come from ``memory``.
        masking: how it is told what to hide.
        on_heads: the number of heads, if it is called with queries, keys and values of heads; else None.
        projections: makes these heads; None: it is called with tokens.
        masks: parameters that mask.
        takes_memory: whether it may be given a memory as well, from which keys and values come then.
        needs_mask: whether it cannot be called without a mask, so that it is given one that hides nothing.
        mask_error: what it raises on a mask whose form its name tells; "": nothing, or no name tells it.
    """

    name: str
    call: Callable[..., Any]
    d_model: int
    modules: tuple[nn.Module, ...] = ()
    parameters: tuple[str, ...] = ()
    is_cross: bool = False
    masking: Masking = NO_MASKING
    on_heads: int | None = None
    projections: Projections | None = None
    masks: tuple[inspect.Parameter, ...] = ()
    takes_memory: bool = False
    needs_mask: bool = False
    mask_error: str = ""

    def __call__(
        self,
        x: Tensor,
        keep: Tensor | None = None,
        causal: bool = False,
        memory: Tensor | None = None,
        **others: Any,
    ) -> Tensor:
        """Return the output, (batch_size, q_length, d_model).

        Raises:
            MhavizError: the layer returns something else.
        """
        return output_of(self.returned(x, keep, causal, memory, **others), self.name)

    def returned(
        self,
        x: Tensor,
        keep: Tensor | None = None,
        causal: bool = False,
        memory: Tensor | None = None,
        **others: Any,
    ) -> Any:
        """Return what the layer returns: its output, and perhaps more."""
        given = {}
        keys = x if memory is None else memory
        if keep is None and self.needs_mask:
            keep = torch.ones(keys.shape[:2], dtype=torch.bool)
        if keep is not None or causal:
            given = self.masks_for(keep, causal, (x.shape[0], x.shape[1], keys.shape[1]), x.device)
        return self.call(x, memory, **given, **others)

    def masks_for(
        self, keep: Tensor | None, causal: bool, sizes: tuple[int, int, int], device: torch.device
    ) -> dict[str, Tensor | bool]:
        """Return the arguments that hide padding and later tokens, on a device; see ``Masking``."""
        masks = self.masking.arguments(keep, causal, sizes)
        return {name: one.to(device) if isinstance(one, Tensor) else one for name, one in masks.items()}

    @cached_property
    def like(self) -> Tensor:
        """An empty tensor with the device and the type of the layer's numbers; float32 on the CPU if it has none."""
        held = (one for module in self.modules for one in (*module.parameters(), *module.buffers()))
        first = next((one for one in held if one.is_floating_point()), None)
        return torch.empty(0) if first is None else first.new_empty(0)

    @property
    def changes_heads(self) -> bool:
        """Whether a call has changed the queries, keys or values of heads that it was given."""
        return self.projections is not None and self.projections.changed

    @property
    def takes_keep(self) -> bool:
        """Whether padding can be hidden."""
        return self.masking.takes_keep

    @property
    def takes_causal(self) -> bool:
        """Whether it can be told to hide later tokens."""
        return self.masking.takes_causal

    @cached_property
    def cache(self) -> str | None:
        """Name of the parameter that takes a cache of keys and values; None: it has none."""
        return next((name for name in _CACHES if name in self.parameters), None)

    @cached_property
    def start(self) -> str | None:
        """Name of the parameter that takes the position of the first token, beside a cache that the layer holds."""
        return next((name for name in _STARTS if name in self.parameters), None)

    @cached_property
    def documents(self) -> str | None:
        """Name of the parameter that takes the number of each token's document; None: it has none."""
        return next((name for name in _DOCUMENTS if name in self.parameters), None)

    @cached_property
    def positions(self) -> str | None:
        """Name of the parameter that takes the position of each token; None: it has none."""
        return next((name for name in _POSITIONS if name in self.parameters), None)


def output_of(given: Any, name: str) -> Tensor:
    """Return the output among what a layer returns. Raises MhavizError if it is no tensor."""
    first = given
    if isinstance(given, dict) or hasattr(given, "to_tuple"):
        first = next(iter(given.values()), None) if isinstance(given, dict) else given.to_tuple()[0]
    elif isinstance(given, tuple | list):
        first = given[0] if given else None
    elif is_dataclass(given):
        first = next(iter(vars(given).values()), None)
    if not isinstance(first, Tensor):
        kind = type(given).__name__
        raise MhavizError(
            f"{name}: expected a tensor (batch_size, length, d_model), or a pair of it and weights, got {kind}; wrap "
            f"it, such as lambda x: layer(x).output"
        )
    if not first.is_floating_point():
        raise MhavizError(f"{name}: expected numbers (batch_size, length, d_model), got {first.dtype}")
    return first


def named_outputs_of(given: Any) -> list[Tensor]:
    """Return the tensors of a result whose parts have names, such as a model's hidden states and pooled output."""
    named = given if isinstance(given, dict) else {}
    return [one for one in named.values() if isinstance(one, Tensor)]

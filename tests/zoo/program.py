"""A program with attention: a model, a call of it, and what the model itself says of its weights."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

Weights = tuple[str, Tensor]
"""A name, and weights: (…, n_heads, q_length, k_length), or what else the model has."""


@dataclass(frozen=True)
class Program:
    """What is recorded, and what it says itself.

    Attributes:
        model: what runs.
        run: a call of it, the same at every call; its result is compared bit by bit.
        own: the model's own weights for the same inputs, of every attention, in the order in which it has them.
        oracle: where they come from, for the table.
    """

    model: nn.Module
    run: Callable[[], Any]
    own: Callable[[], list[Weights]]
    oracle: str


@dataclass(frozen=True)
class Entry:
    """A row of the table.

    Attributes:
        name, kind: of the program.
        make: builds it.
        tolerance: the most that a weight may differ by from the model's own.
        missed: so many of the model's attentions are not caught, and that is known.
        why: the reason, for the table.
    """

    name: str
    kind: str
    make: Callable[[], Program] = field(repr=False)
    tolerance: float = 5e-5
    missed: int = 0
    why: str = ""


def spread(model: nn.Module, gain: float = 1.5) -> nn.Module:
    """Random parameters by which weights are far from uniform, and biases, sinks and tables are not zero."""
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if "norm" in name.lower() or "ln_" in name or parameter.numel() == 0:
            continue
        fan_in = parameter[0].numel() if parameter.dim() > 1 else 25
        with torch.no_grad():
            parameter.normal_(std=min(gain / fan_in**0.5, 0.5), generator=generator)
    return model.eval()


def leaves(value: Any) -> Iterator[Tensor]:
    """The tensors of an output, in order, wherever they are in it."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    elif hasattr(value, "to_legacy_cache") or hasattr(value, "layers"):  # a cache of keys and values
        for layer in getattr(value, "layers", ()):
            yield from leaves([getattr(layer, "keys", None), getattr(layer, "values", None)])


def same_bits(one: Any, other: Any) -> bool:
    """Whether two outputs have the same tensors, bit for bit; NaN is equal to itself."""
    ours, theirs = list(leaves(one)), list(leaves(other))
    return len(ours) == len(theirs) > 0 and all(
        a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))
        for a, b in zip(ours, theirs, strict=True)
    )

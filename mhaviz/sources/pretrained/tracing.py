"""The shapes on the way through one attention of a model, with the names of its own modules."""

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.layer.steps import Step
from mhaviz.maps.attention_call import AttentionCall
from mhaviz.sources.pretrained.loading import Loaded
from mhaviz.sources.pretrained.slots import hear


def trace_attention(
    loaded: Loaded, number: int, ids: Tensor, mask: Tensor | None, target_ids: Tensor | None, step: Step
) -> None:
    """Run the model, and tell ``step`` of every tensor on the way through its attention of this number.

    Args:
        loaded: a model whose attention can be seen.
        number: of the attention, in the order in which they run.
        ids, mask, target_ids: a batch; see ``hear``.
        step: is told; see ``mhaviz.layer.steps``.
    """
    module = _module(loaded, number, ids, mask, target_ids)

    def heard(i: int, call: AttentionCall, output: Tensor | None, heard_in: nn.Module | None) -> None:
        if i == number and output is not None:
            _steps_of_heads(call, output, step)

    hooks = [*_hooks(module, step)]
    try:
        hear(loaded, ids, mask, target_ids, heard)
    finally:
        for hook in hooks:
            hook.remove()


def _module(loaded: Loaded, number: int, ids: Tensor, mask: Tensor | None, target_ids: Tensor | None) -> nn.Module:
    found: list[nn.Module] = []

    def heard(i: int, call: AttentionCall, output: Tensor | None, module: nn.Module | None) -> None:
        if i == number and module is not None:
            found.append(module)

    hear(loaded, ids[:, :1], None, None if target_ids is None else target_ids[:, :1], heard)
    return found[0]


def _hooks(module: nn.Module, step: Step) -> list[torch.utils.hooks.RemovableHandle]:
    """Listen to what the attention reads, and to what each projection in it makes."""
    names: dict[str, int] = {}

    def reads(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        x = next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.ndim == 3), None)
        if x is not None:
            step("X = what the layer reads", x, "batch_size q_length d_model")

    def makes(name: str) -> Callable[..., None]:
        def told(part: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if isinstance(output, Tensor) and output.ndim == 3:
                names[name] = names.get(name, 0) + 1
                axis = re.sub(r"\W", "_", name)
                length = "k_length" if axis.startswith(("k", "v")) else "q_length"
                step(f"{name} = {type(part).__name__} of the model", output, f"batch_size {length} {axis}")

        return told

    hooks = [module.register_forward_pre_hook(reads, with_kwargs=True)]
    for name, part in module.named_modules():
        weight = getattr(part, "weight", None)
        if name and isinstance(weight, Tensor) and weight.ndim == 2 and not isinstance(part, nn.Embedding):
            hooks.append(part.register_forward_hook(makes(name)))
    return hooks


def _steps_of_heads(call: AttentionCall, output: Tensor, step: Step) -> None:
    """From the queries, keys and values of the heads to what the heads make of them."""
    step("Q heads = queries, as they enter the product", call.query, "batch_size n_heads q_length d_key")
    kv_heads = "n_heads" if call.group == 1 else "n_kv_heads"
    step("K heads = keys, as they enter the product", call.key, f"batch_size {kv_heads} k_length d_key")
    d_value = "d_key" if call.value.shape[-1] == call.key.shape[-1] else "d_value"
    step("V heads = values", call.value, f"batch_size {kv_heads} k_length {d_value}")
    step("S = scaled Q Kᵀ, −∞ where hidden", call.scores(), "batch_size n_heads q_length k_length")
    step("A = softmax(S)", call.weights(), "batch_size n_heads q_length k_length")
    step("H = A V", output, f"batch_size n_heads q_length {d_value}")
    H = step("H swapped = swap n_heads, q_length", output.transpose(1, 2), f"batch_size q_length n_heads {d_value}")
    step(f"concat = join n_heads × {d_value}", H.flatten(2), "batch_size q_length n_heads·d_value")

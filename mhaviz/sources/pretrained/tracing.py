"""The shapes on the way through one attention of a model, whose projections have the names of its own modules."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.maps.attention_call import AttentionCall
from mhaviz.sources.pretrained.loading import Loaded
from mhaviz.sources.pretrained.slots import hear
from mhaviz.sources.recorder import StepRecorder

_FUSED = ("qkv", "c_attn", "query_key_value", "in_proj")


@dataclass(frozen=True)
class Projection:
    """A matrix of parameters in the attention, as it was applied.

    Attributes:
        name: of the module; role: "Q", "K", "V", "QKV", or the name again.
        module: itself.
        read, made: its input and output, (batch_size, length, features).
    """

    name: str
    role: str
    module: nn.Module
    read: Tensor
    made: Tensor


def trace_attention(
    loaded: Loaded, number: int, ids: Tensor, mask: Tensor | None, target_ids: Tensor | None, recorder: StepRecorder
) -> None:
    """Run the model, then tell the recorder of every tensor on the way through its attention of this number.

    What the model has done is done again before the recorder, which counts it; the tensors are the model's own, so that
    it sees which of them are views.

    Args:
        loaded: a model whose attention can be seen.
        number: of the attention, in the order in which they run.
        ids, mask, target_ids: a batch; see ``hear``.
        recorder: is told.
    """
    found: list[tuple[AttentionCall, Tensor, nn.Module]] = []

    def heard(i: int, call: AttentionCall, output: Tensor | None, module: nn.Module | None) -> None:
        if i == number and output is not None and module is not None:
            found.append((call, output, module))

    hear(loaded, ids[:, :1], None, None if target_ids is None else target_ids[:, :1], heard)
    module = found.pop()[2]
    projections: list[Projection] = []
    hooks = [
        part.register_forward_hook(_listening(name, projections))
        for name, part in module.named_modules()
        if name and isinstance(getattr(part, "weight", None), Tensor) and part.weight.ndim == 2
    ]
    try:
        hear(loaded, ids, mask, target_ids, heard)
    finally:
        for hook in hooks:
            hook.remove()
    call, output, _ = found.pop()
    with torch.no_grad(), recorder:
        _tell(call, output, projections, recorder)


def _listening(name: str, projections: list[Projection]) -> Any:
    def told(module: nn.Module, args: tuple[Any, ...], made: Any) -> None:
        if args and isinstance(args[0], Tensor) and args[0].ndim == 3 and isinstance(made, Tensor) and made.ndim == 3:
            projections.append(Projection(name, _role(name), module, args[0], made))

    return told


def _role(name: str) -> str:
    last = name.rsplit(".")[-1].lower()
    if any(fused in last for fused in _FUSED):
        return "QKV"
    return last[0].upper() if last[0] in "qkv" else name


def _tell(call: AttentionCall, output: Tensor, projections: list[Projection], step: StepRecorder) -> None:
    inward = [p for p in projections if p.role in ("Q", "K", "V", "QKV")]
    outward = [p for p in projections if p.role not in ("Q", "K", "V", "QKV") and p.read.numel() == output.numel()]
    read = {id(p.read): p.read for p in inward}
    names = dict(zip(read, ("X", "E"), strict=False))
    for name, x in zip(names.values(), read.values(), strict=False):
        of, length = ("layer reads", "q_length") if name == "X" else ("encoder has made", "k_length")
        step.note()
        step(f"{name} = what the {of}", x, f"batch_size {length} d_model")
    for p in inward:
        p.module(p.read)
        length, heads = ("q_length", "n_heads") if p.role in ("Q", "QKV") else ("k_length", "n_kv_heads")
        axis = {"Q": f"{heads}·d_key", "K": f"{heads}·d_key", "V": f"{heads}·d_value"}.get(p.role, "all features")
        step(f"{p.role} = {names[id(p.read)]} {p.name}", p.made, f"batch_size {length} {axis.replace(' ', '_')}")

    kv_heads = "n_heads" if call.group == 1 else "n_kv_heads"
    d_value = "d_key" if call.value.shape[-1] == call.query.shape[-1] else "d_value"
    for role, x, axes in (
        ("Q", call.query, "batch_size n_heads q_length d_key"),
        ("K", call.key, f"batch_size {kv_heads} k_length d_key"),
        ("V", call.value, f"batch_size {kv_heads} k_length {d_value}"),
    ):
        of, made = next(((p.role, p.made) for p in reversed(inward) if p.role in (role, "QKV")), ("X", inward[0].read))
        step.note(made)
        is_view = x.untyped_storage()._cdata == made.untyped_storage()._cdata
        step(f"{role} heads = {of} as heads" + ", with positions" * (role != "V" and not is_view), x, axes)

    scores = "batch_size n_heads q_length k_length"
    S = step("S = scaled Q Kᵀ, −∞ where hidden", call.scores(), scores)
    A = step("A = softmax(S)", call.weigh(S), scores)
    call.mix(A)
    step("H = A V", output, f"batch_size n_heads q_length {d_value}")
    H = step("H swapped = swap n_heads, q_length", output.transpose(1, 2), f"batch_size q_length n_heads {d_value}")
    H = step(f"concat = join n_heads × {d_value}", H.flatten(2), "batch_size q_length n_heads·d_value")
    for p in outward[-1:]:
        p.module(H)
        step(f"O = concat {p.name}", p.made, "batch_size q_length d_model")

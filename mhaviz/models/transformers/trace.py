"""The steps of one attention of a model, with projections named after the model's own modules."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from mhaviz.attention.call import AttentionCall
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.inputs.tokens import Kind
from mhaviz.models.step_recorder import StepRecorder
from mhaviz.models.transformers.load import Loaded
from mhaviz.models.transformers.run import Fields, ModuleRun, modules_hooked, run_hooked
from mhaviz.observe.observed import ObservedCall

_FUSED = ("qkv", "c_attn", "query_key_value", "in_proj")


def trace_attention(
    loaded: Loaded,
    number: int,
    kind: Kind,
    fields: Fields,
    recorder: StepRecorder,
) -> None:
    """Run the model, then pass each step of one attention to the recorder.

    The recorder counts operations while they are computed a second time. The tensors it gets are the model's own, so
    that it knows which of them are views.

    Args:
        loaded: a model whose attention has queries and keys.
        number: number of the attention, in the order in which they run.
        kind: its kind.
        fields: inputs of the model.
        recorder: called with each tensor.

    Raises:
        MhavizError: the projections of the attention were not recognised.
    """
    found: list[tuple[AttentionCall, Tensor, nn.Module]] = []
    inward: list[ModuleRun] = []
    within: list[ModuleRun] = []  # projections of tensors as large as the output, within the attention module
    after: list[ModuleRun] = []  # the first such projection after the attention module
    prefix = ""  # prefix of the attention module's names, once it has run

    def hook(running: int, observed: ObservedCall) -> None:
        assert observed.module is not None
        own = set(observed.module.modules())
        if not found:  # drop the projections of earlier attentions
            inward[:] = [one for one in inward if one.module in own]
        if running == number and isinstance(observed.call, AttentionCall):
            assert observed.output is not None
            found.append((observed.call, observed.output, observed.module))

    def keep(run: ModuleRun) -> None:
        nonlocal prefix
        if found and run.module is found[0][2]:
            prefix = f"{run.name}."
        weight = getattr(run.module, "weight", None)
        if not (isinstance(weight, Tensor) and weight.ndim == 2 and run.read and _are_rows(run.read[0], run.made)):
            return
        projection = replace(run, read=run.read[0])
        if not found and _role(run.name) in ("Q", "K", "V", "QKV"):
            inward.append(projection)
        elif found and projection.read.numel() == found[0][1].numel() and not after:
            (after if prefix else within).append(projection)

    with modules_hooked(loaded.model, keep):
        run_hooked(loaded, fields, hook)
    cannot = f"{loaded.type} computes queries, keys and values in a way that cannot be traced"
    if not inward:
        raise MhavizError(cannot)
    call, output, _ = found.pop()
    outward = within[-1:] or after[:1]  # the last one, as gates come before it
    for ones in (inward, outward):
        ones[:] = [replace(one, name=one.name.removeprefix(prefix)) for one in ones]
    try:
        with torch.no_grad(), recorder:
            _record_steps(call, output, inward, outward, kind, recorder)
    except ArgumentError as error:  # an axis has another size than before
        raise MhavizError(f"{cannot} ({error})") from error


def _are_rows(*given: object) -> bool:
    """Return whether all are tensors of three axes, as the features of a batch of tokens are."""
    return all(isinstance(x, Tensor) and x.ndim == 3 for x in given)


def _role(name: str) -> str:
    """Return "Q", "K", "V" or "QKV" for a projection with such a name, else its name."""
    last = name.rsplit(".")[-1].lower()
    if any(fused in last for fused in _FUSED):
        return "QKV"
    return last[0].upper() if last[0] in "qkv" else name


def _record_steps(
    call: AttentionCall,
    output: Tensor,
    inward: Sequence[ModuleRun],
    outward: Sequence[ModuleRun],
    kind: Kind,
    step: StepRecorder,
) -> None:
    read = {id(p.read): p.read for p in inward}
    second = "E" if kind == "cross" else "Y"
    names = {which: "X" if place == 0 else f"{second}{place if place > 1 else ''}" for place, which in enumerate(read)}
    for name, x in zip(names.values(), read.values(), strict=True):
        step.note()
        if name == "X":
            step("X = input of the layer", x, "batch_size q_length d_model")
        elif name == "E":
            step("E = output of the encoder", x, "batch_size k_length d_model")
        else:
            step(f"{name} = computed from X by the layer", x, f"batch_size q_length features_of_{name}")
    widths: dict[str, int] = {}
    roles = [_role(p.name) for p in inward]
    for role, p in zip(roles, inward, strict=True):
        step.note_fetched(p.module)
        p.module(p.read)
        heads = {"Q": call.query, "K": call.key, "V": call.value}.get(role)
        length = "q_length" if role in ("Q", "QKV") else "k_length"
        own = widths.setdefault(role, p.made.shape[2]) == p.made.shape[2]
        axis = f"features_of_{role if own else p.name.split('.')[-1]}"  # of two projections in a row, as in low rank
        if heads is not None and heads.shape[1] * heads.shape[3] == p.made.shape[2]:
            axis = f"{'n_heads' if role == 'Q' else 'n_kv_heads'}·{'d_value' if role == 'V' else 'd_key'}"
        step(f"{role} = {names[id(p.read)]} {p.name}", p.made, f"batch_size {length} {axis}")

    kv_heads = "n_heads" if call.group == 1 else "n_kv_heads"
    d_value = "d_key" if call.value.shape[-1] == call.query.shape[-1] else "d_value"
    for role, x, axes in (
        ("Q", call.query, "batch_size n_heads q_length d_key"),
        ("K", call.key, f"batch_size {kv_heads} k_length d_key"),
        ("V", call.value, f"batch_size {kv_heads} k_length {d_value}"),
    ):
        fitting = ((of, p.made) for of, p in zip(reversed(roles), reversed(inward), strict=True) if of in (role, "QKV"))
        of, made = next(fitting, ("X", inward[0].read))
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
    for p in outward:
        step.note_fetched(p.module)
        p.module(H)
        axis = "d_model" if p.made.shape[2] == inward[0].read.shape[2] else "features_of_O"
        step(f"O = concat {'.'.join(p.name.split('.')[-2:])}", p.made, f"batch_size q_length {axis}")

"""Read a signature: which tensors the parameters of a layer take, and how it is told what to hide.

Which tensors a parameter takes is read from its name. Where a name leaves two readings, such as ``mask``, both are
tried, and the reading under which padding is hidden is taken. A layer that hides it under none keeps the first reading
that runs.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.checks.deadline import Deadline
from mhaviz.checks.held_modules import modules_of
from mhaviz.checks.layers import Layer, Projections, output_of
from mhaviz.checks.masking import ALL, CAUSAL, NO_MASKING, PADDING, PADDING_OF_MEMORY, readings
from mhaviz.errors import MhavizError
from mhaviz.observe.fused import SDPA, call_of_sdpa
from mhaviz.observe.handlers import one_line

_QUERY = {"q", "query", "queries", "xq", "x_q", "q_in", "q_input", "input_q", "query_states"}
_KEY = {"k", "key", "keys", "xk", "x_k", "k_in", "k_input", "input_k", "key_states"}
_VALUE = {"v", "value", "values", "xv", "x_v", "v_in", "v_input", "input_v", "value_states"}
_TRIPLE = (_QUERY, _KEY, _VALUE)
_MEMORY = {
    "memory", "context", "mem", "source", "src", "kv", "enc", "encoded", "encoder_hidden_states", "encoder_output",
    "encoder_outputs", "encoder_out", "enc_out", "enc_output", "key_value_states", "x_kv", "xkv", "cond", "y",
}  # fmt: skip


def adapted(attend: Any, d_model: int, n_heads: int | None = None, deadline: Deadline | None = None) -> Layer:
    """Return a layer that is called as probes call it.

    Args:
        attend: module or function.
        d_model: number of features of a token.
        n_heads: number of heads of a function of queries, keys and values on heads; None: 2, or 1 if d_model is odd.
        deadline: when trying masks must end; None: it may take any time.

    Raises:
        MhavizError: its signature is not known; the time is over.
    """
    if inspect.isclass(attend):
        raise MhavizError(
            f"expected a layer, got the class {attend.__name__}; make an instance, such as {attend.__name__}({d_model})"
        )
    if not callable(attend):
        raise MhavizError(f"expected a module or a function, got {type(attend).__name__}")
    name, modules = _name_of(attend), modules_of(attend)
    parameters = _parameters(attend, name)
    first = [one.name.lower() for one in parameters[:3]]
    names = tuple(one.name for one in parameters)
    layer = Layer(name, attend, d_model, modules, names)
    triple = [next((one.name for one in parameters[:3] if one.name.lower() in known), "") for known in _TRIPLE]
    is_triple = len(first) == 3 and all(triple)
    rest = parameters[3:] if is_triple else parameters[1:]
    memory = None if is_triple else next((one for one in rest if one.name.lower() in _MEMORY), None)
    rest = [one for one in rest if one is not memory]
    given, known = _unknown(rest, memory, name, layer)
    if is_triple:
        has_weights = any(True for module in modules for _ in module.parameters())
        if has_weights:
            layer = replace(layer, call=_of_triple(attend, triple, given), takes_memory=True)
        else:
            layer = _on_heads(layer, attend, d_model, n_heads, triple, given)
    elif memory is not None:
        is_cross = memory.default is inspect.Parameter.empty
        layer = replace(layer, call=_of_pair(attend, memory.name, given), is_cross=is_cross, takes_memory=not is_cross)
    else:
        layer = replace(layer, call=_of_single(attend, given))
    if _is_length_first(attend):
        layer = replace(layer, call=_turned(layer.call))
    return _with_masking(replace(layer, masks=tuple(known)), deadline)


def beside_memory(layer: Layer, deadline: Deadline) -> Layer | None:
    """Return a layer that may read a memory as one that does; None: it takes none, or raises an error on one."""
    if not layer.takes_memory or layer.on_heads is not None:
        return None
    other = _with_masking(
        replace(layer, is_cross=True, takes_memory=False, mask_error="", masking=NO_MASKING), deadline
    )
    x = torch.zeros(2, 7, layer.d_model).to(layer.like)
    try:
        with torch.no_grad():
            other(x, memory=torch.zeros(2, 9, layer.d_model).to(layer.like))
    except Exception:  # it may read memories of its own length alone
        return None
    return other


def _is_length_first(attend: Any) -> bool:
    """Return whether this is a layer of PyTorch that reads (length, batch_size, d_model), as all do by default."""
    if not isinstance(attend, _OF_PYTORCH):
        return False
    layers = [one for one in attend.modules() if isinstance(one, nn.MultiheadAttention)]
    return bool(layers) and not layers[0].batch_first


_OF_PYTORCH = (
    nn.MultiheadAttention,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
    nn.TransformerEncoder,
    nn.TransformerDecoder,
)


def _turned(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call of a layer that reads the length first, for tensors that have the batch first."""

    def turned(x: Tensor, memory: Tensor | None = None, **arguments: Any) -> Any:
        returned = call(x.transpose(0, 1), None if memory is None else memory.transpose(0, 1), **arguments)
        output = returned[0] if isinstance(returned, tuple) else returned
        return output.transpose(0, 1)

    return turned


def _name_of(attend: Any) -> str:
    if isinstance(attend, nn.Module):
        return type(attend).__name__
    name = getattr(attend, "__name__", type(attend).__name__)
    return "a lambda" if name == "<lambda>" else str(name)


def _parameters(attend: Any, name: str) -> list[inspect.Parameter]:
    try:
        function = attend.forward if isinstance(attend, nn.Module) else attend
        signature = inspect.signature(call_of_sdpa if function is SDPA else function)  # which C code does not tell
    except (TypeError, ValueError) as error:
        raise MhavizError(f"{name}: its signature is not known; wrap it, such as lambda x: layer(x)") from error
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [one for one in signature.parameters.values() if one.kind not in variadic]
    if not named and any(one.kind in variadic for one in signature.parameters.values()):
        named = [inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY)]
    if not named:
        raise MhavizError(
            f"{name}: expected a layer that takes x (batch_size, length, d_model), got one without arguments"
        )
    return named


def _unknown(
    rest: Sequence[inspect.Parameter], memory: inspect.Parameter | None, name: str, layer: Layer
) -> tuple[dict[str, Any], list[inspect.Parameter]]:
    """Return arguments for required parameters that probes leave out, and the parameters that mask.

    Raises:
        MhavizError: a required parameter is not known.
    """
    others = {layer.cache, layer.documents, layer.positions, layer.start} - {None}
    given: dict[str, Any] = {}
    known = []
    for one in rest:
        if one.name.lower() in ALL:
            known.append(one)
            if one.default is inspect.Parameter.empty:
                given[one.name] = False if one.name.lower() in CAUSAL else None
        elif one.name == "need_weights":
            given[one.name] = False
        elif one.default is inspect.Parameter.empty and one.name not in others:
            called = f"{', memory' * (memory is not None)}"
            raise MhavizError(
                f"{name}: takes {one.name}, and nothing tells what it is; wrap the layer, such as "
                f"lambda x{called}: layer(x{called}, {one.name}=…)"
            )
        elif one.default is inspect.Parameter.empty:
            given[one.name] = 0 if one.name == layer.start else None
    return given, known


def _of_single(attend: Any, given: dict[str, Any]) -> Callable[..., Any]:
    return lambda x, memory=None, **arguments: attend(x, **given | arguments)


def _of_pair(attend: Any, name: str, given: dict[str, Any]) -> Callable[..., Any]:
    def call(x: Tensor, memory: Tensor | None = None, **arguments: Any) -> Any:
        beside = {} if memory is None else {name: memory}
        return attend(x, **beside, **given | arguments)

    return call


def _of_triple(attend: Any, names: Sequence[str], given: dict[str, Any]) -> Callable[..., Any]:
    query, key, value = names

    def call(x: Tensor, memory: Tensor | None = None, **arguments: Any) -> Any:
        keys = x if memory is None else memory
        return attend(**{query: x, key: keys, value: keys}, **given | arguments)

    return call


def _on_heads(
    layer: Layer, attend: Any, d_model: int, n_heads: int | None, names: Sequence[str], given: dict[str, Any]
) -> Layer:
    heads = n_heads or (1 if d_model % 2 else 2)
    if d_model % heads:
        raise MhavizError(f"expected n_heads that divides d_model, got {heads} and {d_model}")
    project = Projections(d_model, heads)

    def call(x: Tensor, memory: Tensor | None = None, **arguments: Any) -> Any:
        keys = x if memory is None else memory
        q, k, v = (project(y, name) for y, name in ((x, "query"), (keys, "key"), (keys, "value")))
        before = [one.detach().clone() for one in (q, k, v)]
        output = output_of(attend(**dict(zip(names, (q, k, v), strict=True)), **given | arguments), layer.name)
        if any(not torch.equal(one.detach(), kept) for one, kept in zip((q, k, v), before, strict=True)):
            project.changed = True
        return output.transpose(1, 2).flatten(2)

    return replace(layer, call=call, on_heads=heads, projections=project)


def _with_masking(layer: Layer, deadline: Deadline | None) -> Layer:
    """Return the layer with the first masking that hides padding, or if none does, the first that runs."""
    names = [one.name for one in layer.masks]
    fitting, running, error = None, None, ""
    for masking in readings(names, PADDING_OF_MEMORY if layer.is_cross else PADDING):
        if deadline is not None:
            deadline.require_time()
        trial = replace(layer, masking=masking)
        outcome = _outcome(trial)
        if outcome == "hides":
            fitting = trial
            break
        if outcome == "runs" and running is None:
            running = trial
        if outcome not in ("hides", "runs") and not masking.reading:
            error = outcome
    chosen = fitting or running or replace(layer, mask_error=error)
    required = [one for one in layer.masks if one.default is inspect.Parameter.empty and one.name.lower() not in CAUSAL]
    if required and chosen.takes_keep and not _runs_without_mask(chosen):
        return replace(chosen, needs_mask=True)
    return chosen


def _runs_without_mask(layer: Layer) -> bool:
    x = torch.zeros(2, 7, layer.d_model).to(layer.like)
    try:
        with torch.no_grad():
            layer(x, memory=x if layer.is_cross else None)
    except Exception:  # whatever a layer raises on None
        return False
    return True


def _outcome(layer: Layer) -> str:
    """Return "hides" if a layer hides padding as it is told, "runs" if it runs, or what it raises."""
    if not layer.takes_keep:
        return "hides"
    generator = torch.Generator().manual_seed(1)
    batch_size, length, k_length = 3, 7, 9 if layer.is_cross else 7
    x, keys, other = (
        torch.randn(batch_size, n, layer.d_model, generator=generator).to(layer.like)
        for n in (length, k_length, k_length)
    )
    keep = torch.ones(batch_size, k_length, dtype=torch.bool)
    keep[1, -2:] = False
    changed = torch.where(keep[..., None].to(keys.device), keys, other)
    moved = keys.clone()
    moved[1, 0] = other[1, 0]

    def run(tokens: Tensor) -> Tensor:
        output = layer(x, keep, memory=tokens) if layer.is_cross else layer(tokens, keep)
        return (output if layer.is_cross else output[:, : length - 2]).cpu().float()

    try:
        with torch.no_grad():
            before, padded, near = (run(tokens) for tokens in (keys, changed, moved))
    except Exception as error:  # whatever a layer raises on arguments that it does not take
        return one_line(error, 120)
    if before.shape[:1] != (batch_size,) or before.ndim != 3:
        return f"an output of shape {tuple(before.shape)}"
    hides = torch.allclose(before, padded, rtol=1e-5, atol=1e-6)
    sees = not torch.allclose(before[1, 1:], near[1, 1:], rtol=1e-5, atol=1e-6)
    return "hides" if hides and sees and bool(before.isfinite().all()) else "runs"

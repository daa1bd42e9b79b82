"""Call a layer of any common signature as ``attend(x, keep, causal)``.

Which tensors a parameter takes is read from its name. Where a name leaves two readings, such as ``mask``, both are
tried, and the reading under which padding is hidden is taken. A layer that hides it under none keeps the first reading
that runs.
"""

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.errors import MhavizError

_QUERY = {"q", "query", "queries", "xq", "x_q", "q_in", "q_input", "input_q", "query_states"}
_KEY = {"k", "key", "keys", "xk", "x_k", "k_in", "k_input", "input_k", "key_states"}
_VALUE = {"v", "value", "values", "xv", "x_v", "v_in", "v_input", "input_v", "value_states"}
_MEMORY = {
    "memory", "context", "mem", "source", "src", "kv", "enc", "encoded", "encoder_hidden_states", "encoder_output",
    "encoder_outputs", "encoder_out", "enc_out", "enc_output", "key_value_states", "x_kv", "xkv", "cond", "y",
}  # fmt: skip
_KEEP = {"keep"}
_CAUSAL = {"causal", "is_causal"}
_PADDING = {"key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask"}
_PADDING_OF_MEMORY = {"memory_key_padding_mask"}
_TORCH_MASKS = {"attn_mask", "src_mask", "tgt_mask"}
_MASKS = {
    "mask", "attn_mask", "attention_mask", "src_mask", "pad", "pad_mask", "padding_mask", "padding", "key_mask",
    "valid", "valid_mask", "attn_bias", "bias", "visible", "masks", "m",
}  # fmt: skip
_CACHES = ("cache", "kv_cache", "past_key_value", "past_key_values", "layer_past", "past", "past_kv")
_DOCUMENTS = ("documents", "document_ids", "doc_ids", "segment_ids", "seq_ids", "sequence_ids")
_POSITIONS = ("position_ids", "positions", "pos", "pos_ids", "input_pos")
_STARTS = ("start_pos", "start", "offset", "past_length")

MaskOf = Callable[[Tensor | None, bool, tuple[int, int, int]], dict[str, Tensor | bool]]
"""Arguments that hide padding and later tokens.

It takes ``keep``, (batch_size, k_length), ``causal`` and (batch_size, q_length, k_length).
"""


@dataclass(frozen=True)
class Masking:
    """How a layer is told what to hide.

    Attributes:
        arguments: see ``MaskOf``.
        takes_keep, takes_causal: whether padding and later tokens can be hidden.
        reading: what the layer is given, in words; "" where its names leave a single reading.
    """

    arguments: MaskOf
    takes_keep: bool = False
    takes_causal: bool = False
    reading: str = ""


NO_MASKING = Masking(lambda keep, causal, sizes: {})


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
    projections: "_Projections | None" = None
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
            masks = self.masking.arguments(keep, causal, (x.shape[0], x.shape[1], keys.shape[1]))
            given = {name: one.to(x.device) if isinstance(one, Tensor) else one for name, one in masks.items()}
        return self.call(x, memory, **given, **others)

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


def adapted(attend: Any, d_model: int, n_heads: int | None = None) -> Layer:
    """Return a layer that is called as probes call it.

    Args:
        attend: module or function.
        d_model: number of features of a token.
        n_heads: number of heads of a function of queries, keys and values on heads; None: 2, or 1 if d_model is odd.

    Raises:
        MhavizError: its signature is not known.
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
    is_triple = len(first) == 3 and all(one in known for one, known in zip(first, (_QUERY, _KEY, _VALUE), strict=True))
    rest = parameters[3:] if is_triple else parameters[1:]
    memory = None if is_triple else next((one for one in rest if one.name.lower() in _MEMORY), None)
    rest = [one for one in rest if one is not memory]
    given, known = _unknown(rest, memory, name, layer)
    if is_triple:
        has_weights = any(True for module in modules for _ in module.parameters())
        if has_weights:
            layer = replace(layer, call=_of_triple(attend, given))
        else:
            layer = _on_heads(replace(layer, modules=modules), attend, d_model, n_heads, given)
    elif memory is not None:
        is_cross = memory.default is inspect.Parameter.empty
        layer = replace(layer, call=_of_pair(attend, memory.name, given), is_cross=is_cross)
    else:
        layer = replace(layer, call=_of_single(attend, given))
    return _with_masking(layer, known)


def modules_of(attend: Any) -> tuple[nn.Module, ...]:
    """Return the modules that a callable may run: itself, its owner, or what its function closes over or names."""
    found: dict[int, nn.Module] = {}
    left, seen = [(attend, 0)], set()
    while left:
        one, depth = left.pop(0)
        if isinstance(one, nn.Module):
            found[id(one)] = one
        elif id(one) not in seen and depth < _DEPTH:
            seen.add(id(one))
            left += [(held, depth + 1) for held in _held_by(one)]
    return tuple(found.values())


_DEPTH = 4
"""Most functions, lists and objects that hold one another, down to a module."""


def _held_by(one: Any) -> list[Any]:
    """Return what a callable, or a list of some, may run."""
    if isinstance(one, list | tuple):
        return list(one)
    if isinstance(one, partial):
        return [one.func, *one.args, *one.keywords.values()]
    if not callable(one) or inspect.isclass(one) or str(getattr(one, "__module__", "")).startswith("torch."):
        return []
    function, owner = getattr(one, "__func__", one), getattr(one, "__self__", None)
    held = [*[owner] * isinstance(owner, nn.Module), *(getattr(function, "__defaults__", None) or ())]
    for cell in getattr(function, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # it is empty
            continue
    if (code := getattr(function, "__code__", None)) is not None:
        for names in (function.__globals__, _attributes(owner)):
            held += [names[name] for name in code.co_names if name in names]
        return held
    return held + list(_attributes(one).values())


def _attributes(one: Any) -> dict[str, Any]:
    return {} if isinstance(one, nn.Module) else getattr(one, "__dict__", {})


def _name_of(attend: Any) -> str:
    if isinstance(attend, nn.Module):
        return type(attend).__name__
    name = getattr(attend, "__name__", type(attend).__name__)
    return "a lambda" if name == "<lambda>" else str(name)


def _parameters(attend: Any, name: str) -> list[inspect.Parameter]:
    try:
        signature = inspect.signature(attend.forward if isinstance(attend, nn.Module) else attend)
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
    masks = _KEEP | _CAUSAL | _PADDING | _PADDING_OF_MEMORY | _TORCH_MASKS | _MASKS
    others = {layer.cache, layer.documents, layer.positions, layer.start} - {None}
    given: dict[str, Any] = {}
    known = []
    for one in rest:
        if one.name.lower() in masks:
            known.append(one)
            if one.default is inspect.Parameter.empty:
                given[one.name] = False if one.name.lower() in _CAUSAL else None
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


def _of_triple(attend: Any, given: dict[str, Any]) -> Callable[..., Any]:
    is_length_first = isinstance(attend, nn.MultiheadAttention) and not attend.batch_first

    def call(x: Tensor, memory: Tensor | None = None, **arguments: Any) -> Any:
        keys = x if memory is None else memory
        if not is_length_first:
            return attend(x, keys, keys, **given | arguments)
        output, weights = attend(x.transpose(0, 1), keys.transpose(0, 1), keys.transpose(0, 1), **given | arguments)
        return output.transpose(0, 1), weights

    return call


class _Projections(nn.Module):
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


def _on_heads(layer: Layer, attend: Any, d_model: int, n_heads: int | None, given: dict[str, Any]) -> Layer:
    heads = n_heads or (1 if d_model % 2 else 2)
    if d_model % heads:
        raise MhavizError(f"expected n_heads that divides d_model, got {heads} and {d_model}")
    project = _Projections(d_model, heads)

    def call(x: Tensor, memory: Tensor | None = None, **arguments: Any) -> Any:
        keys = x if memory is None else memory
        q, k, v = (project(y, name) for y, name in ((x, "query"), (keys, "key"), (keys, "value")))
        before = [one.detach().clone() for one in (q, k, v)]
        output = output_of(attend(q, k, v, **given | arguments), layer.name)
        if any(not torch.equal(one.detach(), kept) for one, kept in zip((q, k, v), before, strict=True)):
            project.changed = True
        return output.transpose(1, 2).flatten(2)

    return replace(layer, call=call, on_heads=heads, projections=project)


def _with_masking(layer: Layer, known: Sequence[inspect.Parameter]) -> Layer:
    """Return the layer with the first masking that hides padding, or if none does, the first that runs."""
    names = [one.name for one in known]
    fitting, running, error = None, None, ""
    for masking in _maskings(names, _PADDING_OF_MEMORY if layer.is_cross else _PADDING):
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
    required = [one for one in known if one.default is inspect.Parameter.empty and one.name.lower() not in _CAUSAL]
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


def _maskings(names: Sequence[str], of_padding: Collection[str]) -> Iterator[Masking]:
    """Iterate over readings of the parameters that mask, the most probable first."""
    by_name = {name.lower(): name for name in names}
    keep = next((by_name[name] for name in by_name if name in _KEEP), None)
    causal = next((by_name[name] for name in by_name if name in _CAUSAL), None)
    padding = next((by_name[name] for name in by_name if name in of_padding), None)
    masks = [name for name in names if name.lower() in _MASKS | _TORCH_MASKS]

    def named(k: Tensor | None, c: bool, sizes: tuple[int, int, int]) -> dict[str, Tensor | bool]:
        given: dict[str, Tensor | bool] = {}
        if k is not None and keep is not None:
            given[keep] = k
        elif k is not None and padding is not None:
            given[padding] = ~k
        if c and padding is not None and masks:
            given[masks[0]] = _later(sizes)
        elif c and causal is not None:
            given[causal] = True
        return given

    has_causal = causal is not None or (padding is not None and bool(masks))
    if keep is not None or padding is not None:
        yield Masking(named, True, has_causal)
        return
    for mask in masks:
        for reading, make, takes_causal in _forms(mask.lower()):

            def given(
                k: Tensor | None,
                c: bool,
                sizes: tuple[int, int, int],
                mask: str = mask,
                make: Callable[[Tensor, Tensor], Tensor] = make,
                takes_causal: bool = takes_causal,
            ) -> dict[str, Tensor | bool]:
                kept = torch.ones(sizes[0], sizes[2], dtype=torch.bool) if k is None else k
                hides_later = c and (takes_causal or causal is None)
                visible = ~_later(sizes) if hides_later else torch.ones(sizes[1:], dtype=torch.bool)
                arguments: dict[str, Tensor | bool] = (
                    {mask: make(kept, visible)} if k is not None or hides_later else {}
                )
                return arguments | ({causal: True} if c and causal is not None and not takes_causal else {})

            yield Masking(given, True, takes_causal or causal is not None, f"{mask} is given as {reading}")
    if causal is not None:
        yield Masking(named, False, True)


def _later(sizes: tuple[int, int, int]) -> Tensor:
    """Return which keys are later than each query: bool, (q_length, k_length)."""
    return torch.ones(sizes[1:], dtype=torch.bool).triu(1)


def _forms(name: str) -> Iterator[tuple[str, Callable[[Tensor, Tensor], Tensor], bool]]:
    """Iterate over the forms of a mask: its words, a function of (keep, visible), and whether it can hide later keys.

    What transformers calls ``attention_mask``, and what is called valid, is true of tokens.
    """
    shapes: tuple[tuple[str, Callable[[Tensor, Tensor], Tensor], bool], ...] = (
        ("(batch_size, 1, q_length, k_length)", lambda keep, seen: (keep[:, None] & seen)[:, None], True),
        ("(batch_size, q_length, k_length)", lambda keep, seen: keep[:, None] & seen, True),
        ("(batch_size, k_length)", lambda keep, seen: keep, False),
        ("(batch_size, 1, 1, k_length)", lambda keep, seen: keep[:, None, None], False),
    )
    kinds: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = (
        ("True is seen", lambda seen: seen),
        ("True is hidden", lambda seen: ~seen),
        ("1 is seen, 0 hidden", lambda seen: seen.float()),
        ("0 is seen, −∞ hidden", lambda seen: torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)),
    )
    is_told = name == "attention_mask" or name.startswith("valid") or name == "visible"
    for kind, convert in kinds:
        if is_told and kind == "True is hidden":
            continue
        for shape, make, takes_causal in shapes:
            if is_told and "−∞" in kind and shape == "(batch_size, k_length)":
                continue  # a layer that it fits hides where the mask is not 0, which is upside down
            yield f"{shape}, {kind}", partial(_converted, convert, make), takes_causal


def _converted(
    convert: Callable[[Tensor], Tensor], make: Callable[[Tensor, Tensor], Tensor], keep: Tensor, seen: Tensor
) -> Tensor:
    return convert(make(keep, seen))


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
        return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    if before.shape[:1] != (batch_size,) or before.ndim != 3 or before.shape[-1] != layer.d_model:
        return f"an output of shape {tuple(before.shape)}"
    hides = torch.allclose(before, padded, rtol=1e-5, atol=1e-6)
    sees = not torch.allclose(before[1, 1:], near[1, 1:], rtol=1e-5, atol=1e-6)
    return "hides" if hides and sees and bool(before.isfinite().all()) else "runs"

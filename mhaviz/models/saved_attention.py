"""Reading of one attention's parameters from a file of a model's parameters into mhaviz's own layer."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from mhaviz.errors import ArgumentError, MhavizError, parameter
from mhaviz.files.arrays import read_named_arrays
from mhaviz.files.errors import listed
from mhaviz.files.saved_array import SavedArray, require_room
from mhaviz.layer.attention import MultiHeadAttention

_PACKED = "in_proj_weight"
"""Name of the parameter by which a torch.nn.MultiheadAttention is recognised."""

_SEPARATE = (("Wq", "Wk", "Wv"), ("q_proj", "k_proj", "v_proj"), ("to_q", "to_k", "to_v"), ("query", "key", "value"))
"""Names of the projections of queries, keys and values, in mhaviz's own layer and elsewhere."""

_JOINT = ("qkv", "c_attn", "Wqkv")
"""Names of a linear layer that projects to all three."""

_OUTPUT = ("Wo", "out_proj", "o_proj", "c_proj", "proj", "to_out.0", "to_out", "dense", "output.dense")
"""Names of the output projection."""

_KNOWN = (_PACKED, *(f"{names[0]}.weight" for names in _SEPARATE), *(f"{name}.weight" for name in _JOINT))


@dataclass(frozen=True)
class SavedAttention:
    """The parameters of one attention, named as in ``MultiHeadAttention``.

    Attributes:
        path, prefix: file, and prefix of the names in it.
        parameters: float32: Wq.weight, Wk.weight, Wv.weight and Wo.weight, (d_model, d_model), and the biases that the
            attention has, (d_model,).
    """

    path: Path
    prefix: str
    parameters: Mapping[str, Tensor]

    @property
    def d_model(self) -> int:
        """Number of features of the input and of the output."""
        return len(self.parameters["Wq.weight"])

    def attention(self, n_heads: int) -> MultiHeadAttention:
        """Return a layer that shares these parameters. Raises ArgumentError if n_heads does not divide d_model."""
        with torch.device("meta"):  # no random weights are drawn
            attention = MultiHeadAttention(self.d_model, n_heads)
            for name in ("Wq", "Wk", "Wv", "Wo"):
                bias = f"{name}.bias" in self.parameters
                setattr(attention, name, nn.Linear(self.d_model, self.d_model, bias))
        attention.load_state_dict(self.parameters, assign=True)
        return attention


def read_attention(path: Path, prefix: str | None = None) -> SavedAttention:
    """Read the parameters of an attention from a state dict.

    The attention is a ``torch.nn.MultiheadAttention``, mhaviz's own layer, or has linear layers with common names such
    as q_proj, to_q, qkv or c_attn. A state dict holds neither the number of heads nor add_zero_attn=True, which mhaviz
    does not support.

    Args:
        path: a .safetensors file, or a file of torch.save.
        prefix: prefix of the attention's names in the state dict, such as "encoder.layers.0.self_attn", or the
            beginning of it where this leaves one attention; None: the file has one attention.

    Raises:
        ArgumentError: no attention, or several, with this prefix.
        MhavizError: the file cannot be read, holds no attention, or one that mhaviz cannot run.
    """
    tensors = read_named_arrays(path)
    chosen = _choose(path, tensors, prefix)
    there = {name.removeprefix(chosen): tensor for name, tensor in tensors.items() if name.startswith(chosen)}
    return SavedAttention(path, chosen.removesuffix("."), _converted(there, path, chosen))


def _choose(path: Path, names: Iterable[str], wanted: str | None) -> str:
    """Return the prefix of the wanted attention, with a dot at its end; empty for an attention that was saved alone."""
    known = re.compile(rf"((?:.*\.)?)(?:{'|'.join(map(re.escape, _KNOWN))})", re.DOTALL)
    prefixes = {match[1] for name in names if (match := known.fullmatch(name))}
    if not prefixes:
        held = listed(sorted(names)) or "no tensors"
        raise MhavizError(
            f"{path}: expected parameters of an attention, with one of {', '.join(_KNOWN)}, got {held}; rename them, "
            f"or give the model's folder"
        )
    asked = wanted.rstrip(".") + "." if wanted and wanted.strip(".") else ""
    within = [prefix for prefix in prefixes if prefix.startswith(asked)]
    if asked in prefixes or len(within) == 1:
        return asked if asked in prefixes else within[0]
    if within:
        raise ArgumentError(
            f"{path} holds {len(within)} attentions{f' within {asked[:-1]:.80}' if asked else ''}; choose one with "
            f"{parameter('prefix')}: {_named(within)}"
        )
    there = _named(prefixes) or "one without a prefix"
    raise ArgumentError(f"{parameter('prefix')}: there is no attention {asked[:-1]:.80} in {path}; it has {there}")


def _named(prefixes: Iterable[str]) -> str:
    return listed(sorted(prefix.removesuffix(".") for prefix in prefixes if prefix))


def _converted(there: Mapping[str, SavedArray], path: Path, prefix: str) -> dict[str, Tensor]:
    """Return the parameters by mhaviz's names: copies, as ``StepRecorder`` counts parameters that share memory once."""
    where, attention = f"{path}: {prefix}", f"{path}: {prefix.removesuffix('.')}" if prefix else str(path)
    for unsupported in ("bias_k", "bias_v"):
        if unsupported in there:
            raise MhavizError(
                f"{where}{unsupported} is a key or value of no token (add_bias_kv=True), which mhaviz's layer does not "
                f"support; use an attention without it"
            )
    first = next(name for name in _KNOWN if name in there)
    shape, stem = there[first].shape, first.removesuffix(".weight")
    d = 0 if len(shape) != 2 else min(shape) if stem in _JOINT else shape[1]
    weights: tuple[str, ...]
    biases: tuple[str, ...]
    if first == _PACKED:
        weights, biases, outward = (_PACKED,), ("in_proj_bias",), "out_proj"
    else:
        sides = (stem,) if stem in _JOINT else next(names for names in _SEPARATE if names[0] == stem)
        weights, biases = tuple(f"{side}.weight" for side in sides), tuple(f"{side}.bias" for side in sides)
        outward = _output_name(there, attention)
    require_room(there[name] for name in (*weights, f"{outward}.weight") if name in there)

    is_turned = stem in _JOINT and shape == (d, 3 * d)
    if len(weights) == 1:
        packed = _read(there, where, {first: (d, 3 * d) if is_turned else (3 * d, d)})[first]
        of_sides = (packed.T if is_turned else packed).chunk(3)
    else:
        of_sides = tuple(_read(there, where, dict.fromkeys(weights, (d, d))).values())
    read = _read(there, where, dict.fromkeys(biases, (3 * d if len(biases) == 1 else d,)), True)
    if len(biases) == 1:
        of_biases = dict(zip("qkv", (part for whole in read.values() for part in whole.chunk(3)), strict=False))
    else:  # Whisper has none for the keys
        of_biases = {side: read[name] for side, name in zip("qkv", biases, strict=True) if name in read}
    out = _read(there, where, {f"{outward}.weight": (d, d)})[f"{outward}.weight"]
    found = {f"W{side}.weight": matrix.contiguous().clone() for side, matrix in zip("qkv", of_sides, strict=True)}
    found |= {f"W{side}.bias": vector.clone() for side, vector in of_biases.items()}
    found["Wo.weight"] = out.T.contiguous() if is_turned else out
    for vector in _read(there, where, {f"{outward}.bias": (d,)}, True).values():
        found["Wo.bias"] = vector
    return found


def _output_name(there: Mapping[str, SavedArray], attention: str) -> str:
    """Return the name of the output projection."""
    for name in _OUTPUT:
        if f"{name}.weight" in there:
            return name
    raise MhavizError(
        f"{attention}: expected an output projection, named {', '.join(_OUTPUT)}, got "
        f"{listed(sorted(there))}; rename it, or give the model's folder"
    )


def _read(
    there: Mapping[str, SavedArray], where: str, shapes: Mapping[str, tuple[int, ...]], optional: bool = False
) -> dict[str, Tensor]:
    """Read the tensors of these names. Raises MhavizError if one is missing, or has another shape than this."""
    found: dict[str, SavedArray] = {}
    for name, shape in shapes.items():
        if name not in there:
            if optional:
                continue
            raise MhavizError(f"{where}{name} is missing; expected {', '.join(shapes)}, got {listed(sorted(there))}")
        got = there[name].shape
        if got != shape or 0 in got:
            expected = ", ".join(str(n or "d_model") for n in shape)
            raise MhavizError(f"{where}{name}: expected ({expected}), got ({', '.join(map(str, got))})")
        found[name] = there[name]
    return {name: torch.from_numpy(array.read_finite()) for name, array in found.items()}

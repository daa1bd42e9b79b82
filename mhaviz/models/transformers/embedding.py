"""The input X of the first layer of a model of transformers, and its embeddings, found by running the model."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mhaviz.devices import float_array
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import Tokens
from mhaviz.models.transformers.load import Loaded, text_config
from mhaviz.models.transformers.run import Fields, ModuleRun, SeenEnoughError, field_of, modules_hooked, run
from mhaviz.models.transformers.spread import weight_at_hand
from mhaviz.results.embeddings import SINUSOIDS, Added, EmbeddedText, InputPart, Within
from mhaviz.results.result import Source

_EXACT, _EXACT_HALF = 1e-5, 2e-2
"""Largest rounding errors in float32 and in half precision, as shares of the largest number of X."""

_NAMES = (("T", ("token_type", "segment")), ("PE", ("pos", "wpe")))
"""Symbols of tables of embeddings, by parts of their modules' names."""

_READ = {"PE": "p", "T": "types"}
"""Symbols of the indices of a table, if not ids."""

_ALIBI = ("bloom", "mpt")
"""Types of models with ALiBi. Others have it by their configuration."""


def first_input(loaded: Loaded, fields: Fields, source: Source, tokens: Tokens, of_target: bool) -> EmbeddedText:
    """Run the model up to its first layer, and return the layer's input X with the embeddings that add up to it.

    How X is computed from the embeddings, by sums, scales, norms and projections, does not follow from the model's
    type. It is found from the outputs of the modules that ran, and each candidate is compared with X.

    Args:
        loaded: the model.
        fields: inputs of the model, for one text.
        source, tokens: source and tokens of the result.
        of_target: whether to return the input of the decoder, for an encoder with a decoder.

    Raises:
        MhavizError: no layers, or no embeddings of tokens, were recognised; NaN or infinity.
    """
    stack: Any = loaded.model.base_model  # the modules that process the text
    if loaded.has_encoder:
        stack = stack.get_decoder() if of_target else stack.get_encoder()
    ids = fields["decoder_input_ids" if of_target else "input_ids"]
    cannot = MhavizError(f"{loaded.name} ({loaded.type}) does not show what goes into its first layer")
    try:
        table = stack.get_input_embeddings()
    except (AttributeError, NotImplementedError):  # as for hashed tokens
        raise cannot from None
    with _recording(stack, ids.shape[1]) as (events, found), suppress(SeenEnoughError):
        run(loaded, fields)
    made = next((one for one in events if one.module is table and one.read is None), None)
    if not found or made is None:
        raise cannot
    X, E = found[0], made.made
    if not bool(torch.isfinite(X).all() and torch.isfinite(E).all()):
        raise MhavizError(f"{loaded.name}: its embeddings hold NaN or infinity; take another copy of it")
    others = _tables(events, made)
    parts = [InputPart("E", f"E = {_lookup(table, ids, E)}", float_array(E))]
    for symbol, tables in others.items():
        total = torch.stack([one.made.expand_as(E).double() for one in tables]).sum(dim=0)
        names = " + ".join(f"{one.name}({_READ.get(symbol, 'ids')})" for one in tables)
        equation = SINUSOIDS if symbol == "PE" and _are_sinusoids(total) else f"{symbol} = {names}"
        parts.append(InputPart(symbol, equation, float_array(total)))
    embedded = partial(EmbeddedText, source, tokens, within=_within(loaded), is_target=of_target)
    half = loaded.model.dtype in (torch.float16, torch.bfloat16)
    return _explained(parts, X, events, _EXACT_HALF if half else _EXACT, embedded)


@contextmanager
def _recording(stack: nn.Module, length: int) -> Iterator[tuple[list[ModuleRun], list[Tensor]]]:
    """Record the runs of a stack's modules until its first layer begins, and that layer's input.

    Inputs and outputs are recorded as features of tokens, (length, features); an input of None is one of ids.
    """
    events: list[ModuleRun] = []
    found: list[Tensor] = []

    def keep(run: ModuleRun) -> None:
        made = _of_tokens(run.made, length)
        if made is not None and run.module is not stack:
            read, name = _first_of_tokens(run.read, length), run.name.rsplit(".", 1)[-1]
            events.append(replace(run, name=name, read=None if read is None else read.clone(), made=made.clone()))

    layers = {layer for modules in stack.modules() if isinstance(modules, nn.ModuleList) for layer in modules}

    def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        X = _first_of_tokens((*args, *kwargs.values()), length) if module in layers else None
        if X is not None:
            found.append(X.clone())
            raise SeenEnoughError

    with modules_hooked(stack, keep, begin):
        yield events, found


def _first_of_tokens(given: Iterable[object], length: int) -> Tensor | None:
    """Return the first argument of a call that holds features of tokens, (length, features); see ``_of_tokens``."""
    return next(
        (x for x in (_of_tokens(x, length) for x in given if getattr(x, "ndim", 0) == 3) if x is not None), None
    )


def _of_tokens(x: object, length: int) -> Tensor | None:
    """Return x as features of tokens, (length, features); None if it is something else.

    Some models pad a text to a multiple of a block, others have the batch as their second axis.
    """
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim not in (2, 3):
        return None
    if x.ndim == 3:
        x = x[0] if x.shape[0] == 1 else x[:, 0] if x.shape[1] == 1 else None
    return None if x is None or len(x) < length else x[:length]


def _tables(events: Sequence[ModuleRun], made: ModuleRun) -> dict[str, list[ModuleRun]]:
    """Return the further embeddings that were looked up, with the shape of the tokens' embeddings, by symbol.

    ``made``: the run of the tokens' embeddings.
    """
    tables: dict[str, list[ModuleRun]] = {}
    for one in events:
        is_lookup = one.read is None and not any(True for _ in one.module.children())
        if is_lookup and one.module is not made.module and one.made.shape == made.made.shape:
            symbol = next((symbol for symbol, marks in _NAMES if any(mark in one.name for mark in marks)), "U")
            tables.setdefault(symbol, []).append(one)
    return dict(sorted(tables.items(), key=lambda pair: ("PE", "T", "U").index(pair[0])))


def _lookup(table: nn.Module, ids: Tensor, E: Tensor) -> str:
    """Return "lookup(ids)", with the factor by which the module multiplies the rows of its table."""
    with weight_at_hand(table) as weight:
        if not isinstance(weight, Tensor) or weight.shape[-1] != E.shape[-1]:
            return "lookup(ids)"
        rows = weight.detach()[ids[0].to(weight.device)].double().to(E.device)
    scale = float((rows * E).sum() / (rows * rows).sum().clamp(min=1e-300))
    return "lookup(ids)" + _times(scale, E.shape[-1])


def _times(scale: float, features: int) -> str:
    """Return a factor in an equation: " · √d_model", or a number; empty for 1."""
    if math.isclose(scale, 1, rel_tol=1e-3):
        return ""
    return " · √d_model" if math.isclose(scale, math.sqrt(features), rel_tol=1e-2) else f" · {scale:.4g}"


def _are_sinusoids(values: Tensor) -> bool:
    """Return whether each row holds sines and cosines, in any order: sin² + cos² = 1 for each pair."""
    squares = values.square().sum(dim=1) / (values.shape[1] / 2)
    return bool(((squares - 1).abs() < 1e-2).all() and values.abs().max() < 1.01)  # also in half precision


def _explained(
    parts: Sequence[InputPart],
    X: Tensor,
    events: Sequence[ModuleRun],
    exact: float,
    embedded: Callable[..., EmbeddedText],
) -> EmbeddedText:
    """Return the text with an equation for X: a sum of some of the parts, and the modules applied to the sum.

    If no sum fits X within ``exact`` of its largest number, X has no equation.
    """
    tensors = {part.symbol: torch.from_numpy(part.values).double() for part in parts}
    for around, total in _traced_back(X, events):
        terms, scale, difference = _nearest_sum(tensors, total.double().cpu())
        if difference > exact * float(total.abs().max()):
            continue
        first = replace(
            parts[0],
            equation=parts[0].equation + _times(scale, total.shape[-1]),
            values=np.asarray(parts[0].values * np.float32(scale)),
        )
        text = " + ".join(["E", *terms])
        for name in around:
            text = f"{name}({text})"
        if text == "E":
            whole = InputPart("X", f"X = {first.equation}", float_array(X))
            return embedded((whole,), None, difference=difference)
        kept = [first, *(part for part in parts if part.symbol in terms)]
        parts = (*kept, InputPart("X", f"X = {text}", float_array(X)))
        return embedded(parts, _added(kept), difference=difference)
    return embedded((*parts, InputPart("X", "X", float_array(X))), _added(parts))


def _traced_back(X: Tensor, events: Sequence[ModuleRun]) -> Iterator[tuple[list[str], Tensor]]:
    """Yield X, then the input of the module whose output it is, and so on, with the modules' names, innermost first.

    A module that changes nothing, such as dropout, is skipped.
    """
    around: list[str] = []
    yield around, X
    for one in reversed(events):
        if one.read is None or not torch.equal(one.made, X) or torch.equal(one.read, X):
            continue
        around.insert(0, _name(one.module, one.name))
        X = one.read
        yield around, X


def _name(module: nn.Module, name: str) -> str:
    """Return a module's name in an equation: RMSNorm, LayerNorm or Linear if it is one of these, else its own name."""
    known = ("RMSNorm", "LayerNorm", "Linear")
    return next((kind for kind in known if kind in type(module).__name__), name)


def _nearest_sum(tensors: dict[str, Tensor], total: Tensor) -> tuple[tuple[str, ...], float, float]:
    """Find the tables whose sum with a multiple of E is nearest to a total, preferring more tables.

    Returns:
        Symbols of the tables, factor of E, and largest difference.
    """
    E = tensors["E"]
    symbols = [symbol for symbol in tensors if symbol != "E"]
    best: tuple[tuple[str, ...], float, float] = ((), 1.0, math.inf)
    if E.shape != total.shape:
        return best
    for number in range(len(symbols), -1, -1):
        for terms in combinations(symbols, number):
            others = sum((tensors[symbol] for symbol in terms), torch.zeros_like(E))
            scale = float(((total - others) * E).sum() / E.square().sum().clamp(min=1e-300))
            scale = 1.0 if math.isclose(scale, 1, rel_tol=1e-3) else scale
            difference = float((scale * E + others - total).abs().max())
            if difference < best[2]:
                best = terms, scale, difference
    return best


def _added(parts: Sequence[InputPart]) -> Added | None:
    """Return the kind of the positions among the parts; None: there are none."""
    equation = next((part.equation for part in parts if part.symbol == "PE"), None)
    return None if equation is None else "sinusoids" if equation == SINUSOIDS else "learned"


def _within(loaded: Loaded) -> tuple[Within, ...]:
    """Return the kinds of positions within the attention, as far as modules and the configuration show them."""
    config = text_config(loaded.model.config)
    names = {type(module).__name__ for module in loaded.model.base_model.modules()}
    kinds: dict[Within, bool] = {
        "rotary": any("Rotary" in name for name in names) or field_of(config, "rotary_dim") is not None,
        "distance": field_of(config, "relative_attention_num_buckets") is not None,
        "alibi": config.model_type in _ALIBI or field_of(config, "alibi") is True,
    }
    return tuple(kind for kind, is_there in kinds.items() if is_there)

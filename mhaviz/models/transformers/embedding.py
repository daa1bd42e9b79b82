"""The input X of the first layer of a model of transformers, and its embeddings, found by running the model."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.devices import float_array
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import Tokens
from mhaviz.models.transformers.load import Loaded, text_config
from mhaviz.models.transformers.run import Fields, ModuleRun, SeenEnoughError, field_of, modules_hooked, run
from mhaviz.models.transformers.spread import weight_at_hand
from mhaviz.results.embeddings import SINUSOIDS, EmbeddedText, InputPart, Within
from mhaviz.results.result import Source

_NAMES = (("T", ("token_type", "segment")), ("PE", ("pos", "wpe")))
"""Symbols of tables of embeddings, by parts of their modules' names."""

_READ = {"PE": "p", "T": "types"}
"""Symbols of the indices of a table, if not ids."""

_ALIBI = ("bloom", "mpt")
"""Types of models with ALiBi. Others have it by their configuration."""


def first_input(loaded: Loaded, fields: Fields, source: Source, tokens: Tokens, of_target: bool) -> EmbeddedText:
    """Run the model up to its first layer, and return the layer's input X, and the embeddings that were looked up.

    How X is computed from them does not follow from the model's type, and is not known unless X is E itself.

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
    with _recording(stack, ids.shape[1]) as (lookups, found), suppress(SeenEnoughError):
        run(loaded, fields)
    made = next((one for one in lookups if one.module is table), None)
    if not found or made is None:
        raise cannot
    X, E = found[0], made.made
    if not bool(torch.isfinite(X).all() and torch.isfinite(E).all()):
        raise MhavizError(f"{loaded.name}: its embeddings hold NaN or infinity; take another copy of it")
    of_E = f"E = {_lookup(table, ids, E)}"
    if torch.equal(X, E):
        parts = [InputPart("X", f"X = {of_E}", float_array(X))]
    else:
        others = _tables(lookups, made).items()
        tables = (_summed(symbol, several, E) for symbol, several in others)
        parts = [InputPart("E", of_E, float_array(E)), *tables, InputPart("X", "X", float_array(X))]
    return EmbeddedText(source, tokens, tuple(parts), within=_within(loaded), is_target=of_target)


@contextmanager
def _recording(stack: nn.Module, length: int) -> Iterator[tuple[list[ModuleRun], list[Tensor]]]:
    """Record what a stack's modules look up until its first layer begins, and that layer's input.

    Lookups are runs of modules that read no features of tokens, but make some. All are recorded as (length, features).
    """
    lookups: list[ModuleRun] = []
    found: list[Tensor] = []

    def keep(run: ModuleRun) -> None:
        made = _of_tokens(run.made, length)
        if made is not None and run.module is not stack and _first_of_tokens(run.read, length) is None:
            lookups.append(replace(run, name=run.name.rsplit(".", 1)[-1], made=made.clone()))

    layers = {layer for modules in stack.modules() if isinstance(modules, nn.ModuleList) for layer in modules}

    def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        X = _first_of_tokens((*args, *kwargs.values()), length) if module in layers else None
        if X is not None:
            found.append(X.clone())
            raise SeenEnoughError

    with modules_hooked(stack, keep, begin):
        yield lookups, found


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


def _tables(lookups: Sequence[ModuleRun], made: ModuleRun) -> dict[str, list[ModuleRun]]:
    """Return the further tables that were looked up, with the shape of the tokens' embeddings, by symbol.

    ``made``: the run of the tokens' embeddings.
    """
    tables: dict[str, list[ModuleRun]] = {}
    for one in lookups:
        is_table = one.module is not made.module and not any(True for _ in one.module.children())
        if is_table and one.made.shape == made.made.shape:
            symbol = next((symbol for symbol, marks in _NAMES if any(mark in one.name for mark in marks)), "U")
            tables.setdefault(symbol, []).append(one)
    return dict(sorted(tables.items(), key=lambda pair: ("PE", "T", "U").index(pair[0])))


def _summed(symbol: str, tables: Sequence[ModuleRun], E: Tensor) -> InputPart:
    """Return the sum of what was looked up in the tables of a symbol."""
    total = torch.stack([one.made.expand_as(E).double() for one in tables]).sum(dim=0)
    names = " + ".join(f"{one.name}({_READ.get(symbol, 'ids')})" for one in tables)
    equation = SINUSOIDS if symbol == "PE" and _are_sinusoids(total) else f"{symbol} = {names}"
    return InputPart(symbol, equation, float_array(total))


def _lookup(table: nn.Module, ids: Tensor, E: Tensor) -> str:
    """Return "lookup(ids)", with the factor by which the module multiplies the rows of its table."""
    with weight_at_hand(table) as weight:
        if not isinstance(weight, Tensor) or weight.shape[-1] != E.shape[-1]:
            return "lookup(ids)"
        rows = weight.detach()[ids[0].to(weight.device)].double().to(E.device)
    scale = float((rows * E).sum() / (rows * rows).sum().clamp(min=1e-300))
    if math.isclose(scale, 1, rel_tol=1e-3):
        return "lookup(ids)"
    is_root = math.isclose(scale, math.sqrt(E.shape[-1]), rel_tol=1e-2)
    return f"lookup(ids) · {'√d_model' if is_root else f'{scale:.4g}'}"


def _are_sinusoids(values: Tensor) -> bool:
    """Return whether each row holds sines and cosines, in any order: sin² + cos² = 1 for each pair."""
    squares = values.square().sum(dim=1) / (values.shape[1] / 2)
    return bool(((squares - 1).abs() < 1e-2).all() and values.abs().max() < 1.01)  # also in half precision


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

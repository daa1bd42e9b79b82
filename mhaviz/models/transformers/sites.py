"""The layer and kind of each attention of a model, found by running it on a few tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.model import Site
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import Kind
from mhaviz.models.transformers.load import Loaded
from mhaviz.models.transformers.read import usual_ids
from mhaviz.models.transformers.run import (
    Fields,
    ModuleRun,
    OnMissed,
    attention_class,
    form_of_its_own,
    modules_hooked,
    run,
    run_hooked,
)
from mhaviz.observe.attention_functions import EAGER, SDPA, hooked
from mhaviz.observe.observed import ObservedCall

LENGTHS = ((4, 3), (7, 5))
"""Numbers of tokens of an encoder and of a decoder in two runs. The numbers tell the two sides of an attention apart.

An observed attention is between tokens if it has as many queries and keys as there are tokens, in both runs.
"""

_TOLERANCE, _ROUNDINGS = 1e-3, 4
"""Outputs agree that differ by at most this share of the largest, or by this many roundings of a coarse type."""


@dataclass(frozen=True)
class _Found:
    """An attention that has run, with its layer and kind.

    Attributes:
        number, observed: the attention; see ``run.Hook``.
        is_shown: whether its queries and keys are the tokens that the model read.
        kind: kind of attention; None: not known.
        layer: place of the outermost layer around it in the list of layers; None: no layer is around it.
        run: number of that layer's run, as a layer may run several times; None: no layer is around it.
    """

    number: int
    observed: ObservedCall
    is_shown: bool
    kind: Kind | None
    layer: int | None
    run: int | None


def find_sites(loaded: Loaded) -> Loaded:
    """Return the model with its attentions, observed by the method that finds most: the interface, or recording.

    Raises:
        MhavizError: the model has no attention, or none that can be drawn, or does not read text.
    """
    missed: list[str] = []
    best = _probed(loaded, missed.append)
    if loaded.by_interface and best.sites and not loaded.model._supports_sdpa and not _follows_eager(loaded):
        best = loaded
    if loaded.by_interface and (best.unshown or not best.sites):
        for attention in (SDPA, EAGER) if loaded.model._supports_sdpa else (EAGER,):
            other = _probed(replace(loaded, by_interface=False, attention=attention), missed.append)
            best = max(best, other, key=lambda one: len(one.sites))
    if not best.sites:
        if attention_class(loaded):
            raise form_of_its_own(loaded, missed[0] if missed else "")
        raise MhavizError(f"{loaded.name} ({loaded.type}) has no attention that can be shown")
    return best


def _probed(loaded: Loaded, on_missed: OnMissed) -> Loaded:
    """Return the model with the attentions that are found on a few tokens.

    It is unchanged if an attention that cannot be shown is of unknown kind, or if an attention runs in parts.
    """
    found, *others = (_found(loaded, on_missed, *lengths) for lengths in LENGTHS[: 1 if loaded.by_interface else None])
    for other in others:
        if len(other) != len(found):
            return loaded
        found = [one if again.is_shown else again for one, again in zip(found, other, strict=True)]
    found = _without_repeats(found)
    unshown = {one.kind for one in found if not one.is_shown}
    if None in unshown or _has_parts(found):
        return loaded
    shown = [one for one in found if one.kind not in unshown]
    kinds: tuple[Kind, ...] = ("self", "masked", "cross") if loaded.has_encoder else ()
    there = {one.kind for one in shown}
    return replace(
        loaded,
        sites=_numbered(shown),
        unshown=tuple(kind for kind in kinds if kind not in there),
        by_hand=frozenset(one.number for one in shown if isinstance(one.observed.call, AttentionWeights)),
    )


def _found(loaded: Loaded, on_missed: OnMissed, source_length: int, target_length: int) -> list[_Found]:
    """Run the model on texts of these lengths, and return all attentions that run."""
    lengths = {source_length, target_length} if loaded.has_encoder else {source_length}
    encoder = set(loaded.model.get_encoder().modules()) if loaded.has_encoder else set()
    found: list[_Found] = []
    layers: dict[nn.Module, int] = {}  # place of each layer in its list; one attention module may run in several
    for modules in loaded.model.modules():
        if isinstance(modules, nn.ModuleList):
            layers = {module: number for number, module in enumerate(modules)} | layers
    runs, running = count(), list[tuple[int, int]]()

    def begin(module: nn.Module, *given: Any) -> None:
        if module in layers:
            running.append((layers[module], next(runs)))

    def end(run: ModuleRun) -> None:
        if run.module in layers:
            running.pop()

    def hook(number: int, observed: ObservedCall) -> None:
        batch_size, _, q_length, k_length = observed.call.shape
        is_shown = batch_size == 1 and {q_length, k_length} <= lengths
        kind: Kind | None = _kind(observed.call) if is_shown else None
        if loaded.has_encoder and not is_shown:
            kind = "self" if observed.module in encoder else "cross" if k_length == source_length else "masked"
        found.append(_Found(number, observed, is_shown, kind, *(running[0] if running else (None, None))))

    with modules_hooked(loaded.model, end, begin):
        run_hooked(loaded, few_tokens(loaded, source_length, target_length), hook, on_missed=on_missed)
    return found


def _without_repeats(found: Sequence[_Found]) -> list[_Found]:
    """Return the attentions without further streams of the same module (ProphetNet's n-grams), and without the same
    weights a second time, which DiffLlama multiplies by the two halves of its values."""
    kept: list[_Found] = []
    for one in found:
        before = [other for other in kept if other.run == one.run and other.observed.module is one.observed.module]
        call = one.observed.call
        is_again = isinstance(call, AttentionWeights) and any(
            isinstance(other.observed.call, AttentionWeights) and torch.equal(other.observed.call.given, call.given)
            for other in before
        )
        if not is_again and (one.is_shown or not any(other.is_shown for other in before)):
            kept.append(one)
    return kept


def _has_parts(found: Sequence[_Found]) -> bool:
    """Return whether an attention runs several times within a layer: each run may be a part, as in DiffLlama."""
    runs = [(one.run, id(one.observed.module), one.kind) for one in found if one.run is not None]
    return len(set(runs)) < len(runs)


def _numbered(found: Sequence[_Found]) -> tuple[Site, ...]:
    """Return the attentions as sites, with the numbers of their layers. In some models not every layer has one.

    If a layer's number is unknown, or not unique, as for ALBERT's one layer that runs repeatedly and for several lists
    of layers, the attentions of a kind are counted instead.
    """
    sites: list[Site] = []
    for one in found:
        numbers = [other.layer for other in found if other.kind == one.kind]
        is_own = None not in numbers and len(set(numbers)) == len(numbers)
        layer = one.layer if is_own else sum(site.kind == one.kind for site in sites)
        call = one.observed.call
        assert one.kind is not None
        assert layer is not None
        d_key = call.query.shape[3] if isinstance(call, AttentionCall) else 1
        sites.append(Site(one.kind, layer, call.shape[1], d_key, one.number))
    return tuple(sites)


def _kind(call: AttentionCall | AttentionWeights) -> Kind:
    _, _, q_length, k_length = call.shape
    if q_length != k_length:
        return "cross"
    visible = call.visible()
    later = torch.ones(q_length, k_length, dtype=torch.bool, device=call.device).triu(1)
    return "masked" if visible is not None and not bool((visible & later).any()) else "self"


def few_tokens(loaded: Loaded, source_length: int, target_length: int) -> Fields:
    """Return inputs of ordinary tokens for the model, and for its decoder if it has an encoder and a decoder."""
    usual = usual_ids(loaded.tokenizer, 1000)
    ids = torch.tensor([[usual[i % len(usual)] for i in range(source_length)]], device=loaded.device)
    fields = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return fields | {"decoder_input_ids": ids[:, :target_length]} if loaded.has_encoder else fields


def _follows_eager(loaded: Loaded) -> bool:
    """Return whether the outputs of the model's own eager function are those of the observed calls; NaN is ignored."""
    differences: list[Tensor] = []

    def compare(observed: ObservedCall) -> None:
        assert isinstance(observed.call, AttentionCall)
        assert observed.output is not None
        differences.append((observed.call.output() - observed.output).abs().max() / observed.output.abs().max())

    with hooked(compare, eagerly=True):
        run(loaded, few_tokens(loaded, *LENGTHS[0]))
    same = max(_TOLERANCE, _ROUNDINGS * torch.finfo(loaded.model.dtype).eps)
    return not any(bool(difference > same) for difference in differences)

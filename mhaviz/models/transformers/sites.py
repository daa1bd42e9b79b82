"""Finds the layer and kind of each attention of a model, by running it on a few tokens: nothing is assumed of it."""

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
"""Tokens that an encoder and a decoder read: the two sides of an attention are told apart by how many there are.

What is recorded is of the tokens if it has as many queries and keys as there are tokens, each time.
"""

_SAME, _ROUNDINGS = 1e-3, 4
"""Outputs that differ by more than this share, or by more roundings of a coarse type, were made by another rule."""


@dataclass(frozen=True)
class _Found:
    """An attention that has run, in which layer, and of which kind.

    Attributes:
        number, observed: the attention; see ``run.Hook``.
        is_shown: whether its queries and keys are the tokens that were read.
        kind: None: not known.
        layer: the place of the outermost layer that ran in the list that holds it; None: it is in none.
        run: counts what has begun to run: a layer that runs again has another.
    """

    number: int
    observed: ObservedCall
    is_shown: bool
    kind: Kind | None
    layer: int | None
    run: int | None


def find_sites(loaded: Loaded) -> Loaded:
    """The same model with its attentions, seen in the way that shows most: through the interface, or recorded.

    Raises:
        MhavizError: it has no attention, or none that could be drawn, or does not read text.
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
        raise MhavizError(f"{loaded.name} ({loaded.type}) has no attention to be shown")
    return best


def _probed(loaded: Loaded, on_missed: OnMissed) -> Loaded:
    """With what runs for a few tokens; nothing where it is not known what kind of attention would be missing."""
    found, *others = (_found(loaded, on_missed, *lengths) for lengths in LENGTHS[: 1 if loaded.by_interface else None])
    for other in others:
        if len(other) != len(found):
            return loaded
        found = [one if again.is_shown else again for one, again in zip(found, other, strict=True)]
    found = _main_ones(found)
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
    """Every attention that runs for so many tokens."""
    lengths = {source_length, target_length} if loaded.has_encoder else {source_length}
    encoder = set(loaded.model.get_encoder().modules()) if loaded.has_encoder else set()
    found: list[_Found] = []
    layers: dict[nn.Module, int] = {}  # attentions that share their weights do not know in which layer they run
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


def _main_ones(found: Sequence[_Found]) -> list[_Found]:
    """Without the other streams of an attention (ProphetNet's n-grams), and the same weights by hand once more.

    DiffLlama multiplies them by two halves of the values.
    """
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
    """Whether an attention runs several times within a layer, as a hook then sees parts of one, such as DiffLlama's."""
    runs = [(one.run, id(one.observed.module), one.kind) for one in found if one.run is not None]
    return len(set(runs)) < len(runs)


def _numbered(found: Sequence[_Found]) -> tuple[Site, ...]:
    """With the numbers of their layers: in some models not every layer has an attention.

    Counted where a number is not known, or stands for several: of a layer that runs again and again, as ALBERT's, or of
    lists one after the other.
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
    """So many usual tokens, and those that a decoder beside an encoder reads."""
    usual = usual_ids(loaded.tokenizer, 1000)
    ids = torch.tensor([[usual[i % len(usual)] for i in range(source_length)]], device=loaded.device)
    fields = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return fields | {"decoder_input_ids": ids[:, :target_length]} if loaded.has_encoder else fields


def _follows_eager(loaded: Loaded) -> bool:
    """Whether the model's own eager function gives what we know its attentions to be; NaN is like any number."""
    differences: list[Tensor] = []

    def compare(observed: ObservedCall) -> None:
        assert isinstance(observed.call, AttentionCall)
        assert observed.output is not None
        differences.append((observed.call.output() - observed.output).abs().max() / observed.output.abs().max())

    with hooked(compare, eagerly=True):
        run(loaded, few_tokens(loaded, *LENGTHS[0]))
    same = max(_SAME, _ROUNDINGS * torch.finfo(loaded.model.dtype).eps)
    return not any(bool(difference > same) for difference in differences)

"""Finds the layer and kind of each attention of a model, by running it on a few tokens: nothing is assumed of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.errors import MhavizError
from mhaviz.models.pretrained.config_fields import wrong_field
from mhaviz.models.pretrained.hooks import AttentionRun, attention_class, field_of, form_of_its_own, run_hooked
from mhaviz.models.pretrained.loading import Loaded, run_eagerly
from mhaviz.models.pretrained.reading import usual_ids
from mhaviz.records import Kind, Site

SOURCE_LENGTH, TARGET_LENGTH = 4, 3
"""Tokens that an encoder and a decoder read: the two sides of an attention are told apart by how many there are."""

_SAME = 1e-2
"""Weights that differ by more than this were made by another rule; half precision differs by less."""


@dataclass(frozen=True)
class RunningLayer:
    """One run of a layer.

    Attributes:
        number: its place in the list that holds it.
        run: counts the layers that have begun to run; a layer that runs again has another.
    """

    number: int
    run: int


@dataclass(frozen=True)
class _Found:
    """An attention that has run, in which layer, and of which kind; ``kind``: None if the model does not tell."""

    ran: AttentionRun
    kind: Kind | None
    running: RunningLayer | None

    @property
    def layer(self) -> int | None:
        """Its number; None: not known."""
        return self.ran.layer if self.running is None else self.running.number


def find_sites(loaded: Loaded) -> tuple[Loaded, tuple[Site, ...]]:
    """The attentions of a model; the model may have to run eagerly to show them.

    Raises:
        MhavizError: it has no attention, or none that could be drawn, or does not read text.
    """
    sites, unshown = _probe(loaded)
    if loaded.captured and sites and not loaded.model._supports_sdpa and not _follows_eager(loaded, sites):
        sites = []
    if loaded.captured and (unshown or not sites):
        eager = run_eagerly(loaded)
        given, not_given = _probe(eager)
        if len(given) > len(sites):
            loaded, sites, unshown = eager, given, not_given
    if not sites:
        if attention_class(loaded):
            raise form_of_its_own(loaded)
        config = loaded.config.get_text_config()
        if field_of(config, "num_hidden_layers") == 0:
            field = type(config).attribute_map.get("num_hidden_layers", "num_hidden_layers")
            raise wrong_field(loaded.name, field, "at least 1", 0)
        raise MhavizError(f"{loaded.name}, {loaded.type}, has no attention to be shown")
    return replace(loaded, unshown=tuple(unshown)), tuple(sites)


def _probe(loaded: Loaded) -> tuple[list[Site], list[Kind]]:
    """The attentions that run for a few tokens, and the kinds of those that cannot be shown."""
    found: list[_Found] = []

    def hook(ran: AttentionRun) -> None:
        call = ran.call
        if call is not None and not set(call.shape[2:]) <= {SOURCE_LENGTH, TARGET_LENGTH}:
            ran, call = replace(ran, call=None), None
        kind = ran.kind or (None if call is None else _kind(call))
        found.append(_Found(ran, kind, running[0] if running else None))

    with running_layers(loaded.model) as running:
        run_hooked(loaded, *_few_tokens(loaded), hook)
    unshown = {one.kind for one in found if one.ran.call is None}
    if None in unshown or _has_parts(found):
        return [], []
    shown = [one for one in found if one.kind not in unshown]
    kinds: tuple[Kind, ...] = ("self", "masked", "cross") if loaded.has_encoder else ()
    there = {one.kind for one in shown}
    return _numbered(shown), [kind for kind in kinds if kind not in there]


@contextmanager
def running_layers(model: nn.Module) -> Iterator[list[RunningLayer]]:
    """The layers of a model that run within, the modules in lists of modules: begun and not ended, the outermost first.

    A layer may hold lists of its own: of experts, or of what T5 calls layers. In hybrid models not every layer has an
    attention, and attentions that share their weights do not know in which layer they run.
    """
    running: list[RunningLayer] = []
    runs = count()

    def beginning(number: int) -> Any:
        return lambda module, args: running.append(RunningLayer(number, next(runs)))

    def ended(*_: Any) -> None:
        running.pop()

    hooks = []
    for modules in model.modules():
        if isinstance(modules, nn.ModuleList):
            for number, module in enumerate(modules):
                hooks.append(module.register_forward_pre_hook(beginning(number)))
                hooks.append(module.register_forward_hook(ended, always_call=True))
    try:
        yield running
    finally:
        for hook in hooks:
            hook.remove()


def _has_parts(found: Sequence[_Found]) -> bool:
    """Whether an attention runs several times within a layer, as a hook then sees parts of one, such as DiffLlama's."""
    runs = [(one.running.run, id(one.ran.module), one.kind) for one in found if one.running is not None]
    return len(set(runs)) < len(runs)


def _numbered(found: Sequence[_Found]) -> list[Site]:
    """With the numbers of their layers: in some models not every layer has an attention.

    Counted where a number is not known, or stands for several: of a layer that runs again and again, as ALBERT's, or of
    lists one after the other.
    """
    sites: list[Site] = []
    for one in found:
        numbers = [other.layer for other in found if other.kind == one.kind]
        is_own = None not in numbers and len(set(numbers)) == len(numbers)
        layer = one.layer if is_own else sum(site.kind == one.kind for site in sites)
        call = one.ran.call
        assert call is not None
        assert one.kind is not None
        assert layer is not None
        d_key = call.query.shape[3] if isinstance(call, AttentionCall) else 1
        sites.append(Site(one.kind, layer, call.shape[1], d_key, one.ran.number))
    return sites


def _kind(call: AttentionCall | AttentionWeights) -> Kind:
    _, _, q_length, k_length = call.shape
    if q_length != k_length:
        return "cross"
    visible = call.visible()
    later = torch.ones(q_length, k_length, dtype=torch.bool, device=call.device).triu(1)
    return "masked" if visible is not None and not bool((visible & later).any()) else "self"


def _few_tokens(loaded: Loaded) -> tuple[Tensor, None, Tensor | None]:
    usual = usual_ids(loaded.tokenizer, 1000)
    ids = torch.tensor([[usual[i % len(usual)] for i in range(SOURCE_LENGTH)]], device=loaded.device)
    return ids, None, ids[:, :TARGET_LENGTH] if loaded.has_encoder else None


def _follows_eager(loaded: Loaded, sites: Sequence[Site]) -> bool:
    """Whether a model that does not run on SDPA has no rule of its own that we do not know; NaN is like any number."""
    seen = _weights(loaded, sites)
    eager = run_eagerly(loaded)
    given, _ = _probe(eager)
    expected = _weights(eager, given)
    return set(seen) <= set(expected) and all(
        not bool(((weights - expected[attention]).abs() >= _SAME).any()) for attention, weights in seen.items()
    )


def _weights(loaded: Loaded, sites: Sequence[Site]) -> dict[tuple[Kind, int], Tensor]:
    """Of a few tokens, by kind and by place among those of a kind."""
    runs: dict[int, AttentionRun] = {}
    run_hooked(loaded, *_few_tokens(loaded), lambda one: runs.update({one.number: one}))
    placed: dict[tuple[Kind, int], Tensor] = {}
    for site in sites:
        call = runs[site.number].call
        assert call is not None
        placed[site.kind, sum(kind == site.kind for kind, _ in placed)] = call.weights()
    return placed

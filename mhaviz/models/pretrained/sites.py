"""Which attention is which: found out by letting the model read a few tokens, so that nothing is assumed of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.errors import MhavizError
from mhaviz.models.pretrained.capture import listening
from mhaviz.models.pretrained.config_fields import wrong_field
from mhaviz.models.pretrained.eager import UnknownFormError, given_attentions, weights_of
from mhaviz.models.pretrained.loading import Loaded, run_eagerly
from mhaviz.models.pretrained.reading import usual_ids
from mhaviz.models.pretrained.running_layers import RunningLayer, running_layers
from mhaviz.records import Kind, Site

SOURCE_LENGTH, TARGET_LENGTH = 4, 3
"""Tokens that an encoder and a decoder read: the two sides of an attention are told apart by how many there are."""

_SAME = 1e-2
"""Weights that differ by more than this were made by another rule; half precision differs by less."""


Call = AttentionCall | AttentionWeights


class _HeardEnoughError(MhavizError):
    """Ends a forward pass."""


class _OursError(MhavizError):
    """Carries what was raised by who hears of an attention, not by the model, through the model."""

    def __init__(self, raised: Exception) -> None:
        super().__init__(str(raised))
        self.raised = raised


@dataclass(frozen=True)
class _Found:
    """An attention that has run; ``call``: None if it is of a form that cannot be shown.

    Attributes:
        number: as in ``Site``.
        kind: likewise, if the model tells.
        layer: its number, if the model tells.
        running, module: the layer and the attention, where they can be seen.
    """

    number: int
    call: Call | None
    kind: Kind | None = None
    layer: int | None = None
    running: RunningLayer | None = None
    module: nn.Module | None = None


def run(loaded: Loaded, ids: Tensor, mask: Tensor | None, target_ids: Tensor | None, **asked: object) -> object:
    """One forward pass, without what stands on top of the last layer.

    Args:
        loaded: the model.
        ids: (batch_size, length).
        mask: (batch_size, length); 0 for padding; None: no padding.
        target_ids: (batch_size, target length), for a decoder beside an encoder.
        asked: what else to ask of the model.
    """
    model: nn.Module = loaded.model.base_model
    fields: dict[str, object] = {"input_ids": ids, "attention_mask": torch.ones_like(ids) if mask is None else mask}
    if target_ids is not None:
        fields["decoder_input_ids"] = target_ids
    if field_of(loaded.config, "use_cache") is not None:
        fields["use_cache"] = False
    with torch.no_grad(), loaded.running():
        return model(**fields, return_dict=True, **asked)


def hear(
    loaded: Loaded,
    ids: Tensor,
    mask: Tensor | None,
    target_ids: Tensor | None,
    heard: Callable[[int, Call, Tensor | None, nn.Module | None], None],
    last: int | None = None,
    only: Iterable[int] | None = None,
) -> None:
    """One forward pass; ``heard`` is told of each attention, by its number in the order in which they run.

    It is called with the inputs, and with the output and the module where they can be seen. What comes after the
    attention with the number ``last`` is not computed. ``only``: the numbers of those that can be shown; None: all.

    Raises:
        UnknownFormError: an attention cannot be shown.
    """
    shown = None if only is None else set(only)
    if not loaded.captured:
        outputs = run(loaded, ids, mask, target_ids, output_attentions=True)
        lengths = {ids.shape[1]} | ({target_ids.shape[1]} if target_ids is not None else set())
        for number, given in enumerate(given_attentions(outputs)):
            if shown is not None and number not in shown:
                continue
            try:
                call = weights_of(given.weights, lengths)
            except UnknownFormError:
                raise _form_of_its_own(loaded) from None
            heard(number, call, None, None)
        return
    numbers = count()

    def listen(module: nn.Module, call: AttentionCall, output: Tensor) -> None:
        number = next(numbers)
        if shown is None or number in shown:
            try:
                heard(number, call, output, module)
            except Exception as error:
                raise _OursError(error) from error
        if number == last:
            raise _HeardEnoughError

    try:
        with listening(listen), suppress(_HeardEnoughError):
            run(loaded, ids, mask, target_ids)
    except _OursError as error:
        raise error.raised from None


def find_sites(loaded: Loaded) -> tuple[Loaded, tuple[Site, ...]]:
    """The attentions of a model; the model may have to run eagerly to show them.

    Raises:
        MhavizError: it has no attention, or none that could be drawn, or does not read text.
    """
    sites, unshown = _probe(loaded)
    if loaded.captured and sites and not loaded.model._supports_sdpa and not _follows_eager(loaded, sites):
        sites = []
    if loaded.captured and (unshown or not sites):
        with _eagerly(loaded) as eager:
            given, not_given = _probe(eager)
        if len(given) > len(sites):
            loaded, sites, unshown = run_eagerly(loaded), given, not_given
    if not sites:
        if _attention_class(loaded):
            raise _form_of_its_own(loaded)
        config = loaded.config.get_text_config()
        if field_of(config, "num_hidden_layers") == 0:
            field = type(config).attribute_map.get("num_hidden_layers", "num_hidden_layers")
            raise wrong_field(loaded.name, field, "at least 1", 0)
        raise MhavizError(f"{loaded.name}, {loaded.type}, has no attention to be shown")
    return replace(loaded, unshown=tuple(unshown)), tuple(sites)


def field_of(config: Any, name: str) -> Any:
    """A field of a configuration; None if it has no such, or if each layer has its own."""
    try:
        return getattr(config, name, None)
    except RuntimeError:
        return None


def _form_of_its_own(loaded: Loaded) -> UnknownFormError:
    attention = _attention_class(loaded)
    named = f" ({attention})" if attention else ""
    return UnknownFormError(
        f"{loaded.name}, {loaded.type}, gives its attention in a form of its own{named}, and not as weights of queries "
        f"and keys: it cannot be drawn"
    )


def _attention_class(loaded: Loaded) -> str:
    """What the model calls its attention, in the innermost of what has the name; nothing if it has none."""
    names = {name: type(module).__name__ for name, module in loaded.model.base_model.named_modules()}
    attentions = [name for name, kind in names.items() if "attention" in kind.lower()]
    return names[max(attentions, key=lambda name: name.count("."))] if attentions else ""


def _probe(loaded: Loaded) -> tuple[list[Site], list[Kind]]:
    """The attentions that run for a few tokens, and the kinds of those that cannot be shown."""
    found = _listened(loaded) if loaded.captured else _given(loaded)
    unshown = {one.kind for one in found if one.call is None}
    if None in unshown or _has_parts(found):
        return [], []
    shown = [one for one in found if one.kind not in unshown]
    kinds: tuple[Kind, ...] = ("self", "masked", "cross") if loaded.has_encoder else ()
    there = {one.kind for one in shown}
    return _numbered(shown), [kind for kind in kinds if kind not in there]


def _listened(loaded: Loaded) -> list[_Found]:
    found: list[_Found] = []

    def heard(number: int, call: Call, output: Tensor | None, module: nn.Module | None) -> None:
        known = set(call.shape[2:]) <= {SOURCE_LENGTH, TARGET_LENGTH}
        found.append(
            _Found(number, call, _kind(call), None, layers.outermost, module) if known else _Found(number, None)
        )

    with running_layers(loaded.model) as layers:
        hear(loaded, *_few_tokens(loaded), heard)
    return found


def _given(loaded: Loaded) -> list[_Found]:
    found: list[_Found] = []
    outputs = run(loaded, *_few_tokens(loaded), output_attentions=True)
    for number, given in enumerate(given_attentions(outputs)):
        try:
            call = weights_of(given.weights, {SOURCE_LENGTH, TARGET_LENGTH})
        except UnknownFormError:
            found.append(_Found(number, None, given.kind, given.layer))
        else:
            found.append(_Found(number, call, given.kind or _kind(call), given.layer))
    return found


def _has_parts(found: Sequence[_Found]) -> bool:
    """Whether an attention runs several times within a layer: what is heard are parts of one, such as DiffLlama's."""
    runs = [(one.running.run, id(one.module), one.kind) for one in found if one.running is not None]
    return len(set(runs)) < len(runs)


def _numbered(found: Sequence[_Found]) -> list[Site]:
    """With the numbers of their layers: in some models not every layer has an attention.

    Counted where a number is not known, or stands for several: of a layer that runs again and again, as ALBERT's, or of
    lists one after the other.
    """
    sites: list[Site] = []
    for one in found:
        numbers = [_layer_of(other) for other in found if other.kind == one.kind]
        is_own = None not in numbers and len(set(numbers)) == len(numbers)
        layer = _layer_of(one) if is_own else sum(site.kind == one.kind for site in sites)
        assert one.call is not None
        assert one.kind is not None
        assert layer is not None
        d_key = one.call.query.shape[3] if isinstance(one.call, AttentionCall) else 1
        sites.append(Site(one.kind, layer, one.call.shape[1], d_key, one.number))
    return sites


def _layer_of(one: _Found) -> int | None:
    return one.running.number if one.running is not None else one.layer


def _kind(call: Call) -> Kind:
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


@contextmanager
def _eagerly(loaded: Loaded) -> Iterator[Loaded]:
    """The model, which gives its weights itself within."""
    implementation = loaded.config._attn_implementation
    try:
        yield run_eagerly(loaded)
    finally:
        loaded.model.set_attn_implementation(implementation)


def _follows_eager(loaded: Loaded, sites: Sequence[Site]) -> bool:
    """Whether a model that does not run on SDPA has no rule of its own that we do not know; NaN is like any number."""
    seen = _weights(loaded, sites)
    with _eagerly(loaded) as eager:
        given, _ = _probe(eager)
        expected = _weights(eager, given)
    return set(seen) <= set(expected) and all(
        not bool(((weights - expected[attention]).abs() >= _SAME).any()) for attention, weights in seen.items()
    )


def _weights(loaded: Loaded, sites: Sequence[Site]) -> dict[tuple[Kind, int], Tensor]:
    """Of a few tokens, by kind and by place among those of a kind."""
    weights: dict[int, Tensor] = {}
    numbers = [site.number for site in sites]
    hear(loaded, *_few_tokens(loaded), lambda number, call, *_: weights.update({number: call.weights()}), only=numbers)
    placed: dict[tuple[Kind, int], Tensor] = {}
    for site in sites:
        placed[site.kind, sum(kind == site.kind for kind, _ in placed)] = weights[site.number]
    return placed

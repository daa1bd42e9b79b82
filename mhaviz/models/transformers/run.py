"""Runs a model with a hook on its attentions: what each computes with, or the weights that it makes by hand."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.attention.call import AttentionWeights
from mhaviz.errors import MhavizError
from mhaviz.models.transformers.load import Loaded
from mhaviz.models.transformers.sharing import gather_heads
from mhaviz.observe.attention_functions import Listener, listening
from mhaviz.observe.handlers import VisitorError
from mhaviz.observe.mode import Watch
from mhaviz.observe.modules import Place
from mhaviz.observe.observed import ObservedCall

Hook = Callable[[int, nn.Module, ObservedCall], None]
"""Is called with each attention of a forward pass as it runs: its number, in the order in which they run, the module,
and what it computes with."""

Fields = Mapping[str, Tensor]
"""What transformers calls what a model reads, each (batch_size, length): ``input_ids``; ``attention_mask``, 0 for
padding; ``decoder_input_ids``; ``token_type_ids``, for a model that tells texts apart by them."""


class SeenEnoughError(VisitorError, MhavizError):
    """Ends a forward pass of ``run``."""

    def __init__(self) -> None:
        Exception.__init__(self)  # it carries no other; itself, it would keep alive all frames that it passes


class _OursError(VisitorError, MhavizError):
    """Carries what was raised by a hook through the model, and through whatever takes it for the model's own."""


def run_hooked(
    loaded: Loaded,
    fields: Fields,
    hook: Hook,
    last: int | None = None,
    whole: bool = False,
) -> Any:
    """One forward pass, as of ``run``.

    What comes after the attention with the number ``last`` is not computed, and nothing is returned then.

    Raises:
        MhavizError: the model cannot be run; and whatever ``hook`` raises.
    """
    numbers = count()

    def listen(module: nn.Module, observed: ObservedCall) -> None:
        number = next(numbers)
        try:
            hook(number, module, gather_heads(observed) if module in loaded.shared else observed)
        except Exception as error:
            raise _OursError(error) from error
        if number == last:
            raise SeenEnoughError

    try:
        with listening(listen) if loaded.by_interface else _recording(loaded, fields["input_ids"].shape[1], listen):
            return run(loaded, fields, whole)
    except SeenEnoughError:
        return None
    except _OursError as error:
        raise error.raised from None


@contextmanager
def _recording(loaded: Loaded, length: int, listener: Listener) -> Iterator[None]:
    """Let ``listener`` see each attention of the model, however it is written; ``length``: tokens that it reads."""
    added = field_of(loaded.config, "prompt_length") or 0  # tokens that CPM-Ant puts before every text

    def on_observed(place: Place, observed: ObservedCall) -> None:
        call = observed.call
        if added and isinstance(call, AttentionWeights) and call.shape[2:] == (length + added, length + added):
            call = AttentionWeights(call.given[..., added:, added:], has_sink=True)
            observed = replace(observed, call=call, mixed=None)
        listener(loaded.model.get_submodule(place.name), observed)

    with Watch(on_observed, loaded.model).watching():
        yield


def run(loaded: Loaded, fields: Fields, whole: bool = False) -> object:
    """One forward pass, and what the model returns.

    Args:
        loaded: the model.
        fields: what it is called with.
        whole: with what stands on top of the last layer, such as what predicts tokens.
    """
    model: nn.Module = loaded.model if whole else loaded.model.base_model
    cache = {} if field_of(loaded.config, "use_cache") is None else {"use_cache": False}
    with torch.no_grad(), loaded.running():
        return model(**fields, **cache, return_dict=True)


def field_of(config: Any, name: str) -> Any:
    """A field of a configuration; None if it has no such, or if each layer has its own."""
    try:
        return getattr(config, name, None)
    except RuntimeError:
        return None


@contextmanager
def modules_hooked(
    model: nn.Module, on_module: Callable[[str, nn.Module, tuple[Any, ...], Any], None]
) -> Iterator[None]:
    """Let each module that has run within be seen: its name, itself, what it was called with, and what it has made."""
    with ExitStack() as stack:
        for name, module in model.named_modules():
            stack.enter_context(module.register_forward_hook(partial(on_module, name)))
        yield


def form_of_its_own(loaded: Loaded, advice: str = "") -> MhavizError:
    """An error of an attention that cannot be shown, and what to do about it."""
    attention = attention_class(loaded)
    named = f" ({attention})" if attention else ""
    return MhavizError(
        f"{loaded.name} ({loaded.type}) gives its attention in a form of its own{named}, and not as weights of queries "
        f"and keys: it cannot be drawn" + (f"; {advice}" if advice else "")
    )


def attention_class(loaded: Loaded) -> str:
    """What the model calls its attention, in the innermost of what has the name; nothing if it has none."""
    names = {name: type(module).__name__ for name, module in loaded.model.base_model.named_modules()}
    attentions = [name for name, kind in names.items() if "attention" in kind.lower()]
    return names[max(attentions, key=lambda name: name.count("."))] if attentions else ""

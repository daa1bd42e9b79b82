"""Runs a model with a hook on its attentions: what each computes with, or the weights that it makes by hand."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.attention.call import AttentionWeights
from mhaviz.errors import MhavizError
from mhaviz.models.transformers.load import Loaded
from mhaviz.models.transformers.sharing import gather_heads
from mhaviz.observe.attention_functions import OnObserved, hooked
from mhaviz.observe.handlers import VisitorError
from mhaviz.observe.mode import Watch
from mhaviz.observe.observed import ObservedCall

Hook = Callable[[int, ObservedCall], None]
"""Is called with each attention of a forward pass as it runs, and its number, in the order in which they run."""

Fields = Mapping[str, Tensor]
"""What transformers calls what a model reads, each (batch_size, length): ``input_ids``; ``attention_mask``, 0 for
padding; ``decoder_input_ids``; ``token_type_ids``, for a model that tells texts apart by them."""

OnMissed = Callable[[str], object]
"""Is told what looks like attention and is not seen, and why, a line each."""


class SeenEnoughError(VisitorError, MhavizError):
    """Ends a forward pass of ``run``, through the model and whatever takes errors for the model's own."""

    def __init__(self) -> None:
        Exception.__init__(self)  # it carries no other; itself, it would keep alive all frames that it passes


def run_hooked(
    loaded: Loaded,
    fields: Fields,
    hook: Hook,
    last: int | None = None,
    whole: bool = False,
    on_missed: OnMissed = lambda line: None,
) -> Any:
    """One forward pass, as of ``run``.

    What comes after the attention with the number ``last`` is not computed, and nothing is returned then.

    Raises:
        MhavizError: the model cannot be run; and whatever ``hook`` raises.
    """
    numbers = count()
    raised: list[Exception] = []

    def on_observed(observed: ObservedCall) -> None:
        number = next(numbers)
        try:
            hook(number, gather_heads(observed) if observed.module in loaded.shared else observed)
        except Exception as error:
            raised.append(error)
        if number == last or raised:
            raise SeenEnoughError

    length = fields["input_ids"].shape[1]
    try:
        with hooked(on_observed) if loaded.by_interface else _watching(loaded, length, on_observed, on_missed):
            return run(loaded, fields, whole)
    except SeenEnoughError:
        if raised:
            raise raised.pop() from None  # which keeps no frame alive
        return None


@contextmanager
def _watching(loaded: Loaded, length: int, hook: OnObserved, on_missed: OnMissed) -> Iterator[None]:
    """Let ``hook`` see each attention of the model, however it is written; ``length``: tokens that it reads."""
    added = field_of(loaded.model.config, "prompt_length") or 0  # tokens that CPM-Ant puts before every text

    def on_observed(observed: ObservedCall) -> None:
        call = observed.call
        if added and isinstance(call, AttentionWeights) and call.shape[2:] == (length + added, length + added):
            call = AttentionWeights(call.given[..., added:, added:], has_sink=True)
            observed = replace(observed, call=call, mixed=None)
        hook(observed)

    watch = Watch(on_observed, loaded.model)
    with watch.watching():
        yield
    for line in watch.missed:
        on_missed(line)


def run(loaded: Loaded, fields: Fields, whole: bool = False) -> object:
    """One forward pass, and what the model returns.

    Args:
        loaded: the model.
        fields: what it is called with.
        whole: with what stands on top of the last layer, such as what predicts tokens.
    """
    model: nn.Module = loaded.model if whole else loaded.model.base_model
    cache = {} if field_of(loaded.model.config, "use_cache") is None else {"use_cache": False}
    with torch.no_grad(), loaded.running():
        return model(**fields, **cache, return_dict=True)


def field_of(config: Any, name: str) -> Any:
    """A field of a configuration; None if it has no such, or if each layer has its own."""
    try:
        return getattr(config, name, None)
    except RuntimeError:
        return None


@dataclass(frozen=True)
class ModuleRun:
    """A module that has run.

    Attributes:
        name: within the model.
        module: itself.
        read: what it was called with; of all arguments by position what is looked at.
        made: what it has returned.
    """

    name: str
    module: nn.Module
    read: Any
    made: Any


@contextmanager
def modules_hooked(
    model: nn.Module,
    on_end: Callable[[ModuleRun], None],
    on_begin: Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None] = lambda module, args, kwargs: None,
) -> Iterator[None]:
    """Let each module that runs within be seen: what it is called with as it begins, and all of it when it ends."""
    with ExitStack() as stack:
        for name, module in model.named_modules():
            stack.enter_context(module.register_forward_pre_hook(on_begin, with_kwargs=True))
            stack.enter_context(module.register_forward_hook(lambda *ran, name=name: on_end(ModuleRun(name, *ran))))
        yield


def form_of_its_own(loaded: Loaded, why: str) -> MhavizError:
    """An error of an attention that cannot be shown; ``why``, or what to do about it."""
    attention = attention_class(loaded)
    named = f" ({attention})" if attention else ""
    return MhavizError(
        f"{loaded.name} ({loaded.type}) gives its attention in a form of its own{named}, and not as weights of queries "
        f"and keys: it cannot be drawn" + (f"; {why}" if why else "")
    )


def attention_class(loaded: Loaded) -> str:
    """What the model calls its attention, in the innermost of what has the name; nothing if it has none."""
    names = {name: type(module).__name__ for name, module in loaded.model.base_model.named_modules()}
    attentions = [name for name, kind in names.items() if "attention" in kind.lower()]
    return names[max(attentions, key=lambda name: name.count("."))] if attentions else ""

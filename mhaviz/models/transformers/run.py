"""Running a model with a hook that gets each attention call, or weights that are computed by hand."""

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
from mhaviz.observe.mode import Observer
from mhaviz.observe.observed import ObservedCall

Hook = Callable[[int, ObservedCall], None]
"""Handler that is called with the number and the observed call of each attention as it runs, in that order."""

Fields = Mapping[str, Tensor]
"""Inputs of a model by transformers' names, each (batch_size, length): ``input_ids``; ``attention_mask``, 0 for
padding; ``decoder_input_ids``; ``token_type_ids``, for models that distinguish two texts by them."""

OnMissed = Callable[[str], object]
"""Handler that is called with a line for each operation that looks like attention and is not observed, and why."""


class SeenEnoughError(VisitorError, MhavizError):
    """Ends a forward pass of ``run`` early, through any exception handlers of the model."""

    def __init__(self) -> None:
        Exception.__init__(self)  # without a cause, which would keep alive all frames on its way


def run_hooked(
    loaded: Loaded,
    fields: Fields,
    hook: Hook,
    last: int | None = None,
    whole: bool = False,
    on_missed: OnMissed = lambda line: None,
    with_graph: bool = False,
) -> Any:
    """Run one forward pass as ``run`` does, with a hook on each attention.

    Args:
        loaded: the model.
        fields: inputs of the model.
        hook: called with each attention.
        last: number of the attention after which the pass ends, and None is returned; None: run all of it.
        whole, with_graph: as in ``run``.
        on_missed: called with a line for each attention that is not observed.

    Raises:
        MhavizError: the model cannot be run. An error of ``hook`` is raised as it is.
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
            return run(loaded, fields, whole, with_graph)
    except SeenEnoughError:
        if raised:
            raise raised.pop() from None  # so that no frame is kept alive
        return None


@contextmanager
def _watching(loaded: Loaded, length: int, hook: OnObserved, on_missed: OnMissed) -> Iterator[None]:
    """Call ``hook`` with each attention that runs, however it is written; ``length``: number of input tokens."""
    added = field_of(loaded.model.config, "prompt_length") or 0  # tokens that CPM-Ant prepends to every text

    def on_observed(observed: ObservedCall) -> None:
        call = observed.call
        if added and isinstance(call, AttentionWeights) and call.shape[2:] == (length + added, length + added):
            call = AttentionWeights(call.given[..., added:, added:], has_sink=True)
            observed = replace(observed, call=call, weighted=None)
        hook(observed)

    observer = Observer(on_observed, loaded.model)
    with observer.watching():
        yield
    for line in observer.missed:
        on_missed(line)


def run(loaded: Loaded, fields: Fields, whole: bool = False, with_graph: bool = False) -> object:
    """Run one forward pass, and return the model's output.

    Args:
        loaded: the model.
        fields: inputs of the model.
        whole: whether to run the head after the last layer, such as a language modelling head.
        with_graph: whether autograd records the pass, from the embeddings on.
    """
    model: nn.Module = loaded.model if whole else loaded.model.base_model
    cache = {} if field_of(loaded.model.config, "use_cache") is None else {"use_cache": False}
    with _from_embeddings(loaded.model) if with_graph else torch.no_grad(), loaded.running():
        return model(**fields, **cache, return_dict=True)


@contextmanager
def _from_embeddings(model: nn.Module) -> Iterator[None]:
    """Record a graph that begins at the embeddings. Other parameters have no gradients, as these hold activations."""
    if any(x.is_inference() for x in model.parameters()):
        raise MhavizError("expected a model with gradients, got one made in inference_mode; load it outside of that")
    embeddings = [part for part in model.modules() if isinstance(part, nn.Embedding)]
    begin = {id(x) for part in embeddings for x in part.parameters(recurse=False)}
    with graph_from(model, lambda x: not begin or id(x) in begin):
        yield


@contextmanager
def graph_from(model: nn.Module, is_begin: Callable[[nn.Parameter], bool]) -> Iterator[None]:
    """Record a graph that begins at some parameters, and at inputs with gradients; then restore the parameters.

    ``is_begin``: returns whether the graph begins at a parameter.
    """
    before = [(x, x.requires_grad) for x in model.parameters() if x.is_floating_point()]
    try:
        for x, _ in before:
            x.requires_grad_(is_begin(x))
        with torch.enable_grad():
            yield
    finally:
        for x, requires_grad in before:
            x.requires_grad_(requires_grad)


def field_of(config: Any, name: str) -> Any:
    """Return a field of a configuration; None if there is none, or if each layer has its own."""
    try:
        return getattr(config, name, None)
    except RuntimeError:
        return None


@dataclass(frozen=True)
class ModuleRun:
    """One run of a module.

    Attributes:
        name: name of the module in the model.
        module: the module.
        read: its positional arguments, or the one of interest.
        made: its result.
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
    """Call handlers before and after each module of the model that runs within the context.

    Args:
        model: the model.
        on_end: called with each run of a module, after it.
        on_begin: called with a module, its arguments and its keyword arguments, before it runs.
    """
    with ExitStack() as stack:
        for name, module in model.named_modules():
            stack.enter_context(module.register_forward_pre_hook(on_begin, with_kwargs=True))
            stack.enter_context(module.register_forward_hook(lambda *ran, name=name: on_end(ModuleRun(name, *ran))))
        yield


def form_of_its_own(loaded: Loaded, why: str) -> MhavizError:
    """Return the error for an attention that cannot be shown; ``why``: the reason, or what to do about it."""
    attention = attention_class(loaded)
    named = f" ({attention})" if attention else ""
    return MhavizError(
        f"{loaded.name} ({loaded.type}) computes attention in a form of its own{named}, and not as weights of queries "
        f"and keys: it cannot be drawn" + (f"; {why}" if why else "")
    )


def attention_class(loaded: Loaded) -> str:
    """Return the class name of the innermost attention module; empty if no class has attention in its name."""
    names = {name: type(module).__name__ for name, module in loaded.model.base_model.named_modules()}
    attentions = [name for name, kind in names.items() if "attention" in kind.lower()]
    return names[max(attentions, key=lambda name: name.count("."))] if attentions else ""

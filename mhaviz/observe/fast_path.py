"""Observe layers of ``torch.nn`` that take the fast path: they run in one step and call no attention function.

PyTorch takes the fast path in inference, but not while a mode is active. Without it, the last digits of a layer's
output differ, and so does its output for padding, which is 0 on the fast path. So such a layer runs as in the program,
and once more to be observed. The softmax of a query that sees no key is NaN on the fast path alone, which is said.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack

from mhaviz.observe.handlers import VisitorError, below_modes, one_line, unseen
from mhaviz.observe.replacing import replaced

LAYERS = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
"""Layers that have a fast path."""

_ALONE_NAN = (
    "its output is NaN on PyTorch's fast path, as where a query sees no key; drawn is what it computes without, where "
    "such a query weighs nothing"
)

_local = threading.local()


@contextmanager
def beside_fast_path(
    is_ours: Callable[[Any], bool], miss: Callable[[str], None], on_result: Callable[[Any, Any], None]
) -> Iterator[None]:
    """Run these layers a second time, where their functions are seen.

    Args:
        is_ours: returns whether a mode belongs to a recording. Modes of the program keep PyTorch from its fast path as
            well.
        miss: called with a message about a layer that could not be observed.
        on_result: called with the output of a layer, and with its output when it was observed.
    """
    with ExitStack() as stack:
        for layer in LAYERS:
            stack.enter_context(replaced(layer, "forward", lambda forward: _beside(forward, is_ours, miss, on_result)))
        yield


def _beside(
    forward: Callable[..., Any],
    is_ours: Callable[[Any], bool],
    miss: Callable[[str], None],
    on_result: Callable[[Any, Any], None],
) -> Callable[..., Any]:
    @wraps(forward)
    def run(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if getattr(_local, "is_within", False) or not _may_be_fast(module, (*args, *kwargs.values()), is_ours):
            return forward(module, *args, **kwargs)
        _local.is_within = True
        try:
            with torch._C.DisableTorchFunction():
                result = forward(module, *args, **kwargs)
            try:
                with torch.no_grad(), below_modes(), _same_random_numbers(module):
                    observed = forward(module, *args, **kwargs)
                    on_result(result, observed)
                with unseen():
                    is_nan = _has_nan(result) and not _has_nan(observed)
                if is_nan:
                    miss(f"{type(module).__name__}: {_ALONE_NAN}")
            except VisitorError:
                raise
            except Exception as error:
                miss(f"{type(module).__name__}: not shown, {one_line(error)}")
        finally:
            _local.is_within = False
        return result

    return run


def _has_nan(result: Tensor | tuple[Tensor, Tensor | None]) -> bool:
    output = result if isinstance(result, Tensor) else result[0]
    return bool((output.values() if output.is_nested else output).isnan().any())


def _may_be_fast(module: nn.Module, given: Sequence[Any], is_ours: Callable[[Any], bool]) -> bool:
    """Return whether PyTorch may take its fast path when nothing is recorded. Otherwise nothing has to run twice."""
    modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    if module.training or not modes or not all(is_ours(mode) for mode in modes):
        return False
    attention = next((one for one in module.modules() if isinstance(one, nn.MultiheadAttention)), None)
    if attention is None or not attention.batch_first or attention.num_heads % 2:
        return False
    tensors = [*module.parameters(), *(x for x in given if isinstance(x, Tensor))]
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        return False
    # The program's own code must not run twice.
    return not any(_runs_code_of_program(one) for one in module.modules() if one is not module)


def _runs_code_of_program(module: nn.Module) -> bool:
    is_of_pytorch = type(module).forward.__module__.startswith("torch.")
    return bool(module._forward_hooks or module._forward_pre_hooks) or not is_of_pytorch


@contextmanager
def _same_random_numbers(module: nn.Module) -> Iterator[None]:
    """Keep the random numbers of a program that has only dropout in training mode, as for estimates of uncertainty."""
    if not any(one.training for one in module.modules()):
        yield
        return
    devices = {x.get_device() for x in module.parameters() if x.is_cuda}
    with torch.random.fork_rng(devices):
        yield

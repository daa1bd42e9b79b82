"""Run a layer, and keep what the observer has seen of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.attention.call import AttentionCall
from mhaviz.checks.attentions import Seen, attentions_of
from mhaviz.checks.layers import Layer, named_outputs_of, output_of
from mhaviz.observe.mode import Watch
from mhaviz.observe.observed import ObservedCall
from mhaviz.observe.steps import Step


@dataclass
class Pass:
    """A run of a layer.

    Attributes:
        output: (batch_size, q_length, d_model), without its graph.
        steps: steps of its attentions, with their graphs.
        graph: the output with its graph.
        of_kernels: weights of its fused attentions, (batch_size, n_heads, q_length, k_length), as a recording has them.
        named: tensors that the layer has returned by names, with their graphs.
    """

    output: Tensor
    graph: Tensor
    steps: list[Step] = field(default_factory=list)
    of_kernels: list[Tensor] = field(default_factory=list)
    named: list[Tensor] = field(default_factory=list)

    @cached_property
    def attentions(self) -> list[Seen]:
        """Its attentions, in the order of their values."""
        return attentions_of(self.steps)

    def weights(self, number: int) -> Tensor | None:
        """Return the weights of an attention, (batch_size, n_heads, q_length, k_length), float32; None: not known."""
        seen, A = self.attentions[number], self.attentions[number].weights_by_head(len(self.output))
        if seen.fused is not None:
            before = sum(one.fused is not None for one in self.attentions[:number])
            n_kernels = sum(one.fused is not None for one in self.attentions)
            A = self.of_kernels[before] if len(self.of_kernels) == n_kernels else None
        return A.float() if A is not None and len(A) == len(self.output) else None


class Runner:
    """Runs a layer, under the same random numbers each time, and watches it if asked.

    Args:
        layer: the layer.
        seed: seed of the random numbers that the layer may draw.
    """

    def __init__(self, layer: Layer, seed: int) -> None:
        self.layer, self._seed = layer, seed
        self._steps: list[Step] = []
        self._of_kernels: list[Tensor] = []
        self._watch = Watch(self._observed, on_step=lambda step: self._steps.append(step))

    def watched(self, x: Tensor, **given: Any) -> Pass:
        """Return a run with its steps."""
        self._steps, self._of_kernels = [], []
        torch.manual_seed(self._seed)
        with self._watch.watching(), torch.enable_grad():
            # Inputs with a graph, so that it reaches layers without parameters; no leaves, which may not be changed.
            given |= {name: one.clone().requires_grad_() * 1 for name, one in given.items() if name == "memory"}
            returned = self.layer.returned(x.clone().requires_grad_() * 1, **given)
        output = output_of(returned, self.layer.name)
        return Pass(output.detach().cpu().clone(), output, self._steps, self._of_kernels, named_outputs_of(returned))

    def output(self, x: Tensor, seed: int | None = None, **given: Any) -> Tensor:
        """Return the output alone, without its graph; ``seed``: of the random numbers, None for those of each pass."""
        torch.manual_seed(self._seed if seed is None else seed % 2**63)
        with torch.no_grad():
            for name, one in given.items():  # the layer may change what it is given
                given[name] = one.clone() if isinstance(one, Tensor) else one
            return self.layer(x.clone(), **given).detach().cpu().clone()

    @property
    def unseen(self) -> list[str]:
        """What the observer could not follow, one line each."""
        return self._watch.missed

    def _observed(self, observed: ObservedCall) -> int | None:
        if isinstance(observed.call, AttentionCall):
            self._of_kernels.append(observed.call.weights().cpu())
        return None


@contextmanager
def in_eval(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Put modules in evaluation mode, and put back the mode and the buffers that each had, such as a cache of keys."""
    each = [
        (one, one.training, {name: (x, x.clone()) for name, x in one.named_buffers(recurse=False)})
        for module in modules
        for one in module.modules()
    ]
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for one, is_training, buffers in each:
            one.training = is_training
            for name, (x, before) in buffers.items():
                one._buffers[name] = x
                if not torch.equal(x, before):
                    with torch.no_grad():
                        x.copy_(before)


def changes(before: Tensor, after: Tensor) -> Tensor:
    """Return which numbers differ by more than rounding: bool, in their shape. NaN equals NaN.

    A kernel computes a number of the output from the same inputs in the same order, whatever its neighbours are, so
    that a number that does not depend on a change stays the same to the last digits.
    """
    size = before[before.isfinite()].abs().amax() if bool(before.isfinite().any()) else before.new_tensor(1.0)
    rounding = max(_ROUNDING, torch.finfo(before.dtype).eps)
    differs = (after - before).abs() > rounding * size.clamp(min=1e-3)
    return differs | (before.isnan() != after.isnan()) | (before.isinf() != after.isinf())


def are_close(a: Tensor, b: Tensor) -> bool:
    """Return whether outputs of the same shape are the same, where kernels may have summed in another order."""
    size = b[b.isfinite()].abs().amax() if bool(b.isfinite().any()) else b.new_tensor(1.0)
    tolerance = max(1e-4, 32 * torch.finfo(b.dtype).eps)
    return torch.allclose(a.float(), b.float(), rtol=0, atol=tolerance * float(size), equal_nan=True)


_ROUNDING = 2e-6
"""Relative difference of float32 numbers that were summed in another order. That of half precision is one digit."""

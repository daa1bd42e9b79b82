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
from mhaviz.observe.mode import Observer
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
        mixed: numbers of the attentions whose first axis is not that of sentences.
    """

    output: Tensor
    graph: Tensor
    steps: list[Step] = field(default_factory=list)
    of_kernels: list[Tensor] = field(default_factory=list)
    named: list[Tensor] = field(default_factory=list)
    mixed: set[int] = field(default_factory=set)

    @cached_property
    def attentions(self) -> list[Seen]:
        """Its attentions, in the order of their values."""
        return attentions_of(self.steps)

    def weights(self, number: int) -> Tensor | None:
        """Return the weights of an attention, (batch_size, n_heads, q_length, k_length), float32; None: not known."""
        seen, A = self.attentions[number], None
        if number not in self.mixed:
            A = seen.weights_by_head(len(self.output))
        if seen.fused is not None:
            before = sum(one.fused is not None for one in self.attentions[:number])
            n_kernels = sum(one.fused is not None for one in self.attentions)
            A = self.of_kernels[before] if len(self.of_kernels) == n_kernels else None
        return A.float() if A is not None and len(A) == len(self.output) else None

    def products(self, number: int) -> Tensor | None:
        """Return q·k of an attention, (batch_size, n_heads, q_length, k_length), float32; None: not known."""
        seen = self.attentions[number]
        return None if number in self.mixed else seen.by_head(seen.products, len(self.output))


class Runner:
    """Runs a layer, under the same random numbers each time, and watches it if asked.

    Args:
        layer: the layer.
        seed: seed of the random numbers that the layer may draw.

    Attributes:
        mixed: see ``Pass``.
    """

    def __init__(self, layer: Layer, seed: int) -> None:
        self.layer, self._seed = layer, seed
        self._steps: list[Step] = []
        self._of_kernels: list[Tensor] = []
        self.mixed: set[int] = set()
        self._observer = Observer(self._observed, on_step=lambda step: self._steps.append(step))

    def watched(self, x: Tensor, **given: Any) -> Pass:
        """Return a run with its steps."""
        self._steps, self._of_kernels = [], []
        torch.manual_seed(self._seed)
        with self._observer.watching(), torch.enable_grad():
            # Inputs with a graph, so that it reaches layers without parameters; no leaves, which may not be changed.
            given |= {name: one.clone().requires_grad_() * 1 for name, one in given.items() if name == "memory"}
            returned = self.layer.returned(x.clone().requires_grad_() * 1, **given)
        output = output_of(returned, self.layer.name)
        named = named_outputs_of(returned)
        return Pass(output.detach().cpu().clone(), output, self._steps, self._of_kernels, named, self.mixed)

    def output(self, x: Tensor, seed: int | None = None, **given: Any) -> Tensor:
        """Return the output alone, without its graph; ``seed``: of the random numbers, None for those of each pass."""
        torch.manual_seed(self._seed if seed is None else seed % 2**63)
        with torch.no_grad():
            for name, one in given.items():  # the layer may change what it is given
                given[name] = one.clone() if isinstance(one, Tensor) else one
            return self.layer(x.clone(), **given).detach().cpu().clone()

    def _observed(self, observed: ObservedCall) -> int | None:
        if isinstance(observed.call, AttentionCall):
            self._of_kernels.append(observed.call.weights().cpu())
        return None


@contextmanager
def as_before(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Put modules in evaluation mode, and put back the mode, the attributes and the buffers that each had.

    A layer may keep its last weights, a mask of the first input, or a cache of keys.
    """
    every = dict.fromkeys(one for module in modules for one in module.modules())
    attributes = {one: dict(vars(one)) for one in every}
    buffers = {one: {name: (x, x.clone()) for name, x in one.named_buffers(recurse=False)} for one in every}
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for one in every:
            for name in vars(one).keys() - attributes[one].keys():
                delattr(one, name)
            vars(one).update(attributes[one])
            for name, (x, before) in buffers[one].items():
                one._buffers[name] = x
                if not torch.equal(x, before):
                    with torch.no_grad():
                        x.copy_(before)

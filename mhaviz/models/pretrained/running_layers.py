"""Which layer of a model is running: its place in the list of layers, whatever the model calls its parts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import nn


@dataclass(frozen=True)
class RunningLayer:
    """One run of a layer.

    Attributes:
        number: its place in the list that holds it.
        run: counts the layers that have begun to run; a layer that runs again has another.
    """

    number: int
    run: int


@dataclass
class RunningLayers:
    """The layers that have begun to run and have not ended, the outermost first."""

    _begun: int = 0
    _running: list[RunningLayer] = field(default_factory=list)

    @property
    def outermost(self) -> RunningLayer | None:
        """The layer that holds all that runs now; None: nothing in a list of layers runs.

        A layer may hold lists of its own: of experts, or of what T5 calls layers.
        """
        return self._running[0] if self._running else None

    def begin(self, number: int) -> None:
        """A layer begins."""
        self._running.append(RunningLayer(number, self._begun))
        self._begun += 1

    def end(self) -> None:
        """It ends."""
        self._running.pop()


@contextmanager
def running_layers(model: nn.Module) -> Iterator[RunningLayers]:
    """Follow the layers of a model that runs within: the modules in lists of modules.

    In hybrid models not every layer has an attention, and attentions that share their weights do not know in which
    layer they run.
    """
    layers = RunningLayers()

    def beginning(number: int) -> Any:
        return lambda module, args: layers.begin(number)

    def ended(*_: Any) -> None:
        layers.end()

    hooks = []
    for modules in model.modules():
        if isinstance(modules, nn.ModuleList):
            for number, module in enumerate(modules):
                hooks.append(module.register_forward_pre_hook(beginning(number)))
                hooks.append(module.register_forward_hook(ended, always_call=True))
    try:
        yield layers
    finally:
        for hook in hooks:
            hook.remove()

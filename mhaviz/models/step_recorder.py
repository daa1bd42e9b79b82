"""Recording of the steps of a forward pass, with their shapes, memory, parameters and operations."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.results.trace import TraceStep

_aten = torch.ops.aten
_MOVES = {_aten.clone, _aten.copy_, _aten._to_copy, _aten._unsafe_view, _aten.contiguous}
_SOFTMAX_FLOPS = 5  # per weight: compare for the maximum, subtract it, exponentiate, add to the sum, divide by it


class StepRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A ``Step`` that also counts the operations and parameters between two steps.

    Use it as a context manager around the forward pass, and pass it to the layer as ``step``. On the meta device
    nothing is computed or allocated, and the record is the same.

    Args:
        model: module whose parameters are counted, each at its first use.
        values_up_to: largest number of elements of a tensor whose values are kept; 0: keep none.
    """

    def __init__(self, model: nn.Module, values_up_to: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[TraceStep] = []
        self._values_up_to = values_up_to
        self._axis_sizes: dict[str, int] = {}
        self._unused = {_storage(p): p.numel() for p in model.parameters()}
        self._made_by: dict[int, str] = {}  # name of the last step whose tensor has a storage
        self._alive: list[Tensor] = list(model.parameters())  # a freed storage's number may be used again
        self._fetched: set[int] = set()
        self._forget_operations()

    def _forget_operations(self) -> None:
        self._flops = 0
        self._only_moves = True
        self._parameters = 0
        self._read: dict[int, None] = {}  # storages in the order in which they were read

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self._read.update({_storage(leaf): None for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)})
        self._flops += _count_flops(func, args, kwargs, result)
        self._only_moves &= func.is_view or func.overloadpacket in _MOVES
        return result

    def __call__(self, definition: str, tensor: Tensor, axes: str) -> Tensor:
        """Record a step; see ``mhaviz.layer.steps.Step``.

        Raises:
            ArgumentError: the tensor's rank is not the number of axes, or an axis has another size than before.
            MhavizError: NaN or infinity in a tensor whose values are kept.
        """
        name, equation = definition.split(" = ", 1)
        names = tuple(axes.split())
        self._check_axes(name, names, tuple(tensor.shape))

        storage = _storage(tensor)
        memory: Literal["view", "copy", "computed"] = "computed"
        if storage in self._made_by:
            memory = "view"
        elif self._only_moves:
            memory = "copy"
        few = tensor.numel() <= self._values_up_to
        if few and bool((tensor.isnan() | tensor.isposinf()).any()):  # −∞ is the score of a hidden key
            raise MhavizError(f"{name} = {equation}: expected numbers, got NaN or infinity; make its inputs smaller")
        self.steps.append(
            TraceStep(
                name=name,
                equation=equation,
                axes=names,
                shape=tuple(tensor.shape),
                memory=memory,
                contiguous=tensor.is_contiguous(),
                strides=tuple(tensor.stride()),
                parameters=self._parameters + sum(self._unused.pop(read, 0) for read in self._read),
                flops=self._flops,
                bytes=0 if memory == "view" else tensor.numel() * tensor.element_size(),
                inputs=tuple(dict.fromkeys(self._made_by[read] for read in self._read if read in self._made_by)),
                values=tensor.detach().float().cpu().numpy().copy() if few else None,
            )
        )
        self._made_by[storage] = name
        self._alive.append(tensor)
        self._forget_operations()
        return tensor

    def note(self, *read: Tensor) -> None:
        """Add tensors that the next step is computed from, where the operations themselves were not recorded."""
        self._read.update({_storage(x): None for x in read})
        self._only_moves = False

    def note_fetched(self, module: nn.Module) -> None:
        """Count the parameters of a module that are on the disk, once, as they are copied whenever it runs."""
        if id(module) not in self._fetched:
            self._fetched.add(id(module))
            self._parameters += sum(p.numel() for p in module.parameters() if p.is_meta)

    def _check_axes(self, name: str, axes: tuple[str, ...], shape: tuple[int, ...]) -> None:
        if len(axes) != len(shape):
            raise ArgumentError(f"{name}: expected {len(axes)} axes, {' × '.join(axes)}, got {len(shape)}: {shape}")
        for axis, size in zip(axes, shape, strict=True):
            earlier = self._axis_sizes.setdefault(axis, size)
            if size != earlier:
                raise ArgumentError(f"{name}: axis {axis} is {size} here, {earlier} earlier")


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _count_flops(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    packet = func.overloadpacket
    if not isinstance(result, Tensor) or not result.is_floating_point():
        return 0
    products: Callable[..., int] | None = flop_registry.get(packet)
    if products is not None:
        bias = result.numel() if packet is _aten.addmm else 0
        return int(products(*args, **kwargs, out_val=result)) + bias
    if packet is _aten._softmax:
        return _SOFTMAX_FLOPS * result.numel()
    moves = func.is_view or packet in _MOVES or packet is _aten.masked_fill
    return result.numel() if torch.Tag.pointwise in func.tags and not moves else 0

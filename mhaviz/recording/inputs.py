"""Sees what a program's models read: the numbers of tokens, and where in a sequence the patches of an image stand."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from torch.utils.weak import WeakIdKeyDictionary

from mhaviz.recording.looks import Follow, Look, guarded, unseen

_MOST_READ = 16
"""So many tensors of numbers are kept: a program reads a few at a time."""


@dataclass(frozen=True)
class ReadIds:
    """Numbers of tokens that a program has looked up.

    Attributes:
        ids: (batch_size, length), where the program has them.
        vocabulary: how many tokens it has.
        number: counts what was read.
        n_attentions: how many attentions had run before.
    """

    ids: Tensor
    vocabulary: int
    number: int
    n_attentions: int


@dataclass(frozen=True)
class Patches:
    """Patches of an image, in reading order, among the tokens of a sequence.

    Attributes:
        grid: rows and columns.
        places: of each patch in the sequence, of each example of a batch; one for all.
        number: counts what was read, as in ``ReadIds``.
        is_text: whether they stand in the place of tokens of a text.
    """

    grid: tuple[int, int]
    places: tuple[tuple[int, ...], ...]
    number: int
    is_text: bool = False


@dataclass(frozen=True)
class _Image:
    """Marks what a convolution has made of an image, and what is made of that until it is a sequence.

    Attributes:
        grid: rows and columns of patches.
        number: see ``Patches``.
        axes: of the rows and of the columns; of a sequence, of its tokens.
        places: of the patches in the sequence.
    """

    grid: tuple[int, int]
    number: int
    axes: tuple[int, ...]
    places: tuple[int, ...] = ()


class SeenInputs:
    """What was read last. ``on_error``: is told what goes wrong here.

    Attributes:
        ids: the last read last.
        n_read: how much was read.
        n_attentions: how many attentions have run.
    """

    def __init__(self, on_error: Callable[[Exception], None]) -> None:
        self._on_error = on_error
        self.ids: list[ReadIds] = []
        self.n_read = self.n_attentions = 0
        self._grids: dict[int, tuple[int, int]] = {}
        self._images = WeakIdKeyDictionary()
        self._patches: dict[int, Patches] = {}

    def looks(self) -> dict[Any, Look]:
        """Of each function that is looked at, what runs it."""
        convolutions = dict.fromkeys((F.conv2d, torch.conv2d), self._look(self._conv2d))
        followed = {func: self._if_image(follow) for functions, follow in _FOLLOWED for func in functions}
        puts = dict.fromkeys(_PUTS, self._look(self._put))
        return {F.embedding: self._look(self._embedding), **convolutions, **followed, **puts}

    def _look(self, follow: Follow) -> Look:
        return guarded(follow, self._on_error)

    def _if_image(self, follow: "_Follow") -> Look:
        """What runs a function, and follows an image through it if there is one."""

        def mark(func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
            self._mark(result, follow(self._images.get, args, kwargs, result))

        look, images = self._look(mark), self._images

        def run(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
            return look(func, args, kwargs) if len(images) else func(*args, **kwargs)

        return run

    def patches_of(self, length: int) -> Patches | None:
        """The patches of the image that was read last as a sequence of so many tokens, where they were followed to."""
        return self._patches.get(length)

    def _mark(self, x: Any, image: _Image | None) -> None:
        if image is None or not isinstance(x, Tensor):
            return
        self._images[x] = image
        if image.places:
            self._remember(x.shape[image.axes[0]], Patches(image.grid, (image.places,), image.number))

    def _remember(self, length: int, patches: Patches) -> None:
        self._patches.pop(length, None)
        self._patches[length] = patches
        if len(self._patches) > _MOST_READ:
            del self._patches[next(iter(self._patches))]

    def _put(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """Features of an image that take the place of tokens of a text, where a mask is true."""
        x = args[0] if args else kwargs.get("input")
        mask = args[1] if len(args) > 1 else kwargs.get("mask")
        features = args[2] if len(args) > 2 else kwargs.get("source")
        if not (isinstance(x, Tensor) and isinstance(mask, Tensor) and mask.dtype == torch.bool and x.ndim == 3):
            return
        if not isinstance(features, Tensor) or features.shape[-1:] != x.shape[-1:]:
            return
        if mask.shape[:2] != x.shape[:2] or mask.ndim > 3 or torch._C._functorch.is_functorch_wrapped_tensor(mask):
            return
        with unseen():
            rows = mask if mask.ndim == 2 else mask[..., 0]
            places = tuple(tuple(row.nonzero()[:, 0].tolist()) for row in rows)
        grid = self._grids.get(len(places[0]))
        self._patches.pop(x.shape[1], None)
        if grid is not None and len({len(one) for one in places}) == 1:
            self._remember(x.shape[1], Patches(grid, places, self.n_read, is_text=True))

    def _embedding(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        ids, weight = (*args, *(kwargs[name] for name in ("input", "weight") if name in kwargs))[:2]
        is_plain = type(ids) is Tensor and not torch._C._functorch.is_functorch_wrapped_tensor(ids)  # it outlives vmap
        if is_plain and 1 <= ids.ndim <= 2 and ids.numel() and not ids.is_meta:
            with unseen():
                rows = ids.reshape(-1, ids.shape[-1])
            self.n_read += 1
            self.ids.append(ReadIds(rows, weight.shape[0], self.n_read, self.n_attentions))
            del self.ids[:-_MOST_READ]

    def _conv2d(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """A convolution whose steps are as wide as its kernel cuts an image into patches."""
        weight = args[1] if len(args) > 1 else kwargs.get("weight")
        stride = args[3] if len(args) > 3 else kwargs.get("stride", 1)
        steps = tuple(stride) if isinstance(stride, list | tuple) else (stride, stride)
        if isinstance(weight, Tensor) and isinstance(result, Tensor) and result.ndim == 4:
            kernel = tuple(weight.shape[2:])
            if kernel == steps and kernel != (1, 1):
                rows, columns = result.shape[2:]
                self._grids.pop(rows * columns, None)
                self.n_read += 1
                self._grids[rows * columns] = rows, columns
                if len(self._grids) > _MOST_READ:
                    del self._grids[next(iter(self._grids))]
                self._mark(result, _Image((rows, columns), self.n_read, (2, 3)))


_Follow = Callable[[Callable[[Any], _Image | None], Sequence[Any], dict[str, Any], Any], _Image | None]
"""What the result of a function has of an image, by what marks its arguments."""


def _same(
    image_of: Callable[[Any], _Image | None], args: Sequence[Any], kwargs: dict[str, Any], y: Any
) -> _Image | None:
    """Of a function that leaves the tokens where they are."""
    for x in args:
        image = image_of(x) if isinstance(x, Tensor) else None
        if image is not None and isinstance(y, Tensor) and y.ndim == x.ndim:
            return image if all(y.shape[axis] == x.shape[axis] for axis in image.axes) else None
    return None


def _permuted(
    image_of: Callable[[Any], _Image | None], args: Sequence[Any], kwargs: dict[str, Any], y: Any
) -> _Image | None:
    """Of a function that puts axes elsewhere; where the strides cannot tell, the image is lost."""
    image = image_of(args[0]) if args else None
    if image is None:
        return None
    x = args[0]
    if x.ndim != y.ndim or len({*x.stride()}) != x.ndim:
        return None
    return replace(image, axes=tuple(y.stride().index(x.stride(axis)) for axis in image.axes))


def _reshaped(
    image_of: Callable[[Any], _Image | None], args: Sequence[Any], kwargs: dict[str, Any], y: Any
) -> _Image | None:
    """Of a function that joins or splits axes: rows and columns that become one axis are a sequence."""
    image = image_of(args[0]) if args else None
    if image is None or image.axes != tuple(range(image.axes[0], image.axes[-1] + 1)):
        return None
    before = math.prod(args[0].shape[: image.axes[0]])
    sizes = [args[0].shape[axis] for axis in image.axes]
    for axis in range(y.ndim):
        if math.prod(y.shape[:axis]) == before:
            if list(y.shape[axis : axis + len(sizes)]) == sizes:
                return replace(image, axes=tuple(range(axis, axis + len(sizes))))
            if len(sizes) > 1 and y.shape[axis] == math.prod(sizes):
                return replace(image, axes=(axis,), places=tuple(range(y.shape[axis])))
    return None


def _joined(
    image_of: Callable[[Any], _Image | None], args: Sequence[Any], kwargs: dict[str, Any], y: Any
) -> _Image | None:
    """Of a sequence that gets other tokens before it and behind it."""
    parts = args[0] if args else kwargs.get("tensors", ())
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    images = [(place, image) for place, x in enumerate(parts) if (image := image_of(x)) is not None]
    if len(images) != 1:
        return None
    place, image = images[0]
    if image.axes != (dim % y.ndim,):
        return None
    start = sum(x.shape[dim] for x in parts[:place])
    return replace(image, places=tuple(start + one for one in image.places))


def _cut(
    image_of: Callable[[Any], _Image | None], args: Sequence[Any], kwargs: dict[str, Any], y: Any
) -> _Image | None:
    """Of a sequence that loses tokens, but no patch."""
    image, index = image_of(args[0]), args[1] if isinstance(args[1], tuple) else (args[1],)
    if image is None or not image.places or not all(isinstance(one, slice) for one in index):
        return None
    axis = image.axes[0]
    start, stop, step = index[axis].indices(args[0].shape[axis]) if len(index) > axis else (0, args[0].shape[axis], 1)
    if step != 1 or not (start <= image.places[0] and image.places[-1] < stop):
        return None
    return replace(image, places=tuple(one - start for one in image.places))


def _functions(names: str) -> list[Any]:
    return [getattr(home, name) for home in (torch, Tensor, F) for name in names.split() if hasattr(home, name)]


_FOLLOWED: tuple[tuple[list[Any], _Follow], ...] = (
    (_functions("add __add__ __iadd__ __radd__ mul dropout layer_norm contiguous to float clone linear expand"), _same),
    ([*_functions("transpose permute swapaxes movedim"), Tensor.mT.__get__], _permuted),  # type: ignore[attr-defined]
    (_functions("flatten reshape view unflatten"), _reshaped),
    (_functions("cat concat concatenate"), _joined),
    ([Tensor.__getitem__], _cut),
)
_PUTS = [torch.masked_scatter, Tensor.masked_scatter, Tensor.masked_scatter_, Tensor.__setitem__]

"""Small vision and vision-language models, and what is true of attention over a photo in each: measured, not computed.

    for family in FAMILIES:
        run, truth = family.build(Square(0.5, 0.25, 0.75, 0.5))

``run()`` executes a program once: a photo goes through the library's image processor and the model. ``truth`` says of
every attention of the model which token is which region of the photo, and what weights the library's eager attention
has.

Regions are measured: a band of the photo is disturbed, the program runs again with the outputs of all attentions
zeroed, so that no token knows another, and what changes among the values that an attention weighs is what holds the
band. Bands of rows and bands of columns, one at a time: a token's region is where it changes by either. Nothing here
knows a layout.

The weights of every attention are trained for a few steps to look at the bright square of the photo, so that a map that
is drawn elsewhere is wrong at a glance.

    python tests/benchmarks/patch_families.py [--plain] [NAME …]

builds all, and checks the oracle against itself. torchvision, timm, einops and diffusers are used where they are there:
with torchvision, image processors are operations of torch, and PIL's and NumPy's without it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import importlib.util
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # zoo stands there

BANDS = 16
"""Bands of rows, and of columns, by which regions are measured."""
TOUCHED = 0.12
"""The share of its largest change from which a token holds a band."""
BLURRED = 0.3
"""The same where convolutions overlap."""
STEPS = 30
"""The most steps of training by which a model looks at the square: it ends when it does, see ENOUGH."""
ENOUGH = 0.8
"""The weight at the square from which training ends."""
WHOLE = 0.6
"""The share of the photo from which a token is no patch: it knows all of it."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Square:
    """A region of a photo, in fractions of its width and height."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def area(self) -> float:
        return max(self.right - self.left, 0.0) * max(self.bottom - self.top, 0.0)

    @property
    def centre(self) -> tuple[float, float]:
        """x and y."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def shared(self, other: Square) -> float:
        """Area of both."""
        return Square(
            max(self.left, other.left),
            max(self.top, other.top),
            min(self.right, other.right),
            min(self.bottom, other.bottom),
        ).area


@dataclass(frozen=True)
class Regions:
    """How much each token of each row changes with each band of one photo.

    Attributes:
        rows, columns: (rows of a batch, tokens, BANDS): the change by a band, as a share of the largest of any token.
        touched: the share of its largest change from which a token holds a band.
    """

    rows: Array
    columns: Array
    touched: float = TOUCHED

    @property
    def has_patches(self) -> NDArray[np.bool_]:
        """(rows of a batch, tokens): whether the token is a patch of this photo, and not of all of it."""
        rows, columns = self.rows.max(-1), self.columns.max(-1)  # a hundredth is what a convolution leaks
        down = (self.rows >= self.touched * rows[..., None]).mean(-1)
        held = down * (self.columns >= self.touched * columns[..., None]).mean(-1)
        return (rows > 0.05) & (columns > 0.05) & (held < WHOLE)

    @property
    def is_of_photo(self) -> NDArray[np.bool_]:
        """(rows of a batch, tokens): whether the token knows anything of this photo."""
        return (self.rows.max(-1) > 1e-3) | (self.columns.max(-1) > 1e-3)

    def map_of(self, row: int, token: int) -> Array:
        """(BANDS, BANDS): how much of the token is in each cell of the photo, at most 1."""
        down, across = self.rows[row, token], self.columns[row, token]
        return np.outer(down / max(down.max(), 1e-30), across / max(across.max(), 1e-30))

    def centre_of(self, row: int, token: int) -> tuple[float, float]:
        """x and y of the middle of what the token holds: sharper than its region where convolutions blur it."""
        places = (np.arange(BANDS) + 0.5) / BANDS
        across, down = self.columns[row, token] ** 2, self.rows[row, token] ** 2
        return float(across @ places / across.sum()), float(down @ places / down.sum())

    def region_of(self, row: int, token: int) -> Square | None:
        """Where in the photo the token is; None where it is no patch of it."""
        if not self.has_patches[row, token]:
            return None
        ends = []
        for profile in (self.columns[row, token], self.rows[row, token]):
            held = np.flatnonzero(profile >= self.touched * profile.max())
            ends.append((float(held[0] / BANDS), float((held[-1] + 1) / BANDS)))
        (left, right), (top, bottom) = ends
        return Square(left, top, right, bottom)


@dataclass(frozen=True)
class Seen:
    """An attention of the program, as the library computes it.

    Attributes:
        name: of the module that computes it, as ``named_modules`` has it.
        call: which of the calls of that module, from 0.
        weights: (rows of a batch, heads, queries, keys), of eager attention in float64.
        keys: regions of the keys, for each photo.
        queries: regions of the queries, for each photo; None where they could not be seen.
    """

    name: str
    call: int
    weights: Array
    keys: tuple[Regions, ...]
    queries: tuple[Regions, ...] | None

    @property
    def has_patches(self) -> bool:
        """Whether keys are patches of a photo: a map over the photo must be refused otherwise.

        They are not where most of those that know a photo know all of it, as latents and channels do.
        """
        return any(2 * one.has_patches.sum() > one.is_of_photo.sum() for one in self.keys)

    def tokens_at(self, square: Square, photo: int = 0, row: int = 0) -> list[int]:
        """The keys whose regions are in a region of the photo, or have it in theirs: several where there are tiles.

        Where no key is so by half, the one that is by most, and by a quarter.
        """
        shares = {}
        for token in range(self.weights.shape[-1]):
            region = self.keys[photo].region_of(row, token)
            if region:
                shares[token] = region.shared(square) / min(region.area, square.area)
        most = max(shares.values(), default=0.0)
        return [token for token, share in shares.items() if share >= min(0.5, max(most, 0.25))]

    def at(self, square: Square, row: int, query: int, head: int | None = None, photo: int = 0) -> float:
        """The weight at a region of the photo: of all its keys together."""
        weights = self.weights[row].mean(0) if head is None else self.weights[row, head]
        return float(weights[query, self.tokens_at(square, photo, row)].sum())

    def peak(self, row: int, query: int, head: int | None = None, photo: int = 0) -> tuple[int, Square] | None:
        """The key of the photo with the largest weight, and its region."""
        has = self.keys[photo].has_patches[row]
        if not has.any():
            return None
        weights = self.weights[row].mean(0) if head is None else self.weights[row, head]
        token = int(np.where(has, weights[query], -1).argmax())
        region = self.keys[photo].region_of(row, token)
        assert region is not None
        return token, region

    def expected(self, row: int, query: int, head: int | None = None, photo: int = 0) -> Array:
        """(BANDS, BANDS): the weight of the token that holds most of each cell; NaN where none holds half of it.

        Where a thumbnail and tiles hold a cell, of the tiles.
        """
        weights = self.weights[row].mean(0) if head is None else self.weights[row, head]
        regions = self.keys[photo]
        tokens = np.flatnonzero(regions.has_patches[row])
        if not len(tokens):
            return np.full((BANDS, BANDS), np.nan)
        held = np.stack([regions.map_of(row, int(token)) for token in tokens])
        areas = np.array([found.area if (found := regions.region_of(row, int(token))) else 1 for token in tokens])
        areas = np.where(held > 0.5, areas[:, None, None], np.inf)
        held[areas > 1.5 * areas.min(0)] = 0
        drawn: Array = np.where(np.isfinite(areas.min(0)), weights[query, tokens[held.argmax(0)]], np.nan)
        return drawn


@dataclass(frozen=True)
class Truth:
    """What is true of a program.

    Attributes:
        photos: what is given to the program, in its order.
        square: where the bright square is, in each photo.
        attentions: all that run, in their order.
        ids: of the text's tokens, (rows of a batch, tokens), where there is one.
        layout: how the tokens come about, in words.
        processor: the class that makes numbers of the photo, or "by hand".
        backend: what it computes with: "torch", "PIL" or "numpy".
        doubts: what is not as it must be of this very truth, in words.
    """

    photos: tuple[Any, ...]
    square: Square
    attentions: tuple[Seen, ...]
    ids: NDArray[np.int64] | None
    layout: str
    processor: str
    backend: str
    doubts: tuple[str, ...] = ()

    def planted(self, least: float = 0.5) -> list[tuple[Seen, int, int]]:
        """Attentions whose last query has this weight, in the mean of its heads, at the square: with row and photo."""
        found = []
        for seen in self.attentions:
            for photo in range(len(self.photos)):
                for row in range(len(seen.weights)):
                    if seen.tokens_at(self.square, photo, row) and seen.at(self.square, row, -1, photo=photo) > least:
                        found.append((seen, row, photo))
        return found

    def named(self, name: str) -> list[Seen]:
        """The calls of a module."""
        return [seen for seen in self.attentions if seen.name == name]


@dataclass(frozen=True)
class Program:
    """A model and how a photo gets into it.

    Attributes:
        model: what runs.
        inputs: arguments of the model, of photos: by the library's image processor.
        photos: sizes of the photos, (width, height).
        processor: what makes the numbers.
        layout: how the tokens come about, in words.
        call: what is called with the inputs; the model where None.
        mixing: classes of modules that mix tokens and are not seen: their outputs are zeroed too to measure regions.
        is_single: whether the model computes in float32, as it cannot in float64.
        steps: the most steps of training.
        kept: ends of names of attentions that are not zeroed: of patches of one token only, as a pooling.
        is_eager: whether other kernels of the library compute something else than eager attention here.
        repeats: how often each band is disturbed.
        is_blurred: whether convolutions that overlap blur what a token holds.
    """

    model: Any
    inputs: Callable[[list[Any]], Mapping[str, Any]]
    photos: Sequence[tuple[int, int]] = ((96, 96),)
    processor: Any = None
    layout: str = ""
    call: Callable[..., Any] | None = None
    mixing: tuple[str, ...] = ()
    is_single: bool = False
    repeats: int = 2
    is_blurred: bool = False
    steps: int = STEPS
    kept: tuple[str, ...] = ()
    is_eager: bool = False

    def given(self, photos: Sequence[Any]) -> Mapping[str, Any]:
        """Arguments of the model."""
        import torch

        given = self.inputs(list(photos))
        if not self.is_single:
            return given
        return {name: one.float() if one.dtype == torch.float64 else one for name, one in given.items()}

    def run(self, photos: Sequence[Any]) -> Any:
        """Execute it once."""
        return (self.call or self.model)(**self.given(photos))


@dataclass(frozen=True)
class Family:
    """A family of models.

    Attributes:
        name: of the family, and what is special of this program in brackets.
        kind: "vision-language" or "vision".
        needs: packages beside torch and transformers.
        make: builds the program; weights are random.
        refused: why no map of its text's attention can be drawn over the photo; "" where it must be drawn.
    """

    name: str
    kind: str
    needs: tuple[str, ...]
    make: Callable[[], Program] = field(repr=False)
    refused: str = ""

    @property
    def is_there(self) -> bool:
        """Whether what it needs is installed."""
        return all(importlib.util.find_spec(name) for name in self.needs)

    def build(
        self, square: Square, planted: bool = True, implementation: str = "sdpa"
    ) -> tuple[Callable[[], Any], Truth]:
        """A program that runs once at each call, and what is true of it.

        Args:
            square: where the bright square of the photo is.
            planted: whether the model is trained to look at it.
            implementation: which of the library's kernels the program uses, where it has several.
        """
        import torch

        load()
        import transformers

        transformers.utils.logging.set_verbosity_error()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            program = self.make()
            (program.model.float() if program.is_single else program.model.double()).eval()
            photos = [photo(square, size, seed) for seed, size in enumerate(program.photos)]
            keys, queries = measured(program, photos)
            doubts = tuple(doubts_of(keys, program, photos, square))
            if planted:
                names = [(call.name, call.index) for call in calls_of(program, photos)]
                plant(program, photos, dict(zip(names, keys, strict=True)), square)
            calls, ids = weighed(program, photos)
            found = tuple(
                Seen(call.name, call.index, flat(call.weights), keys[place], queries[place])
                for place, call in enumerate(calls)
            )
        name, backend = backend_of(program.processor)
        truth = Truth(tuple(photos), square, found, ids, program.layout, name, backend, doubts)

        if not program.is_eager and implementation != "eager" and hasattr(program.model, "set_attn_implementation"):
            with contextlib.suppress(ValueError):
                program.model.set_attn_implementation(implementation)

        def run() -> Any:
            with torch.no_grad():
                return program.run(photos)

        return run, truth


def backend_of(processor: Any) -> tuple[str, str]:
    """The name of an image processor, and what it computes with: "torch" or "PIL"."""
    if processor is None:
        return "by hand", "numpy"
    if isinstance(processor, str):
        return processor, "torch"
    bases = {base.__name__ for base in type(processor).__mro__}
    return type(processor).__name__, "torch" if "TorchvisionBackend" in bases else "PIL"


def load() -> None:
    """Make torchvision importable beside a torch without CUDA, where it is installed."""
    if "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return
    from zoo.timm_models import import_timm

    with contextlib.suppress(ImportError):
        import_timm()


# the photo


def photo(square: Square, size: tuple[int, int], seed: int = 0) -> Any:
    """A dim picture with a bright square, for PIL."""
    from PIL import Image

    width, height = size
    numbers = np.random.default_rng(seed)
    down, across = np.mgrid[0:height, 0:width]
    dim = np.stack([40 * down / height, 40 * across / width, 20 + 0 * down], -1)
    dim = dim + numbers.integers(0, 30, (height, width, 3))
    place = slice(round(square.top * height), round(square.bottom * height))
    dim[place, round(square.left * width) : round(square.right * width)] += 170
    return Image.fromarray(dim.astype(np.uint8))


def disturbed(picture: Any, place: tuple[slice, slice], seed: int) -> Any:
    """The photo with other colours in a region."""
    from PIL import Image

    pixels = np.asarray(picture).astype(np.int64)
    numbers = np.random.default_rng([7, seed])
    region = pixels[place]
    pixels[place] = (region + 128 + numbers.integers(-50, 50, region.shape)) % 256
    return Image.fromarray(pixels.astype(np.uint8))


def band(number: int, length: int) -> slice:
    """Pixels of a band."""
    return slice(round(number * length / BANDS), round((number + 1) * length / BANDS))


# what attentions compute


@dataclass
class Call:
    """A call of an attention: tensors are (rows of a batch, heads, tokens, width)."""

    name: str
    index: int
    query: Any
    value: Any
    weights: Any


class Watch:
    """Sees every attention of a model: the library's eager function, torch's fused one, or softmax and product."""

    def __init__(self, program: Program, zeroed: bool = False) -> None:
        self.zeroed, self.mixing, self.kept = zeroed, program.mixing if zeroed else (), program.kept
        self.modules = dict(program.model.named_modules())
        self.calls: list[Call] = []
        self.ids: Any = None
        self._within: list[str] = []
        self._softmax: Any = None
        self._query: Any = None

    def _add(self, name: str, query: Any, value: Any, weights: Any) -> None:
        module = self.modules.get(name)
        heads = getattr(module, "num_attention_heads", None) or getattr(module, "num_heads", None)

        def split(tensor: Any) -> Any:
            """(rows of a batch, heads, …) of (rows · heads, …), and of (examples, heads, windows, …)."""
            if tensor is None or tensor.dim() == 4:
                return tensor
            if tensor.dim() == 5:
                return tensor.transpose(1, 2).flatten(0, 1)
            return tensor.reshape(-1, heads, *tensor.shape[-2:]) if heads else tensor[None]

        query, value, weights = (split(tensor) for tensor in (query, value, weights))
        if query is not None and query.shape[-2] != weights.shape[-2]:
            query = None
        index = sum(call.name == name for call in self.calls)
        self.calls.append(Call(name, index, query, value, weights))

    def _mixed(self, output: Any, name: str) -> Any:
        """The output of an attention, which says nothing where it is zeroed."""
        return output * 0 if self.zeroed and not name.endswith(self.kept or "/") else output

    def _eager(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        names = {id(module): name for name, module in self.modules.items()}

        def attend(module: Any, query: Any, key: Any, value: Any, *args: Any, **options: Any) -> Any:
            kept, self._inside = getattr(self, "_inside", False), True
            try:
                output, weights = kernel(module, query, key, value, *args, **options)
            finally:
                self._inside = kept
            self._add(names.get(id(module), ""), query, value, weights)
            return self._mixed(output, names.get(id(module), "")), weights

        return attend

    def _fused(self, query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **options: Any) -> Any:
        import torch

        scale = options.get("scale")
        if options.get("enable_gqa"):
            key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
            value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
        scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
        if options.get("is_causal") or (len(args) > 1 and args[1]):
            causal = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            scores = scores.masked_fill(~causal, -math.inf)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        weights = weights / weights.sum(-1, keepdim=True)
        self._add(self._within[-1] if self._within else "", query, value, weights)
        return self._mixed(weights @ value, self._within[-1] if self._within else "")

    def _weighed(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def softmax(*args: Any, **options: Any) -> Any:
            output = kernel(*args, **options)
            if not getattr(self, "_inside", False):
                self._softmax = output
            return output

        return softmax

    def _product(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        def matmul(left: Any, right: Any, *args: Any, **options: Any) -> Any:
            output = kernel(left, right, *args, **options)
            if getattr(self, "_inside", False):
                return output
            softmax = self._softmax
            if softmax is not None and left.shape == softmax.shape and torch.allclose(left.double(), softmax.double()):
                self._add(self._within[-1] if self._within else "", self._query, right, left)
                self._softmax = self._query = None
                return self._mixed(output, self._within[-1] if self._within else "")
            self._query = left
            return output

        return matmul

    def _left(self, *_: Any) -> None:
        self._within.pop()

    @contextlib.contextmanager
    def watching(self) -> Iterator[Watch]:
        """See what runs within."""
        import torch
        from torch.nn import functional

        hooks = []
        for name, module in self.modules.items():
            hooks.append(module.register_forward_pre_hook(lambda *_, name=name: self._within.append(name)))
            hooks.append(module.register_forward_hook(self._left, always_call=True))
            if type(module).__name__ in self.mixing:
                hooks.append(module.register_forward_hook(lambda module, given, output: output * 0))
        with contextlib.ExitStack() as stack:
            for place in {type(module).__module__ for module in self.modules.values()}:
                code = sys.modules[place]
                if place.startswith("transformers") and hasattr(code, "eager_attention_forward"):
                    spy = self._eager(code.eager_attention_forward)
                    stack.enter_context(mock.patch.object(code, "eager_attention_forward", spy))
            stack.enter_context(mock.patch.object(functional, "scaled_dot_product_attention", self._fused))
            for where, name in ((functional, "softmax"), (torch, "softmax"), (torch.Tensor, "softmax")):
                stack.enter_context(mock.patch.object(where, name, self._weighed(getattr(where, name))))
            for where, name in ((torch, "matmul"), (torch, "bmm"), (torch.Tensor, "__matmul__")):
                stack.enter_context(mock.patch.object(where, name, self._product(getattr(where, name))))
            kept = torch.backends.mha.get_fastpath_enabled()
            torch.backends.mha.set_fastpath_enabled(False)
            try:
                yield self
            finally:
                torch.backends.mha.set_fastpath_enabled(kept)
                for hook in hooks:
                    hook.remove()


def calls_of(program: Program, photos: Sequence[Any], zeroed: bool = False, given: Any = None) -> list[Call]:
    """The attentions of a program, as it runs once."""
    import torch

    watch = Watch(program, zeroed)
    with torch.no_grad(), watch.watching():
        if given is None:
            program.run(photos)
        else:
            (program.call or program.model)(**given)
    return watch.calls


def flat(tensor: Any) -> Array:
    """(rows of a batch, heads, tokens, width), of fewer or more axes."""
    array: Array = tensor.detach().double().numpy()
    while array.ndim < 4:
        array = array[None]
    return array.reshape(-1, *array.shape[-3:])


def difference(one: Any, other: Any) -> Array:
    """How far the tokens of two runs are apart: (rows of a batch, tokens)."""
    apart: Array = np.sqrt(((flat(one) - flat(other)) ** 2).sum((1, 3)))
    return apart


def measured(
    program: Program, photos: Sequence[Any]
) -> tuple[list[tuple[Regions, ...]], list[tuple[Regions, ...] | None]]:
    """Regions of the keys, and of the queries, of each attention: for each photo."""
    base = calls_of(program, photos, zeroed=True)
    keys: list[list[Regions]] = [[] for _ in base]
    queries: list[list[Regions]] = [[] for _ in base]
    for number, picture in enumerate(photos):
        changes: list[list[list[Array]]] = [[[], []] for _ in base]
        asked: list[list[list[Array]]] = [[[], []] for _ in base]
        for axis, length in enumerate((picture.height, picture.width)):
            for one in range(BANDS):
                part = band(one, length)
                place = (part, slice(None)) if axis == 0 else (slice(None), part)
                for repeat in range(program.repeats):
                    seed = one * program.repeats + repeat
                    others = [disturbed(each, place, seed) if i == number else each for i, each in enumerate(photos)]
                    again = calls_of(program, others, zeroed=True)
                    assert [call.name for call in again] == [call.name for call in base], "another program ran"
                    for i, (call, was) in enumerate(zip(again, base, strict=True)):
                        changes[i][axis].append(difference(call.value, was.value))
                        if call.query is not None:
                            asked[i][axis].append(difference(call.query, was.query))
        for i in range(len(base)):
            keys[i].append(regions(changes[i], program))
            if asked[i][0]:
                queries[i].append(regions(asked[i], program))
    return [tuple(one) for one in keys], [tuple(one) or None for one in queries]


def regions(changes: Sequence[Sequence[Array]], program: Program) -> Regions:
    """Regions of what changes by bands of rows and of columns."""
    rows, columns = (np.stack(one, -1) for one in changes)
    rows, columns = (one.reshape(*one.shape[:2], BANDS, program.repeats).mean(-1) for one in (rows, columns))
    touched = BLURRED if program.is_blurred else TOUCHED
    return Regions(rows / max(rows.max(), 1e-9), columns / max(columns.max(), 1e-9), touched)


def targets(keys: tuple[Regions, ...], square: Square) -> Any:
    """(rows of a batch, keys): which hold the square of any photo; None where none does."""
    import torch

    shape = keys[0].rows.shape[:2]
    held = torch.zeros(shape, dtype=torch.bool)
    bare = Seen("", 0, np.zeros((1, 1, 1, shape[1])), keys, None)
    for row in range(shape[0]):
        for number, one in enumerate(keys):
            if one.has_patches[row].any():
                held[row, bare.tokens_at(square, number, row)] = True
    return held if held.any() else None


def plant(
    program: Program, photos: Sequence[Any], keys: Mapping[tuple[str, int], tuple[Regions, ...]], square: Square
) -> None:
    """Train the model for a few steps, so that the weights of every attention are on the square.

    Args:
        program, photos: what is trained, and with what.
        keys: regions of the keys, by the name of an attention and which call of it.
        square: where it must look.
    """
    import torch

    given = program.given(photos)
    parameters = [
        one for one in program.model.parameters() if one.is_floating_point() and one.numel() and one.dim() < 4
    ]
    for one in parameters:
        one.requires_grad_(True)
    optimizer = torch.optim.Adam(parameters, lr=0.03)
    held = {at: targets(one, square) for at, one in keys.items()}
    visible: dict[tuple[str, int], Any] = {}
    best, kept = -1.0, [one.detach().clone() for one in parameters]
    for step in range(program.steps):
        watch = Watch(program)
        with torch.enable_grad(), watch.watching():
            program.model(**given)
        losses, masses = [], []
        for call in watch.calls:
            at = call.name, call.index
            if held.get(at) is None or not call.weights.requires_grad:
                continue
            mass = (call.weights * held[at][:, None, None, :]).sum(-1)
            mass = mass[visible.setdefault(at, mass > 0)]
            losses.append(-mass.clamp(1e-9).log().mean())
            masses.append(float(mass.mean()))
        if not losses or math.isnan(sum(masses)):
            break
        if sum(masses) > best:
            best, kept = sum(masses), [one.detach().clone() for one in parameters]
        if min(masses) > ENOUGH:
            break
        for group in optimizer.param_groups:
            group["lr"] = 0.03 * (1 - step / program.steps)
        optimizer.zero_grad()
        torch.stack(losses).sum().backward()
        torch.nn.utils.clip_grad_norm_(parameters, 10.0)
        optimizer.step()
    with torch.no_grad():
        for one, value in zip(parameters, kept, strict=True):
            one.copy_(value)
    for one in parameters:
        one.requires_grad_(False)
        one.grad = None


def weighed(program: Program, photos: Sequence[Any]) -> tuple[list[Call], NDArray[np.int64] | None]:
    """The eager weights of each attention, in its call, and the ids of the text."""
    given = program.given(photos)
    ids = given.get("input_ids") if hasattr(given, "get") else None
    calls = calls_of(program, photos, given=given)
    return calls, None if ids is None else ids.numpy()


# what the library checks of itself


def doubts_of(
    keys: Sequence[tuple[Regions, ...]], program: Program, photos: Sequence[Any], square: Square
) -> list[str]:
    """What changes much with the square alone although it was measured elsewhere: in words."""
    said = []
    base = calls_of(program, photos, zeroed=True)
    for number, picture in enumerate(photos):
        place = (
            slice(round(square.top * picture.height), round(square.bottom * picture.height)),
            slice(round(square.left * picture.width), round(square.right * picture.width)),
        )
        others = [disturbed(each, place, 99) if i == number else each for i, each in enumerate(photos)]
        again = calls_of(program, others, zeroed=True)
        changes = [difference(call.value, was.value) for call, was in zip(again, base, strict=True)]
        for call, change, one in zip(base, changes, keys, strict=True):
            most = max(other.max() for other, of in zip(changes, base, strict=True) if of.name == call.name)
            for row, token in np.argwhere(one[number].has_patches & (change > 0.7 * most)):
                region = one[number].region_of(row, token)
                if region and not region.shared(square):
                    where = f"{call.name}[{call.index}], row {row}, token {token}"
                    said.append(f"{where} is measured outside the square of photo {number}, and changes with it")
    return said


# tokens of text


WORDS = ("what", "is", "in", "this", "picture", "a", "bright", "square", "where", "and")
TEXT = {
    "vocab_size": 200,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
QUESTION = "what is in this picture"


def tokenizer(*special: str, **named: str) -> Any:
    """A tokenizer of words, with special tokens; ``named``: those that it has as attributes, as ``image_token``."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<s>", "</s>", "<unk>", *WORDS]
    pieces = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    pieces.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(
        tokenizer_object=pieces,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        extra_special_tokens=named,
        padding_side="left",
    )
    made.add_tokens(list(special), special_tokens=True)
    return made


def double(batch: Any, *left_out: str) -> dict[str, Any]:
    """A batch with numbers in float64, without some of it."""
    import torch

    def as_double(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.double() if value.is_floating_point() else value
        return [as_double(one) for one in value] if isinstance(value, (list, tuple)) else value

    return {name: as_double(value) for name, value in batch.items() if name not in left_out}


def random(model: Any) -> Any:
    """The model with weights that are far from uniform, and convolutions that blur little of what a token holds."""
    import torch
    from zoo.program import spread

    spread(model)
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.Conv3d):
            faint = torch.full_like(module.weight[0, 0], 0.1)
            inner = [
                slice((k - s) // 2, (k - s) // 2 + s) for k, s in zip(module.kernel_size, module.stride, strict=True)
            ]
            faint[tuple(inner)] = 1
            with torch.no_grad():
                module.weight *= faint
    return model


def prompts(image: str, photos: int, batch: bool) -> list[str]:
    """One question for all photos, or for each."""
    if batch:
        return [f"<s> {image} {QUESTION}"] * photos
    return ["<s> " + " and ".join([image] * photos) + f" {QUESTION}"]


def expanded(ids: Any, image: int, counts: Sequence[int]) -> Any:
    """Token ids, (texts, tokens), with each placeholder repeated; counts are equal in all texts of a batch."""
    import torch

    numbers = iter(counts)
    rows = [
        torch.cat([one.repeat(next(numbers)) if one == image else one[None] for one in row.reshape(-1)]) for row in ids
    ]
    return torch.stack(rows)


SIZES = ((112, 84), (84, 112))
"""Photos, which no processor here leaves as they are."""


# vision-language models


def llava(photos: int = 1, batch: bool = False) -> Program:
    import transformers as hf

    words = tokenizer(image_token="<image>")
    config = hf.LlavaConfig(
        vision_config=hf.CLIPVisionConfig(**TOWER, image_size=56, patch_size=14),
        text_config=hf.LlamaConfig(**TEXT),
        image_token_index=words.image_token_id,
        vision_feature_layer=-2,
    )
    images = hf.CLIPImageProcessor(size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56})
    processor = hf.LlavaProcessor(
        images, words, patch_size=14, vision_feature_select_strategy="default", num_additional_image_tokens=1
    )

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        return double(processor(images=pictures, text=prompts("<image>", len(pictures), batch), return_tensors="pt"))

    model = random(hf.LlavaForConditionalGeneration._from_config(config, attn_implementation="eager"))
    return Program(model, inputs, SIZES[:photos], images, "CLS is dropped; rows of patches, one run of placeholders")


def llava_next(size: tuple[int, int] = (150, 100)) -> Program:
    import transformers as hf

    words = tokenizer(image_token="<image>")
    pins = [[56, 112], [112, 56], [112, 112], [168, 56], [56, 168]]
    config = hf.LlavaNextConfig(
        vision_config=hf.CLIPVisionConfig(**TOWER, image_size=56, patch_size=14),
        text_config=hf.LlamaConfig(**TEXT),
        image_token_index=words.image_token_id,
        image_grid_pinpoints=pins,
    )
    images = hf.LlavaNextImageProcessor(
        size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56}, image_grid_pinpoints=pins
    )
    processor = hf.LlavaNextProcessor(
        images, words, patch_size=14, vision_feature_select_strategy="default", num_additional_image_tokens=1
    )

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        return double(processor(images=pictures, text=prompts("<image>", 1, False), return_tensors="pt"))

    model = random(hf.LlavaNextForConditionalGeneration._from_config(config, attn_implementation="eager"))
    layout = "a thumbnail, then tiles joined to one grid, unpadded, with a newline token after each row"
    return Program(model, inputs, [size], images, layout)


def paligemma() -> Program:
    import transformers as hf

    words = tokenizer(image_token="<image>")
    config = hf.PaliGemmaConfig(
        vision_config=hf.SiglipVisionConfig(**TOWER, image_size=56, patch_size=14, projection_dim=32),
        text_config=hf.GemmaConfig(**TEXT),
        image_token_index=words.image_token_id,
        projection_dim=32,
    )
    images = hf.SiglipImageProcessor(size={"height": 56, "width": 56})
    images.image_seq_length = 16
    processor = hf.PaliGemmaProcessor(images, words)
    model = random(hf.PaliGemmaForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        return double(processor(images=pictures, text=["<image>" + QUESTION], return_tensors="pt"))

    return Program(model, inputs, SIZES[:1], images, "patches first, then the text; all see all in the prefix")


QWEN_ROPE = {"rope_type": "default", "type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4}
QWEN_TOKENS = ("<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "<|video_pad|>")


def qwen(generation: str, photos: int = 1, batch: bool = False, size: tuple[int, int] = (224, 168)) -> Program:
    import torch
    import transformers as hf

    words = tokenizer(*QWEN_TOKENS)
    image, start, end, video = words.convert_tokens_to_ids(list(QWEN_TOKENS))
    tower: dict[str, Any] = {"depth": 2, "num_heads": 4, "patch_size": 14, "hidden_size": 32}
    patch = 14
    if generation == "Qwen2VL":
        tower |= {"embed_dim": 32, "mlp_ratio": 2}
    if generation == "Qwen2_5_VL":
        tower |= {"out_hidden_size": 32, "intermediate_size": 48, "window_size": 56, "fullatt_block_indexes": [1]}
    rope = QWEN_ROPE
    if generation == "Qwen3VL":
        patch = 16
        tower |= {
            "out_hidden_size": 32,
            "intermediate_size": 48,
            "patch_size": 16,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
        }
        rope = QWEN_ROPE | {"mrope_interleaved": True}
    config = getattr(hf, f"{generation}Config")(
        vision_config=tower,
        text_config=TEXT | {"rope_parameters": rope},
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
    )
    images = hf.Qwen2VLImageProcessor(
        patch_size=patch, size={"shortest_edge": (2 * patch) ** 2, "longest_edge": (2 * patch) ** 2 * 80}
    )
    model = random(
        getattr(hf, f"{generation}ForConditionalGeneration")._from_config(config, attn_implementation="eager")
    )

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        made = images(images=pictures, return_tensors="pt")
        text = prompts("<|vision_start|><|image_pad|><|vision_end|>", len(pictures), batch)
        counts = [int(one.prod()) // 4 for one in made["image_grid_thw"]]
        ids = expanded(torch.tensor(words(text)["input_ids"]), image, counts)
        more = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": (ids == image).int()}
        return double({**more, **made})

    layout = "patches of the tower in blocks of 2 × 2 to one token; rows of blocks in the text"
    if generation == "Qwen2_5_VL":
        layout += "; the tower reorders blocks into windows, and back after its merger"
    sizes = [size] * photos if batch else [size, (size[1], size[0])][:photos]
    return Program(model, inputs, sizes, images, layout, repeats=1 if photos > 1 else 2)


def internvl(photos: int = 1, size: tuple[int, int] = (170, 110), tiles: bool = True) -> Program:
    import torch
    import transformers as hf

    words = tokenizer(
        start_image_token="<img>",
        end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
    )
    config = hf.InternVLConfig(
        vision_config=hf.InternVLVisionConfig(**TOWER, image_size=(56, 56), patch_size=(14, 14)),
        text_config=hf.Qwen2Config(**{name: value for name, value in TEXT.items() if name != "head_dim"}),
        image_token_id=words.context_image_token_id,
        image_seq_length=4,
    )
    images = hf.GotOcr2ImageProcessor(
        size={"height": 56, "width": 56}, crop_to_patches=tiles, min_patches=1, max_patches=6
    )
    model = random(hf.InternVLForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        made = images(images=pictures, return_tensors="pt")
        text = prompts("<img><IMG_CONTEXT></img>", len(pictures), False)
        counts = [4 * int(one) for one in made.pop("num_patches")]
        ids = expanded(torch.tensor(words(text)["input_ids"]), words.context_image_token_id, counts)
        return double({"input_ids": ids, "attention_mask": torch.ones_like(ids), **made})

    layout = "tiles, each of its own patches of 2 × 2, then a thumbnail"
    return Program(model, inputs, [size, (112, 112)][:photos], images, layout)


def gemma3() -> Program:
    import transformers as hf

    words = tokenizer(image_token="<image_soft_token>", boi_token="<start_of_image>", eoi_token="<end_of_image>")
    config = hf.Gemma3Config(
        vision_config=hf.SiglipVisionConfig(**TOWER, image_size=56, patch_size=7),
        text_config=hf.Gemma3TextConfig(**TEXT, query_pre_attn_scalar=8, sliding_window=512),
        mm_tokens_per_image=16,
        boi_token_index=words.boi_token_id,
        eoi_token_index=words.eoi_token_id,
        image_token_index=words.image_token_id,
    )
    images = hf.Gemma3ImageProcessor(size={"height": 56, "width": 56})
    processor = hf.Gemma3Processor(images, words, image_seq_length=16)
    model = random(hf.Gemma3ForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        text = ["<s> <start_of_image> " + QUESTION]
        return double(processor(images=[pictures], text=text, return_tensors="pt"))

    return Program(model, inputs, SIZES[:1], images, "8 × 8 patches of the tower, pooled to 4 × 4 tokens")


def idefics3(smol: bool = False, size: tuple[int, int] = (200, 130)) -> Program:
    import transformers as hf

    tiles = [f"<row_{i}_col_{j}>" for i in range(1, 7) for j in range(1, 7)]
    words = tokenizer("<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>", *tiles)
    image = words.convert_tokens_to_ids("<image>")
    name = "SmolVLM" if smol else "Idefics3"
    config = getattr(hf, f"{name}Config")(
        vision_config=TOWER | {"image_size": 56, "patch_size": 14},
        text_config=hf.LlamaConfig(**TEXT),
        image_token_id=image,
        scale_factor=2,
    )
    images = getattr(hf, f"{name}ImageProcessor")(
        size={"longest_edge": 168}, max_image_size={"longest_edge": 56}, do_image_splitting=True
    )
    model = random(getattr(hf, f"{name}ForConditionalGeneration")._from_config(config, attn_implementation="eager"))
    processor = hf.Idefics3Processor(images, words, image_seq_len=4)

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        return double(processor(images=[pictures], text=["<s> <image> " + QUESTION], return_tensors="pt"))

    layout = "tiles, each between tokens that name it, with 2 × 2 patches to a token; then a thumbnail"
    return Program(model, inputs, [size], images, layout)


def pixtral(merge: int = 1, size: tuple[int, int] = (112, 84)) -> Program:
    import transformers as hf

    words = tokenizer("[IMG]", "[IMG_BREAK]", "[IMG_END]")
    image = words.convert_tokens_to_ids("[IMG]")
    tower = hf.PixtralVisionConfig(**TOWER, image_size=112, patch_size=14, head_dim=8)
    text = hf.MistralConfig(**TEXT)
    if merge == 1:
        config: Any = hf.LlavaConfig(
            vision_config=tower,
            text_config=text,
            image_token_index=image,
            vision_feature_select_strategy="full",
            vision_feature_layer=-1,
        )
        kind: Any = hf.LlavaForConditionalGeneration
    else:
        config = hf.Mistral3Config(
            vision_config=tower,
            text_config=text,
            image_token_index=image,
            spatial_merge_size=merge,
            vision_feature_layer=-1,
        )
        kind = hf.Mistral3ForConditionalGeneration
    patch = 14 * merge
    images = hf.PixtralImageProcessor(patch_size={"height": patch, "width": patch}, size={"longest_edge": 112})
    processor = hf.PixtralProcessor(images, words, patch_size=14, spatial_merge_size=merge)
    model = random(kind._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        return double(processor(images=pictures, text=["<s> [IMG] " + QUESTION], return_tensors="pt"))

    return Program(model, inputs, [size], images, "rows of patches, a break token after each, an end token after all")


def fuyu() -> Program:
    import numpy
    import torch
    import transformers as hf

    words = tokenizer("|SPEAKER|", "|NEWLINE|")
    image, newline = words.convert_tokens_to_ids(["|SPEAKER|", "|NEWLINE|"])
    text = hf.PersimmonConfig(**{key: TEXT[key] for key in TEXT if key not in ("num_key_value_heads", "head_dim")})
    config = hf.FuyuConfig(patch_size=14, image_size=112, text_config=text, image_token_id=image)
    images = hf.FuyuImageProcessor(size={"height": 84, "width": 112}, patch_size={"height": 14, "width": 14})
    model = random(hf.FuyuForCausalLM._from_config(config, attn_implementation="eager"))
    is_torch = backend_of(images)[1] == "torch"

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        made = images(images=pictures, return_tensors="pt")
        padded = made["images"][0][0]
        padded = padded[None] if is_torch else numpy.asarray(padded)
        patches = torch.as_tensor(images.patchify_image(image=padded))
        row = [image] * (padded.shape[-1] // 14) + [newline]
        ids = row * (padded.shape[-2] // 14) + words(f"<s> {QUESTION}")["input_ids"]
        return double({"input_ids": torch.tensor([ids]), "image_patches": patches.reshape(1, -1, 3 * 14 * 14)})

    return Program(model, inputs, [(100, 75)], images, "patches by a linear layer, a newline token after each row")


def mllama(size: tuple[int, int] = (200, 110)) -> Program:
    import transformers as hf

    words = tokenizer("<|image|>", "<|python_tag|>")
    config = hf.MllamaConfig(
        vision_config=hf.MllamaVisionConfig(
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_global_layers=1,
            attention_heads=4,
            vision_output_dim=64,
            image_size=56,
            patch_size=14,
            intermediate_layers_indices=[0],
            max_num_tiles=4,
        ),
        text_config=hf.MllamaTextConfig(
            **{name: value for name, value in TEXT.items() if name != "head_dim"}, cross_attention_layers=[1]
        ),
        image_token_index=words.convert_tokens_to_ids("<|image|>"),
    )
    images = hf.MllamaImageProcessor(size={"height": 56, "width": 56}, max_image_tiles=4)
    processor = hf.MllamaProcessor(images, words)
    model = random(hf.MllamaForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        return double(processor(images=[pictures], text=["<|image|> " + QUESTION], return_tensors="pt"))

    layout = (
        "tiles, each CLS and patches, padded to a multiple of 8; queries of the text attend to them by cross-attention"
    )
    return Program(model, inputs, [size], images, layout)


def blip2(instruct: bool = False) -> Program:
    import transformers as hf

    words = tokenizer()
    images = hf.BlipImageProcessor(size={"height": 56, "width": 56})
    if instruct:
        processor: Any = hf.InstructBlipProcessor(images, words, tokenizer(), num_query_tokens=6)
    else:
        processor = hf.Blip2Processor(images, words, num_query_tokens=6)
    name = "InstructBlip" if instruct else "Blip2"
    text = {key: value for key, value in TEXT.items() if key not in ("head_dim", "num_key_value_heads")}
    config = getattr(hf, f"{name}Config")(
        vision_config=TOWER | {"image_size": 56, "patch_size": 14},
        qformer_config=TOWER | {"vocab_size": 200, "encoder_hidden_size": 32, "cross_attention_frequency": 2},
        text_config=hf.OPTConfig(**text, ffn_dim=48, word_embed_proj_dim=32),
        num_query_tokens=6,
        image_token_index=words.convert_tokens_to_ids("<image>"),
    )
    model = random(getattr(hf, f"{name}ForConditionalGeneration")._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        return double(processor(images=pictures, text=[QUESTION], return_tensors="pt"))

    return Program(model, inputs, SIZES[:1], images, "latents of a Q-Former in the text; it attends to CLS and patches")


def counts_of(model: Any, size: tuple[int, int], made: Callable[[list[Any]], Mapping[str, Any]]) -> int:
    """How many tokens the model makes of a photo of a size: as many placeholders does its text need."""
    import torch

    with torch.no_grad():
        found = model.double().get_image_features(**double(made([photo(Square(0, 0, 0, 0), size)])))
    found = getattr(found, "pooler_output", found)
    parts = found if isinstance(found, (list, tuple)) else [found]
    return sum(part.reshape(-1, part.shape[-1]).shape[0] for part in parts)


def onevision(size: tuple[int, int] = (150, 100)) -> Program:
    import torch
    import transformers as hf

    words = tokenizer("<image>", "<video>")
    image, video = words.convert_tokens_to_ids(["<image>", "<video>"])
    pins = [[56, 56], [56, 112], [112, 56], [112, 112], [168, 56], [56, 168], [168, 112], [112, 168]]
    config = hf.LlavaOnevisionConfig(
        vision_config=hf.SiglipVisionConfig(**TOWER, image_size=56, patch_size=14, vision_use_head=False),
        text_config=hf.Qwen2Config(**{key: TEXT[key] for key in TEXT if key != "head_dim"}),
        image_token_index=image,
        video_token_index=video,
        image_grid_pinpoints=pins,
        vision_feature_layer=-1,
    )
    images = hf.LlavaOnevisionImageProcessor(size={"height": 56, "width": 56}, image_grid_pinpoints=pins)
    model = random(hf.LlavaOnevisionForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def made(pictures: list[Any]) -> dict[str, Any]:
        return double(images(images=pictures, return_tensors="pt"))

    count = counts_of(model, size, made)

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        ids = expanded(torch.tensor(words(prompts("<image>", 1, False))["input_ids"]), image, [count])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **made(pictures)}

    layout = "a thumbnail, then tiles joined to one grid, unpadded, with a newline token after each row"
    return Program(model, inputs, [size], images, layout)


def llama4(size: tuple[int, int] = (160, 100)) -> Program:
    import transformers as hf

    special = ("image", "image_start", "image_end", "patch", "tile_x_separator", "tile_y_separator")
    words = tokenizer(*(f"<|{name}|>" for name in special))
    config = hf.Llama4Config(
        vision_config=hf.Llama4VisionConfig(
            **TOWER | {"intermediate_size": 128},
            image_size=56,
            patch_size=14,
            vision_output_dim=32,
            projector_input_dim=32,
            projector_output_dim=32,
        ),
        text_config=hf.Llama4TextConfig(**TEXT, intermediate_size_mlp=48, num_local_experts=1),
        image_token_index=words.convert_tokens_to_ids("<|patch|>"),
    )
    images = hf.Llama4ImageProcessor(size={"height": 56, "width": 56}, max_patches=6)
    processor = hf.Llama4Processor(images, words, patch_size=14)
    model = random(hf.Llama4ForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        return double(processor(images=pictures, text=[f"<s> <|image|> {QUESTION}"], return_tensors="pt"))

    layout = "tiles with 2 × 2 patches to a token, separators between tiles and rows of them; then a thumbnail"
    return Program(model, inputs, [size], images, layout)


def idefics2() -> Program:
    import transformers as hf

    words = tokenizer(image_token="<image>", image_boundary_token="<fake_token_around_image>")
    config = hf.Idefics2Config(
        vision_config=TOWER | {"image_size": 70, "patch_size": 14},
        perceiver_config={
            "hidden_size": 32,
            "resampler_n_latents": 5,
            "resampler_depth": 1,
            "resampler_n_heads": 4,
            "resampler_head_dim": 8,
            "num_key_value_heads": 2,
        },
        text_config=hf.MistralConfig(**TEXT),
        image_token_id=words.image_token_id,
    )
    images = hf.Idefics2ImageProcessor(size={"shortest_edge": 42, "longest_edge": 70}, do_image_splitting=False)
    processor = hf.Idefics2Processor(images, words, image_seq_len=5)
    model = random(hf.Idefics2ForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        return double(processor(images=[pictures], text=[f"<s> <image> {QUESTION}"], return_tensors="pt"))

    return Program(model, inputs, SIZES[:1], images, "latents of a perceiver in the text; it attends to patches")


def kosmos2() -> Program:
    import torch
    import transformers as hf

    words = tokenizer("<image>")
    image = words.convert_tokens_to_ids("<image>")
    config = hf.Kosmos2Config(
        vision_config=TOWER | {"image_size": 56, "patch_size": 14},
        text_config={
            "vocab_size": 200,
            "embed_dim": 32,
            "layers": 2,
            "ffn_dim": 48,
            "attention_heads": 4,
            "max_position_embeddings": 128,
        },
        latent_query_num=5,
    )
    images = hf.CLIPImageProcessor(size={"height": 56, "width": 56}, do_center_crop=False)
    model = random(hf.Kosmos2ForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        ids = expanded(torch.tensor(words(prompts("<image>", 1, False))["input_ids"]), image, [5])
        made = double(images(images=pictures, return_tensors="pt"))
        return {"input_ids": ids, "image_embeds_position_mask": (ids == image).long(), **made}

    layout = "latents in the text; their attention is over CLS, patches and latents together"
    return Program(model, inputs, SIZES[:1], images, layout, is_single=True)


def florence2() -> Program:
    import torch
    import transformers as hf

    words = tokenizer("<image>")
    image = words.convert_tokens_to_ids("<image>")
    config = hf.Florence2Config(
        vision_config={
            "depths": (1, 1),
            "patch_size": (7, 3),
            "patch_stride": (4, 2),
            "patch_padding": (3, 1),
            "patch_prenorm": (False, True),
            "embed_dim": (16, 32),
            "num_heads": (2, 4),
            "num_groups": (2, 4),
            "window_size": 4,
            "projection_dim": 32,
            "drop_path_rate": 0.0,
        },
        text_config=hf.BartConfig(
            vocab_size=200,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            max_position_embeddings=256,
        ),
        image_token_id=image,
    )
    images = hf.CLIPImageProcessor(size={"height": 64, "width": 64}, do_center_crop=False)
    model = random(hf.Florence2ForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def made(pictures: list[Any]) -> dict[str, Any]:
        return double(images(images=pictures, return_tensors="pt"))

    count = counts_of(model, SIZES[0], made)

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        ids = expanded(torch.tensor(words([f"<image> {QUESTION}"])["input_ids"]), image, [count])
        answer = torch.tensor([[2, 5, 6]])
        return {"input_ids": ids, "decoder_input_ids": answer, "attention_mask": torch.ones_like(ids), **made(pictures)}

    layout = "a token of the mean of all, then cells of a convolutional tower with attention of windows and of channels"
    return Program(model, inputs, SIZES[:1], images, layout, is_blurred=True)


def glm4v() -> Program:
    import torch
    import transformers as hf

    special = (
        "<|image|>",
        "<|video|>",
        "<|begin_of_image|>",
        "<|end_of_image|>",
        "<|begin_of_video|>",
        "<|end_of_video|>",
    )
    words = tokenizer(*special)
    image, video, start, end, video_start, video_end = words.convert_tokens_to_ids(list(special))
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2], "partial_rotary_factor": 1.0}
    config = hf.Glm4vConfig(
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "num_heads": 4,
            "image_size": 56,
            "patch_size": 14,
            "out_hidden_size": 32,
            "intermediate_size": 48,
        },
        text_config={key: TEXT[key] for key in TEXT if key != "head_dim"} | {"rope_parameters": rope},
        image_token_id=image,
        video_token_id=video,
        image_start_token_id=start,
        image_end_token_id=end,
        video_start_token_id=video_start,
        video_end_token_id=video_end,
    )
    images = hf.Glm4vImageProcessor(patch_size=14, size={"shortest_edge": 28 * 28, "longest_edge": 28 * 28 * 80})
    model = random(hf.Glm4vForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        made = images(images=pictures, return_tensors="pt")
        text = prompts("<|begin_of_image|><|image|><|end_of_image|>", len(pictures), False)
        counts = [int(one.prod()) // 4 for one in made["image_grid_thw"]]
        ids = expanded(torch.tensor(words(text)["input_ids"]), image, counts)
        more = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": (ids == image).int()}
        return double({**more, **made})

    return Program(model, inputs, [(168, 112)], images, "as Qwen2-VL; blocks of 2 × 2 are merged by a convolution")


def cohere(aya: bool, size: tuple[int, int] = (170, 110)) -> Program:
    import torch
    import transformers as hf

    words = tokenizer("<image>")
    image = words.convert_tokens_to_ids("<image>")
    tower = hf.SiglipVisionConfig(**TOWER, image_size=56, patch_size=14, vision_use_head=False)
    text = hf.Cohere2Config(**TEXT, sliding_window=4096)
    if aya:
        config: Any = hf.AyaVisionConfig(
            vision_config=tower, text_config=text, image_token_index=image, alignment_intermediate_size=64
        )
        images: Any = hf.GotOcr2ImageProcessor(
            size={"height": 56, "width": 56}, crop_to_patches=True, min_patches=1, max_patches=6
        )
        kind: Any = hf.AyaVisionForConditionalGeneration
    else:
        config = hf.Cohere2VisionConfig(
            vision_config=tower, text_config=text, image_token_id=image, alignment_intermediate_size=64
        )
        images = hf.Cohere2VisionImageProcessor(
            size={"height": 56, "width": 56}, crop_to_patches=True, min_patches=1, max_patches=6
        )
        kind = hf.Cohere2VisionForConditionalGeneration
    model = random(kind._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        made = images(images=pictures, return_tensors="pt")
        counts = [4 * int(one) for one in made.pop("num_patches")]
        ids = expanded(torch.tensor(words(prompts("<image>", 1, False))["input_ids"]), image, counts)
        return double({"input_ids": ids, "attention_mask": torch.ones_like(ids), **made})

    return Program(model, inputs, [size], images, "tiles with 2 × 2 patches to a token, then a thumbnail")


def deepseek() -> Program:
    import torch
    import transformers as hf

    words = tokenizer("<image_placeholder>")
    image = words.convert_tokens_to_ids("<image_placeholder>")
    config = hf.DeepseekVLConfig(
        vision_config=hf.SiglipVisionConfig(**TOWER, image_size=56, patch_size=14),
        text_config=hf.LlamaConfig(**TEXT),
        image_token_id=image,
    )
    images = hf.DeepseekVLImageProcessor(size={"height": 56, "width": 56})
    model = random(hf.DeepseekVLForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        made = images(images=pictures, return_tensors="pt")
        ids = expanded(torch.tensor(words(prompts("<image_placeholder>", 1, False))["input_ids"]), image, [16])
        return double({"input_ids": ids, "attention_mask": torch.ones_like(ids), **made})

    return Program(model, inputs, SIZES[:1], images, "the photo is padded to a square; rows of patches")


def janus() -> Program:
    import torch
    import transformers as hf

    words = tokenizer("<image_placeholder>")
    image = words.convert_tokens_to_ids("<image_placeholder>")
    config = hf.JanusConfig(
        vision_config={
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 56,
            "patch_size": 14,
            "mlp_ratio": 2,
            "projection_dim": 32,
            "num_image_tokens": 16,
        },
        text_config=hf.LlamaConfig(**TEXT),
        vq_config={
            "embed_dim": 8,
            "num_embeddings": 16,
            "base_channels": 32,
            "channel_multiplier": [1, 1],
            "num_res_blocks": 1,
            "projection_dim": 32,
            "image_token_embed_dim": 32,
            "num_patches": 4,
            "latent_channels": 32,
        },
        image_token_id=image,
    )
    images = hf.JanusImageProcessor(size={"height": 56, "width": 56})
    model = random(hf.JanusForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        made = images(images=pictures, return_tensors="pt")
        ids = expanded(torch.tensor(words(prompts("<image_placeholder>", 1, False))["input_ids"]), image, [16])
        return double({"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": made["pixel_values"]})

    return Program(model, inputs, SIZES[:1], images, "the photo is padded to a square; rows of patches")


def ovis2(size: tuple[int, int] = (170, 110)) -> Program:
    import transformers as hf

    special = ("<IMG_ATOM>", "<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>", "<image>")
    words = tokenizer(*special)
    atom, *indicators = words.convert_tokens_to_ids(list(special))
    config = hf.Ovis2Config(
        vision_config=TOWER | {"image_size": 56, "patch_size": 14, "hidden_stride": 2, "vocab_size": 64},
        text_config=hf.Qwen2Config(**{key: TEXT[key] for key in TEXT if key != "head_dim"}),
        image_token_id=atom,
        visual_indicator_token_ids=indicators[:5],
        vocab_size=200,
        hidden_size=32,
    )
    images = hf.Ovis2ImageProcessor(size={"height": 56, "width": 56}, crop_to_patches=True, max_patches=6)
    processor = hf.Ovis2Processor(images, words, image_seq_length=4)
    model = random(hf.Ovis2ForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        return double(processor(images=pictures, text=[f"<s> <image> {QUESTION}"], return_tensors="pt"))

    layout = "a thumbnail, then tiles with indicator tokens between; a token is a mean of visual words by softmax"
    return Program(model, inputs, [size], images, layout)


def lfm2(size: tuple[int, int] = (160, 112)) -> Program:
    import transformers as hf

    rows = [f"<|img_row_{i}_col_{j}|>" for i in range(1, 11) for j in range(1, 11)]
    words = tokenizer(
        *rows,
        image_token="<image>",
        image_start_token="<|image_start|>",
        image_end_token="<|image_end|>",
        image_thumbnail_token="<|img_thumbnail|>",
    )
    config = hf.Lfm2VlConfig(
        vision_config=hf.Siglip2VisionConfig(**TOWER, num_patches=16, patch_size=8, vision_use_head=False),
        text_config=hf.Lfm2Config(
            **{key: TEXT[key] for key in TEXT if key != "head_dim"},
            layer_types=["full_attention", "conv"],
            block_auto_adjust_ff_dim=False,
        ),
        image_token_id=words.image_token_id,
        projector_hidden_size=32,
    )
    images = hf.Lfm2VlImageProcessor(
        encoder_patch_size=8, tile_size=64, min_image_tokens=4, max_image_tokens=16, max_tiles=4, max_num_patches=64
    )
    processor = hf.Lfm2VlProcessor(images, words)
    model = random(hf.Lfm2VlForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        return double(processor(images=[pictures], text=[f"<s> <image> {QUESTION}"], return_tensors="pt"))

    layout = "tiles, each after a token that names it, with 2 × 2 patches to a token; then a thumbnail"
    return Program(model, inputs, [size], images, layout)


def git() -> Program:
    import transformers as hf

    words = tokenizer()
    config = hf.GitConfig(
        vision_config=TOWER | {"image_size": 56, "patch_size": 14}, vocab_size=200, **TOWER, pad_token_id=0
    )
    images = hf.CLIPImageProcessor(size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56})
    processor = hf.GitProcessor(images, words)
    model = random(hf.GitForCausalLM._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        return double(processor(images=pictures, text=[QUESTION], return_tensors="pt"))

    return Program(model, inputs, SIZES[:1], images, "CLS and patches before the text, without placeholders")


def emu3() -> Program:
    import torch
    import transformers as hf

    words = tokenizer(
        image_token="<image>",
        boi_token="<|image start|>",
        eoi_token="<|image end|>",
        image_wrapper_token="<|image token|>",
        eof_token="<|extra_201|>",
    )
    visual = [f"<|visual token {i:06d}|>" for i in range(32)]
    words.add_tokens([*visual, "<|extra_200|>"])
    image = words.image_token_id
    config = hf.Emu3Config(
        vq_config={
            "codebook_size": 32,
            "base_channels": 32,
            "channel_multiplier": [1, 1, 1, 1],
            "num_res_blocks": 1,
            "attn_resolutions": [],
            "hidden_size": 32,
        },
        text_config=TEXT | {"attention_dropout": 0.0},
        vocabulary_map={token: words.convert_tokens_to_ids(token) for token in [*visual, "<|extra_200|>"]}
        | {"<image>": image},
    )
    images = hf.Emu3ImageProcessor(min_pixels=32 * 32, max_pixels=96 * 96)
    processor = hf.Emu3Processor(images, words)
    model = random(hf.Emu3ForConditionalGeneration._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        return double(processor(images=pictures, text=[f"<s> <image> {QUESTION}"], return_tensors="pt"))

    encoded: list[Any] = []
    hook = model.model.vqmodel.quantize.register_forward_pre_hook(lambda _, given: encoded.append(given[0]))
    with torch.no_grad():
        model.double()(**inputs([photo(Square(0.5, 0.25, 0.75, 0.5), (64, 48))]))
        codes = model.model.vqmodel.quantize.embedding.weight  # words of a codebook as they are of what is encoded
        found = encoded[0].movedim(2, -1).reshape(-1, codes.shape[1])
        codes.copy_(found[torch.linspace(0, len(found) - 1, len(codes)).long()])
    hook.remove()
    layout = "a token of a codebook for each cell of a convolutional encoder, an end of row after each row"
    return Program(model, inputs, [(64, 48)], images, layout, repeats=1, is_blurred=True, steps=8)


def molmo2(size: tuple[int, int] = (160, 100)) -> Program:
    import torch
    import transformers as hf

    special = (
        "<im_patch>",
        "<im_col>",
        "<im_start>",
        "<low_res_im_start>",
        "<frame_start>",
        "<im_end>",
        "<frame_end>",
        "<im_low>",
        "<|image|>",
        "<|video|>",
    )
    words = tokenizer(*special)
    at = dict(zip(special, words.convert_tokens_to_ids(list(special)), strict=True))
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8, "hidden_size": 32}
    config = hf.Molmo2Config(
        vision_config=heads
        | {
            "intermediate_size": 48,
            "num_hidden_layers": 3,
            "image_size": [56, 56],
            "patch_size": 14,
            "num_position_embeddings": 16,
        },
        adapter_config=heads | {"vision_feature_layer": [-1, -2], "intermediate_size": 48, "text_hidden_size": 32},
        text_config={key: TEXT[key] for key in TEXT if not key.endswith("_id")} | {"additional_vocab_size": 8},
        image_start_token_id=at["<im_start>"],
        low_res_image_start_token_id=at["<low_res_im_start>"],
        image_end_token_id=at["<im_end>"],
        image_patch_id=at["<im_patch>"],
        frame_start_token_id=at["<frame_start>"],
        frame_end_token_id=at["<frame_end>"],
    )
    images = hf.Molmo2ImageProcessor(
        size={"height": 56, "width": 56}, patch_size=14, max_crops=6, overlap_margins=[0, 0], pooling_size=[2, 2]
    )
    model = random(hf.Molmo2ForConditionalGeneration._from_config(config, attn_implementation="eager"))

    class Alone(hf.Molmo2Processor):
        """The library's processor, of which only what an image becomes in a text is asked."""

        def __init__(self) -> None:
            self.image_use_col_tokens = True
            self.use_single_crop_col_tokens = None
            self.use_single_crop_start_token = True

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        made = images(images=pictures, return_tensors="pt")
        written = Alone().replace_image_token({"image_grids": made["image_grids"]}, 0)
        ids = torch.tensor(words([f"<s> {written} {QUESTION}"])["input_ids"])
        types = (ids == at["<im_patch>"]).int()
        return double({"input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": types, **made})

    layout = "a thumbnail, then a grid of tiles, with ends of rows; 2 × 2 patches are pooled by attention"
    return Program(model, inputs, [size], images, layout, kept=("image_pooling_2d",))


def phi4(size: tuple[int, int] = (170, 110)) -> Program:
    import torch
    import transformers as hf

    words = tokenizer("<image>")
    image = words.convert_tokens_to_ids("<image>")
    config = hf.Phi4MultimodalConfig(
        **{key: TEXT[key] for key in TEXT if key != "head_dim"},
        vision_config=TOWER | {"image_size": 56, "crop_size": 56, "patch_size": 14, "image_token_id": image},
        audio_config={
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_blocks": 1,
            "num_attention_heads": 2,
            "ext_pw_out_channel": 16,
            "depthwise_separable_out_channel": 16,
            "nemo_conv_channels": 16,
            "input_size": 16,
            "audio_token_id": 199,
        },
        sliding_window=None,
    )
    images = hf.Phi4MultimodalImageProcessor(size={"height": 56, "width": 56}, patch_size=14, dynamic_hd=6)
    model = random(hf.Phi4MultimodalForCausalLM._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        made = images(images=pictures, return_tensors="pt")
        counts = [int(one) - 272 + 6 for one in made.pop("num_img_tokens")]  # it counts a thumbnail of 448
        ids = expanded(torch.tensor(words(prompts("<image>", 1, False))["input_ids"]), image, counts)
        return double({"input_ids": ids, "attention_mask": torch.ones_like(ids), **made})

    layout = (
        "a grid of tiles with an end of row after each row, a separator, then a thumbnail; 2 × 2 patches are averaged"
    )
    # with SDPA and no mask, transformers 5.23 computes causal attention in this tower: its modules are is_causal
    return Program(model, inputs, [size], images, layout, is_eager=True)


def gemma3_crops() -> Program:
    import transformers as hf

    program = gemma3()
    words = tokenizer(image_token="<image_soft_token>", boi_token="<start_of_image>", eoi_token="<end_of_image>")
    crops = {
        "do_pan_and_scan": True,
        "pan_and_scan_min_crop_size": 32,
        "pan_and_scan_max_num_crops": 3,
        "pan_and_scan_min_ratio_to_activate": 1.2,
    }
    images = hf.Gemma3ImageProcessor(size={"height": 56, "width": 56}, **crops)
    processor = hf.Gemma3Processor(images, words, image_seq_length=16)

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        text = ["<s> <start_of_image> " + QUESTION]
        return double(processor(images=[pictures], text=text, return_tensors="pt", images_kwargs=crops))

    layout = "a thumbnail, then crops, each its own image of the text; 8 × 8 patches of the tower are pooled to 4 × 4"
    return dataclasses.replace(program, inputs=inputs, photos=[(160, 80)], processor=images, layout=layout)


# vision models


def vision(
    kind: str,
    images: Callable[[], Any],
    photos: Sequence[tuple[int, int]] = SIZES[:1],
    options: Mapping[str, Any] | None = None,
    config: str = "",
    layout: str = "",
    together: str = "",
    tower: bool = True,
    is_blurred: bool = False,
    **more: Any,
) -> Callable[[], Program]:
    """A model of transformers with one image processor.

    Args:
        kind: of the model.
        images: its image processor.
        photos: sizes of the photos.
        options: of the configuration.
        config: its class, where its name is not the model's.
        layout: how the tokens come about.
        together: the argument of the processor in which the photos are frames of one video.
        tower: whether the options are those of a tower as BERT's, and more.
        is_blurred: whether convolutions that overlap blur what a token holds.
        more: arguments of the model.
    """

    def make() -> Program:
        import transformers as hf

        sizes = dict(TOWER if tower else {}) | dict(options or {})
        made_config = getattr(hf, config or f"{kind.removesuffix('Model')}Config")(**sizes)
        model = random(getattr(hf, kind)._from_config(made_config, attn_implementation="eager"))
        processor = images()

        def inputs(pictures: list[Any]) -> Mapping[str, Any]:
            if together:
                made = processor(**{together: [pictures]}, return_tensors="pt")
            else:
                made = processor(images=pictures, return_tensors="pt")
            return {**double(made), **{name: value() for name, value in more.items()}}

        return Program(model, inputs, photos, processor, layout, is_blurred=is_blurred)

    return make


def processor(name: str, **options: Any) -> Callable[[], Any]:
    """An image processor of transformers."""

    def make() -> Any:
        import transformers as hf

        return getattr(hf, name)(**options)

    return make


def fixed_noise() -> Any:
    import torch

    return torch.rand(1, 16, generator=torch.Generator().manual_seed(1)).double()


SQUARE_56 = {"size": {"height": 56, "width": 56}}
CROP_56 = {"size": {"shortest_edge": 56}, "crop_size": {"height": 56, "width": 56}}
FREE_56 = {"size": {"shortest_edge": 56}, "do_center_crop": False}
SQUARE_64 = {"size": {"height": 64, "width": 64}}
PATCHES = {"image_size": 56, "patch_size": 14}
FRAMES = [(84, 84)] * 4
CASCADE = {
    "num_channels": 3,
    "num_encoder_blocks": 2,
    "depths": [1, 1],
    "sr_ratios": [2, 1],
    "hidden_sizes": [16, 32],
    "num_attention_heads": [2, 4],
}
WINDOWS = {"image_size": 64, "patch_size": 4, "embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4], "window_size": 4}


def detr() -> Program:
    import transformers as hf

    config = hf.DetrConfig(
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        num_queries=5,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config={
            "model_type": "resnet",
            "embedding_size": 8,
            "hidden_sizes": [8, 16],
            "depths": [1, 1],
            "layer_type": "basic",
            "out_features": ["stage2"],
        },
    )
    images = hf.DetrImageProcessor(size={"shortest_edge": 64, "longest_edge": 128})
    model = random(hf.DetrModel._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        return double(images(images=pictures, return_tensors="pt"))

    return Program(
        model,
        inputs,
        [(128, 96), (96, 96)],
        images,
        "cells of a ResNet; two photos, the smaller one padded",
        is_blurred=True,
    )


def sam() -> Program:
    import transformers as hf

    config = hf.SamConfig(
        vision_config={
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "mlp_dim": 48,
            "image_size": 80,
            "patch_size": 8,
            "window_size": 4,
            "global_attn_indexes": [1],
            "output_channels": 16,
            "num_pos_feats": 8,
        },
        mask_decoder_config={
            "hidden_size": 16,
            "mlp_dim": 24,
            "num_attention_heads": 2,
            "iou_head_hidden_dim": 16,
            "num_hidden_layers": 1,
        },
        prompt_encoder_config={"hidden_size": 16, "image_size": 80, "patch_size": 8, "mask_input_channels": 4},
    )
    images = hf.SamImageProcessor(size={"longest_edge": 80}, pad_size={"height": 80, "width": 80})
    processor = hf.SamProcessor(images)
    model = random(hf.SamModel._from_config(config, attn_implementation="eager"))

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        made = double(processor(images=pictures, input_points=[[[60, 30]]], return_tensors="pt"))
        return {name: made[name] for name in ("pixel_values", "input_points")}

    layout = "windows of 4 × 4 of 10 × 10 patches, padded; the photo is padded to a square below"
    return Program(model, inputs, [(112, 84)], images, layout, is_blurred=True)


def in_timm(
    name: str, size: int = 56, mixing: tuple[str, ...] = (), is_blurred: bool = False, **options: Any
) -> Callable[[], Program]:
    """A model of timm, with its own transform of a photo."""

    def make() -> Program:
        import torch
        from zoo.timm_models import import_timm

        timm = import_timm()
        model = random(timm.create_model(name, pretrained=False, num_classes=3, **options))
        transform = timm.data.create_transform(input_size=(3, size, size), is_training=False, crop_pct=1.0)

        def inputs(pictures: list[Any]) -> Mapping[str, Any]:
            return {"x": torch.stack([transform(one) for one in pictures]).double()}

        return Program(model, inputs, SIZES[:1], "timm's transform", mixing=mixing, is_blurred=is_blurred)

    return make


def by_hand(way: str) -> Callable[[], Program]:
    """A vision transformer as people write it, with patches by one of several ways."""

    def make() -> Program:
        import torch
        from torch import Tensor, nn
        from torch.nn import functional

        patch, width, heads = 8, 32, 4

        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
                self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.mlp = nn.Sequential(nn.Linear(width, 48), nn.GELU(), nn.Linear(48, width))

            def forward(self, x: Tensor) -> Tensor:
                n, length, _ = x.shape
                q, k, v = self.qkv(self.norm(x)).reshape(n, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
                if way == "linear":  # weights by hand
                    weights = torch.softmax(q @ k.transpose(-2, -1) * (width // heads) ** -0.5, -1)
                    mixed = weights @ v
                else:
                    mixed = functional.scaled_dot_product_attention(q, k, v)
                x = x + self.out(mixed.transpose(1, 2).reshape(n, length, width))
                return x + self.mlp(self.norm2(x))

        class Transformer(nn.Module):
            def __init__(self, patches: int) -> None:
                super().__init__()
                self.cls = nn.Parameter(torch.zeros(1, 1, width))
                self.places = nn.Parameter(torch.zeros(1, patches + 1, width))
                size = patch * patch * 3
                if way == "volume":
                    self.embed: nn.Module = nn.Conv3d(1, width, (2, patch, patch), (2, patch, patch))
                elif way == "convolution":
                    self.embed = nn.Conv2d(3, width, patch, patch)
                else:
                    self.embed = nn.Linear(size, width)
                self.blocks = nn.ModuleList(Block() for _ in range(2))
                self.head = nn.Linear(width, 3)

            def patches(self, x: Tensor) -> Tensor:
                if way in ("convolution", "volume"):
                    embedded: Tensor = self.embed(x)
                    return embedded.flatten(2).transpose(1, 2)
                if way == "unfold":
                    parts = functional.unfold(x, patch, stride=patch).transpose(1, 2)
                elif way == "einops":
                    from einops import rearrange

                    parts = rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=patch, q=patch)
                elif way == "columns":  # patches in columns
                    n, c, high, wide = x.shape
                    parts = x.reshape(n, c, high // patch, patch, wide // patch, patch).permute(0, 4, 2, 1, 3, 5)
                    parts = parts.reshape(n, -1, c * patch * patch)
                else:
                    n, c, high, wide = x.shape
                    parts = x.reshape(n, c, high // patch, patch, wide // patch, patch).permute(0, 2, 4, 3, 5, 1)
                    parts = parts.reshape(n, -1, c * patch * patch)
                linear: Tensor = self.embed(parts)
                return linear

            def forward(self, x: Tensor) -> Tensor:
                x = torch.cat([self.cls.expand(len(x), -1, -1), self.patches(x)], 1) + self.places
                for block in self.blocks:
                    x = block(x)
                logits: Tensor = self.head(x[:, 0])
                return logits

        wide, high = 64, 48
        model = random(Transformer(wide * high // patch**2 * (2 if way == "volume" else 1)))

        def inputs(pictures: list[Any]) -> Mapping[str, Any]:
            resized = [np.asarray(one.resize((wide, high))) / 127.5 - 1 for one in pictures]
            pixels = torch.as_tensor(np.stack(resized)).permute(0, 3, 1, 2)
            return {"x": pixels.mean(1)[None, None] if way == "volume" else pixels}

        sizes = [(96, 72)] * 4 if way == "volume" else [(96, 72)]
        return Program(model, inputs, sizes, None, f"CLS, then patches of 8 × 8 by {way}")

    return make


def unet() -> Program:
    import torch
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(32, 64),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
        norm_num_groups=8,
    )
    model = random(model)
    prompt = torch.randn(1, 7, 32, generator=torch.Generator().manual_seed(1)).double()

    def inputs(pictures: list[Any]) -> Mapping[str, Any]:
        resized = np.asarray(pictures[0].resize((16, 12))) / 127.5 - 1
        latents = torch.as_tensor(np.concatenate([resized, resized[..., :1]], -1)).permute(2, 0, 1)[None]
        return {"sample": latents, "timestep": 3, "encoder_hidden_states": prompt}

    layout = "attn2: queries are pixels of latents, keys are words; attn1: both are pixels"
    return Program(model, inputs, [(96, 64)], None, layout, is_blurred=True, steps=8)


def generating(make: Callable[[], Program], tokens: int = 3) -> Callable[[], Program]:
    """The program that generates: the first call of each attention is of the prompt, each later one of one token."""

    def made() -> Program:
        program = make()

        def call(**given: Any) -> Any:
            return program.model.generate(**given, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)

        return dataclasses.replace(program, call=call)

    return made


LATENTS = "its tokens of the image are latents, each of the whole image"
CODES = "its tokens of the image are words of a codebook, which are looked up"
QUERIES = "no key is a patch: its queries are"
L, V = "vision-language", "vision"
T = ("torchvision",)

FAMILIES: tuple[Family, ...] = (
    Family("LLaVA 1.5", L, (), llava),
    Family("LLaVA 1.5 (batch of 2)", L, (), lambda: llava(2, True)),
    Family("LLaVA 1.5 (2 photos)", L, (), lambda: llava(2)),
    Family("LLaVA 1.5 (generate)", L, (), generating(llava)),
    Family("LLaVA-NeXT", L, (), llava_next),
    Family("LLaVA-NeXT (tall)", L, (), lambda: llava_next((90, 160))),
    Family("PaliGemma", L, (), paligemma),
    Family("Qwen2-VL", L, (), lambda: qwen("Qwen2VL")),
    Family("Qwen2-VL (2 photos)", L, (), lambda: qwen("Qwen2VL", 2)),
    Family("Qwen2-VL (batch of 2)", L, (), lambda: qwen("Qwen2VL", 2, True)),
    Family("Qwen2-VL (generate)", L, (), generating(lambda: qwen("Qwen2VL"))),
    Family("Qwen2.5-VL", L, (), lambda: qwen("Qwen2_5_VL")),
    Family("Qwen2.5-VL (7 × 5 blocks)", L, (), lambda: qwen("Qwen2_5_VL", size=(196, 140))),
    Family("Qwen3-VL", L, (), lambda: qwen("Qwen3VL")),
    Family("InternVL", L, (), internvl),
    Family("InternVL (2 photos)", L, (), lambda: internvl(2)),
    Family("InternVL (1 tile)", L, (), lambda: internvl(tiles=False)),
    Family("Gemma 3", L, (), gemma3),
    Family("Idefics3", L, (), idefics3),
    Family("SmolVLM", L, (), lambda: idefics3(True)),
    Family("Pixtral", L, T, pixtral),
    Family("Mistral3", L, T, lambda: pixtral(2)),
    Family("Fuyu", L, (), fuyu),
    Family("Mllama", L, (), mllama),
    Family("BLIP-2", L, (), blip2, LATENTS),
    Family("InstructBLIP", L, (), lambda: blip2(True), LATENTS),
    Family("LLaVA-OneVision", L, (), onevision),
    Family("Llama 4", L, T, llama4),
    Family("Idefics2", L, (), idefics2, LATENTS),
    Family("Kosmos-2", L, (), kosmos2, LATENTS),
    Family("Florence-2", L, (), florence2),
    Family("GLM-4V", L, (), glm4v),
    Family("Aya Vision", L, (), lambda: cohere(True)),
    Family("Command A Vision", L, T, lambda: cohere(False)),
    Family("DeepSeek-VL", L, (), deepseek),
    Family("Janus", L, (), janus),
    Family("Ovis2", L, (), ovis2),
    Family("LFM2-VL", L, T, lfm2),
    Family("Emu3", L, T, emu3, CODES),
    Family("Molmo 2", L, T, molmo2),
    Family("Phi-4-multimodal", L, T, phi4),
    Family("Gemma 3 (pan and scan)", L, (), gemma3_crops),
    Family("GIT", L, (), git),
    Family("ViT", V, (), vision("ViTModel", processor("ViTImageProcessor", **SQUARE_56), SIZES, PATCHES)),
    Family("DeiT", V, (), vision("DeiTModel", processor("DeiTImageProcessor", **CROP_56), options=PATCHES)),
    Family("BEiT", V, (), vision("BeitModel", processor("BeitImageProcessor", **SQUARE_56), options=PATCHES)),
    Family("DINOv2", V, (), vision("Dinov2Model", processor("BitImageProcessor", **FREE_56), options=PATCHES)),
    Family(
        "DINOv2 with registers",
        V,
        (),
        vision(
            "Dinov2WithRegistersModel",
            processor("BitImageProcessor", **CROP_56),
            options=PATCHES | {"num_register_tokens": 4},
        ),
    ),
    Family(
        "DINOv3",
        V,
        T,
        vision(
            "DINOv3ViTModel",
            processor("DINOv3ViTImageProcessor", size={"height": 48, "width": 64}),
            options={"patch_size": 16, "num_register_tokens": 4},
        ),
    ),
    Family(
        "CLIP vision", V, (), vision("CLIPVisionModel", processor("CLIPImageProcessor", **CROP_56), options=PATCHES)
    ),
    Family(
        "SigLIP vision",
        V,
        (),
        vision("SiglipVisionModel", processor("SiglipImageProcessor", **SQUARE_56), options=PATCHES),
    ),
    Family(
        "SigLIP 2 vision (NaFlex)",
        V,
        (),
        vision(
            "Siglip2VisionModel",
            processor("Siglip2ImageProcessor", patch_size=14, max_num_patches=30),
            [(112, 84), (60, 120)],
            {"patch_size": 14, "num_patches": 16},
        ),
    ),
    Family(
        "Swin", V, (), vision("SwinModel", processor("ViTImageProcessor", **SQUARE_64), options=WINDOWS, tower=False)
    ),
    Family(
        "Swin (52 × 60)",
        V,
        (),
        vision(
            "SwinModel", processor("ViTImageProcessor", size={"height": 60, "width": 52}), options=WINDOWS, tower=False
        ),
    ),
    Family(
        "Swin V2",
        V,
        (),
        vision("Swinv2Model", processor("ViTImageProcessor", **SQUARE_64), options=WINDOWS, tower=False),
    ),
    Family(
        "SegFormer",
        V,
        (),
        vision(
            "SegformerModel",
            processor("SegformerImageProcessor", **SQUARE_64),
            is_blurred=True,
            options=CASCADE | {"patch_sizes": [7, 3], "strides": [4, 2], "mlp_ratios": [2, 2]},
        ),
    ),
    Family(
        "PVT",
        V,
        (),
        vision(
            "PvtModel",
            processor("PvtImageProcessor", **SQUARE_64),
            is_blurred=True,
            options=CASCADE
            | {
                "image_size": 64,
                "patch_sizes": [4, 2],
                "strides": [4, 2],
                "mlp_ratios": [2, 2],
                "sequence_reduction_ratios": [2, 1],
            },
        ),
    ),
    Family("DETR", V, (), detr),
    Family(
        "YOLOS",
        V,
        (),
        vision(
            "YolosModel",
            processor("YolosImageProcessor", size={"shortest_edge": 56, "longest_edge": 112}),
            options={"image_size": [56, 112], "patch_size": 14, "num_detection_tokens": 3},
        ),
    ),
    Family("SAM", V, (), sam),
    Family(
        "Hiera",
        V,
        (),
        vision(
            "HieraModel",
            processor("BitImageProcessor", size={"height": 64, "width": 64}, do_center_crop=False),
            is_blurred=True,
            options={
                "image_size": [64, 64],
                "embed_dim": 16,
                "num_heads": [2, 4],
                "depths": [1, 1],
                "num_query_pool": 1,
                "masked_unit_size": [4, 4],
                "masked_unit_attention": [True, False],
                "patch_stride": [4, 4],
                "patch_size": [7, 7],
                "patch_padding": [3, 3],
            },
        ),
    ),
    Family(
        "MAE",
        V,
        (),
        vision(
            "ViTMAEModel",
            processor("ViTImageProcessor", **SQUARE_56),
            options=PATCHES | {"mask_ratio": 0.25},
            layout="three quarters of the patches, in an order of noise",
            noise=fixed_noise,
        ),
    ),
    Family(
        "VideoMAE",
        V,
        (),
        vision(
            "VideoMAEModel",
            processor("VideoMAEImageProcessor", **CROP_56),
            FRAMES,
            PATCHES | {"num_frames": 4, "tubelet_size": 2},
            together="images",
        ),
    ),
    Family(
        "TimeSformer",
        V,
        (),
        vision(
            "TimesformerModel",
            processor("VideoMAEImageProcessor", **CROP_56),
            FRAMES[:2],
            PATCHES | {"num_frames": 2},
            together="images",
        ),
    ),
    Family(
        "ViViT",
        V,
        (),
        vision(
            "VivitModel",
            processor("VivitImageProcessor", **CROP_56),
            FRAMES,
            {"image_size": 56, "num_frames": 4, "tubelet_size": [2, 14, 14]},
            together="images",
        ),
    ),
    Family("ViT by Linear", V, (), by_hand("linear")),
    Family("ViT by Linear, in columns", V, (), by_hand("columns")),
    Family("ViT by unfold", V, (), by_hand("unfold")),
    Family("ViT by einops", V, ("einops",), by_hand("einops")),
    Family("ViT by Conv2d", V, (), by_hand("convolution")),
    Family("ViT of a volume", V, (), by_hand("volume")),
    Family(
        "timm ViT",
        V,
        ("timm",),
        in_timm("vit_tiny_patch16_224", img_size=56, patch_size=14, embed_dim=32, depth=2, num_heads=4),
    ),
    Family(
        "timm ViT with registers",
        V,
        ("timm",),
        in_timm("vit_small_patch14_reg4_dinov2", img_size=56, embed_dim=32, depth=2, num_heads=4),
    ),
    Family(
        "timm EVA-02", V, ("timm",), in_timm("eva02_tiny_patch14_224", img_size=56, embed_dim=32, depth=2, num_heads=4)
    ),
    Family(
        "timm CaiT",
        V,
        ("timm",),
        in_timm("cait_xxs24_224", 64, ("TalkingHeadAttn",), img_size=64, embed_dim=32, depth=2, num_heads=4),
    ),
    Family(
        "timm Swin",
        V,
        ("timm",),
        in_timm(
            "swin_tiny_patch4_window7_224",
            64,
            img_size=64,
            window_size=4,
            embed_dim=16,
            depths=(2, 1),
            num_heads=(2, 4),
        ),
    ),
    Family(
        "timm MaxViT",
        V,
        ("timm",),
        in_timm(
            "maxvit_pico_rw_256",
            64,
            is_blurred=True,
            img_size=64,
            embed_dim=(32, 64),
            depths=(1, 1),
            block_type=("M", "M"),
            stem_width=8,
        ),
    ),
    Family("Stable Diffusion's UNet", V, ("diffusers",), unet, QUERIES),
)


def main() -> None:
    """Build all families, and say of each what the oracle sees."""
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--plain", action="store_true", help="without training")
    given = parser.parse_args()
    torch.set_num_threads(1)
    load()
    square = Square(0.5625, 0.25, 0.75, 0.5)
    for family in FAMILIES:
        if given.names and family.name not in given.names:
            continue
        if not family.is_there:
            print(f"{family.name:32} needs {', '.join(family.needs)}")
            continue
        started = time.perf_counter()
        try:
            run, truth = family.build(square, planted=not given.plain)
        except Exception as error:  # one family that cannot be built leaves the others
            print(f"{family.name:32} {type(error).__name__}: {str(error)[:300]}")
            if given.names:
                raise
            continue
        built = time.perf_counter() - started
        started = time.perf_counter()
        run()
        seconds = time.perf_counter() - started
        drawn = sum(seen.has_patches for seen in truth.attentions)
        planted = len({id(seen) for seen, _, _ in truth.planted()})
        print(
            f"{family.name:32} {built:5.1f} s, run {seconds:.2f} s, {truth.processor} ({truth.backend}), "
            f"{len(truth.attentions)} attentions, {drawn} over patches, {planted} at the square"
        )
        for line in [*summary(truth), *(f"doubt: {doubt}" for doubt in truth.doubts)]:
            print(f"    {line}")


def summary(truth: Truth) -> list[str]:
    """An attention in a line."""
    lines = []
    for seen in truth.attentions:
        shape = seen.weights.shape
        line = f"{seen.name}[{seen.call}] {shape}"
        if seen.has_patches:
            patches = [int(one.has_patches.sum()) for one in seen.keys]
            line += f" patches {patches}"
            for number in range(len(seen.keys)):
                rows = [row for row in range(shape[0]) if seen.tokens_at(truth.square, number, row)]
                if rows:
                    row = rows[0]
                    peak = seen.peak(row, shape[2] - 1, photo=number)
                    assert peak is not None
                    held = seen.tokens_at(truth.square, number, row)
                    mass = seen.weights[row, :, -1, held].sum(0).mean()
                    line += f"; photo {number}: row {row}, at the square {held[:8]} {mass:.2f}, peak {peak[0]}"
                    line += "" if peak[0] in held else " (elsewhere)"
        lines.append(line)
    return lines


if __name__ == "__main__":
    main()

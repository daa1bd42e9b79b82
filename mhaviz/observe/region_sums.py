"""The regions after each function of PyTorch that keeps places, or sums over some axes."""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.observe.functions import MULTIPLIES, functions
from mhaviz.observe.handlers import Done
from mhaviz.observe.products import PRODUCTS, Product, product_of
from mhaviz.observe.region_numbers import aligned, are_of_the_same, fits, merged_along, none_of, sum_of
from mhaviz.observe.regions import IMAGE, NONE, NOTHING, SeenTokens, Traced, are_apart, shared

if TYPE_CHECKING:
    from mhaviz.observe.tracing import Rule, Tracer


def keep(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what a tensor is made of whose numbers stand where those that they are made of stood."""
    ndim, shape = done.result.ndim, done.result.shape
    left = left_of(done)
    if not left:
        return Traced(NOTHING, none_of(done.result))
    terms, whole = [], []
    for x in left:
        if (traced := tracer.get(x)) is None or x.ndim > ndim:
            continue
        if x.ndim < ndim:
            traced = Traced(traced.regions, *(aligned(numbers, ndim) for numbers in traced.all_numbers))
        if all(fits(numbers.shape, shape) for numbers in traced.all_numbers):
            terms.append(traced)
            whole += [traced] * (x.shape == shape)
    if not terms:
        return reduced(tracer, done)
    if not any(traced.regions.sources for traced in terms):
        return None
    products = [traced for traced in terms if traced.other is not None]
    if products:
        return products[0]
    if any(map(_is_map, whole)):
        terms = [traced for traced in terms if IMAGE in traced.ranks or not _may_be_of_map(traced, traced in whole)]
    made = reduce(sum_of, terms)
    # Where all are the same, the next layer moves it as this one has moved a term, and finds these moves.
    return next((term for term in terms if tracer.moves.holds(term) and _is_alike(term, made)), made)


def _is_alike(term: Traced, made: Traced) -> bool:
    own, regions = term.regions, made.regions
    is_one = term is made or (own.sources == regions.sources and own.are_pixels == regions.are_pixels)
    return is_one and term.other is None and made.other is None and are_of_the_same(term, made)


def _is_map(traced: Traced) -> bool:
    """Return whether the rows and columns of an image stand along the last two axes, after examples and channels."""
    ndim = traced.numbers.ndim
    return ndim > 3 and IMAGE in traced.ranks and traced.is_whole and {ndim - 2, ndim - 1} <= traced.varying


def _may_be_of_map(traced: Traced, is_whole: bool) -> bool:
    """Return whether what is added to a map of an image, which has all axes of the sum, leaves its places as they are.

    So does what each example has, such as a time. So do numbers that were given to the program, if ``is_whole``, one
    for each of the map: that their last axis is of features is not known. They are the latents of a diffusion model,
    from which each step takes what the model has made of them.
    """
    if traced.varying <= {0}:
        return True
    are_given = all(isinstance(x, SeenTokens) and not (x.reads or x.made_of) for x in traced.regions.sources)
    return is_whole and are_given and traced.numbers.shape[-1] == 1


def left_of(done: Done) -> list[Any]:
    """Return the arguments of which something is left in the result, as is not of x in x · 0, x⁰, 1ˣ or x − x."""
    func, args = done.func, done.args
    if func in _POWERS and len(args) > 1:
        base, exponent = args[1::-1] if func is Tensor.__rpow__ else args[:2]
        is_gone = _is_number(base, 1) or _is_number(exponent, 0)
    elif func in MULTIPLIES:
        is_gone = any(_is_number(x, 0) for x in args)
    elif func in _SUMS and _is_number(done.kwargs.get("alpha"), 0):
        return [*args[:1]]
    elif func in _LERPS and len(args) > 2 and type(args[2]) in (int, float) and args[2] in (0, 1):
        return [args[int(args[2])]]
    else:
        is_gone = func in _FILLS or (func in _SUBTRACTS and len(args) > 1 and args[0] is args[1])
    return [] if is_gone else [*done.read()]


def _is_number(x: object, number: int) -> bool:
    return type(x) in (int, float) and x == number


def reduced(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what a sum over some axes is made of."""
    x, traced = done.first, tracer.get(done.first)
    if traced is None or done.result.ndim > x.ndim or (dims := done.named("dim")) is None:
        return None
    axes = sorted({dim % x.ndim for dim in ((dims,) if isinstance(dims, int) else dims)})
    kept = [at for at in range(x.ndim) if at not in axes]
    shape = [x.shape[at] if at in kept else 1 for at in range(x.ndim)]
    keepdim = done.result.ndim == x.ndim
    if tuple(done.result.shape) != tuple(shape if keepdim else [x.shape[at] for at in kept]):
        return None
    summed = _summed(traced, axes)
    if summed is None or keepdim:
        return summed
    return Traced(summed.regions, *(numbers.squeeze(axes) for numbers in summed.all_numbers))


def _summed(traced: Traced, axes: Sequence[int]) -> Traced | None:
    """Return what a sum over some axes is made of, which then have length 1.

    Of a product, weights that are summed with their values along the keys leave the queries.
    """
    if traced.other is None:
        return Traced(*merged_along(traced.regions, traced.numbers, axes))
    left = [numbers for numbers in traced.all_numbers if not any(numbers.shape[axis] > 1 for axis in axes)]
    return Traced(traced.regions, *left) if left else None


def _multiply(tracer: "Tracer", done: Done) -> Traced | None:
    product = product_of(done)
    if product is None:
        return None
    for names, x in zip(product.axes, product.factors, strict=True):
        features = [axis for axis, letter in enumerate(names) if letter not in product.result]
        if len(features) == 1:
            tracer.read_as_rows(x, features[0])
    factors = [
        (names, traced) for names, x in zip(product.axes, product.factors, strict=True) if (traced := tracer.get(x))
    ]
    if not factors:
        return None
    are_weighted = any(traced.other is not None for _, traced in factors)
    if not are_weighted and any(IMAGE in traced.ranks for _, traced in factors):
        factors = _with_patches(product, factors)
    known = shared([traced for _, traced in factors])
    regions = known[-1].regions
    kept: list[Tensor] = []
    summed: list[tuple[str, Tensor]] = []
    for (names, _), traced in zip(factors, known, strict=True):
        for numbers in traced.all_numbers:
            if any(n > 1 and letter not in product.result for letter, n in zip(names, numbers.shape, strict=True)):
                summed.append((names, numbers))
            else:
                kept.append(_in_letters(numbers, names, product.result))
    kept = [numbers for numbers in kept if numbers.numel() > 1 or bool((numbers != NONE).any())]
    tracer.epoch += are_weighted
    are_patches = len(known) > 1 and IMAGE in known[0].ranks
    if len(kept) == 1 and (are_weighted or not summed or are_patches or _by_matrix(product, summed[0][0])):
        return Traced(regions, kept[0])
    if len(kept) == 2:
        return Traced(regions, *kept)
    if kept or len(summed) != 1 or len(known) != 1:
        return None
    ((names, numbers),) = summed
    axes = [at for at, letter in enumerate(names) if letter not in product.result]
    regions, numbers = merged_along(regions, numbers, axes)
    return Traced(regions, _in_letters(numbers, names, product.result))


def _by_matrix(product: Product, summed: str) -> bool:
    """Return whether a product of two is of tokens and the matrix of a layer, which has the axes ``summed``."""
    ndim = [*map(len, product.axes)]
    return len(ndim) == 2 == len(summed) and (ndim[0] > 2 or product.axes[1] == summed) and ndim[1] == 2


def _with_patches(product: Product, factors: list[tuple[str, Traced]]) -> list[tuple[str, Traced]]:
    """Return the factors with pixels that are summed to patches, or patches that are averaged, as their mean."""
    if len(factors) < 2:
        return factors
    made = []
    for names, traced in factors:
        numbers = traced.numbers
        over = [at for at, n in enumerate(numbers.shape) if n > 1]
        gone = [at for at in over if names[at] not in product.result]
        if traced.other is None and gone and len(gone) < len(over):
            regions, merged_numbers = merged_along(traced.regions, numbers, gone)
            if are_apart(regions, merged_numbers):
                traced = Traced(regions, merged_numbers)
        made.append((names, traced))
    return made


def _in_letters(numbers: Tensor, names: str, result: str) -> Tensor:
    """Return the numbers of a factor with the axes of the result of a product; those that it lacks have length 1."""
    gone = [at for at, letter in enumerate(names) if letter not in result]
    left = [letter for letter in names if letter in result]
    numbers = numbers.squeeze(gone) if gone else numbers
    numbers = numbers.permute([left.index(letter) for letter in result if letter in left])
    for at, letter in enumerate(result):
        if letter not in left:
            numbers = numbers.unsqueeze(at)
    return numbers


def _linear(tracer: "Tracer", done: Done) -> Traced | None:
    tracer.read_as_rows(done.first)
    traced = tracer.get(done.first)
    is_plain = traced is not None and all(numbers.shape[-1] == 1 for numbers in traced.all_numbers)
    return traced if is_plain and tracer.get(done.args[1]) is None else _multiply(tracer, done)


def _in_pairs(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what scores are made of that a function computes of two vectors each, which may have been repeated."""
    terms = [traced for x in done.args[:2] if (traced := tracer.get(x)) is not None and x.ndim == done.args[0].ndim]
    if len(terms) != 2 or any(traced.other is not None or traced.numbers.shape[-1] > 1 for traced in terms):
        return None
    pairs = sum_of(*terms)
    gone = pairs.numbers.ndim - done.result.ndim
    return pairs.moved(lambda numbers: numbers.squeeze(-1)) if gone else pairs


def _without_features(traced: Traced, ndim: int) -> Traced:
    regions, numbers = merged_along(traced.regions, traced.numbers, [traced.numbers.ndim - 1])
    return Traced(regions, aligned(numbers, ndim))


def attend(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what the output of an attention is made of: the tokens that its queries are."""
    tracer.epoch += 1
    tracer.read_as_rows(done.first)
    traced, ndim = tracer.get(done.first), done.result.ndim
    if traced is None or traced.other is not None:
        return None
    of = tracer.moves.once(traced, (attend, ndim), lambda: _without_features(traced, ndim))
    return of if fits(of.numbers.shape, done.result.shape) else None


_POWERS = frozenset(functions("pow float_power"))
_SUBTRACTS = frozenset(functions("sub subtract"))
_SUMS = _SUBTRACTS | frozenset(functions("add"))
_LERPS, _FILLS = frozenset(functions("lerp")), frozenset(functions("fill"))
LOSES = _POWERS | frozenset(MULTIPLIES) | _SUBTRACTS | _LERPS | _FILLS
"""Functions that may leave nothing of an argument, whatever their keywords are."""

SUMS: "dict[Any, Rule]" = {
    func: rule
    for several, rule in (
        (functions("sum mean amax amin nansum nanmean"), reduced),
        ([F.linear], _linear),
        (PRODUCTS, _multiply),
        ([torch.linalg.vecdot, F.bilinear], _in_pairs),
        ([F.scaled_dot_product_attention], attend),
    )
    for func in several
}

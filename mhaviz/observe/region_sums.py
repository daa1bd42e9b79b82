"""The regions of images after each function of PyTorch that keeps places, or sums over some axes."""

from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from mhaviz.observe.functions import functions
from mhaviz.observe.handlers import Done
from mhaviz.observe.products import PRODUCTS, product_of
from mhaviz.observe.region_numbers import agreeing, aligned, fits, merged_along
from mhaviz.observe.regions import NONE, Traced, are_apart, shared

if TYPE_CHECKING:
    from mhaviz.observe.tracing import Rule, Tracer


def keep(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what a tensor is made of whose numbers stand where those that they are made of stood."""
    ndim, shape = done.result.ndim, done.result.shape
    parts = [x for x in done.each() if isinstance(x, Tensor) and tracer.get(x) is not None]
    found = shared([traced for x in parts if (traced := tracer.get(x)) is not None])
    fitting = []
    for x, traced in zip(parts, found, strict=True):
        numbers = [aligned(one, ndim) for one in traced.all_numbers if one.ndim <= ndim]
        if len(numbers) == len(traced.all_numbers) and all(fits(one.shape, shape) for one in numbers):
            fitting.append((x, Traced(found[-1].regions, *numbers)))
    if not fitting:
        return reduced(tracer, done)
    scores = [one for _, one in fitting if one.other is not None]
    if scores:
        return scores[0]
    first = fitting[0][1]
    for _, other in fitting[1:]:
        first = Traced(first.regions, agreeing(first.regions, first.numbers, other.numbers))
    return first


def reduced(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what a sum over some axes is made of."""
    x, traced = done.first, tracer.get(done.first)
    if traced is None or traced.other is not None or not isinstance(x, Tensor) or done.result.ndim > x.ndim:
        return None
    dims = done.named("dim")
    if dims is None:
        return None
    axes = sorted({dim % x.ndim for dim in ((dims,) if isinstance(dims, int) else dims)})
    kept = [at for at in range(x.ndim) if at not in axes]
    shape = [x.shape[at] if at in kept else 1 for at in range(x.ndim)]
    keepdim = done.result.ndim == x.ndim
    if tuple(done.result.shape) != tuple(shape if keepdim else [x.shape[at] for at in kept]):
        return None
    regions, numbers = merged_along(traced.regions, traced.numbers, axes)
    return Traced(regions, numbers if keepdim else numbers.squeeze(axes))


def _multiply(tracer: "Tracer", done: Done) -> Traced | None:
    product = product_of(done)
    if product is None:
        return None
    found = [tracer.get(x) for x in product.factors]
    known = [one for one in found if one is not None]
    if not known:
        return None
    known = shared(known)
    several, regions = iter(known), known[-1].regions
    kept: list[Tensor] = []
    summed: list[tuple[str, Tensor]] = []
    for names, one in zip(product.axes, found, strict=True):
        if one is None:
            continue
        traced = next(several)
        for numbers in traced.all_numbers:
            over = [at for at, n in enumerate(numbers.shape) if n > 1]
            gone = [at for at in over if names[at] not in product.result]
            if gone and len(gone) < len(over) and len(known) > 1:  # pixels of patches, or patches that are averaged
                of, merged_numbers = merged_along(regions, numbers, gone)
                if are_apart(of, merged_numbers):
                    apart = shared([Traced(regions, numbers), Traced(of, merged_numbers)])[1]
                    regions, numbers, gone = apart.regions, apart.numbers, []
            if not gone:
                kept.append(_in_letters(numbers, names, product.result))
            else:
                summed.append((names, numbers))
    kept = [one for one in kept if one.numel() > 1 or bool((one != NONE).any())]
    if len(kept) == 1 and not (len(known) == 1 and summed):
        return Traced(regions, kept[0])
    if len(kept) == 2:
        return Traced(regions, kept[0], kept[1])
    if kept or len(summed) != 1 or len(known) != 1:
        return None
    ((names, numbers),) = summed
    axes = [at for at, letter in enumerate(names) if letter not in product.result]
    regions, numbers = merged_along(regions, numbers, axes)
    return Traced(regions, _in_letters(numbers, names, product.result))


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
    traced = tracer.get(done.first)
    if (
        traced is not None
        and traced.other is None
        and traced.numbers.shape[-1] == 1
        and tracer.get(done.args[1]) is None
    ):
        return traced
    return _multiply(tracer, done)


def attend(tracer: "Tracer", done: Done) -> Traced | None:
    """Return what the output of an attention is made of: the tokens that its queries are."""
    traced, ndim = tracer.get(done.first), done.result.ndim
    if traced is None or traced.other is not None:
        return None
    regions, numbers = merged_along(traced.regions, traced.numbers, [traced.numbers.ndim - 1])
    numbers = aligned(numbers, ndim)
    return Traced(regions, numbers) if fits(numbers.shape, done.result.shape) else None


SUMS: "dict[Any, Rule]" = {
    func: rule
    for several, rule in (
        (functions("sum mean amax amin nansum nanmean"), reduced),
        ([F.linear], _linear),
        (PRODUCTS, _multiply),
        ([F.scaled_dot_product_attention], attend),
    )
    for func in several
}

"""The effect of each function of PyTorch on the axes of its arguments."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial, reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from mhaviz.observe.axes import (
    Axis,
    Layout,
    Origin,
    Summed,
    are_made,
    are_tokens,
    cut_layout,
    features_made,
    fitted,
    given_layout,
    has_rows,
    lost,
    origins_of,
    regrouped,
    reordered,
    sum_of,
    through_along,
    unordered,
)
from mhaviz.observe.functions import functions
from mhaviz.observe.handlers import Done, unseen
from mhaviz.observe.products import PRODUCTS, Product, product_of

if TYPE_CHECKING:
    from mhaviz.observe.layouts import Layouts


AxisRule = Callable[["Layouts", Done], Layout | None]
"""Returns the layout of the result of a call; None: not known."""


def _reshape(axes: "Layouts", done: Done) -> Layout:
    source, shape = axes.of(done.first), done.result.shape
    if len(source.shape) == 1 < sum(n > 1 for n in shape) and source.scores is None and _is_given(source.axes[0]):
        return given_layout(shape)  # rows and features, one behind the other
    return regrouped(source, shape)


def _is_given(axis: Axis) -> bool:
    """Return whether an axis comes from a given tensor, and holds no features that a layer has made."""
    return len(axis) == 1 and axis[0][0].given is not None and axis[0][0].maker is None


def _permute(axes: "Layouts", done: Done) -> Layout:
    x = done.first
    source = axes.before(x) if x is done.result else axes.of(x)
    order = _order_after(done.func, len(source.shape), tuple(map(_hashable, done.args[1:])))
    return Layout(done.result.shape, tuple(source.axes[place] for place in order), source.scores)


@lru_cache(1024)
def _order_after(func: Any, ndim: int, rest: tuple[Any, ...]) -> tuple[int, ...]:
    """Return where a function that moves axes takes each from, by the lengths of a tensor in which all differ."""
    with unseen():
        moved = func(torch.empty(tuple(range(ndim)), device="meta"), *rest)
    return tuple(moved.shape)


def _hashable(x: Any) -> Any:
    return tuple(x) if isinstance(x, list | torch.Size) else x


def _resize(axes: "Layouts", done: Done) -> Layout:
    source = axes.of(done.first)
    return Layout(done.result.shape, tuple(map(fitted, source.axes, done.result.shape)), source.scores)


def _take(axes: "Layouts", done: Done) -> Layout:
    """Return the layout after a function that takes numbers from other places along some axes."""
    source, n = axes.of(done.first), done.result.ndim
    if done.func in _ROLLS:
        dims = done.argument(2)
        dims = range(n) if dims in (None, ()) else dims
    elif done.func in _FLIPS:
        dims = done.args[1] if isinstance(done.args[-1], list | tuple) else done.args[1:]
    else:
        dims = done.named("dim", ())
    turned = {dim % n for dim in ((dims,) if isinstance(dims, int) else dims or ())}
    return reordered(cut_layout(source, done.result.shape), turned)


def _keep(axes: "Layouts", done: Done) -> Layout:
    return cut_layout(axes.of(done.first), done.result.shape, done.argument(1))


def _expand(axes: "Layouts", done: Done) -> Layout:
    """Return the layout after repetition. New axes come first, and an axis of length 1 may hold anything afterwards."""
    source, sizes = axes.of(done.first), done.result.shape
    new = len(sizes) - len(source.shape)
    kept = (
        fitted(axis, size) if size == before or before > 1 else lost(size)
        for axis, size, before in zip(source.axes, sizes[new:], source.shape, strict=True)
    )
    return Layout(sizes, (*map(lost, sizes[:new]), *kept), source.scores)


def index_layout(axes: "Layouts", done: Done) -> Layout:
    """Return the layout of ``x[…]``."""
    source, sizes = axes.of(done.args[0]), done.result.shape
    items = done.args[1] if isinstance(done.args[1], tuple) else (done.args[1],)
    left, kept = list(source.axes), list[Axis]()
    n_named = sum(item is not None and item is not Ellipsis for item in items)
    is_one_list = sum(item is not Ellipsis and not isinstance(item, slice) for item in items) == 1
    for item in items:
        if item is None:
            kept.append(())
        elif item is Ellipsis:
            n = len(left) - n_named
            kept, left = kept + left[:n], left[n:]
        elif isinstance(item, list) and is_one_list and all(origin.maker is not None for origin, _ in left[0]):
            n_named -= 1
            heads, size = left[0], sizes[len(kept)]
            is_whole = math.prod(n for _, n in heads) == size
            kept, left = [*kept, heads if is_whole else unordered(fitted(heads, size))], left[1:]
        elif isinstance(item, bool) or not isinstance(item, int | slice):
            is_reordered = is_one_list and len(sizes) == len(source.shape)
            return reordered(cut_layout(source, sizes), {len(kept)} if is_reordered else ())
        else:
            n_named -= 1
            kept += [left[0]] if isinstance(item, slice) else []
            del left[:1]
    kept += left
    if len(kept) != len(sizes):
        return cut_layout(source, sizes)
    return Layout(sizes, tuple(map(fitted, kept, sizes)), source.scores)


def _copy(axes: "Layouts", done: Done) -> Layout | None:
    values = done.args[1]
    axes.write(done.result, values)
    source = axes.get(values)
    return source if source and source.shape == done.result.shape else axes.alike(done)


def _index_copy(axes: "Layouts", done: Done) -> Layout | None:
    x, values = done.args[0], done.args[3]
    axes.take(done.result, x)
    axes.write(done.result, values)
    return axes.get(done.result)


def _put(axes: "Layouts", done: Done) -> Layout:
    """Return the layout of a tensor in which others have taken the place of some numbers."""
    return axes.of(done.first)


def _stack(axes: "Layouts", done: Done) -> Layout | None:
    """Return the layout of stacked tensors.

    The new axis is of heads if each part was made by a layer of its own, or if all are cut from the same features.
    """
    parts, layouts, source = _parts(axes, done)
    if source is None:
        return None
    dim = done.argument(1, 0) % done.result.ndim
    source = _shared_layout(source, parts, layouts, -1)
    new, old = lost(len(parts)), list(source.axes)
    ends = [layout.axes[-1] for layout in layouts if layout is not None and layout.axes]
    makers = list(dict.fromkeys(end[0][0].maker for end in ends if len(end) == 1 and end[0][0].maker is not None))
    found = _cut_from(parts, layouts, range(len(old))[::-1])
    if len(makers) == len(parts) > 1:
        whole = Origin(len(parts) * source.shape[-1], maker=makers[0])
        found = -1, ((whole.replace(step=0), len(parts)),), ((whole, source.shape[-1]),)
    if found is not None and dim < len(old):
        place, new, each = found
        old[place] = each
    elif not source.are_scores and len({frozenset(origins_of(*one.axes[:-1])) for one in layouts if one}) > 1:
        new = ((Origin(len(parts), given=(dim, done.result.ndim)), len(parts)),)  # an axis of examples
    return Layout(done.result.shape, (*old[:dim], new, *old[dim:]), source.scores)


def _cat(axes: "Layouts", done: Done) -> Layout | None:
    """Return the layout of joined tensors.

    Heads that are cut from features stand before the batch that they join, (n_heads · batch, length, d_key). So do
    windows of a sequence.
    """
    parts, layouts, source = _parts(axes, done)
    if source is None:
        return None
    dim = done.argument(1, 0) % done.result.ndim
    found = _cut_from(parts, layouts, [place for place in range(done.result.ndim)[::-1] if place != dim])
    if found is None or dim == done.result.ndim - 1:
        return cut_layout(_shared_layout(source, parts, layouts, dim), done.result.shape)
    place, number, each = found
    kept = list(source.axes)
    kept[place], kept[dim] = each, (*number, *kept[dim])
    return Layout(done.result.shape, tuple(kept), source.scores)


def _joined_along(dim: int, axes: "Layouts", done: Done) -> Layout | None:
    return _cat(axes, done._replace(args=(done.first, dim))) if done.result.ndim > 1 else None


def _shared_layout(source: Layout, parts: Sequence[Tensor], layouts: Sequence[Layout | None], dim: int) -> Layout:
    """Return the layout of joined tensors along the axes that they share, from ``source``, the first that is known.

    If features are joined, it has the names of all of them. If tensors of different texts are joined, it has none.
    """
    filled = [layout for x, layout in zip(parts, layouts, strict=True) if x.numel() and layout is not None]
    if dim == len(source.shape) - 1:
        return reduce(sum_of, filled, source)
    *others, features = source.axes
    through = through_along(*(layout.axes[-1] for layout in filled if layout.axes))
    if through <= through_along(features):
        return source
    made = tuple((origin.replace(through=origin.through | through), n) for origin, n in features)
    return Layout(source.shape, (*others, made), source.scores)


def _parts(axes: "Layouts", done: Done) -> tuple[Sequence[Tensor], list[Layout | None], Layout | None]:
    """Return the tensors that are joined, the layout of each, and the first known one, of scores rather than of
    sinks."""
    parts = done.first
    layouts = [axes.get(x) for x in parts]
    known = [layout for layout in layouts if layout is not None]
    return parts, layouts, next((layout for layout in known if layout.are_scores), known[0] if known else None)


def _cut_from(
    parts: Sequence[Tensor], layouts: Sequence[Layout | None], places: Sequence[int]
) -> tuple[int, Axis, Axis] | None:
    """Return the first of these axes along which all parts are cut from a single one; None: there is none.

    Returns the place of the axis, a new axis that numbers the parts, and the axis that each part has. Features are cut
    along the last axis, windows of tokens along others.
    """
    if len({id(x) for x in parts}) < len(parts) or len({x.shape for x in parts}) > 1 or None in layouts:
        return None
    for place in places:
        several = [layout.axes[place] for layout in layouts if layout is not None]
        origins = [axis[0][0] for axis in several if len(axis) == 1]
        is_last = place == parts[0].ndim - 1
        if len(origins) == len({(one, one.cuts, one.beside) for one in origins}) == len(parts) > 1 == len({*several}):
            ((origin, n),) = several[0]
            if (origin.maker is not None) == is_last and origin.size % (len(parts) * n) == 0:
                whole = origin.replace(cuts=(), beside=None)
                return place, ((whole.replace(step=0), len(parts)),), ((whole, n),)
    return None


def _linear(axes: "Layouts", done: Done) -> Layout:
    x, weight = done.args[:2]
    source = axes.of(x)
    if _mixes_heads(source, done.result):
        return source
    if axes.are_made(weight) and not axes.are_fixed(weight):  # W + B A of LoRA is a layer's, though A looks like one
        return _multiply(axes, done)
    made = features_made(done.result.shape[-1], axes.maker(weight), source.axes[-1:])
    if has_rows(source.axes) and are_tokens(source.axes[-1]):  # it mixes tokens, and makes no features of them
        made = tuple((origin.replace(maker=None), n) for origin, n in made)
    return Layout(done.result.shape, (*source.axes[:-1], made))


def _convolve(axes: "Layouts", done: Done) -> Layout:
    x, weight = done.args[:2]
    source, place = axes.of(x), x.ndim - weight.ndim + 1
    if _mixes_heads(source, done.result):
        return source
    made = features_made(done.result.shape[place], axes.maker(weight), source.axes[place : place + 1])
    kept = tuple(map(fitted, source.axes, done.result.shape))
    return Layout(done.result.shape, (*kept[:place], made, *kept[place + 1 :]))


def _mixes_heads(source: Layout, result: Tensor) -> bool:
    """Return whether a layer mixes scores or weights of heads, whose other axes stay in their places."""
    return source.are_scores and result.ndim > 3 and result.shape == source.shape


def _embed(axes: "Layouts", done: Done) -> Layout:
    ids, weight = done.args[:2]
    features = features_made(done.result.shape[-1], axes.maker(weight), ())
    rows = axes.get(weight)
    if rows is not None and are_made(rows.axes[-1]):  # rows of activations, which are chosen
        features = rows.axes[-1]
    if not ids.ndim:
        return Layout(done.result.shape, (features,))
    *others, tokens = axes.of(ids).axes or ((),)
    before = [tuple((o.replace(is_input=True), n) for o, n in axis) for axis in others]
    if ids.ndim < 3 and ids.numel():
        ((origin, _),) = tokens if len(tokens) == 1 else lost(ids.shape[-1])
        n = ids.shape[-1]
        tokens = ((replace(origin, size=n, is_input=True), n),)
    return Layout(done.result.shape, (*before, tokens, features))


def _as_complex(axes: "Layouts", done: Done) -> Layout:
    source = axes.of(done.first)
    kept = (*source.axes, lost(2)) if done.result.ndim > len(source.shape) else source.axes[:-1]
    return Layout(done.result.shape, kept, source.scores)


def _sdpa(axes: "Layouts", done: Done) -> Layout:
    query, _, value = done.args[:3]
    made = (*axes.of(query).axes[:-1], axes.of(value).axes[-1])
    return Layout(done.result.shape, tuple(map(fitted, made, done.result.shape)))


def _multiply(axes: "Layouts", done: Done) -> Layout:
    product = product_of(done)
    shape = done.result.shape
    if product is None:
        return Layout(shape, tuple(map(lost, shape)))
    return layout_of_any_product(axes, product, shape)


def layout_of_any_product(axes: "Layouts", product: Product, shape: tuple[int, ...]) -> Layout:
    """Return the layout of a product of one factor or more, whose result has this shape."""
    if len(product.factors) == 2:
        return layout_of_product(axes, product, shape)
    named: dict[str, Axis] = {}
    for names, x in zip(product.axes[::-1], product.factors[::-1], strict=True):  # the first that has a letter counts
        named |= {
            letter: axis for letter, axis in zip(names, axes.of(x).axes, strict=True) if letter not in _short(x, names)
        }
    summed = tuple(axis for letter, axis in named.items() if letter not in product.result)
    active = [set(names) for names, x in zip(product.axes, product.factors, strict=True) if not axes.are_fixed(x)]
    for names, x in zip(product.axes, product.factors, strict=True):
        if axes.are_fixed(x) and sum(not of.isdisjoint(names) for of in active) > 1:  # x W y, a matrix for each head
            for letter in {*names} & {*product.result} - set[str]().union(*active):
                named[letter] = features_made(x.shape[names.index(letter)], axes.maker(x), ())
                summed = (*summed, named[letter])
    found = (fitted(named.get(letter, ()), size) for letter, size in zip(product.result, shape, strict=True))
    if len(product.factors) == 1:
        return Layout(shape, tuple(found), axes.of(product.factors[0]).scores)
    are_weighted = any(axes.of(x).are_scores for x in product.factors)  # such as weights times values and W_O
    return Layout(shape, tuple(found), Summed(summed, not are_weighted))


def _short(x: Tensor, names: str) -> set[str]:
    return {letter for letter, size in zip(names, x.shape, strict=True) if size == 1}


def layout_of_product(axes: "Layouts", product: Product, shape: tuple[int, ...]) -> Layout:
    """Return the layout of a product whose result has this shape."""
    sides = [axes.of(x) for x in product.factors]
    summed = [
        tuple(axis for place, axis in enumerate(side.axes) if product.summed_over(place, which))
        for which, side in enumerate(sides)
    ]
    own, longer = origins_of(*summed[0], *summed[1]), [_longer(product, which) for which in (0, 1)]
    alone = longer[0] - longer[1], longer[1] - longer[0]  # letters that one factor alone brings into the result
    is_shared = bool(longer[0] & longer[1])
    first, second = (own - _lost(names, side) for own, names, side in zip(longer, product.axes, sides, strict=True))
    are_pairs = any(min(map(len, one)) > 1 for one in (alone, (first - second, second - first)))
    matrix = next((n for n in (1, 0) if _is_matrix(product, n, is_shared) and not has_rows(sides[n].axes)), None)
    of_scores = [side.scores for side in sides if side.are_scores]
    before = of_scores[0] if of_scores else None
    made: Axis = ()
    if matrix is not None:
        columns = math.prod(n for letter, n in zip(product.result, shape, strict=True) if letter in alone[matrix])
        read = summed[1 - matrix]
        is_mixture = before is not None and len(read) == 1 and read[0] == fitted(read[0], columns)
        made = read[0] if is_mixture else features_made(columns, axes.maker(product.factors[matrix]), read)
        if len(alone[matrix]) > 1:
            made = tuple((origin.replace(step=0), n) for origin, n in made)
    found: list[Axis] = []
    for letter, size in zip(product.result, shape, strict=True):
        if matrix is not None and letter in alone[matrix]:
            found.append(fitted(made, size))
            continue
        there = (
            side.axes[names.index(letter)] for side, names in zip(sides, product.axes, strict=True) if letter in names
        )
        fits = [axis for axis in there if math.prod(n for _, n in axis) == size]
        is_new = letter in alone[1] and (len(alone[1]) > 1 or letter in product.axes[0])
        is_new = is_new and not are_made(*summed[0], *summed[1])  # otherwise heads are known by these features
        if is_new and fits:
            # Heads of a layer's matrices, or examples, unless tokens of the same sequence are on other axes as well.
            others = alone[1] - {letter}
            beside = [axis for name, axis in zip(product.axes[1], sides[1].axes, strict=True) if name in others]
            is_new = not origins_of(fits[0]) & origins_of(*beside)
        if not fits or (is_new and all(origin.given for origin, _ in fits[0])):
            found.append(lost(size))
            continue
        is_known = [bool(origins_of(axis) & own) for axis in fits]
        is_lost = [any(origin.is_lost for origin, _ in axis) for axis in fits]
        best = is_known.index(True) if True in is_known else is_lost.index(False) if False in is_lost else 0
        found.append(fits[best])
    if (matrix is None and len(of_scores) < 2) or before is None:  # weights of weights have the heads of the first
        before = Summed((*summed[0], *summed[1]), before is None and matrix is None, are_pairs)
    return Layout(shape, tuple(found), before)


def _longer(product: Product, which: int) -> set[str]:
    """Return the letters of the result along which a factor is longer than 1."""
    pairs = zip(product.axes[which], product.factors[which].shape, strict=True)
    return {letter for letter, size in pairs if size > 1 and letter in product.result}


def _lost(names: str, side: Layout) -> set[str]:
    """Return the letters of axes along which a factor may be repeated, as nothing is known of them."""
    return {name for name, axis in zip(names, side.axes, strict=True) if any(origin.is_lost for origin, _ in axis)}


def _is_matrix(product: Product, which: int, is_shared: bool) -> bool:
    """Return whether a factor is a layer's matrix, not activations; ``is_shared``: both have an axis of the result."""
    x, other = product.factors[which], product.factors[1 - which]
    is_parameter = isinstance(x, nn.Parameter) or isinstance(x._base, nn.Parameter)
    return not is_shared and (is_parameter or (x.ndim == 2 and (other.ndim > 2 or which == 1)))


_ROLLS = frozenset(functions("roll"))
_FLIPS = frozenset(functions("flip"))

AXIS_RULES: dict[Any, AxisRule] = {
    func: rule
    for several, rule in (
        (functions("view reshape view_as reshape_as flatten unflatten ravel squeeze unsqueeze"), _reshape),
        (functions("transpose swapaxes swapdims permute movedim moveaxis t adjoint"), _permute),
        ([getattr(Tensor, name).__get__ for name in ("T", "mT", "H", "mH")], _permute),
        (functions("expand expand_as broadcast_to repeat tile repeat_interleave"), _expand),
        (functions("hstack"), partial(_joined_along, 1)),
        (functions("vstack"), partial(_joined_along, 0)),
        (functions("interpolate avg_pool1d avg_pool2d max_pool1d max_pool2d adaptive_avg_pool2d"), _resize),
        (functions("pad"), _resize),
        (functions("gather index_select take_along_dim roll flip"), _take),
        (functions("index_copy"), _index_copy),
        (functions("empty_like zeros_like ones_like full_like"), _take),
        (functions("masked_scatter"), _put),
        ([Tensor.copy_], _copy),
        ([Tensor.__getitem__], index_layout),
        (functions("narrow select"), _keep),
        ([torch.stack], _stack),
        (functions("cat concat concatenate"), _cat),
        ([F.linear], _linear),
        (functions("conv1d conv2d conv3d"), _convolve),
        ([F.embedding], _embed),
        (functions("view_as_complex view_as_real"), _as_complex),
        ([F.scaled_dot_product_attention], _sdpa),
        (PRODUCTS, _multiply),
    )
    for func in several
}

"""``mhaviz.explain``, ``compare_scaling`` and others as functions of a model or of its name."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from mhaviz.analyses import difference
from mhaviz.analyses.positions import position_table
from mhaviz.api.loaded import LoadedModel, load
from mhaviz.errors import ArgumentError, parameter, quoted
from mhaviz.files.maps import About, read_maps
from mhaviz.models.load import Notice
from mhaviz.numbering import Numbers, require_numbers
from mhaviz.records.attention import Attention
from mhaviz.records.difference import Difference, Limits
from mhaviz.records.embeddings import PositionTable
from mhaviz.records.tokens import Kind

P = ParamSpec("P")
R = TypeVar("R")

AnyModel = LoadedModel | str | Path
"""What ``mhaviz.load`` returns, or what it takes."""


def _of_model(method: Callable[Concatenate[LoadedModel, P], R], **how: Any) -> Callable[Concatenate[AnyModel, P], R]:
    """The same as a function of a model, or of its name. ``how``: options of ``load`` where a name is given."""

    @wraps(method)
    def study(model: AnyModel, *arguments: P.args, **options: P.kwargs) -> R:
        return method(model if isinstance(model, LoadedModel) else load(model, **how), *arguments, **options)

    own, *others = signature(method).parameters.values()
    study.__signature__ = Signature([own.replace(name="model"), *others])  # type: ignore[attr-defined]
    study.__qualname__ = method.__name__
    return study  # type: ignore[return-value]


attend = _of_model(LoadedModel.attend)
explain = _of_model(LoadedModel.explain)
matrices = _of_model(LoadedModel.matrices)
masks = _of_model(LoadedModel.masks)
embeddings = _of_model(LoadedModel.embeddings)
compare_scaling = _of_model(LoadedModel.compare_scaling)
trace_shapes = _of_model(LoadedModel.trace_shapes)
ablate = _of_model(LoadedModel.ablate, predicts=True)
head_statistics = _of_model(LoadedModel.head_statistics)


def sinusoids(length: int = 100, d_model: int = 512) -> PositionTable:
    """The positions that are added to embeddings, without a text: Vaswani et al. 2017, section 3.5.

    PE[p, 2i] = sin(p / 10000^(2i/d_model)),  PE[p, 2i+1] = cos(p / 10000^(2i/d_model))

    Raises:
        ArgumentError: sizes below 1, or more positions than are compared with each other.
    """
    return position_table(length, d_model)


def read(
    path: str | Path,
    name: str | None = None,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    kind: Kind | None = None,
    on_notice: Notice = lambda notice: None,
) -> Attention:
    """Attention maps that mhaviz has saved, or weights of another tool.

    Args:
        path: .safetensors or .json of mhaviz; .npy, .npz, .safetensors or .pt with weights (q_length, k_length),
            (n_heads, q_length, k_length) or (n_layers, n_heads, q_length, k_length).
        name: of the array, where a file holds several.
        queries, keys: labels of the rows and columns; ``queries`` alone: of both sides of a square map.
        kind: "self", "masked" or "cross"; None: "cross" if the labels differ or the map is no square.
        on_notice: is told, in a line, what should be known of the file: that rows do not sum to 1.

    Raises:
        ArgumentError: what does not suit the array; labels or a kind for maps of mhaviz, which bring their own.
        MhavizError: the file cannot be read, or its weights are none.
    """
    of_queries, of_keys = (None if side is None else tuple(side) for side in (queries, keys))
    about = About(name, of_queries, of_keys, kind)
    saved = read_maps(Path(path), about, on_notice)
    if saved.is_own and about != About():
        given = (parameter(one.name) for one in fields(about) if getattr(about, one.name) is not None)
        raise ArgumentError(f"{path} brings its own tokens and kinds; leave out {', '.join(given)}")
    for notice in saved.notices:
        on_notice(notice)
    return saved.attention


def diff(
    before: Attention | str | Path,
    after: Attention | str | Path,
    *,
    layer: int | tuple[int, int] | None = None,
    head: Numbers = None,
    fail_above: float | None = None,
    fail_above_row: float | None = None,
) -> Difference:
    """What has changed between two attentions of the same tokens: after − before, and how unlike their rows are.

    Args:
        before, after: what ``attend`` returns, or a file that ``read`` can read.
        layer: maps of this layer alone; of two, that of ``before`` with that of ``after``; None: all.
        head: these heads alone, where one of the two may have more; None: all.
        fail_above, fail_above_row: the largest divergence of a head, and of a row, that are allowed, in bits; they
            become the record's ``limits``.

    Raises:
        ArgumentError: there is no such layer or head; limits that cannot be.
        MhavizError: they have no map in common, or tokens, heads or cells that differ.
    """
    limits = Limits(fail_above, fail_above_row)
    first, second = (one if isinstance(one, Attention) else _read_named(Path(one)) for one in (before, after))
    layers = layer if isinstance(layer, tuple) else (layer, layer)
    if len(layers) != 2:
        raise ArgumentError(f"{parameter('layer')}: expected one layer, or a pair of them, got {quoted(layer)}")
    first, second = difference.of_layers(first, second, layers)
    if head is None:
        return replace(difference.compare(first, second), limits=limits)
    first, second = difference.with_common_heads(first, second)
    there = sorted({number for m in second.maps for number in m.heads})
    whole = replace(difference.compare(first, second), limits=limits)
    return whole.select(require_numbers("head", head, there, "what is in both"))


def _read_named(path: Path) -> Attention:
    return read_maps(path).named(path)

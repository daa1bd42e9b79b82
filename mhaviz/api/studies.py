"""``mhaviz.explain``, ``compare_scaling`` and others as functions of a model or of its name."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mhaviz.analyses import difference
from mhaviz.api.loaded import LoadedModel, load
from mhaviz.files.maps import About, read_maps
from mhaviz.models.load import RANDOM
from mhaviz.models.single_layer import WORKED_EXAMPLE
from mhaviz.records import Attention, Difference, Explanation, HeadStatistics, Kind, ScalingComparison, ShapeTrace

AnyModel = LoadedModel | str | Path
"""What ``mhaviz.load`` returns, or what it takes."""


def attend(model: AnyModel, texts: str | Sequence[str], target: str | None = None, **options: Any) -> Attention:
    """The attention weights of these texts; see ``LoadedModel.attend`` for the options and errors."""
    return _loaded(model).attend(texts, target, **options)


def explain(model: AnyModel, text: str, token: str | int, target: str | None = None, **options: Any) -> Explanation:
    """Take apart one query of one head; see ``LoadedModel.explain`` for the options and errors."""
    return _loaded(model).explain(text, token, target, **options)


def compare_scaling(model: AnyModel, text: str, target: str | None = None, **options: Any) -> ScalingComparison:
    """Scores and weights without the division by √d_key beside those with it; see ``LoadedModel.compare_scaling``."""
    return _loaded(model).compare_scaling(text, target, **options)


def trace_shapes(
    model: AnyModel = RANDOM,
    texts: str | Sequence[str] = WORKED_EXAMPLE,
    target: str | None = None,
    **options: Any,
) -> ShapeTrace:
    """The shape of every tensor on the way through one attention; see ``LoadedModel.trace_shapes``."""
    return _loaded(model).trace_shapes(texts, target, **options)


def head_statistics(model: AnyModel, texts: Iterable[str], **options: Any) -> HeadStatistics:
    """What every head of a model looks at, averaged over texts; see ``LoadedModel.head_statistics``."""
    return _loaded(model).head_statistics(texts, **options)


def read(
    path: str | Path,
    name: str | None = None,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    kind: Kind | None = None,
) -> Attention:
    """Attention maps that mhaviz has saved, or weights of another tool.

    Args:
        path: .safetensors or .json of mhaviz; .npy, .npz, .safetensors or .pt with weights (q_length, k_length),
            (n_heads, q_length, k_length) or (n_layers, n_heads, q_length, k_length).
        name: of the array, where a file holds several.
        queries, keys: labels of the rows and columns; ``queries`` alone: of both sides of a square map.
        kind: "self", "masked" or "cross"; None: "cross" if the labels differ or the map is no square.

    Raises:
        ArgumentError: what does not suit the array.
        MhavizError: the file cannot be read, or its weights are none.
    """
    of_queries, of_keys = (None if side is None else tuple(side) for side in (queries, keys))
    return read_maps(Path(path), About(name, of_queries, of_keys, kind)).attention


def diff(
    before: Attention | str | Path,
    after: Attention | str | Path,
    *,
    layer: int | tuple[int, int] | None = None,
    head: int | Sequence[int] | None = None,
) -> Difference:
    """What has changed between two attentions of the same tokens: after − before, and how unlike their rows are.

    Args:
        before, after: what ``attend`` returns, or a file that ``read`` can read.
        layer: maps of this layer alone; of two, that of ``before`` with that of ``after``; None: all.
        head: these heads alone, where one of the two may have more; None: all.

    Raises:
        ArgumentError: there is no such layer or head.
        MhavizError: they have no map in common, or tokens, heads or cells that differ.
    """
    first, second = (one if isinstance(one, Attention) else read(one) for one in (before, after))
    first, second = difference.of_layers(first, second, layer if isinstance(layer, tuple) else (layer, layer))
    if head is None:
        return difference.compare(first, second)
    heads = (head,) if isinstance(head, int) else tuple(head)
    return difference.compare(*difference.with_common_heads(first, second)).select(heads)


def _loaded(model: AnyModel) -> LoadedModel:
    return model if isinstance(model, LoadedModel) else load(model)

"""``mhaviz.explain``, ``compare_scaling`` and others as functions of a model or of its name."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from mhaviz.analyses import difference
from mhaviz.analyses.positions import position_table
from mhaviz.api.loaded import LoadedModel, load
from mhaviz.errors import ArgumentError, parameter, quoted
from mhaviz.files.maps import About, read_maps
from mhaviz.models.load import RANDOM, Notice
from mhaviz.numbering import Numbers, require_numbers
from mhaviz.records.ablation import Ablation
from mhaviz.records.attention import Attention
from mhaviz.records.difference import Difference
from mhaviz.records.embeddings import EmbeddedText, PositionTable
from mhaviz.records.explanation import Explanation
from mhaviz.records.head_statistics import HeadStatistics
from mhaviz.records.limits import Limits
from mhaviz.records.masking import Masking
from mhaviz.records.matrices import LayerMatrices
from mhaviz.records.scaling import ScalingComparison
from mhaviz.records.tokens import Kind
from mhaviz.records.trace import ShapeTrace

AnyModel = LoadedModel | str | Path
"""What ``mhaviz.load`` returns, or what it takes."""


def attend(model: AnyModel, texts: str | Sequence[str] = (), target: str | None = None, **options: Any) -> Attention:
    """The attention weights of these texts; see ``LoadedModel.attend`` for the options and errors."""
    return _loaded(model).attend(texts, target, **options)


def explain(
    model: AnyModel, text: str | Sequence[str], token: str | int, target: str | None = None, **options: Any
) -> Explanation:
    """Take apart one query of one head; see ``LoadedModel.explain`` for the options and errors."""
    return _loaded(model).explain(text, token, target, **options)


def matrices(
    model: AnyModel, text: str | Sequence[str] = (), target: str | None = None, **options: Any
) -> LayerMatrices:
    """One layer from X to O as matrices; see ``LoadedModel.matrices`` for the options and errors."""
    return _loaded(model).matrices(text, target, **options)


def masks(model: AnyModel, texts: str | Sequence[str] = (), target: str | None = None, **options: Any) -> Masking:
    """Scores before and after the mask, weights, and dropout; see ``LoadedModel.masks`` for the options and errors."""
    return _loaded(model).masks(texts, target, **options)


def embeddings(
    model: AnyModel, text: str | Sequence[str] = (), target: str | None = None, **options: Any
) -> EmbeddedText:
    """What the first layer of a model reads of a text, and what it is made of; see ``LoadedModel.embeddings``."""
    return _loaded(model).embeddings(text, target, **options)


def sinusoids(length: int = 100, d_model: int = 512) -> PositionTable:
    """The positions that are added to embeddings, without a text: Vaswani et al. 2017, section 3.5.

    PE[p, 2i] = sin(p / 10000^(2i/d_model)),  PE[p, 2i+1] = cos(p / 10000^(2i/d_model))

    Raises:
        ArgumentError: sizes below 1, or more positions than are compared with each other.
    """
    return position_table(length, d_model)


def compare_scaling(
    model: AnyModel, text: str | Sequence[str] = (), target: str | None = None, **options: Any
) -> ScalingComparison:
    """Scores and weights without the division by √d_key beside those with it; see ``LoadedModel.compare_scaling``."""
    return _loaded(model).compare_scaling(text, target, **options)


def trace_shapes(
    model: AnyModel = RANDOM,
    texts: str | Sequence[str] = (),
    target: str | None = None,
    **options: Any,
) -> ShapeTrace:
    """The shape of every tensor on the way through one attention; see ``LoadedModel.trace_shapes``."""
    return _loaded(model).trace_shapes(texts, target, **options)


def ablate(model: AnyModel, texts: str | Iterable[str] = (), **options: Any) -> Ablation:
    """What changes when the output of one head at a time is zeroed; see ``LoadedModel.ablate``."""
    loaded = model if isinstance(model, LoadedModel) else load(model, predicts=True)
    return loaded.ablate(texts, **options)


def head_statistics(model: AnyModel, texts: str | Iterable[str] = (), **options: Any) -> HeadStatistics:
    """What every head of a model looks at, averaged over texts; see ``LoadedModel.head_statistics``."""
    return _loaded(model).head_statistics(texts, **options)


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
            become the record's ``limits``, which an .xml file is about.

    Raises:
        ArgumentError: there is no such layer or head; limits that cannot be.
        MhavizError: they have no map in common, or tokens, heads or cells that differ.
    """
    limits = Limits(fail_above, fail_above_row)
    first, second = (one if isinstance(one, Attention) else read(one) for one in (before, after))
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


def _loaded(model: AnyModel) -> LoadedModel:
    return model if isinstance(model, LoadedModel) else load(model)

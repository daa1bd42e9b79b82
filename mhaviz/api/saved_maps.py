"""``mhaviz.read`` and ``mhaviz.diff``: maps that have been saved, and what has changed between two attentions."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from mhaviz.analyses.difference import compare
from mhaviz.errors import ArgumentError, parameter, quoted
from mhaviz.files.maps import About, read_maps
from mhaviz.inputs.tokens import Kind
from mhaviz.models.load import Notice
from mhaviz.numbering import Numbers
from mhaviz.results.attention import Attention
from mhaviz.results.difference import Difference, Limits


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

    Examples:
        >>> np.save("weights.npy", np.full((2, 3, 3), 1 / 3))
        >>> mhaviz.read("weights.npy", queries=["the", "cat", "sat"])[0].keys
        ('the', 'cat', 'sat')
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
            become the result's ``limits``.

    Raises:
        ArgumentError: there is no such layer or head; limits that cannot be.
        MhavizError: they have no map in common, or tokens, heads or cells that differ.

    Examples:
        >>> before = mhaviz.attend("random", "the cat sat")
        >>> after = mhaviz.load("random", seed=1).attend("the cat sat")
        >>> mhaviz.diff(before, after).maps[0].divergence.shape  # (n_heads,)
        (8,)
    """
    limits = Limits(fail_above, fail_above_row)
    first, second = (one if isinstance(one, Attention) else _read_named(Path(one)) for one in (before, after))
    layers = layer if isinstance(layer, tuple) else (layer, layer)
    if len(layers) != 2:
        raise ArgumentError(f"{parameter('layer')}: expected one layer, or a pair of them, got {quoted(layer)}")
    whole = compare(first, second, layers, common_heads=head is not None)
    return replace(whole, limits=limits).select(head)


def _read_named(path: Path) -> Attention:
    return read_maps(path).named(path)

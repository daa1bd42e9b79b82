"""``mhaviz.read`` and ``mhaviz.diff``: read saved maps, and compare two attentions."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from mhaviz.analyses.difference import compare
from mhaviz.errors import ArgumentError, parameter
from mhaviz.files.maps import About, read_maps
from mhaviz.inputs.tokens import Kind
from mhaviz.models.load import Notice
from mhaviz.numbering import Numbers
from mhaviz.results.attention import Attention
from mhaviz.results.difference import Difference


def read(
    path: str | Path,
    name: str | None = None,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    kind: Kind | None = None,
    on_notice: Notice = lambda notice: None,
) -> Attention:
    """Read attention maps that mhaviz has saved, or an array of weights from another program.

    Args:
        path: a .safetensors or .json file saved by mhaviz; or a .npy, .npz, .safetensors or .pt file with weights of
            shape (q_length, k_length), (n_heads, q_length, k_length) or (n_layers, n_heads, q_length, k_length); in a
            .pt file also a list of layers, (1, n_heads, q_length, k_length) each, or a list for each step of
            ``generate`` of transformers of such lists, (batch_size, n_heads, q_length, k_length), which are joined: one
            map for each layer and text. ``beam_indices`` beside them tell which beams a search has followed.
        name: name of the array, if the file holds several.
        queries, keys: labels of the rows and columns; ``queries`` alone labels both sides of a square map.
        kind: "self", "masked" or "cross"; None: "cross" if the labels differ or the map is not square, else "self".
        on_notice: called with one line for each remark on the file, such as that rows do not sum to 1.

    Raises:
        ArgumentError: labels, name or kind do not fit the array, or the file was saved by mhaviz and has its own.
        MhavizError: the file cannot be read, holds no weights, or steps whose order or keys are not known, such as
            beams.

    Examples:
        >>> np.save("weights.npy", np.full((2, 3, 3), 1 / 3))
        >>> mhaviz.read("weights.npy", queries=["the", "cat", "sat"])[0].keys
        ('the', 'cat', 'sat')
    """
    of_queries, of_keys = (None if side is None else tuple(side) for side in (queries, keys))
    about = About(name, of_queries, of_keys, kind)
    saved = read_maps(Path(path), about)
    if saved.is_own and about != About():
        given = (parameter(one.name) for one in fields(about) if getattr(about, one.name) is not None)
        raise ArgumentError(f"{path} has its own tokens and kinds; leave out {', '.join(given)}")
    for notice in saved.notices:
        on_notice(notice)
    return saved.attention


def diff(
    before: Attention | str | Path,
    after: Attention | str | Path,
    *,
    layer: int | None = None,
    head: Numbers = None,
    fail_above: float | None = None,
) -> Difference:
    """Compare two attentions of one text, of two that differ in a word, or of any two by span: after − before, and the
    divergence of rows.

    Rows are compared by their Jensen–Shannon divergence, from 0 to 1 bit. Texts that differ must have as many tokens;
    a token that differs is named by both, "tired / warm". Maps by sentence, turn or other spans, as ``Attention.by``
    gives them, may be of any texts: spans are matched by their names, and one that a text lacks gets no weight there.
    ``MapDifference.only`` names what only one of them has.

    Args:
        before, after: attentions that ``attend`` returns, or files that ``read`` reads.
        layer: number of the layer to compare; None: all.
        head: heads to compare, where one attention may have others as well; None: all, which must be the same.
        fail_above: largest divergence of a head that is allowed, in bits. With it, all tokens must be the same.

    Raises:
        ArgumentError: there is no such layer or head, or the limit is invalid.
        MhavizError: the attentions have no map in common, or differ in their heads, cells or most tokens;
            texts by span share no span of queries, or have several spans of one name.

    Examples:
        >>> before = mhaviz.attend("random", "the cat sat")
        >>> after = mhaviz.load("random", seed=1).attend("the cat sat")
        >>> mhaviz.diff(before, after).maps[0].divergence.shape  # (n_heads,)
        (8,)
    """
    first, second = (
        one if isinstance(one, Attention) else read_maps(Path(one)).named(Path(one)) for one in (before, after)
    )
    return compare(first, second, layer, head is not None, fail_above).select(head)

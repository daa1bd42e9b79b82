"""Maps of all weights, for each selected attention of a model and each sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from mhaviz.analyses.queries_and_keys import kept_queries_and_keys
from mhaviz.attention.model import Inputs, Model, SiteCall, heads_of
from mhaviz.devices import float_array, require_memory
from mhaviz.errors import ArgumentError, parameter
from mhaviz.inputs.tokens import KIND_NAMES, Kind, Tokens, is_run
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import NORM, WEIGHT

_FLOAT32, _CODE = 4, 2  # bytes


@dataclass(frozen=True)
class MapSize:
    """Size of a map, known before the map is computed.

    Attributes:
        kind, sentence: as in ``AttentionMap``.
        n_heads, q_length, k_length, d_key: sizes.
    """

    kind: Kind
    n_heads: int
    q_length: int
    k_length: int
    d_key: int
    sentence: int | None = None

    @property
    def bytes_of_inputs(self) -> int:
        """Memory of its queries, keys and values."""
        return _FLOAT32 * self.n_heads * (self.q_length + 2 * self.k_length) * self.d_key

    @property
    def bytes_of_codes(self) -> int:
        """Largest memory of its queries and keys where they are kept; less if heads share their keys."""
        return _CODE * self.n_heads * (self.q_length + self.k_length) * self.d_key


def map_sizes(
    model: Model,
    inputs: Inputs,
    heads: Sequence[int] | None = None,
    length: Callable[[Tokens], int] = len,
) -> tuple[MapSize, ...]:
    """Return the size of each map of a model, in order; arguments as in ``attention_weights``.

    ``length``: returns the number of queries or keys that some tokens are.
    """
    sizes = []
    for number, text in enumerate(inputs.texts):
        for site in model.sites(inputs):
            q_length, k_length = map(length, text.sides(site.kind))
            n_heads = len(heads_of(site, heads))
            sizes.append(MapSize(site.kind, n_heads, q_length, k_length, site.d_key, inputs.sentence(number)))
    return tuple(sizes)


def attention_weights(
    model: Model, inputs: Inputs, heads: Sequence[int] | None = None, hide_special: bool = False, keep: bool = False
) -> Attention:
    """Compute A = softmax(S) of each selected attention for each sentence; for a model with norms, the norms.

    Args:
        model: the model.
        inputs: encoded input of the sentences.
        heads: indices of the heads, as far as an attention has them; None: all.
        hide_special: remove special tokens; see ``without_special``.
        keep: keep queries and keys beside the weights; not where special tokens are hidden.

    Raises:
        ArgumentError: there are only special tokens.
        MhavizError: the weights do not fit into memory, or the model computes with NaN or infinity.
    """
    require_weights_fit(model, inputs, heads)
    maps: list[AttentionMap] = []

    model.run(inputs, lambda seen: maps.append(weight_map(seen, hide_special, keep)), heads)
    return Attention(model.describe(inputs), tuple(maps))


def weight_map(seen: SiteCall, hide_special: bool = False, keep: bool = False) -> AttentionMap:
    """Return the map of all weights of a call of one sentence; other arguments as in ``attention_weights``."""
    A = seen.call.weights()
    kept = kept_queries_and_keys(seen) if keep and not hide_special else None
    norms = seen.call.value_norms
    quantity = WEIGHT if norms is None else NORM
    A = A if norms is None else A * norms[:, :, None]
    whole = seen.map(float_array(A[0]), quantity=quantity, queries_and_keys=kept)
    return without_special(whole) if hide_special else whole


def without_special(m: AttentionMap) -> AttentionMap:
    """Remove the rows and columns of special tokens. The other numbers are not rescaled.

    Raises:
        ArgumentError: there are only special tokens.
    """
    rows, columns = m.rows.tokens.of_text, m.columns.tokens.of_text
    require_text(rows, columns, m.kind)
    of_rows = m.weights[:, rows]
    weights = of_rows[:, :, columns]
    sums = of_rows.sum(axis=2, dtype=np.float64)  # n_heads rows
    is_share = m.quantity.is_distribution
    special = np.delete(of_rows, columns, axis=2).sum(axis=2, dtype=np.float64)
    return replace(
        m,
        weights=weights,
        rows=Axis.at(m.rows.tokens, rows),
        columns=Axis.at(m.columns.tokens, columns),
        sinks=None,
        reach=m.reach if is_run(rows) and is_run(columns) else None,
        to_special=mean_share(special, np.ones_like(sums) if is_share else sums) if m.columns.tokens.special else None,
    )


def mean_share(parts: NDArray[np.float64], wholes: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the share of special tokens in each head, (n_heads,), from sums of rows, (n_heads, rows), over special
    tokens and over all tokens."""
    given = wholes.sum(axis=-1)
    shares = parts.sum(axis=-1) / np.maximum(given, np.finfo(np.float32).tiny)
    return np.asarray(shares.clip(0, 1), np.float32)


def require_text(queries: Sequence[int], keys: Sequence[int], kind: Kind) -> None:
    """Raise ArgumentError unless some queries and some keys are tokens of the text."""
    if not (queries and keys):
        raise ArgumentError(
            f"expected tokens of the text as queries and keys, got only special ones ({KIND_NAMES[kind]}); leave out "
            f"{parameter('hide_special')}"
        )


def require_weights_fit(model: Model, inputs: Inputs, heads: Sequence[int] | None = None, copies: int = 1) -> None:
    """Raise MhavizError unless all weights of all sentences fit into memory, with the scores of the largest map.

    ``copies``: number of copies of the weights that are kept.
    """
    weights = [size.n_heads * size.q_length * size.k_length for size in map_sizes(model, inputs, heads)]
    require_memory(_FLOAT32 * (copies * sum(weights) + max(weights)), torch.device("cpu"), "the map of all weights")

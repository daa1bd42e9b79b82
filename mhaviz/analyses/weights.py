"""All weights of every attention of a model, for each sentence."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from mhaviz.analyses.queries_and_keys import kept_queries_and_keys
from mhaviz.attention.model import Inputs, Model, SiteCall, heads_of
from mhaviz.devices import float_array, require_memory
from mhaviz.records import NORM, RENORMALISED, WEIGHT, Attention, AttentionMap, Axis, Special, SpecialKeys, Tokens
from mhaviz.records.tokens import is_run

_FLOAT32 = 4  # bytes


def attention_weights(
    model: Model, inputs: Inputs, heads: Sequence[int] | None = None, special: Special = "shown", keep: bool = False
) -> Attention:
    """A = softmax(S) of every attention that is looked at, for each sentence; of a model with norms, these.

    Args:
        model: of any kind.
        inputs: what it reads.
        heads: these alone, or those of them that an attention has; None: all.
        special: what becomes of tokens that are not of the text; "left out" is for weights alone.
        keep: whether queries and keys are kept beside the weights; not where special tokens are apart.

    Raises:
        ArgumentError: nothing but special tokens.
        MhavizError: the weights do not fit into memory; NaN or infinity in what the model computes with.
    """
    require_weights_fit(model, inputs, heads)
    maps: list[AttentionMap] = []

    model.run(inputs, lambda seen: maps.append(weight_map(seen, special, keep)), heads)
    return Attention(model.describe(inputs), tuple(maps))


def weight_map(seen: SiteCall, special: Special = "shown", keep: bool = False) -> AttentionMap:
    """All weights of a call of one sentence; the other arguments are those of ``attention_weights``."""
    seen, quantity = (seen.without_special(), RENORMALISED) if special == "left out" else (seen, WEIGHT)
    A = seen.call.weights()
    kept = kept_queries_and_keys(seen) if keep and special != "apart" else None
    norms = seen.call.value_norms
    if norms is not None:
        A, quantity = A * norms[:, :, None], NORM
    whole = seen.map(float_array(A[0]), quantity=quantity, queries_and_keys=kept)
    return with_special_apart(whole, *seen.of_text) if special == "apart" else whole


def with_special_apart(m: AttentionMap, rows: Sequence[int], columns: Sequence[int]) -> AttentionMap:
    """The map of these queries and keys, which are of the text; what goes to the other keys is one column beside it."""
    keys = m.columns.tokens
    others = np.delete(m.weights[:, rows], columns, axis=2).sum(axis=2)  # n_heads rows
    return replace(
        m,
        weights=m.weights[:, rows][:, :, columns],
        rows=Axis(m.rows.tokens.at(tuple(rows))),
        columns=Axis(keys.at(tuple(columns))),
        reach=m.reach if is_run(rows) and is_run(columns) else None,
        special=SpecialKeys(others, special_texts(keys)) if keys.special else None,
    )


def special_texts(tokens: Tokens) -> tuple[str, ...]:
    """Those that are not of the text, each once."""
    return tuple(dict.fromkeys(tokens.texts[i] for i in tokens.special))


def require_weights_fit(model: Model, inputs: Inputs, heads: Sequence[int] | None = None, copies: int = 1) -> None:
    """Raise MhavizError unless all weights of all sentences fit into memory, with what they are made of.

    ``copies``: how often a study keeps them.
    """
    kept, largest = 0, 0  # largest: the scores that are being computed
    for text in inputs.texts:
        for site in model.sites(inputs):
            queries, keys = text.sides(site.kind)
            weights = len(heads_of(site, heads)) * len(queries) * len(keys)
            kept, largest = kept + copies * weights, max(largest, weights)
    require_memory(_FLOAT32 * (kept + largest), torch.device("cpu"), "the map of all weights")

"""Explain one query of one head: each score as a sum over features, and the output as a sum over keys.

A score q·k / √d_key is a sum of d_key products. The output Σ a v is the sum of the values v of all keys, each scaled by
its weight a. Vaswani et al. 2017, arXiv 1706.03762, section 3.2.1.
"""

import math
from dataclasses import replace

import torch

from mhaviz.attention.model import Inputs, Model, call_of_one
from mhaviz.devices import float_array
from mhaviz.errors import ArgumentError
from mhaviz.results.explanation import Explanation


def explain(model: Model, inputs: Inputs, position: int, head: int) -> Explanation:
    """Compute the scores, weights and contributions of all keys for one query of one head.

    Args:
        model: model with a single selected attention.
        inputs: encoded input of one sentence.
        position: position of the query, from 0.
        head: index of the head, from 0.

    Raises:
        ArgumentError: there is no such head or position, or several attentions are selected.
        MhavizError: as ``Model.run``; the model only gives weights.
    """
    seen = call_of_one(model, inputs, [head])
    (queries,), (keys,) = seen.queries, seen.keys
    if not 0 <= position < len(queries):
        raise ArgumentError(f"expected a position from 0 to {len(queries) - 1}, got {position}")

    call = seen.with_inputs
    call = replace(call, query=call.query.double())
    q, k, v = call.query[0, 0, position], call.key[0, 0].double(), call.value[0, 0].double()
    products = q * k  # k_length d_key
    similarities = products.sum(dim=-1)  # k_length
    S = call.scores(position, position + 1)
    scores = S[0, 0, 0]  # k_length
    a = call.weigh(S)[0, 0, 0]  # k_length
    visible = scores > -math.inf
    contributions = a[:, None] * v  # k_length d_key
    sizes = torch.linalg.vector_norm(contributions, dim=-1)  # k_length
    return Explanation(
        source=model.describe(inputs),
        queries=queries.texts,
        keys=keys.texts,
        position=position,
        head=head,
        query=float_array(q),
        key=float_array(k),
        products=float_array(products),
        similarities=float_array(similarities),
        scores=float_array(scores.masked_fill(~visible, math.nan)),
        weights=float_array(a),
        value=float_array(v),
        contributions=float_array(contributions),
        sizes=float_array(sizes),
        shares=float_array(sizes / (sizes.sum() or 1.0)),
        output=float_array(contributions.sum(dim=0)),
        visible=visible.cpu().numpy(),
        kind=seen.site.kind,
        rule=call.rule,
        layer=seen.site.layer if model.has_layers else None,
        special_queries=queries.special,
        special_keys=keys.special,
    )

"""One query of one head, read both ways: the score as a sum over features, the output as a sum over keys.

Each score q·k / √d_key is the sum of d_key products; the output Σ a v is the sum of the value rows, each as long as its
weight lets it be. Vaswani et al. 2017, section 3.2.1.
"""

import math
from dataclasses import replace

import numpy as np
import torch

from mhaviz.errors import ArgumentError
from mhaviz.maps.attention_call import call_of_inputs
from mhaviz.records import Explanation, LayerInputs


def explain(inputs: LayerInputs, position: int, head: int, sentence: int = 0) -> Explanation:
    """Take apart what one query of one head makes of its keys.

    Args:
        inputs: queries, keys and values, wherever they come from.
        position: of the query, counted from 0.
        head: counted from 0.
        sentence: which of the inputs.

    Raises:
        ArgumentError: there is no such sentence, head or position.
    """
    _check("sentence", sentence, len(inputs.inputs))
    chosen = inputs.inputs[sentence]
    _check("head", head, len(chosen.query))
    _check("position", position, len(chosen.query_tokens))

    of_query = replace(
        chosen,
        query=chosen.query[:, [position]].astype(np.float64),
        visible=chosen.visible[[position]],
        bias=None if chosen.bias is None else chosen.bias[:, [position]],
    )
    call = call_of_inputs(of_query, [head])
    q, k, v = (
        torch.from_numpy(x).double() for x in (chosen.query[head, position], chosen.key[head], chosen.value[head])
    )
    products = q * k  # k_length d_key
    similarities = products.sum(dim=-1)  # k_length
    scores = call.scores()[0, 0, 0]  # k_length
    a = call.weights()[0, 0, 0]  # k_length
    contributions = a[:, None] * v  # k_length d_key
    sizes = torch.linalg.vector_norm(contributions, dim=-1)  # k_length
    return Explanation(
        source=inputs.source,
        queries=chosen.query_tokens,
        keys=chosen.key_tokens,
        position=position,
        head=head,
        query=chosen.query[head, position],
        key=chosen.key[head],
        products=products.float().numpy(),
        similarities=similarities.float().numpy(),
        scores=scores.masked_fill(~torch.from_numpy(chosen.visible[position]), math.nan).float().numpy(),
        weights=a.float().numpy(),
        value=chosen.value[head],
        contributions=contributions.float().numpy(),
        sizes=sizes.float().numpy(),
        shares=(sizes / (sizes.sum() or 1.0)).float().numpy(),
        output=contributions.sum(dim=0).float().numpy(),
        visible=np.asarray(chosen.visible[position]),
        kind=chosen.kind,
        rule=chosen.rule,
        layer=chosen.layer,
        special_queries=chosen.special_queries,
        special_keys=chosen.special_keys,
    )


def _check(name: str, number: int, size: int) -> None:
    if not 0 <= number < size:
        raise ArgumentError(f"expected a {name} from 0 to {size - 1}, got {number}")

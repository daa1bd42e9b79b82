"""Matrices of one layer on one sentence: X, Q, K, V, then S, A and H of some heads, and O.

Vaswani et al. 2017, arXiv 1706.03762, sections 3.2.1 and 3.2.2.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.attention.model import Inputs, Model, call_of_one, require_heads
from mhaviz.devices import float_array
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.limits import require_few_tokens
from mhaviz.results.matrices import HeadMatrices, LayerMatrices, Matrix
from mhaviz.results.trace import TraceStep

_INPUTS, _MEMORIES = ("X", "X target", "X query"), ("X source", "X key", "E")
"""Names in a trace of X of the queries, and of X of keys that are another text."""


def layer_matrices(model: Model, inputs: Inputs, heads: Sequence[int], position: int | None = None) -> LayerMatrices:
    """Compute the matrices of a layer, and of some of its heads.

    Args:
        model: model with a single selected attention.
        inputs: encoded input of one sentence.
        heads: indices of the heads, from 0.
        position: position of the query to mark; None: the query with the largest weight in the first of the heads.

    Raises:
        ArgumentError: there is no such head or position; several attentions are selected; there are more tokens than
            ``MOST_LOOKED_INTO``.
        MhavizError: as ``Model.run``; the model only gives weights.
    """
    site = model.one_site(inputs)
    require_few_tokens("matrices", inputs.longest)
    require_heads(site, heads)
    seen = call_of_one(model, inputs, range(site.n_heads))
    (queries,), (keys,) = seen.queries, seen.keys
    if position is not None and not 0 <= position < len(queries):
        raise ArgumentError(f"expected a position from 0 to {len(queries) - 1}, got {position}")

    call = replace(seen.with_inputs, query=seen.with_inputs.query.double())
    chosen = call.select(heads)
    S = chosen.scores()  # 1 n_heads q_length k_length
    A = chosen.weigh(S)
    H = chosen.mix(A)  # 1 n_heads q_length d_value
    S_seen = S.masked_fill(S.isneginf(), math.nan)
    of_heads = tuple(
        HeadMatrices(
            head,
            head // call.group,
            query=float_array(chosen.query[0, i]),
            key=float_array(chosen.key[0, i // chosen.group]),
            value=float_array(chosen.value[0, i // chosen.group]),
            scores=float_array(S_seen[0, i]),
            weights=float_array(A[0, i]),
            output=float_array(H[0, i]),
        )
        for i, head in enumerate(heads)
    )
    steps, left_out = _steps(model, inputs)
    marked = _marked(of_heads[0], queries.of_text, position)
    return LayerMatrices(
        source=model.describe(inputs),
        queries=queries,
        keys=keys,
        kind=seen.site.kind,
        rule=call.rule,
        n_heads=site.n_heads,
        n_key_heads=call.key.shape[1],
        heads=of_heads,
        query=Matrix("Q", _projection(steps, "Q"), _concatenated(call.query)),
        key=Matrix("K", _projection(steps, "K"), _concatenated(call.key)),
        value=Matrix("V", _projection(steps, "V"), _concatenated(call.value)),
        joined=Matrix("concat", "H of all heads", _concatenated(call.output())),
        input=next(_matrices(steps, "X target" if seen.site.kind == "cross" else "X", _INPUTS), None),
        memory=next(_matrices(steps, "X source", _MEMORIES), None) if seen.site.kind == "cross" else None,
        output=next(_matrices(steps, "O", ("O",)), None),
        position=marked[0],
        key_position=marked[1],
        left_out=left_out,
        layer=seen.site.layer if model.has_layers else None,
    )


def _steps(model: Model, inputs: Inputs) -> tuple[Mapping[str, TraceStep], str]:
    """Return the steps of the layer by name, with all values, and why X or O is not known, "" if both are."""
    try:
        steps = model.trace(inputs, values=True, most_values=2**31).steps
    except MhavizError as error:
        return {}, str(error)
    found = {step.name: step for step in steps}
    return found, "" if "O" in found else "the layer has no last projection that could be found"


def _matrices(steps: Mapping[str, TraceStep], name: str, names: Sequence[str]) -> Iterator[Matrix]:
    """Iterate over the steps with one of ``names``, as matrices called ``name``."""
    for step in (steps[one] for one in names if one in steps):
        assert step.values is not None, "values were requested"
        yield Matrix(name, step.equation, step.values[0])


def _projection(steps: Mapping[str, TraceStep], name: str) -> str:
    """Return the equation of Q, K or V in the trace: "X Wq", "part of X c_attn", "X q_proj, with positions"."""
    if name in steps:
        equation = steps[name].equation
    elif "QKV" in steps:
        equation = f"part of {steps['QKV'].equation}"
    else:
        return ""
    return equation + (", with positions" if steps[f"{name} heads"].equation.endswith("with positions") else "")


def _marked(head: HeadMatrices, of_text: Sequence[int], position: int | None) -> tuple[int, int]:
    """Return the query to mark, and the key of its largest weight.

    By default this is a query of the text that sees several keys, as a query that sees a single key shows little.
    """
    if position is None:
        several = [i for i in of_text if np.isfinite(head.scores[i]).sum() > 1]
        position = max(several or [0], key=lambda i: float(head.weights[i].max()))
    return position, int(np.argmax(head.weights[position]))


def _concatenated(x: Tensor) -> NDArray[np.float32]:
    """Concatenate heads: (1, n_heads, length, d_key) → (length, n_heads · d_key)."""
    return float_array(x[0].transpose(0, 1).flatten(1))

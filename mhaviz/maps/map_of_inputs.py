"""The map of queries and keys that a source has given."""

from typing import Any

import torch

from mhaviz.maps.attention_map import attention_map
from mhaviz.maps.pooled_map import PooledMap
from mhaviz.records import QueriesAndKeys


def map_of_inputs(inputs: QueriesAndKeys, device: torch.device | None = None, **asked: Any) -> PooledMap:
    """``attention_map`` of one sentence by the rules that go with it, on this device; ``asked`` is passed on to it."""

    def tensor(x: Any) -> torch.Tensor:
        return torch.from_numpy(x).to(device or torch.device("cpu"))

    return attention_map(
        tensor(inputs.query)[None],
        tensor(inputs.key)[None],
        causal=inputs.kind == "masked",
        scale=inputs.scale,
        mask=None if inputs.mask is None else tensor(inputs.mask)[None],
        softcap=inputs.softcap,
        sinks=None if inputs.sinks is None else tensor(inputs.sinks),
        **asked,
    )


def weights_of_inputs(inputs: QueriesAndKeys, start: int = 0, end: int | None = None) -> torch.Tensor:
    """All weights of the queries from ``start`` to ``end``, (n_heads, queries, k_length)."""
    q_length, k_length = inputs.query.shape[1], inputs.key.shape[1]
    end = q_length if end is None else min(end, q_length)
    window = start, end, 0, k_length
    return map_of_inputs(inputs, window=window, rows=end - start, columns=k_length).weights[0]

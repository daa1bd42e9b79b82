"""A map of norms beside a map of weights: python tests/benchmarks/norm_time.py [--repeat N]

8 heads, d_key 64, d_model 512, float32, 512 × 512 cells, causal and whole. The norms of the values behind W_O are
computed within the time, from the Gram matrices that a model has of its W_O. Both take turns in one process.
"""

import torch
from measure import Row, parse_repeat, print_table, time_functions

from mhaviz.attention.map import attention_map
from mhaviz.attention.norms import gram_matrices, value_norms

HEADS, D_KEY, CELLS, TARGET = 8, 64, 512, 1.05
LENGTHS = (512, 4096, 16384)


def rows(repeat: int) -> list[Row]:
    torch.manual_seed(0)
    gram = gram_matrices(torch.randn(HEADS, D_KEY, HEADS * D_KEY))
    measured = []
    for length in LENGTHS:
        query, key, value = (torch.randn(1, HEADS, length, D_KEY) for _ in range(3))
        for causal in (False, True):
            options = {"rows": CELLS, "columns": CELLS, "causal": causal}

            def norms(query=query, key=key, value=value, options=options) -> object:  # type: ignore[no-untyped-def]
                return attention_map(query, key, value_norms=value_norms(value, gram), **options)

            def weights(query=query, key=key, options=options) -> object:  # type: ignore[no-untyped-def]
                return attention_map(query, key, **options)

            ours, plain = time_functions([norms, weights], repeat)
            what = f"norms, {length:,} tokens{', causal' if causal else ''}"
            measured.append(Row(what, ours, plain, TARGET))
    return measured


if __name__ == "__main__":
    with torch.inference_mode():
        print_table(rows(parse_repeat(__doc__, 7)))

"""Does source-target attention look at the word that is being translated?

Alignment error rate, Och and Ney 2003, section 4.1, where all gold links are sure ones: A links each target word to the
source word with the largest weight, and AER = 1 − 2·|A ∩ G| / (|A| + |G|) over all sentences together.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import ArgumentError
from mhaviz.results.attention import AttentionMap
from mhaviz.results.training import AlignmentErrors

Links = Sequence[tuple[int, int]]
"""(position in source, position in target), from 0."""


def alignment_errors(maps: Sequence[AttentionMap], gold: Sequence[Links]) -> AlignmentErrors:
    """Compare source-target maps, a row for each target word, with each pair's gold links.

    Raises:
        ArgumentError: no link at all.
    """
    links = sum(len(set(alignment)) for alignment in gold)
    if not links:
        raise ArgumentError("expected gold alignments with at least one link, got none")
    n_heads = maps[0].weights.shape[0]
    return AlignmentErrors(
        heads=tuple(_error_rate([m.weights[head] for m in maps], gold) for head in range(n_heads)),
        mean=_error_rate([m.weights.mean(axis=0) for m in maps], gold),
        links=links,
    )


def _error_rate(weights: Sequence[NDArray[np.float32]], gold: Sequence[Links]) -> float:
    """Of maps of one head, each (target_length, source_length)."""
    right = found = expected = 0
    for a, alignment in zip(weights, gold, strict=True):
        A = {(int(source), target) for target, source in enumerate(a.argmax(axis=-1))}
        G = set(alignment)
        right, found, expected = right + len(A & G), found + len(A), expected + len(G)
    return 1 - 2 * right / (found + expected)

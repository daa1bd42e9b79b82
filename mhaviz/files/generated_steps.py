"""Weights of a text that is generated step by step, joined to one map for each layer.

``generate`` of transformers returns a list of steps, each a list of layers, (batch_size, n_heads, q_length, k_length).
The first step has the queries of the prompt. With a cache of keys, each later step has one query. Without one, it has
all queries so far, of which those before are computed again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mhaviz.files.errors import ContentError
from mhaviz.inputs.tokens import Kind

Array = NDArray[np.float32]
Shape = tuple[int, ...]

_SAME_PROMPT = 1e-4
"""Largest change of a weight between two examples of one batch that have the same prompt."""

_SAME_ROW = 2**-5
"""Largest change of a weight that is computed again in a later step, in bfloat16; those of other texts change more."""

_CHOOSE = "choose one list by its number"


@dataclass(frozen=True)
class JoinedSteps:
    """Weights of all queries of one layer.

    Attributes:
        weights: float32, (n_heads, q_length, k_length); 0 for keys that came after a query.
        kind: "masked", "self" or "other": each step adds a key, see ``Kind``; "cross": all steps have the same keys;
            None: there is one step, which does not tell.
        reach: as in ``AttentionMap``.
    """

    weights: Array
    kind: Kind | None
    reach: int | None = None


def are_steps(shapes: Sequence[Sequence[Shape]]) -> bool:
    """Return whether arrays of these shapes, by step and layer, may be the steps of one generation."""
    if len({len(layers) for layers in shapes}) != 1 or {len(one) for layers in shapes for one in layers} != {4}:
        return False
    return all(
        len({one[:2] for one in of_layer}) == 1 and _adds_one(of_layer) for of_layer in zip(*shapes, strict=True)
    )


def _adds_one(steps: Sequence[Shape]) -> bool:
    """Return whether each step but the first has one query, or one more than the step before."""
    lengths = [shape[2] for shape in steps]
    return {*lengths[1:]} <= {1} or _is_repeated(lengths)


def _is_repeated(lengths: Sequence[int]) -> bool:
    """Return whether each step has the queries of all steps before, and one more."""
    return all(after == before + 1 for before, after in pairwise(lengths))


def require_other_prompts(prompts: Sequence[Array]) -> None:
    """Raise ContentError if two examples of a batch have the same prompt.

    They may be beams, which take the place of one another from step to step, so that no example is one text.

    Args:
        prompts: weights of the first step of each layer, (batch_size, n_heads, q_length, k_length).
    """
    batch_size = len(prompts[0])
    for first in range(batch_size):
        for second in range(first + 1, batch_size):
            if all(np.abs(layer[first] - layer[second]).max() <= _SAME_PROMPT for layer in prompts):
                raise ContentError(
                    f"examples {first} and {second} of its batch of {batch_size} begin alike, as the beams of a search "
                    "do, and which goes on from which is not known; save the beam_indices of generate beside them, "
                    '{"attentions": …, "beam_indices": …}, or one text, [[layer[:1] for layer in step] for step in …]'
                )


def paths(beams: NDArray[np.int64] | None, n_steps: int, batch_size: int) -> list[list[int]]:
    """Return the example of the batch in each step, for each text.

    Args:
        beams: ``beam_indices`` of transformers, (n_texts, length), where −1 stands after the end of a text; None: each
            example of the batch is one text.
        n_steps, batch_size: number of steps, and of examples in each.

    Raises:
        ContentError: these are no beams of these steps.
    """
    if beams is None:
        return [[place] * n_steps for place in range(batch_size)]
    followed = [row[: int((row >= 0).cumprod().sum())].tolist() for row in beams]
    if beams.max() >= batch_size or not all(0 < len(row) <= n_steps for row in followed):
        raise ContentError(
            f"beam_indices: expected beams below {batch_size} for up to {n_steps} steps, got up to {beams.max()} for "
            f"{max(map(len, followed))}"
        )
    return followed


def n_padding(layers: Sequence[Array]) -> int:
    """Return how many tokens before a text are padding, as in a batch of prompts of several lengths.

    No later query weighs them in any head of any layer, and their own rows are none that a causal mask allows: empty,
    or with weight on later keys. The tokens of a text before another one have rows of their own.

    Args:
        layers: weights of one text, (n_heads, q_length, k_length) each.
    """
    if len({weights.shape[1:] for weights in layers}) > 1 or layers[0].shape[1] != layers[0].shape[2]:
        return 0
    weighed = np.logical_or.reduce([weights.any(axis=0) for weights in layers])
    is_none = np.triu(weighed, 1).any(axis=1) | ~weighed.any(axis=1)
    most = len(is_none) if is_none.all() else int(is_none.argmin())
    return next((n for n in range(most, 0, -1) if not weighed[n:, :n].any() and n < len(weighed)), 0)


def join(steps: Sequence[Array]) -> JoinedSteps:
    """Join the steps of one layer for one text, (n_heads, q_length, k_length) each.

    Raises:
        ContentError: they are not steps of one text, or it is not known which keys they have.
    """
    if len(steps) == 1:
        return JoinedSteps(steps[0], None)
    n_keys = [weights.shape[2] for weights in steps]
    if _is_repeated([weights.shape[1] for weights in steps]):
        _require_repeated(steps)
        return _of_form(steps[-1], is_cross=len({*n_keys}) == 1)
    ends = np.cumsum([weights.shape[1] for weights in steps]).tolist()  # number of queries after each step
    if len({*n_keys}) == 1:
        return _with_same_keys(steps, ends)
    if n_keys == [n_keys[0] + end - ends[0] for end in ends] and n_keys[0] >= ends[0]:
        return _of_form(np.concatenate(list(_placed(steps, [0] * len(steps), n_keys[-1])), axis=1), is_cross=False)
    return _with_window(steps, ends)


def _of_form(weights: Array, is_cross: bool) -> JoinedSteps:
    return JoinedSteps(weights, "cross" if is_cross else of_one_text(weights))


def of_one_text(weights: Array) -> Kind:
    """Return the kind of an attention whose last query is its last key."""
    q_length, k_length = weights.shape[1:]
    if not np.triu(weights, k_length - q_length + 1).any():
        return "masked"
    return "self" if q_length == k_length else "other"  # such as a prompt that is read to both sides


def _placed(steps: Sequence[Array], starts: Sequence[int], k_length: int) -> Iterator[Array]:
    """Iterate over the steps, with their keys from ``starts`` on, and zeros for all others."""
    for weights, start in zip(steps, starts, strict=True):
        yield np.pad(weights, ((0, 0), (0, 0), (start, k_length - start - weights.shape[2])))


def _require_repeated(steps: Sequence[Array]) -> None:
    """Raise ContentError unless each step repeats the weights of the step before, but for those of padding."""
    start = n_padding(steps[-1:])
    for number, (before, after) in enumerate(pairwise(steps), 1):
        _, q_length, k_length = before.shape
        if np.abs(after[:, start:q_length, :k_length] - before[:, start:]).max() > _SAME_ROW:
            raise ContentError(
                f"its lists of layers are as long as the steps of one text would be, and list {number} does not repeat "
                f"the weights of the one before; {_CHOOSE}"
            )


def _with_same_keys(steps: Sequence[Array], ends: Sequence[int]) -> JoinedSteps:
    """Join steps that all have as many keys: of another sentence, or in a cache that is not full yet.

    In a cache, no step weighs the places after its own key.
    """
    weights, k_length = np.concatenate(steps, axis=1), steps[0].shape[2]
    if ends[-1] <= k_length and not any(step[:, -1, end:].any() for step, end in zip(steps, ends, strict=True)):
        return _of_form(weights[..., : ends[-1]], is_cross=False)
    if ends[0] > 1 and k_length == ends[0] and not np.triu(steps[0], 1).any():
        raise ContentError(_unknown_keys(1, k_length, ends[1]))
    return _of_form(weights, is_cross=True)


def _with_window(steps: Sequence[Array], ends: Sequence[int]) -> JoinedSteps:
    """Join steps that have the last keys only: as many as the queries of the first step see."""
    window, q_length = steps[1].shape[2], ends[0]
    is_windowed = steps[0].shape[2] == q_length > window and {step.shape[2] for step in steps[1:]} == {window}
    if not is_windowed or np.tril(steps[0], -window).any():
        number = next((i for i, step in enumerate(steps) if step.shape[2] != steps[0].shape[2] + i), 0)
        raise ContentError(_unknown_keys(number, steps[number].shape[2], ends[number]))
    starts = [0, *(end - window for end in ends[1:])]
    joined = _of_form(np.concatenate(list(_placed(steps, starts, ends[-1])), axis=1), is_cross=False)
    return JoinedSteps(joined.weights, joined.kind, reach=window - 1)


def _unknown_keys(number: int, n_keys: int, n_tokens: int) -> str:
    return (
        f"step {number} has {n_keys} keys where there are {n_tokens} tokens, and it is not known which they are; "
        f"{_CHOOSE}"
    )

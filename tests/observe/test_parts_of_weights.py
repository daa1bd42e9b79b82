"""Weights of one softmax that meet values part by part: they are not shown, and it is said why."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812
from watched import watch

B, H, L, K, D, MORE = 2, 3, 5, 7, 4, 6
Q, KEYS, V = (torch.randn(B, H, n, D, generator=torch.Generator().manual_seed(n)) for n in (L, K, K + 1))
V = V[:, :, :K]
OTHER_KEYS, OTHER_VALUES = torch.randn(2, B, H, MORE, D, generator=torch.Generator().manual_seed(2))
WAYS = []


def way(function):
    WAYS.append(function)
    return function


def softmax():
    return (Q @ KEYS.mT).softmax(-1)


def of_two_blocks():
    return torch.cat([Q @ KEYS.mT, Q @ OTHER_KEYS.mT], -1).softmax(-1)


@way
def heads_by_number():
    A = softmax()
    return torch.stack([A[:, h] @ V[:, h] for h in range(H)], 1)


@way
def heads_by_slices():
    A = softmax()
    return torch.cat([A[:, h : h + 1] @ V[:, h : h + 1] for h in range(H)], 1)


@way
def heads_selected():
    A = softmax()
    return torch.stack([A.select(1, h) @ V.select(1, h) for h in range(H)], 1)


@way
def heads_narrowed():
    A = softmax()
    return torch.cat([A.narrow(1, h, 1) @ V.narrow(1, h, 1) for h in range(H)], 1)


@way
def heads_by_index():
    A = softmax()
    several = [torch.tensor([h]) for h in range(H)]
    return torch.cat([A.index_select(1, h) @ V.index_select(1, h) for h in several], 1)


@way
def heads_unbound():
    A = softmax()
    return torch.stack([a @ v for a, v in zip(A.unbind(1), V.unbind(1), strict=True)], 1)


@way
def heads_in_a_loop():
    A = softmax()
    return torch.stack([a @ v for a, v in zip(A.transpose(0, 1), V.transpose(0, 1), strict=True)], 1)


@way
def heads_in_chunks():
    A = softmax()
    return torch.cat([a @ v for a, v in zip(A.chunk(2, 1), V.chunk(2, 1), strict=True)], 1)


@way
def heads_and_batch_in_one_axis():
    A = softmax()
    flat = A.flatten(0, 1)
    return torch.stack([flat[i] @ V.flatten(0, 1)[i] for i in range(B * H)]).view(B, H, L, D)


@way
def heads_of_changed_weights():
    A = softmax().tril()
    return torch.stack([A[:, h] @ V[:, h] for h in range(H)], 1)


@way
def heads_before_queries_that_come_last():
    A = (KEYS @ Q.mT).softmax(-2)
    return torch.stack([(V[:, h].mT @ A[:, h]).mT for h in range(H)], 1)


@way
def heads_without_a_sink():
    A = torch.cat([Q @ KEYS.mT, torch.ones(B, H, L, 1)], -1).softmax(-1)
    return torch.stack([A[:, h, :, :-1] @ V[:, h] for h in range(H)], 1)


@way
def queries_in_chunks():
    A = softmax()
    return torch.cat([a @ V for a in A.split(2, 2)], 2)


@way
def two_blocks_of_keys():
    A = of_two_blocks()
    return A[..., :K] @ V + A[..., K:] @ OTHER_VALUES


@way
def two_blocks_of_keys_split():
    A = of_two_blocks()
    first, second = A.split([K, MORE], -1)
    return first @ V + second @ OTHER_VALUES


@way
def two_blocks_of_keys_and_heads():
    A = of_two_blocks()
    heads = [A[:, h, :, :K] @ V[:, h] + A[:, h, :, K:] @ OTHER_VALUES[:, h] for h in range(H)]
    return torch.stack(heads, 1)


@way
def a_head_too_few():
    A = softmax()
    return [A[:, h] @ V[:, h] for h in range(H - 1)]


@way
def one_block_of_two():
    return of_two_blocks()[..., :K] @ V


@way
def keys_that_overlap():
    A = softmax()
    return A[..., :5] @ V[:, :, :5] + A[..., 3:] @ V[:, :, 3:]


@way
def one_query():
    return softmax()[:, :, -1:] @ V


@pytest.mark.parametrize("program", WAYS)
def test_a_part_is_never_shown(program):
    seen, _ = watch(program)
    assert list(seen) == []
    (line,) = seen.missed
    why = "multiplies values by a part of its softmax at a time, such as a head or a block of keys; not shown"
    assert line.partition(": ")[2] == why


def test_the_whole_beside_a_part_is_shown():
    def program():
        A = softmax()
        return A[:, :, -1:] @ V, A @ V, A

    seen, (*_, A) = watch(program)
    assert seen.missed == []
    assert torch.equal(seen.weights(), A)


def a_sink():
    A = torch.cat([Q @ KEYS.mT, torch.ones(B, H, L, 1)], -1).softmax(-1)[..., :-1]
    return A @ V, A


def a_sink_by_padding():
    A = F.pad(Q @ KEYS.mT, (1, 0)).softmax(-1)[..., 1:]
    return A @ V, A


@pytest.mark.parametrize("program", [a_sink, a_sink_by_padding])
def test_weights_without_a_sink_are_no_part(program):
    seen, (_, A) = watch(program)
    assert seen.missed == []
    assert torch.equal(seen.weights(), A)


def test_what_every_query_gives_to_one_key_is_no_weights():
    """Square, so that sizes do not tell queries from keys."""
    seen, _ = watch(lambda: torch.einsum("bhq,bhqd->bhd", (Q @ Q.mT).softmax(-1)[..., 0], Q))
    assert list(seen) == []


def test_an_axis_that_was_moved_is_found_again():
    """Square, so that sizes do not tell queries from keys."""

    def program():
        A = (Q @ Q.mT).softmax(-1)
        return torch.einsum("bhkq,bhkd->bhqd", A.movedim(-1, 2), Q), A

    seen, (_, A) = watch(program)
    assert torch.equal(seen.weights(), A)

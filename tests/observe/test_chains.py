"""Random chains of functions that move tokens: weights are right, and names are exact or those of rows.

The oracle runs the same chain over numbers of tokens. ``python tests/observe/test_chains.py 400 [seed]`` prints the
wrong names of each chain, and how many rows whose token is known were left without its name. Each run of the tests
takes other chains, unless MHAVIZ_SEED is set; a failure says which to set.
"""

import collections
import os
import random
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mhaviz

sys.path.append(str(Path(__file__).parents[1]))  # where it is run as a script
from rounding import rounding
from truth import compare

B, T, H, D = 2, 6, 3, 4
CLOSE = rounding()
N_CHAINS = int(os.environ.get("MHAVIZ_CHAINS", "40"))
SEED = int(os.environ.get("MHAVIZ_SEED", random.SystemRandom().randrange(10**6)))
MOST_UNNAMED = 1.0
"""The share of rows with a known token that may stand without its name. Lower it when names become exact."""


def at(x, axis, index):
    """An index of one axis, behind those of all axes before it."""
    return x[(slice(None),) * axis + (index,)]


def spread(order, x, axis):
    """Indices of each example, (batch, n), for each number of a tensor."""
    shape = [1] * x.ndim
    shape[0], shape[axis] = order.shape
    return order.view(shape).expand(*x.shape[:axis], order.shape[1], *x.shape[axis + 1 :])


def written(x, axis, n, write):
    """A tensor of zeros with n tokens into which ``write`` has put something."""
    y = x.new_zeros(*x.shape[:axis], n, *x.shape[axis + 1 :])
    write(y)
    return y


def padded(x, axis, before, after):
    return F.pad(x.movedim(axis, -1), (before, after)).movedim(-1, axis)


def swapped_pairs(x, axis):
    n = x.shape[axis] // 2
    return x.narrow(axis, 0, 2 * n).unflatten(axis, (n, 2)).transpose(axis, axis + 1).flatten(axis, axis + 1)


# Each takes the tensor, the axis of its tokens, a random order of these, one for each example, a number from 1 to the
# number of tokens, and a key of each token, from which the program computes what it does.
MOVES = {
    "nothing": lambda x, a, p, ps, n, key: x,
    "roll": lambda x, a, p, ps, n, key: x.roll(n, a),
    "flip": lambda x, a, p, ps, n, key: x.flip(a),
    "cut": lambda x, a, p, ps, n, key: x.narrow(a, 1, x.shape[a] - 1) if x.shape[a] > 2 else x,
    "nested slices": lambda x, a, p, ps, n, key: at(at(x, a, slice(1, None)), a, slice(0, None, 2)),
    "every other": lambda x, a, p, ps, n, key: at(x, a, slice(None, None, 2)),
    "pad and cut": lambda x, a, p, ps, n, key: at(padded(x, a, 1, 0), a, slice(1, None)),
    "pad both ends and cut": lambda x, a, p, ps, n, key: at(padded(x, a, 3, 3), a, slice(3, -3)),
    "shift": lambda x, a, p, ps, n, key: at(padded(x, a, 1, 0), a, slice(None, -1)),
    "pad before": lambda x, a, p, ps, n, key: padded(x, a, 2, 0),
    "pad after": lambda x, a, p, ps, n, key: padded(x, a, 0, 1),
    "index": lambda x, a, p, ps, n, key: at(x, a, p),
    "some of a mask": lambda x, a, p, ps, n, key: at(x, a, p >= min(1, len(p) - 1)),
    "index_select": lambda x, a, p, ps, n, key: x.index_select(a, p[:n]),
    "gather": lambda x, a, p, ps, n, key: x.gather(a, spread(p.expand(x.shape[0], -1), x, a)),
    "gather of each example": lambda x, a, p, ps, n, key: x.gather(a, spread(ps, x, a)),
    "take_along_dim": lambda x, a, p, ps, n, key: x.take_along_dim(spread(ps[:, :n], x, a), a),
    "indices of each example": lambda x, a, p, ps, n, key: x.transpose(1, a)[
        torch.arange(x.shape[0])[:, None], ps
    ].transpose(1, a),
    "sort by a key": lambda x, a, p, ps, n, key: x.gather(a, spread(key.argsort(-1), x, a)),
    "sort by the key of an example": lambda x, a, p, ps, n, key: at(x, a, key[0].argsort()),
    "largest keys": lambda x, a, p, ps, n, key: x.gather(a, spread(key.topk(n, -1).indices, x, a)),
    "cat": lambda x, a, p, ps, n, key: torch.cat([at(x, a, slice(n, None)), at(x, a, slice(n))], a),
    "cat with zeros": lambda x, a, p, ps, n, key: torch.cat([torch.zeros_like(at(x, a, slice(1))), x], a),
    "cat twice": lambda x, a, p, ps, n, key: torch.cat([x, at(x, a, slice(n))], a),
    "stack": lambda x, a, p, ps, n, key: torch.stack(list(x.unbind(a))[::-1], a),
    "split": lambda x, a, p, ps, n, key: torch.cat(x.split(2, a)[::-1], a),
    "index_copy": lambda x, a, p, ps, n, key: torch.zeros_like(x).index_copy(a, p, x),
    "index_copy_": lambda x, a, p, ps, n, key: written(x, a, x.shape[a] + 1, lambda y: y.index_copy_(a, p, x)),
    "written slice": lambda x, a, p, ps, n, key: written(
        x, a, x.shape[a] + 2, lambda y: at(y, a, slice(1, -1)).copy_(x)
    ),
    "set items": lambda x, a, p, ps, n, key: written(
        x, a, n, lambda y: [y.select(a, t % n).copy_(x.select(a, t)) for t in range(x.shape[a])]
    ),
    "scatter": lambda x, a, p, ps, n, key: torch.zeros_like(x).scatter(a, spread(ps, x, a), x),
    "columns first": lambda x, a, p, ps, n, key: swapped_pairs(x, a),
    "repeated": lambda x, a, p, ps, n, key: x.repeat_interleave(2, a).narrow(a, 1, x.shape[a]),
    "windows": lambda x, a, p, ps, n, key: x.unfold(a, 2, 1).select(-1, 1) if x.shape[a] > 1 else x,
    "transposed": lambda x, a, p, ps, n, key: x.movedim(a, 0).contiguous().flip(0).movedim(0, a),
    "contiguous": lambda x, a, p, ps, n, key: x.movedim(a, 0).contiguous().movedim(0, a),
    "where": lambda x, a, p, ps, n, key: torch.where(spread(ps > 0, x, a), x, x.flip(a)),
    "times 1": lambda x, a, p, ps, n, key: x * 1.0,
    "other example": lambda x, a, p, ps, n, key: x.flip(0),
}
SPLITS = {
    "view": lambda x: x.reshape(B, -1, H, D).transpose(1, 2),
    "unflatten": lambda x: x.unflatten(-1, (H, D)).permute(0, 2, 1, 3),
    "axes permuted twice": lambda x: x.reshape(B, -1, H, D).permute(2, 0, 1, 3).permute(1, 0, 2, 3),
    "stacked chunks": lambda x: torch.stack(x.chunk(H, -1), 1),
    "examples joined": lambda x: torch.cat(x.split(D, -1), 0).unflatten(0, (H, B)).transpose(0, 1),
    "heads first": lambda x: x.view(B, -1, H, D).permute(2, 0, 1, 3).contiguous().transpose(0, 1),
}


def by_hand(q, k, v):
    return (q @ k.mT / D**0.5).softmax(-1) @ v


def by_einsum(q, k, v):
    A = torch.einsum("...qd,...kd->...qk", q, k).mul(D**-0.5).softmax(-1)
    return torch.einsum("...qk,...kd->...qd", A, v)


ATTENTIONS = {"by hand": by_hand, "by einsum": by_einsum, "fused": F.scaled_dot_product_attention}


class Chain(nn.Module):
    """An attention whose tokens a random chain has moved."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        choice = random.Random(seed)
        self.q, self.k = nn.Linear(H * D, H * D), nn.Linear(H * D, H * D)
        names = [*MOVES][1:]
        self.early = [(choice.choice(names), choice.randrange(999)) for _ in range(choice.choice([0, 0, 1, 1, 2]))]
        self.late = [(choice.choice(names), choice.randrange(999)) for _ in range(choice.choice([0, 1, 1, 2]))]
        self.split, self.attention = choice.choice([*SPLITS]), choice.choice([*ATTENTIONS])
        self.is_folded, self.only_keys = choice.random() < 0.3, choice.random() < 0.5

    def __str__(self):
        early, late = ([name for name, _ in steps] for steps in (self.early, self.late))
        fold = ", batch and heads folded" if self.is_folded else ""
        sides = "keys" if self.only_keys else "queries and keys"
        return f"{early} → heads by {self.split} → {late} of {sides}{fold}, attention {self.attention}"

    def moved(self, x, steps, axis, key):
        for name, seed in steps:
            g, n = torch.Generator().manual_seed(seed), x.shape[axis]
            orders = torch.stack([torch.randperm(n, generator=g) for _ in range(B)])
            x = MOVES[name](x, axis, orders[0], orders, 1 + seed % max(n, 1), key.repeat(1, 1 + n // T)[:, :n])
        return x

    def heads(self, x, key, is_moved, layer=None):
        """Of hidden states: the rows of each head, (batch, heads, rows, features)."""
        x = self.moved(x, self.early if is_moved else [], 1, key)
        x = SPLITS[self.split](x if layer is None else layer(x))
        return self.moved(x, self.late if is_moved else [], 2, key)

    def sides(self, x):
        key = x.sum(-1)
        return self.heads(x, key, not self.only_keys, self.q), self.heads(x, key, True, self.k)

    def forward(self, x):
        q, k = (y.flatten(0, 1) if self.is_folded else y for y in self.sides(x))
        return ATTENTIONS[self.attention](q, k, k)


def tokens(chain, x, is_moved):
    """The example and the position of the token that each row of each example is, or None."""
    number = torch.arange(1.0, B * T + 1).view(B, T, 1).expand(B, T, H * D)
    codes = [chain.heads(n, x.sum(-1), is_moved).transpose(1, 2).flatten(2) for n in (number, number.square())]

    def token(row, squares):
        n = int(row[0])
        is_one = bool((row == n).all() and (squares == n * n).all())
        return divmod(n - 1, T) if is_one and n else None

    return [[token(*pair) for pair in zip(codes[0][b], codes[1][b], strict=True)] for b in range(B)]


def of_one_example(queries, keys):
    """The positions of the tokens of the example that the queries are of, which may be another than was given there."""
    examples = [token[0] for token in queries if token is not None]
    return [
        [token[1] if token is not None and (not examples or token[0] == examples[0]) else None for token in side]
        for side in (queries, keys)
    ]


def numbers_of_examples(queries):
    """The number of each example of the batch: that of the input, where all are there, in another order."""
    examples = [next((token[0] for token in rows if token is not None), None) for rows in queries]
    return examples if {*examples} == {*range(B)} else [*range(B)]


def checked(seed):
    """What is wrong with the maps of a chain, and how many rows have a token, and are left without its name."""
    chain, x = Chain(seed), torch.randn(B, T, H * D, generator=torch.Generator().manual_seed(seed))
    count, wrong = collections.Counter(), []
    with mhaviz.record(chain, examples="all") as recording, torch.no_grad():
        chain(x)
    with torch.no_grad():
        q, k = chain.sides(x)
        sides = [tokens(chain, x, not chain.only_keys), tokens(chain, x, True)]
    numbers = numbers_of_examples(sides[0])
    truth = [*zip(*(of_one_example(*pair) for pair in zip(*sides, strict=True)), strict=True)]
    maps = () if recording.is_empty else recording.attention.maps
    weights = (q @ k.mT / D**0.5).softmax(-1)
    count["known"] += sum(token is not None for side in truth for rows in side for token in rows)
    count["chains that are not drawn"] += len(maps) != B
    for m in maps if len(maps) == B else ():
        entry = numbers.index(m.sentence)
        if m.windows or m.weights.shape != weights.shape[1:]:
            wrong.append(f"example {m.sentence}: weights of shape {m.weights.shape}, not {tuple(weights.shape[1:])}")
            continue
        if not np.allclose(m.weights, weights[entry], atol=CLOSE):
            wrong.append(f"example {m.sentence}: weights are wrong")
        for side, names, rows in zip(("query", "key"), (m.queries, m.keys), truth, strict=True):
            errors, unnamed = compare(names, rows[entry])
            count["unnamed"] += unnamed
            wrong += [f"example {m.sentence}: {side} {error}; truth {rows[entry]}" for error in errors[:1]]
    return [f"{line}\n    MHAVIZ_SEED={seed}: {chain}" for line in wrong], count


@pytest.mark.parametrize("number", range(N_CHAINS))
def test_names_of_moved_tokens_are_exact_or_those_of_rows(number):
    wrong, _ = checked(SEED + number)
    assert not wrong, "\n".join(wrong)


def report(n, seed):
    warnings.simplefilter("ignore")
    total, failed = collections.Counter(), 0
    for number in range(seed, seed + n):
        wrong, count = checked(number)
        total += count
        failed += bool(wrong)
        print("\n".join(wrong[:1]), end="\n" if wrong else "")  # noqa: T201
    print(f"{failed} of {n} chains are wrong; {dict(total)}; at most {MOST_UNNAMED:.0%} may be unnamed")  # noqa: T201


if __name__ == "__main__":
    report(int(sys.argv[1]), int((sys.argv[2:] or [SEED])[0]))

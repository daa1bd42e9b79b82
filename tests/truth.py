"""Which token each row of a tensor is: the oracle of the tests of names, which knows nothing of the recorder.

A row is token t of its example if it depends on the features of this token alone, or if it is a copy of them. Of other
rows no token is told, and "row i" is the only name. What depends on what is measured: each token is changed in turn.
"""

import math

import torch

RARE = (math.nan, math.inf, -math.inf, 0)


def differ(a, b):
    return ~((a == b) | (a.isnan() & b.isnan()))


def by_rows(x, axis):
    """The tensor as (examples, rows, features)."""
    return x.detach().movedim(axis, 1).flatten(2)


def tokens_of_rows(function, x, axis):
    """For each row of each example of ``function(x)``, the position of its token, or None. Tokens are along ``axis``.

    A token is changed to random numbers twice. If no row depends on them, then to what ``isnan(x)``, ``x * 0`` and
    ``x & y`` depend on.
    """
    y = by_rows(function(x), axis)
    sources = [[set() for _ in rows] for rows in y]
    generator = torch.Generator().manual_seed(1)
    for example in range(x.shape[0]):
        for token in range(x.shape[axis]):
            for row in _rows_that_change(function, x, axis, y, (example, token), generator):
                sources[row[0]][row[1]].add((example, token))
    before = by_rows(x, axis)
    for example, rows in enumerate(y):
        for row, features in enumerate(rows):
            if before.shape[2] == len(features) and (copied := (before == features).all(-1).nonzero().tolist()):
                sources[example][row] = {tuple(pair) for pair in copied}
    return [[_only_token(pairs, example) for pairs in rows] for example, rows in enumerate(sources)]


def _only_token(pairs, example):
    (pair,) = pairs if len(pairs) == 1 else (None,)
    return pair[1] if pair is not None and pair[0] == example else None


def _rows_that_change(function, x, axis, y, token, generator):
    changed = torch.zeros(y.shape[:2], dtype=torch.bool)
    for size in (1, 10, *RARE):
        if size in RARE and changed.any():
            break
        z = x.detach().clone()
        features = by_view(z, axis)[token]
        features.copy_(
            torch.full_like(features, size) if size in RARE else torch.randn(features.shape, generator=generator) * size
        )
        try:
            moved = by_rows(function(z), axis)
        except (RuntimeError, ValueError):  # not defined for NaN
            continue
        changed |= differ(moved, y).any(-1) if moved.shape == y.shape else torch.ones_like(changed)
    return changed.nonzero().tolist()


def by_view(x, axis):
    """The tensor with its tokens as its second axis, in the same memory."""
    return x.movedim(axis, 1)


def compare(names, tokens, keeps_places=False):
    """The rows with a wrong name, as text, and the number of rows whose token could be told and is not.

    ``keeps_places``: a row that is no token may have the name of the token in its place.
    """
    wrong, unnamed = [], 0
    for row, (name, token) in enumerate(zip(names, tokens, strict=True)):
        if name.startswith("row"):
            unnamed += token is not None
        elif name != str(token) and not (keeps_places and name == str(row)):
            wrong.append(f"row {row} is named {name}, is {'no token' if token is None else f'token {token}'}")
    return wrong, unnamed

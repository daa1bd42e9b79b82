"""Recognise keys that an attention has read before, by a few features of each.

A cache may keep keys in fewer bits, and a search moves the examples of its batch.
"""

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall
from mhaviz.observe.observed import ObservedCall

_SAME_KEY = 0.3
"""Largest change of a key in a cache of fewer bits, relative to the spread of a feature, until it is another key."""

_SAME_NUMBER = 1e-4
"""Largest change of a key that has moved within a cache, likewise: it is only rounded."""

_ROUNDING = 2**-20
"""Largest change of any key by rounding, relative to the largest number of a feature."""

_FEWER_BITS = [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2]
"""Types in which a cache may keep keys of a program that computes in others."""

_MOST_ENDS = 64
"""Number of places at which keys are looked for."""

_MOST_BEAMS = 16
"""Number of examples in a batch, up to which it is found where each of them goes on from."""


def known_by(observed: ObservedCall, k_length: int) -> Tensor | None:
    """Return a few features of the first ``k_length`` keys and of their values, or of these alone where keys are not
    known.

    They are (batch_size, k_length, features); None: neither is known.
    """
    if isinstance(observed.call, AttentionCall):
        return _few_features(observed.call.key[:, :, :k_length], observed.call.value[:, :, :k_length])
    weighted = None if observed.weighted is None else observed.weighted()
    return None if weighted is None else _few_features(weighted.value[:, :, :k_length])


def _few_features(*sides: Tensor) -> Tensor:
    """Return the first and last features of the first and the last head, as DeepSeek's keys have no position at one
    end."""
    heads = [head for x in sides for head in (x[:, 0], x[:, -1])]
    return torch.cat([part.detach().float() for x in heads for part in (x[..., :2], x[..., -2:])], dim=-1)


def run_ends(known: Tensor | None, now: Tensor | None, n_keys: int) -> list[int]:
    """Return where, among the known keys, runs end that are equal to the first ``n_keys`` keys now; in order.

    A change is small or large beside the spread of a feature, and not beside its numbers: a bias of the keys makes
    those of all texts large.
    """
    if known is None or now is None or known.shape[0] != now.shape[0] or known.shape[2] != now.shape[2]:
        return []
    spread, rounding = _spread(now), _ROUNDING * known.abs().amax(dim=(0, 1))  # features
    now, n_known = now[:, :n_keys], known.shape[1]
    if n_keys == n_known:
        is_close = bool(((now - known).abs() <= _SAME_KEY * spread + rounding).all())
        return [n_known] if is_close or _is_rounded(now, known) else []
    most, starts = _SAME_NUMBER * spread + rounding, n_known - n_keys + 1
    is_end = [
        ((known[:, i : i + starts] - now[:, i : i + 1]).abs() <= most).all(dim=2).all(dim=0) for i in (0, n_keys - 1)
    ]
    found = torch.nonzero(is_end[0] & is_end[1])[:_MOST_ENDS, 0].tolist()
    return [start + n_keys for start in found if bool(((known[:, start : start + n_keys] - now).abs() <= most).all())]


def are_equal(known: Tensor | None, now: Tensor | None) -> bool:
    """Return whether keys are known, and are the same but for rounding."""
    if known is None or now is None or known.shape != now.shape:
        return False
    most = _SAME_NUMBER * _spread(now) + _ROUNDING * known.abs().amax(dim=(0, 1))
    return bool(((now - known).abs() <= most).all())


def are_alike(keys: Tensor | None) -> bool:
    """Return whether two of a few examples have the same keys."""
    if keys is None or not 1 < len(keys) <= _MOST_BEAMS:
        return False
    return bool(_matches(keys, keys).triu(1).any())


def moved_examples(known: Tensor | None, now: Tensor | None, n_keys: int) -> tuple[int, ...]:
    """Return for each example where its first ``n_keys`` keys were among the known ones; empty: each in its own place,
    or some nowhere."""
    if known is None or now is None or known.shape != now[:, :n_keys].shape:
        return ()
    matches = _matches(known, now[:, :n_keys])
    if bool(matches.diagonal().all()) or not bool(matches.any(dim=1).all()):
        return ()
    return tuple(row.index(True) for row in matches.tolist())


def _matches(known: Tensor, now: Tensor) -> Tensor:
    """Return which examples have the keys that are known of which, bool, (examples now, examples known)."""
    most = _SAME_NUMBER * _spread(now) + _ROUNDING * known.abs().amax(dim=(0, 1))
    return ((now[:, None] - known).abs() <= most).flatten(2).all(dim=2)


def _spread(x: Tensor) -> Tensor:
    """Return how far two keys are apart, (features,), for x, (batch_size, k_length, features).

    It is the median over pairs, as the first key is often far from all others, and at least that of half the features:
    that of few keys is small by chance.
    """
    spread = (x - x.roll(x.shape[1] // 2, dims=1)).abs().flatten(0, 1).median(dim=0).values
    return spread.clamp(min=float(spread.median()))


def _is_rounded(now: Tensor, known: Tensor) -> bool:
    """Return whether keys are the known ones in fewer bits, which leave little of a key beside a large bias."""
    now, known = now.cpu(), known.cpu()  # other devices lack some types
    return any(torch.equal(known.to(bits).float(), now) for bits in _FEWER_BITS)

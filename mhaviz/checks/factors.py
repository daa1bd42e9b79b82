"""Factors of q·k: the one in the softmax, by regression, and those that stand in queries and keys, by gradients."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mhaviz.checks.attentions import Seen
from mhaviz.checks.evidence import BATCH_SIZE, Evidence
from mhaviz.checks.passes import Pass
from mhaviz.checks.tolerances import is_factor, relative

_FEATURES = 8
"""Number of features of a row whose factor is followed."""


@dataclass(frozen=True)
class Regression:
    """A line through log A and q·k, of differences between two inputs, so that what is added to scores cancels.

    Attributes:
        by_head: slope for each head.
        unexplained: share of the variance of log A that the line leaves, from 0 to 1.
        softcap: cap c at which c·tanh(slope·q·k / c) leaves nothing; None: none does.
    """

    by_head: tuple[float, ...]
    unexplained: float
    softcap: float | None = None

    @property
    def slope(self) -> float:
        """Mean slope."""
        return sum(self.by_head) / len(self.by_head)

    @property
    def is_same(self) -> bool:
        """Whether all heads have the same slope."""
        return max(self.by_head) - min(self.by_head) <= 5e-3 * abs(self.slope)


def regress(evidence: Evidence, number: int) -> Regression | None:
    """Return the factor of q·k in the softmax of an attention; None: not known.

    A fused kernel is given its factor. Of weights that are written out, log A is c·q·k plus a number for each query,
    plus what a mask or a bias adds, which does not depend on the input and cancels between two inputs.
    """
    seen = evidence.attentions[number]
    if seen.fused is not None:
        assert seen.fused.scale is not None
        return Regression((seen.fused.scale,), 0.0)
    others = evidence.sentence_pass.attentions
    if number >= len(others):
        return None
    pairs = [_scores(one) for one in (seen, others[number])]
    if pairs[0] is None or pairs[1] is None:
        return None
    (log_0, product_0), (log_1, product_1) = pairs[0], pairs[1]
    is_seen = (log_0 > _LEAST) & (log_1 > _LEAST)
    if not bool(is_seen.any()):
        return None
    slopes, left, whole = [], 0.0, 0.0
    for head in range(log_0.shape[0]):
        y = _centred(log_1[head] - log_0[head], is_seen[head])
        x = _centred(product_1[head] - product_0[head], is_seen[head])
        square = float((x * x).sum())
        if square < 1e-9:
            return None
        slope = float((x * y).sum()) / square
        slopes.append(slope)
        left += float(((y - slope * x) ** 2).sum())
        whole += float((y * y).sum())
    unexplained = left / max(whole, 1e-12)
    cap = None
    if unexplained > UNEXPLAINED:
        cap = _softcap(log_0, product_0, log_1, product_1, is_seen)
    return Regression(tuple(slopes), unexplained, cap)


_LEAST = -60.0

UNEXPLAINED = 1e-3
"""Share of the variance of log A that rounding leaves unexplained."""


def _scores(seen: Seen) -> tuple[Tensor, Tensor] | None:
    """Return log A and q·k of sentence 0, (n_heads, q_length, k_length), as the first softmax has them."""
    softmax, products = seen.softmax, seen.by_head(seen.products, BATCH_SIZE)
    if softmax is None and seen.values is not None and seen.values.name == "unweighed":
        softmax = seen.weights
    if softmax is None or products is None:
        return None
    A = _aligned(seen, softmax, products)
    return None if A is None else (A.double().clamp(min=1e-30).log(), products[0].double())


def _aligned(seen: Seen, softmax: Tensor, products: Tensor) -> Tensor | None:
    """Return what the softmax has made of sentence 0, in the axes of the products; None: not known which are which."""
    raw = seen.products
    axis = seen.softmaxes[0].axis if seen.softmaxes else -1
    if softmax.ndim == raw.ndim and axis is not None and softmax.shape[axis] > raw.shape[axis]:  # it has a sink
        kept = range(raw.shape[axis])
        softmax = softmax.movedim(axis, -1)[..., kept].movedim(-1, axis)
    if softmax.numel() != raw.numel():
        return None
    given = softmax if softmax.shape == raw.shape else softmax.reshape(raw.shape) if _is_view(softmax, raw) else None
    by_head = None if given is None else seen.by_head(given, BATCH_SIZE)
    if by_head is not None:
        return by_head[0]
    direct = softmax.reshape(BATCH_SIZE, -1, *softmax.shape[-2:]) if softmax.shape[0] % BATCH_SIZE == 0 else None
    return direct[0] if direct is not None and direct.shape == products.shape else None


def _is_view(x: Tensor, y: Tensor) -> bool:
    """Return whether both have the same axes, apart from some that are joined."""
    return x.shape[-2:] == y.shape[-2:]


def _centred(x: Tensor, is_seen: Tensor) -> Tensor:
    """Return x less the mean of each row over the keys that are seen, (q_length, k_length), 0 elsewhere."""
    kept = x.masked_fill(~is_seen, 0.0)
    mean = kept.sum(dim=-1, keepdim=True) / is_seen.sum(dim=-1, keepdim=True).clamp(min=1)
    return (kept - mean).masked_fill(~is_seen, 0.0)


def _softcap(log_0: Tensor, product_0: Tensor, log_1: Tensor, product_1: Tensor, is_seen: Tensor) -> float | None:
    """Return the cap that explains the logarithms, found by steps; None: none does."""
    y = torch.stack([_centred(log_1[h] - log_0[h], is_seen[h]) for h in range(len(log_0))])

    def left(cap: float, slope: float) -> float:
        capped = [cap * torch.tanh(slope * one / cap) for one in (product_0, product_1)]
        x = torch.stack([_centred(capped[1][h] - capped[0][h], is_seen[h]) for h in range(len(y))])
        return float(((y - x) ** 2).sum() / (y * y).sum())

    caps, slopes = torch.logspace(0, 2.2, 23).tolist(), torch.logspace(-2.5, 0.5, 31).tolist()
    best, cap, slope = min((left(cap, slope), cap, slope) for cap in caps for slope in slopes)
    for step in (1.05, 1.02, 1.01, 1.003):
        for _ in range(20):
            tried = [
                (left(c, s), c, s) for c in (cap / step, cap, cap * step) for s in (slope / step, slope, slope * step)
            ]
            if (new := min(tried))[0] >= best:
                break
            best, cap, slope = new
    return cap if best < UNEXPLAINED else None


@dataclass(frozen=True)
class Followed:
    """How a row of queries or keys was made of the output of a projection.

    Attributes:
        factor: number by which the projection's features were multiplied; None: not the same for all features.
        is_linear: whether it is the same for other inputs. It is not where rows are normalised.
        n_mixed: number of the projection's features that a feature is made of: 1 of a view, 2 of a rotation.
        weight: the projection's weights.
    """

    factor: float | None
    is_linear: bool
    n_mixed: int
    weight: Tensor | None = None


def follow(evidence: Evidence, number: int, side: Literal["query", "key"]) -> Followed | None:
    """Return how the first row of the queries or keys of an attention was made of a projection; None: not known."""
    first = _gradients(evidence, evidence.base, evidence.attentions, number, side)
    others = evidence.sentence_pass.attentions
    second = _gradients(evidence, evidence.sentence_pass, others, number, side) if number < len(others) else None
    if first is None or second is None:
        return None
    gradients, weight = first
    norms = [float(one.norm()) for one in gradients]
    is_linear = all(
        torch.allclose(a.float(), b.float(), rtol=0, atol=relative(a) * max(norms))
        for a, b in zip(gradients, second[0], strict=True)
    )
    is_same = is_factor(max(norms), min(norms))
    n_mixed = max(int((one.abs() > relative(one) * one.abs().amax()).sum()) for one in gradients)
    return Followed(sum(norms) / len(norms) if is_same else None, is_linear, n_mixed, weight)


def _gradients(
    evidence: Evidence, one: Pass, attentions: Sequence[Seen], number: int, side: Literal["query", "key"]
) -> tuple[list[Tensor], Tensor | None] | None:
    """Return the gradient of some features of a row with respect to the last projection that each depends on."""
    seen = attentions[number]
    x = seen.query if side == "query" else seen.key
    axis = seen.features[0 if side == "query" else 1]
    if x is None or not x.requires_grad:
        return None
    before = [step for step in one.steps[: _place(one, seen)] if step.name == "projection"]
    before = [step for step in before if step.result.requires_grad and step.result is not seen.output]
    rows = x.movedim(axis, -1)
    place = evidence.last_row(number, side)
    if place is None:
        return None
    row = rows.reshape(-1, rows.shape[-1])[place]
    features = torch.linspace(0, len(row) - 1, min(_FEATURES, len(row))).round().long().tolist()
    found, weight = [], None
    for feature in features:
        gradient = None
        for step in reversed(before):
            (gradient,) = torch.autograd.grad(row[feature], step.result, retain_graph=True, allow_unused=True)
            if gradient is not None and bool(gradient.any()):
                weight = next((w for w in step.given if w.ndim == 2 and w is not x), weight)
                break
            gradient = None
        if gradient is None:
            return None
        found.append(gradient)
    return found, weight


def _place(one: Pass, seen: Seen) -> int:
    """Return the number of the step of an attention."""
    return next(i for i, step in enumerate(one.steps) if step is seen.step)

"""What one attention of a model is called with, and the weights that come of it, whatever rules the model has."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.records import HeadInputs

BLOCK = 512
"""So many queries at once, where all weights together could be too many."""


@dataclass(frozen=True)
class AttentionCall:
    """The queries, keys and values of a batch, after rotary positions and before groups of heads share their keys.

    Attributes:
        query: (batch_size, n_heads, q_length, d_key).
        key: (batch_size, n_kv_heads, k_length, d_key), where n_heads is a multiple of n_kv_heads.
        value: (batch_size, n_kv_heads, k_length, d_value).
        scale: of the scores.
        causal: a query sees no later key.
        mask: broadcasts to (batch_size, n_heads, q_length, k_length): bool, where False hides a key from a query, or
            numbers that are added to the scores; None.
        softcap: scores become softcap · tanh(score / softcap) (Gemma 2, arXiv 2408.00118, section 2); None: they stay.
        sinks: (n_heads,): scores that take part in the softmax and are then dropped, so that rows sum to less than 1
            (gpt-oss; Xiao et al. 2023, arXiv 2309.17453); None.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scale: float
    causal: bool = False
    mask: Tensor | None = None
    softcap: float | None = None
    sinks: Tensor | None = None

    @property
    def visible_everywhere(self) -> bool:
        """Whether there is nothing that could hide a key from a query."""
        return self.mask is None and not self.causal

    @property
    def group(self) -> int:
        """So many heads share their keys and values."""
        return self.query.shape[1] // self.key.shape[1]

    def scores(self, start: int = 0, end: int | None = None) -> Tensor:
        """S, what the softmax is taken of, of the queries from ``start`` to ``end``; −∞ where a key is hidden.

        In float64 if the queries are, else float32: (batch_size, n_heads, queries, k_length).
        """
        Q = self._exact(self.query[:, :, start:end])
        S = _by_group(Q, self._exact(self.key).mT, self.scale)  # batch_size n_heads queries k_length
        if self.softcap is not None:
            S = self.softcap * torch.tanh(S / self.softcap)
        if self.mask is not None:
            mask = self.mask[:, :, start:end] if self.mask.shape[2] > 1 else self.mask
            S = S.masked_fill_(~mask, -torch.inf) if mask.dtype == torch.bool else S.add_(mask.to(S.dtype))
        if self.causal:  # a third of the time that it takes to fill; what is hidden may be NaN here too
            last = start + self.key.shape[2] - self.query.shape[2]  # key that the first query sees
            S.tril_(last).add_(S.new_full(S.shape[2:], -torch.inf).triu_(last + 1))
        return S

    def weights(self, start: int = 0, end: int | None = None) -> Tensor:
        """A = softmax(S), in the shape of the scores. A query that sees no key at all has weights of 0."""
        return self.weigh(self.scores(start, end))

    def weigh(self, S: Tensor, in_place: bool = False) -> Tensor:
        """The weights of scores that are there; ``in_place``: the scores may be written over."""
        sees_nothing = None if self.visible_everywhere else S.amax(dim=-1, keepdim=True) == -torch.inf
        if self.sinks is None:
            A = torch.softmax(S, dim=-1, out=S if in_place else None)
        else:
            sink = self.sinks.to(S.dtype).view(1, -1, 1, 1).expand(*S.shape[:3], 1)
            A = torch.softmax(torch.cat([S, sink], dim=-1), dim=-1)[..., :-1]
        if sees_nothing is not None and bool(sees_nothing.any()):
            A.masked_fill_(sees_nothing, 0.0)  # a softmax over nothing but −∞ is NaN
        return A

    def output(self) -> Tensor:
        """H = A V, (batch_size, n_heads, q_length, d_value), a block of queries at a time."""
        blocks = range(0, self.query.shape[2], BLOCK)
        return torch.cat([self.mix(self.weights(i, i + BLOCK)) for i in blocks], dim=2).to(self.value.dtype)

    def mix(self, A: Tensor) -> Tensor:
        """The values that weights of some queries make one of, (batch_size, n_heads, queries, d_value)."""
        return _by_group(A, self._exact(self.value))

    def visible(self) -> Tensor | None:
        """bool, (batch_size or 1, n_heads or 1, q_length or 1, k_length): False hides; None if nothing is hidden."""
        hides = [m if m.dtype == torch.bool else m > torch.finfo(m.dtype).min / 2 for m in self._masks(0, None)]
        return reduce(torch.logical_and, hides) if hides else None

    def added(self, start: int = 0, end: int | None = None) -> Tensor | None:
        """What is added to the scores of these queries; the least number there is where a key is hidden."""
        least = torch.finfo(self.query.dtype).min
        numbers = [
            torch.zeros(m.shape, device=m.device).masked_fill_(~m, least) if m.dtype == torch.bool else m
            for m in self._masks(start, end)
        ]
        return reduce(torch.add, numbers).clamp(min=least) if numbers else None

    def _exact(self, x: Tensor) -> Tensor:
        if x.dtype == self.query.dtype == torch.float32:  # as nearly always: the rest takes longer than a few scores
            return x
        return x.to(torch.promote_types(self.query.dtype, torch.float32))

    def _masks(self, start: int, end: int | None) -> list[Tensor]:
        masks = [] if self.mask is None else [self.mask[:, :, start:end] if self.mask.shape[2] > 1 else self.mask]
        if self.causal:
            q_length, k_length = self.query.shape[2], self.key.shape[2]
            last = torch.arange(q_length, device=self.query.device)[start:end] + k_length - q_length
            masks.append((torch.arange(k_length, device=self.query.device) <= last[:, None])[None, None])
        return masks


def _by_group(A: Tensor, B: Tensor, factor: float = 1.0) -> Tensor:
    """factor · A @ B, where each matrix of B is for a group of heads of A: (batch_size, n_heads, rows, columns)."""
    rows_of_group = A.reshape(B.shape[0] * B.shape[1], -1, A.shape[3])
    products = torch.baddbmm(A.new_empty(()), rows_of_group, B.flatten(0, 1), beta=0, alpha=factor)
    return products.view(*A.shape[:3], B.shape[3])


def call_of_inputs(inputs: HeadInputs, heads: Sequence[int], scale: float | None = None) -> AttentionCall:
    """The same of some heads of one sentence, as a batch of one; ``scale``: in place of the layer's own."""

    def of_heads(x: NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(x[list(heads)])[None]

    mask: Tensor = torch.from_numpy(inputs.visible)[None, None]  # 1 1 q_length k_length
    if inputs.bias is not None:
        bias = torch.from_numpy(inputs.bias)[None]
        mask = (bias if bias.shape[1] == 1 else bias[:, list(heads)]).masked_fill(~mask, -torch.inf)
    return AttentionCall(
        of_heads(inputs.query),
        of_heads(inputs.key),
        of_heads(inputs.value),
        inputs.own_scale if scale is None else scale,
        False,
        mask,
        inputs.softcap,
        None if inputs.sinks is None else torch.from_numpy(inputs.sinks[list(heads)]),
    )

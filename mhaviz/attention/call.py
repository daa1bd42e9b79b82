"""One call of an attention: its queries, keys, values, mask and scale, and the weights that are computed from them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

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
        causal: a query sees no later key; the last query is lined up with the last key.
        mask: broadcasts to (batch_size, n_heads, q_length, k_length): bool, where False hides a key from a query, or
            numbers that are added to the scores; None.
        softcap: scores become softcap · tanh(score / softcap) (Gemma 2, arXiv 2408.00118, section 2); None: they stay.
        sinks: (n_heads,): scores that take part in the softmax and are then dropped, so that rows sum to less than 1
            (gpt-oss; Xiao et al. 2023, arXiv 2309.17453); None.
        value_norms: (batch_size, n_heads, k_length): ‖v_j W_O‖ of each key, by which ``shares`` and maps multiply its
            weights; None: not asked for.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scale: float
    causal: bool = False
    mask: Tensor | None = None
    softcap: float | None = None
    sinks: Tensor | None = None
    value_norms: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the weights: (batch_size, n_heads, q_length, k_length)."""
        batch_size, n_heads, q_length, _ = self.query.shape
        return batch_size, n_heads, q_length, self.key.shape[2]

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        return self.query.device

    @property
    def visible_everywhere(self) -> bool:
        """Whether there is nothing that could hide a key from a query."""
        return self.mask is None and not self.causal

    @property
    def has_sink(self) -> bool:
        """Whether rows may sum to less than 1."""
        return self.sinks is not None

    @property
    def group(self) -> int:
        """So many heads share their keys and values."""
        return self.query.shape[1] // self.key.shape[1]

    @property
    def rule(self) -> str:
        """What becomes of q·k before the softmax, as an equation goes on: "/ √64", or "· 0.1, capped at 50"."""
        d_key = self.query.shape[3]
        text = f"/ √{d_key}" if math.isclose(self.scale * math.sqrt(d_key), 1, rel_tol=1e-4) else ""
        if not text and self.scale != 1:
            text = f"· {self.scale:.3g}"
        parts = [text] if text else []
        if self.softcap is not None:
            parts.append(f"capped at {self.softcap:g}")
        adds = self.mask is not None and self.mask.dtype != torch.bool
        text = ", ".join(parts) + (" + bias" if adds else "")
        return (text + (", with a sink" if self.has_sink else "")).removeprefix(", ").strip()

    def scores(self, start: int = 0, end: int | None = None) -> Tensor:
        """S, what the softmax is taken of, of the queries from ``start`` to ``end``; −∞ where a key is hidden.

        In float64 if the queries are, else float32: (batch_size, n_heads, queries, k_length).
        """
        Q = self._exact(self.query[:, :, start:end])
        S = _by_group(Q, self._exact(self.key).mT, self.scale)  # batch_size n_heads queries k_length
        cap_and_mask(S, self.softcap, self._mask_of(start, end))
        if self.causal:  # a third of the time that it takes to fill; what is hidden may be NaN here too
            last = start + self.key.shape[2] - self.query.shape[2]  # key that the first query sees
            S.tril_(last).add_(S.new_full(S.shape[2:], -torch.inf).triu_(last + 1))
        return S

    def weights(self, start: int = 0, end: int | None = None) -> Tensor:
        """A = softmax(S), in the shape of the scores. A query that sees no key at all has weights of 0."""
        return self.weigh(self.scores(start, end), in_place=True)

    def shares(self) -> Tensor:
        """The weights of all queries, or with ``value_norms`` each row of norms as shares of its sum; same shape."""
        return shares_of(self.weights(), self.value_norms)

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
        visible = self.mask
        if visible is not None and visible.dtype != torch.bool:
            visible = visible > torch.finfo(visible.dtype).min / 2
        if self.causal:
            _, _, q_length, k_length = self.shape
            earlier = torch.ones(1, 1, q_length, k_length, dtype=torch.bool, device=self.device)
            earlier.tril_(k_length - q_length)
            visible = earlier if visible is None else visible & earlier
        return visible

    def select(self, heads: Sequence[int]) -> "AttentionCall":
        """The same of these heads alone."""
        n_heads, chosen = self.query.shape[1], list(heads)
        if chosen == list(range(n_heads)):
            return self
        groups = [head // self.group for head in chosen]
        return replace(
            self,
            query=self.query[:, chosen],
            key=self.key[:, groups],
            value=self.value[:, groups],
            mask=self.mask[:, chosen] if self.mask is not None and self.mask.shape[1] > 1 else self.mask,
            sinks=None if self.sinks is None else self.sinks[chosen],
            value_norms=None if self.value_norms is None else self.value_norms[:, chosen],
        )

    def part(self, queries: Sequence[int], keys: Sequence[int]) -> "AttentionCall":
        """The same of these positions alone: weights are shares of the keys that remain, so that rows sum to 1 again.

        Of a causal call both sides lose the same positions.
        """
        rows, columns = list(queries), list(keys)
        mask = self.mask
        if mask is not None:
            mask = mask[:, :, rows] if mask.shape[2] > 1 else mask
            mask = mask[..., columns] if mask.shape[3] > 1 else mask
        query, key, value = self.query[:, :, rows], self.key[:, :, columns], self.value[:, :, columns]
        norms = None if self.value_norms is None else self.value_norms[..., columns]
        return replace(self, query=query, key=key, value=value, mask=mask, value_norms=norms)

    def with_plain_mask(self, causal: bool) -> "tuple[AttentionCall, int | None]":
        """The same without a mask that hides nothing, or later keys alone; and how far a query sees, if the mask is a
        band along the diagonal.

        ``causal``: whether later keys are hidden, by the mask or otherwise.
        """
        mask, (_, _, q_length, k_length) = self.mask, self.shape
        plain = replace(self, mask=None, causal=causal)
        if mask is None:
            return plain, None
        if mask.dtype != torch.bool:  # the least number of a type hides as −∞ does, unless it stands in the whole row
            hidden = mask <= torch.finfo(mask.dtype).min / 2
            hidden &= ~hidden.expand(*mask.shape[:-1], k_length).all(dim=-1, keepdim=True)
            return replace(plain, mask=mask.masked_fill(hidden, -torch.inf)), None
        if mask.shape[:2] == (1, 1) and mask.shape[2] == q_length == k_length:
            seen = mask[0, 0]
            reach = k_length - 1 - int(seen[-1].to(torch.uint8).argmax())
            band = seen.new_ones(q_length, k_length).triu_(-reach).tril_(0 if causal else reach)
            if torch.equal(seen, band):
                return (plain, None) if reach == k_length - 1 else (replace(plain, mask=mask), reach)
        return (plain if bool(mask.all()) else replace(plain, mask=mask)), None

    def _exact(self, x: Tensor) -> Tensor:
        return x.to(torch.promote_types(self.query.dtype, torch.float32))

    def _mask_of(self, start: int, end: int | None) -> Tensor | None:
        if self.mask is None or self.mask.shape[2] == 1:
            return self.mask
        return self.mask[:, :, start:end]


@dataclass(frozen=True)
class AttentionWeights:
    """The weights of an attention whose queries and keys are not known, in place of an ``AttentionCall``.

    Attributes:
        given: (batch_size, n_heads, q_length, k_length), of any precision.
        has_sink: whether rows may sum to less than 1, as the rest goes to a sink.
        value_norms: as in ``AttentionCall``.
    """

    given: Tensor
    has_sink: bool = False
    value_norms: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """As in ``AttentionCall``."""
        batch_size, n_heads, q_length, k_length = self.given.shape
        return batch_size, n_heads, q_length, k_length

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.given.device

    def weights(self, start: int = 0, end: int | None = None) -> Tensor:
        """Of the queries from ``start`` to ``end``, in float64 if they are, else float32: not to be written over, as
        they may be the given ones themselves.
        """
        given = self.given[:, :, start:end]
        return given if given.dtype == torch.float64 else given.float()

    def shares(self) -> Tensor:
        """As in ``AttentionCall``."""
        return shares_of(self.weights(), self.value_norms)

    def visible(self) -> Tensor:
        """bool, in the shape of the weights: where there is some weight, and it is a number."""
        return self.given > 0

    def select(self, heads: Sequence[int]) -> "AttentionWeights":
        """As in ``AttentionCall``."""
        chosen = list(heads)
        norms = None if self.value_norms is None else self.value_norms[:, chosen]
        return replace(self, given=self.given[:, chosen], value_norms=norms)

    def part(self, queries: Sequence[int], keys: Sequence[int]) -> "AttentionWeights":
        """As in ``AttentionCall``: what the other keys and a sink's share of them had goes to the keys that remain."""
        A = self.weights()[:, :, list(queries)]
        kept = A[..., list(keys)]
        whole = kept.sum(dim=-1, keepdim=True)
        if self.has_sink:
            whole = whole + (1 - A.sum(dim=-1, keepdim=True)).clamp(min=0)
        norms = None if self.value_norms is None else self.value_norms[..., list(keys)]
        return replace(self, given=(kept / whole.clamp(min=torch.finfo(A.dtype).tiny)), value_norms=norms)


def shares_of(A: Tensor, norms: Tensor | None) -> Tensor:
    """Weights times the norms of their keys' values as shares of the sum of their row; without norms the weights."""
    if norms is None:
        return A
    parts = A * norms[:, :, None].to(A.dtype)
    return parts / parts.sum(dim=-1, keepdim=True).clamp_(min=torch.finfo(A.dtype).tiny)


def times_norms(A: Tensor, norms: Tensor | None) -> Tensor:
    """Weights, (batch_size, n_heads, queries, k_length), times the norms of their keys' values, (batch_size, n_heads,
    k_length); A is written over. None: the weights."""
    return A if norms is None else A.mul_(norms[:, :, None].to(A.dtype))


def cap_and_mask(S: Tensor, softcap: float | None, mask: Tensor | None, hidden: float = -math.inf) -> Tensor:
    """What becomes of scores before their softmax, beside later keys that are hidden; S is written over.

    Args:
        S: scale · Q Kᵀ, (…, queries, keys).
        softcap: see ``AttentionCall``.
        mask: broadcasts to S; see ``AttentionCall``.
        hidden: the least that a score can become.
    """
    if softcap is not None:
        S.div_(softcap).tanh_().mul_(softcap)
    if mask is not None and mask.dtype == torch.bool:
        S.masked_fill_(~mask, hidden)
    elif mask is not None:
        S.add_(mask.to(S.dtype))
        if hidden > -math.inf:
            S.clamp_(min=hidden)
    return S


def entropy(A: Tensor, dim: int | tuple[int, ...] = -1) -> Tensor:
    """−Σ a ln a of weights, (…, queries, keys), in nats, over these axes.

    Several times as fast as torch.special.entr, which asks of each weight whether it is 0.
    """
    logarithms = A.clamp(min=torch.finfo(A.dtype).tiny).log_()  # 0 ln 0 is 0
    return logarithms.mul_(A).sum(dim=dim).neg_()


def _by_group(A: Tensor, B: Tensor, factor: float = 1.0) -> Tensor:
    """factor · A @ B, where each matrix of B is for a group of heads of A: (batch_size, n_heads, rows, columns)."""
    rows_of_group = A.reshape(B.shape[0] * B.shape[1], -1, A.shape[3])
    products = torch.baddbmm(A.new_empty(()), rows_of_group, B.flatten(0, 1), beta=0, alpha=factor)
    return products.view(*A.shape[:3], B.shape[3])

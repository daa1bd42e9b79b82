"""One call of an attention: its queries, keys, values, mask and scale, and the weights computed from them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

BLOCK = 512
"""Number of queries computed at once where all weights might not fit into memory."""

HIDES = -5_000.0
"""Numbers below this are added to scores to hide a key: −10,000, as in BERT's own code, −1e9, the lowest number of a
type, or −∞."""

_UNDERFLOWS = -750.0  # exp of it is 0 in float64


def hides(mask: Tensor) -> Tensor:
    """Return which keys a mask, or masked scores, are meant to hide: bool, in their shape. NaN hides nothing.

    A key that is meant to be hidden may have weight nevertheless: see ``AttentionCall.weighed``.
    """
    return ~mask if mask.dtype == torch.bool else mask < HIDES


@dataclass(frozen=True)
class AttentionCall:
    """Queries, keys and values of a batch, after rotary positions and before keys are repeated for groups of heads.

    Attributes:
        query: (batch_size, n_heads, q_length, d_key).
        key: (batch_size, n_kv_heads, k_length, d_key), where n_heads is a multiple of n_kv_heads.
        value: (batch_size, n_kv_heads, k_length, d_value).
        scale: factor of the products q·k.
        causal: whether later keys are hidden from each query; the last query is aligned with the last key.
        mask: broadcasts to (batch_size, n_heads, q_length, k_length): bool, where False hides a key from a query, or
            numbers that are added to the scores; None: no mask.
        softcap: scores become softcap · tanh(score / softcap) (Gemma 2, arXiv 2408.00118, section 2); None: no cap.
        sinks: (n_heads,), scores that take part in the softmax and are then dropped, so that rows sum to less than 1
            (gpt-oss; Xiao et al. 2023, arXiv 2309.17453); None: no sinks.
        value_norms: (batch_size, n_heads, k_length), ‖v_j W_O‖ of each key. Maps multiply weights by these; None:
            they use the weights alone.
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
        """Shape of the weights, (batch_size, n_heads, q_length, k_length)."""
        batch_size, n_heads, q_length, _ = self.query.shape
        return batch_size, n_heads, q_length, self.key.shape[2]

    @property
    def device(self) -> torch.device:
        """Device of the queries."""
        return self.query.device

    @property
    def visible_everywhere(self) -> bool:
        """Whether there is neither a mask nor a causal rule, so that each query sees each key."""
        return self.mask is None and not self.causal

    @property
    def has_sink(self) -> bool:
        """Whether rows may sum to less than 1."""
        return self.sinks is not None

    @property
    def group(self) -> int:
        """Number of heads that share keys and values."""
        return self.query.shape[1] // self.key.shape[1]

    @property
    def rule(self) -> str:
        """Operations on q·k before the softmax, as the rest of an equation: "/ √64", or "· 0.1, capped at 50"."""
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
        """Compute S, the input of the softmax, for the queries from ``start`` to ``end``; −∞ where a key is hidden.

        Returns:
            (batch_size, n_heads, queries, k_length), float64 if the queries are, else float32.
        """
        Q = self._exact(self.query[:, :, start:end])
        S = _by_group(Q, self._exact(self.key).mT, self.scale)  # batch_size n_heads queries k_length
        cap_and_mask(S, self.softcap, self._mask_of(start, end))
        if self.causal:  # three times as fast as masked_fill_, and clears NaN of hidden keys too
            last = start + self.key.shape[2] - self.query.shape[2]  # key that the first query sees
            S.tril_(last).add_(S.new_full(S.shape[2:], -torch.inf).triu_(last + 1))
        return S

    def weights(self, start: int = 0, end: int | None = None) -> Tensor:
        """Compute A = softmax(S), in the shape of ``scores``. A query that sees no key has weights of 0."""
        return self.weigh(self.scores(start, end), in_place=True)

    def weigh(self, S: Tensor, in_place: bool = False) -> Tensor:
        """Compute the weights from scores S; ``in_place``: S may be overwritten."""
        sees_nothing = None if self.visible_everywhere else S.amax(dim=-1, keepdim=True) == -torch.inf
        if self.sinks is None:
            A = torch.softmax(S, dim=-1, out=S if in_place else None)
        else:
            sink = self.sinks.to(S.dtype).view(1, -1, 1, 1).expand(*S.shape[:3], 1)
            A = torch.softmax(torch.cat([S, sink], dim=-1), dim=-1)[..., :-1]
        if sees_nothing is not None and bool(sees_nothing.any()):
            A.masked_fill_(sees_nothing, 0.0)  # a softmax over −∞ alone is NaN
        return A

    def output(self) -> Tensor:
        """Compute H = A V, (batch_size, n_heads, q_length, d_value), a block of queries at a time."""
        blocks = range(0, self.query.shape[2], BLOCK)
        return torch.cat([self.mix(self.weights(i, i + BLOCK)) for i in blocks], dim=2).to(self.value.dtype)

    def mix(self, A: Tensor) -> Tensor:
        """Compute A V for the weights A of some queries, (batch_size, n_heads, queries, d_value)."""
        return _by_group(A, self._exact(self.value))

    def visible(self, start: int = 0, end: int | None = None) -> Tensor | None:
        """Return which keys the mask lets the queries from ``start`` to ``end`` see.

        Returns:
            bool, (batch_size, n_heads, queries, k_length), or 1 in place of each; None: each query sees each key.
        """
        mask = self._mask_of(start, end)
        visible = None if mask is None else ~hides(mask)
        if self.causal:
            earlier = self._earlier(start, end)
            visible = earlier if visible is None else visible & earlier
        return visible

    def weighed(self) -> Tensor | None:
        """Return which keys can have weight, unless scores outweigh the mask; None: all.

        They are the visible ones, but for queries from which added numbers hide all keys. A softmax does not change
        when a number is added to all scores, so that such a query weighs the keys with the highest of these numbers,
        unless there is a sink, which takes all. A query for which all numbers are −∞ weighs none.

        Returns:
            bool, (batch_size, n_heads, q_length, k_length), or 1 in place of each of the first three.
        """
        if self.mask is None or self.mask.dtype == torch.bool or self.has_sink:
            return self.visible()
        return ~hides(self._beside_highest())

    def weighing_hidden(self) -> Tensor | None:
        """Return which queries weigh keys that the mask is meant to hide from them: bool, (batch_size or 1, n_heads or
        1, q_length or 1); None: none does.
        """
        return None if self.has_sink else self._despite_numbers[0]

    @property
    def weighs_hidden(self) -> bool:
        """Whether any query does; see ``weighing_hidden``."""
        weighing = self.weighing_hidden()
        return weighing is not None and bool(weighing.any())

    @property
    def may_outweigh(self) -> bool:
        """Whether scores may outweigh numbers by which the mask is meant to hide keys from a query that sees others."""
        return self._despite_numbers[1]

    @cached_property
    def _hides_by_numbers(self) -> bool:
        """Whether added numbers are meant to hide keys."""
        return self.mask is not None and self.mask.dtype != torch.bool and bool(hides(self.mask).any())

    @cached_property
    def _despite_numbers(self) -> tuple[Tensor | None, bool]:
        """What the numbers of a mask, which is looked through once for both, may fail to hide; see ``weighing_hidden``,
        which is as if there were no sink, and ``may_outweigh``."""
        if self.mask is None or not self._hides_by_numbers:
            return None, False
        hidden, beside = hides(self.mask), self._beside_highest()
        weighing = (hidden & ~hides(beside)).any(dim=-1)
        sees = ~hidden.all(dim=-1, keepdim=True)
        return weighing, bool((hidden & sees & (beside >= self._outweighed_to)).any())

    def _beside_highest(self) -> Tensor:
        """Return the added numbers less the highest that a query is given: −∞ for later keys, and if all are −∞."""
        assert self.mask is not None
        added = self.mask.masked_fill(~self._earlier(), -torch.inf) if self.causal else self.mask
        highest = added.amax(dim=-1, keepdim=True)
        return added - highest.masked_fill(highest.isneginf(), 0.0)

    def _earlier(self, start: int = 0, end: int | None = None) -> Tensor:
        """Return which keys are not later than each of these queries: bool, (1, 1, queries, k_length)."""
        _, _, q_length, k_length = self.shape
        queries = len(range(q_length)[start:end])
        earlier = torch.ones(1, 1, queries, k_length, dtype=torch.bool, device=self.device)
        return earlier.tril_(k_length - q_length + start)

    def select(self, heads: Sequence[int]) -> "AttentionCall":
        """Return the call of these heads alone."""
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
        """Return the call of these positions alone. The softmax is over the keys that remain, so rows sum to 1 again.

        In a causal call both sides must lose the same positions.
        """
        return self._at(list(queries), list(keys))

    def rows(self, start: int, end: int) -> "AttentionCall":
        """Return the call of the queries from ``start`` to ``end``, without the later keys if it is causal: it has the
        same weights, and none of the keys that these queries cannot see for being later."""
        _, _, q_length, k_length = self.shape
        return self._at(slice(start, end), slice(end + k_length - q_length if self.causal else k_length))

    def _at(self, rows: list[int] | slice, columns: list[int] | slice) -> "AttentionCall":
        mask = self.mask
        if mask is not None:
            mask = mask[:, :, rows] if mask.shape[2] > 1 else mask
            mask = mask[..., columns] if mask.shape[3] > 1 else mask
        query, key, value = self.query[:, :, rows], self.key[:, :, columns], self.value[:, :, columns]
        norms = None if self.value_norms is None else self.value_norms[..., columns]
        return replace(self, query=query, key=key, value=value, mask=mask, value_norms=norms)

    def with_plain_mask(self, causal: bool) -> "tuple[AttentionCall, int | None]":
        """Return a call with the same weights and the simplest mask, and its window.

        Added numbers that only hide keys become a bool mask. A bool mask that hides nothing, or later keys alone, is
        dropped. The window is the largest distance at which a query sees a key, if a bool mask is a band along the
        diagonal; None: the mask is no band, or hides no key by distance.

        Args:
            causal: whether the call may be one that hides later keys, which its mask then must do, whatever the scores.
        """
        (_, _, q_length, k_length), equal = self.shape, self._with_bool_mask()
        mask, causal = equal.mask, self.causal or (causal and equal._sees_no_later())
        plain = replace(self, mask=None, causal=causal)
        if mask is None:
            return plain, None
        if mask.dtype != torch.bool:
            return replace(plain, mask=mask), None
        if mask.shape[:2] == (1, 1) and mask.shape[2] == q_length == k_length:
            seen = mask[0, 0]
            window = k_length - 1 - int(seen[-1].to(torch.uint8).argmax())
            band = seen.new_ones(q_length, k_length).triu_(-window).tril_(0 if causal else window)
            if torch.equal(seen, band):
                return (plain, None) if window == k_length - 1 else (replace(plain, mask=mask), window)
        return (plain if bool(mask.all()) else replace(plain, mask=mask)), None

    def _with_bool_mask(self) -> "AttentionCall":
        """Return the call with −∞ in place of added numbers that hide keys, or with a bool mask if the rest are 0.

        Numbers that large scores could outweigh are left. So are those of a query that weighs keys which none of them
        lets it see, as its weights depend on how the sums were rounded.
        """
        mask = self.mask
        if mask is None or not self._hides_by_numbers:
            return self
        of_mask = replace(self, causal=False)
        beside = of_mask._beside_highest()
        if self.causal and not torch.equal(~hides(self._beside_highest()), ~hides(beside) & self._earlier()):
            return self
        kept = beside >= self._outweighed_to
        only_hides = torch.equal(mask == 0, kept)
        return replace(self, mask=kept if only_hides else mask.masked_fill(~kept, -torch.inf))

    @property
    def _outweighed_to(self) -> float:
        """How far below the highest added number of a query a key may be and still have weight."""
        return min(HIDES, _UNDERFLOWS - 2 * abs(self.scale) * self.largest_product)

    def _sees_no_later(self) -> bool:
        """Return whether the mask hides later keys by False or −∞; the last query is aligned with the last key."""
        if self.mask is None:
            return self.shape[2] == 1
        seen = self.mask if self.mask.dtype == torch.bool else self.mask > -torch.inf
        return not bool((seen & ~self._earlier()).any())

    @cached_property
    def largest_product(self) -> float:
        """An upper bound of |q·k|, the product of the largest norms; NaN or infinity if there is none."""
        if not self.query.numel() or not self.key.numel():
            return 0.0
        query, key = (self._exact(x).norm(dim=-1).amax() for x in (self.query, self.key))
        return float(query) * float(key)

    def _exact(self, x: Tensor) -> Tensor:
        return x.to(torch.promote_types(self.query.dtype, torch.float32))

    def _mask_of(self, start: int, end: int | None) -> Tensor | None:
        if self.mask is None or self.mask.shape[2] == 1:
            return self.mask
        return self.mask[:, :, start:end]


@dataclass(frozen=True)
class AttentionWeights:
    """Weights of an attention whose queries and keys are not known, used in place of an ``AttentionCall``.

    Attributes:
        given: (batch_size, n_heads, q_length, k_length), in any precision.
        has_sink: whether rows may sum to less than 1, because the rest goes to a sink.
        value_norms: as in ``AttentionCall``.
        seen: bool, in the shape of ``given``: False where a mask or a very low score hides a key; None: not known.
    """

    given: Tensor
    has_sink: bool = False
    value_norms: Tensor | None = None
    seen: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """As in ``AttentionCall``."""
        batch_size, n_heads, q_length, k_length = self.given.shape
        return batch_size, n_heads, q_length, k_length

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.given.device

    def weights(self, start: int = 0, end: int | None = None) -> Tensor:
        """Return the weights of the queries from ``start`` to ``end``, float64 if given so, else float32.

        They may share memory with ``given``, so they must not be changed in place.
        """
        given = self.given[:, :, start:end]
        return given if given.dtype == torch.float64 else given.float()

    def visible(self, start: int = 0, end: int | None = None) -> Tensor:
        """Return ``seen`` of the queries from ``start`` to ``end``, or where it is not known which of their weights are
        above 0: bool, (batch_size, n_heads, queries, k_length)."""
        if self.seen is None:
            return replace(self, given=self.given[:, :, start:end]).weighed()
        return self.seen[:, :, start:end]

    def weighed(self) -> Tensor:
        """As in ``AttentionCall``: which weights are above 0, and not NaN."""
        return self.given > 0

    def weighing_hidden(self) -> Tensor | None:
        """As in ``AttentionCall``; None: none does, or it is not known."""
        return None if self.seen is None else (self.weighed() & ~self.seen).any(dim=-1)

    def select(self, heads: Sequence[int]) -> "AttentionWeights":
        """As in ``AttentionCall``."""
        chosen = list(heads)
        norms = None if self.value_norms is None else self.value_norms[:, chosen]
        return replace(self.arranged(lambda x: x[:, chosen]), value_norms=norms)

    def part(self, queries: Sequence[int], keys: Sequence[int]) -> "AttentionWeights":
        """As in ``AttentionCall``: each row is divided by the weight of the keys that remain, and of a sink if any."""
        A = self.weights()[:, :, list(queries)]
        kept = A[..., list(keys)]
        whole = kept.sum(dim=-1, keepdim=True)
        if self.has_sink:
            whole = whole + (1 - A.sum(dim=-1, keepdim=True)).clamp(min=0)
        norms = None if self.value_norms is None else self.value_norms[..., list(keys)]
        cut = self.arranged(lambda x: x[:, :, list(queries)][..., list(keys)])
        return replace(cut, given=kept / whole.clamp(min=torch.finfo(A.dtype).tiny), value_norms=norms)

    def rows(self, start: int, end: int) -> "AttentionWeights":
        """As in ``AttentionCall``, with all keys: which of them are later is not known."""
        return self.arranged(lambda x: x[:, :, start:end])

    def arranged(self, arrange: Callable[[Tensor], Tensor]) -> "AttentionWeights":
        """Return the weights, and which keys are seen, as ``arrange`` cuts or orders them; not the norms."""
        return replace(self, given=arrange(self.given), seen=None if self.seen is None else arrange(self.seen))


def times_norms(A: Tensor, norms: Tensor | None) -> Tensor:
    """Multiply weights A, (batch_size, n_heads, queries, k_length), in place by the norms of their keys' values,
    (batch_size, n_heads, k_length); None: leave them as they are."""
    return A if norms is None else A.mul_(norms[:, :, None].to(A.dtype))


def cap_and_mask(S: Tensor, softcap: float | None, mask: Tensor | None, hidden: float = -math.inf) -> Tensor:
    """Cap scores S, then mask them, both in place.

    Args:
        S: scale · Q Kᵀ, (…, queries, keys).
        softcap: see ``AttentionCall``.
        mask: broadcasts to S; see ``AttentionCall``.
        hidden: score of a hidden key. If it is finite, other scores are at least a quarter of it, so that a query from
            which finite numbers hide all keys is told apart from a query that sees none.
    """
    if softcap is not None:
        S.div_(softcap).tanh_().mul_(softcap)
    if mask is not None and mask.dtype == torch.bool:
        S.masked_fill_(~mask, hidden)
    elif mask is not None:
        S.add_(mask.to(S.dtype))
        if hidden > -math.inf:
            is_hidden = S.isneginf()
            S.clamp_(min=hidden / 4).masked_fill_(is_hidden, hidden)
    return S


def entropy(A: Tensor, dim: int | tuple[int, ...] = -1) -> Tensor:
    """Compute −Σ a ln a of weights A, (…, queries, keys), in nats, over these axes.

    This is several times as fast as torch.special.entr, which compares each weight with 0.
    """
    logarithms = A.clamp(min=torch.finfo(A.dtype).tiny).log_()  # 0 ln 0 is 0
    return logarithms.mul_(A).sum(dim=dim).neg_()


def _by_group(A: Tensor, B: Tensor, factor: float = 1.0) -> Tensor:
    """Compute factor · A @ B, (batch_size, n_heads, rows, columns). Groups of heads of A share a matrix of B."""
    rows_of_group = A.reshape(B.shape[0] * B.shape[1], -1, A.shape[3])
    products = torch.baddbmm(A.new_empty(()), rows_of_group, B.flatten(0, 1), beta=0, alpha=factor)
    return products.view(*A.shape[:3], B.shape[3])

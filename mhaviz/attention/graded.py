"""Attention × gradient of an attention that has run, from its queries, keys, values and one gradient.

The output of a head is out_i = Σ_j A_ij v_j. So the gradient of a scalar y at a weight is ∂y/∂A_ij = g_i · v_j, where
g_i = ∂y/∂out_i, and A ⊙ ∂y/∂A is computed a block of queries at a time, whatever kernel the model has run.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.errors import MhavizError

_CELLS = 2**22
"""Most weights of a block of queries, for all heads: 16 MiB in float32."""

_DEVIATION = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.02}
"""Largest deviation of Σ_j A_ij ∂y/∂A_ij from g_i · out_i, as a share of |g_i| |out_i|, by the type of the output."""


@dataclass(frozen=True, eq=False)
class GradedAttention:
    """An attention that has run on one example, with the gradient g of y at its output.

    Attributes:
        name: name in messages: "layer 3".
        call: its inputs, or its weights: a batch of one example.
        value: (1, n_heads or n_kv_heads, k_length, d_value).
        gradient: g, (1, n_heads, q_length, d_value).
        output: (1, n_heads, q_length, d_value) as the model has computed it; None: it has since changed it in place.
    """

    name: str
    call: AttentionCall | AttentionWeights
    value: Tensor
    gradient: Tensor
    output: Tensor | None = None

    @property
    def read(self) -> Tensor:
        """Which queries y depends on: bool, (q_length,)."""
        return read_queries(self.gradient)

    def blocks(self, queries: Tensor | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Yield blocks of queries, and A ⊙ ∂y/∂A of each, (n_heads, queries, keys), up to the last key that is seen.

        Args:
            queries: bool, (q_length,); blocks without any of these are left out. None: all.
        """
        _, n_heads, q_length, k_length = self.call.shape
        at_once = max(1, _CELLS // (n_heads * k_length))
        wanted = torch.ones(q_length, dtype=torch.bool) if queries is None else queries.cpu()
        start = 0
        while start < q_length:
            if not wanted[start]:
                start += 1
                continue
            end = min(start + at_once, q_length)
            end = start + int(wanted[start:end].nonzero()[-1]) + 1
            yield slice(start, end), self._products(start, end)
            start = end

    def _products(self, start: int, end: int) -> Tensor:
        """Compute A ⊙ (g Vᵀ) of the queries from ``start`` to ``end``."""
        A = self.call.rows(start, end).weights()
        g, V = (_exact(x, A.dtype) for x in (self.gradient[:, :, start:end], self.value[:, :, : A.shape[3]]))
        grouped = g.reshape(g.shape[0], V.shape[1], -1, g.shape[3])  # heads of a group share their values
        return (grouped @ V.mT).view(A.shape).mul_(A)[0]

    def require_sound(self, start: int, products: Tensor) -> None:
        """Raise MhavizError unless Σ_j A_ij ∂y/∂A_ij = g_i · out_i for a block of queries, as the weights give the
        output; where they do not, dropout or an unseen operation has come between them."""
        rows, sums = slice(start, start + products.shape[1]), products.sum(dim=-1)
        if not bool(sums.isfinite().all()):
            raise MhavizError(f"{self.name}: expected finite gradients, got NaN or infinity; choose another y")
        if self.output is None:
            return
        g, out = (_exact(x[0, :, rows], products.dtype) for x in (self.gradient, self.output))
        difference = (sums - (g * out).sum(dim=-1)).abs()
        size = (g.norm(dim=-1) * out.norm(dim=-1)).amax()
        if bool(difference.amax() > _DEVIATION[self.output.dtype] * size):
            raise MhavizError(
                f"{self.name}: its weights do not give its output, as with dropout; call eval() on the model"
            )

    def head_sums(self) -> Tensor:
        """Compute Σ_ij A_ij ∂y/∂A_ij = ∂y/∂ξ of each head, (n_heads,), where ξ = 1 is a factor of its output."""
        sums = torch.zeros(self.call.shape[1], dtype=torch.promote_types(self.gradient.dtype, torch.float32))
        for rows, products in self.blocks(self.read):
            self.require_sound(rows.start, products)
            sums += products.sum(dim=(1, 2)).to(sums)
        return sums

    def row_times(self, r: Tensor) -> Tensor:
        """Compute r Ā for row vectors r, (n_rows, q_length), as (n_rows, k_length); equation 5."""
        made = r.new_zeros(len(r), self.call.shape[3])
        for rows, products in self.blocks((r != 0).any(dim=0).cpu() & self.read.cpu()):
            self.require_sound(rows.start, products)
            made[:, : products.shape[2]] += r[:, rows] @ _positive_mean(products).to(r)  # layers may lie elsewhere
        return made

    def times_columns(self, c: Tensor) -> Tensor:
        """Compute Ā c for column vectors c, (k_length, n_columns), as (q_length, n_columns)."""
        made = c.new_zeros(self.call.shape[2], c.shape[1])
        for rows, products in self.blocks(self.read):
            made[rows] = _positive_mean(products).to(c) @ c[: products.shape[2]]
        return made


def read_queries(gradient: Tensor) -> Tensor:
    """Return which queries have a gradient in some example and head: bool, (q_length,).

    ``gradient``: (batch_size, n_heads, q_length, d_value).
    """
    return (gradient != 0).any(dim=-1).flatten(0, 1).any(dim=0)


def _positive_mean(products: Tensor) -> Tensor:
    """Ā = E_h (A ⊙ ∂y/∂A)⁺, (queries, keys); equation 5."""
    return products.clamp(min=0).mean(dim=0)


def _exact(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(torch.promote_types(x.dtype, dtype))

"""Multi-head attention. Vaswani et al. 2017, "Attention Is All You Need", section 3.2."""

import math
import operator
from bisect import bisect
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mhaviz.errors import ArgumentError, parameter
from mhaviz.layer.steps import Step, untraced


def causal_mask(length: int, device: torch.device | str | None = None) -> Tensor:
    """Return the causal mask, (1, 1, q_length, k_length): a query sees its own position and those before.

    Vaswani et al. 2017, section 3.2.3.
    """
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=device).tril()


def padding_mask(lengths: Sequence[int], device: torch.device | str | None = None) -> Tensor:
    """Return the mask of a padded batch, (batch_size, 1, 1, k_length), whose sentence b has ``lengths[b]`` tokens."""
    positions = torch.arange(max(lengths), device=device)
    return (positions < torch.tensor(lengths, device=device)[:, None])[:, None, None, :]


class MultiHeadAttention(nn.Module):
    """Multi-head attention: n_heads attention functions in parallel, each on d_key = d_model / n_heads features.
    Section 3.2.2.

    The four projections are initialised Xavier-uniform with biases of zero, so that inputs of unit variance give
    queries and keys of unit variance.

    Args:
        d_model: number of features of the input and of the output.
        n_heads: number of heads; it must divide d_model.
        dropout: share of the weights that is dropped in training. The weights are returned as they are before dropout.

    Raises:
        ArgumentError: a size is below 1, or n_heads does not divide d_model.

    Examples:
        >>> x = torch.randn(3, 6, 8)  # (batch_size, seq_length, d_model)
        >>> output, attn_probs = mhaviz.MultiHeadAttention(d_model=8, n_heads=4)(x, x, x)
        >>> output.shape, attn_probs.shape  # attn_probs is (batch_size, n_heads, q_length, k_length)
        (torch.Size([3, 6, 8]), torch.Size([3, 4, 6, 6]))
    """

    def __init__(self, d_model: int = 512, n_heads: int = 8, dropout: float = 0.1) -> None:
        super().__init__()
        check_heads(d_model, n_heads)
        self.d_model, self.n_heads, self.d_key = d_model, n_heads, d_model // n_heads
        self.Wq, self.Wk, self.Wv, self.Wo = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)
        for projection in (self.Wq, self.Wk, self.Wv, self.Wo):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, step: Step = untraced
    ) -> tuple[Tensor, Tensor]:
        """Attend from each query to all keys that the mask leaves visible.

        Args:
            query: (batch_size, q_length, d_model).
            key: (batch_size, k_length, d_model).
            value: (batch_size, k_length, d_model).
            mask: 0 or False hides a key from a query; broadcasts to (batch_size, n_heads, q_length, k_length).
            step: called with each tensor that is computed on the way; see ``mhaviz.layer.steps``.

        Returns:
            The output, (batch_size, q_length, d_model), and the weights, (batch_size, n_heads, q_length, k_length). A
                query that sees no key at all has weights of zero, and Wo's bias as its output.

        Raises:
            ArgumentError: an axis does not fit; the message names it.
        """
        self._check_inputs(query, key, value, mask)

        Q, K, V = self.project(query, key, value, step)

        # Dividing Q divides every score, and Q has far fewer numbers than the scores.
        Q = Q / math.sqrt(self.d_key)
        S = step("S = Q Kᵀ / √d_key", Q @ K.mT, "batch_size n_heads q_length k_length")
        A = weigh(S, mask, step, overwrite=_unseen(S, step))
        H = step("H = dropout(A) V", self.dropout(A) @ V, "batch_size n_heads q_length d_key")

        H = step("H swapped = swap n_heads, q_length", H.transpose(1, 2), "batch_size q_length n_heads d_key")
        H = step("concat = join n_heads × d_key", H.flatten(2), "batch_size q_length d_model")
        O = step("O = concat Wo", self.Wo(H), "batch_size q_length d_model")
        return O, A

    def project(
        self, query: Tensor, key: Tensor, value: Tensor, step: Step = untraced
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the queries, keys and values of all heads, each (batch_size, n_heads, length, d_key)."""
        Q = step("Q = X Wq", self.Wq(query), "batch_size q_length d_model")
        K = step("K = X Wk", self.Wk(key), "batch_size k_length d_model")
        V = step("V = X Wv", self.Wv(value), "batch_size k_length d_model")

        Q = step("Q split = Q as n_heads × d_key", self._split(Q), "batch_size q_length n_heads d_key")
        K = step("K split = K as n_heads × d_key", self._split(K), "batch_size k_length n_heads d_key")
        V = step("V split = V as n_heads × d_key", self._split(V), "batch_size k_length n_heads d_key")

        Q = step("Q heads = swap q_length, n_heads", Q.transpose(1, 2), "batch_size n_heads q_length d_key")
        K = step("K heads = swap k_length, n_heads", K.transpose(1, 2), "batch_size n_heads k_length d_key")
        V = step("V heads = swap k_length, n_heads", V.transpose(1, 2), "batch_size n_heads k_length d_key")
        return Q, K, V

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.n_heads, self.d_key)  # batch_size length n_heads d_key

    def _check_inputs(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
        inputs = (("query", query, self.Wq), ("key", key, self.Wk), ("value", value, self.Wv))
        for name, x, projection in inputs:
            if x.ndim != 3:
                raise ArgumentError(
                    f"{name}: expected 3 axes, (batch_size, length, d_model), got {x.ndim}: {tuple(x.shape)}"
                )
            if x.shape[2] != projection.in_features:
                raise ArgumentError(f"{name}: expected axis d_model to be {projection.in_features}, got {x.shape[2]}")
            if x.shape[0] != query.shape[0]:
                raise ArgumentError(f"{name}: expected axis batch_size to be {query.shape[0]}, got {x.shape[0]}")
        if value.shape[1] != key.shape[1]:
            raise ArgumentError(f"value: expected axis k_length to be {key.shape[1]}, as in key, got {value.shape[1]}")
        if mask is not None:
            _check_mask(mask, (query.shape[0], self.n_heads, query.shape[1], key.shape[1]))


def weigh(S: Tensor, mask: Tensor | None = None, step: Step = untraced, overwrite: bool = False) -> Tensor:
    """Compute the weights A = softmax(S) over the keys that the mask leaves visible.

    Args:
        S: scores, (batch_size, n_heads, q_length, k_length).
        mask: see ``MultiHeadAttention.forward``.
        step: see ``MultiHeadAttention.forward``.
        overwrite: write the weights into S. No other tensor is as large.

    Returns:
        The weights, in the shape of S. Each row sums to 1, or to 0 where all keys are hidden.
    """
    axes = "batch_size n_heads q_length k_length"
    if mask is None:
        return step("A = softmax(S)", torch.softmax(S, dim=-1, out=S if overwrite else None), axes)

    hidden = mask == 0
    # A softmax over nothing but −∞ is NaN, and so is its gradient. Such a row is left as it is, and set to 0 later.
    blind = hidden.all(dim=-1, keepdim=True)
    fill = Tensor.masked_fill_ if overwrite else Tensor.masked_fill
    S = step("S masked = −∞ where hidden, else S", fill(S, hidden & ~blind, -torch.inf), axes)
    A = torch.softmax(S, dim=-1, out=S if overwrite else None)
    return step("A = softmax(S masked)", fill(A, blind, 0.0), axes)


def _unseen(S: Tensor, step: Step) -> bool:
    """Return whether the scores are not needed again: by no gradient, no trace, and no transform such as vmap or
    compile."""
    untouched = step is untraced and not torch.is_grad_enabled()
    return untouched and S.device.type in ("cpu", "cuda") and _runs_as_it_is(S)


def _runs_as_it_is(tensor: Tensor) -> bool:
    """Return whether a tensor holds numbers, and does not stand for others as in vmap or compile."""
    if type(tensor) is not Tensor or torch.compiler.is_compiling():
        return False
    return not torch._C._are_functorch_transforms_active()


def check_heads(d_model: int, n_heads: int) -> None:
    """Raise ArgumentError unless n_heads divides d_model, and both are at least 1.

    The message suggests the nearest numbers of heads that divide d_model.
    """
    for name, size in (("d_model", d_model), ("n_heads", n_heads)):
        try:
            operator.index(size)
        except TypeError:
            raise ArgumentError(f"{parameter(name)}: expected a whole number, got {size!r}") from None
        if size < 1:
            raise ArgumentError(f"{parameter(name)}: expected at least 1, got {size}")
    if d_model % n_heads:
        divisors = [n for n in range(1, min(d_model, 4096) + 1) if d_model % n == 0]
        above = bisect(divisors, n_heads)
        near = divisors[above - 1 : above + 1]
        raise ArgumentError(
            f"expected heads that divide d_model evenly, got d_model {d_model} and {n_heads} heads; "
            f"try {' or '.join(map(str, near))} heads"
        )


def check_mask_axes(mask: Tensor, shape: tuple[int, int, int, int]) -> None:
    """Raise ArgumentError unless the mask broadcasts to (batch_size, n_heads, q_length, k_length)."""
    names = ("batch_size", "n_heads", "q_length", "k_length")
    if mask.ndim > 4:
        raise ArgumentError(f"mask: expected at most 4 axes, ({', '.join(names)}), got {mask.ndim}")
    for name, expected, got in zip(reversed(names), reversed(shape), reversed(mask.shape), strict=False):
        if got not in (1, expected):
            raise ArgumentError(f"mask: expected axis {name} to be {expected} or 1, got {got}")


def _check_mask(mask: Tensor, shape: tuple[int, int, int, int]) -> None:
    check_mask_axes(mask, shape)
    if _looks_additive(mask):
        raise ArgumentError(
            "mask: expected 0 (hide) and 1 (show), got negative or NaN; if it is one that is added to the scores, "
            "pass mask == 0"
        )


def _looks_additive(mask: Tensor) -> bool:
    """Return whether the mask holds 0 and −∞ to be added to the scores, which would be read the wrong way round.

    This is only checked on the CPU, where it costs little.
    """
    if not mask.is_floating_point() or mask.device.type != "cpu" or not _runs_as_it_is(mask):
        return False
    return bool((mask < 0).any() or mask.isnan().any())

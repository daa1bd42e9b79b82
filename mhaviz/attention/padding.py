"""Which positions of a batch are padding, as the mask of an attention tells for each example."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall, AttentionWeights

HIDES = -5_000.0
"""Scores below this are of hidden keys: masks add −10,000, as in BERT's own code, −1e9, the least number of a type, or
−∞."""


@dataclass(frozen=True)
class Padding:
    """The padding of a batch.

    Attributes:
        queries: bool, (batch_size, q_length): False for padding.
        keys: bool, (batch_size, k_length): False for those that no query sees, such as padding.
        sees: bool, (batch_size, q_length): whether a query sees a key at all; one that sees none has no weights.
    """

    queries: Tensor
    keys: Tensor
    sees: Tensor

    def of_examples(self, places: Sequence[int]) -> "Padding":
        """That of some of the batch."""
        chosen = list(places)
        return Padding(self.queries[chosen], self.keys[chosen], self.sees[chosen])

    def is_same(self, other: "Padding | None") -> bool:
        """Whether these are the same positions."""
        if other is None or other.queries.shape != self.queries.shape or other.keys.shape != self.keys.shape:
            return False
        return all(torch.equal(getattr(self, name), getattr(other, name)) for name in ("queries", "keys", "sees"))


def padding_of(
    call: AttentionCall | AttentionWeights, reads_itself: bool, visible: Tensor | None = None
) -> Padding | None:
    """The padding of a batch; None: there is none, or no mask tells it.

    A key that no query of any head sees is left out. Where queries and keys are of the same positions, it is padding,
    and so is its query; of others it may as well come later, or be a place of a cache that is not filled.

    Of a mask that hides a query's own key, which others see, nothing is known: its last key may be seen by none. Nor is
    it of one that leaves a query more than one run of keys that are not padding, as the largest scores alone do: a key
    may be none of these by chance.

    Args:
        call: what ran.
        reads_itself: whether queries and keys are of the same positions.
        visible: of weights, bool, (batch_size, n_heads, q_length, k_length): False hides; None: not known.
    """
    batch_size, _, q_length, k_length = call.shape
    visible = _visible(call) if isinstance(call, AttentionCall) else visible
    if visible is None or bool(visible.all()):
        return None
    if not reads_itself:  # such a query is no padding, and what is added to all its scores hides none of its keys
        visible = visible | _weighed_all_the_same(call, visible)
    seen = visible[..., :k_length].any(dim=1).expand(batch_size, q_length, k_length)
    sees, keys = seen.any(dim=2), seen.any(dim=1)
    queries = torch.ones_like(sees)
    if reads_itself:
        hides_its_own = (keys & ~seen.diagonal(dim1=1, dim2=2)).any(dim=1, keepdim=True)
        keys = keys | hides_its_own
        queries = keys
    if bool(keys.all() and sees.all()) or not _are_runs(seen & queries[..., None], keys):
        return None
    return Padding(queries, keys, sees)


def _are_runs(seen: Tensor, keys: Tensor) -> bool:
    """Whether each query sees keys that stand one behind the other, without padding; (batch_size, q_length, k_length)
    and (batch_size, k_length)."""
    places = keys.int().argsort(dim=1, descending=True, stable=True)  # padding last
    seen = seen.gather(2, places[:, None].expand_as(seen)).int()
    begins = seen.diff(dim=2, prepend=seen.new_zeros(1).expand(*seen.shape[:2], 1)) > 0
    return not bool((begins.sum(dim=2) > 1).any())


def _weighed_all_the_same(call: AttentionCall | AttentionWeights, visible: Tensor) -> Tensor:
    """bool, broadcasts to the weights: keys that have weight, of queries from which a bias hides all."""
    if isinstance(call, AttentionWeights):
        return call.given > 0
    added = visible if call.mask is None or call.mask.dtype == torch.bool else call.mask > -torch.inf
    return added & ~visible.any(dim=-1, keepdim=True)


def _visible(call: AttentionCall) -> Tensor | None:
    """bool, (batch_size or 1, n_heads or 1, q_length or 1, k_length); None: a query sees all keys, or all earlier."""
    mask = call.mask
    if mask is None:
        return None
    visible = mask if mask.dtype == torch.bool else ~(mask < HIDES)
    if call.causal:
        _, _, q_length, k_length = call.shape
        visible = visible & torch.ones_like(visible[:1, :1]).expand(1, 1, q_length, k_length).tril(k_length - q_length)
    return visible

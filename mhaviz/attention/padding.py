"""Padding of a batch, inferred from the mask of an attention."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall, AttentionWeights


@dataclass(frozen=True)
class Padding:
    """The padding of a batch.

    Attributes:
        queries: bool, (batch_size, q_length), False for padding.
        keys: bool, (batch_size, k_length), False for padding and other keys that no query sees.
        sees: bool, (batch_size, q_length), whether each query weighs any key.
    """

    queries: Tensor
    keys: Tensor
    sees: Tensor

    def of_examples(self, places: Sequence[int]) -> "Padding":
        """Return the padding of some examples of the batch."""
        chosen = list(places)
        return Padding(self.queries[chosen], self.keys[chosen], self.sees[chosen])

    def is_same(self, other: "Padding | None") -> bool:
        """Return whether both have the same positions."""
        if other is None or other.queries.shape != self.queries.shape or other.keys.shape != self.keys.shape:
            return False
        return all(torch.equal(getattr(self, name), getattr(other, name)) for name in ("queries", "keys", "sees"))


def padding_of(call: AttentionCall | AttentionWeights, reads_itself: bool) -> Padding | None:
    """Infer the padding of a batch; None: there is none, or no mask shows it.

    A key that no query of any head sees is left out. In self-attention it is padding, and so is its query. Otherwise it
    may also be a later key, or an unused place of a cache.

    Two kinds of mask show no padding. A mask that hides a query's own key, which other queries see, may hide its last
    key from all queries. A mask that leaves a query several runs of keys, such as one that keeps only the largest
    scores, may hide a key from all queries by chance.

    Args:
        call: call of the attention, or its weights.
        reads_itself: whether queries and keys are of the same positions.
    """
    batch_size, _, q_length, k_length = call.shape
    visible = call.seen if isinstance(call, AttentionWeights) else None
    if isinstance(call, AttentionCall) and call.mask is not None:
        visible = call.visible() if not call.may_outweigh else call.mask > -torch.inf
    if visible is None or bool(visible.all()):
        return None

    def of_examples(seen: Tensor) -> Tensor:
        return seen.any(dim=1).expand(batch_size, q_length, k_length)

    seen = weighing = of_examples(visible)
    if isinstance(call, AttentionWeights) or (call.mask is not None and call.mask.dtype != torch.bool):
        # A query from which numbers hide all keys sees none of its text, but may be no padding, and weighs some.
        weighed = call.weighed() if isinstance(call, AttentionWeights) or call.weighs_hidden else None
        weighing = seen if weighed is None else seen | of_examples(weighed)
        seen = seen if reads_itself else weighing
    sees, keys = weighing.any(dim=2), seen.any(dim=1)
    keys = keys.where(keys.any(dim=1, keepdim=True), weighing.any(dim=1))  # not all of an example is padding
    queries = torch.ones_like(sees)
    if reads_itself:
        hides_its_own = (keys & ~seen.diagonal(dim1=1, dim2=2)).any(dim=1, keepdim=True)
        keys = keys | hides_its_own
        queries = keys
    if bool(keys.all() and sees.all()) or not _are_runs(seen & queries[..., None], keys):
        return None
    return Padding(queries, keys, sees)


def _are_runs(seen: Tensor, keys: Tensor) -> bool:
    """Return whether each query sees one run of the keys that are not padding.

    ``seen``: (batch_size, q_length, k_length); ``keys``: (batch_size, k_length).
    """
    places = keys.int().argsort(dim=1, descending=True, stable=True)  # padding last
    seen = seen.gather(2, places[:, None].expand_as(seen)).int()
    begins = seen.diff(dim=2, prepend=seen.new_zeros(1).expand(*seen.shape[:2], 1)) > 0
    return not bool((begins.sum(dim=2) > 1).any())

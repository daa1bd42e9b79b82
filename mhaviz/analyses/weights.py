"""All weights of every attention of a model, for each sentence."""

from collections.abc import Sequence

import torch

from mhaviz.attention.model import Inputs, Model, SiteCall, heads_of
from mhaviz.devices import require_memory
from mhaviz.records import Attention, AttentionMap

_FLOAT32 = 4  # bytes


def attention_weights(
    model: Model, inputs: Inputs, heads: Sequence[int] | None = None, hide_special: bool = False
) -> Attention:
    """A = softmax(S) of every attention that is looked at, for each sentence.

    Args:
        model: of any kind.
        inputs: what it reads.
        heads: these alone, or those of them that an attention has; None: all.
        hide_special: leave out tokens that are not of the text; weights are then shares of the other keys.

    Raises:
        ArgumentError: nothing but special tokens.
        MhavizError: the weights do not fit into memory; NaN or infinity in what the model computes with.
    """
    require_weights_fit(model, inputs, heads)
    maps: list[AttentionMap] = []

    def on_attention(seen: SiteCall) -> None:
        shown = seen.without_special() if hide_special else seen
        maps.append(shown.map(shown.call.weights()[0].float().cpu().numpy()))

    model.run(inputs, on_attention, heads)
    return Attention(model.describe(inputs, hide_special), tuple(maps))


def require_weights_fit(model: Model, inputs: Inputs, heads: Sequence[int] | None = None, copies: int = 1) -> None:
    """Raise MhavizError unless all weights of all sentences fit into memory, with what they are made of.

    ``copies``: how often a study keeps them.
    """
    kept, largest = 0, 0  # largest: the scores that are being computed
    for text in inputs.texts:
        for site in model.sites(inputs):
            queries, keys = text.sides(site.kind)
            weights = len(heads_of(site, heads)) * len(queries) * len(keys)
            kept, largest = kept + copies * weights, max(largest, weights)
    require_memory(_FLOAT32 * (kept + largest), torch.device("cpu"), "the map of all weights")

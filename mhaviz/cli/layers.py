"""Which layer is looked at: one with random weights, or one of a model that has learnt something."""

from typing import TYPE_CHECKING

import typer

from mhaviz.cli import options
from mhaviz.errors import ArgumentError

if TYPE_CHECKING:
    from mhaviz.sources.attention_source import AttentionSource


def choose_layer(
    context: typer.Context,
    checkpoint: str | None,
    kind: options.AttentionKind | None,
    d_model: int,
    heads: int,
    seed: int,
    device: str,
    mask: options.Mask,
) -> "AttentionSource":
    """The layer that the options ask for.

    Raises:
        ArgumentError: sizes that cannot be, options that a checkpoint has settled, a kind without a checkpoint.
        MhavizError: a checkpoint that cannot be read, a device that is not there.
    """
    if checkpoint is None:
        if kind is not None:
            raise ArgumentError("--kind chooses among the attentions of a trained model; add --checkpoint")
        from mhaviz.sources.random_layer import RandomLayer

        return RandomLayer(d_model, heads, seed, device, mask is options.Mask.causal)

    settled = options.given(context, ("d_model", "heads", "seed", "mask"))
    if settled:
        raise ArgumentError(f"--checkpoint brings its own sizes, weights and masks; leave out {', '.join(settled)}")
    from mhaviz.sources.trained_model import TrainedModel
    from mhaviz.training.loading import load_checkpoint

    return TrainedModel(load_checkpoint(checkpoint), device, kind.value if kind else None)

"""Which layer is looked at: one with random weights, or one of a model or a file."""

from typing import TYPE_CHECKING

import typer

from mhaviz.cli import options
from mhaviz.cli.saved_weights import choose_saved_layer, require_weights
from mhaviz.errors import ArgumentError

if TYPE_CHECKING:
    from mhaviz.sources.attention_source import AttentionSource


def choose_layer(context: typer.Context, d_model: int | None = None, n_heads: int | None = None) -> "AttentionSource":
    """The layer that the command's options ask for; ``d_model``, ``n_heads``: in place of those that it has by default.

    Raises:
        ArgumentError: sizes that cannot be, options that a checkpoint has settled, a kind without a checkpoint.
        MhavizError: a checkpoint or weights that cannot be read, a device that is not there.
    """
    asked = context.params
    if asked["weights"] is not None:
        return choose_saved_layer(context)
    require_weights(context)
    if asked["checkpoint"] is None:
        if asked["kind"] is not None:
            raise ArgumentError("--kind chooses among the attentions of a trained model; add --checkpoint")
        from mhaviz.sources.random_layer import RandomLayer

        is_causal = asked["mask"] is options.Mask.causal
        sizes = d_model or asked["d_model"], n_heads or asked["heads"]
        return RandomLayer(*sizes, asked["seed"], asked["device"], is_causal)

    settled = options.given(context, ("d_model", "heads", "seed", "mask"))
    if settled:
        raise ArgumentError(f"--checkpoint brings its own sizes, weights and masks; leave out {', '.join(settled)}")
    from mhaviz.sources.trained_model import TrainedModel
    from mhaviz.training.loading import load_checkpoint

    kind = asked["kind"].value if asked["kind"] else None
    return TrainedModel(load_checkpoint(asked["checkpoint"]), asked["device"], kind)

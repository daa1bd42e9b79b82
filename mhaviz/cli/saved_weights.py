"""Weights and inputs from files: what the options ask for, and how large it is."""

from typing import TYPE_CHECKING

import typer

from mhaviz.cli import options
from mhaviz.cli.delivery import Delivery
from mhaviz.errors import ArgumentError

if TYPE_CHECKING:
    from mhaviz.attention.model import Inputs
    from mhaviz.models.saved_layer import SavedLayer


def choose_saved_layer(context: typer.Context, delivery: Delivery) -> "SavedLayer":
    """The layer that ``--weights`` asks for; ``delivery`` tells what has been assumed.

    Raises:
        ArgumentError: options that the files have settled, no or several attentions of this name, heads that cannot be.
        MhavizError: a file that cannot be read, or whose tensors cannot be what they should be.
    """
    asked = context.params
    settled = options.given(context, ("d_model", "checkpoint", "kind"))
    if settled:
        raise ArgumentError(f"--weights brings its own weights and d_model; leave out {', '.join(settled)}")
    if asked["input"] is not None and options.given(context, ["seed"]):
        raise ArgumentError("--input takes the place of random embeddings; leave out --seed")
    if asked["input_name"] is not None and asked["input"] is None:
        raise ArgumentError("--input-name chooses among the tensors of a file; add --input")

    from mhaviz.models.given_inputs import read_inputs
    from mhaviz.models.saved_attention import read_attention
    from mhaviz.models.saved_layer import SavedLayer

    saved = read_attention(asked["weights"], asked["prefix"])
    inputs = read_inputs(asked["input"], asked["input_name"]) if asked["input"] is not None else None
    n_heads = 8 if asked["heads"] is None else asked["heads"]
    assumed = not options.given(context, ["heads"])
    if assumed:
        delivery.tell([f"weights do not tell how many heads they are for; took {n_heads}, see --heads"])
    is_causal = asked["mask"] is options.Mask.causal
    return SavedLayer(saved, n_heads, asked["seed"], asked["device"], is_causal, inputs, assumed)


def require_weights(context: typer.Context) -> None:
    """Raise ArgumentError for options that go with ``--weights``, if it is not there."""
    unheeded = options.given(context, ("prefix", "input", "input_name"))
    if unheeded:
        raise ArgumentError(f"expected a file of weights with {', '.join(unheeded)}, got none; add --weights")


def require_one_input(command: str, inputs: "Inputs") -> None:
    """Raise ArgumentError if ``--input`` holds several sentences."""
    if len(inputs.texts) > 1:
        raise ArgumentError(f"{command} takes one sentence, got --input with {len(inputs.texts)}; give one of them")

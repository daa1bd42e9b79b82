"""What is asked of a whole model beside its maps: its rollout, and whether its maps are true."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import typer

from mhaviz.cli import options
from mhaviz.errors import ArgumentError, MhavizError

if TYPE_CHECKING:
    from mhaviz.attention.model import Inputs, Model
    from mhaviz.records import Attention


def rolled_out(context: typer.Context, model: "Model", inputs: "Inputs") -> "Attention":
    """The rollout up to each layer that is chosen.

    Raises:
        ArgumentError: options that a rollout would not heed.
    """
    unheeded = options.given(context, ("head", "pool", "size", "window", "summary", "memory", "verify"))
    if unheeded:
        raise ArgumentError(f"--rollout goes through all heads and all tokens; leave out {', '.join(unheeded)}")
    from mhaviz.analyses.rollout import rollout

    return rollout(model, inputs)


def verified(
    attention: "Attention",
    model: "Model",
    inputs: "Inputs",
    heads: Sequence[int],
) -> "tuple[Attention, str]":
    """The same, with how far its outputs are from those of the model among its source's details, and that in words.

    Raises:
        MhavizError: they are farther than rounding explains, or the model does not show its outputs.
    """
    from mhaviz.analyses.verification import require_alike, verify
    from mhaviz.models.pretrained.model import PretrainedModel

    assert isinstance(model, PretrainedModel)
    if not model.loaded.captured:
        raise MhavizError(f"{model.loaded.type} shows its weights alone, and no values: leave out --verify")
    deviations = verify(model, inputs, heads)
    worst = require_alike(deviations, model.loaded.model.dtype)
    details = dict(attention.source.details) | {"verified": [asdict(deviation) for deviation in deviations]}
    text = (
        f"verified: the weights give the model's own outputs, which reach {worst.size:.2g}, to {worst.difference:.1e} "
        f"(largest in layer {worst.layer}, {worst.kind}, head {worst.head})"
    )
    return replace(attention, source=replace(attention.source, details=details)), text

"""What is asked of a whole model beside its maps: its rollout, and whether its maps are true."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import typer

from mhaviz.cli import options
from mhaviz.errors import ArgumentError

if TYPE_CHECKING:
    from mhaviz.records import Attention
    from mhaviz.sources.attention_source import AttentionSource


def rolled_out(
    context: typer.Context, source: "AttentionSource", texts: Sequence[str], target: str | None
) -> "Attention":
    """The rollout to the layers that are chosen, through all that come before.

    Raises:
        ArgumentError: options that a rollout would not heed.
    """
    unheeded = options.given(context, ("head", "pool", "size", "window", "summary", "memory", "verify"))
    if unheeded:
        raise ArgumentError(f"--rollout goes through all heads and all tokens; leave out {', '.join(unheeded)}")
    from mhaviz.sources.pretrained.model import PretrainedModel
    from mhaviz.studies.rollout import rollout

    assert isinstance(source, PretrainedModel)
    through = tuple(range(max(source.layers or (0,)) + 1))
    inputs = source.through(through).queries_and_keys(texts, target)
    return rollout(inputs, source.layers)


def verified(
    attention: "Attention",
    source: "AttentionSource",
    texts: Sequence[str],
    target: str | None,
    heads: Sequence[int],
) -> "tuple[Attention, str]":
    """The same, with how far its outputs are from those of the model among its source's details, and that in words.

    Raises:
        MhavizError: they are farther than rounding explains, or the model does not show its outputs.
    """
    from mhaviz.sources.pretrained.model import PretrainedModel
    from mhaviz.studies.verification import require_alike, verify

    assert isinstance(source, PretrainedModel)
    deviations = verify(source.queries_and_keys(texts, target, heads, with_outputs=True))
    worst = require_alike(deviations, source.loaded.model.dtype)
    details = dict(attention.source.details) | {"verified": [asdict(deviation) for deviation in deviations]}
    text = (
        f"verified: the weights give the model's own outputs, which reach {worst.size:.2g}, to {worst.difference:.1e} "
        f"(largest in layer {worst.layer}, {worst.kind}, head {worst.head})"
    )
    return replace(attention, source=replace(attention.source, details=details)), text

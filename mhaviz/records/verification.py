"""How far what a picture shows is from what a model has computed."""

from dataclasses import dataclass

from mhaviz.records.tokens import Kind


@dataclass(frozen=True)
class Deviation:
    """Of one attention: its output by the weights that are drawn, A V, beside its output in the model itself.

    Attributes:
        kind, layer, sentence: as in ``AttentionMap``.
        head: the one with the largest difference.
        difference: the largest absolute difference of two numbers of the output.
        size: the largest absolute number of the model's output.
    """

    kind: Kind
    layer: int
    sentence: int | None
    head: int
    difference: float
    size: float

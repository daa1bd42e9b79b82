"""Which attention of a model."""

from dataclasses import dataclass

from mhaviz.records.tokens import Kind


@dataclass(frozen=True)
class Site:
    """One of a model's attentions.

    Attributes:
        kind: of attention.
        layer: counted from 0; encoder, decoder and cross attention are each counted by themselves.
        n_heads, d_key: its sizes.
        number: its place among all attentions of the model, in the order in which they run.
        module: what the model calls it, "blocks.0.attn"; nothing where that is not known.
    """

    kind: Kind
    layer: int
    n_heads: int
    d_key: int
    number: int = 0
    module: str = ""

"""Sizes of an attention layer, under the names that they have in other programs."""

from collections.abc import Collection, Mapping

D_MODEL = (
    *("d_model", "dim_model", "model_dim", "embed_dim", "embedding_dim", "emb_dim", "dim", "d"),
    *("hidden_size", "hidden_dim", "n_embd", "n_embed", "embed_size", "emb_size", "d_embed", "d_in", "width"),
)
"""Names of d_model, those first that mean nothing else."""

N_HEADS = ("n_heads", "num_heads", "n_head", "num_attention_heads", "nhead", "nheads", "heads", "h")
"""Names of the number of heads."""


def size_among(values: Mapping[str, object], names: Collection[str]) -> int | None:
    """Return the size that stands under the first of these names; None: under none of them.

    >>> size_among({"embed_dim": 64, "num_heads": 4}, D_MODEL)
    64
    """
    for name in names:
        value = values.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None

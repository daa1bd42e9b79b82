"""Models that others have trained: transformers' checkpoints, from their folder to the attention in them."""

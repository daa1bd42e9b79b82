"""Trains the small translator of ``layer.transformer``: corpora, training, evaluation and checkpoints."""

TRANSLATION = "translation"
"""Names the checkpoint and the corpus that come with mhaviz."""

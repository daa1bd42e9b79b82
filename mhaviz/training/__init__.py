"""Training of the small translator of ``layer.transformer``: corpora, training, evaluation and checkpoints."""

TRANSLATION = "translation"
"""Name of the checkpoint and of the corpus that come with mhaviz."""

"""How a model built from the layer learns: corpora, the training itself, and the checkpoints that it leaves."""

TRANSLATION = "translation"
"""Names the checkpoint and the corpus that come with mhaviz."""

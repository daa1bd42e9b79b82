"""Checkpoints of Hugging Face's transformers: finding, checking, loading, and running them with hooks on attention."""

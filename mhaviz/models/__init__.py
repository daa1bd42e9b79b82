"""The models whose attention is looked at: random and saved weights, the translator, checkpoints of transformers.

A new kind of model is a file here, with a subclass of ``attention.model.Model``, and a loader and a row of ``KINDS`` in
``load.py``, which says what it is called, how it is recognised and what may be asked of it.
"""

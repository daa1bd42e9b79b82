"""The kinds of models: a layer with random or saved weights, the translator, and checkpoints of transformers.

To add a kind of model, add a file here with a subclass of ``attention.model.Model``, and to ``load.py`` a loader and a
row of ``KINDS``, which holds the name of the kind, how its files are recognised, and its options.
"""

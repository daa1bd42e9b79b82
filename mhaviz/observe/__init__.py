"""Sees the attention of running PyTorch code, whoever wrote it, as ``ObservedCall``.

Two ways lead there:

- ``attention_functions``: transformers asks for an attention function by its name, and gets one that shows its inputs.
  A pass of a checkpoint costs nothing beside it, where the other way costs 4 to 20 ms.
- ``mode``: each function of PyTorch is seen as it is called, with nothing of the program changed. ``fused``, ``flex``,
  ``operators`` and ``fast_path`` read what is called as one; ``by_hand`` recognises products, softmax and values, and
  ``weights`` what a program makes of its weights until they meet the values.

What it is of is followed beside that: ``layouts`` knows where each axis of a tensor comes from, ``descent`` what is
fixed, ``order`` which axes are heads, queries and keys, and ``sites`` which attention it is, in which pass.
"""

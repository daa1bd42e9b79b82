"""Sees the attention of running PyTorch code, whoever wrote it, as ``ObservedCall``.

Two ways lead there:

- ``attention_functions``: transformers asks for an attention function by its name, and gets one that shows its inputs.
  A pass of a checkpoint costs nothing beside it, where the other way costs 4 to 20 ms.
- ``mode``: each function of PyTorch is seen as it is called, with nothing of the program changed. ``fused``, ``flex``,
  ``operators`` and ``fast_path`` read what is called as one; ``by_hand`` recognises products, softmax and values, and
  ``weights`` what a program makes of its weights until they meet the values.

What it is of is followed beside that: ``layouts`` knows where each axis of a tensor comes from, ``descent`` what is
fixed, ``order`` which axes are heads, queries and keys, and ``sites`` which attention it is, in which pass.

The second way, step by step, for ``A = softmax(Q @ K.mT * c, -1); out = A @ V``:

1. ``Watch.watching`` puts a function mode on PyTorch's stack, and ``RunningModules`` hooks that say which module runs.
   Each function then runs by its handler in ``Watch.handlers``; those who follow tensors are told afterwards.
2. ``Q @ K.mT`` is a product of letters, "bhqd, bhkd -> bhqk" (``products``). Its result is marked, beside the tensor
   and not on it (``marks``). ``* c`` keeps the mark, and remembers the factor.
3. ``softmax`` over k makes weights of marked scores. Over another axis, or of scores that something else has changed,
   what is known is the weights alone: ``AttentionWeights``, and not ``AttentionCall``.
4. ``A @ V`` sums over k: the weights meet their values. Only now is it attention. Keys that are a layer's parameters,
   as a router's are, make it none (``descent``).
5. ``order_of`` says which axes are the batch, heads, queries and keys, by where they come from, never by their sizes
   where two readings fit. ``ObservedCall.in_order`` puts them so.
6. ``Watch`` calls ``on_observed`` with it, while its tensors are the program's own. ``Sites`` says which attention and
   pass it is. What looks like attention and ends otherwise is a line in ``Watch.missed``, with the reason.

A fused kernel is seen at step 4 at once; whether its weights may be told from its arguments is a rule of ``fused``.
"""

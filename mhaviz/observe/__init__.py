"""Observe the attention of running PyTorch code, whoever wrote it, as ``ObservedCall``.

An attention is observed in one of two ways:

- ``attention_functions``: transformers looks attention functions up by name, and is given one that shows its inputs.
  This adds no time to a forward pass; the second way adds 4 to 20 ms.
- ``mode``: a function mode intercepts each call of a PyTorch function, and the program is not changed. ``fused``,
  ``flex``, ``operators`` and ``fast_path`` read calls that are a whole attention. ``by_hand`` recognises attention that
  is written out as products and a softmax, and ``weights`` follows its weights until they are multiplied by the values.

Other modules keep track of the program's tensors: ``tracing`` of which token each number is of, ``layouts`` of where
each axis comes from, ``descent`` of which tensors are fixed. From these, ``order`` finds the axes of heads, queries and
keys, and ``places`` names the tokens of each. ``sites`` tells which attention has run, in which forward pass: it asks
``decoder_steps`` which runs go on with a pass, and ``joined_sites`` which are heads or queries of one attention.
``log`` keeps what is not drawn.

``sampled_passes`` observes every Nth forward pass alone, for trainings that are watched.

For a wrong name of a token, read ``tracing``, the rule of the function in ``region_moves`` or ``region_sums``, and
``places``. For a wrong axis of heads, read the rule in ``axis_rules``, and ``order``. For a wrong pass or layer, read
``decoder_steps`` and ``joined_sites``.

The second way, step by step, for ``A = softmax(Q @ K.mT * c, -1); out = A @ V``:

1. ``Observer.watching`` puts a function mode on PyTorch's stack, and ``RunningModules`` registers hooks that say which
   module runs. Each function is run by its handler in ``Observer.handlers``, and then shown to the followers of
   tensors.
2. ``Q @ K.mT`` is the product "bhqd, bhkd -> bhqk" (``products``). Its result is marked, in a table beside the tensor
   (``marks``). ``* c`` keeps the mark, and the factor is remembered.
3. ``softmax`` over k turns marked scores into weights. If it runs over another axis, or if something else has changed
   the scores, only the weights are known: ``AttentionWeights``, not ``AttentionCall``.
4. ``A @ V`` sums over k: the weights meet their values. Only now is it attention. It is none if the keys are parameters
   of a layer, as in a router (``descent``).
5. ``order_of`` says which axes are batch, heads, queries and keys. It decides by where they come from, and never by
   their sizes where two readings fit. ``ObservedCall.in_order`` arranges the tensors accordingly.
6. ``Observer`` calls ``on_observed`` while the tensors are still the program's own. ``Sites`` says which attention and
   which pass it is. What looks like attention but cannot be shown is a line in ``Observer.log``, with the reason.

A fused kernel is observed at step 4 at once. Whether its weights can be computed from its arguments is decided by a
rule of ``fused``.
"""

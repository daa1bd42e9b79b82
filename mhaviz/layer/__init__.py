"""The textbook: from words to multi-head attention, in the order of Vaswani et al. 2017 (arXiv 1706.03762).

Read ``tokens``, ``embedding``, ``masks``, ``attention``; then ``transformer`` and ``decoding``, a model made of it.
Nothing in here knows of pictures.
"""

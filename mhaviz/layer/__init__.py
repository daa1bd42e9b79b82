"""The textbook: from words to multi-head attention, in the order of Vaswani et al. 2017 (arXiv 1706.03762).

Read ``tokens``, ``embedding`` and ``attention``, then ``transformer``, a model that is built of them. Nothing in this
package draws anything.
"""

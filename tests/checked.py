"""Checks made by hand: what ``mhaviz.check`` finds in attention layers with mistakes that people make."""

import numpy as np

from mhaviz.results.check import Check, Contrast, Finding, Line, Unprobed
from mhaviz.results.result import Source

SOURCE = Source("MyAttention, seed 0, float32, cpu", {"kind": "layer", "name": "MyAttention"})
TOKENS = ("0", "1", "2", "3", "pad", "pad")
PROBED = ("scale", "softmax-axis", "heads-layout", "causal", "padding", "mask-side", "row-sum", "batch", "nan", "eval")
UNPROBED = (
    Unprobed("packed", "takes no numbers of documents"),
    Unprobed("cache", "takes no cache"),
)


def made_check(*findings, probed=PROBED, unprobed=UNPROBED, source=SOURCE, **more):
    return Check(source, tuple(findings), probed, unprobed, **more)


def softmax(scores):
    numbers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (numbers / numbers.sum(axis=-1, keepdims=True)).astype(np.float32)


def scores(n_heads=2, length=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n_heads, length, length))


def mask_side(n_heads=1):
    """The mask of padding, the last two of six tokens, on rows of the scores in place of columns."""
    is_padding = np.arange(6) >= 4
    found = softmax(np.where(is_padding[:, None], -1e9, scores(n_heads)))
    expected = softmax(np.where(is_padding, -1e9, scores(n_heads)))
    followed = f"{f'query 2 of head {n_heads - 1}' if n_heads > 1 else 'query 2'} gives {found[-1, 2, 4]:.2f}"
    return Finding(
        "mask-side",
        "error",
        "hid the last 2 of 6 tokens as padding, and read the weights",
        "real tokens give up to 0.54 of their weight to padding, in place of 0, and queries that are padding get the "
        "same weight, 0.17, on all keys",
        "the padding mask hides queries in place of keys",
        "give the mask its length at the last axis, that of keys: keep[:, None, None, :]",
        "MyAttention",
        Line("attention.py", 31, "        scores = scores.masked_fill(~keep[:, None, :, None], -1e9)"),
        Contrast(
            "weight",
            found,
            expected,
            ("query", "key"),
            TOKENS,
            TOKENS,
            tuple(f"head {head}" for head in range(n_heads)) if n_heads > 1 else (),
            f"{followed} of its weight to the first token of padding; it should give 0",
        ),
    )


def heads_layout(n_heads=4, length=6, d_key=2):
    """Heads that are split by a view of (length, d_model) as (n_heads, length, d_key)."""
    places = np.arange(n_heads * length * d_key).reshape(n_heads, length, d_key)
    expected = np.broadcast_to(np.arange(length)[:, None], places.shape)
    rows = tuple(map(str, range(length)))
    return Finding(
        "heads-layout",
        "error",
        "changed one token at a time, and looked at which rows of which heads change",
        "row 5 of head 0 is made of token 1; it should be made of token 5",
        "heads are split by view(batch_size, n_heads, length, d_key), which cuts tokens into pieces",
        "split the last axis and swap two: view(batch_size, length, n_heads, d_key).transpose(1, 2)",
        "blocks.0.attn",
        Line("model.py", 17, "        q = self.Wq(x).view(B, self.n_heads, T, self.d_key)"),
        Contrast(
            "token",
            (places // (n_heads * d_key)).astype(np.float32),
            expected.astype(np.float32),
            ("row of the head", "feature"),
            rows,
            tuple(map(str, range(d_key))),
            tuple(f"head {head}" for head in range(n_heads)),
            "row 5 of head 0 should hold features of token 5, and holds features of token 1",
        ),
    )


def missing_scale(d_key=64, length=6):
    """Scores that are not divided by √d_key."""
    raw = scores(2, length, seed=1) * d_key**0.5
    return Finding(
        "scale",
        "error",
        "compared the weights with those of scores times 1, 1/d_key, 1/√d_model and others",
        "the weights are those of q·k, to 3e−08, and differ from those of q·k / √64 by up to 0.83",
        "scores are not divided by √d_key",
        "divide scores by math.sqrt(d_key), which is 8 here",
        line=Line("attention.py", 28, "scores = q @ k.transpose(-2, -1)"),
        contrast=Contrast(
            "weight",
            softmax(raw),
            softmax(raw / d_key**0.5),
            ("query", "key"),
            tuple("abcdef"[:length]),
            tuple("abcdef"[:length]),
            ("head 0", "head 1"),
            "query “c” of head 0 gives 0.99 of its weight to a single key, “d”; it should give it 0.33",
        ),
    )


def causal_off_by_one(length=6):
    """A causal mask that hides the query's own token, too."""
    below, rows = np.tril(np.ones((length, length), np.float32), -1), tuple(map(str, range(length)))
    return Finding(
        "causal",
        "error",
        "changed one token at a time, and looked at which outputs change",
        "no output changes with its own token; it should",
        "the causal mask begins at the diagonal, which it should leave",
        "torch.triu(…, diagonal=1) for what is hidden",
        "attn",
        contrast=Contrast(
            "influence",
            below[None],
            np.tril(np.ones_like(below))[None],
            ("output", "input"),
            rows,
            rows,
            (),
            "the output of token 3 does not change with token 3 itself; it should",
        ),
    )


def nan_rows():
    """A row whose keys are all hidden, as NaN."""
    expected = softmax(scores(1, 4))
    expected[:, 3] = 0
    found = np.where(np.arange(4)[:, None] == 3, np.nan, expected).astype(np.float32)
    return Finding(
        "nan",
        "error",
        "hid all keys of query 3",
        "its weights and its output are NaN, and so are all gradients; they should be 0",
        "a softmax over scores that are all −∞",
        "weights.masked_fill(is_hidden.all(-1, keepdim=True), 0.0)",
        contrast=Contrast(
            "weight", found, expected, ("query", "key"), tuple("0123"), tuple("0123"), (), "query 3 sees no key"
        ),
    )


def uniform_row():
    return Finding(
        "uniform-row",
        "notice",
        "hid all keys of query 3",
        "it gets the weight 0.25 on each of 4 keys",
        "−1e9 in place of −∞ makes a row that is wholly hidden uniform in silence",
        "set its weights to 0",
    )


ALL = (
    mask_side(2),
    heads_layout(),
    missing_scale(),
    causal_off_by_one(),
    nan_rows(),
    uniform_row(),
)

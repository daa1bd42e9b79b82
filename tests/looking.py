"""Ways to look at a model that many tests need, and a model whose attentions are called with what a test gives."""

import torch

from mhaviz.analyses.weights import attention_weights
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import Inputs, Model, Site, SiteCall, heads_of, show
from mhaviz.inputs.tokens import Text, Tokens
from mhaviz.results.result import Source


def attend(model, sentences, target=None, heads=None, hide_special=False):
    """All weights of a model on these sentences."""
    return attention_weights(model, model.encode(sentences, target), heads, hide_special)


def calls(model, sentences, target=None, heads=None, batched=False):
    """What every attention is called with."""
    seen = []
    model.run(model.encode(sentences, target), seen.append, heads, batched)
    return seen


def encoded(model, sentences, target=None):
    """A model and what it reads, as the first two arguments of a study."""
    return model, model.encode(sentences, target)


def traced(model, sentences, target=None, values=False):
    """The way of these sentences through a model."""
    return model.trace(model.encode(sentences, target), values)


class GivenModel(Model):
    """One attention, which is called with what a test gives: a call for each sentence."""

    device = torch.device("cpu")

    def __init__(self, kind, *given):
        _, n_heads, _, d_key = given[0].query.shape
        self.given = given
        self.site = Site(kind, 0, n_heads, d_key)

    @property
    def all_sites(self):
        return (self.site,)

    def encode(self, sentences=(), target=None):
        def tokens(side, n):
            return Tokens(tuple(f"{side}{i}" for i in range(n)))

        is_cross = self.site.kind == "cross"
        lengths = [call.shape[2:] for call in self.given]
        return Inputs(
            tuple(Text(tokens("k", k), tokens("q", q), tokens("q", q)) for q, k in lengths)
            if is_cross
            else tuple(Text(tokens("t", k)) for _, k in lengths)
        )

    def run(self, inputs, on_attention, heads=None, batched=False):
        site = self.site
        for i, (call, text) in enumerate(zip(self.given, inputs.texts, strict=True)):
            queries, keys = text.sides(site.kind)
            seen = SiteCall(site, call, heads_of(site, None), (queries,), (keys,), None, inputs.sentence(i))
            show(on_attention, seen, "a test's", "mend it", heads)

    def describe(self, inputs=None):
        return Source("made by a test", {"kind": "test"})

    def trace(self, inputs, values=False):
        raise NotImplementedError


def given_model(query, key, value=None, kind="self", mask=None):
    """A ``GivenModel`` of one sentence; query, key and value are (n_heads, length, d_key)."""
    Q, K, V = (torch.as_tensor(x, dtype=torch.float32)[None] for x in (query, key, key if value is None else value))
    return GivenModel(kind, AttentionCall(Q, K, V, Q.shape[3] ** -0.5, kind == "masked", mask))

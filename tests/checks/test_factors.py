"""The factor of q·k that is found is the one that was planted, wherever it stands."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding import rounding
from torch import nn
from torch.nn import functional as F  # noqa: N812

from mhaviz.checks.deadline import Deadline
from mhaviz.checks.evidence import Evidence
from mhaviz.checks.factors import follow, regress
from mhaviz.checks.signatures import adapted

CLOSE = rounding(depth=4)

D_MODEL, N_HEADS = 24, 2
FACTORS = st.floats(0.1, 2.0)


class Scaled(nn.Module):
    """Factors of the queries, of the keys and in the softmax, each a number or one for each head."""

    def __init__(self, d_key, in_queries=1.0, in_keys=1.0, in_softmax=1.0, fused=False, cap=None):
        super().__init__()
        torch.manual_seed(0)
        self.d_key, self.fused, self.cap = d_key, fused, cap
        self.in_queries, self.in_keys, self.in_softmax = in_queries, in_keys, in_softmax
        self.Wq, self.Wk, self.Wv = (nn.Linear(D_MODEL, N_HEADS * d_key) for _ in range(3))
        self.Wo = nn.Linear(N_HEADS * d_key, D_MODEL)

    def forward(self, x, keep=None):
        q, k, v = (W(x).unflatten(-1, (N_HEADS, self.d_key)).transpose(1, 2) for W in (self.Wq, self.Wk, self.Wv))
        q, k = q * self.in_queries, k * self.in_keys
        seen = None if keep is None else keep[:, None, None]
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v, seen, scale=self.in_softmax)
        else:
            scores = q @ k.mT * self.in_softmax
            scores = scores if self.cap is None else self.cap * torch.tanh(scores / self.cap)
            scores = scores if seen is None else scores.masked_fill(~seen, -torch.inf)
            mixed = scores.softmax(-1) @ v
        return self.Wo(mixed.transpose(1, 2).flatten(2))


def evidence(*arguments, **options):
    return Evidence(adapted(Scaled(*arguments, **options).eval(), D_MODEL), 0, Deadline(60))


@settings(max_examples=15)
@given(st.integers(1, 24), FACTORS, FACTORS, FACTORS, st.booleans())
def test_factors_are_those_that_were_planted(d_key, in_queries, in_keys, in_softmax, fused):
    layer = evidence(d_key, in_queries, in_keys, in_softmax, fused)
    line = regress(layer, 0)
    assert line.slope == pytest.approx(in_softmax, rel=CLOSE)
    assert line.is_same
    assert line.softcap is None
    for side, factor in (("query", in_queries), ("key", in_keys)):
        followed = follow(layer, 0, side)
        assert followed.factor == pytest.approx(factor, rel=CLOSE)
        assert followed.is_linear
        assert followed.n_mixed == 1


def test_the_width_of_a_head():
    for d_key in (1, 5, 12):
        for fused in (False, True):
            assert evidence(d_key, fused=fused).attentions[0].d_key == d_key


@settings(max_examples=10)
@given(FACTORS, FACTORS)
def test_heads_with_temperatures_of_their_own(one, other):
    temperatures = torch.tensor([one, other])[:, None, None]
    line = regress(evidence(8, in_softmax=temperatures), 0)
    assert line.by_head == pytest.approx((one, other), rel=CLOSE)
    assert line.is_same == (abs(one - other) <= 5e-3 * (one + other) / 2)


@pytest.mark.parametrize(("cap", "factor"), [(2.0, 1.0), (5.0, 0.5), (12.0, 3.0)])
def test_a_cap_of_scores(cap, factor):
    """Scores of about the size of the cap, which it bends."""
    line = regress(evidence(8, in_softmax=factor, cap=cap), 0)
    assert line.unexplained > 1e-3
    assert line.softcap == pytest.approx(cap, rel=0.02)


def test_a_line_fits_only_what_is_linear():
    class Squared(Scaled):
        def forward(self, x):
            q, k, v = (W(x).unflatten(-1, (N_HEADS, self.d_key)).transpose(1, 2) for W in (self.Wq, self.Wk, self.Wv))
            return self.Wo((((q @ k.mT) ** 2).softmax(-1) @ v).transpose(1, 2).flatten(2))

    line = regress(Evidence(adapted(Squared(8).eval(), D_MODEL), 0, Deadline(60)), 0)
    assert line.unexplained > 0.1
    assert line.softcap is None


def test_a_mask_and_a_bias_of_positions_are_no_factor():
    class Biased(Scaled):
        def forward(self, x):
            q, k, v = (W(x).unflatten(-1, (N_HEADS, self.d_key)).transpose(1, 2) for W in (self.Wq, self.Wk, self.Wv))
            at = torch.arange(x.shape[1])
            scores = q @ k.mT * 0.7 - 0.3 * (at - at[:, None]).abs()
            scores = scores.masked_fill(at > at[:, None], -torch.inf)
            return self.Wo((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    line = regress(Evidence(adapted(Biased(8).eval(), D_MODEL), 0, Deadline(60)), 0)
    assert line.slope == pytest.approx(0.7, rel=CLOSE)


def test_rows_that_are_normalised_have_no_factor():
    class Normed(Scaled):
        def forward(self, x):
            q, k, v = (W(x).unflatten(-1, (N_HEADS, self.d_key)).transpose(1, 2) for W in (self.Wq, self.Wk, self.Wv))
            weights = (F.normalize(q, dim=-1) @ k.mT * 3).softmax(-1)
            return self.Wo((weights @ v).transpose(1, 2).flatten(2))

    layer = Evidence(adapted(Normed(8).eval(), D_MODEL), 0, Deadline(60))
    assert not follow(layer, 0, "query").is_linear
    assert follow(layer, 0, "key").is_linear
    assert regress(layer, 0).slope == pytest.approx(3, rel=CLOSE)


def test_rotated_rows_are_made_of_two_features():
    class Rotated(Scaled):
        def forward(self, x):
            q, k, v = (W(x).unflatten(-1, (N_HEADS, self.d_key)).transpose(1, 2) for W in (self.Wq, self.Wk, self.Wv))
            angles = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-torch.arange(4) / 4)
            a, b = q.chunk(2, dim=-1)
            q = torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1)
            return self.Wo(((q @ k.mT / math.sqrt(8)).softmax(-1) @ v).transpose(1, 2).flatten(2))

    layer = Evidence(adapted(Rotated(8).eval(), D_MODEL), 0, Deadline(60))
    assert (follow(layer, 0, "query").n_mixed, follow(layer, 0, "key").n_mixed) == (2, 1)
    assert follow(layer, 0, "query").factor == pytest.approx(1, rel=CLOSE)

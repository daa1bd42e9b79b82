"""Programs that a recorder could change, or fail, and must not."""

from contextlib import nullcontext

import numpy as np
import torch
from rounding import rounding
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.overrides import handle_torch_function
from watched import uses_torch_jit

from mhaviz import record

CLOSE = rounding()


class HasNoConfig(nn.Module):
    @property
    def config(self):
        raise RuntimeError("no config yet")

    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x)


def test_properties_of_a_module_are_not_asked():
    with record() as recording:
        HasNoConfig()(torch.randn(1, 2, 3, 4))
    assert recording.modules == ("HasNoConfig",)


class HasNoNames(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x)

    def named_modules(self, *args, **kwargs):
        raise RuntimeError("no names")


def test_a_module_that_cannot_be_named_is_said():
    with record() as recording:
        HasNoNames()(torch.randn(1, 2, 3, 4))
    (line,) = recording.notices
    assert line.startswith("test_left_alone.py:")
    assert line.endswith("not followed, RuntimeError: no names")


class Strange:
    """A function of the program's own that takes part in PyTorch's protocol."""

    __name__ = 3

    def __call__(self, x):
        return x if torch.overrides.is_tensor_like(x) and self.is_seen else handle_torch_function(self.again, (x,), x)

    def again(self, x):
        return x

    is_seen = False


def test_functions_of_the_programs_own_may_be_anything():
    called = Strange()

    def run(x):
        return handle_torch_function(called, (x,), x)

    called.is_seen = True
    with record():
        x = nn.Parameter(torch.zeros(2))
        assert run(x) is x


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.patch = nn.Embedding(9, 4), nn.Conv2d(1, 4, 2, 2)

    def forward(self, ids, image):
        x = self.embed(ids)[:, None]
        return F.scaled_dot_product_attention(x, x, x), self.patch(image)


@uses_torch_jit
def test_nothing_is_looked_at_while_torch_jit_traces():
    reader, given = Reader(), (torch.tensor([[1, 5, 2]]), torch.randn(1, 1, 4, 4))
    with record() as recording:
        torch.jit.trace(reader, given)  # without a TracerWarning, which would be an error
        reader(*given)
    assert recording.attention.maps[0].weights.shape == (1, 3, 3)


def test_what_vmap_reads_is_forgotten():
    embed, x = nn.Embedding(9, 4), torch.randn(1, 2, 3, 4)
    with record() as recording:
        torch.vmap(embed)(torch.tensor([[1, 5, 2]]))
        F.scaled_dot_product_attention(x, x, x)
    assert recording.notices == []
    assert len(recording.attention.maps) == 1


def test_dropout_that_a_program_keeps_for_its_uncertainty_draws_the_same_numbers():
    layer, x = nn.TransformerEncoderLayer(8, 2, 16, 0.5, batch_first=True).eval(), torch.randn(1, 3, 8)
    for module in layer.modules():
        module.training = isinstance(module, nn.Dropout)

    def program():
        torch.manual_seed(0)
        return layer(x), torch.rand(3)

    with torch.no_grad(), record() as recording:
        recorded = program()
    with torch.no_grad():
        for one, other in zip(program(), recorded, strict=True):
            assert torch.equal(one, other)
    assert recording.modules == ("self_attn",)


def test_a_profile_counts_what_the_program_does_alone(monkeypatch):
    """As written out, by SDPA, on the fast path, and where PyTorch returns weights; with gradients."""
    monkeypatch.setenv("KINETO_LOG_LEVEL", "6")  # which is read once in a process
    layer, attend = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), nn.MultiheadAttention(8, 2)
    x, q = torch.randn(1, 3, 8), torch.randn(1, 2, 3, 4)

    def counts(recording):
        with recording, torch.autograd.profiler.profile() as profiled:
            torch.softmax(q @ q.mT, -1) @ q
            F.scaled_dot_product_attention(q, q, q)
            with torch.no_grad():
                layer(x)
            attend(x, x, x)[0].sum().backward()
        return {one.key: one.count for one in profiled.key_averages()}

    counts(nullcontext())  # what PyTorch does once
    alone = counts(nullcontext())
    assert alone["aten::_softmax"] > 2
    with record() as recording:
        assert counts(recording) == alone
    assert len(recording.modules) == 4
    assert counts(nullcontext()) == alone, "and goes on as before"


class CountingLayer(nn.TransformerEncoderLayer):
    runs = 0

    def forward(self, *args, **kwargs):
        CountingLayer.runs += 1
        return super().forward(*args, **kwargs)


def test_code_of_the_program_within_layers_of_pytorch_runs_once():
    encoder, x = nn.TransformerEncoder(CountingLayer(8, 2, 16, batch_first=True), 2).eval(), torch.randn(1, 3, 8)
    CountingLayer.runs = 0
    with torch.no_grad(), record() as recording:
        recorded = encoder(x)
    assert CountingLayer.runs == 2
    with torch.no_grad():
        assert torch.equal(encoder(x), recorded)
    assert recording.modules == ("layers.0.self_attn", "layers.1.self_attn")


def test_a_hint_that_a_mask_is_causal_is_no_mask_where_weights_are_given():
    x, mha = torch.randn(4, 1, 8), nn.MultiheadAttention(8, 2)
    with record() as recording:
        _, weights = mha(x, x, x, attn_mask=torch.zeros(4, 4), is_causal=True, average_attn_weights=False)
    np.testing.assert_allclose(recording.attention.maps[0].weights, weights[0].detach(), atol=CLOSE)

"""Relevance of recorded programs, while their graphs live."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mhaviz
from mhaviz.errors import ArgumentError, MhavizError


class Layer(nn.Module):
    """Self-attention whose weights a test can ask for: by hand, or by the fused kernel."""

    def __init__(self, is_fused=False, changes_in_place=False):
        super().__init__()
        self.project, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.is_fused, self.changes_in_place, self.weights = is_fused, changes_in_place, None

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.project(x).chunk(3, dim=-1))
        if self.is_fused:
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            self.weights = (q @ k.mT / 2).softmax(dim=-1)
            out = self.weights @ v
        if self.changes_in_place:
            out = out.mul_(2.0)
        return x + self.out(out.transpose(1, 2).flatten(2))


class Stack(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.layers = nn.ModuleList(Layer(**how) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.fixture
def x():
    return torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(0)).double()


def stack(seed=0, **how):
    torch.manual_seed(seed)
    return Stack(**how).double().eval()


def recorded(model, x, scalar=lambda out: out[0, -1, 3], **how):
    with mhaviz.record(model, **how) as recording:
        y = scalar(model(x))
    return recording, y


def by_the_paper(model, x, row=-1):
    """Equations 5 and 6 on whole matrices, with gradients of the weights by autograd."""
    y = model(x)[0, row, 3]
    weights = [layer.weights for layer in model.layers]
    R = torch.eye(x.shape[1], dtype=x.dtype)
    for A, gradient in zip(weights, torch.autograd.grad(y, weights), strict=True):
        R = R + (A * gradient)[0].clamp(min=0).mean(dim=0) @ R
    return (R - torch.eye(len(R)))[row].detach().numpy()


@pytest.mark.parametrize("is_fused", [False, True])
def test_relevance_is_that_of_the_paper(x, is_fused):
    recording, y = recorded(stack(is_fused=is_fused), x)
    expected = by_the_paper(stack(), x)
    assert recording.relevance(y).text.relevance == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_an_output_that_is_changed_in_place_is_explained(x):
    recording, y = recorded(stack(changes_in_place=True), x)
    expected = by_the_paper(stack(changes_in_place=True), x)
    assert recording.relevance(y).text.relevance == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_relevance_changes_no_gradient_and_may_be_asked_again(x):
    model = stack()
    recording, y = recorded(model, x)
    first = recording.relevance(y)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert (recording.relevance(y).text.relevance == first.text.relevance).all()
    y.backward()  # its graph is still there
    assert all(parameter.grad is not None for parameter in model.layers[0].parameters())


def test_what_is_held_lives_as_long_as_the_graph(x):
    recording, y = recorded(stack(), x)
    node = y.grad_fn
    held = weakref.ref(next(iter(_held(node))))
    del node
    assert held() is not None
    del y
    gc.collect()
    assert held() is None
    assert not recording.is_empty


def _held(first):
    left, seen = [first], set()
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield from node.metadata.get("mhaviz attention", ())
        left += [before for before, _ in node.next_functions]


def test_an_example_of_a_batch_is_explained(x):
    model = stack()
    batch = torch.cat([torch.randn_like(x), x])
    recording, y = recorded(model, batch, lambda out: out[1, -1, 3], examples="all")
    assert recording.relevance(y).text.relevance == pytest.approx(by_the_paper(model, x), rel=1e-9, abs=1e-12)


def test_the_second_pass_is_explained_if_it_is_recorded(x):
    model = stack()
    with mhaviz.record(model, passes="0,1") as recording:
        model(torch.randn_like(x))
        y = model(x)[0, -1, 3]
    assert recording.relevance(y).text.relevance == pytest.approx(by_the_paper(model, x), rel=1e-9, abs=1e-12)


def refused(recording, y, match, error=MhavizError):
    with pytest.raises(error, match=match):
        recording.relevance(y)


def test_several_examples_are_refused(x):
    recording, y = recorded(stack(), torch.cat([x, x]), lambda out: out.sum())
    refused(recording, y, "y depends on 2 examples of the batch")


def test_a_pass_that_is_not_recorded_is_refused(x):
    model = stack()
    with mhaviz.record(model) as recording:
        model(x)
        y = model(x)[0, 0, 0]
    refused(recording, y, "y depends on no attention of a recorded pass")


def test_what_is_no_scalar_is_refused(x):
    recording, y = recorded(stack(), x, lambda out: out[0])
    refused(recording, y, r"expected a scalar, such as one logit, got a tensor of \(5, 8\)")


def test_a_program_without_gradients_is_refused(x):
    with torch.no_grad():
        recording, y = recorded(stack(), x)
    refused(recording, y, "expected a scalar with a gradient, got none")


def test_layers_without_gradients_below_others_are_refused(x):
    model = stack()
    with mhaviz.record(model) as recording:
        with torch.no_grad():
            hidden = model.layers[0](x)
        y = model.layers[2](model.layers[1](hidden))[0, 0, 0]
    refused(recording, y, "no gradient arrives, as its output has no gradient")


def test_a_detached_layer_is_refused(x):
    model = stack()
    with mhaviz.record(model) as recording:
        hidden = model.layers[0](x).detach()
        y = model.layers[1](hidden)[0, 0, 0]
    refused(recording, y, "no gradient arrives at layers.0: y does not depend on it, or a layer stops gradients")


def test_dropout_is_refused(x):
    layer = nn.TransformerEncoderLayer(8, 2, batch_first=True, dropout=0.3).double()
    recording, y = recorded(layer, x)
    refused(recording, y, "no gradient arrives, as dropout has changed its weights")


def test_weights_that_were_changed_in_place_are_refused(x):
    model = stack()
    recording, y = recorded(model, x)
    with torch.no_grad():
        model.layers[1].weights.mul_(0.5)
    refused(recording, y, "the graph of y cannot be differentiated: one of the variables .* modified by an inplace")


def test_a_graph_that_was_freed_is_refused(x):
    recording, y = recorded(stack(), x)
    y.backward()
    refused(recording, y, "the graph of y cannot be differentiated: Trying to backward through the graph a second time")


def test_a_convolution_is_refused(x):
    model, mixing = stack(), nn.Conv1d(8, 8, 3, padding=1).double()
    with mhaviz.record(model) as recording:
        y = mixing(model(x).mT)[0, 0, 0]
    refused(recording, y, "through a convolution, which mixes tokens too")


@pytest.mark.parametrize("mixing", ["recurrent", "sum", "shift"])
def test_tokens_that_are_mixed_between_attentions_are_refused(x, mixing):
    model, recurrent = stack(), nn.GRU(8, 8, batch_first=True).double()
    mix = {"recurrent": lambda x: recurrent(x)[0], "sum": lambda x: x.cumsum(1), "shift": lambda x: x + x.roll(1, 1)}

    class Mixed(nn.Module):
        def forward(self, x):
            return model.layers[1](mix[mixing](model.layers[0](x)))

    recording, y = recorded(Mixed(), x)
    refused(recording, y, "y depends on tokens that were mixed outside of attention|read one another, .* not known")


def test_a_convolution_of_single_places_mixes_nothing(x):
    model, mixing = stack(), nn.Conv1d(8, 8, 1).double()
    with mhaviz.record(model) as recording:
        y = mixing(model(x).mT)[0, 0, 0]
    assert recording.relevance(y).text.relevance.any()


def test_a_choice_of_modules_is_refused(x):
    recording, y = recorded(stack(), x, module="layers.0")
    refused(recording, y, "relevance goes through all modules", ArgumentError)


def test_an_encoder_and_its_decoder_are_explained(x):
    torch.manual_seed(0)
    model = nn.Transformer(8, 2, 2, 2, 16, batch_first=True).double().eval()
    target, mask = torch.randn(1, 3, 8).double(), model.generate_square_subsequent_mask(3, dtype=torch.float64)
    with mhaviz.record(model) as recording:
        y = model(x, target, tgt_mask=mask)[0, -1, 0]
    found = recording.relevance(y)
    assert (len(found.text.words), len(found.written.words)) == (5, 3)
    assert found.text.relevance.any()
    assert found.removal == "none"


def test_two_stacks_that_are_alike_are_refused(x):
    torch.manual_seed(0)
    model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True).double().eval()
    with mhaviz.record(model) as recording:
        y = model(x, torch.randn(1, 3, 8).double())[0, -1, 0]
    refused(recording, y, "how these join is not known")

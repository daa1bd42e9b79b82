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


class Attention(nn.Module):
    """Attention by hand of x to others, or to x itself, with the weights that it has computed."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.weights = None

    def forward(self, x, others=None, mask=None):
        others = x if others is None else others
        q, k, v = (
            part(side).unflatten(-1, (2, 4)).transpose(1, 2)
            for part, side in ((self.q, x), (self.k, others), (self.v, others))
        )
        S = q @ k.mT / 2
        S = S if mask is None else S.masked_fill(~mask, -torch.inf)
        self.weights = S.softmax(dim=-1)
        return x + self.out((self.weights @ v).transpose(1, 2).flatten(2))


class EncoderDecoder(nn.Module):
    """Two layers each; ``order``: "sc", self-attention before cross-attention, or "cs"; ``reads``: which layer of the
    encoder each layer of the decoder reads."""

    def __init__(self, order="sc", reads=(1, 1)):
        super().__init__()
        self.encoder, self.decoder, self.cross = (nn.ModuleList(Attention() for _ in range(2)) for _ in range(3))
        self.order, self.reads = order, reads

    def forward(self, source, target, source_mask=None, target_mask=None):
        memories = []
        for layer in self.encoder:
            source = layer(source, mask=source_mask)
            memories.append(source)
        n = target.shape[1]
        causal = torch.ones(n, n, dtype=torch.bool).tril()
        causal = causal if target_mask is None else causal & target_mask
        for own, cross, number in zip(self.decoder, self.cross, self.reads, strict=True):
            for what in self.order:
                target = own(target, mask=causal) if what == "s" else cross(target, memories[number], source_mask)
        return target


def encoder_decoder(**how):
    torch.manual_seed(0)
    model = EncoderDecoder(**how).double().eval()
    random = torch.Generator().manual_seed(1)
    source, target = (torch.randn(1, n, 8, generator=random).double() for n in (5, 3))
    return model, source, target


def both_by_the_paper(y, encoder, decoder, cross):
    """Equations 5 to 10 on whole matrices: of the decoder's tokens, and of the encoder's, for the last token."""
    sets = encoder, decoder, cross
    flat = [A for weights in sets for A in weights]
    gradients = dict(zip(map(id, flat), torch.autograd.grad(y, flat), strict=True))

    def bar(A):
        return (A.detach() * gradients[id(A)])[0].clamp(min=0).mean(dim=0)

    def normalised(R):
        gained = R - torch.eye(len(R)).double()
        sums = gained.sum(dim=-1, keepdim=True)
        return torch.where(sums > 0, gained / sums, 0.0) + torch.eye(len(R)).double()

    R_ss, R_qq = (torch.eye(n).double() for n in cross[0].shape[-2:])
    R_sq = torch.zeros(len(R_ss), len(R_qq)).double()
    for A in sets[0]:
        R_qq = R_qq + bar(A) @ R_qq
    for A, across in zip(*sets[1:], strict=True):
        R_ss, R_sq = R_ss + bar(A) @ R_ss, R_sq + bar(A) @ R_sq
        R_sq = R_sq + normalised(R_ss).T @ bar(across) @ normalised(R_qq)
    return (R_ss - torch.eye(len(R_ss)))[-1].numpy(), R_sq[-1].numpy()


def test_an_encoder_and_its_decoder_are_explained():
    model, source, target = encoder_decoder()
    with mhaviz.record(model) as recording:
        y = model(source, target)[0, -1, 0]
    found = recording.relevance(y)
    y = model(source, target)[0, -1, 0]
    sets = ([layer.weights for layer in part] for part in (model.encoder, model.decoder, model.cross))
    written, text = both_by_the_paper(y, *sets)
    assert found.text.relevance == pytest.approx(text, rel=1e-9, abs=1e-12)
    assert found.written.relevance == pytest.approx(written, rel=1e-9, abs=1e-12)
    assert found.removal == "none"


def captioner(implementation):
    """A ViT whose patches a GPT-2 reads by cross-attention, of two layers each."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    of_image = transformers.ViTConfig(**sizes, image_size=32, patch_size=8, attn_implementation=implementation)
    of_text = transformers.GPT2Config(
        n_embd=32,
        n_layer=2,
        n_head=4,
        vocab_size=50,
        bos_token_id=0,
        eos_token_id=0,
        add_cross_attention=True,
        attn_implementation=implementation,
    )
    torch.manual_seed(0)
    encoder, decoder = transformers.ViTModel(of_image), transformers.GPT2LMHeadModel(of_text)
    return transformers.VisionEncoderDecoderModel(encoder=encoder, decoder=decoder).double().eval()


def test_a_caption_is_explained_by_the_patches_of_its_image():
    model, eager = captioner("sdpa"), captioner("eager")
    random = torch.Generator().manual_seed(0)
    image, caption = torch.randn(1, 3, 32, 32, generator=random).double(), torch.tensor([[1, 2, 3, 4]])
    with mhaviz.record(model) as recording:
        y = model(pixel_values=image, decoder_input_ids=caption).logits[0, -1, 7]
    found = recording.relevance(y)
    out = eager(pixel_values=image, decoder_input_ids=caption, output_attentions=True)
    sets = out.encoder_attentions, out.decoder_attentions, out.cross_attentions
    written, patches = both_by_the_paper(out.logits[0, -1, 7], *sets)
    assert [len(weights) for weights in sets] == [2, 2, 2]
    # The eager weights of ViT are rounded to float32.
    assert found.text.relevance == pytest.approx(patches, rel=1e-6)
    assert found.written.relevance == pytest.approx(written, rel=1e-6)
    assert found.text.words.texts[:3] == ("cls_token", "0,0", "0,1")
    assert list(found.text.aside.nonzero()[0]) == [0]


@pytest.mark.parametrize(("how", "why"), [({"order": "cs"}, "in turn"), ({"reads": (0, 1)}, "the last layer of the")])
def test_what_joins_otherwise_is_refused(how, why):
    model, source, target = encoder_decoder(**how)
    with mhaviz.record(model) as recording:
        y = model(source, target)[0, -1, 0]
    refused(recording, y, why)


def test_padding_of_either_side_has_no_part():
    model, source, target = encoder_decoder()
    with mhaviz.record(model) as recording:
        y = model(source, target)[0, -1, 0]
    alone = recording.relevance(y)
    padded = (
        torch.cat([source, torch.randn(1, 2, 8).double()], dim=1),
        torch.cat([torch.randn(1, 1, 8).double(), target], 1),
    )
    masks = torch.arange(7)[None] < 5, torch.arange(4)[None] >= 1
    with mhaviz.record(model) as recording:
        y = model(*padded, masks[0], masks[1] | torch.eye(4, dtype=torch.bool))[0, -1, 0]
    found = recording.relevance(y)
    assert found.text.relevance[:5] == pytest.approx(alone.text.relevance, rel=1e-9, abs=1e-12)
    assert found.written.relevance[-3:] == pytest.approx(alone.written.relevance, rel=1e-9, abs=1e-12)


def test_recordings_of_one_graph_do_not_meet(x):
    model = stack()
    with mhaviz.record(model) as outer, mhaviz.record(model) as inner:
        y = model(x)[0, -1, 3]
    expected = by_the_paper(model, x)
    for recording in (outer, inner):
        assert recording.relevance(y).text.relevance == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_attention_of_another_recording_is_not_left_out(x):
    model = stack()
    with mhaviz.record(model.layers[0]):
        hidden = model.layers[0](x)
    with mhaviz.record(model.layers[1]) as second:
        y = model.layers[1](hidden)[0, 0, 0]
    refused(second, y, "attention that was not recorded here")


def test_a_prediction_is_explained_within_a_recording():
    with mhaviz.record():
        found = mhaviz.attend("translation", "the small black cat", show="relevance", why="noir")
    assert found.text.words.texts[found.text.ranked[0]] == "black"


@pytest.mark.parametrize("axes", ["plain", "three", "turned"])
def test_nothing_is_left_of_a_graph(axes):
    """Whatever the order of a program's axes."""
    order = {"plain": (0, 1, 2, 3), "three": (0, 2, 1, 3), "turned": (1, 0, 2, 3)}[axes]

    class Program(nn.Module):
        def __init__(self):
            super().__init__()
            self.project = nn.Linear(8, 24)

        def forward(self, x):
            parts = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.project(x).chunk(3, dim=-1))
            q, k, v = (part.flatten(0, 1) if axes == "three" else part.permute(order) for part in parts)
            return F.scaled_dot_product_attention(q, k, v)

    model = Program()
    with mhaviz.record(model) as recording:
        y = model(torch.randn(1, 5, 8)).sum()
    held = [weakref.ref(one) for one in _held(y.grad_fn)]
    assert held
    del y
    gc.collect()
    assert not any(one() for one in held)
    assert not recording.is_empty


def test_two_stacks_that_are_alike_are_refused(x):
    torch.manual_seed(0)
    model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True).double().eval()
    with mhaviz.record(model) as recording:
        y = model(x, torch.randn(1, 3, 8).double())[0, -1, 0]
    refused(recording, y, "how these join is not known")

"""Zeroing a head gives what the model gives without it: the rows of W_O that read the head are zero then."""

import pytest
import torch
import transformers as hf
from families import EAGER, FAMILIES, OTHERS, V, word_pieces
from rounding import rounding
from transformers.pytorch_utils import Conv1D

from mhaviz.models.transformers.model import model_in_memory

CLOSE = rounding(depth=2)

TEXTS, TARGET = ("the cat sat on the mat", "hello cat"), "the mat ran"
PROJECTIONS = {
    "bert": {"self": "encoder.layer.{}.attention.output.dense"},
    "gpt2": {"masked": "h.{}.attn.c_proj"},
    "llama": {"masked": "layers.{}.self_attn.o_proj"},
    "t5": {
        "self": "encoder.block.{}.layer.0.SelfAttention.o",
        "masked": "decoder.block.{}.layer.0.SelfAttention.o",
        "cross": "decoder.block.{}.layer.1.EncDecAttention.o",
    },
    "gpt_oss": {"masked": "layers.{}.self_attn.o_proj"},
    "gptj": {"masked": "h.{}.attn.out_proj"},
    "falcon": {"masked": "h.{}.self_attention.dense"},
    "bloom": {"masked": "h.{}.self_attention.dense"},
    "deberta": {"self": "encoder.layer.{}.attention.output.dense"},
    "xlm": {"self": "attentions.{}.out_lin"},
}
"""The layer after the heads, by the kind of attention and the number of the layer."""

MADE = (
    FAMILIES
    | EAGER
    | OTHERS
    | {"xlm": (hf.XLMModel, lambda: hf.XLMConfig(vocab_size=V, emb_dim=32, n_layers=2, n_heads=4), word_pieces)}
)


@pytest.fixture(scope="module", params=PROJECTIONS)
def family(request):
    """Its name, a small model with random weights, and what is read."""
    model_class, config, tokenizer = MADE[request.param]
    torch.manual_seed(0)
    model = model_class(config()).eval()
    for name, parameter in model.named_parameters():
        if "norm" not in name.lower() and "ln" not in name:
            torch.nn.init.normal_(parameter, std=0.3)
    looked_at = model_in_memory(model, tokenizer())
    if model.config.is_encoder_decoder:
        return request.param, looked_at, looked_at.encode(TEXTS[:1], TARGET)
    return request.param, looked_at, looked_at.encode_unnamed(TEXTS)


def without_rows(projection, head, n_heads):
    """Zero the part of a layer's weights that reads the head; returns what undoes it."""
    weight = projection.weight if isinstance(projection, Conv1D) else projection.weight.T  # features of heads first
    before = weight.detach().clone()
    size = weight.shape[0] // n_heads
    with torch.no_grad():
        weight[head * size : (head + 1) * size] = 0

    def undo():
        with torch.no_grad():
            weight.copy_(before)

    return undo


def test_a_zeroed_head_is_one_whose_rows_of_W_O_are_zero(family):
    name, model, inputs = family
    whole = model.predictor.pooled(inputs)
    for site in model.all_sites:
        projection = model.loaded.model.base_model.get_submodule(PROJECTIONS[name][site.kind].format(site.layer))
        for head in (0, site.n_heads - 1):
            zeroed = model.zeroing([(site, head)]).predictor.pooled(inputs)
            undo = without_rows(projection, head, site.n_heads)
            expected = model.predictor.pooled(inputs)
            undo()
            assert torch.allclose(zeroed, expected, atol=CLOSE * float(whole.abs().max()))
            assert not torch.allclose(zeroed, whole, atol=CLOSE * float(whole.abs().max()))
    assert torch.equal(model.predictor.pooled(inputs), whole)


def test_several_heads_at_once(family):
    name, model, inputs = family
    heads = [(site, head) for site in model.all_sites for head in (0, 1)]
    zeroed = model.zeroing(heads).predictor.pooled(inputs)
    undone = [
        without_rows(
            model.loaded.model.base_model.get_submodule(PROJECTIONS[name][site.kind].format(site.layer)),
            head,
            site.n_heads,
        )
        for site, head in heads
    ]
    expected = model.predictor.pooled(inputs)
    for undo in reversed(undone):
        undo()
    assert torch.allclose(zeroed, expected, atol=CLOSE * float(expected.abs().max()))

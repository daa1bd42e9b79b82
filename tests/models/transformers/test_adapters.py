"""Models of peft in memory, with adapters inside the model or outside: stand-ins with the names of peft in use."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rounding import rounding
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer

import mhaviz
from mhaviz.errors import ArgumentError

CLOSE = rounding(depth=2)
TEXT = "the cat sat on the mat"


class LowRank(nn.Module):
    """A linear layer beside which a product of two narrow matrices is added, as in Hu et al. 2021, arXiv 2106.09685."""

    def __init__(self, layer, rank=2):
        super().__init__()
        self.base_layer, self.dropout = layer, nn.Dropout(0.5)
        self.A, self.B = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x):
        return self.base_layer(x) + self.B(self.A(self.dropout(x)))


class Peft(nn.Module):
    """As ``peft.PeftModel``."""

    def __init__(self, within, **configs):
        super().__init__()
        self.within, self.peft_config = within, configs

    def get_base_model(self):
        return self.within

    def forward(self, **given):
        return self.within(**given)


class Prompted(Peft):
    """As with prompts that are learnt: they are put before the text, as embeddings."""

    def forward(self, input_ids, attention_mask):
        embedded = self.within.get_input_embeddings()(input_ids)
        return self.within(inputs_embeds=torch.cat([torch.ones_like(embedded[:, :2]), embedded], dim=1))


@pytest.fixture
def given(model_folder):
    """A model and its tokenizer."""
    folder = model_folder("llama")
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def test_adapters_inside_a_model_are_applied(given):
    """As when they are merged into its weights; the base model is another."""
    model, tokenizer = given
    base = mhaviz.load(model, tokenizer).attend(TEXT)
    merged = copy.deepcopy(model)
    for layer, to in zip(model.model.layers, merged.model.layers, strict=True):
        for name in ("q_proj", "k_proj"):
            adapted = LowRank(getattr(layer.self_attn, name))
            setattr(layer.self_attn, name, adapted)
            with torch.no_grad():
                adapted.A.weight.normal_(std=0.3)
                adapted.B.weight.normal_(std=0.3)
                getattr(to.self_attn, name).weight += adapted.B.weight @ adapted.A.weight
    whole = Peft(model).train()
    found = mhaviz.load(whole, tokenizer).attend(TEXT)
    assert all(part.training for part in whole.modules())
    merged.set_attn_implementation("eager")
    with torch.no_grad():
        expected = merged.eval()(**tokenizer(TEXT, return_tensors="pt"), output_attentions=True).attentions
    for m, without, weights in zip(found, base, expected, strict=True):
        np.testing.assert_allclose(m.weights, weights[0], atol=CLOSE)
        assert abs(m.weights - without.weights).max() > 0.02


@pytest.mark.parametrize(
    "wrap", [Prompted, lambda model: Peft(model, default=SimpleNamespace(alora_invocation_tokens=[5]))]
)
def test_an_adapter_outside_of_the_model_is_refused(given, wrap):
    """What the model within it would draw is not what runs, or not with every text."""
    model, tokenizer = given
    with pytest.raises(ArgumentError, match=r"adapters inside the model, such as LoRA, got .*; observe it with mhaviz"):
        mhaviz.load(wrap(model), tokenizer)


def test_what_is_around_no_model_of_transformers(given):
    with pytest.raises(ArgumentError, match="expected a name, a path or a transformers model, got Peft"):
        mhaviz.load(Peft(nn.Linear(2, 2)), given[1])

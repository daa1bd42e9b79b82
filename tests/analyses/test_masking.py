"""Masks and dropout, against PyTorch's own layer, its dropout, and models of transformers."""

import numpy as np
import pytest
import torch
from looking import encoded
from rounding import rounding
from torch import nn

import mhaviz
from mhaviz.analyses.masking import masking
from mhaviz.errors import ArgumentError
from mhaviz.layer.seeding import seeded
from mhaviz.limits import MOST_LOOKED_INTO
from mhaviz.models.single_layer import RandomLayer
from mhaviz.views.showing import figure_of

CLOSE = rounding()

BATCH = ["the cat sat on the mat", "a dog barks"]
LENGTHS = (6, 3)


def layer_of(causal=False):
    return RandomLayer(16, 4, device_name="cpu", causal=causal)


def step(layer, name):
    """A tensor of the textbook's layer, of the whole padded batch."""
    return torch.from_numpy(layer.trace(layer.encode(BATCH), values=True, most_values=10**6).step(name).values)


@pytest.mark.parametrize("causal", [False, True])
def test_against_pytorchs_layer_with_its_two_masks(causal):
    layer = layer_of(causal)
    m = masking(*encoded(layer, BATCH), range(4))
    with seeded(layer.seed):
        ours = mhaviz.MultiHeadAttention(16, 4)
    theirs = nn.MultiheadAttention(16, 4, batch_first=True, dtype=torch.float64).eval()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.Wq.weight, ours.Wk.weight, ours.Wv.weight]))
    X = step(layer, "X").double()
    padding = torch.arange(6) >= torch.tensor(LENGTHS)[:, None]
    later = torch.ones(6, 6, dtype=torch.bool).triu(1) if causal else None
    _, A = theirs(X, X, X, key_padding_mask=padding, attn_mask=later, average_attn_weights=False)
    for one, weights, length in zip(m.sentences, A.detach(), LENGTHS, strict=True):
        np.testing.assert_allclose(one.weights, weights, atol=CLOSE)
        np.testing.assert_array_equal(one.hidden, weights == 0)
        np.testing.assert_array_equal(one.padding, ~np.outer(np.arange(6) < length, np.arange(6) < length))
        assert len(one.keys) == length
    np.testing.assert_allclose(np.stack([one.scores for one in m.sentences]), step(layer, "S"), atol=CLOSE)


@pytest.mark.parametrize("seed", [0, 7])
def test_the_dropped_weights_are_those_of_pytorchs_dropout(seed):
    layer = layer_of(causal=True)
    m = masking(*encoded(layer, BATCH), [1, 2], dropout=0.3, seed=seed)
    torch.manual_seed(seed)
    expected = nn.Dropout(0.3)(step(layer, "A"))
    for i, one in enumerate(m.sentences):
        np.testing.assert_allclose(one.kept, expected[i, [1, 2]], atol=CLOSE)
        assert (one.kept[one.dropped] == 0).all()
        np.testing.assert_allclose(one.kept[~one.dropped], one.weights[~one.dropped] / 0.7, atol=CLOSE)


def test_the_layer_in_training_drops_the_same():
    layer = layer_of()
    m = masking(*encoded(layer, BATCH[:1]), range(4), dropout=0.25, seed=3)
    with seeded(layer.seed):
        attention = mhaviz.MultiHeadAttention(16, 4, dropout=0.25).train()
    made = {}

    def keep(definition, tensor, axes):
        made[definition.partition(" = ")[0]] = tensor
        return tensor

    X = torch.from_numpy(layer.trace(layer.encode(BATCH[:1]), values=True).step("X").values)
    torch.manual_seed(3)
    attention(X, X, X, step=keep)
    (one,) = m.sentences
    H = torch.from_numpy(one.kept) @ made["V heads"][0]
    torch.testing.assert_close(H, made["H"][0], atol=CLOSE, rtol=0)


def test_a_draw_leaves_the_callers_random_numbers_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    masking(*encoded(layer_of(), BATCH), [0], dropout=0.5)
    torch.testing.assert_close(torch.rand(3), expected)


@pytest.mark.parametrize("name", ["mistral", "t5"])
def test_masks_of_models_are_their_own(model_folder, name):
    """Mistral's sliding window; T5, whose mask also adds a bias to the scores, which is there before the mask too."""
    import transformers

    text = "the cat sat on the mat playing hello the cat"
    m = mhaviz.load(model_folder(name), device="cpu").masks(text, head=None)
    auto = transformers.AutoModelForSeq2SeqLM if name == "t5" else transformers.AutoModelForCausalLM
    model = auto.from_pretrained(model_folder(name), attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder(name))
    (one,) = m.sentences
    ids = tokenizer(text, return_tensors="pt")
    if name == "t5":
        ids["decoder_input_ids"] = torch.tensor([one.queries.ids])
    with torch.no_grad():
        made = model(**ids, output_attentions=True)
    weights = (made.decoder_attentions if name == "t5" else made.attentions)[0][0]
    np.testing.assert_allclose(one.weights, weights, atol=CLOSE)
    np.testing.assert_array_equal(one.hidden, weights == 0)
    scores = torch.from_numpy(np.where(one.hidden, -np.inf, one.scores))
    np.testing.assert_allclose(torch.softmax(scores, dim=-1), weights, atol=CLOSE)
    assert one.hidden.any()


def test_the_bias_of_keys_that_the_same_mask_hides_is_not_known(model_folder):
    m = mhaviz.load(model_folder("t5"), device="cpu").masks(["the cat sat on the mat", "hello"], kind="self")
    short = m.sentences[1]
    assert short.padding.any()
    np.testing.assert_array_equal(np.isnan(short.scores), short.hidden)
    assert figure_of(m) is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dropout": 1.0}, "`dropout`: expected a share from 0 to less than 1, got 1"),
        ({"dropout": float("nan")}, "`dropout`: expected a share from 0 to less than 1, got nan"),
        ({"heads": [4]}, "expected a head from 0 to 3, got 4"),
        ({"sentences": ["a " * (MOST_LOOKED_INTO + 1)]}, "expected at most 512 tokens, got 513"),
    ],
)
def test_what_cannot_be_shown(options, message):
    model = encoded(layer_of(), options.pop("sentences", BATCH))
    with pytest.raises(ArgumentError, match=message):
        masking(*model, **{"heads": [0]} | options)

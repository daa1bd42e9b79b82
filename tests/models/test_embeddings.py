"""What goes into the first layer of mhaviz's own models, against torch and the formula of the sinusoids."""

import numpy as np
import pytest
import torch
from rounding import rounding
from torch.nn import functional

import mhaviz
from mhaviz.errors import ArgumentError
from mhaviz.models.single_layer import RandomLayer
from mhaviz.models.trained_model import TrainedModel
from mhaviz.training.loading import load_checkpoint

CLOSE = rounding()


def angles(length, d_model):
    features = np.arange(d_model)
    angle = np.arange(length)[:, None] / 10000 ** (features // 2 * 2 / d_model)
    return np.where(features % 2, np.cos(angle), np.sin(angle))


@pytest.mark.parametrize(("target", "table"), [(None, "source"), ("le petit chat", "target")])
def test_of_the_translator(target, table):
    model = TrainedModel(load_checkpoint("translation"), "cpu")
    e = model.embed("the small cat", target)
    weights = dict(model.checkpoint.model.named_parameters())[f"{table}_embeddings.lookup.weight"].detach()
    E = functional.embedding(torch.tensor(e.tokens.ids), weights).numpy() * np.sqrt(64)
    np.testing.assert_allclose(e["E"], E, rtol=CLOSE)
    np.testing.assert_allclose(e["PE"], angles(len(e.tokens), 64), atol=CLOSE)
    np.testing.assert_allclose(e["X"], E + angles(len(e.tokens), 64), atol=CLOSE)
    assert e.is_target == (target is not None)
    assert e.tokens.texts == (("the", "small", "cat") if target is None else ("<start>", "le", "petit", "chat"))


def test_a_random_layer_reads_what_is_shown():
    e = RandomLayer(16, 4, device_name="cpu").embed("one two one")
    read = RandomLayer(16, 4, device_name="cpu").projection_inputs("one two one").embedded
    np.testing.assert_array_equal(e["X"], read)
    np.testing.assert_allclose(e["E"] + angles(3, 16), read, atol=CLOSE)
    np.testing.assert_array_equal(e["E"][0], e["E"][2])
    assert e.repeated == (0, 2)
    assert RandomLayer(16, 1, device_name="cpu").embed("one two").repeated is None


def test_cosines_are_those_of_torch():
    e = mhaviz.embeddings(mhaviz.load(d_model=16, n_heads=1, device="cpu"), "one two three")
    for part in e.parts:
        x = torch.from_numpy(part.values)
        np.testing.assert_allclose(part.cosines, torch.cosine_similarity(x[:, None], x[None], dim=-1), atol=CLOSE)
        np.testing.assert_allclose(part.norms, x.norm(dim=1), rtol=CLOSE)
    with pytest.raises(KeyError):
        _ = e["T"]


@pytest.mark.parametrize(
    ("model", "text", "target", "message"),
    [
        ("random", "one", "two", "has no decoder; leave out `target`"),
        ("random", "?", None, "at least one word"),
        ("random", "one two " * 2049, None, "at most 4,096 tokens, as every two of them are compared, got 4,098"),
        ("translation", "zebra", None, "has not learnt"),
    ],
)
def test_what_cannot_be_embedded(model, text, target, message):
    with pytest.raises(ArgumentError, match=message):
        mhaviz.load(model, device="cpu").embeddings(text, target)


def test_parameters_of_an_attention_have_no_embeddings(tmp_path):
    torch.save(torch.nn.MultiheadAttention(8, 2).state_dict(), tmp_path / "layer.pt")
    with pytest.raises(ArgumentError, match="expected a model with embeddings, got only the parameters"):
        mhaviz.load(tmp_path / "layer.pt", n_heads=2).embeddings("one two")

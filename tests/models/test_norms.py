"""Norms of what keys add to outputs, of single layers and of the bundled translator, beside the same by hand."""

import numpy as np
import pytest
import torch
from rounding import rounding
from torch import nn

import mhaviz
from mhaviz.errors import ArgumentError
from mhaviz.models.load import load_model


def norms_of(seen):
    return seen.call.weights() * seen.call.value_norms[:, :, None]


CLOSE = rounding()


def by_hand(A, V, W_out):
    """A (n_heads, q_length, k_length), V (k_length, d_model), W_out (d_model, d_model), in float64."""
    A, V, W_out = (np.asarray(x, np.float64) for x in (A, V, W_out))
    d_key = len(W_out) // len(A)
    heads = [slice(h * d_key, (h + 1) * d_key) for h in range(len(A))]
    return np.stack(
        [np.linalg.norm(a[..., None] * (V[:, h] @ W_out[h]), axis=-1) for a, h in zip(A, heads, strict=True)]
    )


@pytest.mark.parametrize("pieces", [3, 4096])
def test_a_saved_layer(tmp_path, monkeypatch, pieces):
    """Beside torch's own: its weights, its values, its projection."""
    monkeypatch.setattr("mhaviz.models.layer_inputs.PIECE", pieces)
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(16, 4, batch_first=True).double()
    X = torch.randn(1, 7, 16, dtype=torch.float64)
    torch.save(theirs.state_dict(), tmp_path / "w.pt")
    torch.save(X[0], tmp_path / "x.pt")
    loaded = mhaviz.load(tmp_path / "w.pt", n_heads=4, input=tmp_path / "x.pt")
    (found,) = loaded.attend(show="norms").maps
    (some,) = loaded.attend(show="norms", head=[2, 0]).maps
    with torch.no_grad():
        _, A = theirs(X, X, X, average_attn_weights=False)
        V = nn.functional.linear(X[0], theirs.in_proj_weight[32:], theirs.in_proj_bias[32:])
        expected = by_hand(A[0], V, theirs.out_proj.weight.T)
    assert found.quantity.key == "norm"
    np.testing.assert_allclose(found.weights, expected, rtol=CLOSE)
    np.testing.assert_allclose(some.weights, expected[[2, 0]], rtol=CLOSE)


def test_the_translator():
    """All three kinds, a sentence at a time and several at once."""
    model = load_model("translation")
    inputs = model.encode(["the small black cat sees my car"])
    made, translator = {}, model.checkpoint.model
    blocks = {"self": translator.encoder_self, "masked": translator.decoder_self, "cross": translator.decoder_source}
    handles = [
        block.attention.Wv.register_forward_hook(lambda _, __, V, kind=kind: made.update({kind: V[0]}))
        for kind, block in blocks.items()
    ]
    weights, norms, together = {}, {}, {}
    with torch.no_grad():
        model.run(inputs, lambda seen: weights.update({seen.site.kind: seen.call.weights()[0]}))
        model.with_norms().run(
            inputs,
            lambda seen: norms.update({seen.site.kind: norms_of(seen)[0]}),
        )
        model.with_norms().run(
            inputs,
            lambda seen: together.update({seen.site.kind: norms_of(seen)[0]}),
            None,
            True,
        )
        for handle in handles:
            handle.remove()
        for kind, block in blocks.items():
            expected = by_hand(weights[kind], made[kind], block.attention.Wo.weight.T)
            np.testing.assert_allclose(norms[kind], expected, rtol=CLOSE, atol=CLOSE)
            np.testing.assert_allclose(together[kind], expected, rtol=CLOSE, atol=CLOSE)


def test_a_random_layer_alone_and_in_a_batch(tmp_path):
    """The batch pads the shorter sentence; files keep what the numbers are."""
    loaded = mhaviz.load(d_model=16, n_heads=2)
    attention = loaded.attend(["a b c", "a b"], show="norms")
    model = load_model("random", d_model=16, n_heads=2)
    found = []
    model.with_norms().run(
        model.encode(["a b c", "a b"]),
        lambda seen: found.append(norms_of(seen)),
        batched=True,
    )
    np.testing.assert_allclose(found[0][0], attention.maps[0].weights, rtol=CLOSE)
    np.testing.assert_allclose(found[0][1, :, :2, :2], attention.maps[1].weights, rtol=CLOSE)
    for name in ("norms.json", "norms.safetensors"):
        attention.save(tmp_path / name)
        again = mhaviz.read(tmp_path / name)
        assert [m.quantity.key for m in again.maps] == ["norm", "norm"]
        np.testing.assert_array_equal(again.maps[0].weights, attention.maps[0].weights)
    change = mhaviz.diff(attention, loaded.attend(["a b c", "a b"], show="norms"))
    assert np.isnan(change.maps[0].divergence).all()
    assert not change.maps[0].change.weights.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"show": "both"}, "`show`: expected weights or norms or uniform or rollout or relevance, got 'both'"),
    ],
)
def test_what_does_not_go_with_norms(options, message):
    with pytest.raises(ArgumentError, match=message):
        mhaviz.load(d_model=8, n_heads=2).attend("a b", **{"show": "norms"} | options)


def test_values_of_many_keys_that_share_heads(monkeypatch):
    """In pieces, and of heads that share their values in groups; a value that W_O takes away has a norm of 0."""
    from mhaviz.attention import norms

    monkeypatch.setattr(norms, "_KEYS_AT_ONCE", 3)
    torch.manual_seed(0)
    V, W_out = torch.randn(2, 2, 7, 3), torch.randn(4, 3, 5)
    W_out[1, 0] = 0
    V[1, 0, 2] = torch.tensor([1e4, 0.0, 0.0])
    found = norms.value_norms(V, norms.gram_matrices(W_out))
    expected = torch.einsum("bgkd,gmde->bgmke", V.double(), W_out.double().view(2, 2, 3, 5)).norm(dim=-1).flatten(1, 2)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=CLOSE, atol=0)
    assert found[1, 1, 2] == 0

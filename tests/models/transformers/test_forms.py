"""Models whose attention is not in every layer, or not of the usual form, and what is said of what cannot be shown."""

import shutil

import numpy as np
import pytest
import torch
from looking import attend, calls, encoded, traced
from rounding import rounding
from safetensors.torch import load_file, save_file

from mhaviz.analyses.rollout import rollout
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.models.transformers.load import load_checkpoint
from mhaviz.models.transformers.model import TransformersModel
from mhaviz.models.transformers.run import field_of
from mhaviz.models.transformers.sites import find_sites

CLOSE = rounding(depth=4)

TEXT = "the cat sat on the mat playing hello"


@pytest.mark.parametrize(
    ("name", "layers"), [("zamba2", [1, 3]), ("zamba2_with_one", [1]), ("zamba", [1, 2]), ("jamba", [1, 3])]
)
def test_layers_of_a_hybrid_have_their_own_numbers(pretrained, eager, name, layers):
    """Zamba's attentions share their weights, and are told where they run when they run."""
    model = pretrained(name)
    types = model.loaded.model.config.layer_types
    assert [i for i, kind in enumerate(types) if kind in ("hybrid", "full_attention", "attention")] == layers
    maps = attend(model, [TEXT]).maps
    assert [m.layer for m in maps] == layers
    ids = torch.tensor([model.loaded.tokenizer(TEXT)["input_ids"]])
    for m, weights in zip(maps, eager(name, ids).values(), strict=True):
        np.testing.assert_allclose(m.weights, weights[0], atol=CLOSE)
    assert [m.layer for m in rollout(*encoded(model, [TEXT])).maps] == layers
    assert attend(model.select((layers[-1],)), [TEXT]).maps[0].layer == layers[-1]


def test_a_layer_that_runs_again_and_again_is_counted(tmp_path, model_folder):
    import transformers

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
    config = transformers.AlbertConfig(vocab_size=300, embedding_size=32, **sizes)
    transformers.AlbertModel(config).save_pretrained(tmp_path / "albert")
    for path in model_folder("bert").glob("token*"):
        shutil.copy(path, tmp_path / "albert")
    sites = find_sites(load_checkpoint(str(tmp_path / "albert"), torch.device("cpu"))).sites
    assert [site.layer for site in sites] == [0, 1, 2]


def test_masks_that_a_model_makes_by_the_name_of_its_attention(pretrained, eager):
    """HYV4 hides keys that it has not chosen, five a query here, where it is told that it runs eagerly."""
    model = pretrained("hy_v4")
    maps = attend(model, [TEXT]).maps
    expected = eager("hy_v4", torch.tensor([model.loaded.tokenizer(TEXT)["input_ids"]])).values()
    for m, weights in zip(maps, expected, strict=True):
        assert int((weights[0, 0, -1] > 0).sum()) == 5
        np.testing.assert_allclose(m.weights, weights[0], atol=CLOSE)


def test_a_decoder_beside_an_encoder_of_another_form(pretrained, eager):
    model = pretrained("led")
    assert model.loaded.unshown == ("self",)
    attention = attend(model, [TEXT], "a dog")
    assert [(m.kind, m.layer) for m in attention.maps] == [("masked", 0), ("cross", 0)]
    tokenizer, start = model.loaded.tokenizer, model.loaded.model.config.decoder_start_token_id
    ids, produced = (torch.tensor([tokenizer(text)["input_ids"]]) for text in (TEXT, "a dog"))
    target_ids = torch.cat([torch.tensor([[start]]), produced[:, :-1]], dim=1)
    expected = eager("led", ids, torch.ones_like(ids), target_ids)
    for m in attention.maps:
        np.testing.assert_allclose(m.weights, expected[m.kind, m.layer][0], atol=CLOSE)
    assert attention.source.remark.startswith("the encoder's attention is not shown; ")
    assert attention.source.details["unshown"] == ["self"]
    with pytest.raises(ArgumentError, match="expected a kind of attention that"):
        model.select(kind="self")


def test_blocks_that_a_short_text_has_no_need_of(pretrained):
    """BigBird reads a short text without its blocks, and stays so: a long one after it must have them again."""
    for name, target, part in (("bigbird", None, ""), ("bigbird_pegasus", "a dog", "encoder")):
        model = pretrained(name)
        maps = [m for m in attend(model, [TEXT], target).maps if m.kind == "self"]
        np.testing.assert_allclose(maps[0].weights.sum(axis=2), 1, atol=CLOSE)
        with pytest.raises(MhavizError, match=r"in a form of its own .*; try a shorter text"):
            attend(model, [" ".join([TEXT] * 9)], target)
        assert model.loaded.model.base_model.get_submodule(part).attention_type == "block_sparse"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nystromformer", r"\(nystromformer\) cannot be run \("),
        ("clip", r"\(clip\) cannot be run on text alone"),
    ],
)
def test_what_cannot_be_shown(pretrained, name, message):
    with pytest.raises(MhavizError, match=message):
        pretrained(name)


def test_why_a_model_cannot_be_run(model_folder):
    with pytest.raises(MhavizError, match=r"\(xlnet\) cannot be run \(expected .* Float but found BFloat16\)"):
        find_sites(load_checkpoint(str(model_folder("xlnet")), torch.device("cpu"), dtype="bfloat16"))


def test_the_output_of_a_gate_is_not_that_of_the_attention(pretrained):
    """Laguna's gate is applied after the attention, and to as many numbers; Zamba reads twice what it writes."""
    for name, layer, features in (("laguna", 0, 32), ("zamba", 1, 32)):
        model = pretrained(name)
        steps = traced(model.select((layer,)), [TEXT]).steps
        assert (steps[-1].name, steps[-1].equation) == ("O", "concat o_proj")
        assert steps[-1].shape[2] == features


def test_fields_that_each_layer_has_its_own_of():
    class Config:
        hidden_size = 8

        @property
        def sliding_window(self):
            raise RuntimeError("it may vary across layers")

    assert [field_of(Config(), name) for name in ("hidden_size", "sliding_window", "other")] == [8, None, None]


@pytest.fixture
def broken(model_folder, tmp_path):
    """A family's model with one number changed."""

    def make(name, parameter, row, number):
        folder = tmp_path / name
        shutil.copytree(model_folder(name), folder)
        tensors = load_file(folder / "model.safetensors")
        tensors[parameter][row] = number
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return TransformersModel.of(load_checkpoint(str(folder), torch.device("cpu")))

    return make


@pytest.mark.parametrize(
    ("name", "parameter", "row", "message"),
    [
        ("llama", "model.layers.0.mlp.up_proj.weight", 0, "layer 1, masked: expected queries .* in all heads;"),
        ("by_hand", "transformer.h.1.attn.q_proj.weight", 17, "layer 1, masked: expected weights .* in L1 H2;"),
        ("gpt_oss", "model.layers.1.self_attn.sinks", 2, "layer 1, masked: expected weights .* in L1 H2;"),
        ("t5", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 0, "layer 0, self: .* weights"),
    ],
)
def test_nan_is_found_where_it_arises(broken, name, parameter, row, message):
    model = broken(name, parameter, row, torch.nan)
    with pytest.raises(MhavizError, match=message):
        attend(model, [TEXT], "a dog" if name == "t5" else None)


def test_padding_may_be_nan(broken):
    """The embedding of a token that no text holds, and that stands for padding: texts are then read one by one."""
    model = broken("bert", "embeddings.word_embeddings.weight", 0, torch.nan)
    seen = calls(model, [TEXT, "hello"], batched=True)
    assert len(seen) == 4
    assert all(bool(batch.call.weights().isfinite().all()) for batch in seen)

"""Checkpoints of transformers on the command line."""

import io
import json
import os
import shutil
import sys
import tomllib
import typing
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import errors
from rounding import rounding
from safetensors.numpy import load_file

from mhaviz import devices
from mhaviz.api import loaded
from mhaviz.attention.call import AttentionCall
from mhaviz.errors import MhavizError
from mhaviz.models import load

CLOSE = rounding(depth=2)

TEXT = "the cat sat"


def test_every_layer_of_a_model(mhaviz, model_folder, tmp_path):
    saved = [tmp_path / f"maps.{suffix}" for suffix in ("png", "json", "safetensors")]
    outputs = [part for path in saved for part in ("-o", str(path))]
    result = mhaviz("heatmap", TEXT, "--model", str(model_folder("bert")), *outputs, "--dpi", "50")
    assert result.status == 0, result.err
    assert "layer 1" in result.out
    assert "[CLS] the cat sat [SEP]" in result.out
    assert "bert: BertModel, 2 layers, 4 heads each" in result.out
    document = json.loads(saved[1].read_text())
    assert [m["layer"] for m in document["maps"]] == [0, 1]
    assert document["maps"][0]["queries"] == ["[CLS]", "the", " cat", " sat", "[SEP]"]
    assert document["maps"][0]["special_keys"] == [0, 4]
    assert document["source"]["model"] == str(model_folder("bert"))
    assert set(load_file(saved[2])) == {"layer.0.self", "layer.1.self"}
    again = mhaviz("show", str(saved[2]), "-o", str(tmp_path / "again.png"), "--dpi", "50")
    assert again.out == result.out
    assert (tmp_path / "again.png").read_bytes() == saved[0].read_bytes()


def test_chosen_layers_and_heads(mhaviz, model_folder):
    result = mhaviz("heatmap", TEXT, "--model", str(model_folder("llama")), "--layer", "1", "--head", "3,0", "--json")
    (m,) = json.loads(result.out)["maps"]
    assert (m["layer"], m["heads"], m["kind"]) == (1, [3, 0], "masked")
    (whole,) = json.loads(mhaviz("heatmap", TEXT, "--model", str(model_folder("llama")), "--layer", "1", "--json").out)[
        "maps"
    ]
    np.testing.assert_allclose(m["weights"], np.array(whole["weights"])[[3, 0]], atol=CLOSE)


def test_an_encoder_with_a_decoder(mhaviz, model_folder):
    model = ("--model", str(model_folder("bart")))
    document = json.loads(mhaviz("heatmap", TEXT, *model, "--target", "play hello", "--json").out)
    assert [(m["kind"], m["layer"]) for m in document["maps"]] == [
        ("self", 0), ("self", 1), ("masked", 0), ("cross", 0),
    ]  # fmt: skip
    *_, masked, cross = document["maps"]
    assert masked["queries"] == ["[SEP]", "[CLS]", "play", " hello"]
    assert cross["queries"] == ["[CLS]", "play", " hello", "[SEP]"]
    written = json.loads(mhaviz("heatmap", TEXT, *model, "--kind", "cross", "--generate", "5", "--json").out)
    (m,) = written["maps"]
    assert 1 <= len(m["queries"]) <= 5
    assert m["keys"] == cross["keys"]


def test_what_a_decoder_writes(mhaviz, model_folder):
    model = ("--model", str(model_folder("gpt2")))
    document = json.loads(mhaviz("heatmap", TEXT, *model, "--generate", "6", "--json").out)
    m = document["maps"][0]
    prompt = json.loads(mhaviz("heatmap", TEXT, *model, "--json").out)["maps"][0]["queries"]
    assert m["queries"][: len(prompt)] == prompt
    assert len(prompt) < len(m["queries"]) <= len(prompt) + 6
    assert document["source"]["prompt_lengths"] == [len(prompt)]
    # The same text without a cache: the map of the whole is one forward pass.
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model[1])
    transformer = AutoModelForCausalLM.from_pretrained(model[1], attn_implementation="eager").eval()
    ids = torch.tensor([tokenizer(TEXT)["input_ids"]])
    with torch.no_grad():
        for _ in range(len(m["queries"]) - len(prompt)):
            ids = torch.cat([ids, transformer(ids).logits[:, -1:].argmax(dim=-1)], dim=1)
        weights = transformer(ids, output_attentions=True).attentions
    np.testing.assert_allclose(m["weights"], weights[0][0], atol=CLOSE)


def test_without_special_tokens(mhaviz, model_folder):
    model = ("--model", str(model_folder("bert")))
    first = json.loads(mhaviz("heatmap", TEXT, *model, "--hide-special", "--json").out)["maps"][0]
    whole = json.loads(mhaviz("heatmap", TEXT, *model, "--json").out)["maps"][0]
    assert first["queries"] == first["keys"] == ["the", " cat", " sat"]
    np.testing.assert_array_equal(first["weights"], np.array(whole["weights"])[:, 1:-1, 1:-1])
    share = np.array(whole["weights"])[:, 1:-1, [0, -1]].sum(2).mean(1)
    np.testing.assert_allclose(first["to_special"], share, atol=CLOSE)
    layer = mhaviz("heatmap", TEXT, *model, "--hide-special", "--layer", "0").out
    assert f"{share.mean():.2g} of a row goes to special tokens, on average" in " ".join(layer.split())


@pytest.mark.parametrize("option", ["--show=rollout", "--verify"])
def test_what_needs_all_tokens_is_computed_before_some_are_hidden(mhaviz, model_folder, option):
    model = ("--model", str(model_folder("bert")), option, "--json")
    (first, *_), (whole, *_) = (
        json.loads(mhaviz("heatmap", TEXT, *model, *hide).out)["maps"] for hide in (["--hide-special"], [])
    )
    np.testing.assert_array_equal(first["weights"], np.array(whole["weights"])[:, 1:-1, 1:-1])


def test_verify(mhaviz, model_folder):
    result = mhaviz("heatmap", TEXT, "--model", str(model_folder("gemma2")), "--verify", "--json")
    assert "verified: the weights give the model's own outputs, which reach " in result.err
    verified = json.loads(result.out)["source"]["verified"]
    assert [(v["kind"], v["layer"]) for v in verified] == [("masked", 0), ("masked", 1)]
    assert all(v["difference"] < CLOSE * v["size"] for v in verified)


def test_a_quiet_verification_tells_by_its_status(mhaviz, model_folder, monkeypatch, tmp_path):
    asked = ("heatmap", TEXT, "--model", str(model_folder("bert")), "--verify", "--quiet")
    quiet = mhaviz(*asked)
    assert (quiet.status, quiet.out, quiet.err) == (0, "", "")
    assert "exit with 1 if they differ" in " ".join(mhaviz("heatmap", "--help").out.replace("│", " ").split())
    mix = AttentionCall.mix
    monkeypatch.setattr(AttentionCall, "mix", lambda call, A: mix(call, A) + 0.1)
    failed = mhaviz(*asked, "-o", str(tmp_path / "x.png"))
    assert (failed.status, failed.out) == (1, "")
    assert "not verified: the weights do not give the model's own outputs" in failed.err
    assert not (tmp_path / "x.png").exists()


def test_rollout(mhaviz, model_folder):
    model = ("--model", str(model_folder("gpt2")))
    document = json.loads(mhaviz("heatmap", TEXT, *model, "--show", "rollout", "--layer", "1", "--json").out)
    (m,) = document["maps"]
    assert (m["layer"], m["rollout"]) == (1, True)
    maps = json.loads(mhaviz("heatmap", TEXT, *model, "--json").out)["maps"]
    weights = [np.mean(layer["weights"], axis=0) for layer in maps]
    half = np.eye(len(weights[0])) / 2
    np.testing.assert_allclose(m["weights"][0], (weights[1] / 2 + half) @ (weights[0] / 2 + half), atol=CLOSE)
    assert "rollout" in mhaviz("heatmap", TEXT, *model, "--show", "rollout").out


def test_a_long_input_is_pooled(mhaviz, model_folder, tmp_path):
    (tmp_path / "long.txt").write_text("the cat sat on the mat " * 60)
    arguments = ("--file", str(tmp_path / "long.txt"), "--whole", "--size", "40", "--layer", "0", "--json")
    result = mhaviz("heatmap", *arguments, "--model", str(model_folder("mistral")))
    (m,) = json.loads(result.out)["maps"]
    assert np.shape(m["weights"])[1] <= 40
    assert m["reach"] == 3
    assert m["summary"]["heads"][0]["local"] == pytest.approx(1)
    assert "cells" in result.err


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "gpt_oss", "bert", "bart"])
def test_studies_of_one_layer(mhaviz, model_folder, name):
    model = ("--model", str(model_folder(name)), "--layer", "0", *(("--target", "play a") if name == "bart" else ()))
    explained = json.loads(mhaviz("explain", TEXT, "--token", "#1", *model, "--json").out)
    compared = json.loads(mhaviz("compare-scaling", TEXT, *model, "--json").out)
    kind = ("--kind", "cross") if name == "bart" else ()
    drawn = json.loads(mhaviz("heatmap", TEXT, *model, *kind, "--json").out)["maps"][0]
    np.testing.assert_allclose(explained["weights"], drawn["weights"][0][1], atol=CLOSE)
    found = np.array(compared["heads"][0]["scaled"]["weights"], dtype=float)
    np.testing.assert_allclose(found, drawn["weights"][0], atol=CLOSE)
    trace = json.loads(mhaviz("trace-shapes", TEXT, *model, "--json").out)
    shapes = {step["name"]: step["shape"] for step in trace["steps"]}
    assert shapes["A"] == [1, *np.shape(drawn["weights"])]
    page = mhaviz("report", TEXT, *model)
    assert page.status == 0, page.err


def test_scores_that_are_not_scaled(mhaviz, model_folder):
    model = ("--model", str(model_folder("t5")), "--target", "a", "--kind", "self")
    result = mhaviz("compare-scaling", TEXT, *model)
    assert (result.status, result.out) == (2, "")
    assert "expected scores that are scaled" in result.err
    explained = json.loads(mhaviz("explain", TEXT, "--token", "#1", *model, "--json").out)
    drawn = json.loads(mhaviz("heatmap", TEXT, *model, "--layer", "0", "--json").out)["maps"][0]
    np.testing.assert_allclose(explained["weights"], drawn["weights"][0][1], atol=CLOSE)
    assert explained["rule"] == "+ bias"


def test_heads_of_a_model(mhaviz, model_folder, tmp_path):
    (tmp_path / "some.txt").write_text("the cat sat\nthe cat\nplay hello the mat on the mat\n")
    arguments = ("--file", str(tmp_path / "some.txt"), "--json", "--model", str(model_folder("bart")))
    document = json.loads(mhaviz("heads", *arguments).out)
    assert [part["sentences"] for part in document["kinds"]] == [3, 3, 3]
    kinds = [part["kind"] for part in document["kinds"]]
    assert kinds == ["self", "masked", "cross"]
    assert mhaviz("heads", *arguments[:2], *arguments[3:]).status == 0


def test_a_model_whose_weights_are_computed_by_hand(mhaviz, model_folder):
    model = ("--model", str(model_folder("by_hand")))
    result = mhaviz("heatmap", TEXT, *model)
    assert result.status == 0
    assert "by_hand computes its weights by hand: they are recorded as it runs" in result.err
    for command in (("heatmap", TEXT, "--verify"), ("explain", TEXT, "--token", "#0"), ("trace-shapes", TEXT)):
        refused = mhaviz(*command, *model)
        assert (refused.status, refused.out) == (1, "")
        assert "gives only its weights" in refused.err


@pytest.fixture
def copy(model_folder, tmp_path):
    """A copy of BERT's folder that a test may break."""
    return Path(shutil.copytree(model_folder("bert"), tmp_path / "model"))


def change_config(folder, **fields):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | fields))


def no_config(folder):
    (folder / "config.json").unlink()


def no_tokenizer(folder):
    for path in folder.glob("token*"):
        path.unlink()


def truncated(folder):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def noise(folder):
    (folder / "model.safetensors").write_bytes(os.urandom(1000))


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def no_weights(folder):
    (folder / "model.safetensors").unlink()


def broken_config(folder):
    (folder / "config.json").write_text("{ not json")


def list_config(folder):
    (folder / "config.json").write_text("[]")


def adapter(folder):
    (folder / "config.json").rename(folder / "adapter_config.json")
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")


def another_size(folder):
    change_config(folder, hidden_size=64)


def more_layers(folder):
    change_config(folder, num_hidden_layers=3)


BROKEN = {
    no_config: "lacks 'config.json': expected a config.json and weights as safetensors",
    no_tokenizer: "has no tokenizer that can be read",
    truncated: "Error while deserializing header: ",
    noise: "Error while deserializing header: ",
    pickled: "weights as safetensors, got 'pytorch_model.bin'; save",
    no_weights: "lacks 'model.safetensors': expected",
    broken_config: "its config.json cannot be read",
    list_config: "expected an object in its config.json",
    adapter: "an adapter without its model: load it with peft, and save what merge_and_unload() returns with save_pre",
    another_size: "has the shape (32,) in the files, and (64,) by the config.json; so do ",
    more_layers: "got none for 16 of them, such as encoder.layer.2.attention",
    (lambda folder: change_config(folder, model_type="newformer")): "has model type `newformer` but",
    (lambda folder: change_config(folder, model_type="mine", auto_map={"AutoModel": "x.Y"})): "type `mine` but",
    (lambda folder: change_config(folder, model_type=None)): "has model type `None` but",
    (lambda folder: change_config(folder, hidden_act="no such")): "cannot be loaded (there is no 'no such')",
}


@pytest.mark.parametrize(("damage", "message"), BROKEN.items())
def test_a_folder_that_is_no_whole_model(mhaviz, copy, damage, message):
    damage(copy)
    result = mhaviz("heatmap", TEXT, "--model", str(copy), "-o", str(copy.parent / "x.png"))
    assert (result.status, result.out) == (1, "")
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not (copy.parent / "x.png").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--layer", "2"], 2, "--layer: there is no layer 2; the model has layers 0 to 1"),
        (["--layer", "x"], 2, "--layer: expected layers such as 0, 3-5 (the smaller first, at most 9,999) or all"),
        (["--head", "4"], 2, "--head: there is no head 4; the layer has heads 0 to 3"),
        (["--dtype", "int8"], 2, "--dtype: expected auto, float32, bfloat16, float16, float64, got 'int8'"),
        (["--kind", "cross"], 2, "--kind: expected a kind of attention that"),
        (["--generate", "-1"], 2, "--generate: Input should be greater than or equal to 0"),
        (["--generate", "3"], 2, "sees later tokens, so it cannot generate text; leave it out"),
        (["--target", "a b"], 2, "--target is for an encoder with a decoder"),
        (["--d-model", "8"], 2, "--d-model is for a layer with random weights; "),
        (["--show", "rollout", "--head", "1"], 2, "a rollout goes through all heads; leave out --head"),
        (["--show", "rollout", "--verify"], 2, "leave out --verify"),
        (["--hide-special", "--window", "0:2,0:2"], 2, "leave out one"),
        (["--device", "cuda:99"], 1, "device cuda:99 is missing"),
    ],
)
def test_what_cannot_be(mhaviz, model_folder, arguments, status, message):
    result = mhaviz("heatmap", TEXT, "--model", str(model_folder("bert")), *arguments)
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "option",
    [
        "--verify",
        "--generate=2",
    ],
)
def test_options_of_a_model_without_one(mhaviz, option):
    result = mhaviz("heatmap", TEXT, option)
    assert (result.status, result.out) == (2, "")
    assert "is for a transformers model; name one with --model" in result.err


def test_a_rollout_through_the_translator(mhaviz):
    result = mhaviz("heatmap", "the small cat", "--model", "translation", "--show", "rollout", "--json")
    assert [(m["kind"], m["rollout"]) for m in json.loads(result.out)["maps"]] == [("self", True), ("masked", True)]


def test_more_tokens_than_positions(mhaviz, copy):
    change_config(copy, max_position_embeddings=5000)
    text = "the cat " * 2600
    result = mhaviz("heatmap", text, "--model", str(copy))
    assert (result.status, result.out) == (2, "")
    assert "expected at most 5,000 tokens" in result.err
    assert "got 5,202" in result.err


def test_a_text_without_words(mhaviz, model_folder):
    assert mhaviz("heatmap", "!", "--model", str(model_folder("bert"))).status == 0
    assert mhaviz("heatmap", " ", "--model", str(model_folder("bert"))).status == 2


@pytest.mark.parametrize("name", ["no/such", "nosuch"])
def test_the_hub_is_not_asked_when_offline(mhaviz, monkeypatch, name, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    result = mhaviz("heatmap", TEXT, "--model", name)
    assert (result.status, result.out) == (1, "")
    assert f"{name} is not a folder, and cannot be fetched from the Hugging Face hub (it is not in" in result.err
    assert result.err.endswith("local cache, and HF_HUB_OFFLINE is set); check the name and the network\n")


@pytest.mark.parametrize("name", ["./nosuch", "a/b/c", "a b", "x" * 5000, "\x1b[31m"])
def test_neither_a_folder_nor_an_id(mhaviz, name):
    result = mhaviz("heatmap", TEXT, "--model", name)
    assert (result.status, result.out) == (1, "")
    assert result.err.count("\n") == 1
    assert "\x1b" not in result.err


def test_the_cache_comes_first(mhaviz, model_folder, monkeypatch, tmp_path):
    """As the hub's own library lays it out."""
    from huggingface_hub import constants

    snapshot = tmp_path / "models--some--bert" / "snapshots" / "abc123"
    shutil.copytree(model_folder("bert"), snapshot)
    (tmp_path / "models--some--bert" / "refs").mkdir()
    (tmp_path / "models--some--bert" / "refs" / "main").write_text("abc123")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    result = mhaviz("heatmap", TEXT, "--model", "some/bert")
    assert result.status == 0, result.err
    assert "bert: BertModel" in result.out


class Answer:
    """What the hub's errors carry."""

    headers: typing.ClassVar = {}
    request = None
    status_code = 404


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("no route to host\nand more"), "no route to host and more"),
        (errors.GatedRepoError("the model is gated", response=Answer()), "the model is gated"),
        (errors.RepositoryNotFoundError("404 …", response=Answer()), "there is no such model, or it is private"),
    ],
)
def test_what_the_hub_says(mhaviz, monkeypatch, tmp_path, error, said):
    import huggingface_hub

    def fetch(name, local_files_only=False, **options):
        assert (name, options["revision"]) == ("some/model", "v2")
        raise errors.LocalEntryNotFoundError("not here") if local_files_only else error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    result = mhaviz("heatmap", TEXT, "--model", "some/model@v2")
    assert (result.status, result.out) == (1, "")
    assert f"({said});" in result.err
    assert result.err.count("\n") == 1


def test_what_is_fetched_is_drawn(mhaviz, monkeypatch, model_folder):
    import huggingface_hub

    def fetch(name, local_files_only=False, **options):
        if local_files_only:
            raise errors.LocalEntryNotFoundError("not here")
        assert "*.bin" not in options["allow_patterns"]
        return str(model_folder("bert"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    assert mhaviz("heatmap", TEXT, "--model", "some/model").status == 0


def test_a_model_that_does_not_fit(mhaviz, model_folder, monkeypatch):
    monkeypatch.setattr(devices, "free_memory", lambda device: 1000)
    result = mhaviz("heatmap", TEXT, "--model", str(model_folder("bert")))
    assert (result.status, result.out) == (1, "")
    assert "needs about" in result.err


def test_without_the_extra(mhaviz, monkeypatch):
    def find_nothing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(load, "version", find_nothing)
    result = mhaviz("heatmap", TEXT, "--model", "any")
    assert (result.status, result.out) == (1, "")
    assert 'pip install -U "mhaviz[hf]"' in result.err


def test_an_old_transformers(mhaviz, monkeypatch, tmp_path):
    """What is imported of it is found in no 4.57; the version that is needed is the one that is tested."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    oldest = ".".join(map(str, load.OLDEST_TRANSFORMERS))
    assert project["optional-dependencies"]["hf"] == [f"transformers>={oldest}"]
    (tmp_path / "transformers-4.57.6.dist-info").mkdir()
    (tmp_path / "transformers-4.57.6.dist-info" / "METADATA").write_text("Name: transformers\nVersion: 4.57.6\n")
    monkeypatch.syspath_prepend(tmp_path)
    needs = f"needs transformers {oldest} or newer, got 4.57.6; install it with"
    result = mhaviz("heatmap", TEXT, "--model", "any")
    assert (result.status, result.out) == (1, "")
    assert result.err == f'mhaviz: any {needs} pip install -U "mhaviz[hf]"\n'
    with pytest.raises(MhavizError, match=f"^a model that is in memory {needs}"):
        loaded.load(object())


def test_no_attention(mhaviz, tmp_path, model_folder):
    import transformers

    config = transformers.MambaConfig(vocab_size=300, hidden_size=32, num_hidden_layers=1)
    transformers.MambaModel(config).save_pretrained(tmp_path / "mamba")
    for path in model_folder("gpt2").glob("token*"):
        shutil.copy(path, tmp_path / "mamba")
    result = mhaviz("heatmap", TEXT, "--model", str(tmp_path / "mamba"))
    assert (result.status, result.out) == (1, "")
    assert "(mamba) has no attention that can be shown" in result.err


class Terminal(io.BytesIO):
    """Where somebody sits and answers yes to everything."""

    def isatty(self):
        return True


def test_code_in_a_checkpoint_is_never_run(mhaviz, monkeypatch, copy):
    change_config(copy, model_type="mine", auto_map={"AutoConfig": "code.C", "AutoModel": "code.M"})
    (copy / "code.py").write_text(f"open({str(copy / 'ran')!r}, 'w')")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    result = mhaviz("heatmap", "a", "--model", str(copy), stdin=Terminal(b"y\n" * 9))
    assert (result.status, result.out) == (1, "")
    assert "contains custom code" in result.err
    assert not (copy / "ran").exists()


def test_sides_with_different_numbers_of_heads(mhaviz, tmp_path, model_folder):
    import transformers

    sizes = {"encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = transformers.BartConfig(vocab_size=300, d_model=16, decoder_start_token_id=2, eos_token_id=2, **sizes)
    transformers.BartForConditionalGeneration(config).save_pretrained(tmp_path / "bart")
    for path in model_folder("bart").glob("token*"):
        shutil.copy(path, tmp_path / "bart")
    model = ("--model", str(tmp_path / "bart"), "--target", "a cat", "--json")
    document = json.loads(mhaviz("heatmap", TEXT, *model).out)
    assert [(m["kind"], len(m["weights"])) for m in document["maps"]] == [("self", 4), ("masked", 2), ("cross", 2)]
    assert "2 to 4 heads each" in document["source"]["footnote"]
    (only,) = json.loads(mhaviz("heatmap", TEXT, *model, "--head", "3").out)["maps"]
    assert (only["kind"], only["heads"]) == ("self", [3])
    assert mhaviz("heatmap", TEXT, *model, "--head", "4").status == 2


def test_an_encoder_without_its_decoder(mhaviz, tmp_path, model_folder):
    import transformers

    config = transformers.T5Config(vocab_size=300, d_model=16, d_kv=8, d_ff=16, num_layers=2, num_heads=2)
    transformers.T5EncoderModel(config).save_pretrained(tmp_path / "t5")
    for path in model_folder("t5").glob("token*"):
        shutil.copy(path, tmp_path / "t5")
    document = json.loads(mhaviz("heatmap", TEXT, "--model", str(tmp_path / "t5"), "--json").out)
    assert [(m["kind"], m["layer"]) for m in document["maps"]] == [("self", 0), ("self", 1)]


def test_attention_in_a_form_of_its_own(mhaviz, tmp_path, model_folder):
    import transformers

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.LongformerConfig(vocab_size=300, attention_window=[4], **sizes)
    transformers.LongformerModel(config).save_pretrained(tmp_path / "long")
    for path in model_folder("bert").glob("token*"):
        shutil.copy(path, tmp_path / "long")
    for command in ("heatmap", "heads"):
        result = mhaviz(command, TEXT, "--model", str(tmp_path / "long"))
        assert (result.status, result.out) == (1, "")
        assert "(longformer) computes attention in a form of its own" in result.err


def test_a_download_that_was_interrupted(mhaviz, copy):
    index = {"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    (copy / "model.safetensors").rename(copy / "model-1.safetensors")
    result = mhaviz("heatmap", TEXT, "--model", str(copy))
    assert (result.status, result.out) == (1, "")
    assert "lacks 'model-2.safetensors': expected" in result.err


NAN_HEAD = "layer 1, masked: expected queries that are numbers, got NaN or infinity in L1 H2; take another copy of it"


@pytest.mark.parametrize(
    "command",
    [
        ("heatmap", TEXT, "-o"),
        ("heatmap", TEXT, "--head", "0", "-o"),
        ("heatmap", TEXT, "--show", "rollout", "-o"),
        ("heatmap", TEXT, "--verify", "-o"),
        ("heatmap", TEXT, "--size", "2", "-o"),
        ("heads", TEXT, "-o"),
        ("explain", TEXT, "--token", "#1", "--layer", "1", "-o"),
        ("trace-shapes", TEXT, "--values", "--layer", "1", "-o"),
        ("compare-scaling", TEXT, "--layer", "1", "-o"),
        ("report", TEXT, "--layer", "1", "-o"),
    ],
)
def test_nan_is_never_shown(mhaviz, model_folder, tmp_path_factory, command):
    """One number of one head of the second layer is none: no command draws it, or ranks it."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path_factory.getbasetemp() / "nan"
    if not folder.exists():
        shutil.copytree(model_folder("llama"), folder)
        tensors = load_file(folder / "model.safetensors")
        tensors["model.layers.1.self_attn.q_proj.weight"][2 * 8, 0] = torch.nan
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    result = mhaviz(*command, str(folder.parent / "x.json"), "--model", str(folder))
    assert (result.status, result.out) == (1, "")
    assert result.err.splitlines()[-1] == f"mhaviz: {folder}: {NAN_HEAD}"
    assert not (folder.parent / "x.json").exists()
    if command[0] == "heatmap" and "--head" not in command:
        assert mhaviz("heatmap", TEXT, "--model", str(folder), "--layer", "0").status == 0


def test_what_is_not_shown_is_said(mhaviz, model_folder):
    model = ("--model", str(model_folder("led")), "--json")
    result = mhaviz("heatmap", TEXT, "--target", "a dog", *model)
    assert "the encoder's attention is not shown: led gives it in a form of its own" in result.err
    assert [m["kind"] for m in json.loads(result.out)["maps"]] == ["masked", "cross"]
    averaged = mhaviz("heads", TEXT, *model)
    assert "the encoder's attention is not shown" in averaged.err
    assert [part["kind"] for part in json.loads(averaged.out)["kinds"]] == ["masked", "cross"]


def test_the_only_attention_of_a_hybrid(mhaviz, model_folder, tmp_path):
    model = ("--model", str(model_folder("zamba2_with_one")))
    assert mhaviz("heatmap", TEXT, *model, "--layer", "1", "-o", str(tmp_path / "x.safetensors")).status == 0
    assert set(load_file(tmp_path / "x.safetensors")) == {"layer.1.masked"}
    assert mhaviz("heatmap", TEXT, *model, "--show", "rollout").status == 0
    refused = mhaviz("heatmap", TEXT, *model, "--layer", "0")
    assert "there is no layer 0; the model has layer 1 only" in refused.err

"""Files that are broken, by accident or by hand: one line and a status, whatever is wrong with them."""

import json
import random
import re
import zipfile

import numpy as np
import pytest
import torch
from broken import ACTING, broken, valid
from hostile import HOSTILE, acts
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save_file

VALID = valid()


def said(result):
    """The error, which must be one line, without anything that acts."""
    assert result.status in (0, 1, 2)
    assert acts(result.out + result.err) == []
    lines = result.err.splitlines()
    assert all(line.startswith("mhaviz: ") for line in lines)
    assert max(map(len, lines), default=0) < 1_100
    if result.status:
        assert result.out == ""
        return lines[-1]
    return ""


def run(mhaviz, path, command):
    return mhaviz(*(str(path) if word == "{}" else word for word in command))


@pytest.mark.parametrize("name", VALID)
def test_what_is_broken(mhaviz, tmp_path, name):
    content, command = VALID[name]
    path = tmp_path / name
    path.write_bytes(content)
    assert said(run(mhaviz, path, command)) == ""
    for seed in range(4 if name.startswith("model") else 7):
        path.write_bytes(broken(name, content, random.Random(f"{name} {seed}")))
        said(run(mhaviz, path, command))


TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(), max_size=30))


@given(tokens=st.lists(TEXTS, min_size=1, max_size=4), footnote=TEXTS, remark=TEXTS, name=TEXTS)
@settings(max_examples=20, phases=[Phase.explicit, Phase.generate])
def test_any_text_in_a_file(mhaviz, tmp_path, tokens, footnote, remark, name):
    rows = (np.eye(len(tokens)) / 2 + 1 / 2 / len(tokens)).tolist()
    shown = {"layer": 0, "kind": "self", "queries": tokens, "keys": tokens, "weights": [rows]}
    document = {"mhaviz": name, "source": {"footnote": footnote, "remark": remark, f"_{name}": name}, "maps": [shown]}
    path = tmp_path / "maps.json"
    path.write_text(json.dumps(document))
    result = mhaviz("show", str(path))
    assert (result.status, said(result)) == (0, "")
    given = json.loads(mhaviz("show", str(path), "--json").out)["source"]
    assert given | {"remark": remark} == document["source"]


@pytest.fixture
def checkpoint(tmp_path):
    """The bundled checkpoint, altered."""
    from broken import _joined, _parts

    def alter(change):
        content, _ = VALID["model.safetensors"]
        header, data = _parts(content)
        about = json.loads(header["__metadata__"]["mhaviz"])
        change(about, header)
        header["__metadata__"]["mhaviz"] = json.dumps(about)
        path = tmp_path / "model.safetensors"
        path.write_bytes(_joined(header, data))
        return path

    return alter


def as_type(dtype, factor):
    def change(about, header):
        tensor = header["model.output.bias"]
        tensor["dtype"], tensor["shape"] = dtype, [int(tensor["shape"][0] * factor)]

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (as_type("F4", 8), "model.output.bias: expected floating-point numbers, got F4"),
        (as_type("F8_E8M0", 4), "model.output.bias: expected floating-point numbers, got F8_E8M0"),
        (lambda about, _: about["plan"].update(steps="x"), r"Expected `int`, got `str` - at `\$.plan.steps`"),
        (lambda about, _: about["plan"].update(seed=10**400), r"`\$.plan.seed`"),
        (lambda about, _: about["sizes"].update(d_ff=10**10), "size mismatch for encoder_forward.W1.weight"),
        (lambda about, _: about.update(milestones=5), r"Expected `array`, got `int` - at `\$.milestones`"),
        (lambda about, _: about["plan"].update(learning_rate=-1.0), r"`\$.plan.learning_rate`"),
        (lambda about, _: about["plan"].update(steps=10**400), r"`\$.plan.steps`"),
        (lambda about, _: about["corpus"].update(sentences=[-1, 3]), r"`\$.corpus.sentences\[0\]`"),
        (lambda about, _: about["milestones"][-1].update(step=1), "milestones: expected steps from 1 on, each larger"),
        (lambda about, _: about["milestones"][0].update(step=0), "milestones: expected steps from 1 on, each larger"),
        (lambda about, _: about.pop("corpus"), "Object missing required field `corpus`"),
    ],
)
def test_a_checkpoint_names_what_is_wrong(mhaviz, checkpoint, change, expected):
    path = checkpoint(change)
    result = mhaviz("heatmap", "the cat", "--model", str(path))
    assert result.status == 1
    assert re.search(expected, said(result))
    assert mhaviz("evaluate", str(path)).status == 1


@pytest.mark.parametrize("dtype", ["F4", "F6_E2M3", "F8_E8M0"])
def test_weights_of_parts_of_numbers(mhaviz, tmp_path, dtype):
    from broken import _joined

    bits = {"4": 4, "6": 6, "8": 8}[dtype[1]]
    entry = {"dtype": dtype, "shape": [24, 8], "data_offsets": [0, 24 * bits]}
    path = tmp_path / "layer.safetensors"
    path.write_bytes(_joined({"in_proj_weight": entry}, bytes(24 * bits)))
    result = mhaviz("heatmap", "a b", "--model", str(path), "--n-heads", "2")
    assert result.status == 1
    assert said(result).endswith(f"expected floating-point numbers, got {dtype}; save them as float32")


def test_names_of_thousands_of_digits(mhaviz, tmp_path):
    path = tmp_path / "layers.safetensors"
    save_file({f"layers.{digit * 5000}.in_proj_weight": torch.zeros(24, 8) for digit in "89"}, path)
    result = mhaviz("heatmap", "a b", "--model", str(path), "--n-heads", "2")
    assert (result.status, "holds 2 attentions" in said(result)) == (2, True)


@pytest.mark.parametrize("command", ["heatmap", "explain", "compare-scaling", "report", "pooled"])
@pytest.mark.parametrize("factor", [1e20, 3e37])
def test_parameters_that_float32_can_hardly_hold(mhaviz, tmp_path, command, factor):
    path = tmp_path / "layer.safetensors"
    save_file({name: tensor * factor for name, tensor in load(VALID["layer.safetensors"][0]).items()}, path)
    more = {"explain": ["--token", "b"], "pooled": ["--size", "2"]}.get(command, [])
    name = "heatmap" if command == "pooled" else command
    result = mhaviz(name, "a b c", "--model", str(path), "--n-heads", "2", *more)
    assert result.status == 1
    assert "in all heads" in said(result) or "L0 H0" in said(result)


@pytest.mark.parametrize("number", [3e38, 1e300, np.nan])
def test_numbers_that_are_no_weights(mhaviz, tmp_path, number):
    np.save(tmp_path / "a.npy", np.full((2, 3, 3), number))
    result = mhaviz("show", str(tmp_path / "a.npy"))
    assert (result.status, "self L0 H0: expected" in said(result)) == (1, True)


def test_a_packed_archive_of_torch_is_unpacked(mhaviz, tmp_path):
    for name in ("tensor.pt", "packed.pt"):
        (tmp_path / name).write_bytes(VALID[name][0])
    plain, packed = (json.loads(mhaviz("show", str(tmp_path / n), "--json").out) for n in ("tensor.pt", "packed.pt"))
    assert plain["maps"] == packed["maps"]


def test_what_a_file_unpacks_to_must_fit(mhaviz, tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", a=np.full((2, 64, 64), 1 / 64))
    torch.save(torch.full((2, 64, 64), 1 / 64), tmp_path / "plain.pt")
    with zipfile.ZipFile(tmp_path / "plain.pt") as source, zipfile.ZipFile(tmp_path / "a.pt", "w", 8) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    for module in ("saved_array", "torch_files"):
        monkeypatch.setattr(f"mhaviz.files.{module}.free_main_memory", lambda: 2**15)
    for name in ("a.npz", "a.pt"):
        result = mhaviz("show", str(tmp_path / name))
        assert (result.status, "of memory on cpu, where 32.0 KiB are free" in said(result)) == (1, True)


def document_of(n_maps):
    maps = [{"layer": i, "kind": "self", "queries": ["a"], "keys": ["a"], "weights": [[[1.0]]]} for i in range(n_maps)]
    return json.dumps({"mhaviz": "1", "source": {"footnote": ""}, "maps": maps})


def test_more_maps_than_anybody_looks_at(mhaviz, tmp_path, monkeypatch):
    monkeypatch.setattr("mhaviz.cli.shared.delivery.MOST_MAPS", 7)
    path = tmp_path / "maps.json"
    path.write_text(document_of(8))
    for arguments in (["show", str(path)], ["diff", str(path), str(path)]):
        result = mhaviz(*arguments, "-qo", f"{path}.png")
        assert result.status == 1
        assert "expected at most 7 maps to draw, got 8; draw fewer sentences, or one --layer" in said(result)
        assert mhaviz(*arguments, "-qo", f"{tmp_path}/all.json").status == 0
        result = mhaviz(*arguments, "--json")
        assert (result.status, result.err) == (0, "")
        assert json.loads(result.out) == json.loads((tmp_path / "all.json").read_text())
        assert len(json.loads(result.out)["maps" if arguments[0] == "show" else "differences"]) == 8
    assert mhaviz("show", str(path), "--layer", "7", "-qo", f"{path}.png").status == 0


def test_more_sentences_than_a_picture_has_room_for(mhaviz, tmp_path, monkeypatch):
    monkeypatch.setattr("mhaviz.cli.shared.delivery.MOST_MAPS", 3)
    text = b"one two\n" * 4
    saved = mhaviz("heatmap", "-", "-o", f"{tmp_path}/h.json", stdin=text)
    assert saved.status == 0
    assert len(json.loads((tmp_path / "h.json").read_text())["maps"]) == 4
    monkeypatch.setattr("mhaviz.models.single_layer.RandomLayer.run", None)  # the work, which must not begin
    result = mhaviz("heatmap", "-", "-qo", f"{tmp_path}/h.png", stdin=text)
    assert (result.status, "got 4; draw fewer sentences, or one --layer" in said(result)) == (1, True)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"mhaviz": "1", "source": ' + '{"a":' * 50_000 + "1" + "}" * 50_000 + "}",
        '{"mhaviz": "1", "x": ' + "9" * 5_000 + "}",
        '{"mhaviz": "1", "source": {"footnote": ""}, "maps": [' + "{}," * 300_000 + "{}]}",
    ],
)
def test_json_that_is_deep_or_long(mhaviz, tmp_path, text):
    (tmp_path / "maps.json").write_text(text)
    result = mhaviz("show", str(tmp_path / "maps.json"))
    assert result.status == 1
    assert said(result).startswith(f"mhaviz: cannot read {tmp_path / 'maps.json'}: ")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["heatmap", "a b"], "--d-model"),
        (["heatmap", "a b"], "--n-heads"),
        (["heatmap", "a b"], "--seed"),
        (["heatmap", "a b"], "--size"),
        (["heatmap", "a b", "-o", "x.png"], "--dpi"),
        (["explain", "a b", "--token", "a"], "--head"),
        (["trace-shapes"], "--d-model"),
        (["complexity"], "--lengths"),
        (["show", "a.npy"], "--layer"),
        (["train", "translation", "-o", "x.safetensors"], "--steps"),
    ],
)
@pytest.mark.parametrize("number", ["9" * 400, f"-{'9' * 400}", "9" * 5_000])
def test_numbers_of_hundreds_of_digits(mhaviz, tmp_path, monkeypatch, command, option, number):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.eye(3))
    result = mhaviz(*command, option, number)
    assert result.status == 2
    assert len(said(result)) < 450


@pytest.mark.parametrize("number", ["9" * 10, "9" * 13, "9" * 5_000])
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["heatmap", "a b", "--head", "0-{}"], "--head: expected heads such as 0, 3-5 (the smaller first, at most"),
        (["heatmap", "a b", "--head", "{}"], "--head: expected heads such as 0, 3-5 (the smaller first, at most"),
        (["explain", "a b", "--token", "#{}"], "--token: "),
        (["trace-shapes", "--follow", "0,0,{}"], "--follow: expected "),
        (["complexity", "--lengths", "16,{0}{0}"], "--lengths: expected "),
        (["heatmap", "a b", "--window", "0:{0}{0},:"], "--window: expected "),
    ],
)
def test_a_number_beyond_what_there_is(mhaviz, command, expected, number):
    result = mhaviz(*(word.format(number) for word in command))
    assert result.status == 2
    assert expected in said(result)


@pytest.mark.parametrize("option", ["--mask", "--head", "--vmax", "--cmap", "--device", "--window", "--model"])
def test_what_an_option_was_given_is_cut(mhaviz, option):
    result = mhaviz("heatmap", "a b", option, ACTING * 500)
    assert result.status
    assert len(said(result)) < 700

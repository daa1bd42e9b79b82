"""Small files that ask for much: they are refused before they get it. Where they wait for a writer, nobody waits."""

import io
import json
import os
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from mhaviz.errors import MhavizError
from mhaviz.files import archives, pickles, saved_array, torch_files
from mhaviz.files.arrays import read_arrays
from mhaviz.files.images import read_image
from mhaviz.files.maps import read_maps
from mhaviz.files.parts import read_part
from mhaviz.models.load import kind_of
from mhaviz.models.transformers import folder
from mhaviz.models.transformers.folder import check_folder
from mhaviz.training.loading import load_checkpoint


def nested(item, deep, wide):
    for _ in range(deep):
        item = [item] * wide
    return item


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize(
    "held",
    [
        nested([torch.ones(2), 1], 3, 1000),
        nested([torch.ones(2)] * 1000, 3, 1000),
        {"a": {"b": nested({"c": torch.ones(2)}, 2, 1000)}},
    ],
)
def test_lists_that_hold_one_another_many_times(tmp_path, monkeypatch, held, is_new):
    monkeypatch.setattr(torch_files, "MOST_ARRAYS", 5_000)
    path = tmp_path / "shared.pt"
    torch.save(held, path, _use_new_zipfile_serialization=is_new)
    assert path.stat().st_size < 60_000
    with pytest.raises(MhavizError, match=r"shared\.pt: expected at most 5,000 tensors, lists and dicts, got more"):
        read_arrays(path)


def pickled(path, content):
    """A file of torch.save with this pickle in it."""
    plain = io.BytesIO()
    torch.save({}, plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, content if name.endswith("data.pkl") else source.read(name))
    return path


DOUBLED = b")q\x00" + b"h\x00h\x00\x86q\x00" * 60  # a tuple of the same tuple twice, and so on


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (DOUBLED + b"}h\x00K\x01s.", "tuples within tuples of more than 65,536 parts"),
        (b"cbuiltins\nbytearray\n\x8a\x05" + (6 * 10**9).to_bytes(5, "little") + b"\x85R.", "asks for 6,000,000,000"),
        (b"ctorch\nFloatStorage\n(J" + (2 * 10**9).to_bytes(4, "little") + b"tR.", r"torch\.FloatStorage in it asks"),
        (b"](" + b"]" * 2_000 + b"e.", "made in more than 1,000 steps"),
    ],
)
def test_pickles_that_ask_for_much(tmp_path, monkeypatch, content, message):
    monkeypatch.setattr(pickles, "_MOST_STEPS", 1_000)
    with pytest.raises(MhavizError, match=message):
        read_arrays(pickled(tmp_path / "x.pt", b"\x80\x02" + content))


def test_a_packed_pickle(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_files, "_MOST_BESIDE", 2**20)
    path = pickled(tmp_path / "x.pt", b"\x80\x02" + b"0" * 2**20)
    assert path.stat().st_size < 5_000
    with pytest.raises(MhavizError, match=r"it holds 1\.0 MiB beside the numbers of tensors; save only tensors"):
        read_arrays(path)


@pytest.mark.parametrize("is_new", [True, False])
def test_what_else_may_stand_beside_tensors(tmp_path, is_new):
    w = torch.arange(6.0).view(2, 3)
    beside = {
        "numbers": [*range(1000), 2**70, 1.5, 1 + 2j, None, True],
        "tuple": (1, (2, (3, "x"))),
        "size": torch.Size([50_000, 10**9]),
        "kinds": (torch.float16, torch.device("cpu"), {1, 2}, Counter("abca"), OrderedDict(a=1)),
        "bytes": (b"\xff" * 3000, bytearray(b"x" * 3000), bytearray()),
    }
    tensors = {"w": w, "p": torch.nn.Parameter(w), "wide": torch.ones(1).expand(2**21, 2**21), "sparse": w.to_sparse()}
    torch.save(tensors | beside, tmp_path / "x.pt", _use_new_zipfile_serialization=is_new)
    read = read_arrays(tmp_path / "x.pt")
    assert {name: array.shape for name, array in read.items()} == {name: tuple(t.shape) for name, t in tensors.items()}
    np.testing.assert_array_equal(read["p"].read(), w.numpy())


@pytest.mark.parametrize("shape", [(1, 2**21, 1), (1, 1, 2**21), (2**16, 2, 2), (2**8, 2**8, 2, 2)])
def test_names_of_what_is_packed(tmp_path, shape):
    path = tmp_path / "zeros.npz"
    np.savez_compressed(path, a=np.zeros(shape, bool))
    assert path.stat().st_size < 4_000
    with pytest.raises(MhavizError, match="at most 32,768 heads in all layers, and 1,048,576 queries and keys"):
        read_maps(path)


@pytest.mark.parametrize("size", [2**13, 2**23])
def test_a_packed_description(tmp_path, size):
    text = f'{{"mhaviz": "1", "x": [{"[]," * (size // 3)}[]]}}'
    with zipfile.ZipFile(tmp_path / "maps.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mhaviz.json", text)
    message = "holds no attention maps" if size < 2**22 else r"mhaviz\.json in it unpacks to 8\.0 MiB: expected"
    with pytest.raises(MhavizError, match=message):
        read_maps(tmp_path / "maps.npz")


def test_a_description_that_does_not_fit_into_memory(tmp_path, monkeypatch):
    save_file({"layer.0.self": np.ones((1, 1, 1), np.float32)}, tmp_path / "maps.safetensors", {"mhaviz": "[[], []]"})
    monkeypatch.setattr("mhaviz.files.texts.free_main_memory", lambda: 600)
    with pytest.raises(MhavizError, match="it may need about"):
        read_maps(tmp_path / "maps.safetensors")


def test_more_arrays_than_anybody_saves(tmp_path, monkeypatch):
    many = {f"a{i}": np.ones(1, np.float32) for i in range(9)}
    save_file(many, tmp_path / "many.safetensors")
    np.savez(tmp_path / "many.npz", **many)
    monkeypatch.setattr(saved_array, "MOST_ARRAYS", 8)
    for name in ("many.safetensors", "many.npz"):
        with pytest.raises(MhavizError, match=f"cannot read .*{name}: expected at most 8 arrays, got 9; save fewer"):
            read_arrays(tmp_path / name)
    monkeypatch.setattr(archives, "_MOST_LISTED", 100)
    with pytest.raises(MhavizError, match=r"many\.npz: it has more members than files of arrays have"):
        read_arrays(tmp_path / "many.npz")


def a_pipe(path):
    os.mkfifo(path)


def a_device(path):
    path.symlink_to("/dev/zero")


@pytest.fixture(params=[a_pipe, a_device])
def endless(request, tmp_path):
    def make(name):
        path = tmp_path / name
        request.param(path)
        return path

    return make


NO_FILE = "expected a file, got a pipe or a device; save it to a file first"


@pytest.mark.parametrize(
    ("name", "read"),
    [
        *((f"x.{suffix}", read_maps) for suffix in ("json", "npy", "npz", "safetensors", "pt")),
        *((f"x.{suffix}", read_arrays) for suffix in ("npy", "npz", "safetensors", "pt")),
        ("x.safetensors", read_part),
        ("x.safetensors", lambda path: load_checkpoint(str(path))),
        ("x.safetensors", lambda path: kind_of(str(path))),
        ("x", lambda path: kind_of(str(path))),
        ("x.png", read_image),
    ],
)
def test_what_is_no_file(endless, name, read):
    with pytest.raises(MhavizError, match=NO_FILE):
        read(endless(name))


FILES = [
    "config.json",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "x.jinja",
]


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_of_a_model(endless, tmp_path, name):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").touch()
    check_folder(tmp_path, "it")
    (tmp_path / name).unlink(missing_ok=True)
    endless(name)
    with pytest.raises(MhavizError, match=f"{name}: {NO_FILE}"):
        check_folder(tmp_path, "it")


def test_a_file_of_a_model_that_is_larger_than_memory(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "gone.json").symlink_to("nowhere")
    check_folder(tmp_path, "it")
    (tmp_path / "tokenizer.json").write_bytes(b" " * 1000)
    monkeypatch.setattr(folder, "free_main_memory", lambda: 7_999)
    with pytest.raises(MhavizError, match=r"tokenizer\.json is too large: reading it needs about"):
        check_folder(tmp_path, "it")


def test_maps_of_one_name_are_found_at_once(tmp_path):
    maps = [{"layer": i, "kind": "self"} for i in range(60_000)]
    path = Path(tmp_path / "maps.json")
    path.write_text(json.dumps({"mhaviz": "1", "source": {"footnote": ""}, "maps": [*maps, maps[-1]]}))
    with pytest.raises(MhavizError, match=r"expected maps of different names, got two of layer\.59999\.self"):
        read_maps(path)

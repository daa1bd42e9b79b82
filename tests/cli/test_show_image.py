"""mhaviz show --image as a user types it."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from mhaviz.inputs.patches import PatchGrid
from mhaviz.inputs.tokens import Tokens, patch_tokens
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.result import Source


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A photo, the maps of 2 × 3 patches with a class token, and the same as a bare array."""
    monkeypatch.chdir(tmp_path)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)).save("photo.png")
    axis = Axis(patch_tokens(2, 3, 1))
    weights = np.random.default_rng(0).random((3, 7, 7)).astype(np.float32)
    weights /= weights.sum(axis=-1, keepdims=True)
    Attention(Source("by hand"), (AttentionMap(weights, axis, axis),)).save("maps.safetensors", "maps.json", "maps.npz")
    np.save("bare.npy", weights)
    return tmp_path


@pytest.mark.parametrize("name", ["maps.safetensors", "maps.json", "maps.npz", "bare.npy"])
def test_maps_over_a_photo(mhaviz, folder, name):
    grid = ["--grid", "2x3@1"] if name == "bare.npy" else []
    pictures = ["png", "svg", "pdf"] if name == "maps.json" else ["png"]
    outputs = [part for suffix in ("json", *pictures) for part in ("-o", f"over.{suffix}")]
    result = mhaviz("show", name, "--image", "photo.png", *grid, "--head", "0,2", "--dpi", "40", *outputs)
    assert result.status == 0, result.err
    assert "token #0" in result.out
    assert "photo.png, 2 × 3 patches" in result.out
    assert "L0 H2" in result.out
    found = json.loads((folder / "over.json").read_text())
    assert (found["image"]["name"], found["maps"][0]["grid"], found["maps"][0]["heads"]) == (
        "photo.png",
        [2, 3],
        [0, 2],
    )
    for suffix in pictures:
        assert (folder / f"over.{suffix}").stat().st_size


def test_files_of_maps_are_maps_all_the_same(mhaviz, folder):
    result = mhaviz(
        "show", "maps.json", "--image", "photo.png", "-o", "a.safetensors", "-o", "over.json", "-o", "a.csv"
    )
    assert result.status == 0
    assert re.findall("saved (.*)", result.err) == [
        "a.safetensors, the maps without the image",
        "a.csv, the maps without the image",
        "over.json",
    ]
    assert (folder / "a.safetensors").read_bytes() == (folder / "maps.safetensors").read_bytes()
    assert "image" in json.loads((folder / "over.json").read_text())
    wrong = mhaviz("show", "bare.npy", "--image", "photo.png", "-o", "b.npz", "-o", "b.png", "-q")
    assert (wrong.status, (folder / "b.npz").exists(), (folder / "b.png").exists()) == (2, True, False)
    assert wrong.err.endswith("; b.npz is saved\n")


PROGRAM = """
import os, torch
os.chdir("elsewhere")
torch.manual_seed(0)
x = torch.randn(1, 7, 8)
torch.nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)
"""


def test_a_program_is_recorded_over_a_photo(mhaviz, folder):
    (folder / "elsewhere").mkdir()
    (folder / "program.py").write_text(PROGRAM)
    words = ["--image", "photo.png", "--grid", "2x3@1", "--query", "1,1", "-o", "over.json", "-o", "over.png"]
    result = mhaviz("record", *words, "program.py")
    assert result.status == 0, result.err
    found = json.loads((folder / "over.json").read_text())
    assert (found["image"]["name"], found["maps"][0]["query_patch"]) == ("photo.png", [1, 1])
    assert (folder / "over.png").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--image photo.png --show heads", "draws no maps; leave out --image"),
        ("--grid 14", "--grid: expected rows and columns of patches such as 14x14, or 8x8@1 from token 1 on, got '14'"),
        ("--image program.py", "--image: cannot read program.py: it is not an image"),
    ],
)
def test_what_cannot_be_recorded_is_said_before_the_program_runs(mhaviz, folder, words, message):
    (folder / "program.py").write_text("raise SystemExit(7)")
    result = mhaviz("record", *words.split(), "program.py")
    assert result.status in (1, 2)
    assert message in result.err


def test_a_grid_in_the_midst_of_a_text(mhaviz, folder):
    """Token 0 begins the text, 64 patches follow, then a question whose last word looks at the first patch."""
    weights = np.full((1, 1, 70, 70), 0.1 / 68, np.float32)
    weights[..., 1], weights[..., 66] = 0.6, 0.3
    np.save("text.npy", weights)
    for words in ((), ("--image", "photo.png")):
        grid = ["--query", "#69", "--grid", "8x8@1", *words]
        if not words:
            assert "--grid is for attention over an image" in mhaviz("show", "text.npy", *grid).err
            continue
        found = json.loads(mhaviz("show", "text.npy", *grid, "--json").out)["maps"][0]
        patches = np.asarray(found["weights"]).reshape(8, 8)
        assert np.unravel_index(patches.argmax(), (8, 8)) == (0, 0)
        assert patches[0, 0] == pytest.approx(0.6, abs=1e-3)


def test_a_key_in_the_place_of_a_query(mhaviz, folder):
    queries = np.asarray(json.loads((folder / "maps.json").read_text())["maps"][0]["weights"])
    for words in ((), ("--image", "photo.png")):
        result = mhaviz("show", "maps.json", "--key", "0", *words, "--json")
        assert result.status == 0, result.err
        found = np.asarray(json.loads(result.out)["maps"][0]["weights"]).reshape(3, 6)
        assert found == pytest.approx(queries[:, 1:, 0], abs=1e-6)


def test_several_images(mhaviz, folder):
    grids = (PatchGrid.run(2, 2, 1), PatchGrid(2, 2, (5, 6, 7, 8), "image 1", 1))
    axis = Axis(Tokens(tuple(f"t{i}" for i in range(9)), (0,), images=grids))
    weights = np.random.default_rng(0).dirichlet(np.ones(9), (2, 9)).astype(np.float32)
    Attention(Source("by hand"), (AttentionMap(weights, axis, axis),)).save("two.safetensors")
    Image.new("RGB", (30, 30), "red").save("a.png")
    Image.new("RGB", (30, 30), "blue").save("b.png")
    result = mhaviz("show", "two.safetensors", "--image", "a.png", "--image", "b.png", "--json", "-o", "over.png")
    assert result.status == 0, result.err
    views = json.loads(result.out)["maps"][0]["views"]
    assert [view["image"] for view in views] == [0, 1]


def test_a_patch_as_the_query(mhaviz, folder):
    result = mhaviz("show", "maps.json", "--image", "photo.png", "--query", "1,2", "--json")
    assert json.loads(result.out)["maps"][0]["query_patch"] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("maps.json --query 5,5", 2, "--query: expected a token, or a position from 0 to 6, got '5,5'"),
        ("maps.json --grid 2x3", 2, "--grid is for attention over an image"),
        (
            "bare.npy --image photo.png",
            2,
            "add --grid, rows and columns and the position of the first patch, such as 2x3@1",
        ),
        ("bare.npy --image photo.png --grid 5x5", 2, "--grid: expected rows × columns = 7 tokens, minus 0 to 16"),
        (
            "bare.npy --image photo.png --grid 2",
            2,
            "--grid: expected rows and columns of patches such as 14x14, or 8x8@1 from token 1 on, got '2'",
        ),
        ("bare.npy --image photo.png --grid 0x7", 2, "--grid: expected rows and columns, or rows, columns and the pos"),
        ("maps.json --image photo.png --query 1 --key 2", 2, "--query chooses what looks, and --key what is looked at"),
        ("maps.json --key 2 --as lines", 2, "--as is for maps of a text; leave out it or --key"),
        ("maps.json --image photo.png --query 5,5", 2, "--query: expected a patch from 0,0 to 1,2, got 5,5"),
        ("maps.json --image photo.png -o a.txt", 2, "expected a name ending in .png, .svg, .pdf, .json"),
        ("maps.json --image photo.png -o photo.png", 2, "photo.png is read, and cannot be written at the same time"),
        ("maps.json --image nothing.png", 1, "--image: cannot read nothing.png: No such file"),
        ("maps.json --image bare.npy", 1, "--image: cannot read bare.npy: it is not an image that can be read"),
    ],
)
def test_what_cannot_be(mhaviz, folder, arguments, status, message):
    result = mhaviz("show", *arguments.split())
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert result.err.count("\n") == 1

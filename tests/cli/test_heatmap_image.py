"""mhaviz heatmap --image as a user types it: a checkpoint and a photo, without a program."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from seeing import photo_of, save

import mhaviz as package


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeing")
    for name in ("vit", "clip_vision", "llava"):
        save(name, folder / name)
    save("vit", folder / "bare", with_processor=False)
    photo_of().save(folder / "photo.png")
    return folder


@pytest.fixture(autouse=True)
def _here(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in made.iterdir():
        Path(path.name).symlink_to(path)


def typed(mhaviz, line, *words):
    return mhaviz(*line.split(), *words)


def test_a_checkpoint_and_a_photo(mhaviz):
    result = typed(mhaviz, "heatmap --model vit --image photo.png --query 1,2 -o over.png -o over.json -o maps.json")
    assert result.status == 0, result.err
    found = json.loads(Path("over.json").read_text())
    expected = package.load("vit").attend(image="photo.png").over_image("photo.png", "1,2")
    whole = json.loads(json.dumps(expected.to_dict(), default=lambda x: np.asarray(x).tolist()))
    for one, other in zip(found["maps"], whole["maps"], strict=True):
        assert np.asarray(one["weights"]) == pytest.approx(np.asarray(other["weights"]), abs=1e-6)
    assert Path("over.png").stat().st_size


def test_a_photo_and_a_text(mhaviz):
    words = ["heatmap", "--model", "llava", "--image", "photo.png", "the cat", "--query", "cat", "--layer", "1"]
    result = mhaviz(*words, "-o", "over.json")
    assert result.status == 0, result.err
    assert "cat" in json.dumps(json.loads(Path("over.json").read_text())["query"])


def test_maps_are_saved_beside(mhaviz):
    result = typed(mhaviz, "heatmap --model vit --image photo.png -q -o maps.safetensors -o over.json --head 1")
    assert result.status == 0, result.err
    again = package.read("maps.safetensors")
    assert again[0].heads == (1,)
    again = typed(mhaviz, "show maps.safetensors --image photo.png --json")
    assert json.loads(again.out)["maps"] == json.loads(Path("over.json").read_text())["maps"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("--model vit photo.png", 2, "photo.png is an image, and no sentence; to draw attention over it, use --image"),
        ("photo.png", 2, "use --model FOLDER --image photo.png"),
        ("--model vit", 2, "--image photo.png for a model of images"),
        ("--model vit sentence", 2, "vit reads images, and no text; add --image photo.png"),
        ("--image photo.png", 2, "--image is for a transformers model; name one with --model"),
        ("--model vit --image photo.png sentence", 2, "vit reads images, and no text; leave out 'sentence'"),
        ("--model vit --image photo.png --query a --key b", 2, "--query chooses what looks, and --key"),
        ("--model vit --image photo.png --as lines", 2, "--as is for maps of a text; leave out it or --image"),
        ("--model vit --image photo.png --verify", 2, "--verify is for texts, and not for --image; leave it out"),
        ("sentence --key b", 2, "--key is for attention over an image; add --image photo.png"),
        ("sentence --grid 2x3", 2, "--grid is for attention over an image; add --image photo.png"),
        ("--model vit --image nothing.png", 1, "--image: cannot read nothing.png: No such file"),
        ("--model vit --image photo.png --image photo.png", 2, "--image: expected one image, got 2"),
        ("--model vit --image photo.png -o photo.png", 2, "photo.png is read, and cannot be written"),
    ],
)
def test_what_cannot_be(mhaviz, words, status, message):
    result = mhaviz("heatmap", *words.split())
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert result.err.count("\n") == 1


def test_other_commands_name_the_one_that_draws(mhaviz):
    for words in (("explain", "photo.png"), ("explain", "sentence")):
        result = mhaviz(*words, "--model", "vit")
        assert (result.status, result.out) == (2, "")
        assert "mhaviz heatmap --image photo.png" in result.err


@pytest.mark.slow
@pytest.mark.parametrize("words", ["photo.png", "sentence", "--image photo.png"])
def test_the_program_that_is_given_runs(mhaviz, words):
    result = mhaviz("heatmap", "--model", "bare", *words.split())
    assert (result.status, result.out) == (2, "")
    line, empty, *program = result.err.rstrip("\n").split("\n")
    assert "bare has no image processor (preprocessor_config.json)" in line
    assert "run mhaviz record --image photo.png look.py:" in line
    assert (empty, len(program)) == ("", 6)
    Path("look.py").write_text("\n".join(program))
    result = typed(mhaviz, "record -q --image photo.png -o over.json look.py")
    assert result.status == 0, result.err
    found = json.loads(Path("over.json").read_text())
    assert {tuple(m["grid"]) for m in found["maps"]} == {(4, 4)}


@pytest.mark.slow
def test_the_program_for_a_text_beside_a_photo_runs(mhaviz):
    shutil.copytree("llava", "lacking", symlinks=False)
    processor = Path("lacking/processor_config.json")
    fields = json.loads(processor.read_text())
    Path("lacking/preprocessor_config.json").write_text(json.dumps(fields["image_processor"]))
    fields["processor_class"] = "NoSuchProcessor"
    processor.write_text(json.dumps(fields))
    result = typed(mhaviz, "heatmap --model lacking --image photo.png", "<image>the cat")
    program = result.err.rstrip("\n").split("\n")[2:]
    assert (result.status, len(program)) == (2, 6), result.err
    shutil.copy("llava/processor_config.json", processor)  # as a user whose transformers has it
    Path("look.py").write_text("\n".join(program))
    result = typed(mhaviz, "record -q --image photo.png -o over.json --layer 1 look.py")
    assert result.status == 0, result.err

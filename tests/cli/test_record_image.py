"""mhaviz record --image as a user types it, with photos that a program has read, and others."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

PROGRAM = """
import sys
import numpy as np, torch
from PIL import Image
from torch.nn import functional as F

torch.manual_seed(0)
patches = torch.nn.Conv2d(3, 8, 8, 8)
photos = [Image.open(name).convert("RGB").resize((64, 32)).crop((16, 0, 48, 32)) for name in sys.argv[1:]]
images = torch.stack([torch.from_numpy(np.array(photo)).permute(2, 0, 1) / 255 for photo in photos])
x = patches(images).flatten(2).mT[:, None]
F.scaled_dot_product_attention(x, x, x)
"""

WORDS = """
import torch
x = torch.rand(1, 2, 5, 4)
torch.nn.functional.scaled_dot_product_attention(x, x, x)
"""


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("a.png", "b.png")):
        small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
        Image.fromarray(small).resize((120, 60), Image.Resampling.BICUBIC).save(name)
    Path("look.py").write_text(PROGRAM)
    Path("read.py").write_text(WORDS)


def recorded(mhaviz, line):
    result = mhaviz("record", "-q", *line.split())
    return result, json.loads(Path("over.json").read_text()) if result.status == 0 else None


def test_the_photo_that_was_read(mhaviz):
    result, found = recorded(mhaviz, "--image a.png --query 0,0 -o over.json look.py a.png")
    assert result.status == 0, result.err
    assert (found["image"]["width"], found["image"]["height"]) == (120, 60)
    assert found["maps"][0]["views"][0]["box"] == pytest.approx((0, 0.25, 1, 0.75), abs=0.02)


def test_another_photo(mhaviz):
    result, found = recorded(mhaviz, "--image b.png --query 0,0 -o over.json look.py a.png")
    assert result.status == 0, result.err
    assert (found["image"]["width"], found["image"]["height"]) == (32, 32), "what the program has read"
    assert found["maps"][0]["views"][0]["box"] == [0, 0, 1, 1]


def test_one_photo_of_two(mhaviz):
    result, found = recorded(mhaviz, "--image a.png --query 0,0 --examples all -o over.json look.py a.png b.png")
    assert result.status == 0, result.err
    assert [(one["width"], one["height"]) for one in found["images"]] == [(120, 60), (32, 32)]


def test_a_program_that_reads_no_photo(mhaviz):
    result, _ = recorded(mhaviz, "--image a.png -o over.json read.py")
    assert result.status == 2
    assert "it is not known which of 5 tokens are patches of an image; add --grid" in result.err
    assert (result.out, result.err.count("\n")) == ("", 1)
    assert not Path("over.json").exists()


def test_a_photo_that_cannot_be_read_is_refused_before_the_program_runs(mhaviz):
    Path("broken.png").write_bytes(Path("a.png").read_bytes()[:200])
    Path("look.py").write_text("raise SystemExit('has run')")
    for name in ("no.png", "broken.png", "look.py"):
        result = mhaviz("record", "--image", name, "-o", "over.json", "look.py")
        assert (result.status, result.err.count("\n")) == (1, 1)
        assert result.err.startswith(f"mhaviz: --image: cannot read {name}: ")

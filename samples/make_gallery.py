"""Make every picture of the gallery again: python samples/make_gallery.py"""

import sys
from pathlib import Path

from mhaviz.cli import main

GALLERY = Path(__file__).parent / "gallery"
SENTENCE = "I wonder what will come next!"

PICTURES: dict[str, list[str]] = {
    "heatmap.png": ["heatmap", SENTENCE],
    "masked.png": ["heatmap", "The cat sat on the mat because the mat was warm", "--mask", "causal", "--head", "0-3"],
    "source-target.png": ["heatmap", "the small black cat", "--target", "le petit chat noir", "--head", "0-3"],
    "trace-shapes.png": ["trace-shapes", "--follow", "0,2,5"],
    "compare-scaling.png": ["compare-scaling", SENTENCE],
    "sweep.png": ["compare-scaling", SENTENCE, "--sweep"],
    "report.png": ["report", SENTENCE],
}


def make_all() -> int:
    """Make the pictures, on the CPU so that they are the same everywhere; return the exit status."""
    GALLERY.mkdir(exist_ok=True)
    device = ["--device", "cpu"]
    return max(main([*words, *device, "-q", "-o", str(GALLERY / name)]) for name, words in PICTURES.items())


if __name__ == "__main__":
    sys.exit(make_all())

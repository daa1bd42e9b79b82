"""Make every picture of the gallery again: python samples/make_gallery.py"""

import sys
from pathlib import Path

from mhaviz.cli import main

GALLERY = Path(__file__).parent / "gallery"
SENTENCE = "I wonder what will come next!"
CPU = ["--device", "cpu"]  # so that the pictures are the same everywhere

PICTURES: dict[str, list[str]] = {
    "heatmap.png": ["heatmap", SENTENCE, *CPU],
    "masked.png": [
        "heatmap",
        "The cat sat on the mat because the mat was warm",
        "--mask",
        "causal",
        "--head",
        "0-3",
        *CPU,
    ],
    "source-target.png": ["heatmap", "the small black cat", "--target", "le petit chat noir", "--head", "0-3", *CPU],
    "trace-shapes.png": ["trace-shapes", "--follow", "0,2,5"],
    "compare-scaling.png": ["compare-scaling", SENTENCE, *CPU],
    "sweep.png": ["compare-scaling", SENTENCE, "--sweep"],
    "compare-projections.png": ["compare-projections", *CPU],
    "explain.png": [
        "explain",
        "I am going to deposit my money at the bank",
        "--token",
        "deposit",
        "--head",
        "2",
        *CPU,
    ],
    "compare-implementations.png": ["compare-implementations", *CPU],
    "complexity.png": ["complexity", *CPU],
    "report.png": ["report", SENTENCE, *CPU],
}


def make_all() -> int:
    """Make the pictures; return the exit status."""
    GALLERY.mkdir(exist_ok=True)
    return max(main([*words, "-q", "-o", str(GALLERY / name)]) for name, words in PICTURES.items())


if __name__ == "__main__":
    sys.exit(make_all())

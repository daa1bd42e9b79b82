"""Make the pictures of the README and of the tour again, or some: python samples/make_gallery.py [heatmap.png …]

A picture of the gallery is what the command above it saves under its name.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
GALLERY = ROOT / "samples" / "gallery"
FACES = (ROOT / "README.md", ROOT / "samples" / "README.md")
SCREENS = {"page.png": ("page.html", "#view=map&map=1&head=8&query=11&key=12")}
"""Pictures of a page of the gallery, and what is shown of it."""


def blocks() -> list[list[str]]:
    """The commands of the README and of the tour, those of a block together."""
    texts = "\n".join(face.read_text(encoding="utf-8") for face in FACES)
    return [block.splitlines() for block in re.findall(r"^```sh\n(.*?)^```", texts, re.MULTILINE | re.DOTALL)]


def programs() -> list[str]:
    """The pieces of Python of the README and the tour."""
    texts = "\n".join(face.read_text(encoding="utf-8") for face in FACES)
    return re.findall(r"^```python\n(.*?)^```", texts, re.MULTILINE | re.DOTALL)


def pictures() -> dict[str, str]:
    """The command of each picture and page of the gallery."""
    lines = [line for block in blocks() for line in block if not line.startswith("python3 -m venv")]
    lines += [shlex.join(["python", "-c", program]) for program in programs()]
    saved = [
        (name, line) for line in lines for name in re.findall(r"(?:-o |--animate |\.save\([\"'])([^\s\"']+)", line)
    ]
    first = {name: line for name, line in reversed(saved) if (GALLERY / name).exists()}
    return {part.name: line for name, line in first.items() for part in (GALLERY / name, *parts(name))}


def status_of(command: str) -> int:
    """The exit status of a command of the README and the tour: 1 of a check that finds the mistakes of the sample."""
    return int(command.startswith("mhaviz check samples/my_attention.py:") and "--ignore" not in command)


def parts(name: str) -> list[Path]:
    """The files of a picture of the gallery that its room divides, but for the first."""
    stem, suffix = name.rsplit(".", 1)
    return sorted(GALLERY.glob(f"{stem}-[0-9].{suffix}"))


def needed(command: str) -> Iterator[str]:
    """The commands of the tour that make the models that a command names."""
    for block in blocks():
        for line in block:
            made = re.search(r"^ln -s .* (\w+)$|^python samples/(?:induction|sentiment).py (\w+)$", line)
            if made and f"--model {made[1] or made[2]} " in command:
                yield line


def take_screen(picture: Path, page: Path, shown: str) -> None:
    """Open a page in Debian's Chromium, and save what it shows."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.goto(f"file://{page.resolve()}{shown}")
        tab.evaluate("async () => { await window.mhaviz.ready; }")
        tab.wait_for_timeout(1000)
        tab.screenshot(path=picture)
        browser.close()


def make_all(names: Sequence[str]) -> None:
    """Make the pictures of these names, or all."""
    commands = pictures()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with TemporaryDirectory() as folder:
        (Path(folder) / "samples").symlink_to(ROOT / "samples")
        for command in dict.fromkeys(commands[name] for name in names or commands if name not in SCREENS):
            for line in [*dict.fromkeys(needed(command)), command]:
                done = subprocess.run(
                    line.replace("ln -s", "ln -sfn"),
                    shell=True,
                    check=False,
                    cwd=folder,
                    env=os.environ | {"PATH": path},
                )
                if done.returncode != status_of(line):
                    raise SystemExit(f"expected exit status {status_of(line)}, got {done.returncode}: {line}")
        for name in names or commands:
            if name not in SCREENS:
                shutil.copyfile(Path(folder) / name, GALLERY / name)
    for name in SCREENS.keys() & set(names or SCREENS):
        page, shown = SCREENS[name]
        take_screen(GALLERY / name, GALLERY / page, shown)


if __name__ == "__main__":
    make_all(sys.argv[1:])

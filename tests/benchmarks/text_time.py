"""How long each command takes on texts of doubling lengths, and what growth is fine.

A text of one word has one token, however long it is: time may grow with its characters, in proportion. Of many words
every weight is computed and drawn, or written: time may grow with the square of their number, and ``heatmap``, whose
maps are pooled from 512 words on, is no exception. What is left to grow between the last two lengths is printed beside
what is fine, 2 for a doubling in proportion and 4 for a square, with a little for the clock. Seconds are those of the
processor, not of the clock on the wall, without the import of libraries.
"""

import contextlib
import io
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from measure import parse_repeat

from mhaviz.cli import main as mhaviz

CHARACTERS = (10_000, 20_000, 40_000)
WORDS = (500, 1000, 2000)
PROPORTION, SQUARE = 2.4, 4.8
ENOUGH = 0.1  # seconds; less is the work that does not depend on the text

TEXTS: dict[str, tuple[Callable[[int], str], Sequence[int], float]] = {
    "a word of letters": (lambda n: "x" * n, CHARACTERS, PROPORTION),
    "a word of Hangul": (lambda n: "한국어" * (n // 3), CHARACTERS, PROPORTION),
    "a letter under marks": (lambda n: "a" + "\N{COMBINING ACUTE ACCENT}" * n, CHARACTERS, PROPORTION),
    "words": (lambda n: " ".join(f"w{i}" for i in range(n)), WORDS, SQUARE),
    "ideographs": (lambda n: "".join(chr(0x4E00 + i) for i in range(n)), WORDS, SQUARE),
    "long words": (lambda n: " ".join(f"{i}{'y' * 200}" for i in range(n)), WORDS, SQUARE),
}
COMMANDS: dict[str, Sequence[str]] = {
    "heatmap": ("heatmap", "-"),
    "heatmap -o x.png": ("heatmap", "-", "--quiet", "-o", "x.png"),
    "heatmap -o x.pdf": ("heatmap", "-", "--quiet", "-o", "x.pdf"),
    "trace-shapes": ("trace-shapes", "-"),
    "trace-shapes -o x.png": ("trace-shapes", "-", "--quiet", "-o", "x.png"),
    "explain": ("explain", "-", "--token", "0"),
    "compare-scaling -o x.png": ("compare-scaling", "-", "--quiet", "-o", "x.png"),
    "compare-projections -o x.png": ("compare-projections", "-", "--include-self", "--quiet", "-o", "x.png"),
    "compare-projections --json": ("compare-projections", "-", "--include-self", "--json"),
    "report": ("report", "-"),
    "report -o x.png": ("report", "-", "--quiet", "-o", "x.png"),
}


def seconds(arguments: Sequence[str], text: str) -> float:
    """Of the processor, for a command that reads the text from standard input."""
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    start = time.process_time()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        status = mhaviz(list(arguments))
    taken = time.process_time() - start
    if status:
        raise SystemExit(f"exit status {status} from mhaviz {' '.join(arguments)}")
    return taken


def row(command: str, kind: str, repeat: int) -> tuple[str, ...]:
    make, lengths, fine = TEXTS[kind]
    times = [statistics.median(seconds(COMMANDS[command], make(n)) for _ in range(repeat)) for n in lengths]
    growth = times[-1] / max(times[-2], ENOUGH)
    shown = " → ".join(f"{n:,}: {taken:.2f} s" for n, taken in zip(lengths, times, strict=True))
    return command, kind, shown, f"{growth:.1f}x", f"<= {fine:g}x", "" if growth <= fine else "too much"


def main() -> None:
    repeat = parse_repeat(__doc__, default=1)
    os.environ["COLUMNS"] = "80"
    print("| command | text | time | growth | fine | |")
    print("| --- | --- | --- | ---: | ---: | --- |")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for arguments in COMMANDS.values():
            seconds(arguments, "what is imported and remembered once")
        for command, kind in itertools.product(COMMANDS, TEXTS):
            print(f"| {' | '.join(row(command, kind, repeat))} |", flush=True)


if __name__ == "__main__":
    main()

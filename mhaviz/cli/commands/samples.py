"""mhaviz samples"""

from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from mhaviz.cli.shared.console import say
from mhaviz.errors import MhavizError
from mhaviz.files.writing import write_whole

FILES = (
    "bottles.txt",
    "deletion.py",
    "denoise.py",
    "diverge.py",
    "documents.json",
    "documents.txt",
    "induction.py",
    "my_attention.py",
    "paint.py",
    "pairs.tsv",
    "pronouns.tsv",
    "questions.jsonl",
    "reverse.py",
    "scripts.txt",
    "sentiment.py",
    "signs.py",
    "text.txt",
    "words.txt",
)


def samples(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Created if it does not exist.")] = Path("samples"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Write the sample files that the examples use to a folder.

    \b
    mhaviz samples
    mhaviz samples elsewhere

    Files that exist are left as they are.
    """
    package = Path(__file__).parents[2]
    # A wheel has the samples inside the package, a checkout beside it.
    source = next(place for place in (package / "samples", package.parent / "samples") if place.is_dir())
    new = [name for name in FILES if not (folder / name).exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MhavizError(f"cannot write to {folder}: {error.strerror}") from error
    write_whole([(folder / name, partial(_copy, source / name)) for name in new])
    for name in [] if quiet else FILES:
        say(f"{'saved' if name in new else 'left as it is:'} {folder / name}")


def _copy(source: Path, target: BinaryIO) -> None:
    target.write(source.read_bytes())

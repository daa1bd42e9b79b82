"""How files are called that keep what has been added up of a corpus."""

import os
from pathlib import Path

SUFFIX = ".safetensors"

_LONGEST = 200  # bytes: file systems allow 255, and the number of a process may be added


def part_beside(output: Path) -> Path:
    """heads.png → heads.part.safetensors. A long name is cut."""
    stem = output.stem
    while len(os.fsencode(stem)) > _LONGEST:
        stem = stem[:-1]
    return output.with_name(f"{stem}.part{SUFFIX}")


def part_of_process(part: Path, number: int, count: int) -> Path:
    """Of one of several processes: part.safetensors → part-1-of-8.safetensors; of one alone it is the file itself."""
    return part if count == 1 else part.with_name(f"{part.stem}-{number}-of-{count}{SUFFIX}")

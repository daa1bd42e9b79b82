"""How files are called that keep what has been added up of a corpus."""

from pathlib import Path

SUFFIX = ".safetensors"


def part_beside(output: Path) -> Path:
    """heads.png → heads.part.safetensors."""
    return output.with_suffix(f".part{SUFFIX}")


def part_of_process(part: Path, number: int, count: int) -> Path:
    """Of one of several processes: part.safetensors → part-1-of-8.safetensors; of one alone it is the file itself."""
    return part if count == 1 else part.with_name(f"{part.stem}-{number}-of-{count}{SUFFIX}")

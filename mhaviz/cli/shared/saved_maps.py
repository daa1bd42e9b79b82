"""Files of saved maps: reading them, and choosing among what they hold."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.numbers import parse_heads
from mhaviz.errors import ArgumentError

if TYPE_CHECKING:
    from mhaviz.files.maps import About, SavedMaps
    from mhaviz.records import Attention


def read_saved(path: Path, about: "About", delivery: Delivery) -> "SavedMaps":
    """The maps of a file; ``delivery`` tells that a large one is unpacked. Raises as ``read_maps`` does."""
    from mhaviz.files.maps import read_maps

    try:
        return read_maps(path, about, lambda notice: delivery.tell([notice]))
    except ArgumentError as error:  # its message begins with the name of a part of ``about``
        raise ArgumentError(f"--{error}") from error


def require_use(abouts: Sequence["About"], files: Mapping[Path, "SavedMaps"]) -> None:
    """Raise ArgumentError if there is nothing that the options could be about: mhaviz's own files say it themselves."""
    names = ("name", "queries", "keys", "kind")
    given = [f"--{name}" for name in names if any(getattr(about, name) is not None for about in abouts)]
    if given and all(saved.is_own for saved in files.values()):
        bring = "brings its" if len(files) == 1 else "bring their"
        raise ArgumentError(
            f"{' and '.join(map(str, files))} {bring} own tokens and kinds; leave out {', '.join(given)}"
        )


def choose_maps(attention: "Attention", layer: int | None, head: str = "all") -> "Attention":
    """The maps of a layer, or of all, with the heads that are asked for.

    Raises:
        ArgumentError: there is no such layer or head.
    """
    layers = sorted({m.layer for m in attention.maps})
    if layer is not None and layer not in layers:
        there = f"layer {layers[0]} only" if len(layers) == 1 else f"layers {', '.join(map(str, layers))}"
        raise ArgumentError(f"--layer: there is no layer {layer}; the maps have {there}")
    chosen = replace(attention, maps=tuple(m for m in attention.maps if layer in (None, m.layer)))
    heads = find_heads(chosen, head)
    return chosen if heads is None else chosen.select(heads)


def find_heads(attention: "Attention", head: str) -> tuple[int, ...] | None:
    """The heads that are asked for; None: all. Raises ArgumentError if a map lacks one."""
    if head.strip().lower() == "all":
        return None
    heads = parse_heads(head, 1 + max(number for m in attention.maps for number in m.heads))
    for m in attention.maps:
        missing = [number for number in heads if number not in m.heads]
        if missing:
            there = ", ".join(map(str, m.heads[:12])) + ", …" * (len(m.heads) > 12)
            raise ArgumentError(f"--head: there is no head {missing[0]}; a map has heads {there}")
    return heads

"""mhaviz show"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mhaviz.cli.shared.appearance import MapOptions, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.images import ImageOptions
from mhaviz.cli.shared.models import ArrayKind, Heads, Mean, array_option
from mhaviz.files.texts import read_labels
from mhaviz.pages.registry import MAP_SUFFIXES


@dataclass(frozen=True, eq=False, repr=False)
class ArrayOptions:
    """An array of a file."""

    name: Annotated[str | None, array_option(metavar="NAME", help="Name of the array, if the file holds several.")] = (
        None
    )
    queries: Annotated[
        Path | None,
        array_option(
            metavar="LABELS.txt",
            help="Labels of the rows, one a line; alone, of both sides of a square map. \\[default: positions]",
        ),
    ] = None
    keys: Annotated[Path | None, array_option(metavar="LABELS.txt", help="Labels of the columns, one a line.")] = None
    kind: ArrayKind = None

    @property
    def files(self) -> list[Path]:
        """Those that are read."""
        return [path for path in (self.queries, self.keys) if path is not None]


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .safetensors, .json, .npy, .npz or .pt file.")],
    arrays: ArrayOptions,
    delivery: Delivery,
    looks: MapOptions,
    images: ImageOptions,
    head: Heads = None,
    layer: Annotated[int | None, typer.Option(help="Maps of this layer alone.")] = None,
    mean: Mean = False,
) -> None:
    """Draw attention weights that have been saved.

    \b
    mhaviz show maps.safetensors --head 0-3 -o heads.png
    mhaviz show attentions.pt --queries words.txt
    mhaviz show weights.npz --name layer_0 --kind masked
    mhaviz show maps.safetensors --image photo.png --query 5,7 -o over.png

    FILE is what mhaviz heatmap -o has saved as .safetensors or .json: the picture is the same again. Or it is an array
    of weights of another tool: (q_length, k_length), (n_heads, q_length, k_length) or
    (n_layers, n_heads, q_length, k_length); several arrays layer_0, layer_1, … are a layer each, and so are the tensors
    of a list in a .pt file, such as the attentions of a Hugging Face model. The first of four axes is always taken for
    layers: of a batch, save one sequence, such as array[0].

    Output: a {MAP_SUFFIXES} file. With --image pictures and JSON are of the attention over it.
    """
    delivery.check([file, *arrays.files, *images.files], MAP_SUFFIXES)
    style = style_of(looks)
    images.check(looks)

    from mhaviz.api.saved_maps import read

    queries, keys = (None if path is None else read_labels(path) for path in (arrays.queries, arrays.keys))
    attention = read(file, arrays.name, queries, keys, arrays.kind, delivery.tell)
    chosen = attention.select(head, layer)
    images.deliver(chosen.mean() if mean else chosen, delivery, style)

"""mhaviz show"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mhaviz.cli.shared.appearance import MapOptions, style_of
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.images import ImageOptions
from mhaviz.cli.shared.models import ArrayKind, By, Heads, Mean, array_option, read_by
from mhaviz.files.texts import read_labels
from mhaviz.pages.registry import MAP_SUFFIXES


@dataclass(frozen=True, eq=False, repr=False)
class ArrayOptions:
    """Options for an array of another tool."""

    name: Annotated[str | None, array_option(metavar="NAME", help="Name of the array, if the file holds several.")] = (
        None
    )
    queries: Annotated[
        Path | None,
        array_option(
            metavar="LABELS.txt",
            help="Labels of the rows, one per line; alone, of both sides of a square map. \\[default: positions]",
        ),
    ] = None
    keys: Annotated[Path | None, array_option(metavar="LABELS.txt", help="Labels of the columns, one per line.")] = None
    kind: ArrayKind = None

    @property
    def files(self) -> list[Path]:
        """Files that are read for these options."""
        return [path for path in (self.queries, self.keys) if path is not None]


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .safetensors, .json, .npy, .npz or .pt file.")],
    arrays: ArrayOptions,
    delivery: Delivery,
    looks: MapOptions,
    images: ImageOptions,
    head: Heads = None,
    layer: Annotated[int | None, typer.Option(help="Draw only this layer.")] = None,
    mean: Mean = None,
    by: By = None,
) -> None:
    """Draw saved attention weights.

    \b
    mhaviz show maps.safetensors --head 0-3 -o heads.png
    mhaviz show attentions.pt --queries words.txt
    mhaviz show weights.npz --name layer_0 --kind masked
    mhaviz show maps.safetensors --image photo.png --query 5,7 -o over.png

    FILE is a .safetensors or .json file of mhaviz heatmap -o, which gives the same picture again; or an array of
    weights from another tool, of shape (q_length, k_length), (n_heads, q_length, k_length) or
    (n_layers, n_heads, q_length, k_length). Arrays named layer_0, layer_1, … hold one layer each, and so do the tensors
    of a list in a .pt file, such as the attentions of a Hugging Face model. A list for each step, as of generate, is
    joined to one map for each layer; beam_indices beside it tell which beams were followed. The first of four axes of
    an array is taken for layers: save only one sequence of a batch, such as array[0].

    Output: a {MAP_SUFFIXES} file. With --image, pictures and JSON show the attention over the image.
    """
    delivery.check([file, *arrays.files, *images.files], MAP_SUFFIXES)
    style = style_of(looks, delivery)
    images.check(head=head, is_mean=mean is not None)
    spans = read_by(by)

    from mhaviz.api.saved_maps import read

    queries, keys = (None if path is None else read_labels(path) for path in (arrays.queries, arrays.keys))
    attention = read(file, arrays.name, queries, keys, arrays.kind, delivery.tell)
    chosen = attention.select(head, layer)
    chosen = chosen if spans is None else chosen.by(spans)
    images.deliver(chosen, delivery, style, mean)

"""mhaviz show"""

from pathlib import Path
from typing import Annotated

import typer

from mhaviz.cli import options
from mhaviz.cli.delivery import Delivery
from mhaviz.cli.drawn_maps import deliver_maps
from mhaviz.cli.saved_maps import about_arrays, choose_maps, read_saved, require_use
from mhaviz.views.files import FIGURE_SUFFIXES


def show(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .safetensors, .json, .npy, .npz or .pt file.")],
    head: options.SavedHead = "all",
    layer: options.SavedLayer = None,
    name: options.ArrayName = None,
    queries: options.QueryLabels = None,
    keys: options.KeyLabels = None,
    kind: options.ArrayKind = None,
    output: options.Output = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    cmap: options.Cmap = "bone",
    vmax: options.Vmax = "1",
    scale: options.LookScale = None,
    dpi: options.Dpi = 150,
    columns: options.Columns = None,
) -> None:
    """Draw attention weights that have been saved.

    FILE is what mhaviz heatmap -o has saved as .safetensors or .json: the picture is the same again. Or it is an array
    of weights of another tool, in a .npy, .npz, .safetensors or .pt file: (q_length, k_length),
    (n_heads, q_length, k_length), (n_layers, n_heads, q_length, k_length) or
    (n_layers, 1, n_heads, q_length, k_length). In a .pt file a list or a tuple of tensors, such as the attentions of a
    Hugging Face model, is a layer a tensor.

    The first of four axes is always taken for layers: of a batch, save one sequence, such as array[0].

    Maps of more than 128 keys, and parts of maps, have colours that end at the weights that there are, unless --vmax or
    --scale says otherwise.

    Output: a .png, .svg, .pdf, .json or .safetensors file.
    """
    suffixes = (*FIGURE_SUFFIXES, ".json", ".safetensors")
    delivery = Delivery(output or (), quiet, json, suffixes, options.files_read(context))

    look = options.choose_map_look(context)
    about = about_arrays(name, queries, keys, kind)
    saved = read_saved(file, about, delivery)
    require_use(about, {file: saved})
    delivery.tell(saved.notices)
    attention = choose_maps(saved.attention, layer, head)
    look = options.fit_look(context, look, attention.maps)

    deliver_maps(delivery, attention, look)

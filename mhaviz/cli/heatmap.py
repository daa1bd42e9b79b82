"""mhaviz heatmap"""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli import options
from mhaviz.cli.delivery import Delivery
from mhaviz.cli.layers import choose_layer
from mhaviz.cli.long_inputs import MAX_TOKENS, SIZE, LongInputs
from mhaviz.cli.sentences import (
    lines_notice,
    quotes_notice,
    read_sentences,
    require_at_most,
    require_some,
    require_words,
)
from mhaviz.views.files import FIGURE_SUFFIXES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.views.figure.sheet import Sheet


def heatmap(
    context: typer.Context,
    sentences: options.Sentences = None,
    file: options.File = None,
    target: options.Target = None,
    head: Annotated[str, typer.Option(help="Heads to draw: 0,3-5 or all.")] = "all",
    checkpoint: options.Checkpoint = None,
    kind: options.KindOption = None,
    d_model: options.DModel = 512,
    heads: options.Heads = 8,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    mask: options.MaskOption = options.Mask.none,
    whole: options.Whole = False,
    pool: options.PoolOption = None,
    size: options.Size = SIZE,
    window: options.WindowOption = None,
    summary: options.Summary = None,
    memory: options.Memory = None,
    max_tokens: options.MaxTokens = MAX_TOKENS,
    output: options.Output = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    cmap: options.Cmap = "bone",
    vmax: options.Vmax = "1",
    scale: options.LookScale = None,
    dpi: options.Dpi = 150,
    columns: options.Columns = None,
) -> None:
    """Draw the attention weights of every head.

    Each row of a map is a query, each column a key, each cell the weight that the query gives to the key.

    With --checkpoint: all attentions of a trained model. A translator writes the target itself, unless --target gives
    it; each row of its source-target attention is labelled with the word that is being produced.

    Maps of more than --size tokens are computed block by block, exactly, and pooled. Then, and in windows, the colours
    are those of the weights that there are, unless --vmax or --scale says otherwise.

    Output: a .png, .svg, .pdf, .json or .safetensors file.
    """
    delivery = Delivery(output or (), quiet, json, (*FIGURE_SUFFIXES, ".json", ".safetensors"))
    asked_size = size if options.given(context, ["size"]) else None
    long = LongInputs(
        pool, asked_size, options.parse_window(window), options.parse_memory(memory), summary, device, quiet
    )
    texts = read_sentences(sentences, file, whole)
    require_some(texts)
    require_words("--target", target)
    longest = require_at_most(max_tokens, [*texts, *([target] if target else [])])

    look = options.choose_look(
        cmap, dpi, columns, options.parse_vmax(vmax), log=scale.value == "log" if scale else None
    )
    layer = choose_layer(context)
    chosen = options.parse_heads(head, layer.n_heads)
    pooling = long.plan(longest, len(texts), len(chosen))
    if pooling is None:
        attention = layer.attend(texts, target).select(chosen)
    else:
        attention = long.map(layer, texts, target, chosen, pooling)
        if any(m.cells is not None for m in attention.maps) and not options.given(context, ["vmax"]):
            look = replace(look, vmax=None)

    def draw() -> "Sheet":
        from mhaviz.views.figure.heatmap import heatmap_figure

        return heatmap_figure(attention, look)

    def view() -> "RenderableType":
        from mhaviz.views.terminal.heatmap import HeatmapView

        return HeatmapView(attention, look)

    delivery.deliver(attention, draw, view, notice=quotes_notice(sentences) or lines_notice(file, whole, texts))

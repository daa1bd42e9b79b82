"""mhaviz heatmap"""

from typing import Annotated

import typer

from mhaviz.cli import options
from mhaviz.cli.delivery import Delivery
from mhaviz.cli.drawn_maps import deliver_maps, require_drawable
from mhaviz.cli.layers import choose_layer, pretrained_notices
from mhaviz.cli.long_inputs import MAX_TOKENS, LongInputs
from mhaviz.cli.model_checks import rolled_out, verified
from mhaviz.cli.sentences import (
    lines_notice,
    quotes_notice,
    read_sentences,
    require_at_most,
    require_length,
    require_some,
    require_words,
)
from mhaviz.errors import ArgumentError
from mhaviz.limits import MOST_CELLS
from mhaviz.views.files import FIGURE_SUFFIXES


def heatmap(
    context: typer.Context,
    sentences: options.Sentences = None,
    file: options.File = None,
    target: options.Target = None,
    head: Annotated[str, typer.Option(help="Heads to draw: 0,3-5 or all.")] = "all",
    checkpoint: options.Checkpoint = None,
    kind: options.KindOption = None,
    model: options.Model = None,
    revision: options.Revision = None,
    dtype: options.Dtype = "auto",
    layer: options.Layers = None,
    hide_special: options.HideSpecial = False,
    generate: options.Generate = 0,
    verify: options.Verify = False,
    rollout: options.Rollout = False,
    weights: options.WeightsFile = None,
    prefix: options.Prefix = None,
    input: options.InputFile = None,
    input_name: options.InputName = None,
    d_model: options.DModel = 512,
    heads: options.Heads = 8,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    mask: options.MaskOption = options.Mask.none,
    whole: options.Whole = False,
    pool: options.PoolOption = None,
    size: options.Size = MOST_CELLS,
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

    With --model: every layer of a checkpoint of transformers, a row of heads a layer, as it is: whatever attention
    kernel it runs, whatever rules it has for its scores. A decoder's map may go on with what it writes (--generate); a
    rollout follows the tokens through the layers.

    With --checkpoint: all attentions of a trained model. A translator writes the target itself, unless --target gives
    it; each row of its source-target attention is labelled with the word that is being produced.

    With --weights: the attention of a file, on random embeddings of the sentence, or on --input.

    Maps of more than --size tokens are computed block by block, exactly, and pooled. The colours of maps of more than
    128 keys, and of windows, end at the weights that there are, unless --vmax or --scale says otherwise.

    Output: a .png, .svg, .pdf, .json or .safetensors file.
    """
    suffixes = (*FIGURE_SUFFIXES, ".json", ".safetensors")
    delivery = Delivery(output or (), quiet, json, suffixes, options.files_read(context))
    asked_size = size if options.given(context, ["size"]) else None
    long = LongInputs(pool, asked_size, options.parse_window(window), options.parse_memory(memory), summary, delivery)
    texts = read_sentences(sentences, file, whole, any_text=model is not None)
    if input is None:
        require_some(texts)
    if model is None:
        require_words("--target", target)
        require_at_most(max_tokens, [*texts, *([target] if target else [])])

    look = options.choose_map_look(context)
    source = choose_layer(context, delivery)
    delivery.tell(pretrained_notices(source))
    chosen = options.parse_heads(head, source.n_heads)
    inputs = source.encode(texts, target)
    require_length(inputs.longest, max_tokens)
    n_maps = len(inputs.texts) * len(source.sites(inputs))
    if not rollout:
        require_drawable(delivery, n_maps, by_layer=model is not None)
    pooling = long.plan(inputs.longest, n_maps, len(chosen), source.device)
    if rollout:
        attention = rolled_out(context, source, inputs)
    elif pooling is None:
        from mhaviz.analyses.weights import attention_weights

        attention = attention_weights(source, inputs, chosen, hide_special)
    else:
        attention = long.map(source, inputs, chosen, hide_special, pooling)
    look = options.fit_look(context, look, attention.maps)

    if verify:
        if hide_special:
            raise ArgumentError("--verify compares with all tokens; leave out --hide-special")
        attention, told = verified(attention, source, inputs, chosen)
        delivery.tell([told])

    deliver_maps(delivery, attention, look, quotes_notice(sentences) or lines_notice(file, whole, texts))

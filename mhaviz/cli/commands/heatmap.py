"""mhaviz heatmap"""

from typing import Annotated

import typer

from mhaviz.cli.shared.delivery import MAP_SUFFIXES, Delivery
from mhaviz.cli.shared.drawn_maps import deliver_maps, require_drawable
from mhaviz.cli.shared.groups import (
    MODEL,
    File,
    Heads,
    LongOptions,
    ManyLayers,
    MapOptions,
    OutputOptions,
    Sentences,
    Target,
)
from mhaviz.cli.shared.numbers import parse_heads
from mhaviz.cli.shared.progress import progress
from mhaviz.cli.shared.sentences import (
    lines_notice,
    quotes_notice,
    read_sentences,
    require_at_most,
    require_some,
    require_words,
)
from mhaviz.errors import ArgumentError


def heatmap(
    model: ManyLayers,
    long: LongOptions,
    options: OutputOptions,
    looks: MapOptions,
    sentences: Sentences = None,
    file: File = None,
    target: Target = None,
    head: Heads = "all",
    hide_special: Annotated[
        bool,
        typer.Option(
            "--hide-special",
            help="Leave out [CLS] and its like; the others share their weight.",
            rich_help_panel=MODEL,
        ),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Recompute the model's outputs; exit with 1 if they differ.",
            rich_help_panel=MODEL,
        ),
    ] = False,
    rollout: Annotated[
        bool,
        typer.Option(
            "--rollout",
            help="Attention rollout up to each layer.",
            rich_help_panel=MODEL,
        ),
    ] = False,
) -> None:
    """Draw the attention weights of every head.

    \b
    mhaviz heatmap "I wonder what will come next!" -o heatmap.png
    mhaviz heatmap --model translation "the small black cat sees my car"
    mhaviz heatmap --model path/to/bert "The animal didn't cross the street." --layer 2 -o layer.pdf
    mhaviz heatmap --file book.txt --whole --mask causal -o book.png

    A row is a query, a column a key, a cell the weight that the query gives to the key. Maps of more than --size
    tokens are computed block by block, exactly, and pooled.

    Output: a .png, .svg, .pdf, .json or .safetensors file.
    """
    delivery = Delivery.of(options, [*model.files, *([file] if file else [])], MAP_SUFFIXES)
    asked, any_text = long.asked, model.takes_any_text
    texts = read_sentences(sentences, file, long.whole, any_text)
    if model.input is None:
        require_some(texts)
    if not any_text:
        require_words("--target", target)
        require_at_most(long.max_tokens, [*texts, *([target] if target else [])])
    unheeded = [f"--{name}" for name, value in asked.items() if value is not None and name != "max_tokens"]
    unheeded += ["--head"] * (head != "all") + ["--verify"] * verify
    if rollout and unheeded:
        raise ArgumentError(f"--rollout goes through all heads and all tokens; leave out {', '.join(unheeded)}")
    _ = looks.look  # for its errors

    loaded = model.load(delivery.notice)
    delivery.tell(loaded.notices)
    with progress(delivery.quiet, time_left=True) as on_progress:
        attention = loaded.attend(
            texts,
            target,
            layer=model.layers(loaded),
            head=parse_heads(head, loaded.n_heads),
            kind=model.kind_name,
            generate=model.generate,
            hide_special=hide_special,
            rollout=rollout,
            verify=verify,
            check=lambda n_maps: require_drawable(delivery, n_maps, by_layer=len(loaded.layers) > 1),
            on_notice=None if delivery.quiet else delivery.notice,
            on_progress=lambda done: on_progress(done, "of the map"),
            **asked,
        )
    notice = quotes_notice(sentences) or lines_notice(file, long.whole, texts)
    deliver_maps(delivery, attention, looks.look_of(attention.maps), notice)

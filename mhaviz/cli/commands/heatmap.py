"""mhaviz heatmap"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import typer

from mhaviz.cli.shared.appearance import MapOptions, PoolOptions, long_option, style_of
from mhaviz.cli.shared.console import progress
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import AnyModelOptions, By, Generate, Heads, Kind, Layers, Mean, model_option, read_by
from mhaviz.cli.shared.parsing import parse_window, parsed
from mhaviz.cli.shared.queries import As, deliver_form, require_form, require_query
from mhaviz.cli.shared.texts import Instead, Several, Target, given_to, lines_notice, quotes_notice
from mhaviz.pages.registry import MAP_SUFFIXES


@dataclass(frozen=True, eq=False, repr=False)
class LongOptions(PoolOptions):
    """Options for long inputs, whole or in part."""

    whole: Annotated[bool, long_option("--whole", help="Read all of --file, or of -, as one input.")] = False
    window: Annotated[
        Any,
        long_option(
            metavar="Q0:Q1,K0:K1",
            parser=parsed(parse_window, "queries and keys such as 0:512,1000:1512 or 0:512,:"),
            help="Show only these queries and keys.",
        ),
    ] = None


def heatmap(
    *,
    model: AnyModelOptions,
    long: LongOptions,
    delivery: Delivery,
    looks: MapOptions,
    texts: Several,
    target: Target = None,
    instead: Instead,
    show: Annotated[
        Literal["weights", "norms", "uniform", "rollout"],
        model_option(
            metavar="NUMBERS",
            show_default=False,
            help="weights (default); norms: weight × norm of v W_O; uniform: weight × keys seen; rollout up to each "
            "layer.",
        ),
    ] = "weights",
    layer: Layers = None,
    head: Heads = None,
    kind: Kind = None,
    query: Annotated[
        str | None, typer.Option(metavar="WORD", help="What a word, or the token at a position, #10, looks at.")
    ] = None,
    form: As = None,
    mean: Mean = None,
    by: By = None,
    generate: Generate = 0,
    hide_special: Annotated[
        bool, model_option("--hide-special", help="Crop tokens such as [CLS]; weights stay as they are.")
    ] = False,
    verify: Annotated[
        bool, model_option("--verify", help="Recompute the outputs; exit with 1 if they differ.")
    ] = False,
) -> None:
    """Draw the attention weights of every head.

    \b
    mhaviz heatmap "I wonder what will come next!" -o heatmap.png
    mhaviz heatmap --model translation "the small black cat sees my car"
    mhaviz heatmap --model path/to/bert "The animal didn't cross the street." --layer 2 -o layer.pdf
    mhaviz heatmap --model path/to/cross-encoder "What is a cat?" --pair "A small animal." -o pair.png
    mhaviz heatmap --file book.txt --whole --mask causal -o book.png

    Rows are queries, columns are keys, and a cell is the weight that its query gives to its key. Maps of more than
    --size tokens are pooled exactly. A repeated token has its position beside it, counted from 0, such as the₂, or
    w12#2 after a digit. See --help-all for --chat and --ids.

    Output: a {MAP_SUFFIXES} file.
    """
    given = given_to(model, delivery, texts, target, instead, MAP_SUFFIXES, generate=generate, whole=long.whole)
    style = style_of(looks, delivery)
    if show not in ("norms", "uniform"):
        style.require_vmax()
    require_query(query, form, head, is_mean=mean is not None)
    spans = read_by(by)
    from mhaviz.api.loaded import checked

    loaded = model.load(delivery, given)
    delivery.tell(*loaded.notices)
    if mean is None:
        delivery.require_drawable(len(given.sentences) * len(layer or loaded.layers))
    with progress(delivery.quiet, "computing", time_left=True) as on_progress:
        attention = checked(loaded, partial(require_form, query=query, form=form, style=style)).attend(
            given,
            layer=layer,
            head=head,
            kind=kind,
            hide_special=hide_special,
            show=show,
            page=".html" in delivery.suffixes and show != "uniform" and mean is None and query is None and by is None,
            verify=verify,
            pool=long.pool,
            size=long.size,
            window=long.window,
            mean=mean,
            by=spans,
            on_notice=None if delivery.quiet else delivery.tell,
            on_progress=on_progress,
        )
    notice = quotes_notice(texts.sentences) or lines_notice(texts.file, long.whole, given.sentences)
    deliver_form(attention, query, form, delivery, style, notice)

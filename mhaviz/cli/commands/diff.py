"""mhaviz diff"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import FigureOptions, Heads, given, look_option
from mhaviz.cli.shared.model_pair import PairOptions, diff_of_models
from mhaviz.cli.shared.saved_difference import diff_of_files
from mhaviz.cli.shared.saved_maps import ArrayOptions
from mhaviz.errors import ArgumentError
from mhaviz.views.formats import DIFFERENCE_SUFFIXES

_CHANGES = "RdBu_r"


@dataclass(frozen=True, eq=False, repr=False)
class ChangeOptions(FigureOptions):
    """How changes look."""

    cmap: Annotated[str, look_option(help="A matplotlib colormap for the changes, no change in its middle.")] = _CHANGES
    vmax: Annotated[
        str | None,
        look_option(
            metavar="CHANGE|auto",
            help="The change with the last colour. \\[default: auto: the largest, or nearly so of long maps]",
        ),
    ] = "auto"


def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="A file with maps; a model's folder or hub id.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="Another, with maps of the same tokens.")],
    arrays: ArrayOptions,
    pair: PairOptions,
    delivery: Delivery,
    looks: ChangeOptions,
    sentences: Annotated[
        list[str] | None, typer.Argument(metavar="SENTENCE", help="What two models read, in quotes; or --file.")
    ] = None,
    head: Heads = "all",
    layer: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Maps of this layer alone; given twice: that of A with that of B."),
    ] = None,
    fail_above: Annotated[
        float | None,
        typer.Option(
            metavar="BITS",
            help="Exit with 3 if the divergence of any head, the mean of its rows, is above this, from 0 to 1.",
        ),
    ] = None,
    fail_above_row: Annotated[
        float | None,
        typer.Option(
            metavar="BITS",
            help="Exit with 3 if the divergence of any row of any head is above this, from 0 to 1.",
        ),
    ] = None,
) -> None:
    """Show what differs between two saved attentions of the same tokens, or between two models over a corpus.

    \b
    mhaviz diff before.safetensors after.safetensors -o change.png
    mhaviz diff before.safetensors after.safetensors --fail-above 0.05
    mhaviz diff maps.safetensors maps.safetensors --layer 0 --layer 1
    mhaviz diff path/to/A path/to/B --file corpus.txt --fail-above 0.1 -o result.json -o junit.xml
    mhaviz diff path/to/A path/to/A --file corpus.txt --dtype float32 --dtype bfloat16

    A and B are files that mhaviz show draws: maps of the same sentence, layer and kind are compared, B − A. With
    sentences, or --file, they are models of one tokenizer, which read the same tokens. The heads are ranked by the mean
    Jensen–Shannon divergence of their rows, in bits: 0 for equal rows, 1 if they have no key in common. --name,
    --queries, --keys and --kind are about arrays; --kind, and --layer, also about models.

    Output: a {difference_files} file; .xml is JUnit's, a test case a head.

    Exit status: 0; 1 if it could not be compared; 2 for a wrong command line; 3 if more has changed than --fail-above
    or --fail-above-row allows.
    """
    corpus = pair.file is not None or bool(sentences)
    inputs = [before, after, *arrays.files, *([pair.file] if pair.file else [])]
    delivery.check(inputs, DIFFERENCE_SUFFIXES)
    style = looks.style

    from mhaviz.records import Limits

    limits = Limits(fail_above, fail_above_row)
    if not corpus:
        if loading := given(pair):
            raise ArgumentError(f"{', '.join(loading)}: for models, which read sentences; give some, or --file")
        diff_of_files((before, after), arrays, delivery, style, layer, head, limits)
        return
    of_maps = [
        *(option for option in given(arrays) if option != "--kind"),
        *(option for option in given(looks) if option not in ("--cmap", "--dpi")),
        *(["--head"] if head != "all" else []),
        *(["--layer twice"] if layer and len(layer) > 1 else []),
        *([".html"] if delivery.has_page else []),
    ]
    if of_maps:
        raise ArgumentError(f"{', '.join(of_maps)}: for saved maps, and these are models; leave it out")
    if looks.cmap == _CHANGES:
        style = replace(style, cmap="ink")
    one_layer = layer[0] if layer else None
    diff_of_models((before, after), sentences, pair, delivery, style, one_layer, arrays.kind, limits)

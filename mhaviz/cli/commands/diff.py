"""mhaviz diff"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from mhaviz.cli.shared.corpora import CorpusOptions
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import FigureOptions, Heads, given, look_option
from mhaviz.cli.shared.model_pair import PairOptions, diff_of_models, diff_of_parts
from mhaviz.cli.shared.saved_difference import diff_of_files
from mhaviz.cli.shared.saved_maps import ArrayOptions
from mhaviz.errors import ArgumentError
from mhaviz.files.part_names import SUFFIX
from mhaviz.views.formats import DIFFERENCE_SUFFIXES

_CHANGES = "RdBu_r"
_OF_PANELS = ("--cmap", "--dpi", "--title", "--no-title", "--no-footnote")  # which a picture of two models has, too


@dataclass(frozen=True, eq=False, repr=False)
class ChangeOptions(FigureOptions):
    """How changes look."""

    cmap: Annotated[str, look_option(help="A matplotlib colormap for the changes, no change in its middle.")] = _CHANGES
    vmax: Annotated[
        str | None,
        look_option(
            metavar="CHANGE|auto",
            help="The change with the last colour. \\[default: auto: the largest, or nearly so of long maps]",
            show_default=False,
        ),
    ] = "auto"


def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="A file with maps; a model's folder or hub id.")],
    arrays: ArrayOptions,
    pair: PairOptions,
    corpus: CorpusOptions,
    delivery: Delivery,
    looks: ChangeOptions,
    after: Annotated[
        Path | None, typer.Argument(metavar="B", help="Another, with maps of the same tokens.", show_default=False)
    ] = None,
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
            help="Exit with 3 if the mean divergence of a head is above this, 0 to 1.",
        ),
    ] = None,
    fail_above_row: Annotated[
        float | None,
        typer.Option(
            metavar="BITS",
            help="Exit with 3 if the divergence of a row is above this, 0 to 1.",
        ),
    ] = None,
) -> None:
    """Show what differs between two saved attentions, or between two models over a corpus.

    \b
    mhaviz diff before.safetensors after.safetensors -o change.png
    mhaviz diff before.safetensors after.safetensors --fail-above 0.05
    mhaviz diff maps.safetensors maps.safetensors --layer 0 --layer 1
    mhaviz diff path/to/A path/to/B --file corpus.txt --fail-above 0.1 -o result.json -o junit.xml
    mhaviz diff path/to/A path/to/A --file corpus.txt --dtype float32 --dtype bfloat16
    mhaviz diff path/to/A path/to/B --file corpus.txt --shard 3/64 -o part-3.safetensors
    mhaviz diff --merge part-*.safetensors --fail-above 0.1 -o junit.xml

    A and B are files that mhaviz show draws, with maps of the same tokens: those of the same sentence, layer and kind
    are compared, B − A. With sentences, or --file, they are models of one tokenizer. The heads are ranked by the mean
    Jensen–Shannon divergence of their rows, in bits: 0 for equal rows, 1 if they have no key in common. --name,
    --queries and --keys are about arrays.

    Output: a {difference_files} file; .xml: JUnit's, a test case a head; .safetensors: sums of two models, for --merge.

    Exit status: 0; 1 if it could not be compared; 2 for a wrong command line; 3 if more has changed than --fail-above
    or --fail-above-row allows. torchrun makes 1 of all: save a part, --merge it.
    """
    reads = pair.file is not None or (bool(sentences) and not corpus.merge)
    inputs = [before, *([after] if after else []), *arrays.files, *([pair.file] if pair.file else [])]
    inputs += map(Path, sentences or ()) if corpus.merge else ()
    delivery.check(inputs, (*DIFFERENCE_SUFFIXES, SUFFIX) if reads or corpus.merge else DIFFERENCE_SUFFIXES)
    style = looks.any_style

    from mhaviz.records import Limits

    limits = Limits(fail_above, fail_above_row)
    if not reads and not corpus.merge:
        if loading := [*given(pair), *given(corpus)]:
            raise ArgumentError(f"{', '.join(loading)}: for models, which read sentences; give some, or --file")
        diff_of_files((before, _named(after)), arrays, delivery, style, layer, head, limits)
        return
    of_maps = [
        *(option for option in given(arrays) if option != "--kind"),
        *(option for option in given(looks) if option not in _OF_PANELS),
        *(["--head"] if head != "all" else []),
        *(["--layer twice"] if layer and len(layer) > 1 else []),
        *([".html"] if delivery.has_page else []),
    ]
    if of_maps:
        raise ArgumentError(f"{', '.join(of_maps)}: for saved maps, and these are models; leave it out")
    style = replace(style, cmap="ink") if looks.cmap == _CHANGES else style
    if corpus.merge:
        corpus.require_merge_alone({"--layer": layer, "--kind": arrays.kind} | dict.fromkeys(given(pair), True))
        parts = [before, *([after] if after else []), *map(Path, sentences or ())]
        diff_of_parts(parts, corpus, delivery, style, limits)
        return
    one_layer = layer[0] if layer else None
    names = before, _named(after)
    diff_of_models(names, sentences, pair, corpus, delivery, style, one_layer, arrays.kind, limits)


def _named(after: Path | None) -> Path:
    """B. Raises ArgumentError if there is none."""
    if after is None:
        raise ArgumentError("diff: expected A and B, two files with maps or two models, got A alone; name both")
    return after

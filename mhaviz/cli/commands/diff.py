"""mhaviz diff"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mhaviz.cli.command import given
from mhaviz.cli.shared.appearance import PictureOptions, Width, look_option, style_of
from mhaviz.cli.shared.change_limits import LimitOptions, flaw_notices, require_at_most
from mhaviz.cli.shared.corpora import CorpusOptions
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.model_pair import PairOptions, diff_of_models
from mhaviz.cli.shared.models import Heads
from mhaviz.cli.shared.parsing import number_or_auto, parsed
from mhaviz.cli.shared.saved_maps import TwoArrayOptions, of_each
from mhaviz.errors import ArgumentError
from mhaviz.records.corpus_part import SUFFIX
from mhaviz.views.formats import PAGE_SUFFIXES

if TYPE_CHECKING:
    from mhaviz.records.difference import Limits
    from mhaviz.views.style import Style

_CHANGES = "RdBu_r"


@dataclass(frozen=True, eq=False, repr=False)
class ChangeOptions(PictureOptions):
    """How changes look."""

    cmap: Annotated[str, look_option(help="A diverging colormap of matplotlib.")] = _CHANGES
    vmax: Annotated[
        Any,
        look_option(
            metavar="CHANGE|auto",
            parser=parsed(number_or_auto, "a change such as 0.5, or auto"),
            help="Change of the last colour. \\[default: auto: the largest, or nearly so of long maps]",
        ),
    ] = None
    width: Width = None


def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="A file with maps; a model's folder or hub id.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="Another, with maps of the same tokens.")],
    array: TwoArrayOptions,
    pair: PairOptions,
    corpus: CorpusOptions,
    delivery: Delivery,
    looks: ChangeOptions,
    allowed: LimitOptions,
    head: Heads = None,
    layer: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Maps of this layer alone; given twice: that of A with that of B."),
    ] = None,
) -> None:
    """Show what differs between two saved attentions, or between two models over a corpus.

    \b
    mhaviz diff before.safetensors after.safetensors -o change.png
    mhaviz diff before.safetensors after.safetensors --fail-above 0.05
    mhaviz diff maps.safetensors maps.safetensors --layer 0 --layer 1
    mhaviz diff path/to/A path/to/B --file corpus.txt --fail-above 0.1 -o result.json
    mhaviz diff path/to/A path/to/B --file corpus.txt --shard 3/64 -o part-3.safetensors

    A and B are files that mhaviz show draws, with maps of the same tokens: those of the same sentence, layer and kind
    are compared, B − A. With --file they are models of one tokenizer. The heads are ranked by the mean Jensen–Shannon
    divergence of their rows, in bits: 0 for equal rows, 1 if they have no key in common. --name and --kind are about
    arrays of other tools.

    Output: a {PAGE_SUFFIXES} file; .safetensors: sums of two models, for mhaviz merge.

    Exit status: 0; 1 if it could not be compared; 2 for a wrong command line; 3 if more has changed than --fail-above
    or --fail-above-row allows. Under torchrun every failure is 1: save a part, and run mhaviz merge.
    """
    reads = pair.file is not None
    delivery.check(
        [before, after, *([pair.file] if pair.file else [])],
        (*PAGE_SUFFIXES, SUFFIX) if reads else PAGE_SUFFIXES,
    )
    style, limits = style_of(looks), allowed.limits
    if not reads:
        if loading := [*given(pair), *given(corpus)]:
            raise ArgumentError(f"{', '.join(loading)}: for models, which read sentences; name a file of them")
        _diff_of_files((before, after), array, delivery, style, layer, head, limits)
        return
    of_maps = [
        *(option for option in given(array) if option != "--kind"),
        *(option for option in given(looks) if option in ("--vmax", "--width")),
        *(["--head"] if head else []),
        *(["--layer twice"] if layer and len(layer) > 1 else []),
        *({".html"} & delivery.suffixes),
    ]
    if of_maps:
        raise ArgumentError(f"{', '.join(of_maps)}: for saved maps, and these are models; leave it out")
    style = replace(style, cmap="ink") if looks.cmap == _CHANGES else style
    one_layer = layer[0] if layer else None
    diff_of_models((before, after), pair, corpus, delivery, style, one_layer, array.kind, limits)


def _diff_of_files(
    paths: tuple[Path, Path],
    arrays: TwoArrayOptions,
    delivery: Delivery,
    style: "Style",
    layer: list[int] | None,
    heads: tuple[int, ...] | None,
    limits: "Limits",
) -> None:
    """Compare the maps of two files; heads that are not drawn are checked, too.

    Raises:
        ChangedError: they differ by more than the limits allow.
        ArgumentError, MhavizError: they cannot be read or compared.
    """
    from mhaviz.analyses.difference import compare

    for path in paths:
        if path.is_dir():
            raise ArgumentError(
                f"{path} is a folder: to compare models, name a file of sentences by --file; else expected a file with "
                f"attention maps"
            )
    before, after = paths
    first_layer, second_layer = of_each("--layer", layer)
    sides = (before, first_layer), (after, second_layer)
    files = arrays.read(paths, delivery)
    first, second = (saved.named(path) for saved, path in zip(files, paths, strict=True))
    whole = replace(compare(first, second, (first_layer, second_layer), common_heads=heads is not None), limits=limits)
    difference = whole.select(heads)
    for path, names in ((before, difference.only_before), (after, difference.only_after)):
        if names:
            delivery.tell(f"only in {path}: {'; '.join(names)}")
    delivery.tell(*flaw_notices(whole, sides))

    delivery.deliver(difference, style)
    require_at_most(whole, sides)

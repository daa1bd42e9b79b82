"""mhaviz diff"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli.shared.change_limits import flaw_notices, require_at_most
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.groups import FigureOptions, Heads, look_option
from mhaviz.cli.shared.saved_maps import ArrayOptions, find_heads, of_each
from mhaviz.errors import ArgumentError
from mhaviz.views.formats import PAGE_SUFFIXES

if TYPE_CHECKING:
    from mhaviz.files.maps import SavedMaps
    from mhaviz.records import Attention


@dataclass(frozen=True, eq=False, repr=False)
class ChangeOptions(FigureOptions):
    """How changes look."""

    cmap: Annotated[str, look_option(help="A matplotlib colormap for the changes, no change in its middle.")] = "RdBu_r"
    vmax: Annotated[
        str | None,
        look_option(
            metavar="CHANGE|auto",
            help="The change with the last colour. \\[default: auto: the largest, or nearly so of long maps]",
        ),
    ] = "auto"


def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="A .safetensors, .json, .npy, .npz or .pt file.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="Another, with maps of the same tokens.")],
    arrays: ArrayOptions,
    delivery: Delivery,
    looks: ChangeOptions,
    head: Heads = "all",
    layer: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Maps of this layer alone; given twice: that of A with that of B."),
    ] = None,
    fail_above: Annotated[
        float | None,
        typer.Option(
            metavar="BITS",
            help="Exit with 1 if the divergence of any head, the mean of its rows, is above this, from 0 to 1.",
        ),
    ] = None,
    fail_above_row: Annotated[
        float | None,
        typer.Option(
            metavar="BITS",
            help="Exit with 1 if the divergence of any row of any head is above this, from 0 to 1.",
        ),
    ] = None,
) -> None:
    """Show what has changed between two saved attentions of the same tokens: B − A.

    \b
    mhaviz diff before.safetensors after.safetensors -o change.png
    mhaviz diff before.safetensors after.safetensors --fail-above 0.05
    mhaviz diff maps.safetensors maps.safetensors --layer 0 --layer 1

    A and B are files that mhaviz show draws. Maps of the same sentence, layer and kind are compared; the heads are
    ranked by the mean Jensen–Shannon divergence of their rows, in bits: 0 for equal rows, 1 if they have no key in
    common. --name, --queries, --keys and --kind are about arrays: where one file brings its own tokens, they are about
    the other.

    Output: a {page_files} file.

    Exit status: 0; 1 if more has changed than --fail-above or --fail-above-row allows, or if it could not be compared;
    2 for a wrong command line.
    """
    delivery.check([before, after, *arrays.files], PAGE_SUFFIXES)
    for option, most in (("--fail-above", fail_above), ("--fail-above-row", fail_above_row)):
        if most is not None and not 0 <= most <= 1:
            raise ArgumentError(f"{option}: expected bits from 0 to 1, got {most}")

    from mhaviz.analyses.difference import compare, of_layers, with_common_heads
    from mhaviz.views.terminal.screen import MOST_MAPS

    style, paths = looks.style, (before, after)
    first_layer, second_layer = of_each("--layer", layer, 2)
    sides = (before, first_layer), (after, second_layer)
    files = arrays.read(paths, delivery)
    first, second = (_named(*one) for one in zip(files, paths, strict=True))
    first, second = of_layers(first, second, (first_layer, second_layer))
    find_heads(first, head)  # for its error
    heads = find_heads(second, head)
    if heads is not None:
        first, second = with_common_heads(first, second)
    n_maps = min(len(first.maps), len(second.maps))
    delivery.require_drawable(n_maps, by_layer=len({m.layer for m in second.maps}) > 1)
    whole = compare(first, second)
    difference = whole if heads is None else whole.select(heads)
    delivery.tell(
        f"only in {path}: {'; '.join(names)}"
        for path, names in ((before, difference.only_before), (after, difference.only_after))
        if names
    )
    delivery.tell(flaw_notices(whole, sides))

    delivery.deliver(difference, style, shown={"most": MOST_MAPS})
    if fail_above is not None or fail_above_row is not None:
        require_at_most(fail_above, fail_above_row, whole, sides)


def _named(saved: "SavedMaps", path: Path) -> "Attention":
    """The maps of a file, their footnote with its path: two runs may have the same footnote, or the same name."""
    source = saved.attention.source
    array = source.details.get("array")
    footnote = f"{path} ({source.footnote})" if saved.is_own else f"{path}" if array is None else f"{path}, {array}"
    return replace(saved.attention, source=replace(source, footnote=footnote))

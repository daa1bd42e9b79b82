"""mhaviz diff"""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli import options
from mhaviz.cli.delivery import Delivery
from mhaviz.cli.saved_maps import about_arrays, choose_maps
from mhaviz.errors import ArgumentError, MhavizError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mhaviz.records import Attention, Difference
    from mhaviz.sources.saved_maps import About
    from mhaviz.views.figure.sheet import Sheet


def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="A .safetensors, .json, .npy, .npz or .pt file.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="Another, with maps of the same tokens.")],
    head: options.SavedHead = "all",
    layer: options.Layer = None,
    fail_above: Annotated[
        float | None,
        typer.Option("--fail-above", metavar="NATS", help="Exit with 1 if the divergence of any head is above this."),
    ] = None,
    name: options.ArrayName = None,
    queries: options.QueryLabels = None,
    keys: options.KeyLabels = None,
    kind: options.ArrayKind = None,
    output: options.Output = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    cmap: options.Cmap = "RdBu_r",
    vmax: Annotated[
        str,
        typer.Option(
            metavar="CHANGE|auto",
            help="The change with the last colour; auto: the largest, or nearly so of long maps.",
            rich_help_panel="Looks",
        ),
    ] = "auto",
    dpi: options.Dpi = 150,
    columns: options.Columns = None,
) -> None:
    """Show what has changed between two saved attentions of the same tokens: B − A.

    A and B are files that mhaviz show draws. Maps of the same sentence, layer and kind are compared; the heads are
    ranked by the mean Jensen–Shannon divergence of their rows, in nats, from 0 to ln 2 = 0.693.

    Output: a .png, .svg, .pdf or .json file.
    """
    delivery = Delivery(output or (), quiet, json)
    if fail_above is not None and not 0 <= fail_above <= math.log(2):
        raise ArgumentError(f"--fail-above: expected nats from 0 to ln 2 = {math.log(2):.3f}, got {fail_above}")

    from mhaviz.studies.difference import compare
    from mhaviz.views.look import Look

    look = Look(cmap, dpi, columns, options.parse_vmax(vmax))
    about = about_arrays(name, queries, keys, kind)
    first, second = (choose_maps(_read(path, about, delivery), layer, head) for path in (before, after))
    difference = compare(first, second)
    delivery.tell(
        f"only in {path}: {'; '.join(names)}"
        for path, names in ((before, difference.only_before), (after, difference.only_after))
        if names
    )

    def draw() -> "Sheet":
        from mhaviz.views.figure.difference import difference_figure

        return difference_figure(difference, look)

    def view() -> "RenderableType":
        from mhaviz.views.terminal.difference import DifferenceView

        return DifferenceView(difference, look)

    delivery.deliver(difference, draw, view)
    if fail_above is not None:
        _require_at_most(fail_above, difference)


def _read(path: Path, about: "About", delivery: Delivery) -> "Attention":
    """The maps of a file, their footnote with its name: two runs may have the same footnote."""
    from mhaviz.sources.saved_maps import read_maps

    saved = read_maps(path, about)
    delivery.tell(saved.notices)
    source = saved.attention.source
    footnote = f"{path} ({source.footnote})" if saved.is_own else source.footnote
    return replace(saved.attention, source=replace(source, footnote=footnote))


def _require_at_most(most: float, difference: "Difference") -> None:
    """Raise MhavizError if a head's divergence is larger, or if there is none that could be."""
    known = [one for one in difference.ranking if one.divergence is not None]
    if not known:
        raise MhavizError("--fail-above: no head has a divergence; compare maps by mass, whose rows sum to 1")
    above = [one for one in known if one.divergence is not None and one.divergence > most]
    if above:
        worst = above[0]
        others = f"; {len(above)} heads of {len(known)} are above" if len(above) > 1 else ""
        raise MhavizError(
            f"expected a divergence of at most {most:g} nats, got {worst.divergence:.4f} in head {worst.head} of "
            f"{worst.map.name}{others}"
        )

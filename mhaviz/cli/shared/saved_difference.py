"""mhaviz diff of two files: the maps that are compared, what is only in one of them, and whether too much changed."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mhaviz.cli.shared.change_limits import flaw_notices, require_at_most
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.numbers import parse_numbers
from mhaviz.cli.shared.saved_maps import ArrayOptions, of_each
from mhaviz.errors import ArgumentError

if TYPE_CHECKING:
    from mhaviz.records.limits import Limits
    from mhaviz.views.style import Style


def diff_of_files(
    paths: tuple[Path, Path],
    arrays: ArrayOptions,
    delivery: Delivery,
    style: "Style",
    layer: list[int] | None,
    head: str,
    limits: "Limits",
) -> None:
    """Compare the maps of two files; heads that are not drawn are checked, too.

    Raises:
        ChangedError: they differ by more than the limits allow.
        ArgumentError, MhavizError: they cannot be read or compared.
    """
    from mhaviz.analyses.difference import compare, of_layers, with_common_heads
    from mhaviz.views.terminal.screen import MOST_MAPS

    for path in paths:
        if path.is_dir():
            raise ArgumentError(
                f"{path} is a folder: to compare models, name a file of sentences by --file; else expected a file with "
                f"attention maps"
            )
    before, after = paths
    first_layer, second_layer = of_each("--layer", layer, 2)
    sides = (before, first_layer), (after, second_layer)
    files = arrays.read(paths, delivery)
    first, second = (saved.named(path) for saved, path in zip(files, paths, strict=True))
    first, second = of_layers(first, second, (first_layer, second_layer))
    heads = parse_numbers("head", head)
    first.select(heads)  # for its error
    second.select(heads)
    if heads is not None:
        first, second = with_common_heads(first, second)
    n_maps = min(len(first.maps), len(second.maps))
    delivery.require_drawable(n_maps, by_layer=len({m.layer for m in second.maps}) > 1)
    whole = replace(compare(first, second), limits=limits)
    difference = whole if heads is None else whole.select(heads)
    delivery.tell(
        f"only in {path}: {'; '.join(names)}"
        for path, names in ((before, difference.only_before), (after, difference.only_after))
        if names
    )
    delivery.tell(flaw_notices(whole, sides))

    delivery.deliver(difference, style, shown={"most": MOST_MAPS})
    require_at_most(whole, sides)

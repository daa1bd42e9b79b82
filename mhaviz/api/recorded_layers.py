"""Number the layers of a recorded program."""

import re
from collections.abc import Sequence

from mhaviz.observe.observed_site import ObservedSite
from mhaviz.observe.sites import Sites


def layers_of(sites: Sites) -> dict[int, int]:
    """Return the layer of each attention: the number in its name, or else its place in its stack.

    A stack holds the attentions of one kind, as encoders and decoders are counted. Attentions of other kinds are in
    the same stack if one reads the other's output on the same tokens, unless all their names have numbers.
    """
    whole = [site for site in sites.all if site.layer_of is site]
    stacks = {kind: [site for site in whole if site.kind == kind] for kind in dict.fromkeys(s.kind for s in whole)}
    unnumbered = {kind for kind, of_kind in stacks.items() if kind != "cross" and not _numbers_in(of_kind)}
    for kinds in dict.fromkeys(frozenset((site.kind, other.kind)) for site, other in sites.others_read()):
        if kinds <= stacks.keys() and kinds & unnumbered:
            merged = {one.number: one for kind in kinds for one in stacks[kind]}
            stacks |= {one.kind: [merged[number] for number in sorted(merged)] for one in merged.values()}
    layers: dict[int, int] = {}
    for of_kind in stacks.values():
        layers |= zip((site.number for site in of_kind), _numbers_in(of_kind) or range(len(of_kind)), strict=True)
    return {site.number: layers[site.layer_of.number] for site in sites.all}


def _numbers_in(sites: Sequence[ObservedSite]) -> list[int]:
    """Return the number in each name, such as 3 in "blocks.3.attn"; [] unless all names have different numbers."""
    numbers = [number for site in sites if (number := number_in(site)) is not None]
    return numbers if len(set(numbers)) == len(sites) else []


def number_in(site: ObservedSite) -> int | None:
    """Return the number in the name of a module; None: it has none, or it is no module."""
    found = re.search(r"(?:^|\.)(\d{1,9})(?=\.|$)", site.name) if site.is_module else None
    return None if found is None else int(found[1])

"""Options of ``mhaviz heads`` that zero heads."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli.shared.numbers import parse_heads
from mhaviz.errors import ArgumentError, quoted
from mhaviz.units import parse_whole

if TYPE_CHECKING:
    from mhaviz.api.loaded import LoadedModel
    from mhaviz.pages.ablation import EffectOrder

EFFECT_COLUMNS = ("change", "loss")
"""What heads can be ranked by with --ablate, beside their order in the model."""

_IN_MODEL_ORDER = "layer"


@dataclass(frozen=True, eq=False, repr=False)
class AblationOptions:
    """Which heads are zeroed."""

    ablate: Annotated[
        bool,
        typer.Option(
            "--ablate",
            help="Zero one head at a time, and rank them by how much predictions change. Not in parts: without "
            "--shard, --merge, --resume, torchrun.",
        ),
    ] = False
    head: Annotated[
        str | None, typer.Option(metavar="HEADS", help="Heads that --ablate zeroes: 0,3-5 or all.", hidden=True)
    ] = None
    without: Annotated[
        str | None,
        typer.Option(
            metavar="LAYER.HEAD,…",
            help="Zero these heads all the while, such as 0.3,1.2: what do the others look at then?",
            hidden=True,
        ),
    ] = None

    def require_sound(self, sort: str | None, show: str) -> None:
        """Raise ArgumentError for what does not go together.

        Args:
            sort: the column that is asked for; None: none is.
            show: the numbers that are shown.
        """
        if self.head is not None and not self.ablate:
            raise ArgumentError("--head chooses the heads that --ablate zeroes; add --ablate")
        if self.without is not None and self.ablate:
            raise ArgumentError("--ablate zeroes one head at a time, and --without several; leave out one")
        if self.ablate and show != "weights":
            raise ArgumentError(f"--ablate compares what the model makes, and no {show}; leave out --show")
        if sort in EFFECT_COLUMNS and not self.ablate:
            raise ArgumentError(f"--sort {sort} ranks what changes without a head; add --ablate")

    def order(self, sort: str | None, reverse: bool, most: int | None) -> "EffectOrder":
        """How the table is ordered. Raises ArgumentError for a column that there is none of."""
        from mhaviz.pages.ablation import EffectOrder

        if sort not in (None, *EFFECT_COLUMNS, _IN_MODEL_ORDER):
            raise ArgumentError(
                f"--sort: expected {', '.join(EFFECT_COLUMNS)} or {_IN_MODEL_ORDER} with --ablate, got {sort}"
            )
        return EffectOrder(sort or EFFECT_COLUMNS[0], reverse, most)

    def heads(self, loaded: "LoadedModel") -> tuple[int, ...] | None:
        """Those that --ablate zeroes; None: all. Raises ArgumentError if one is not there."""
        return None if self.head is None else parse_heads(self.head, loaded.n_heads)

    @property
    def zeroed(self) -> list[tuple[int, int]]:
        """ "0.3,1.2" → [(0, 3), (1, 2)]. Raises ArgumentError if it cannot be read."""
        zeroed = []
        for part in (self.without or "").split(",") if self.without is not None else ():
            match = re.fullmatch(r"\s*(\d+)\.(\d+)\s*", part, re.ASCII)
            if not match:
                raise ArgumentError(f"--without: expected heads such as 0.3,1.2, got {quoted(self.without)}")
            zeroed.append((parse_whole(match[1]), parse_whole(match[2])))
        return zeroed

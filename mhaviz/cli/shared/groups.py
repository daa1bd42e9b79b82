"""Groups of options: each field is an option, with its help. Commands take whole groups.

Nobody compares or prints them: without eq and repr they are made in half the time, whenever the program starts.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mhaviz.cli.shared.console import option_name
from mhaviz.cli.shared.models import DModel, NHeads, Seed, model_option
from mhaviz.errors import ArgumentError, counted
from mhaviz.limits import MOST_CELLS
from mhaviz.units import parse_whole

if TYPE_CHECKING:
    from mhaviz.analyses.bench import Bench
    from mhaviz.models.single_layer import RandomLayer

long_option = partial(typer.Option, rich_help_panel="Long inputs")

_LAST_POSITION = 10**12  # no input is so long

Lengths = Annotated[str, typer.Option(metavar="N,N,…", help="Lengths of the inputs, in tokens.")]
PlainDevice = Annotated[str, model_option(metavar="NAME", help="auto, cpu, cuda, cuda:1 or mps.")]


def given(group: Any) -> list[str]:
    """The names of a group's options that differ from what they are by default."""
    return [option_name(one.name) for one in fields(group) if getattr(group, one.name) != one.default]


def require_unread(groups: Iterable[Any], read: Collection[str], study: str) -> None:
    """Raise ArgumentError if groups have options that a study does not read; ``read``: those that it does."""
    if others := [name for group in groups for name in given(group) if name not in read]:
        raise ArgumentError(f"{study}; leave out {', '.join(others)}")


@dataclass(frozen=True, eq=False, repr=False)
class PoolOptions:
    """Options for maps of many tokens, which are pooled."""

    pool: Annotated[
        Literal["mass", "max", "both"] | None,
        long_option(metavar="mass|max|both", help="What a cell shows. \\[default: mass]"),
    ] = None
    size: Annotated[
        int | None,
        long_option(metavar="CELLS", help=f"Most rows and columns of cells. \\[default: {MOST_CELLS}]"),
    ] = None


@dataclass(frozen=True, eq=False, repr=False)
class LongOptions(PoolOptions):
    """Options for long inputs, whose weights are pooled."""

    whole: Annotated[bool, long_option("--whole", help="Read all of --file, or of -, as one input.")] = False
    window: Annotated[
        str | None,
        long_option(metavar="Q0:Q1,K0:K1", help="These queries and keys alone."),
    ] = None

    def parse_window(self) -> tuple[int | None, int | None, int | None, int | None] | None:
        """ "0:512,1000:" → (0, 512, 1000, None). Raises ArgumentError if it cannot be read."""
        if self.window is None:
            return None
        match = re.fullmatch(r"(\d*):(\d*),(\d*):(\d*)", re.sub(r"\s", "", self.window), re.ASCII)
        if not match:
            raise ArgumentError(
                f"--window: expected queries and keys such as 0:512,1000:1512 or 0:512,: got {self.window[:60]!r}"
            )
        q0, q1, k0, k1 = (parse_whole(end) if end else None for end in match.groups())
        for end in (q0, q1, k0, k1):
            if end is not None and end > _LAST_POSITION:
                raise ArgumentError(f"--window: expected positions up to {_LAST_POSITION:,}, got {counted(end)}")
        return q0, q1, k0, k1


@dataclass(frozen=True, eq=False, repr=False)
class LayerOptions:
    """A layer with random weights, and nothing else."""

    d_model: DModel = None
    n_heads: NHeads = None
    seed: Seed = None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """d_model, n_heads and the seed."""
        return (
            512 if self.d_model is None else self.d_model,
            8 if self.n_heads is None else self.n_heads,
            self.seed or 0,
        )

    @property
    def layer(self) -> "RandomLayer":
        """Raises ArgumentError for sizes that cannot be."""
        from mhaviz.models.single_layer import RandomLayer

        return RandomLayer(*self.sizes, "cpu")


@dataclass(frozen=True, eq=False, repr=False)
class BenchOptions(LayerOptions):
    """Options of commands that measure time and memory."""

    device: PlainDevice = "auto"
    most_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="Skip what would take longer than this, once.")
    ] = 5.0

    @property
    def bench(self) -> "Bench":
        """The layer that is measured. Raises ArgumentError for sizes that cannot be."""
        from mhaviz.analyses.bench import Bench
        from mhaviz.devices import resolve_device

        return Bench(*self.sizes, resolve_device(self.device))

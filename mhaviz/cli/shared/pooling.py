"""Options for maps of many tokens, which are pooled."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import typer

from mhaviz.cli.shared.parsing import parse_window, parsed
from mhaviz.limits import MOST_CELLS

long_option = partial(typer.Option, rich_help_panel="Long inputs")


@dataclass(frozen=True, eq=False, repr=False)
class PoolOptions:
    """How maps are pooled."""

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
    """Long inputs, whole or in part."""

    whole: Annotated[bool, long_option("--whole", help="Read all of --file, or of -, as one input.")] = False
    window: Annotated[
        Any,
        long_option(
            metavar="Q0:Q1,K0:K1",
            parser=parsed(parse_window, "queries and keys such as 0:512,1000:1512 or 0:512,:"),
            help="These queries and keys alone.",
        ),
    ] = None

"""Options of commands about a layer with random weights, and nothing else."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mhaviz.cli.shared.models import DModel, NHeads, PlainDevice, Seed
from mhaviz.cli.shared.parsing import parsed, wholes

Lengths = Annotated[
    Any,
    typer.Option(
        metavar="N,N,…",
        parser=parsed(wholes, "numbers of tokens such as 16,64,256"),
        help="Lengths of the inputs, in tokens.",
    ),
]


@dataclass(frozen=True, eq=False, repr=False)
class LayerOptions:
    """The sizes of the layer."""

    d_model: DModel = None
    n_heads: NHeads = None
    seed: Seed = None


@dataclass(frozen=True, eq=False, repr=False)
class BenchOptions:
    """Where time and memory are measured, and what takes too long."""

    device: PlainDevice = "auto"
    most_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="Skip what would take longer than this, once.")
    ] = 5.0

"""The option for what maps and statistics are of."""

from dataclasses import dataclass
from typing import Annotated

from mhaviz.cli.shared.groups import AnyNumbers, model_option


@dataclass(frozen=True, eq=False, repr=False)
class ShowOptions:
    """Weights, or norms. Of commands that have no room for it in their help it is in --help-all."""

    show: Annotated[
        AnyNumbers,
        model_option(
            metavar="weights|norms",
            hidden=True,
            help="norms: weight times the norm of v W_O, what a key adds to the output.",
        ),
    ] = "weights"

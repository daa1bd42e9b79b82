"""How much may change between two attentions before a machine is told that it has."""

from dataclasses import dataclass

from mhaviz.errors import ArgumentError, parameter


@dataclass(frozen=True)
class Limits:
    """The largest divergences that are allowed, in bits, from 0 to 1; None: any.

    Attributes:
        mean: of a head: the mean of its rows, and over several sentences the mean of these.
        row: of any single row of a head.

    Raises:
        ArgumentError: a number that is not from 0 to 1.
    """

    mean: float | None = None
    row: float | None = None

    def __post_init__(self) -> None:
        for name, most in (("fail_above", self.mean), ("fail_above_row", self.row)):
            if most is not None and not 0 <= most <= 1:
                raise ArgumentError(f"{parameter(name)}: expected bits from 0 to 1, got {most}")

    @property
    def are_given(self) -> bool:
        """Whether there is a limit at all."""
        return self.mean is not None or self.row is not None

"""What attention costs in operations, bytes and seconds, predicted and measured, from short inputs to long ones."""

from dataclasses import dataclass
from typing import Any, Literal

from mhaviz.results.result import Result, Source
from mhaviz.results.timing import Timing

Part = Literal["projections", "attention"]
"""Of the layer: "projections" grow as N·d_model², "attention" (scores, softmax, mix) as N²·d_model."""


@dataclass(frozen=True)
class CostTerm:
    """One step of the layer.

    Attributes:
        name: what the paper calls its result, "S".
        equation: how that is made.
        part: which of the two parts of the cost it belongs to.
        flops_formula: its operations, a multiplication and an addition counting one each, from N, d_model, n_heads.
        bytes_formula: the memory of its result; empty where it overwrites another.
        flops, bytes: the same in numbers, one a length.
    """

    name: str
    equation: str
    part: Part
    flops_formula: str
    bytes_formula: str
    flops: tuple[int, ...]
    bytes: tuple[int, ...]


@dataclass(frozen=True)
class LongestInput:
    """How many tokens an input may have for the weights of all heads to fit into a device's memory.

    Attributes:
        device: its name.
        free_bytes: what was free when it was asked; None where nobody tells.
        tokens: ⌊√(free_bytes / (4 · n_heads))⌋; None likewise.
    """

    device: str
    free_bytes: int | None
    tokens: int | None


@dataclass(frozen=True)
class Complexity(Result):
    """The layer's cost at many lengths.

    Attributes:
        d_model, n_heads: sizes of the layer.
        lengths: of the inputs in tokens, rising.
        terms: what is predicted, step by step.
        parameter_bytes: memory of the four projections, whatever the length.
        projections, attention, whole: what was measured, one a length.
        equal_terms: the length at which N²·d_model = N·d_model².
        equal_operations: the length at which the matrix products of both parts have as many operations.
        equal_times: the length at which both parts take as long, between two that were measured; None where that lies
            not within the lengths.
        equal_seconds: the time that they take there.
        longest: for each device that was asked about.
        most_seconds: what would have taken longer than this, once, was skipped.
    """

    source: Source
    d_model: int
    n_heads: int
    lengths: tuple[int, ...]
    terms: tuple[CostTerm, ...]
    parameter_bytes: int
    projections: tuple[Timing, ...]
    attention: tuple[Timing, ...]
    whole: tuple[Timing, ...]
    equal_terms: int
    equal_operations: int
    equal_times: float | None
    equal_seconds: float | None
    longest: tuple[LongestInput, ...]
    most_seconds: float

    def flops(self, part: Part | None = None) -> tuple[int, ...]:
        """Predicted operations of a part, or of the whole, one a length."""
        chosen = [term.flops for term in self.terms if part in (None, term.part)]
        return tuple(sum(at_length) for at_length in zip(*chosen, strict=True))

    @property
    def weight_bytes(self) -> tuple[int, ...]:
        """Predicted memory of the weights of all heads, one a length."""
        return next(term.bytes for term in self.terms if term.name == "A")

    @property
    def feature_bytes(self) -> tuple[int, ...]:
        """Predicted memory of all else that grows with the input, one a length."""
        others = [term.bytes for term in self.terms if term.name != "A"]
        return tuple(sum(at_length) for at_length in zip(*others, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``."""
        measured = {"projections": self.projections, "attention": self.attention, "whole": self.whole}
        return {
            "lengths": self.lengths,
            "terms": self.terms,
            "parameter_bytes": self.parameter_bytes,
            "measured": {name: [timing.to_dict() for timing in timings] for name, timings in measured.items()},
            "crossover": {
                "terms": self.equal_terms,
                "operations": self.equal_operations,
                "times": self.equal_times,
                "seconds": self.equal_seconds,
            },
            "longest": self.longest,
            "most_seconds": self.most_seconds,
        }

"""Cost of attention in operations, bytes and seconds, predicted and measured, as the input grows."""

from dataclasses import dataclass
from typing import Any, Literal

from mhaviz.results.result import Result, Source
from mhaviz.results.timing import Timing

SHARE = 0.9
"""Share of the samples of passes that make a verdict, and whose crossovers a range holds."""

Part = Literal["projections", "attention"]
"""Part of a layer's cost: "projections" grow as N·d_model², "attention" (scores, softmax, A V) as N²·d_model."""

Verdict = Literal["less", "more", "crosses", "mixed", "unclear", "unmeasured"]
"""What passes over several lengths say of the time of attention beside that of the projections.

"less", "more": attention takes less, or more, at all lengths. "crosses": less at the shortest, more at the longest.
"mixed": none of these, by the passes alike, such as more at the shortest and less at the longest. "unclear": the passes
disagree. "unmeasured": there are no lengths.
"""


@dataclass(frozen=True)
class CostTerm:
    """Cost of one step of the layer.

    Attributes:
        name: symbol of its result in the paper, such as "S".
        equation: the equation of the result.
        part: the part of the cost that it belongs to.
        flops_formula: number of operations as a formula in N, d_model and n_heads. A multiplication and an addition
            count one each.
        bytes_formula: memory of the result as a formula; empty where it overwrites another.
        flops, bytes: values of the formulas, one for each length.
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
    """Length of the longest input whose weights of all heads fit into the memory of a device.

    Attributes:
        device: name of the device.
        free_bytes: memory that was free when it was measured; None: not known.
        tokens: ⌊√(free_bytes / (4 · n_heads))⌋; None: not known.
    """

    device: str
    free_bytes: int | None
    tokens: int | None


@dataclass(frozen=True)
class TimeOrder:
    """Which part takes more time, as far as the passes tell.

    Attributes:
        verdict: see ``Verdict``.
        lengths: the lengths that were compared: those that every pass has measured, increasing.
        crossover: range of lengths in which both parts take equally long, interpolated between measured lengths, and
            beyond which attention takes more; None: the verdict is not "crosses".
    """

    verdict: Verdict
    lengths: tuple[int, ...]
    crossover: tuple[float, float] | None = None


@dataclass(frozen=True)
class Complexity(Result):
    """Cost of a layer at several lengths of the input.

    Attributes:
        d_model, n_heads: sizes of the layer.
        lengths: number of tokens of each input, increasing.
        terms: predicted cost of each step.
        parameter_bytes: memory of the four projections, independent of the length.
        projections, attention, whole: measured cost of both parts and of the whole layer, one for each length.
        equal_terms: length at which N²·d_model = N·d_model².
        equal_operations: length at which the matrix products of both parts have equally many operations.
        time_order: which part takes more time, and the lengths at which both take equally long.
        longest: the longest input for each device.
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
    time_order: TimeOrder
    longest: tuple[LongestInput, ...]

    def flops(self, part: Part | None = None) -> tuple[int, ...]:
        """Return the predicted operations of a part, or of the whole layer (None), one number for each length."""
        chosen = [term.flops for term in self.terms if part in (None, term.part)]
        return tuple(sum(at_length) for at_length in zip(*chosen, strict=True))

    @property
    def weight_bytes(self) -> tuple[int, ...]:
        """Predicted memory of the weights of all heads, in bytes, one number for each length."""
        return next(term.bytes for term in self.terms if term.name == "A")

    @property
    def feature_bytes(self) -> tuple[int, ...]:
        """Predicted memory of everything else that grows with the input, in bytes, one number for each length."""
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
                "times": self.time_order.crossover,
                "verdict": self.time_order.verdict,
            },
            "longest": self.longest,
        }

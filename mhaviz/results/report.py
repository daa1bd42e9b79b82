"""Report of everything about one sentence, for one page."""

from dataclasses import dataclass
from typing import Any

from mhaviz.results.attention import Attention
from mhaviz.results.result import Result, Source
from mhaviz.results.scaling import ScalingComparison
from mhaviz.results.trace import ShapeTrace


@dataclass(frozen=True)
class Report(Result):
    """One sentence or pair in the layer. ``attention`` has one map; ``scaling`` compares one head."""

    attention: Attention
    trace: ShapeTrace
    scaling: ScalingComparison

    @property
    def source(self) -> Source:
        """Source of the numbers."""
        return self.attention.source

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``."""
        return self.attention.to_dict() | {"trace": self.trace.to_dict(), "scaling": self.scaling.to_dict()}

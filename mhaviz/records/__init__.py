"""What flows through the house: frozen dataclasses of numpy arrays and strings. No torch, no drawing."""

from mhaviz.records.attention import Attention, AttentionMap, Kind
from mhaviz.records.complexity import Complexity, CostTerm, LongestInput, Part
from mhaviz.records.implementations import Implementation, ImplementationComparison
from mhaviz.records.report import Report
from mhaviz.records.scaling import Scaling, ScalingComparison, ScalingSweep, ScoreStatistics
from mhaviz.records.scores import HeadInputs, LayerInputs
from mhaviz.records.source import Source
from mhaviz.records.timing import Timing
from mhaviz.records.trace import FollowedElement, ShapeTrace, TraceStep, Visit

__all__ = [
    "Attention",
    "AttentionMap",
    "Complexity",
    "CostTerm",
    "FollowedElement",
    "HeadInputs",
    "Implementation",
    "ImplementationComparison",
    "Kind",
    "LayerInputs",
    "LongestInput",
    "Part",
    "Report",
    "Scaling",
    "ScalingComparison",
    "ScalingSweep",
    "ScoreStatistics",
    "ShapeTrace",
    "Source",
    "Timing",
    "TraceStep",
    "Visit",
]

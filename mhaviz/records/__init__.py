"""What flows through the house: frozen dataclasses of numpy arrays and strings. No torch, no drawing."""

from mhaviz.records.attention import Attention, AttentionMap, Kind
from mhaviz.records.complexity import Complexity, CostTerm, LongestInput, Part
from mhaviz.records.explanation import Explanation
from mhaviz.records.implementations import Implementation, ImplementationComparison
from mhaviz.records.projections import ProjectionComparison, ProjectionInputs, ProjectionStage
from mhaviz.records.report import Report
from mhaviz.records.scaling import Scaling, ScalingComparison, ScalingSweep, ScoreStatistics
from mhaviz.records.scores import HeadInputs, LayerInputs
from mhaviz.records.source import Source
from mhaviz.records.timing import Timing
from mhaviz.records.trace import FollowedElement, ShapeTrace, TraceStep, Visit
from mhaviz.records.training import AlignmentErrors, Evaluation, LearningPoint, Training

__all__ = [
    "AlignmentErrors",
    "Attention",
    "AttentionMap",
    "Complexity",
    "CostTerm",
    "Evaluation",
    "Explanation",
    "FollowedElement",
    "HeadInputs",
    "Implementation",
    "ImplementationComparison",
    "Kind",
    "LayerInputs",
    "LearningPoint",
    "LongestInput",
    "Part",
    "ProjectionComparison",
    "ProjectionInputs",
    "ProjectionStage",
    "Report",
    "Scaling",
    "ScalingComparison",
    "ScalingSweep",
    "ScoreStatistics",
    "ShapeTrace",
    "Source",
    "Timing",
    "TraceStep",
    "Training",
    "Visit",
]

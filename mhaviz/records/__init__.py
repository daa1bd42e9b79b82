"""What flows through the house: frozen dataclasses of numpy arrays and strings. No torch, no drawing."""

from mhaviz.records.ablation import EFFECTS, Ablation, Effect, HeadEffects, Prediction
from mhaviz.records.attention import LARGEST, ROUNDING, Attention, AttentionMap
from mhaviz.records.axis import Axis
from mhaviz.records.complexity import Complexity, CostTerm, LongestInput, Part
from mhaviz.records.corpus_difference import CorpusDifference, HeadDivergence, KindDivergence
from mhaviz.records.corpus_part import Behind, CorpusPart, ModelIdentity, Shard
from mhaviz.records.difference import Change, Difference, Flaw, HeadDifference, MapDifference, RowChange
from mhaviz.records.embeddings import SINUSOIDS, Added, EmbeddedText, InputPart, PositionTable, Within
from mhaviz.records.explanation import Explanation
from mhaviz.records.given import Given, GivenOptions, Message
from mhaviz.records.head_statistics import (
    EDGES,
    N_BINS,
    OF_A_NEEDLE,
    SINK_ABOVE,
    STATISTICS,
    Average,
    HeadAverages,
    HeadStatistics,
)
from mhaviz.records.image import ImageAttention, ImageMap
from mhaviz.records.implementations import Implementation, ImplementationComparison
from mhaviz.records.limits import Limits
from mhaviz.records.masking import MaskedSentence, Masking
from mhaviz.records.matrices import HeadMatrices, LayerMatrices, Matrix
from mhaviz.records.probes import Needle, Probe, RandomRepeats, probe_of_json, probe_to_json
from mhaviz.records.projections import ProjectionComparison, ProjectionInputs, ProjectionStage
from mhaviz.records.quantity import NORM, QUANTITIES, ROLLOUT, WEIGHT, Cells, Quantity, Reduction
from mhaviz.records.queries_and_keys import Bias, Codes, QueriesAndKeys
from mhaviz.records.report import Report
from mhaviz.records.scaling import Scaling, ScalingComparison, ScalingSweep, ScoreStatistics
from mhaviz.records.shown import Shown
from mhaviz.records.site import Site
from mhaviz.records.source import Source
from mhaviz.records.summary import HeadSummary, Link, MapSummary, Sink
from mhaviz.records.timing import Timing
from mhaviz.records.tokens import KIND_NAMES, Kind, Piece, Segment, Text, Tokens, patch_tokens, segments_text
from mhaviz.records.trace import FollowedElement, ShapeTrace, TraceStep, Visit
from mhaviz.records.training import AlignmentErrors, Evaluation, LearningPoint, Training
from mhaviz.records.verification import Deviation

__all__ = [
    "EDGES",
    "EFFECTS",
    "KIND_NAMES",
    "LARGEST",
    "NORM",
    "N_BINS",
    "OF_A_NEEDLE",
    "QUANTITIES",
    "ROLLOUT",
    "ROUNDING",
    "SINK_ABOVE",
    "SINUSOIDS",
    "STATISTICS",
    "WEIGHT",
    "Ablation",
    "Added",
    "AlignmentErrors",
    "Attention",
    "AttentionMap",
    "Average",
    "Axis",
    "Behind",
    "Bias",
    "Cells",
    "Change",
    "Codes",
    "Complexity",
    "CorpusDifference",
    "CorpusPart",
    "CostTerm",
    "Deviation",
    "Difference",
    "Effect",
    "EmbeddedText",
    "Evaluation",
    "Explanation",
    "Flaw",
    "FollowedElement",
    "Given",
    "GivenOptions",
    "HeadAverages",
    "HeadDifference",
    "HeadDivergence",
    "HeadEffects",
    "HeadMatrices",
    "HeadStatistics",
    "HeadSummary",
    "ImageAttention",
    "ImageMap",
    "Implementation",
    "ImplementationComparison",
    "InputPart",
    "Kind",
    "KindDivergence",
    "LayerMatrices",
    "LearningPoint",
    "Limits",
    "Link",
    "LongestInput",
    "MapDifference",
    "MapSummary",
    "MaskedSentence",
    "Masking",
    "Matrix",
    "Message",
    "ModelIdentity",
    "Needle",
    "Part",
    "Piece",
    "PositionTable",
    "Prediction",
    "Probe",
    "ProjectionComparison",
    "ProjectionInputs",
    "ProjectionStage",
    "Quantity",
    "QueriesAndKeys",
    "RandomRepeats",
    "Reduction",
    "Report",
    "RowChange",
    "Scaling",
    "ScalingComparison",
    "ScalingSweep",
    "ScoreStatistics",
    "Segment",
    "ShapeTrace",
    "Shard",
    "Shown",
    "Sink",
    "Site",
    "Source",
    "Text",
    "Timing",
    "Tokens",
    "TraceStep",
    "Training",
    "Visit",
    "Within",
    "patch_tokens",
    "probe_of_json",
    "probe_to_json",
    "segments_text",
]

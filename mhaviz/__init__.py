"""mhaviz shows what happens inside multi-head attention.

Every public name is loaded when it is first used, so that importing mhaviz loads neither torch nor matplotlib.
"""

from mhaviz._version import __version__

TYPE_CHECKING = False  # as type checkers know it; typing itself takes long to load
if TYPE_CHECKING:
    from typing import Any

    from mhaviz.api.corpus_difference import diff_models
    from mhaviz.api.evaluation import evaluate
    from mhaviz.api.loaded import LoadedModel, load
    from mhaviz.api.parts import merge
    from mhaviz.api.recording import Recording, record
    from mhaviz.api.saved_maps import diff, read
    from mhaviz.api.studies import (
        ablate,
        attend,
        compare_scaling,
        embeddings,
        explain,
        head_statistics,
        masks,
        matrices,
        sinusoids,
        trace_shapes,
    )
    from mhaviz.attention.map import attention_map
    from mhaviz.errors import ArgumentError, MhavizError
    from mhaviz.layer.attention import MultiHeadAttention
    from mhaviz.layer.embedding import Embeddings, PositionalEncoding
    from mhaviz.layer.tokens import tokenize
    from mhaviz.records.probes import Needle, RandomRepeats
    from mhaviz.views.figure.display import display_attention

_HOMES = {
    "ArgumentError": "errors",
    "Embeddings": "layer.embedding",
    "LoadedModel": "api.loaded",
    "MhavizError": "errors",
    "MultiHeadAttention": "layer.attention",
    "Needle": "records.probes",
    "PositionalEncoding": "layer.embedding",
    "RandomRepeats": "records.probes",
    "Recording": "api.recording",
    "ablate": "api.studies",
    "attend": "api.studies",
    "attention_map": "attention.map",
    "compare_scaling": "api.studies",
    "diff": "api.saved_maps",
    "diff_models": "api.corpus_difference",
    "display_attention": "views.figure.display",
    "embeddings": "api.studies",
    "evaluate": "api.evaluation",
    "explain": "api.studies",
    "head_statistics": "api.studies",
    "load": "api.loaded",
    "masks": "api.studies",
    "matrices": "api.studies",
    "merge": "api.parts",
    "read": "api.saved_maps",
    "record": "api.recording",
    "sinusoids": "api.studies",
    "tokenize": "layer.tokens",
    "trace_shapes": "api.studies",
}

__all__ = [
    "ArgumentError",
    "Embeddings",
    "LoadedModel",
    "MhavizError",
    "MultiHeadAttention",
    "Needle",
    "PositionalEncoding",
    "RandomRepeats",
    "Recording",
    "__version__",
    "ablate",
    "attend",
    "attention_map",
    "compare_scaling",
    "diff",
    "diff_models",
    "display_attention",
    "embeddings",
    "evaluate",
    "explain",
    "head_statistics",
    "load",
    "masks",
    "matrices",
    "merge",
    "read",
    "record",
    "sinusoids",
    "tokenize",
    "trace_shapes",
]


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module 'mhaviz' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"mhaviz.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

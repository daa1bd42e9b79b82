"""mhaviz shows what happens inside multi-head attention.

Every public name is loaded when it is first used, so that importing mhaviz loads neither torch nor matplotlib.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mhaviz._version import __version__

if TYPE_CHECKING:
    from mhaviz.attention.map import attention_map
    from mhaviz.errors import ArgumentError, MhavizError
    from mhaviz.layer.attention import MultiHeadAttention
    from mhaviz.layer.embedding import Embeddings, PositionalEncoding
    from mhaviz.layer.tokens import tokenize
    from mhaviz.views.figure.display import display_attention

__all__ = [
    "ArgumentError",
    "Embeddings",
    "MhavizError",
    "MultiHeadAttention",
    "PositionalEncoding",
    "__version__",
    "attention_map",
    "display_attention",
    "tokenize",
]

_HOMES = {
    "ArgumentError": "mhaviz.errors",
    "Embeddings": "mhaviz.layer.embedding",
    "MhavizError": "mhaviz.errors",
    "MultiHeadAttention": "mhaviz.layer.attention",
    "PositionalEncoding": "mhaviz.layer.embedding",
    "attention_map": "mhaviz.attention.map",
    "display_attention": "mhaviz.views.figure.display",
    "tokenize": "mhaviz.layer.tokens",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mhaviz' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Visualise multi-head attention: its weights, matrices, shapes and heads, in models and in running PyTorch code.

Start with ``load``, ``attend`` and ``record``. A notebook displays their results; ``save`` writes them to files, as
pictures, pages for the browser or data, and ``plot`` returns a matplotlib Figure.

Each public name is imported on first use, so ``import mhaviz`` loads neither torch nor matplotlib.
"""

from mhaviz._version import __version__

# False, but not to editors, which would list none of the names below; type checkers go by what it is called. To load
# typing, which defines it too, takes ten times as long as to load this module.
TYPE_CHECKING = not __name__
if TYPE_CHECKING:
    from mhaviz.api.checking import check as check
    from mhaviz.api.corpus_difference import diff_models as diff_models
    from mhaviz.api.evaluation import evaluate as evaluate
    from mhaviz.api.loaded import LoadedModel as LoadedModel
    from mhaviz.api.loaded import load as load
    from mhaviz.api.random_layer import compare_implementations as compare_implementations
    from mhaviz.api.random_layer import compare_projections as compare_projections
    from mhaviz.api.random_layer import complexity as complexity
    from mhaviz.api.recording import Recording as Recording
    from mhaviz.api.recording import record as record
    from mhaviz.api.saved_maps import diff as diff
    from mhaviz.api.saved_maps import read as read
    from mhaviz.api.studies import ablate as ablate
    from mhaviz.api.studies import attend as attend
    from mhaviz.api.studies import budget as budget
    from mhaviz.api.studies import compare_scaling as compare_scaling
    from mhaviz.api.studies import embeddings as embeddings
    from mhaviz.api.studies import explain as explain
    from mhaviz.api.studies import head_pairs as head_pairs
    from mhaviz.api.studies import head_spans as head_spans
    from mhaviz.api.studies import head_statistics as head_statistics
    from mhaviz.api.studies import masks as masks
    from mhaviz.api.studies import matrices as matrices
    from mhaviz.api.studies import sinusoids as sinusoids
    from mhaviz.api.studies import trace_shapes as trace_shapes
    from mhaviz.api.watching import Watch as Watch
    from mhaviz.attention.map import attention_map as attention_map
    from mhaviz.corpus.corpus import Corpus as Corpus
    from mhaviz.errors import ArgumentError as ArgumentError
    from mhaviz.errors import MhavizError as MhavizError
    from mhaviz.inputs.probes import Needle as Needle
    from mhaviz.inputs.probes import RandomRepeats as RandomRepeats
    from mhaviz.layer.attention import MultiHeadAttention as MultiHeadAttention
    from mhaviz.layer.embedding import Embeddings as Embeddings
    from mhaviz.layer.embedding import PositionalEncoding as PositionalEncoding
    from mhaviz.layer.tokens import tokenize as tokenize
    from mhaviz.views.figure.display import display_attention as display_attention

_NAMES = {
    "api.checking": "check",
    "api.corpus_difference": "diff_models",
    "api.evaluation": "evaluate",
    "api.loaded": "LoadedModel load",
    "api.random_layer": "compare_implementations compare_projections complexity",
    "api.recording": "Recording record",
    "api.saved_maps": "diff read",
    "api.studies": "ablate attend budget compare_scaling embeddings explain head_pairs head_spans head_statistics "
    "masks matrices sinusoids trace_shapes",
    "api.watching": "Watch",
    "attention.map": "attention_map",
    "corpus.corpus": "Corpus",
    "errors": "ArgumentError MhavizError",
    "inputs.probes": "Needle RandomRepeats",
    "layer.attention": "MultiHeadAttention",
    "layer.embedding": "Embeddings PositionalEncoding",
    "layer.tokens": "tokenize",
    "views.figure.display": "display_attention",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", *_HOMES]


if not TYPE_CHECKING:  # or type checkers would take any name for one of these

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'mhaviz' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"mhaviz.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

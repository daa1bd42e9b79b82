"""What a checkpoint makes at the end: what tokens it predicts, or the embedding of a text."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.devices import require_memory
from mhaviz.errors import MhavizError
from mhaviz.models.pretrained.loading import Loaded
from mhaviz.models.pretrained.reading import id_of
from mhaviz.records.ablation import Prediction
from mhaviz.records.site import Site
from mhaviz.records.tokens import Text, Tokens


def prediction_of(loaded: Loaded, sites: Sequence[Site]) -> Prediction:
    """What a model makes: of one with a head that predicts tokens, the next one, or a masked one if it sees later
    tokens and has a token that masks."""
    if _head(loaded) is None:
        return "embedding"
    if loaded.has_encoder or all(site.kind == "masked" for site in sites):
        return "next token"
    return "embedding" if id_of(loaded.tokenizer, "mask_token_id") is None else "masked token"


def vocabulary_of(loaded: Loaded) -> int:
    """The number of tokens that it chooses among."""
    head: Any = _head(loaded)
    return int(head.weight.shape[0])


def predicted_by(text: Text) -> Tokens:
    """The tokens at whose positions something is predicted."""
    return text.source if text.target is None else text.target


def logits_of(out: Any, positions: Sequence[Sequence[int]], name: str) -> Tensor:
    """Those at these positions of each sentence of a batch; see ``CorpusModel.logits``."""
    logits: Tensor = out["logits"]
    rows = [logits[row, list(places)] for row, places in enumerate(positions)]
    return _numbers(torch.cat(rows).float(), name)


def pooled_of(out: Any, lengths: Sequence[int], name: str) -> Tensor:
    """The mean over the tokens of each sentence of a batch; see ``CorpusModel.pooled``."""
    hidden: Tensor = out["last_hidden_state"] if "last_hidden_state" in out else out[0]
    means = [hidden[row, :length].float().mean(dim=0) for row, length in enumerate(lengths)]
    return _numbers(torch.stack(means), name)


def require_room(loaded: Loaded, batch_size: int, length: int, vocabulary: int) -> None:
    """Raise MhavizError if what is predicted at so many places does not fit into memory."""
    require_memory(3 * 4 * batch_size * length * vocabulary, loaded.device, f"what {loaded.name} predicts")


def _head(loaded: Loaded) -> nn.Module | None:
    """What gives each token of the vocabulary a number; None: nothing does."""
    head: nn.Module | None = loaded.model.get_output_embeddings()  # type: ignore[no-untyped-call]
    return head


def _numbers(x: Tensor, name: str) -> Tensor:
    """The same. Raises MhavizError if something is no number; −∞ is what no text can have."""
    if bool((x.isnan() | (x == torch.inf)).any()):
        raise MhavizError(f"{name}: expected numbers at its end, got NaN or infinity; take another copy of it")
    return x

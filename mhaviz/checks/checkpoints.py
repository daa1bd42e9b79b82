"""Call the stacks of a transformers model, an encoder and a decoder, as layers that read embeddings."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.errors import MhavizError


def is_checkpoint(attend: Any) -> bool:
    """Return whether this is a whole model of transformers."""
    return any(kind.__name__ == "PreTrainedModel" for kind in type(attend).__mro__)


class Stack:
    """A model, an encoder or a decoder, as ``attend(x, keep, cache, position_ids)``.

    Random tokens have the spread of the model's own embeddings.

    Args:
        model: the model, or a part of it.
        name: name of the part; "": it is the whole model.
        source: what a decoder reads beside its own tokens, (1, k_length, d_model); None: it is no such decoder.

    Raises:
        MhavizError: it reads no embeddings.
    """

    def __init__(self, model: Any, name: str = "", source: Tensor | None = None) -> None:
        given = inspect.signature(model.forward).parameters
        if "inputs_embeds" not in given:
            raise MhavizError(f"{type(model).__name__} reads no embeddings of tokens, and cannot be checked as a whole")
        self.__name__ = type(model).__name__ + f", {name}" * bool(name)
        self._model, self._source, self._takes_use_cache = model, source, "use_cache" in given
        table = model.get_input_embeddings()
        weight = getattr(table, "weight", None)
        self._size = 1.0 if weight is None else float(weight.detach().float().std())
        names = ["x"] + [
            own for own, theirs in _NAMES.items() if theirs in given and (own, name) != ("cache", "encoder")
        ]
        every = [inspect.Parameter(one, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None) for one in names]
        every[0] = every[0].replace(default=inspect.Parameter.empty)
        self.__signature__ = inspect.Signature(every)

    def __call__(self, x: Tensor, **given: Any) -> Any:
        """Return what the model returns, or with ``cache`` the pair of hidden states and the cache."""
        arguments = {_NAMES[name]: one for name, one in given.items() if one is not None}
        if (keep := arguments.get("attention_mask")) is not None:
            arguments["attention_mask"] = keep.long()
        if self._source is not None:
            arguments["encoder_hidden_states"] = self._source.to(x).expand(x.shape[0], -1, -1)
        if self._takes_use_cache:
            arguments["use_cache"] = "cache" in given
        output = self._model(inputs_embeds=x * self._size, return_dict=True, **arguments)
        if "cache" in given:
            return output.last_hidden_state, output.past_key_values
        return output


_NAMES = {"keep": "attention_mask", "cache": "past_key_values", "position_ids": "position_ids"}
"""Names of transformers for what a stack takes."""


def stacks_of(model: nn.Module) -> list[Stack]:
    """Return the stacks of a transformers model: itself, or its encoder and its decoder.

    Raises:
        MhavizError: it reads no embeddings of tokens.
    """
    whole: Any = model
    base = getattr(whole, "base_model", whole)
    if not getattr(whole.config, "is_encoder_decoder", False) or not hasattr(base, "decoder"):
        return [Stack(base)]
    source = torch.randn(1, 9, d_model_of_checkpoint(model), generator=torch.Generator().manual_seed(1))
    return [Stack(base.encoder, "encoder"), Stack(base.decoder, "decoder", source)]


def d_model_of_checkpoint(model: nn.Module) -> int:
    """Return the number of features of an embedding. Raises MhavizError if it is not known."""
    whole: Any = model
    table = whole.get_input_embeddings()
    size = getattr(table, "embedding_dim", None) or getattr(whole.config, "hidden_size", None)
    if not isinstance(size, int):
        raise MhavizError(f"{type(model).__name__} has no embeddings of tokens, and cannot be checked as a whole")
    return size

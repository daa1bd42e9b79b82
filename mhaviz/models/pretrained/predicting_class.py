"""Which of transformers' classes reads a checkpoint together with what predicts tokens."""

from typing import Any

import transformers
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedConfig, PreTrainedModel


def predicting_class(config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    """The class that its configuration names, if that predicts tokens; else one that may: its files tell.

    None: nothing predicts tokens, or it is an encoder with a decoder, which is always read with what does.
    """
    if config.is_encoder_decoder:
        return None
    named = set(config.architectures or ())
    masked, causal, bare = (_classes(auto, config) for auto in (AutoModelForMaskedLM, AutoModelForCausalLM, AutoModel))
    for kind in (*masked, *causal):
        if kind.__name__ in named:
            return kind
    if masked:  # models such as BERT, of which there are many without
        return None if named & {kind.__name__ for kind in bare} else masked[0]
    return causal[0] if causal else None


def named_class(config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    """The class that its configuration names first; None: it names none of transformers' for this configuration."""
    kind = getattr(transformers, next(iter(config.architectures or ()), ""), None)
    is_its_own = isinstance(kind, type) and issubclass(kind, PreTrainedModel) and kind.config_class is type(config)
    return kind if is_its_own else None


def _classes(auto: Any, config: PreTrainedConfig) -> tuple[type[PreTrainedModel], ...]:
    """Those that one of transformers' lists has for this type of model."""
    kinds: Any = auto._model_mapping.get(type(config), ())
    return kinds if isinstance(kinds, tuple) else (kinds,)

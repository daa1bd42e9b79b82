"""Which of transformers' classes reads a checkpoint."""

from typing import Any

from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForTextEncoding,
    PreTrainedConfig,
    PreTrainedModel,
)

from mhaviz.errors import MhavizError


def usual_class(config: PreTrainedConfig, name: str) -> type[PreTrainedModel]:
    """The model without what stands on top; of an encoder with a decoder, with their top.

    Raises MhavizError if there is none.
    """
    found = _classes(AutoModelForSeq2SeqLM, config) if config.is_encoder_decoder else ()
    found = found or _classes(AutoModel, config)
    if not found:
        raise MhavizError(f"{name}: transformers has no model of the type {config.model_type}")
    encoders = _classes(AutoModelForTextEncoding, config)  # such as T5EncoderModel
    named = config.architectures or ()
    return next((kind for kind in (*encoders, *found) if kind.__name__ in named), found[0])


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


def is_encoder_alone(model: PreTrainedModel) -> bool:
    """Whether it is the encoder alone of a model that has a decoder too."""
    return type(model) in _classes(AutoModelForTextEncoding, model.config)


def _classes(auto: Any, config: PreTrainedConfig) -> tuple[type[PreTrainedModel], ...]:
    """Those that one of transformers' lists has for this type of model."""
    kinds: Any = auto._model_mapping.get(type(config), ())
    return kinds if isinstance(kinds, tuple) else (kinds,)

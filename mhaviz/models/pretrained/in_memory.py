"""A model of transformers that somebody has loaded already."""

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mhaviz.errors import ArgumentError
from mhaviz.models.pretrained.capture import EAGER, SDPA
from mhaviz.models.pretrained.loading import Loaded
from mhaviz.models.pretrained.model import PretrainedModel as Pretrained
from mhaviz.models.pretrained.sites import find_sites


def model_in_memory(model: object, tokenizer: PreTrainedTokenizerBase | None, writes: bool = False) -> Pretrained:
    """The model, put in eval mode and on an attention function that can be seen; it stays so.

    Args:
        model: of transformers, on its device.
        tokenizer: its own.
        writes: whether it must be able to continue a text.

    Raises:
        ArgumentError: something else than a model, or no tokenizer; a model that cannot write.
        MhavizError: it has no attention that could be drawn.
    """
    if not isinstance(model, PreTrainedModel):
        raise ArgumentError(f"expected a name, a path or a model of transformers, got {type(model).__name__}")
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ArgumentError(f"expected the model's tokenizer too, got {type(tokenizer).__name__}")
    name = str(model.name_or_path) or type(model).__name__
    if writes and not model.can_generate():
        raise ArgumentError(f"{name}, {type(model).__name__}, writes no text; leave out `generate`")
    captured = bool(type(model)._can_set_attn_implementation())
    if captured:
        model.set_attn_implementation(SDPA if model._supports_sdpa else EAGER)
    nn.Module.eval(model)
    return Pretrained(*find_sites(Loaded(name, model, tokenizer, model.device, captured)))

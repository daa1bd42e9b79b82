"""A digest that tells models apart, of a few numbers of each parameter: the same on every machine and device."""

from hashlib import sha256

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from mhaviz.models.pretrained.reading import vocabulary

_OF_EACH = 64  # numbers, from the first to the last, evenly apart
_DIGITS = 16


def fingerprint(model: nn.Module, tokenizer: PreTrainedTokenizerBase) -> str:
    """Of the names, shapes, types and some numbers of all parameters, and of the tokenizer's vocabulary.

    Of parameters that lie on disk while the model does not run, the numbers are left out.
    """
    digest = sha256()
    for name, parameter in sorted(model.named_parameters()):
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}".encode())
        if parameter.numel() and not parameter.is_meta:
            flat = parameter.detach().flatten()
            places = torch.linspace(0, flat.numel() - 1, min(_OF_EACH, flat.numel()), dtype=torch.float64).long()
            digest.update(flat[places.to(flat.device)].cpu().contiguous().view(torch.uint8).numpy().tobytes())
    for token, number in vocabulary(tokenizer):
        digest.update(f"{number} {token}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:_DIGITS]

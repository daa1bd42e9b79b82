"""A digest that tells models apart, of a few numbers of each parameter: the same on every machine and device."""

import json
import re
from contextlib import suppress
from hashlib import sha256
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mhaviz.errors import MhavizError
from mhaviz.models.transformers.read import read_without_names, vocabulary

_OF_EACH = 64  # numbers, from the first to the last, evenly apart
_DIGITS = 16
_SAMPLE = "A Fingerprint,\ttell ME: naïve ﬁsh 1234 don't  "
"""A text that tokenizers of one vocabulary read in several ways: in lower case, without accents, with other blanks."""
_NOT_OF_IT = re.compile(
    "_name_or_path|transformers_version|architectures|dtype|torch_dtype|id2label|label2id|problem_type"
    "|use_cache|output_attentions|output_hidden_states|return_dict|.*dropout.*|.*_pdrop"
)
"""Of a configuration: where it is from, what the parameters tell themselves, and what no attention depends on."""


def fingerprint(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str:
    """Of the names, shapes, types and some numbers of all parameters, of the configuration, and of the tokenizer's
    vocabulary and what it makes of a text.

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
    # What differs from the defaults of its kind: another transformers may know more fields.
    digest.update(json.dumps(_told(model.config.to_diff_dict()), sort_keys=True, default=str).encode())
    with suppress(MhavizError):  # some tokenizers know nothing of what is not in their vocabulary
        (sample,) = read_without_names(tokenizer, [_SAMPLE])
        digest.update(str((sample.ids, sample.special)).encode())
    return digest.hexdigest()[:_DIGITS]


def _told(config: Any) -> Any:
    """What a configuration tells of what is computed, with those of the parts of a model."""
    if not isinstance(config, dict):
        return config
    return {str(name): _told(value) for name, value in config.items() if not _NOT_OF_IT.fullmatch(str(name))}

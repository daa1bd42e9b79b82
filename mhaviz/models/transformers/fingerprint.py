"""Fingerprint of a model: a digest of a few numbers of each parameter, the same on every machine and device."""

import json
import re
from contextlib import suppress
from hashlib import sha256
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mhaviz.errors import MhavizError
from mhaviz.models.transformers.read import read_without_names, vocabulary

_PER_PARAMETER = 64  # most numbers of a parameter, evenly spaced from the first to the last
_DIGITS = 16
_SAMPLE = "A Fingerprint,\ttell ME: naïve ﬁsh 1234 don't  "
"""A text on which tokenizers with the same vocabulary differ, in case, accents and spaces."""
_IGNORED = re.compile(
    "_name_or_path|transformers_version|architectures|dtype|torch_dtype|id2label|label2id|problem_type"
    "|use_cache|output_attentions|output_hidden_states|return_dict|.*dropout.*|.*_pdrop"
)
"""Fields of a configuration that are left out: its origin, what the parameters show, and what changes no attention."""


def fingerprint(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str:
    """Return a digest of the parameters' names, shapes, types and some of their numbers, of the configuration, and of
    the tokenizer's vocabulary and its tokens for a sample text.

    The numbers of parameters that are offloaded to disk are left out.
    """
    digest = sha256()
    for name, parameter in sorted(model.named_parameters()):
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}".encode())
        if parameter.numel() and not parameter.is_meta:
            flat = parameter.detach().flatten()
            places = torch.linspace(0, flat.numel() - 1, min(_PER_PARAMETER, flat.numel()), dtype=torch.float64).long()
            digest.update(flat[places.to(flat.device)].cpu().contiguous().view(torch.uint8).numpy().tobytes())
    for token, number in vocabulary(tokenizer):
        digest.update(f"{number} {token}".encode("utf-8", "surrogatepass"))
    # Only what differs from the defaults, as other versions of transformers may have more fields.
    digest.update(json.dumps(_relevant(model.config.to_diff_dict()), sort_keys=True, default=str).encode())
    with suppress(MhavizError):  # some tokenizers fail on text that is not in their vocabulary
        (sample,) = read_without_names(tokenizer, [_SAMPLE])
        digest.update(str((sample.ids, sample.special)).encode())
    return digest.hexdigest()[:_DIGITS]


def _relevant(config: Any) -> Any:
    """Return a configuration, with those of a model's parts, without the ignored fields."""
    if not isinstance(config, dict):
        return config
    return {str(name): _relevant(value) for name, value in config.items() if not _IGNORED.fullmatch(str(name))}

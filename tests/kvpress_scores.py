"""Scores of keys by kvpress, in an environment of its own: PYTHON tests/kvpress_scores.py MODEL_FOLDER SAVED.npz IDS

kvpress needs other versions of its libraries than mhaviz; tests run this by the interpreter that MHAVIZ_KVPRESS names.
"""

import sys

import numpy as np
import torch
from kvpress import ObservedAttentionPress
from transformers import AutoModelForCausalLM

scores = []


class Recording(ObservedAttentionPress):
    """The press, whose scores are kept."""

    def score(self, *arguments, **named):
        found = super().score(*arguments, **named)
        scores.append(found[0].float().numpy())
        return found


folder, saved, ids = sys.argv[1], sys.argv[2], [int(one) for one in sys.argv[3].split(",")]
model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
press = Recording(compression_ratio=0.5)
with torch.no_grad(), press(model):
    model(torch.tensor([ids]))
np.savez(saved, *scores)

"""What MiniLM does with one sentence, for tests of answers and of lines."""

import numpy as np
import pytest
import torch
import transformers
from animal import ANIMAL, FOLDER, GROUPS

import mhaviz


@pytest.fixture(scope="session")
def animal():
    return mhaviz.load(FOLDER, dtype="float64").attend(ANIMAL)


@pytest.fixture(scope="session")
def by_hand():
    """Weights of all heads by word, (layers, heads, words, words), from transformers in float64."""
    model = transformers.BertModel.from_pretrained(FOLDER, attn_implementation="eager", dtype=torch.float64).eval()
    ids = transformers.AutoTokenizer.from_pretrained(FOLDER)(ANIMAL, return_tensors="pt")
    with torch.no_grad():
        a = np.stack([x[0].numpy() for x in model(**ids, output_attentions=True).attentions])
    a = np.stack([a[..., group].sum(-1) for group in GROUPS], -1)
    return np.stack([a[..., group, :].mean(-2) for group in GROUPS], -2)

"""What the model of samples/induction.py, which has learnt to copy, reads."""

import torch
from induction import WORDS


def repeats(sequences, n_words, seed=0):
    """ids, (sequences, 1 + 2 · n_words): a beginning, and random words, twice."""
    random = torch.Generator().manual_seed(seed)
    words = torch.randint(1, WORDS + 1, (sequences, n_words), generator=random)
    return torch.cat([torch.zeros(sequences, 1, dtype=torch.long), words, words], dim=1)


def as_texts(ids):
    """What the tokenizer reads as these: it begins each by itself."""
    return [" ".join(f"w{i}" for i in row[1:]) for row in ids.tolist()]

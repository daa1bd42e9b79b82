"""Train the translator that comes with mhaviz again: python samples/make_checkpoint.py"""

from pathlib import Path

import torch

import mhaviz.training
from mhaviz.training.checkpoint import Checkpoint, Plan, Sizes
from mhaviz.training.grammar import translation_corpus
from mhaviz.training.trainer import Trainer

SHIPPED = Path(mhaviz.training.__file__).parent / "translation.safetensors"


def make_checkpoint() -> None:
    """With the sizes, the steps and the seed that mhaviz train has by default."""
    corpus = translation_corpus()
    checkpoint = Checkpoint.untrained(corpus, Sizes(), Plan())
    for progress in Trainer(checkpoint, corpus, torch.device("cpu")).steps():
        if progress.milestone:
            print(progress.milestone)
    checkpoint.optimizer = {}  # nobody goes on training it
    checkpoint.save(SHIPPED)


if __name__ == "__main__":
    make_checkpoint()

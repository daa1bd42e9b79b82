import pytest
import torch

from mhaviz.training.checkpoint import Checkpoint, Plan, Sizes
from mhaviz.training.corpus import Corpus, Pair
from mhaviz.training.trainer import Trainer

SIZES = Sizes(d_model=16, n_heads=2, d_ff=16, dropout=0.1)


def reversing_corpus():
    """Source words are numbers; the target is the same numbers backwards."""
    pairs = []
    for first in range(7):
        for second in range(7):
            words = (f"s{first}", f"s{second}")
            target = (f"t{second}", f"t{first}")
            links = ((1, 0), (0, 1))
            pairs.append(Pair(words, target, links))
    held_out = pairs[5::9]
    return Corpus("a test", tuple(pair for pair in pairs if pair not in held_out), tuple(held_out))


@pytest.fixture
def corpus():
    return reversing_corpus()


@pytest.fixture
def train():
    """A checkpoint after so many of its steps."""

    def run(corpus, steps=4, until=None, **plan):
        checkpoint = Checkpoint.untrained(corpus, SIZES, Plan(steps=steps, batch_size=8, **plan))
        for progress in Trainer(checkpoint, corpus, torch.device("cpu")).steps():
            if progress.step == until:
                break
        return checkpoint

    return run

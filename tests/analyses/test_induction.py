"""The heads of a model that has learnt to copy: what each is for is known, and the statistics find it."""

import numpy as np
import pytest
from induction_model import as_texts, repeats
from torch.nn.functional import cross_entropy

import mhaviz

pytestmark = pytest.mark.slow


def test_induction_and_previous_token_heads_are_found(induction_model):
    found = mhaviz.load(*induction_model).head_statistics(as_texts(repeats(16, 12)))
    (averages,) = found.kinds
    by_layer = averages.induction.mean
    assert by_layer[1].max() > 0.6
    assert by_layer[0].max() < 0.1
    row, _ = np.unravel_index(averages.previous.mean.argmax(), by_layer.shape)
    assert row == 0
    assert averages.previous.mean.max() > 0.5


@pytest.fixture(scope="module")
def previous_head(induction_model):
    """The model as it is looked at, and the number of its previous-token head."""
    loaded = mhaviz.load(*induction_model)
    (averages,) = loaded.head_statistics(as_texts(repeats(16, 12))).kinds
    return loaded, int(averages.previous.mean[0].argmax())


def test_copying_needs_the_previous_token_head(previous_head, induction_model):
    loaded, head = previous_head
    ids = repeats(16, 12)
    found = loaded.ablate(as_texts(ids)).kinds[0]
    assert found.change.mean.argmax() == head  # of layer 0
    assert found.change.mean[0, head] > 3 * np.partition(found.change.mean.flatten(), -2)[-2]

    model = loaded.corpus_model()
    inputs, second_half = model.encode_unnamed(as_texts(ids)), [tuple(range(13, 24))] * 16
    site = next(site for site in model.all_sites if site.layer == 0)
    losses = [
        cross_entropy(one.predictor.logits(inputs, second_half), ids[:, 14:].flatten()).item()
        for one in (model, model.zeroing([(site, head)]), model.zeroing([(site, 1 - head)]))
    ]
    assert losses[0] < 0.5
    assert losses[1] > losses[0] + 2  # nats: it guesses
    assert losses[2] < losses[0] + 1

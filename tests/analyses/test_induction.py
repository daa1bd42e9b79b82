"""The heads of a model that has learnt to copy: what each is for is known, and the statistics find it."""

import numpy as np
from induction_model import as_texts, repeats

import mhaviz


def test_induction_and_previous_token_heads_are_found(induction_model):
    found = mhaviz.load(*induction_model).head_statistics(as_texts(repeats(16, 12)))
    (averages,) = found.kinds
    by_layer = averages.induction.mean
    assert by_layer[1].max() > 0.6
    assert by_layer[0].max() < 0.1
    row, _ = np.unravel_index(averages.previous.mean.argmax(), by_layer.shape)
    assert row == 0
    assert averages.previous.mean.max() > 0.5

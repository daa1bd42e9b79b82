"""What files say of a map."""

import numpy as np
import pytest

from mhaviz import diff
from mhaviz.inputs.patches import PatchGrid
from mhaviz.inputs.tokens import Tokens
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import QUANTITIES, ROLLOUT
from mhaviz.results.result import Source
from mhaviz.results.summary import MapSummary
from mhaviz.views.data import document


@pytest.fixture
def full():
    """A map of which there is everything to say."""
    axis = Axis(Tokens(tuple("abc"), (0,), images=(PatchGrid.run(2, 1, 1),)), np.array([0, 2, 3]))
    weights = np.full((1, 2, 2), 0.5, np.float32)
    summary = MapSummary((), 3, 1, 0.5)
    rare = {
        "reach": 0,
        "sink": True,
        "to_special": np.array([0.25], np.float32),
        "module": "blocks.0.attn",
        "pass_number": 100,
    }
    return AttentionMap(weights, axis, axis, "self", 0, (3,), 1, ROLLOUT, summary, **rare)


def test_quantities_have_keys_of_their_own(full, random_attention):
    attention = random_attention()
    whole, change = document(Attention(Source("s"), (full,))), document(diff(attention, attention))
    keys = [quantity.key for quantity in QUANTITIES]
    assert len(set(keys)) == len(keys)
    assert {*whole["maps"][0], *change["differences"][0]} & set(keys) == {ROLLOUT.key}

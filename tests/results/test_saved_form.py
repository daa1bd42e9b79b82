"""What files say of a map."""

import numpy as np
import pytest

from mhaviz import diff
from mhaviz.inputs.tokens import Tokens
from mhaviz.results import saved_form
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import QUANTITIES, ROLLOUT
from mhaviz.results.result import Source
from mhaviz.results.summary import MapSummary
from mhaviz.views.data import document


@pytest.fixture
def full():
    """A map of which there is everything to say."""
    axis = Axis(Tokens(tuple("abc"), (0,), grid=(2, 1)), np.array([0, 2, 3]))
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


def test_every_field_is_known(full):
    assert set(document(Attention(Source("s"), (full,)))["maps"][0]) <= saved_form.FIELDS | {ROLLOUT.key}


def test_every_field_of_a_difference_is_known(random_attention):
    attention = random_attention()
    assert set(document(diff(attention, attention))["differences"][0]) <= saved_form.FIELDS


def test_all_that_is_known_is_a_field_of_some_map(full, random_attention):
    attention = random_attention()
    whole, change = Attention(Source("s"), (full,)), diff(attention, attention)
    assert {*document(whole)["maps"][0], *document(change)["differences"][0]} == saved_form.FIELDS | {ROLLOUT.key}


def test_quantities_have_keys_of_their_own():
    keys = [quantity.key for quantity in QUANTITIES]
    assert len(set(keys)) == len(keys)
    assert not saved_form.FIELDS & set(keys)

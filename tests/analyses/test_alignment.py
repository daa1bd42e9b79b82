import numpy as np
import pytest
from made import made_map

from mhaviz.errors import ArgumentError
from mhaviz.models.trained_model import TrainedModel, source_target_maps
from mhaviz.training.evaluation import alignment_errors
from mhaviz.training.grammar import translation_corpus
from mhaviz.training.loading import load_checkpoint


def cross(*heads):
    weights = np.array(heads, np.float32)
    queries, keys = (tuple(f"{side}{i}" for i in range(n)) for side, n in zip("ts", weights.shape[1:], strict=True))
    return made_map(queries, keys, weights, "cross")


def test_numbers_worked_out_by_hand():
    """Head 0 finds both words: 1 − 2·2/(2 + 2) = 0. Head 1 finds one of two: 1 − 2·1/4 = 0.5."""
    errors = alignment_errors([cross([[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.7, 0.3]])], [[(0, 0), (1, 1)]])
    assert errors.heads == (0, 0.5)
    assert errors.mean == 0  # (0.2 + 0.7) / 2 < (0.8 + 0.3) / 2
    assert errors.links == 2


def test_links_are_counted_over_all_sentences():
    """A finds 1 of 1 and 1 of 3, of 4 links in A and 1 + 2 in G: 1 − 2·2/(4 + 3)."""
    one = cross([[1.0]])
    three = cross([[0.6, 0.4], [0.6, 0.4], [0.6, 0.4]])
    errors = alignment_errors([one, three], [[(0, 0)], [(0, 1), (1, 2)]])
    assert errors.mean == pytest.approx(1 - 4 / 7)


def test_source_and_target_are_not_confused():
    assert alignment_errors([cross([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])], [[(1, 0), (0, 1), (1, 2)]]).mean == 0


def test_what_cannot_be_counted():
    with pytest.raises(ArgumentError, match="at least one link"):
        alignment_errors([cross([[1.0]])], [[]])


def test_the_shipped_translator_looks_at_the_word_that_it_translates():
    checkpoint = load_checkpoint("translation")
    pairs = translation_corpus(checkpoint.plan.seed).held_out
    errors = alignment_errors(source_target_maps(TrainedModel(checkpoint, "cpu"), pairs), [p.alignment for p in pairs])
    assert errors.mean <= 0.05
    assert len(errors.heads) == 4

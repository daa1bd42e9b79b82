import math

import pytest
import torch
from rounding import rounding

from mhaviz import ArgumentError, Embeddings, PositionalEncoding


@pytest.mark.parametrize("d_model", [8, 64, 512])
def test_embeddings_start_with_unit_variance(d_model):
    torch.manual_seed(0)
    embedded = Embeddings(2000, d_model)(torch.arange(2000)[None])
    assert embedded.shape == (1, 2000, d_model)
    assert embedded.var().item() == pytest.approx(1, abs=0.05)


def test_embeddings_are_the_table_times_the_root():
    embeddings = Embeddings(5, 4)
    ids = torch.tensor([[3, 0, 3]])
    assert torch.equal(embeddings(ids)[0, 0], embeddings.lookup.weight[3] * 2)


@pytest.mark.parametrize("d_model", [8, 7, 1])
def test_positions_are_those_of_the_paper(d_model):
    encode = PositionalEncoding(d_model, dropout=0.0, max_length=300)
    added = encode(torch.zeros(2, 300, d_model))
    for position in (0, 1, 2, 77, 299):
        for feature in range(d_model):
            angle = position / 10000 ** (2 * (feature // 2) / d_model)
            expected = math.sin(angle) if feature % 2 == 0 else math.cos(angle)
            assert added[1, position, feature].item() == pytest.approx(expected, abs=rounding(size=1, terms=2))


def test_dropout_only_in_training():
    encode = PositionalEncoding(64, dropout=0.5)
    x = torch.ones(1, 10, 64)
    assert (encode(x) == 0).any()
    assert not (encode.eval()(x) == 0).all(dim=-1).any()
    assert torch.equal(encode(x), encode(x))


def test_too_long_an_input_says_both_lengths():
    with pytest.raises(ArgumentError, match="at most 4 positions, got an input of 5"):
        PositionalEncoding(8, max_length=4)(torch.zeros(1, 5, 8))


def test_positions_are_no_parameters():
    assert not list(PositionalEncoding(8).parameters())
    assert not PositionalEncoding(8).state_dict()


def test_an_id_outside_the_vocabulary():
    with pytest.raises(ArgumentError, match="ids: expected numbers from 0 to 4, got 0 to 7"):
        Embeddings(5, 8)(torch.tensor([[0, 7]]))


@pytest.mark.parametrize("shape", [(1, 4, 6), (4, 8)])
def test_an_input_of_another_shape(shape):
    with pytest.raises(ArgumentError, match=r"x: expected \(batch_size, seq_length, 8\), got"):
        PositionalEncoding(8)(torch.zeros(shape))


def test_a_word_has_the_same_vector_however_many_words_follow():
    torch.manual_seed(0)
    few = Embeddings(3, 8)
    torch.manual_seed(0)
    many = Embeddings(10, 8)
    assert torch.equal(few.lookup.weight, many.lookup.weight[:3])

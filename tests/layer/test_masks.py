import torch

from mhaviz.layer.attention import causal_mask, padding_mask


def test_causal_shows_oneself_and_the_past():
    mask = causal_mask(3)
    assert mask.shape == (1, 1, 3, 3)
    assert mask[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_padding_hides_the_end_of_shorter_sentences():
    mask = padding_mask([3, 1])
    assert mask.shape == (2, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True, True, True], [True, False, False]]
    assert mask.dtype == torch.bool

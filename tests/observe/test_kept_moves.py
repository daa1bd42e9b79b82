"""Moves that look like earlier ones and are others.

The oracle is in the numbers: each feature is the number of its token.
"""

import gc

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mhaviz
from mhaviz.observe.regions import Traced


class Cursor:
    """An integer that moves, as ``slice`` takes it."""

    def __init__(self):
        self.at = 0

    def __index__(self):
        return self.at


def slice_of_a_cursor():
    begin, end = Cursor(), Cursor()
    begin.at, end.at = 0, 3
    yield lambda x: x[:, slice(begin, end)]
    begin.at, end.at = 2, 5
    yield lambda x: x[:, slice(begin, end)]


def list_that_is_changed():
    places = [0, 1, 2]
    yield lambda x: x[:, places]
    places[:] = [4, 3, 2]
    yield lambda x: x[:, places]


def array_that_is_written_into():
    places = np.arange(2000) % 6
    yield lambda x: x[:, places]
    places[1000:] = 0
    yield lambda x: x[:, places]


def index_that_is_written_into():
    places = torch.tensor([0, 1, 2])
    yield lambda x: x[:, places]
    places.copy_(torch.tensor([5, 4, 3]))
    yield lambda x: x[:, places]


def rolls():
    yield lambda x: x.roll(1, 1)
    yield lambda x: x.roll(1, -2)
    yield lambda x: x.roll(2, 1)
    yield lambda x: x.roll((2, 1), (1, 1))


class Program(nn.Module):
    def __init__(self, moves):
        super().__init__()
        self.moves, self.moved = moves, []

    def forward(self, x):
        for move in self.moves():
            y = move(x)
            y = y if y.ndim == 3 else y[None]
            self.moved.append(y)
            F.scaled_dot_product_attention(y, y, y)


@pytest.mark.parametrize(
    "moves",
    [slice_of_a_cursor, list_that_is_changed, array_that_is_written_into, index_that_is_written_into, rolls],
)
def test_a_move_is_known_again_only_if_it_is_the_same(moves):
    net, x = Program(moves), torch.arange(6.0)[None, :, None].expand(1, 6, 4).contiguous()
    with mhaviz.record(net) as recording:
        net(x)
    assert len(recording.attention.maps) == len(net.moved) > 1
    for m, y in zip(recording.attention.maps, net.moved, strict=True):
        assert [*m.keys] == [str(int(number)) for number in y[0, :, 0]]


def test_a_matrix_that_is_its_own_index():
    class Sorted(nn.Module):
        def forward(self, x, places):
            for p in (places, places.flip(0)):
                y = x[:, p[p]]
                F.scaled_dot_product_attention(y, y, y)

    places = torch.tensor([1, 2, 3, 4, 5, 0])
    net = Sorted()
    with mhaviz.record(net) as recording:
        net(torch.randn(1, 6, 4), places)
    expected = [[*map(str, p[p].tolist())] for p in (places, places.flip(0))]
    assert [[*m.keys] for m in recording.attention.maps] == expected


def test_chains_of_moves_take_no_memory_for_long():
    class Rolled(nn.Module):
        def forward(self, x):
            y = x
            for _ in range(600):
                y = y.roll(1, 1)
            return F.scaled_dot_product_attention(y, y, y)

    def n_traced():
        gc.collect()
        return sum(type(one) is Traced for one in gc.get_objects())

    net, before = Rolled(), n_traced()
    with mhaviz.record(net) as recording:
        net(torch.randn(1, 7, 4))
        assert n_traced() - before < 300
    assert [*recording.attention.maps[0].keys] == [str((place - 600) % 7) for place in range(7)]

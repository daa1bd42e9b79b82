"""Which of the numbers that a program has looked up are the tokens of an attention."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from mhaviz.api.recorded_tokens import TokenNames
from mhaviz.recording.inputs import SeenInputs

SOURCE, TARGET = torch.tensor([[5, 3, 8, 1]]), torch.tensor([[2, 7, 7, 4]])


class Program:
    """What a program reads, and in which order; nobody looks for its tokenizer."""

    def __init__(self):
        def failed(error):
            raise error

        self.inputs = SeenInputs(failed)
        self.looks = self.inputs.looks()
        self.names = TokenNames(self.inputs, None, None, pytest.fail)
        self.names._looked = True

    def read(self, ids):
        self.looks[F.embedding](F.embedding, (ids, torch.zeros(9, 2)), {})

    def see(self):
        self.looks[F.conv2d](F.conv2d, (torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 2, 2), None, 2), {})

    def attend(self, lengths=(4, 4), examples=(0,), batch_size=1, first=0, is_cross=False):
        queries, keys = self.names.sides(1, lengths, examples, batch_size, first, is_cross)
        self.inputs.n_attentions += 1
        return [one.ids for one in queries], [one.ids for one in keys]


def tuples(ids):
    return [tuple(row) for row in ids.tolist()]


def test_a_source_and_a_target_of_one_length():
    program, source, target = Program(), tuples(SOURCE), tuples(TARGET)
    for _ in range(2):
        program.read(SOURCE)
        assert program.attend() == (source, source)
        program.read(TARGET)
        assert program.attend() == (target, target)
        assert program.attend(is_cross=True) == (target, source)


def test_nothing_tells_which_of_two_texts_it_is_that_were_read_before_any_attention():
    program = Program()
    program.read(SOURCE)
    program.read(TARGET)
    assert program.attend() == ([()], [()])
    assert program.attend(is_cross=True) == ([()], [()])


def test_the_same_text_read_twice_and_its_positions():
    program = Program()
    for ids in (SOURCE, SOURCE.clone(), torch.arange(4)[None], torch.zeros(1, 4, dtype=torch.long)):
        program.read(ids)
    assert program.attend()[0] == tuples(SOURCE)


def test_patches_of_an_image_and_a_text_of_as_many_tokens():
    program = Program()
    program.see()
    assert program.names.sides(1, (4, 4), (0,), 1, 0, False)[0][0].grid == (2, 2)
    program.read(SOURCE)
    assert program.attend()[0] == tuples(SOURCE)
    program.see()
    assert program.names.sides(1, (4, 4), (0,), 1, 0, False)[0][0].grid == (2, 2)


def test_examples_of_a_batch_and_beams_of_them():
    program, both = Program(), torch.cat([SOURCE, TARGET])
    program.read(both)
    assert program.attend(examples=(0, 1), batch_size=2)[0] == tuples(both)
    assert program.attend(examples=(0, 1), batch_size=6)[0] == [*tuples(SOURCE), ()], "beams of the first, or the next"


def test_keys_of_a_cache_that_has_lost_its_first_are_named_by_their_places():
    program = Program()
    _, (keys,) = program.names.sides(1, (1, 4), (0,), 1, 6, False)
    assert keys.texts == ("3", "4", "5", "6")


def test_what_is_read_in_a_layer_names_the_same_objects():
    program = Program()
    program.read(SOURCE)
    first = program.names.sides(1, (4, 4), (0,), 1, 0, False)
    program.read(nn.Parameter(torch.zeros(4, 4)).long())  # position biases
    assert program.names.sides(1, (4, 4), (0,), 1, 0, False) is first

"""Layers that are right: no error in any, and a notice only of what is on purpose."""

import pytest
from checks.right_base import made
from checks.right_layers import RIGHT
from watched import uses_torch_jit

from mhaviz.api.checking import check

BY_NAME = {one.name: one for one in RIGHT}

NOTICES = {
    "groups-tiled": {"groups"},
    "mup": {"scale"},
    "softcap": {"softcap"},
    "renormalised": {"mask-after-softmax"},
    "divided-last": {"row-sum"},
    "sink": {"sinks"},
    "softmax-plus-one": {"sinks"},
    "rotary-position-ids": {"packed"},
    "x-transformers-sink": {"sinks"},
    "x-transformers-talking": {"scale"},  # heads that are mixed before the softmax have no factor of their own
    "transformers-gemma2": {"scale"},
    "transformers-gpt-oss": {"sinks", "scale"},
    "transformers-granite": {"scale"},
    "transformers-gpt-neo": {"scale"},
    "transformers-gpt-neo-local": {"scale"},
    "transformers-t5": {"scale"},
    "transformers-t5-decoder": {"scale"},
    "transformers-deberta": {"scale"},
    "transformers-bert-whole": {"dead-parameter"},
}
"""What is on purpose, beside ``USUAL``."""

USUAL = {"uniform-row", "nan"}
"""What becomes of a row that is wholly hidden in most layers."""

QUICK = {
    "list-of-heads",
    "einsum-bqhk",
    "folded-into-batch",
    "zero-output-projection",
    "mask-added",
    "attention-mask-added",
    "cross",
    "cache",
    "start-pos",
    "packed",
    "torch-length-first",
    "torch-encoder-layer-norm-first",
    "torch-decoder-layer",
    "mhaviz",
    "cosine",
    "softcap",
    "online-softmax",
    "sink",
    "local-window",
    "rotary-position-ids",
    "transformer-xl",
    "transformers-t5",
}
"""Those that are checked in each run: of each signature, each way to write a softmax, and each notice."""


@uses_torch_jit  # x-transformers
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in BY_NAME]
)
def test_no_error_is_found(name):
    right = BY_NAME[name]
    found = check(made(right), d_model=right.d_model, **right.kwargs)
    assert not found.errors
    assert set(found.codes) - USUAL == NOTICES.get(name, set())
    assert found.probed


def test_names_are_those_of_layers():
    assert len(BY_NAME) == len(RIGHT)
    assert set(NOTICES) | QUICK <= set(BY_NAME)

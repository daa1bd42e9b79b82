"""What is drawn over photos, of models of families: of each token its weight and its place, which are measured.

``tests/benchmarks/patches_drawn.py`` does the same with models that are trained to look at a square, for all of their
attentions.
"""

from dataclasses import replace

import pytest
import torch

pytest.importorskip("transformers")

from benchmarks.patch_families import FAMILIES
from benchmarks.patches_drawn import judge, status
from transformers.utils import logging

FAST = {
    *(
        "LLaVA 1.5",
        "PaliGemma",
        "InternVL (1 tile)",
        "Qwen2.5-VL (7 × 5 blocks)",
        "Fuyu",
        "DINOv2 with registers",
        "MAE",
    ),
    *("Swin (52 × 60)", "ViT by unfold"),
}
"""Those that take less than a second."""

UNKNOWN = {"Fuyu"}
"""Those of whose tokens nothing tells which are patches: they are cut in NumPy."""


def marked(family):
    return pytest.param(family, id=family.name, marks=[] if family.name in FAST else [pytest.mark.slow])


@pytest.fixture(autouse=True)
def _as_it_was():
    verbosity, threads = logging.get_verbosity(), torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    logging.set_verbosity(verbosity)
    torch.set_num_threads(threads)


@pytest.mark.parametrize("family", [marked(family) for family in FAMILIES if not family.needs])
def test_weights_and_places_are_those_that_are_measured(family):
    quick = replace(family, make=lambda: replace(family.make(), repeats=1))
    verdict = judge(quick, planted=False, is_quick=True)
    assert verdict.wrong == []
    assert verdict.doubts == []
    assert status(verdict) == ("refused" if family.refused or family.name in UNKNOWN else "drawn")
    refused = [one.refused for one in verdict.attentions if not one.is_drawn or not one.must]
    why = ("it is not known which of", "its queries are patches, and its keys are none")
    assert all(any(one in message for one in why) and "\n" not in message for message in refused)
    assert bool(refused) == any(not one.must or status(verdict) == "refused" for one in verdict.attentions)

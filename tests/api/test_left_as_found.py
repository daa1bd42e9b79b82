"""What Python users call leaves their process as they have set it up: logs, bars, random numbers, environment."""

import os
import random
import re
import shutil
import signal
import sys
import warnings
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars
from matplotlib import pyplot
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

import mhaviz
from mhaviz.errors import MhavizError
from mhaviz.models.transformers.silence import quiet, silence

TEXT = "the small black cat"


@pytest.fixture(autouse=True)
def settings():
    """A user's own, none of them a default."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_info()
    logging.enable_progress_bar()
    disable_progress_bars("ours")
    yield
    logging.set_verbosity(level)
    (logging.enable_progress_bar if bars else logging.disable_progress_bar)()


def state():
    return {
        "log": logging.get_verbosity(),
        "bars": (logging.is_progress_bar_enabled(), are_progress_bars_disabled(), are_progress_bars_disabled("ours")),
        "warnings": list(warnings.filters),
        "environment": dict(os.environ),
        "random numbers": (torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())),
        "torch": (torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype()),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "others": (np.geterr(), sys.stdout, sys.stderr, Path.cwd(), pyplot.get_fignums()),
    }


def in_memory(folder):
    with quiet():
        given = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    return mhaviz.load(*given)


def record(length):
    with torch.device("meta"):
        layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    layer.load_state_dict({name: torch.ones(x.shape) for name, x in layer.state_dict().items()}, assign=True)
    with mhaviz.record():
        layer(*[torch.ones(1, 3, length)] * 3)


CALLS = {
    "load and attend": lambda folder: mhaviz.load(folder).attend(TEXT, show="norms"),
    "attend in memory": lambda folder: in_memory(folder).attend(TEXT),
    "attend and generate": lambda folder: mhaviz.attend("translation", "the black cat", kind="cross"),
    "head_statistics": lambda folder: mhaviz.head_statistics(folder, [TEXT, "the cat"]),
    "compare_implementations": lambda folder: mhaviz.compare_implementations(lengths=[4]),
    "masks": lambda folder: mhaviz.masks("random", TEXT, dropout=0.5),
    "record": lambda folder: record(8),
    "display_attention": lambda folder: pyplot.close(mhaviz.display_attention(["a"], ["b"], torch.ones(1, 1, 1))),
    "load that fails": lambda folder: mhaviz.load(folder),
    "attend that fails": lambda folder: mhaviz.load(folder).attend(TEXT, head=99),
    "record of what fails": lambda folder: record(7),
    "read that fails": lambda folder: mhaviz.read("nothing.npy"),
    "display_attention that fails": lambda folder: mhaviz.display_attention(["a"], ["b"], torch.ones(1, 2, 1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_what_it_found(model_folder, tmp_path, name):
    folder = model_folder("bert")
    if name == "load that fails":
        folder = shutil.copytree(folder, tmp_path / "broken")
        (folder / "config.json").write_text("{}")
    before, failed = state(), None
    try:
        CALLS[name](folder)
    except (MhavizError, AssertionError, RuntimeError) as error:
        failed = error
    assert state() == before
    assert (failed is not None) == ("fails" in name), failed


def test_the_last_of_several_threads_restores_what_the_first_found():
    """In the order in which two threads may enter and leave."""
    before = state()
    first, second = ExitStack(), ExitStack()
    first.enter_context(quiet())
    second.enter_context(silence(2))
    first.close()
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == (logging.ERROR, False)
    second.close()
    assert state() == before


def test_who_wants_to_read_less_still_does():
    logging.set_verbosity(logging.CRITICAL)
    with quiet():
        assert logging.get_verbosity() == logging.CRITICAL


def test_the_environment_is_the_users():
    """The command line has its own; within Python a variable is set for a moment at most."""
    package = Path(mhaviz.__file__).parent
    sets = re.compile(r"environ(\[[^]]+\] *=[^=]|\.(setdefault|update|pop)|\ *\|=)|putenv")
    found = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if sets.search(path.read_text())}
    starts_the_profiler, reads_a_date = "analyses/benchmark.py", "views/figure/sheet.py"
    assert found == {"cli/surroundings.py", starts_the_profiler, reads_a_date}

import contextlib
import functools
import gc
import io
import os
import signal
import sys
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:  # workers that each use all cores get in one another's way
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # programs that tests start find their bytecode, as users' do

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from made import made_map

from mhaviz.cli import app
from mhaviz.errors import parameters_named
from mhaviz.results.ablation import Ablation, Effect, HeadEffects
from mhaviz.results.attention import Attention
from mhaviz.results.head_statistics import N_BINS, STATISTICS, Average, HeadAverages, HeadStatistics
from mhaviz.results.result import Source
from mhaviz.views.terminal.safe_console import SafeConsole

settings.register_profile(
    "mhaviz", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("mhaviz")
sys.dont_write_bytecode = False  # to rewrite the assertions of all tests takes each worker longer than to import torch
gc.disable()  # while all tests are imported, a sixth of the time would go into looking through what stays
if not torch.accelerator.is_available():  # for each that might come, PyTorch notes the stack, which is deep in a test
    torch.manual_seed = torch.default_generator.manual_seed


def pytest_addoption(parser):
    parser.addoption("--refresh-goldens", action="store_true", help="write what is shown now into tests/goldens")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Neighbours to one worker: what the tests of a file have in common is then made once."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


def pytest_collection_modifyitems(items):
    """A test is numeric if it allows for rounding, or a function of its module that it calls does."""
    for item in items:
        test = getattr(item.function, "hypothesis", None)
        function = test.inner_test if test else item.function
        called = (getattr(item.module, name, None) for name in names(function.__code__))
        codes = (getattr(one, "__code__", None) for one in (function, *called))
        if any("CLOSE" in names(code) for code in codes if code is not None):
            item.add_marker("numeric")


@functools.cache
def names(code):
    """What a function asks for by name, and what those within it do."""
    within = (names(one) for one in code.co_consts if hasattr(one, "co_names"))
    return set(code.co_names).union(*within)


def pytest_collection_finish():
    """Nothing of what is loaded by now ever goes: the garbage collector need not look through it again and again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # a picture is made of thousands of objects, of which few are left
    gc.enable()


@pytest.fixture
def golden(request):
    """Compare text with a file in tests/goldens that a reader can read."""

    def compare(name, text):
        path = Path(__file__).parent / "goldens" / name
        if request.config.getoption("--refresh-goldens"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def default_signals():
    """Signals as on a terminal, for this process and those that a test starts: under nohup some are ignored."""
    ends = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, default) for number, default in ends.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Result:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err


# typer makes the parser of a command anew whenever it is called: as much work as many a command itself.
built = functools.cache(app.load_command)


@pytest.fixture
def mhaviz(capfd, monkeypatch):
    """Run the command line in this process; a message that names an option which the command lacks is a failure."""
    from mhaviz.cli import main

    def named_if_taken(by, taken):
        def named(name):
            assert taken(name), f"a message of this command names {by(name)}, which it does not have"
            return by(name)

        return parameters_named(named, taken)

    monkeypatch.setattr(app, "parameters_named", named_if_taken)
    monkeypatch.setattr(app, "load_command", built)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments, stdin=b""):
        stream = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        capfd.readouterr()
        status = main(list(arguments))
        out, err = capfd.readouterr()
        return Result(status, out, err)

    return run


@pytest.fixture
def show():
    """Print a view at a width, in colour or not, in Unicode or not; return what the terminal gets."""

    def render(view, width=80, colour=None, encoding="utf-8"):
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        console = SafeConsole(
            file=stream,
            width=width,
            force_terminal=True,
            color_system=colour,
            legacy_windows=False,
            _environ={},
        )
        console.print(view)
        stream.flush()
        assert stream.errors == "strict", "a caller's stream stays as it was"
        return stream.buffer.getvalue().decode(encoding)

    return render


@pytest.fixture(scope="session")
def random_map():
    """A map with random weights, rows summing to 1."""

    def make(n_heads=2, queries=("a", "b", "c"), keys=None, kind="self", seed=0, **more):
        keys = queries if keys is None else keys
        scores = np.random.default_rng(seed).normal(size=(n_heads, len(queries), len(keys)), scale=2)
        weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        return made_map(queries, keys, weights.astype(np.float32), kind, **more)

    return make


@pytest.fixture(scope="session")
def random_attention(random_map):
    def make(*arguments, **options):
        return Attention(Source("made by a test", {"kind": "test"}), (random_map(*arguments, **options),))

    return make


@pytest.fixture(scope="session")
def random_heads():
    """What heads look at, drawn at random, with NaN for what has no meaning; 10 sentences of 50 tokens together."""

    def make(n_layers=2, n_heads=3, kinds=("self",), seed=0, sentences=10, **more):
        random = np.random.default_rng(seed)

        def average(kind, name):
            shape = (n_layers, n_heads)
            nothing, counts = np.full(shape, np.nan), np.zeros((*shape, N_BINS), np.int64)
            if (
                (kind == "cross" and name not in ("entropy", "first", "separators", "sink"))
                or (kind, name) == ("masked", "next")
                or name in ("retrieval", "needle")
            ):
                nobody = np.zeros((n_layers, 2), np.int64)
                return Average(nothing, nothing, nothing, nothing, 0, 0, nothing, counts, nobody)
            mean = random.uniform(size=shape) * {"entropy": 3, "distance": 12}.get(name, 1)
            spread = random.uniform(size=shape) / 5 if sentences > 1 else nothing
            counts[..., 3], counts[..., 5] = 1, sentences - 1
            error = spread / np.sqrt(sentences)
            chance = np.full(shape, mean.mean())
            seen, by_layer = (sentences, 5 * sentences), np.tile([sentences, 5 * sentences], (n_layers, 1))
            return Average(mean, spread, mean - error, mean + error, *seen, chance, counts, by_layer)

        return HeadStatistics(
            Source("made by a test", {"kind": "test"}),
            tuple(
                HeadAverages(
                    kind,
                    tuple(range(n_layers)),
                    sentences,
                    5 * sentences,
                    **{name: average(kind, name) for name in STATISTICS},
                )
                for kind in kinds
            ),
            **more,
        )

    return make


@pytest.fixture(scope="session")
def random_effects():
    """What changes without heads, drawn at random: of all but the last of each attention; some losses are below 0."""

    def make(n_layers=2, n_heads=3, kinds=("masked",), prediction="next token", seed=0, size=1.0, **more):
        random = np.random.default_rng(seed)
        nothing = np.full((n_layers, n_heads), np.nan)

        def effect(low):
            mean = random.uniform(low, 1, size=(n_layers, n_heads)) * size
            mean[:, -1], mean[0, 0] = np.nan, low * size / 2
            return Effect(mean, abs(mean) / 3, mean - size / 10, mean + size / 10, 10, 50)

        unknown = Effect(nothing, nothing, nothing, nothing, 0, 0)
        is_embedding = prediction == "embedding"
        layers = tuple(range(n_layers))
        found = tuple(HeadEffects(kind, layers, effect(0), unknown if is_embedding else effect(-1)) for kind in kinds)
        source, loss = Source("made by a test", {"kind": "test"}), float("nan") if is_embedding else 4.5
        return Ablation(source, prediction, found, 10, loss, **more)

    return make


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """The folder of a family's small model with random weights, made once."""
    from families import save

    root = tmp_path_factory.mktemp("models")
    return lambda name: save(name, root)


@pytest.fixture
def as_processes(monkeypatch):
    """Read a corpus as each of so many processes that torchrun has started, the first last, which finds the whole."""
    from mhaviz.corpus import corpus as corpora

    def run(count, read):
        parts = []

        def gathered(part):
            parts.insert(0, part)
            return parts if len(parts) == count else None

        with monkeypatch.context() as patch:
            patch.setattr(corpora, "connect", lambda: None)
            patch.setattr(corpora, "gathered", gathered)
            patch.setenv("WORLD_SIZE", str(count))
            for rank in reversed(range(count)):
                patch.setenv("RANK", str(rank))
                found = read(rank)
        return found

    return run


def _trained(tmp_path_factory, worker_id, name, save):
    """The folder in which ``save`` leaves what it has trained. One worker trains, unless another comes meanwhile."""
    root = tmp_path_factory.getbasetemp()
    trained = (root if worker_id == "master" else root.parent) / name
    if not trained.exists():
        save(root / f"{name}-learning")
        with contextlib.suppress(OSError):  # the other was faster
            (root / f"{name}-learning").rename(trained)
    return trained


@pytest.fixture(scope="session")
def induction_model(tmp_path_factory, worker_id):
    """A model that has learnt to copy in a few seconds, and its tokenizer; see ``samples/induction.py``."""
    from induction import save_copier, word_tokenizer
    from transformers import GPTNeoXForCausalLM

    trained = _trained(tmp_path_factory, worker_id, "copier", save_copier)
    return GPTNeoXForCausalLM.from_pretrained(trained), word_tokenizer()


@pytest.fixture(scope="session")
def classifier(tmp_path_factory, worker_id):
    """The folder of a classifier that has learnt negation in half a minute; see ``samples/sentiment.py``."""
    from sentiment import save_classifier

    return _trained(tmp_path_factory, worker_id, "sentiment", save_classifier)

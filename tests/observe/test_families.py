"""What a recording catches of models that somebody else wrote, beside what the models themselves say of their weights.

The oracle has nothing in common with the recorder: see ``zoo``. The same models, and those of timm, make the table that
``tests/benchmarks/observed.py`` writes.
"""

from contextlib import contextmanager
from importlib.util import find_spec

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from watched import uses_torch_jit
from zoo.hand_written import HAND_WRITTEN, Layer, plain
from zoo.measure import difference, measure, record
from zoo.program import same_bits, spread
from zoo.torch_layers import TORCH
from zoo.transformers_models import TRANSFORMERS

import mhaviz

pytestmark = pytest.mark.slow

if find_spec("timm"):
    from zoo.timm_models import TIMM
else:
    TIMM = []


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Models as small as these take longer on several threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


EVERY = [*TRANSFORMERS, *TIMM, *TORCH, *HAND_WRITTEN]


@pytest.mark.parametrize("entry", EVERY, ids=lambda entry: entry.name)
def test_weights_are_the_models_own_and_its_output_is_the_same(entry):
    program = entry.make()
    found = measure(program, entry.tolerance)
    assert len(found.own) - found.n_caught == entry.missed, found.own
    assert not found.others
    assert found.same_bits


def on_the_fast_path(**options):
    """A layer that PyTorch runs in one step for inference, its result, and the same with a recording."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(24, 4, 32, batch_first=True).eval()
    x = torch.randn(2, 7, 24)
    with torch.no_grad():
        before = layer(x)
        with mhaviz.record(layer, **options) as recording:
            return layer, before, layer(x), recording


def test_what_a_visitor_raises_comes_out_of_the_fast_path():
    def visit(seen):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        on_the_fast_path(on_attention=visit)
    assert torch.equal(*on_the_fast_path()[1:3])


def test_hooks_of_the_program_run_once():
    layer, *_ = on_the_fast_path()
    ran = []
    layer.self_attn.register_forward_hook(lambda *_: ran.append(1))
    with torch.no_grad(), mhaviz.record(layer) as recording:
        layer(torch.randn(2, 7, 24))
    assert len(ran) == 1
    assert len(recording.attention.maps) == 1


@uses_torch_jit
def test_layers_can_be_scripted_and_everything_is_put_back():
    forward, script = nn.MultiheadAttention.forward, torch.jit.script
    layer, before, _, _ = on_the_fast_path()
    x = torch.randn(2, 7, 24)
    with torch.no_grad(), mhaviz.record() as recording:
        scripted = torch.jit.script(layer)
        assert scripted(x).shape == before.shape
        assert recording.is_empty
        layer(x)
    assert len(recording.attention.maps) == 1
    assert (nn.MultiheadAttention.forward, torch.jit.script) == (forward, script)


TRAINED = (
    "BertModel",
    "GPT2LMHeadModel",
    "LlamaForCausalLM",
    "T5ForConditionalGeneration",
    "DebertaV2Model",
    "ViTModel",
)


SOME = [*(one for one in TRANSFORMERS if one.name in TRAINED), *TORCH, *HAND_WRITTEN]


@pytest.mark.parametrize("entry", SOME, ids=lambda entry: entry.name)
def test_a_program_in_training_draws_the_same_dropout(entry):
    assert in_training_is_the_same(entry.make(), record)


class Operations(TorchDispatchMode):
    """A mode of a program's own, which sees each operation that runs, as ``torch.utils.flop_counter`` does."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("entry", SOME, ids=lambda entry: entry.name)
def test_modes_of_the_program_see_its_own_operations_alone(entry):
    program = entry.make()
    program.run()  # makes what is made once
    with Operations() as alone:
        program.run()
    with mhaviz.record(program.model), Operations() as recorded:
        program.run()
    assert recorded.names == alone.names


def in_training_is_the_same(program, recorder):
    program.model.train()
    outputs = []
    for recorded in (False, True, False):
        torch.manual_seed(0)
        if recorded:
            with recorder(program.model, []):
                outputs.append(program.run())
        else:
            outputs.append(program.run())
    return all(same_bits(outputs[0], one) for one in outputs[1:])


def test_names_are_those_of_the_modules():
    names = {
        "BertModel": ["encoder.layer.0.attention.self", "encoder.layer.1.attention.self"],
        "GPT2LMHeadModel": ["transformer.h.0.attn", "transformer.h.1.attn"],
        "AlbertModel": [f"encoder.albert_layer_groups.0.albert_layers.0.attention{end}" for end in ("", " #2")],
        "nanoGPT, manual": ["h.0.attn", "h.1.attn", "h.2.attn"],
    }
    for entry in EVERY:
        if entry.name in names:
            program = entry.make()
            with mhaviz.record(program.model) as recording:
                program.run()
            assert [one.module for one in recording.attention.maps] == names[entry.name]


@pytest.mark.parametrize("name", ["FNetModel", "MambaForCausalLM"])
def test_a_model_without_attention_has_none(name):
    (entry,) = (one for one in TRANSFORMERS if one.name == name)
    program = entry.make()
    with mhaviz.record(program.model) as recording:
        program.run()
    assert recording.is_empty
    with pytest.raises(mhaviz.MhavizError, match=r"saw [\d,]+ operations and no attention"):
        _ = recording.attention


def changing(change):
    """The recorder, but for what becomes of what it has observed."""

    @contextmanager
    def broken(model, observed):
        kept = []
        with record(model, kept) as recording:
            yield recording
        observed += change(kept)

    return broken


@contextmanager
def changing_the_output(model, observed):
    handle = model.register_forward_hook(lambda module, args, output: output * (1 + 2**-22))
    with record(model, observed):
        yield
    handle.remove()


@contextmanager
def drawing_a_number(model, observed):
    torch.rand(1)
    with record(model, observed):
        yield


BROKEN = {
    "queries and keys swapped": changing(lambda kept: [(name, A.mT) for name, A in kept]),
    "heads in another order": changing(lambda kept: [(name, A.flip(1)) for name, A in kept]),
    "examples in another order": changing(lambda kept: [(name, A.flip(0)) for name, A in kept]),
    "one head": changing(lambda kept: [(name, A[:, :1]) for name, A in kept]),
    "averaged over heads": changing(lambda kept: [(name, A.mean(1, keepdim=True).expand_as(A)) for name, A in kept]),
    "another scale": changing(lambda kept: [(name, (1.001 * (A + 1e-30).log()).softmax(-1)) for name, A in kept]),
    "a key too early": changing(lambda kept: [(name, A.roll(-1, -1)) for name, A in kept]),
    "nothing observed": changing(lambda kept: []),
    "the last one lost": changing(lambda kept: kept[:-1]),
    "one twice": changing(lambda kept: [*kept, *kept[-1:]]),
    "an output changed": changing_the_output,
}


@pytest.mark.parametrize("recorder", BROKEN.values(), ids=BROKEN)
def test_a_broken_recorder_is_found_out(recorder):
    (entry,) = (one for one in TORCH if one.name == "nanoGPT, manual")
    assert measure(entry.make(), entry.tolerance).is_whole
    found = measure(entry.make(), entry.tolerance, recorder)
    assert not (found.is_whole and found.same_bits)


def test_a_recorder_that_draws_a_random_number_is_found_out():
    (entry,) = (one for one in TORCH if one.name == "nanoGPT, manual")
    assert not in_training_is_the_same(entry.make(), drawing_a_number)


def test_weights_of_other_shapes_are_never_near():
    A = torch.rand(2, 3, 4, 5)
    assert difference(A, A) == 0
    assert difference(A.flatten(0, 1), A) == 0
    assert difference(A, A.mT) == difference(A, A[:1]) == difference(A, A.transpose(0, 1)) == torch.inf


def test_attention_of_two_models_keeps_its_places():
    """Two layers of one model, one called twice: by name and by place."""
    torch.manual_seed(0)
    model = nn.Sequential(spread(Layer(plain), 2.0), spread(Layer(plain), 3.0))
    x = torch.randn(2, 10, 24)
    with torch.no_grad(), mhaviz.record(examples="all") as recording:
        model(model(x))
    names = [one.module for one in recording.attention.maps if one.sentence == 0]
    assert names == ["0", "1"]
    assert all(
        float((one.weights - layer.kept[0][example].numpy()).max()) == 0
        for layer, name in zip(model, names, strict=True)
        for example, one in enumerate(m for m in recording.attention.maps if m.module == name)
    )

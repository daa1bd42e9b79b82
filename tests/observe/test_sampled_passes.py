"""Every Nth pass of a program is observed, and those between run as without us."""

import copy
import gc
import io
import weakref

import pytest
import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.optim.optimizer import _global_optimizer_post_hooks
from torch.overrides import _len_torch_function_stack

import mhaviz

X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))


class Model(nn.Module):
    """A model that notes, in each pass, whether functions are observed and how many hooks there are."""

    def __init__(self, n_layers=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(n_layers))
        self.seen = []

    def forward(self, x):
        self.seen.append((_len_torch_function_stack(), len(hooks._global_forward_pre_hooks)))
        for layer in self.layers:
            x = x + layer(x, x, x)[0]
        return x


def passes_of(watch):
    return {layer.module: layer.passes.tolist() for layer in watch.health.layers}


@pytest.mark.parametrize("is_given", [True, False])
def test_between_two_samples_nothing_is_left_but_a_hook_of_the_model(is_given):
    model = Model()
    with mhaviz.Watch(model if is_given else None, every=4) as watch:
        for _ in range(9):
            model(X)
        assert len(model._forward_pre_hooks) == 1
        assert not any(module._forward_pre_hooks for module in model.layers)
    assert [n_modes for n_modes, _ in model.seen] == [1, 0, 0, 0, 1, 0, 0, 0, 1]
    assert [n_hooks for i, (_, n_hooks) in enumerate(model.seen) if i % 4 > 1] == [0] * 4
    assert passes_of(watch) == {"layers.0": [0, 4, 8], "layers.1": [0, 4, 8]}
    assert watch.n_passes == 9
    model(X)  # it is over
    assert watch.n_passes == 9
    assert not (hooks._global_forward_pre_hooks)
    assert not (hooks._global_forward_hooks)
    assert not _global_optimizer_post_hooks
    assert not model._forward_pre_hooks


def test_outputs_and_gradients_are_the_same_bits():
    model = Model()
    model(X).sum().backward()
    alone = model.layers[0].in_proj_weight.grad.clone()
    model.zero_grad()
    with mhaviz.Watch(model, every=1):
        model(X).sum().backward()
    assert torch.equal(alone, model.layers[0].in_proj_weight.grad)


def test_copies_and_files_of_a_model_are_not_watched():
    model, stream = Model(), io.BytesIO()
    with mhaviz.Watch(model, every=2) as watch:
        model(X)
        other = copy.deepcopy(model)
        torch.save(model, stream)
        for one in (other, torch.load(io.BytesIO(stream.getvalue()), weights_only=False)):
            assert torch.equal(one(X), model(X))
    assert watch.n_passes == 3
    assert b"mhaviz" not in stream.getvalue()


def test_modules_that_a_script_calls_have_passes_of_their_own():
    letter, attend, model = nn.Embedding(9, 8), nn.MultiheadAttention(8, 2, batch_first=True), Model(1)
    with mhaviz.Watch(every=3) as watch:
        for _ in range(5):
            x = letter(torch.arange(6)[None])
            attend(x, x, x)
            model(x)
            model(x)
    assert passes_of(watch) == {"MultiheadAttention": [0, 3], "layers.0": [0, 3, 6, 9]}


def test_a_model_that_comes_later_is_found():
    """When a pass of another is sampled, or when an optimizer trains it; its passes are numbered from there."""
    first, second, third = Model(1), Model(2), Model(1)
    optimizer = torch.optim.SGD(third.parameters(), 1e-6)
    with mhaviz.Watch(every=3) as watch:
        for step in range(8):
            first(X)
            if step > 3:
                second(X)
        for _ in range(10):
            third(X).sum().backward()
            optimizer.step()
    assert list(passes_of(watch).values()) == [[0, 3, 6], [6], [6], [9, 12]]


def test_a_pass_that_fails_ends_its_observation():
    class Fails(Model):
        def forward(self, x):
            super().forward(x)
            raise self.error

    model = Fails()
    for model.error in (ValueError("wrong"), KeyboardInterrupt()):
        with mhaviz.Watch(model, every=2) as watch:
            for _ in range(3):
                with pytest.raises(type(model.error)):
                    model(X)
        assert watch.n_passes == 3
        assert _len_torch_function_stack() == 0
        assert not hooks._global_forward_pre_hooks


def test_a_module_within_itself_is_one_pass():
    class Again(Model):
        def forward(self, x, depth=2):
            x = super().forward(x)
            return self(x, depth - 1) if depth else x

    model = Again(1)
    with mhaviz.Watch(model, every=2) as watch:
        for _ in range(3):
            model(X)
    assert watch.n_passes == 3
    assert {name: of for name, of in passes_of(watch).items() if "#" not in name} == {"layers.0": [0, 2]}


def test_checkpoints_are_not_computed_again_for_us():
    from torch.utils.checkpoint import checkpoint

    class Saves(Model):
        def forward(self, x):
            return checkpoint(super().forward, x, use_reentrant=False)

    model = Saves()
    with mhaviz.Watch(every=1) as watch:
        for _ in range(2):
            model(X.clone().requires_grad_()).sum().backward()
    assert set(map(tuple, passes_of(watch).values())) == {(0, 1)}


def test_a_layer_of_pytorch_keeps_its_fast_path():
    """Which it leaves where it has hooks, with other digits."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    with torch.no_grad():
        alone = layer(X)
        with mhaviz.Watch(layer, every=3) as watch:
            found = [layer(X) for _ in range(5)]
            assert not layer._forward_pre_hooks
    assert all(torch.equal(alone, x) for x in found)
    assert passes_of(watch) == {"self_attn": [0, 3]}


def test_no_tensor_is_kept():
    made = []

    class Notes(Model):
        def forward(self, x):
            x = super().forward(x)
            made.append(weakref.ref(x))
            return x

    model = Notes()
    with mhaviz.Watch(model, every=1):
        for _ in range(5):
            model(X)
    gc.collect()
    assert [x() for x in made] == [None] * 5


@pytest.mark.slow  # 10 s: PyTorch's compiler is imported
def test_what_is_compiled_is_compiled_once_and_runs_as_written_in_samples():
    model = Model()
    model.seen = None
    model.forward = lambda x: model.layers[1](*[model.layers[0](x, x, x)[0]] * 3)[0]
    for given in (None, model):
        compiled = torch.compile(model, backend="aot_eager")
        with mhaviz.Watch(given, every=2) as watch:
            for _ in range(5):
                compiled(X)
        assert passes_of(watch) == {"layers.0": [0, 2, 4], "layers.1": [0, 2, 4]}
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2
    assert not torch._dynamo.utils.counters["graph_break"]

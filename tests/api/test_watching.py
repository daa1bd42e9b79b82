"""``mhaviz.Watch``: numbers of heads over a training, and the pass in which one collapses."""

import json
import runpy
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mhaviz
from mhaviz.pages.registry import page_of

N_HEADS, D_MODEL = 4, 16


class Attention(nn.Module):
    """Causal attention of N_HEADS heads by a fused kernel, with a factor for each head's queries."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(D_MODEL, 3 * D_MODEL)
        self.register_buffer("factor", torch.ones(N_HEADS))

    def heads(self, x):
        return [y.unflatten(-1, (N_HEADS, -1)).transpose(1, 2) for y in self.project(x).chunk(3, dim=-1)]

    def forward(self, x):
        q, k, v = self.heads(x)
        q = q * self.factor[:, None, None]
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Attention() for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model()


def text():
    return torch.randn(2, 6, D_MODEL)


def expected(attention, x):
    """Largest score, entropy and share of one-hot rows of each head, from the weights of its module in float64."""
    weight, bias = (p.detach().double().numpy() for p in (attention.project.weight, attention.project.bias))
    q, k, _ = np.split(x.double().numpy() @ weight.T + bias, 3, axis=-1)
    q, k = (y.reshape(2, 6, N_HEADS, -1).transpose(0, 2, 1, 3) for y in (q, k))
    S = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) * attention.factor.numpy()[:, None, None]
    S = np.where(np.tri(6, dtype=bool), S, -np.inf)
    A = np.exp(S - S.max(-1, keepdims=True))
    A = (A / A.sum(-1, keepdims=True))[:, :, 1:]  # the first row sees a single key
    entropy = -np.where(A > 0, A * np.log(np.where(A > 0, A, 1)), 0).sum(-1)
    uniform = np.log(np.arange(2, 7)).mean()
    return (
        S.max((0, 2, 3)),
        entropy.mean((0, 2)),
        uniform,
        (A[..., 0].mean(-1) > 0.3).mean(0),
        (A.max(-1) > 0.99).mean((0, 2)),
    )


def test_numbers_of_a_training_are_those_of_its_weights_in_float64(model):
    """Also where q and k grow, and while it runs."""
    optimizer, wanted = torch.optim.SGD(model.parameters(), 0.5), []
    with mhaviz.Watch(model, every=3) as watch:
        for step in range(8):
            x = text()
            if step % 3 == 0:
                wanted.append(expected(model.blocks[0], x))
            model(x).square().mean().backward()
            optimizer.step()
            assert watch.health.layers[0].passes.tolist() == list(range(0, step + 1, 3))
    layer = watch.health.layers[0]
    names = ("largest", "entropy", "uniform", "sink", "one_hot")
    for name, values in zip(names, zip(*wanted, strict=True), strict=True):
        found = getattr(layer, name)
        values = np.broadcast_to(np.array(values).reshape(3, -1), found.shape)
        np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-5, err_msg=name)
    assert (layer.kind, layer.layer, layer.module) == ("masked", 0, "blocks.0")
    assert layer.heads == (0, 1, 2, 3)
    assert watch.health.passes == 8


def diverge(model, watch, n_passes=12):
    """From pass 4 on, head 3 of layer 1 has queries that are five times as long in each pass."""
    with watch:
        for step in range(n_passes):
            if step >= 4:
                model.blocks[1].factor[3] *= 5
            model(text())
    return watch.health


def test_the_head_that_collapses_is_said_when_it_happens(model):
    said = []
    health = diverge(model, mhaviz.Watch(model, every=2, on_notice=said.append))
    by_sign = {one.sign: one for one in health.collapses}
    assert {(one.kind, one.layer, one.head) for one in health.collapses} == {("masked", 1, 3)}
    layer = health.layers[1]
    share = layer.entropy[:, 3] / layer.uniform[:, 3]
    first = int(layer.passes[np.flatnonzero((share < 0.02) & (layer.largest[:, 3] > 50))[0]])
    assert by_sign["entropy"].pass_number == first
    assert by_sign["entropy"].value == layer.entropy[layer.passes == first, 3]
    large = int(layer.passes[np.flatnonzero(layer.largest[:, 3] > 100)[0]])
    assert by_sign["scores"].pass_number == large
    entropy, scores = (next(line for line in said if word in line) for word in ("collapsed", "grow"))
    assert entropy.startswith(f"pass {first + 2}: L1 H3 has collapsed since pass {first}: entropy ")
    assert scores.startswith(f"pass {large}: scores of L1 H3 grow without bound: the largest is ")
    assert len(said) == 2
    assert page_of(health).title.startswith(f"L1 H3 collapses at pass {first}: entropy ")


def test_scores_that_are_no_numbers_are_said_and_end_nothing(model):
    said = []
    with mhaviz.Watch(model, every=1, on_notice=said.append) as watch:
        model(text())
        model.blocks[0].factor[1] = torch.nan
        for _ in range(2):
            model(text())
    assert said == ["pass 1: weights or scores of L0 H1 are not finite"]
    assert watch.health.passes == 3
    watch.health.plot()


def test_a_collapse_goes_to_standard_error_by_default(model, capsys):
    diverge(model, mhaviz.Watch(model, every=2))
    said = capsys.readouterr()
    assert said.out == ""
    assert "mhaviz: pass " in said.err
    assert "L1 H3 has collapsed" in said.err


def test_what_a_program_does_with_each_sample(model):
    samples = {}
    with mhaviz.Watch(model, every=2, on_sample=lambda number, scalars: samples.update({number: scalars})) as watch:
        for _ in range(5):
            model(text())
    layers = watch.health.layers
    assert list(samples) == [0, 2, 4]
    assert samples[4]["attention/largest_score/highest"] == max(layer.largest[2].max() for layer in layers)
    assert samples[4]["attention/entropy/lowest"] == min(layer.entropy[2].min() for layer in layers)
    assert samples[4]["attention/collapsed_heads"] == 0


def test_what_fails_with_a_sample_is_said_once_and_ends_nothing(model):
    said = []

    def fails(number, scalars):
        raise OSError("disk full\nand more")

    with mhaviz.Watch(model, every=1, on_sample=fails, on_notice=said.append) as watch:
        for _ in range(3):
            model(text())
    assert said == ["`on_sample`: OSError: disk full and more; the training goes on"]
    assert watch.health.passes == 3


def test_a_notice_that_fails_ends_nothing(model):
    def fails(line):
        raise ValueError

    assert diverge(model, mhaviz.Watch(model, every=2, on_notice=fails)).collapses


def test_evaluation_is_told_from_training(model):
    with mhaviz.Watch(model, every=1) as watch:
        for is_training in (True, False, True):
            model.train(is_training)(text())
    assert watch.health.layers[0].training.tolist() == [True, False, True]


def test_some_attentions_are_chosen(model):
    with mhaviz.Watch(model, every=1, module="*.1") as watch:
        model(text())
    assert [layer.module for layer in watch.health.layers] == ["blocks.1"]


def test_a_name_that_no_attention_has(model):
    with mhaviz.Watch(model, every=2, module=["nope", "head*"]) as watch:
        for _ in range(3):
            model(text())
    with pytest.raises(mhaviz.MhavizError) as caught:
        watch.health  # noqa: B018
    assert str(caught.value) == (
        "watched 2 passes of 3, and saw 2 attentions (blocks.0, blocks.1), and none that was asked for: `module`: "
        "expected a pattern of these names, got nope, head*"
    )


def test_batches_of_other_lengths_and_padding():
    """Rows of padding do not count, and uniform weights are those of the keys that are seen."""
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    with mhaviz.Watch(layer, every=1) as watch:
        for length in (4, 7):
            x = torch.randn(2, length, 8)
            padding = torch.arange(length) >= torch.tensor([[length], [3]])
            layer(x, x, x, key_padding_mask=padding)
    for row, length in zip(watch.health.layers[0].uniform, (4, 7), strict=True):
        mean = (length * np.log(length) + 3 * np.log(3)) / (length + 3)
        np.testing.assert_allclose(row, [mean, mean], rtol=1e-6)


def test_a_watch_that_has_seen_nothing(model):
    watch = mhaviz.Watch(model)
    with pytest.raises(mhaviz.MhavizError, match="no module was called"):
        watch.health  # noqa: B018
    linear = nn.Linear(2, 2)
    with mhaviz.Watch(linear, every=2) as watch:
        for _ in range(3):
            linear(torch.ones(1, 2))
    with pytest.raises(mhaviz.MhavizError, match="watched 2 passes of 3, and saw no attention"):
        watch.health  # noqa: B018


@pytest.mark.parametrize("every", [0, -1, 1.5, "2", True])
def test_passes_to_sample_are_a_number(every):
    with pytest.raises(mhaviz.ArgumentError, match="`every`: expected a number of passes from 1 on"):
        mhaviz.Watch(every=every)


def test_a_model_is_a_module():
    with pytest.raises(mhaviz.ArgumentError, match=r"expected a torch.nn.Module to watch, or nothing, got str"):
        mhaviz.Watch("model.pt")


def test_files_have_all_numbers(model, tmp_path):
    health = diverge(model, mhaviz.Watch(model, every=2, on_notice=lambda line: None))
    frame = health.to_dataframe()
    health.save(tmp_path / "h.csv", tmp_path / "h.json", tmp_path / "h.png")
    pandas = pytest.importorskip("pandas")
    read = pandas.read_csv(tmp_path / "h.csv")
    assert len(frame) == len(read) == 6 * 2 * N_HEADS
    np.testing.assert_allclose(read.entropy, frame.entropy)
    entropy = next(one for one in health.collapses if one.sign == "entropy")
    told = read[read.collapsed.fillna("").str.contains("entropy")]
    assert told[["pass", "layer", "head"]].to_numpy().tolist() == [[entropy.pass_number, 1, 3]]
    document = json.loads((tmp_path / "h.json").read_text())
    assert document["collapses"][0]["head"] == 3
    assert np.array(document["layers"][1]["entropy"]).shape == (6, N_HEADS)
    with pytest.raises(mhaviz.ArgumentError, match=r"ending in \.png, \.svg, \.pdf, \.json, \.csv"):
        health.save("h.html")


@pytest.fixture
def trainer_of(tmp_path):
    """Makes a small Trainer of transformers with these callbacks."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    def made(*callbacks):
        sizes = {"vocab_size": 9, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2}
        ids = torch.randint(9, (6, 8))
        arguments = transformers.TrainingArguments(
            str(tmp_path), per_device_train_batch_size=2, max_steps=5, report_to="none", use_cpu=True,
            disable_tqdm=True, save_strategy="no",
        )  # fmt: skip
        return transformers.Trainer(
            transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)), arguments,
            train_dataset=[{"input_ids": x, "labels": x} for x in ids], callbacks=list(callbacks),
        )  # fmt: skip

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield made


def test_a_watch_of_every_pass_by_a_training_of_transformers(trainer_of):
    """Its scalars are in the log history, at the steps that they are of; a reporter that fails ends nothing."""
    transformers = pytest.importorskip("transformers")
    from mhaviz.callbacks import TrainerWatch

    class Fails(transformers.TrainerCallback):
        tb_writer = None

        def on_log(self, args, state, control, logs=None, **others):
            if any(name.startswith("attention/") for name in logs):
                raise RuntimeError("no disk")

    said = []
    watch = TrainerWatch(every=2, on_notice=said.append)
    trainer = trainer_of(watch, Fails())
    trainer.train()
    logged = {entry["step"]: entry for entry in trainer.state.log_history if "attention/entropy/lowest" in entry}
    assert list(logged) == [1, 3, 5]
    assert watch.health.layers[0].passes.tolist() == [0, 2, 4]
    np.testing.assert_allclose(
        [entry["attention/entropy/lowest"] for entry in logged.values()], watch.health.layers[0].entropy.min(axis=1)
    )
    assert said == ["logging: RuntimeError: no disk; the training goes on"]
    assert not trainer.model._forward_pre_hooks


def hooks_of(model):
    """The hooks that PyTorch would call of a model, of any module, and of any optimizer."""
    of_all = (vars(torch.nn.modules.module)[f"_global_forward_{kind}hooks"] for kind in ("", "pre_"))
    return [*model._forward_pre_hooks, *model._forward_hooks, *(hook for hooks in of_all for hook in hooks)]


def test_a_training_of_transformers_that_fails_can_be_left(trainer_of):
    """A Trainer does not tell its callbacks."""
    transformers = pytest.importorskip("transformers")
    from mhaviz.callbacks import TrainerWatch

    class Breaks(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **others):
            if state.global_step == 3:
                raise RuntimeError("no disk")

    before = hooks_of(nn.Identity())
    watch = TrainerWatch(every=2)
    watch.leave()
    trainer = trainer_of(watch, Breaks())
    with pytest.raises(RuntimeError, match="no disk"):
        trainer.train()
    assert len(hooks_of(trainer.model)) > len(before)
    watch.leave()
    watch.leave()
    assert hooks_of(trainer.model) == before
    trainer.model(torch.zeros(1, 8, dtype=torch.long))
    assert watch.health.passes == 3
    assert watch.health.layers[0].passes.tolist() == [0, 2]


class Logger:
    """A logger of Lightning that is given numbers and pictures, or fails."""

    def __init__(self, error=None, **experiment):
        self.error, self.metrics, self.experiment = error, [], SimpleNamespace(**experiment)

    def log_metrics(self, metrics, step):
        if self.error:
            raise self.error
        self.metrics.append((step, metrics))


def test_a_training_by_lightning_gives_its_loggers_numbers_and_pictures(model, monkeypatch):
    """As the callback is called by it, with loggers of which one fails."""
    monkeypatch.setitem(sys.modules, "lightning.pytorch", SimpleNamespace(Callback=object))
    monkeypatch.delitem(sys.modules, "mhaviz.callbacks.for_lightning", raising=False)
    from mhaviz.callbacks import LightningWatch

    said, figures, images = [], [], []
    loggers = [
        Logger(OSError("disk full")),
        Logger(add_figure=lambda tag, figure, global_step: figures.append((tag, figure, global_step))),
        Logger(),
    ]
    loggers[2].log_image = lambda key, images_, step: images.append((key, images_[0].size, step))
    trainer = SimpleNamespace(loggers=loggers, global_step=0, is_global_zero=True)
    watch = LightningWatch(every=2, on_notice=said.append)
    watch.on_train_start(trainer, nn.Identity())
    for trainer.global_step in range(1, 24):
        model(text())
        watch.on_train_batch_end(trainer, nn.Identity(), None, None, 0)
    watch.on_train_end(trainer, nn.Identity())
    assert [step for step, _ in loggers[1].metrics] == list(range(1, 24, 2))
    assert loggers[1].metrics == loggers[2].metrics
    assert [(tag, step) for tag, _, step in figures] == [("attention/health", 19), ("attention/health", 23)]
    assert [one[0] for one in images] == ["attention/health"] * 2
    assert min(images[0][1]) > 500
    assert said == ["logging: OSError: disk full; the training goes on"]
    assert watch.health.layers[0].module == "blocks.0"
    assert not model._forward_pre_hooks


@pytest.mark.slow  # 10 s
@pytest.mark.parametrize(("sample", "collapses"), [("diverge", True), ("reverse", False)])
def test_heads_collapse_in_a_training_that_diverges_and_not_where_they_become_sharp(sample, collapses, capsys):
    """In the first all heads of the first layer do, in the second entropy falls to a fiftieth of that of uniform."""
    path = Path(__file__).parent.parent.parent / "samples" / f"{sample}.py"
    threads = torch.get_num_threads()
    try:
        with mhaviz.Watch(every=10, on_notice=lambda line: None) as watch:
            runpy.run_path(str(path), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
    health = watch.health
    signs = {(one.layer, one.head) for one in health.collapses if one.sign == "entropy"}
    assert signs >= {(0, head) for head in range(4)} if collapses else not health.collapses
    assert (health.layers[0].entropy[-1] / health.layers[0].uniform[-1]).min() < 0.03

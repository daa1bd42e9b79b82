import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as nnf
from rounding import rounding

from mhaviz import devices
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.layer.tokens import Vocabulary
from mhaviz.training import trainer
from mhaviz.training.checkpoint import Checkpoint, Plan
from mhaviz.training.loading import load_checkpoint
from mhaviz.training.trainer import Trainer, _Order

from .conftest import SIZES

CLOSE = rounding()

CPU = torch.device("cpu")


def weights(checkpoint):
    return torch.cat([p.detach().flatten() for p in checkpoint.model.parameters()])


@pytest.mark.slow
def test_it_learns_what_it_has_not_seen(train, corpus):
    checkpoint = train(corpus, steps=300, learning_rate=1e-2)
    assert checkpoint.milestones[-1].score > 0.2  # a guess among 49 translations would be right one time in 49
    assert checkpoint.milestones[-1].loss < 0.5 < 2 < checkpoint.milestones[0].loss


def test_training_is_repeatable_and_depends_on_the_seed(train, corpus):
    one, again, other = (weights(train(corpus, seed=seed)) for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_other_random_numbers_do_not_matter(train, corpus):
    one = weights(train(corpus))
    torch.manual_seed(99)
    before = torch.get_rng_state()
    assert torch.equal(one, weights(train(corpus)))
    assert torch.equal(before, torch.get_rng_state())


def test_resumed_is_as_if_it_had_never_stopped(train, corpus, tmp_path):
    whole = train(corpus, steps=12)
    train(corpus, steps=12, until=5).save(tmp_path / "c.safetensors")
    resumed = load_checkpoint(str(tmp_path / "c.safetensors"))
    assert resumed.step == 5
    list(Trainer(resumed, corpus, CPU).steps())
    assert torch.equal(weights(whole), weights(resumed))
    assert resumed.milestones == whole.milestones
    assert resumed.optimizer.keys() == whole.optimizer.keys()


def test_the_first_step_is_adams(corpus):
    """θ − α·sign(gradient) in the limit, with the gradient of a loss that PyTorch has computed word by word."""
    sizes = SIZES.__class__(SIZES.d_model, SIZES.n_heads, SIZES.d_ff, dropout=0.0)
    checkpoint = Checkpoint.untrained(corpus, sizes, Plan(steps=1, batch_size=100))
    model = checkpoint.model
    losses = []
    for pair in corpus.training:
        source = torch.tensor([checkpoint.source_vocabulary.ids(pair.source)])
        target = checkpoint.target_vocabulary.ids(["<start>", *pair.target, "<end>"])
        memory, _ = model.encode(source)
        logits = model.decode(torch.tensor([target[:-1]]), memory).logits[0]
        losses += [-nnf.log_softmax(row, dim=-1)[word] for row, word in zip(logits, target[1:], strict=True)]
    loss = torch.stack(losses).mean()
    loss.backward()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    (progress,) = Trainer(checkpoint, corpus, CPU).steps()
    assert progress.loss == pytest.approx(loss.item(), rel=CLOSE)
    for name, parameter in model.named_parameters():
        large = gradients[name].abs() > 1e-4
        step = (before[name] - parameter)[large]
        expected = checkpoint.plan.learning_rate * gradients[name].sign()[large]
        torch.testing.assert_close(step, expected, rtol=0.02, atol=1e-6, msg=name)


def test_one_thread_computes(corpus, monkeypatch):
    before, seen = torch.get_num_threads(), []
    held_out = trainer.held_out_score
    monkeypatch.setattr(trainer, "held_out_score", lambda *a: seen.append(torch.get_num_threads()) or held_out(*a))
    list(Trainer(Checkpoint.untrained(corpus, SIZES, Plan(steps=1)), corpus, CPU).steps())
    assert seen == [1]
    assert torch.get_num_threads() == before


def test_every_sentence_comes_once_an_epoch():
    order = _Order(10, 3, seed=0)
    first, second = ([order.at(step) for step in steps] for steps in ((1, 2, 3, 4), (5, 6, 7, 8)))
    for epoch in (first, second):
        assert list(map(len, epoch)) == [3, 3, 3, 1]
        assert sorted(i for batch in epoch for i in batch) == list(range(10))
    assert first != second
    assert _Order(10, 3, seed=0).at(6) == second[1]


def test_a_batch_is_no_larger_than_the_corpus():
    assert sorted(_Order(3, 64, seed=0).at(2)) == [0, 1, 2]


def test_a_loss_that_is_no_number_stops(corpus):
    checkpoint = Checkpoint.untrained(corpus, SIZES, Plan(steps=5, batch_size=8, learning_rate=1e30))
    with pytest.raises(MhavizError, match=r"the loss is no longer a number at step \d: .* smaller than 1e\+30"):
        list(Trainer(checkpoint, corpus, CPU).steps())


def test_weights_that_are_no_numbers_are_no_milestone(corpus):
    """The loss of the first step is fine, and is taken before the step that spoils the weights."""
    checkpoint = Checkpoint.untrained(corpus, SIZES, Plan(steps=2, batch_size=8, learning_rate=1e38))
    with pytest.raises(MhavizError, match="at step 1: training has diverged"):
        list(Trainer(checkpoint, corpus, CPU).steps())
    assert not checkpoint.milestones


def test_each_step_drops_something_else(corpus):
    """With a learning rate that changes nothing, two steps on the same sentences differ by their dropout alone."""
    plan = Plan(steps=10, batch_size=100, learning_rate=1e-30)
    trainer = Trainer(Checkpoint.untrained(corpus, SIZES, plan), corpus, CPU)
    losses = [round(trainer._take(step), 4) for step in range(1, 5)]
    assert len(set(losses)) == 4
    again = Trainer(Checkpoint.untrained(corpus, SIZES, plan), corpus, CPU)
    assert round(again._take(3), 4) == losses[2]


def test_a_training_that_does_not_fit_is_refused_before_it_starts(corpus, monkeypatch):
    monkeypatch.setattr(devices, "free_memory", lambda device: 100_000)
    with pytest.raises(MhavizError, match="the training needs about"):
        Checkpoint.untrained(corpus, SIZES, Plan())


def test_the_learning_rate_goes_up_and_down(corpus):
    trainer = Trainer(Checkpoint.untrained(corpus, SIZES, Plan(steps=100, learning_rate=1.0)), corpus, CPU)
    rates = [trainer._learning_rate(step) for step in range(1, 101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == 1
    assert rates[-1] == pytest.approx(1 / 91)
    assert Trainer(Checkpoint.untrained(corpus, SIZES, Plan(steps=1)), corpus, CPU)._learning_rate(1) == 3e-3


def test_milestones(train, corpus, monkeypatch):
    checkpoint = train(corpus, steps=50)
    assert [m.step for m in checkpoint.milestones] == [*range(3, 49, 3), 50]
    assert all(math.isfinite(m.loss) and 0 <= m.score <= 1 for m in checkpoint.milestones)
    assert [m.step for m in train(corpus, steps=3).milestones] == [1, 2, 3]
    assert trainer.MOST_STEPS_BETWEEN == 250
    monkeypatch.setattr(trainer, "MOST_STEPS_BETWEEN", 20)
    assert [m.step for m in train(corpus, steps=10**6, until=40).milestones] == [20, 40]


def test_what_cannot_be_resumed(train, corpus, tmp_path):
    done = train(corpus)
    with pytest.raises(ArgumentError, match="more steps than the 4 that this checkpoint has taken, got 4"):
        Trainer(done, corpus, CPU)
    half = train(corpus, until=2)
    with pytest.raises(ArgumentError, match="whose sentences differ from those of a test now"):
        Trainer(half, replace(corpus, held_out=corpus.held_out[1:]), CPU)
    for side in ("source", "target"):
        words = getattr(half, f"{side}_vocabulary").words
        forged = replace(half, **{f"{side}_vocabulary": Vocabulary([(*words[:-1], "forged")])})
        with pytest.raises(MhavizError, match=f"words of a test as the checkpoint's {side} words, got others"):
            Trainer(forged, corpus, CPU)
    half.optimizer = {}
    half.save(tmp_path / "c.safetensors")
    with pytest.raises(ArgumentError, match="holds no state of its optimizer"):
        Trainer(load_checkpoint(str(tmp_path / "c.safetensors")), corpus, CPU)

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from mhaviz.errors import MhavizError
from mhaviz.training.checkpoint import Checkpoint, Plan, Sizes
from mhaviz.training.corpus import Corpus, Pair
from mhaviz.training.loading import load_checkpoint
from mhaviz.views.data import safetensors_bytes

SAVED = []
"""A checkpoint's file, from which each test has its own."""


@pytest.fixture
def saved(train, corpus, tmp_path):
    path = tmp_path / "c.safetensors"
    if not SAVED:
        train(corpus).save(path)
        SAVED.append(path.read_bytes())
    path.write_bytes(SAVED[0])
    return path


def rewritten(path, change):
    """The same file with other metadata and tensors."""
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["mhaviz"])
    tensors = load_file(path)
    change(about, tensors)
    save_file(tensors, path, {"mhaviz": json.dumps(about)})


def test_what_is_saved_comes_back(train, corpus, tmp_path):
    checkpoint = train(corpus)
    checkpoint.save(tmp_path / "c.safetensors")
    loaded = load_checkpoint(str(tmp_path / "c.safetensors"))
    for name in ("sizes", "plan", "corpus", "fingerprint", "sentences", "milestones", "step"):
        assert getattr(loaded, name) == getattr(checkpoint, name), name
    assert loaded.source_vocabulary.words == checkpoint.source_vocabulary.words
    assert loaded.target_vocabulary.words[:2] == ("<start>", "<end>")
    for name, tensor in checkpoint.model.state_dict().items():
        assert torch.equal(tensor, loaded.model.state_dict()[name]), name
    for name, tensor in checkpoint.optimizer.items():
        assert torch.equal(tensor, loaded.optimizer[name]), name
    assert not loaded.model.training


def test_the_same_training_writes_the_same_bytes(train, corpus, tmp_path):
    for name in ("a", "b"):
        train(corpus).save(tmp_path / f"{name}.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


@given(share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_noticed(saved, share):
    content = saved.read_bytes()
    cut = saved.with_name("cut.safetensors")
    cut.write_bytes(content[: int(share * len(content))])
    with pytest.raises(MhavizError, match=r"cannot read .*cut\.safetensors: "):
        load_checkpoint(str(cut))


def test_another_format(saved):
    rewritten(saved, lambda about, _: about.update(checkpoint=2, mhaviz="9.0"))
    with pytest.raises(MhavizError, match=r"of format 2, written by mhaviz 9\.0; this is mhaviz .* reads format 1"):
        load_checkpoint(str(saved))


def test_attention_maps_are_no_checkpoint(random_attention, tmp_path):
    path = tmp_path / "maps.safetensors"
    path.write_bytes(safetensors_bytes(random_attention()))
    with pytest.raises(MhavizError, match="is not a checkpoint of mhaviz"):
        load_checkpoint(str(path))


@pytest.mark.parametrize(
    "metadata", [None, {"format": "pt"}, {"mhaviz": "{"}, {"mhaviz": "[]"}, {"mhaviz": "[" * 10**5}]
)
def test_the_tensors_of_others_are_no_checkpoint(tmp_path, metadata):
    save_file({"weight": torch.zeros(2)}, tmp_path / "other.safetensors", metadata)
    with pytest.raises(MhavizError, match="is not a checkpoint of mhaviz"):
        load_checkpoint(str(tmp_path / "other.safetensors"))


def test_pickles_are_not_read(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (exec, ("raise SystemExit('unpickled')",))

    torch.save({"model": Bomb()}, tmp_path / "bomb.safetensors")
    with pytest.raises(MhavizError, match="header too large"):
        load_checkpoint(str(tmp_path / "bomb.safetensors"))


def resize(field, value):
    return lambda about, _: about["sizes"].update({field: value})


@pytest.mark.parametrize(
    "change",
    [
        resize("d_model", 2**20),
        resize("d_ff", 2**40),
        resize("n_heads", 3),
        resize("d_model", "wide"),
        lambda about, _: about.pop("plan"),
        lambda about, _: about.update(source_words=["a"]),
        lambda about, _: about.update(target_words=about["target_words"][2:]),
        lambda about, _: about.update(task="painting"),
        lambda about, _: about["plan"].update(steps=2.5),
        lambda about, _: about["plan"].update(batch_size=0),
        lambda about, _: about["plan"].update(seed="0"),
        lambda about, _: about["corpus"].update(sentences=[1]),
        lambda about, _: about["milestones"][0].update(loss=None),
        lambda about, _: about["milestones"][0].update(score="1"),
        lambda _, tensors: tensors.pop("adam.exp_avg.output.bias"),
        lambda _, tensors: tensors.pop("model.output.weight"),
        lambda _, tensors: tensors.update({"model.more": torch.zeros(2)}),
        lambda _, tensors: tensors.update({"model.output.weight": torch.zeros(())}),
    ],
)
def test_parts_that_do_not_fit_together(saved, change):
    """The sizes are believed only if the tensors have them: nothing large is allocated."""
    rewritten(saved, change)
    with pytest.raises(MhavizError, match="is not understood: its parts do not fit together") as caught:
        load_checkpoint(str(saved))
    assert "\n" not in str(caught.value)


def test_a_checkpoint_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MhavizError, match="cannot read nothing: No such file or directory"):
        load_checkpoint("nothing")
    with pytest.raises(MhavizError, match="Is a directory"):
        load_checkpoint(str(tmp_path))


def test_the_one_that_comes_with_mhaviz_is_small():
    checkpoint = load_checkpoint("translation")
    assert not checkpoint.optimizer
    assert checkpoint.step == checkpoint.plan.steps == Plan().steps
    parameters = sum(p.numel() for p in checkpoint.model.parameters())
    assert parameters * 4 < 1_000_000


def test_a_file_of_the_same_name_comes_first(train, corpus, tmp_path, monkeypatch):
    train(corpus).save(tmp_path / "translation")
    monkeypatch.chdir(tmp_path)
    assert load_checkpoint("translation").corpus == "a test"


def test_hostile_words_come_back(tmp_path):
    words = ("a\x1b", "b\n", "\u202e", "$x$")
    corpus = Corpus("c\x1b", (Pair(words, words),), (Pair(words[:1], words[:1]),))
    Checkpoint.untrained(corpus, Sizes(8, 2, 8), Plan()).save(tmp_path / "c.safetensors")
    assert load_checkpoint(str(tmp_path / "c.safetensors")).source_vocabulary.words == words


def test_names_of_files_that_are_hard_to_have(saved):
    with pytest.raises(MhavizError, match="File name too long"):
        load_checkpoint("x" * 5000)
    strange = saved.with_name("\udcff.safetensors")
    saved.rename(strange)
    assert load_checkpoint(str(strange)).corpus == "a test"


def test_a_model_that_does_not_fit_is_refused_before_it_is_made(corpus):
    with pytest.raises(MhavizError, match="the training needs about"):
        Checkpoint.untrained(corpus, Sizes(d_model=2**20, n_heads=1), Plan())


def test_a_model_of_another_task_is_not_understood(saved):
    rewritten(saved, lambda about, _: about.update(task="painting"))
    with pytest.raises(MhavizError, match=r"Invalid enum value 'painting' - at `\$\.task`"):
        load_checkpoint(str(saved))

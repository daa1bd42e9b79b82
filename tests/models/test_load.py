"""Which kind of model a name is of."""

import pytest

from mhaviz.errors import MhavizError
from mhaviz.models import load
from mhaviz.models.load import ModelKind, kind_of, load_model


def test_a_new_kind_is_a_row_of_the_table(monkeypatch):
    kind = ModelKind("uniform weights", lambda name, *needs, width=1: (name, width), ("width",), name="uniform")
    monkeypatch.setattr(load, "KINDS", (*load.KINDS[:-1], kind, load.KINDS[-1]))
    assert kind_of("uniform") is kind
    assert load_model("uniform", width=3) == ("uniform", 3)
    with pytest.raises(
        MhavizError, match=r"`seed` is for a layer with random weights or .*; uniform is uniform weights$"
    ):
        load_model("uniform", seed=1)
    with pytest.raises(MhavizError, match="`width` is for uniform weights; random is a layer with random weights"):
        load_model("random", width=3)


def test_a_file_comes_before_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("translation", "random"):
        (tmp_path / name).write_text("a")
    with pytest.raises(MhavizError, match="cannot tell what model translation is"):
        load_model("translation")
    with pytest.raises(MhavizError, match=r"cannot tell what model \./random is"):
        load_model("./random")
    assert kind_of("random").called == "a layer with random weights"  # the default, which nobody has named


@pytest.mark.parametrize("name", ["a" * 5000 + ".pt", "a\0b.pt"])
def test_a_name_that_no_file_can_have(name):
    with pytest.raises(MhavizError, match="No such file or directory"):
        kind_of(name)

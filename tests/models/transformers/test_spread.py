"""Models that accelerate spreads over the main memory and the disk: all numbers are those of the model in one place."""

import gc
import io
import shutil
import sys
import tempfile
from contextlib import ExitStack

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel

import mhaviz
from mhaviz.errors import MhavizError
from mhaviz.models.transformers import spread as spreading
from mhaviz.models.transformers.spread import Spread
from mhaviz.units import readable_bytes
from mhaviz.views.data import document, write_json

TEXT = "the cat sat on the mat"
LITTLE = {"cpu": 12_000}  # bytes, of which the embeddings take most: the layers lie on the disk


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary folders are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def spread(folder, **options):
    return mhaviz.load(str(folder), device_map="auto", max_memory=LITTLE, **options)


@pytest.mark.parametrize("family", ["llama", "bart", "deberta"])
def test_maps_are_those_of_one_device(model_folder, temporary, family):
    folder = model_folder(family)
    target = "the dog ran" if family == "bart" else None
    whole, attention = (model.attend(TEXT, target) for model in (mhaviz.load(str(folder)), spread(folder)))
    assert "disk" in attention.source.footnote
    assert "disk" in attention.source.details["device"]
    assert len(attention) == len(whole) > 0
    for here, there in zip(attention, whole, strict=True):
        np.testing.assert_array_equal(here.weights, there.weights)


def test_every_study_of_a_model_on_the_disk(model_folder, temporary):
    folder = model_folder("llama")
    one, other = mhaviz.load(str(folder)), spread(folder)

    def numbers(record):
        written = io.StringIO()
        write_json({key: value for key, value in document(record).items() if key != "source"}, written)
        return written.getvalue()

    studies = [
        lambda m: m.explain(TEXT, 1),
        lambda m: m.matrices(TEXT),
        lambda m: m.masks([TEXT, "a dog"]),
        lambda m: m.embeddings(TEXT),
        lambda m: m.trace_shapes(TEXT),
        lambda m: m.compare_scaling(TEXT),
        lambda m: m.head_statistics([TEXT, "a dog ran"]),
        lambda m: m.attend(TEXT, show="rollout"),
        lambda m: m.attend(TEXT, show="norms"),
        lambda m: m.attend(TEXT, generate=2, verify=True),
    ]
    for study in studies:
        assert numbers(study(other)) == numbers(study(one))


def test_a_model_whose_layers_read_of_others_is_told_to_stay_off_the_disk(model_folder, temporary, tmp_path):
    folder = shutil.copytree(model_folder("deberta"), tmp_path / "copy")
    config = AutoConfig.from_pretrained(folder, relative_attention=True, pos_att_type=["c2p", "p2c"])
    AutoModel.from_config(config).save_pretrained(folder)
    assert mhaviz.load(str(folder)).attend(TEXT)
    with pytest.raises(MhavizError, match=r"; some models cannot run from the disk; .* `max_memory`$"):
        spread(folder).attend(TEXT)


def test_the_temporary_folder_goes_with_the_model(model_folder, temporary):
    loaded = spread(model_folder("llama"))
    assert len(list(temporary.iterdir())) == 1
    del loaded
    gc.collect()
    assert not list(temporary.iterdir())


def test_a_model_in_memory_may_be_spread(model_folder, temporary):
    from transformers import AutoModel, AutoTokenizer

    folder = model_folder("llama")
    offloaded = ExitStack()
    model = AutoModel.from_pretrained(folder, **Spread("auto", LITTLE).options(offloaded))
    assert model.device.type == "meta" or next(model.layers.parameters()).is_meta
    attention = mhaviz.load(model, AutoTokenizer.from_pretrained(folder)).attend(TEXT)
    np.testing.assert_array_equal(attention[1].weights, mhaviz.load(str(folder)).attend(TEXT)[1].weights)
    offloaded.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"device_map": "anywhere"}, r"'sequential' but found any"),
        ({"max_memory": "cpu=1GiB", "device": "cpu"}, "`device_map` chooses the devices itself; leave out `device`"),
        ({"device_map": "auto", "device": "cpu"}, "`device_map` chooses the devices itself; leave out `device`"),
        ({"device_map": "auto", "max_memory": "cpu"}, "expected bytes for each device, such as cpu=2GiB"),
        ({"device_map": "auto", "max_memory": "cpu=lots"}, "`size` lots is not in a valid format"),
        ({"device_map": "auto", "max_memory": "gpu=1GiB"}, "gpu is not recognized"),
    ],
)
def test_what_cannot_be_asked_for(model_folder, options, said):
    with pytest.raises(MhavizError, match=said):
        mhaviz.load(str(model_folder("llama")), **options)


def test_memory_is_text_or_numbers():
    assert Spread.of("auto", "cpu=2GiB, 0=10GB").most == {"cpu": 2**31, 0: 10**10}
    assert Spread.of("auto", {"cpu": "2GiB", 0: 10**10}).most == {"cpu": 2**31, 0: 10**10}


@pytest.mark.parametrize("most", [None, LITTLE])
def test_accelerate_is_needed(model_folder, monkeypatch, most):
    monkeypatch.setattr("transformers.integrations.accelerate.is_accelerate_available", lambda: False)
    monkeypatch.setitem(sys.modules, "accelerate.utils", None)
    with pytest.raises(MhavizError, match="accelerate"):
        mhaviz.load(str(model_folder("llama")), device_map="auto", max_memory=most)


def parameters_of(folder):
    from safetensors.torch import load_file

    return sum(x.numel() for x in load_file(folder / "model.safetensors").values())


@pytest.mark.parametrize(("dtype", "size"), [("auto", 4), ("bfloat16", 2)])
def test_the_memory_that_a_model_needs_is_told_before_it_is_loaded(model_folder, monkeypatch, dtype, size):
    folder = model_folder("bert")
    needed = size * parameters_of(folder)
    notices = []
    monkeypatch.setattr(spreading, "_LARGE", needed)
    monkeypatch.setattr(spreading, "free_memory", lambda device: 3 * 2**30)
    mhaviz.load(str(folder), dtype=dtype, on_notice=notices.append)
    assert notices == [f"{folder} needs about {readable_bytes(needed)} of memory; free: 3.0 GiB on cpu"]
    monkeypatch.setattr(spreading, "_LARGE", needed + 1)
    mhaviz.load(str(folder), dtype=dtype, on_notice=notices.append)
    assert len(notices) == 1


def test_a_model_that_does_not_fit_names_what_would(model_folder, monkeypatch):
    folder = model_folder("bert")
    monkeypatch.setattr(spreading, "free_memory", lambda device: 4 * parameters_of(folder) - 1)
    with pytest.raises(
        MhavizError,
        match=r"memory on cpu, where .* are free; spread it .* by `device_map`, or take a smaller `dtype`",
    ):
        mhaviz.load(str(folder))
    mhaviz.load(str(folder), dtype="bfloat16")
    monkeypatch.setattr(spreading, "free_memory", lambda device: 10)
    with pytest.raises(MhavizError, match="spread it over all devices and the disk"):
        mhaviz.load(str(folder), dtype="bfloat16")
    spread(folder)


def test_each_device_is_named(monkeypatch):
    monkeypatch.setattr(spreading, "free_memory", lambda device: 2**30 if device.type == "cuda" else 2**33)
    there = {0: 2**30, 1: 2**30, "cpu": 2**34}
    monkeypatch.setattr("accelerate.utils.get_max_memory", lambda most=None: most or there)
    notices = []
    spreading.require_fit("it", 2**34, torch.device("cpu"), Spread("auto", {0: 2**20, "cpu": 2**40}), notices.append)
    assert notices == ["it needs about 16.0 GiB of memory; free: 1.0 MiB on cuda:0, 8.0 GiB on cpu, and the disk"]


def test_the_command_line_spreads_and_names_its_options(mhaviz, model_folder, temporary):
    asked = ("heatmap", TEXT, "--model", str(model_folder("llama")), "--layer", "0")
    done = mhaviz(*asked, "--device", "cpu=12KB")
    assert (done.status, done.err) == (0, "")
    assert "float32, disk" in done.out
    failed = mhaviz(*asked, "--device", "cpu=lots")
    assert failed.status == 2
    assert "--device: expected bytes for each device, such as cpu=2GiB,0=10GiB, where 0 is cuda:0, got" in failed.err
    assert mhaviz("heatmap", TEXT, "--device", "spread").status == 2

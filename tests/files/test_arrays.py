"""Arrays in files, as they are known before their numbers are read, and the numbers."""

import os
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mhaviz.errors import MhavizError
from mhaviz.files import saved_array
from mhaviz.files.arrays import read_arrays, read_named_arrays
from mhaviz.files.safetensors_files import read_safetensors

TENSOR = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture(params=["x.safetensors", "x.pt", "x.pth", "x.bin", "x.ckpt"])
def path(request, tmp_path):
    return tmp_path / request.param


def save(tensors, path):
    save_file(tensors, path) if path.suffix == ".safetensors" else torch.save(tensors, path)


FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_of_any_float(path, dtype):
    tensors = {"first": torch.zeros(3, dtype=torch.uint8), "w": TENSOR.to(dtype), "scalar": torch.tensor(1.5).to(dtype)}
    save(tensors, path)
    arrays = read_named_arrays(path)
    assert (arrays["w"].name, arrays["w"].shape, arrays["w"].numbers) == ("w", (2, 3), "float")
    assert arrays["w"].dtype == str(dtype).removeprefix("torch.")
    numbers = arrays["w"].read_finite()
    assert numbers.dtype == np.float32
    np.testing.assert_array_equal(numbers, TENSOR.to(dtype).float().numpy())
    assert arrays["scalar"].read().shape == arrays["scalar"].shape == ()


def test_numbers_are_a_copy_of_the_file(path):
    save({"w": TENSOR}, path)
    (array,) = read_named_arrays(path).values()
    numbers = array.read()
    numbers[:] = 0
    np.testing.assert_array_equal(array.read(), TENSOR.numpy())
    np.save(path.with_name("x.npy"), TENSOR.numpy())
    assert read_arrays(path.with_name("x.npy"))[""].read().flags.writeable


@pytest.mark.skipif(sys.platform == "darwin", reason="names are UTF-8 there")
def test_a_name_that_is_no_utf8(path):
    """PyTorch opens none by its name."""
    odd = path.with_name(os.fsdecode(b"caf\xe9") + path.suffix)
    save({"w": TENSOR}, path)
    path.rename(odd)
    (array,) = read_named_arrays(odd).values()
    np.testing.assert_array_equal(array.read(), TENSOR.numpy())


def test_another_file_in_its_place_is_not_mistaken_for_it(path):
    save({"w": TENSOR}, path)
    (array,) = read_named_arrays(path).values()
    save({"other": torch.zeros(50)}, path.with_name(f"other{path.suffix}"))
    path.with_name(f"other{path.suffix}").replace(path)
    np.testing.assert_array_equal(array.read(), TENSOR.numpy())


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8, torch.complex64])
def test_other_types_are_named(path, dtype):
    save({"w": torch.ones(2, dtype=dtype)}, path)
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(MhavizError, match=f"{path.name}: w: expected floating-point numbers, got {name}$"):
        read_named_arrays(path)["w"].read_finite()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e300])
def test_numbers_that_are_not_finite(path, number):
    save({"w": torch.tensor([[0, 0, 1.0], [0, number, 1.0]], dtype=torch.float64)}, path)
    with pytest.raises(MhavizError, match=r"w: expected finite numbers of float32, got (nan|inf) at \[1, 1\]$"):
        read_named_arrays(path)["w"].read_finite()


def test_numbers_that_do_not_fit_into_memory(path, monkeypatch):
    save({"w": TENSOR}, path)
    monkeypatch.setattr(saved_array, "free_main_memory", lambda: 47)
    with pytest.raises(MhavizError, match=rf"{path.name}: its numbers need about 48 B of memory on cpu, where 47 B"):
        read_named_arrays(path)["w"].read_finite()


def test_metadata(tmp_path):
    save_file({"w": TENSOR}, tmp_path / "x", {"a": "b"})
    arrays, metadata = read_safetensors(tmp_path / "x")
    assert (list(arrays), metadata) == (["w"], {"a": "b"})
    save_file({"w": TENSOR}, tmp_path / "x")
    assert read_safetensors(tmp_path / "x")[1] == {}
    (tmp_path / "x.pt").write_text("hello world")
    with pytest.raises(MhavizError, match=r"x\.pt: Error while deserializing header: header too large"):
        read_safetensors(tmp_path / "x.pt")

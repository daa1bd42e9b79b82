"""Arrays of other tools."""

import io
import pickle
import warnings
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files import saved_array
from mhaviz.files.maps import About, read_maps

WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 4)).astype(np.float32)  # 2 heads, 4 × 3


def save(path, array, name="w"):
    """In the format of the suffix."""
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez_compressed(path, **{name: array})
    elif path.suffix == ".pt":
        torch.save(torch.from_numpy(array), path)
    else:
        save_file({name: torch.from_numpy(array).contiguous()}, path)
    return path


@pytest.fixture(params=["npy", "npz", "pt", "safetensors"])
def path(request, tmp_path):
    return tmp_path / f"x.{request.param}"


def fails(path, about=None, error=MhavizError):
    with pytest.raises(error) as caught:
        read_maps(path, about)
    assert isinstance(caught.value, ArgumentError) == (error is ArgumentError)
    assert path.name in str(caught.value) or error is ArgumentError
    return str(caught.value)


@pytest.mark.parametrize("axes", [2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_weights(path, axes, dtype):
    array = {2: WEIGHTS[0], 3: WEIGHTS, 4: WEIGHTS[None]}[axes].astype(dtype)
    saved = read_maps(save(path, array))
    (m,) = saved.attention.maps
    expected = array.astype(np.float32).reshape(-1, 4, 3)
    assert m.weights.dtype == np.float32
    np.testing.assert_array_equal(m.weights, expected)
    assert (m.queries, m.keys, m.kind) == (tuple("0123"), tuple("012"), "cross")
    assert saved.attention.source.footnote == path.name
    assert (saved.notices, saved.is_own) == ((), False)


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_bfloat16(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    tensor = torch.from_numpy(WEIGHTS).bfloat16()
    tensors = {"first": torch.zeros(5), "w": tensor}
    torch.save(tensors, path) if suffix == "pt" else save_file(tensors, path)
    saved = read_maps(path, About(name="w"))
    np.testing.assert_array_equal(saved.attention.maps[0].weights, tensor.float().numpy())
    assert not saved.notices, "bfloat16 rounds"
    assert saved.attention.source.footnote == f"{path.name}, w"


def test_transposed_big_endian_and_trained_arrays(tmp_path):
    np.save(tmp_path / "x.npy", np.asfortranarray(WEIGHTS).astype(">f8"))
    np.testing.assert_array_equal(read_maps(tmp_path / "x.npy").attention.maps[0].weights, WEIGHTS)
    torch.save(torch.from_numpy(WEIGHTS).mT.contiguous().mT.requires_grad_(), tmp_path / "x.pt")
    np.testing.assert_array_equal(read_maps(tmp_path / "x.pt").attention.maps[0].weights, WEIGHTS)
    torch.save(torch.from_numpy(WEIGHTS), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    np.testing.assert_array_equal(read_maps(tmp_path / "old.pt").attention.maps[0].weights, WEIGHTS)


@pytest.mark.parametrize("dtype", ["<f8", ">f2", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_archive_of_any_type_and_order(tmp_path, dtype, order):
    weights = np.eye(5, 5)[[0, 2, 1, 4, 3]] * np.ones((2, 3, 1, 1)) / (1 if dtype == "?" else 2)
    np.savez_compressed(tmp_path / "w.npz", w=np.asarray(weights, dtype, order=order))
    found = read_maps(tmp_path / "w.npz").attention
    np.testing.assert_array_equal(np.stack([m.weights for m in found.maps]), weights)


def test_an_archive_that_is_shorter_than_it_says(tmp_path):
    whole, cut = io.BytesIO(), tmp_path / "w.npz"
    np.save(whole, np.eye(20, dtype=np.float32))
    with zipfile.ZipFile(cut, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("w.npy", whole.getvalue()[: -15 * 4])
    packed = bytearray(cut.read_bytes())
    file_size = packed.index(b"PK\x01\x02") + 24
    packed[file_size : file_size + 4] = len(whole.getvalue()).to_bytes(4, "little")
    cut.write_bytes(packed)
    with pytest.raises(MhavizError, match=r"^cannot read .*w\.npz: "):
        read_maps(cut)


def test_a_layer_of_a_list(tmp_path):
    torch.save([torch.from_numpy(WEIGHTS[:1]), torch.from_numpy(WEIGHTS[1:])], tmp_path / "x.pt")
    np.testing.assert_array_equal(read_maps(tmp_path / "x.pt", About("1")).attention.maps[0].weights, WEIGHTS[1:])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (WEIGHTS[0, 0], "got (3)"),
        (WEIGHTS[None, None], "got (1, 1, 2, 4, 3)"),
        (WEIGHTS[:, :0], "got (2, 0, 3)"),
        (2 * np.eye(3, dtype=np.int64), "expected floating-point weights, or zeros and ones, got 2 in an array of "),
        (np.eye(3, dtype=np.complex64), "expected floating-point weights, or zeros and ones, got "),
        (WEIGHTS - 1, "expected weights from 0 to 1e+30, got -"),
        (WEIGHTS * np.float32(np.nan), "got nan in row 0, column 0"),
        (WEIGHTS.astype(np.float64) * 1e300, "expected weights from 0 to 1e+30, got inf"),
    ],
)
def test_what_are_no_weights(path, array, message):
    text = fails(save(path, np.ascontiguousarray(array)))
    assert message in text


def test_text_is_no_weight(tmp_path):
    np.save(tmp_path / "x.npy", np.array([["a"]]))
    assert "got <U1" in fails(tmp_path / "x.npy")


def test_rows_that_do_not_sum_to_1(path):
    array = WEIGHTS.copy()
    array[1, 2] = (0.5, 0.25, 0)
    array[0, 0] = 0
    notice, zeros = read_maps(save(path, array)).notices
    assert zeros.endswith("1 row has only zeros, of 8, as if no key were visible: row 0 of cross L0 H0")
    assert notice.endswith("x" + path.suffix + ": not all rows sum to 1; farthest from it, row 2 of "
                           "cross L0 H1 sums to 0.75")  # fmt: skip


@pytest.mark.parametrize("suffix", ["npz", "pt", "safetensors"])
def test_several_arrays_need_a_name(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    arrays = {"b": WEIGHTS, "a\x1b[1m": WEIGHTS[:1]}
    if suffix == "npz":
        np.savez(path, **arrays)
    else:
        tensors = {name: torch.from_numpy(array).contiguous() for name, array in arrays.items()}
        torch.save(tensors, path) if suffix == "pt" else save_file(tensors, path)
    assert "holds 2 arrays that could be weights; choose one of a\x1b[1m (1, 4, 3), b (2, 4, 3)" in fails(
        path, error=ArgumentError
    )
    assert "there is no array c in" in fails(path, About("c"), ArgumentError)
    assert "it has a\x1b[1m (1, 4, 3), b (2, 4, 3)" in fails(path, About("c"), ArgumentError)
    assert len(read_maps(path, About("b")).attention.maps[0].heads) == 2


def test_a_file_without_arrays(tmp_path):
    np.savez(tmp_path / "x.npz")
    assert "holds no array" in fails(tmp_path / "x.npz")
    torch.save({"a": 3}, tmp_path / "x.pt")
    assert "holds no array" in fails(tmp_path / "x.pt")
    torch.save("text", tmp_path / "x.pt")
    assert "expected a tensor, or several in a dict, a list or a tuple, got str" in fails(tmp_path / "x.pt")


def test_a_single_array_has_no_name(tmp_path):
    for path in (tmp_path / "x.npy", tmp_path / "x.pt"):
        assert "single" in fails(save(path, WEIGHTS), About("w"), ArgumentError)


class Evil:
    """What a pickle may do."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('run')",))


def test_nothing_pickled_is_run(tmp_path):
    evil = np.array([[Evil()]], dtype=object)
    np.save(tmp_path / "x.npy", evil)
    np.savez(tmp_path / "x.npz", evil)
    with (tmp_path / "x.pt").open("wb") as stream:
        pickle.dump(Evil(), stream)
    torch.save(Evil(), tmp_path / "y.pt")
    (tmp_path / "z.npy").write_bytes((tmp_path / "x.pt").read_bytes())
    assert "the magic string is not correct" in fails(tmp_path / "z.npy")
    for name in ("x.npy", "x.npz"):
        assert "got object" in fails(tmp_path / name), name
    for name in ("x.pt", "y.pt"):
        assert "Python objects, which mhaviz never runs" in fails(tmp_path / name), name


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04", b"\xff" * 300, b"{}"])
def test_broken_files(path, content):
    path.write_bytes(content)
    fails(path)


def test_cut_off_files(path):
    save(path, np.tile(WEIGHTS[:, :, :1], (1, 1, 400)))
    whole = path.read_bytes()
    for length in (30, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:length])
        fails(path)


def test_sizes_are_not_believed(tmp_path):
    """A header that promises terabytes is found out before memory is asked for."""
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000), }"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\x00" * 64
    (tmp_path / "x.npy").write_bytes(content)
    fails(tmp_path / "x.npy")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("w.npy", content)
    fails(tmp_path / "x.npz")


def test_labels(tmp_path):
    square = np.full((3, 3), 1 / 3, np.float32)
    np.save(tmp_path / "x.npy", square)
    queries, keys = ("one", "", "two \u2028"), ("a", "b", "c")
    (m,) = read_maps(tmp_path / "x.npy").attention.maps
    assert (m.queries, m.keys, m.kind) == (tuple("012"), tuple("012"), "self")
    (m,) = read_maps(tmp_path / "x.npy", About(queries=queries)).attention.maps
    assert (m.queries, m.keys, m.kind) == (queries, queries, "self")
    (m,) = read_maps(tmp_path / "x.npy", About(None, queries, keys)).attention.maps
    assert (m.keys, m.kind) == (("a", "b", "c"), "cross")
    (m,) = read_maps(tmp_path / "x.npy", About(keys=keys, kind="self")).attention.maps
    assert (m.queries, m.keys, m.kind) == (tuple("012"), ("a", "b", "c"), "self")


def test_labels_that_do_not_fit(tmp_path):
    np.save(tmp_path / "x.npy", WEIGHTS)
    for side in ("queries", "keys"):
        with pytest.raises(ArgumentError, match=f"^`{side}`: expected . labels, one per line, got 2$"):
            read_maps(tmp_path / "x.npy", About(**{side: ("a", "b")}))


def test_kinds_that_cannot_be(tmp_path):
    np.save(tmp_path / "x.npy", WEIGHTS)
    for kind in ("self", "masked"):
        assert "expected as many queries as keys, got 4 × 3" in fails(
            tmp_path / "x.npy", About(kind=kind), ArgumentError
        )
    np.save(tmp_path / "x.npy", np.array([[1, 0.0], [0.5, 0.5]]))
    assert read_maps(tmp_path / "x.npy", About(kind="masked")).attention.maps[0].kind == "masked"


def test_weight_on_keys_that_a_mask_was_to_hide_is_read_and_said(tmp_path):
    weights = np.array([[0.75, 0.25], [0.5, 0.5]])
    np.save(tmp_path / "x.npy", weights)
    read = read_maps(tmp_path / "x.npy", About(kind="masked"))
    (m,) = read.attention.maps
    np.testing.assert_array_equal(m.weights[0], weights)
    assert not m.hidden.any()
    (notice,) = read.notices
    assert notice.endswith(
        "weight on later keys, which the mask hides, in 1 row; the first is row 0 of layer 0, masked"
    )


LAYERS = np.random.default_rng(1).dirichlet(np.ones(3), size=(5, 2, 4)).astype(np.float32)  # 5 layers, 2 heads, 4 × 3


def test_layers(path):
    maps = read_maps(save(path, LAYERS)).attention.maps
    assert [m.layer for m in maps] == [0, 1, 2, 3, 4]
    for m, weights in zip(maps, LAYERS, strict=True):
        np.testing.assert_array_equal(m.weights, weights)


@pytest.mark.parametrize("axes", [2, 3, 4])
@pytest.mark.parametrize("within", [tuple, list, lambda layers: {"logits": torch.ones(5), "attentions": tuple(layers)}])
def test_lists_of_tensors_are_layers(tmp_path, axes, within):
    layers = {2: LAYERS[:, 0], 3: LAYERS, 4: LAYERS[:, None]}[axes]
    torch.save(within([torch.from_numpy(layer) for layer in layers]), tmp_path / "x.pt")
    maps = read_maps(tmp_path / "x.pt").attention.maps
    assert [m.layer for m in maps] == [0, 1, 2, 3, 4]
    for m, weights in zip(maps, layers, strict=True):
        np.testing.assert_array_equal(m.weights, weights.reshape(-1, 4, 3))


def test_pruned_heads(tmp_path):
    torch.save([torch.from_numpy(LAYERS[0]), torch.from_numpy(LAYERS[1, :1])], tmp_path / "x.pt")
    assert [len(m.heads) for m in read_maps(tmp_path / "x.pt").attention.maps] == [2, 1]


def test_a_batch_is_no_layer_of_a_list(tmp_path):
    torch.save([torch.from_numpy(LAYERS[:2])] * 3, tmp_path / "x.pt")
    assert "or (1, n_heads, q_length, k_length), got (2, 2, 4, 3)" in fails(tmp_path / "x.pt")


def test_several_lists_need_a_name(tmp_path):
    lists = {"encoder": [torch.from_numpy(WEIGHTS)] * 2, "decoder": [torch.from_numpy(WEIGHTS)] * 3}
    torch.save(lists, tmp_path / "x.pt")
    assert "choose one of decoder 3 × (2, 4, 3), encoder 2 × (2, 4, 3)" in fails(tmp_path / "x.pt", error=ArgumentError)
    saved = read_maps(tmp_path / "x.pt", About("decoder"))
    assert len(saved.attention.maps) == 3
    assert saved.attention.source.footnote == "x.pt, decoder"


@pytest.mark.parametrize("suffix", ["npz", "pt", "safetensors"])
def test_what_cannot_be_weights_is_passed_over(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    arrays = {"ids": np.arange(10), "mask": np.ones((1, 1, 4, 3), bool), "w": WEIGHTS, "bias": WEIGHTS[0, 0]}
    if suffix == "npz":
        np.savez(path, names=np.array([["a"]]), objects=np.array([[None]], dtype=object), **arrays)
    else:
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        torch.save(tensors, path) if suffix == "pt" else save_file(tensors, path)
    saved = read_maps(path)
    np.testing.assert_array_equal(saved.attention.maps[0].weights, WEIGHTS)
    assert saved.attention.source.footnote == f"x.{suffix}, w"
    assert saved.attention.source.details["array"] == "w"
    assert read_maps(path, About("mask")).attention.maps[0].weights.all()


def test_what_is_no_array_at_all_is_passed_over(tmp_path):
    np.savez(tmp_path / "x.npz", w=WEIGHTS)
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        archive.writestr("readme.txt", "hello")
        archive.writestr("empty", "")
    np.testing.assert_array_equal(read_maps(tmp_path / "x.npz").attention.maps[0].weights, WEIGHTS)


def test_nothing_that_could_be_weights(tmp_path):
    np.savez(tmp_path / "x.npz", ids=np.arange(10), names=np.array(["a"]))
    assert "none of its arrays could be weights; it has ids (10), names (1)" in fails(tmp_path / "x.npz")


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool])
def test_hard_attention(path, dtype):
    (m,) = read_maps(save(path, np.eye(3, dtype=dtype))).attention.maps
    np.testing.assert_array_equal(m.weights[0], np.eye(3, dtype=np.float32))


def nested():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the older layout may change
        return [torch.nested.as_nested_tensor([torch.ones(2, 2)], layout=of) for of in (torch.jagged, torch.strided)]


def test_tensors_without_numbers(tmp_path):
    for tensor in (torch.from_numpy(WEIGHTS).to_sparse(), torch.empty(4, 3, device="meta"), *nested()):
        torch.save(tensor, tmp_path / "x.pt")
        fails(tmp_path / "x.pt")


def test_a_dict_within_a_dict(tmp_path):
    layers = [torch.from_numpy(WEIGHTS)[None]] * 2
    torch.save({"logits": torch.ones(3), "outputs": {"attentions": layers, "loss": 0.5}}, tmp_path / "x.pt")
    for about in (None, About("outputs.attentions")):
        assert [m.layer for m in read_maps(tmp_path / "x.pt", about).attention.maps] == [0, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_that_do_not_fit_into_memory(path, dtype, monkeypatch):
    save(path, WEIGHTS.astype(dtype))
    needed = WEIGHTS.size * (12 if path.suffix == ".npz" and dtype == np.float64 else 8)
    monkeypatch.setattr(saved_array, "free_main_memory", lambda: needed)
    read_maps(path)
    monkeypatch.setattr(saved_array, "free_main_memory", lambda: needed - 1)
    expected = f"its numbers need about {needed} B of memory on cpu, where {needed - 1} B are free; save fewer heads"
    assert expected in fails(path)


def test_layers_that_fit_one_by_one_only(tmp_path, monkeypatch):
    torch.save([torch.from_numpy(WEIGHTS)] * 3, tmp_path / "x.pt")
    monkeypatch.setattr(saved_array, "free_main_memory", lambda: 2 * WEIGHTS.nbytes)
    assert "its numbers need about 576 B" in fails(tmp_path / "x.pt")

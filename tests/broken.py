"""Files that are nearly right: valid ones of every kind that mhaviz reads, and what may become of them."""

import io
import json
import random
import struct
import zipfile
from importlib import resources

import numpy as np
import torch
from hostile import ACTING, HOSTILE
from safetensors.numpy import save as save_numpy
from safetensors.torch import save as save_torch

HUGE = 10**400
ODD = (
    None,
    True,
    -1,
    0,
    1.5,
    2**31,
    2**63,
    2**64,
    HUGE,
    -HUGE,
    1e30,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "self",
    ACTING,
    "y" * 3000,
    [],
    [[]],
    [1, 2],
    {},
    {"x": 1},
    *HOSTILE[:12],
)
"""What may stand in place of any value of a JSON document."""


def _weights(n_heads=2, length=3):
    scores = np.random.default_rng(0).normal(size=(n_heads, length, length))
    return (np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)).astype(np.float32)


def _document():
    maps = [
        {"layer": 0, "kind": "self", "queries": ["a", "b", "c"], "keys": ["a", "b", "c"], "special_keys": [0]},
        {
            "layer": 1,
            "kind": "self",
            "queries": list("abcdef"),
            "keys": list("abcdef"),
            "heads": [3, 5],
            "sentence": 2,
            "query_edges": [0, 2, 4, 6],
            "key_edges": [0, 2, 4, 6],
            "reduction": "mass",
            "summary": {
                "near": 64,
                "queries": 6,
                "strong": 0.3,
                "heads": [
                    {
                        "entropy": 1.0,
                        "uniform_entropy": 1.7,
                        "sinks": [{"key": 0, "token": "a", "received": 0.5}],
                        "local": 0.5,
                        "strongest": {"query": 1, "query_token": "b", "key": 0, "key_token": "a", "weight": 0.9},
                        "farthest": None,
                    }
                ]
                * 2,
            },
        },
    ]
    return {"mhaviz": "1", "source": {"footnote": "a test", "remark": "read", "n_layers": 2}, "maps": maps}


def valid():
    """By the name of the file: its bytes, and the command that reads it, without the file's name at {}."""
    document = _document()
    tensors = {"layer.0.self": _weights(), "sentence.2.layer.1.self": _weights()}
    with_weights = [m | {"weights": _weights().tolist()} for m in document["maps"]]
    packed, plain, numpy, archive = io.BytesIO(), io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.save(numpy, _weights())
    np.savez_compressed(archive, weights=_weights(), other=np.arange(3))
    torch.save({"attention": torch.from_numpy(_weights()), "more": [torch.ones(2), {"x": 1}]}, plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for member in source.infolist():
            target.writestr(member.filename, source.read(member.filename))
    generator = torch.Generator().manual_seed(0)
    layer = {
        "layers.0.in_proj_weight": torch.randn(24, 8, generator=generator),
        "layers.0.in_proj_bias": torch.randn(24, generator=generator),
        "layers.0.out_proj.weight": torch.randn(8, 8, generator=generator),
    }
    pickled = io.BytesIO()
    torch.save(layer, pickled)
    shipped = resources.files("mhaviz.training").joinpath("translation.safetensors").read_bytes()
    weights = ("heatmap", "a b c", "--n-heads", "2", "--model", "{}")
    return {
        "maps.json": (json.dumps(document | {"maps": with_weights}).encode(), ("show", "{}")),
        "maps.safetensors": (save_numpy(tensors, {"mhaviz": json.dumps(document)}), ("show", "{}")),
        "array.safetensors": (save_numpy({"a": _weights()}), ("show", "{}")),
        "array.npy": (numpy.getvalue(), ("show", "{}")),
        "array.npz": (archive.getvalue(), ("show", "{}", "--name", "weights")),
        "tensor.pt": (plain.getvalue(), ("show", "{}")),
        "packed.pt": (packed.getvalue(), ("show", "{}")),
        "layer.safetensors": (save_torch(layer), weights),
        "layer.pt": (pickled.getvalue(), weights),
        "model.safetensors": (shipped, ("heatmap", "the cat sees my car", "--model", "{}")),
    }


def broken(name, content, generator: random.Random):
    """The content of a file with something wrong in it, or nothing that matters."""
    structured = [_odd_bytes, _cut, _repeated]
    if name.endswith(".json"):
        structured += [_odd_json] * 6
    if name.endswith(".safetensors"):
        structured += [_odd_header] * 4 + [_odd_metadata] * 4 * (b"__metadata__" in content[:100_000])
    if name.endswith((".npz", ".pt")):
        structured += [_odd_member] * 4
    if name.endswith(".npy"):
        structured += [_odd_array] * 4
    return generator.choice(structured)(content, generator)


def _odd_bytes(content, generator):
    changed = bytearray(content)
    near = generator.choice([8, 200, len(content)])
    for _ in range(generator.choice([1, 1, 3, 20])):
        changed[generator.randrange(min(near, len(content)))] = generator.choice(
            [0, 255, 34, 91, generator.randrange(256)]
        )
    return bytes(changed)


def _cut(content, generator):
    return content[: generator.randrange(len(content))]


def _repeated(content, generator):
    at, size = generator.randrange(len(content)), generator.randrange(1, 100)
    return content[:at] + content[at : at + size] * generator.choice([2, 30]) + content[at + size :]


def _odd_json(content, generator):
    return json.dumps(_changed(json.loads(content), generator)).encode()


def _changed(document, generator):
    """A JSON document with some value replaced, removed, renamed or moved."""
    document = json.loads(json.dumps(document))
    for _ in range(generator.choice([1, 1, 2])):
        places = list(_places(document))
        if not places:
            return generator.choice(ODD)
        inside, key = generator.choice(places)
        way = generator.randrange(5)
        if way == 0:
            del inside[key]
        elif way == 1 and isinstance(inside, dict):
            inside[generator.choice([ACTING, "x", "weights", "\udcff"])] = inside.pop(key)
        elif way == 2:
            _, other = generator.choice(places)
            inside[key] = other
        else:
            inside[key] = generator.choice(ODD)
    return document


def _places(document):
    entries = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in entries:
        yield document, key
        yield from _places(value)


def _parts(content):
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def _joined(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def _odd_header(content, generator):
    header, data = _parts(content)
    types = ("F4", "F6_E2M3", "F6_E3M2", "F8_E8M0", "F8_E4M3", "BF16", "F16", "F64", "C64", "BOOL", "I64", "U8", "X")
    named = [name for name in header if name != "__metadata__"]
    way = generator.randrange(4)
    if way == 0 and named:
        header[generator.choice(named)]["dtype"] = generator.choice(types)
    elif way == 1 and named:  # of another type, of the right size
        entry = header[generator.choice(named)]
        size = entry["data_offsets"][1] - entry["data_offsets"][0]
        entry["dtype"], entry["shape"] = generator.choice(
            [("F4", [size * 2]), ("F8_E8M0", [size]), ("F64", [size // 8])]
        )
    elif way == 2 and named:
        name = generator.choice(named)
        header[generator.choice([ACTING, "9" * 5000, "x" * 3000, "layer.0.self"])] = header.pop(name)
    else:
        header = _changed(header, generator)
    return _joined(header, data)


def _odd_metadata(content, generator):
    header, data = _parts(content)
    about = json.loads(header["__metadata__"]["mhaviz"])
    digits = generator.random() < 0.1
    text = json.dumps(_changed(about, generator))
    header["__metadata__"]["mhaviz"] = text.replace("0", "9" * 5000, 1) if digits else text
    return _joined(header, data)


def _odd_member(content, generator):
    """An archive with a member that is changed, renamed, or of another length than it says."""
    result = io.BytesIO()
    packing = generator.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(result, "w", packing) as target:
        chosen = generator.choice(source.namelist())
        for name in source.namelist():
            member = source.read(name)
            if name == chosen:
                way = generator.randrange(4)
                if way == 0:
                    continue
                name = name + "x" if way == 1 else name
                member = (
                    generator.choice([_odd_bytes, _cut, _repeated])(member or b"x", generator) if way > 1 else member
                )
            target.writestr(name, member)
    return result.getvalue()


def _odd_array(content, generator):
    shapes = ((), (0,), (3,), (2, 3, 3), (1, 1, 2, 3, 3), (1, 1, 1, 1, 1, 1))
    values = (0, -1, 1, 0.5, 1e20, 1e38, 1e308, np.nan, np.inf, 1e-45)
    types = ("f2", "f4", "f8", "f16", "i1", "u8", "?", "c8", "U3", "S2", "M8[s]", "V3", ">f4")
    result = io.BytesIO()
    with np.errstate(all="ignore"):
        array = np.full(generator.choice(shapes), generator.choice(values))
        try:
            array = array.astype(generator.choice(types))
        except (ValueError, TypeError):
            array = array.astype(np.float32)
    np.save(result, array)
    return result.getvalue()

"""A study on the command line gives the same numbers as its function in Python."""

import functools
import inspect
import io
import json
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest

import mhaviz as package
from mhaviz.analyses import scaling
from mhaviz.cli.app import load_command
from mhaviz.views.data import document, write_json

TRANSLATED = ("translation", "the small black cat")
STUDIES = [
    ("heatmap 'a b c' --n-heads 2", lambda: package.load(n_heads=2).attend("a b c")),
    ("heatmap 'a b c' --query b --mean heads", lambda: package.attend("random", "a b c").of_query("b").mean()),
    (
        "heatmap 'a b c' 'd e f' --mean heads,sentences",
        lambda: package.attend("random", ["a b c", "d e f"], mean=("heads", "sentences")),
    ),
    ("heatmap 'a b c d' --query b", lambda: package.attend("random", "a b c d").answer("b")),
    ("heatmap 'a b c d' --head 1 --as lines", lambda: package.attend("random", "a b c d", head=1).lines()),
    ("heatmap 'a b c d' --query b --as lines", lambda: package.attend("random", "a b c d").lines("b")),
    ("heatmap 'a b c' --query b --as map", lambda: package.attend("random", "a b c", query="b")),
    ("heatmap --model translation 'the small black cat'", lambda: package.attend(*TRANSLATED)),
    ("explain 'a b c' --token b", lambda: package.explain("random", "a b c", "b")),
    ("explain --model translation 'the small black cat' --token le", lambda: package.explain(*TRANSLATED, "le")),
    ("matrices", lambda: package.matrices("random")),
    ("matrices --n-heads 2", lambda: package.load(n_heads=2).matrices()),
    ("matrices --model translation 'the small black cat'", lambda: package.matrices(*TRANSLATED)),
    ("masks", lambda: package.masks("random")),
    ("masks --mask none --dropout 0.2 --seed 3", lambda: package.load(causal=False, seed=3).masks(dropout=0.2)),
    ("masks 'a b' --target 'c d e'", lambda: package.masks("random", "a b", "c d e")),
    ("masks --model translation 'the small black cat' --dropout 0.1", lambda: package.masks(*TRANSLATED, dropout=0.1)),
    ("trace-shapes", lambda: package.trace_shapes("random")),
    ("compare-scaling", lambda: package.compare_scaling("random")),
    ("compare-scaling --model translation 'the small black cat'", lambda: package.compare_scaling(*TRANSLATED)),
    ("embeddings 'a b'", lambda: package.embeddings("random", "a b")),
    ("heatmap 'Der der Hund' --keep-case", lambda: package.load(keep_case=True).attend("Der der Hund")),
    (
        "embeddings 'Der der Hund' --keep-case",
        lambda: package.load(n_heads=1, keep_case=True).embeddings("Der der Hund"),
    ),
    ("compare-projections 'Der der' --keep-case", lambda: package.compare_projections("Der der", keep_case=True)),
    ("compare-projections", lambda: package.compare_projections()),
    ("compare-projections 'a b' --n-heads 2", lambda: package.compare_projections("a b", n_heads=2)),
    ("report 'a b c'", lambda: package.load().report("a b c")),
    ("evaluate translation", lambda: package.evaluate("translation")),
]

MEASURED = [
    ("compare-implementations", package.compare_implementations, "implementations"),
    ("complexity", package.complexity, "terms"),
]
TEXTS = ["the cat sat on the mat", "a dog"]
SPANS = [{"name": "first", "tokens": [0, 2]}, {"name": "last", "tokens": [3, 4]}]
CHAT = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "a dog"}]
PAIRS = [("the cat sat on a mat", "sat", "cat"), ("hello a dog ran", "ran", "dog")]
OF_FILES = [
    ("heads --model bert --file t.txt", lambda: package.head_statistics("bert", TEXTS)),
    (
        "heads --model bert --random-repeat 5",
        lambda: package.head_statistics("bert", probe=package.RandomRepeats(5)),
    ),
    ("heads --model bert --pairs p.tsv --layer 1", lambda: package.head_pairs("bert", "p.tsv", layer=1)),
    ("heads --model bert --pairs p.tsv", lambda: package.head_pairs("bert", PAIRS)),
    ("heads --model chat --by turn --file chats.jsonl", lambda: package.head_spans("chat", [CHAT, CHAT])),
    (
        "heads --model chat --by chats.jsonl --query user --layer 1",
        lambda: package.head_spans("chat", "chats.jsonl", "user", layer=1),
    ),
    ("heatmap --model chat --chat chat.json --by turn", lambda: package.attend("chat", chat=CHAT, by="turn")),
    ("heatmap 'A b. C d.' --by sentence", lambda: package.attend("random", "A b. C d.", by="sentence")),
    (
        "heatmap 'a b c d e' --by spans.json --query last --mean heads",
        lambda: package.attend("random", "a b c d e", by=SPANS).of_query("last").mean(),
    ),
    ("show w.npy --by spans.json", lambda: package.read("w.npy").by(SPANS)),
    ("record --by spans.json program.py", lambda: recorded().by(SPANS)),
    ("ablate --model bert --file t.txt --layer 1", lambda: package.ablate("bert", TEXTS, layer=1)),
    (
        "budget --model chat --file t.txt --keep 2,4 --policy h2o,rows --layer 1",
        lambda: package.budget("chat", "\n".join(TEXTS), keep=(2, 4), policies=("h2o", "rows"), layer=1),
    ),
    ("diff bert bert --file t.txt", lambda: package.diff_models("bert", "bert", TEXTS)),
    ("show w.npy --layer 1", lambda: package.read("w.npy").select(layer=1)),
    ("diff w.npy v.npy --layer 1", lambda: package.diff("w.npy", "v.npy", layer=1)),
    ("record program.py", lambda: recorded()),
    ("record --show heads program.py", lambda: recorded(statistics=True)),
    ("record --watch 2 train.py", lambda: watched()),
]


def watched():
    with package.Watch(every=2, program="train.py") as watch:
        runpy.run_path("train.py")
    return watch.health


def recorded(**how):
    with package.record(program="program.py", **how) as recording:
        runpy.run_path("program.py")
    return recording.head_statistics if how else recording.attention


@pytest.fixture
def files(mhaviz, model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("bert", "chat"):
        Path(name).symlink_to(model_folder(name))
    Path("chats.jsonl").write_text("\n".join([json.dumps(CHAT)] * 2))
    Path("chat.json").write_text(json.dumps(CHAT))
    Path("spans.json").write_text(json.dumps(SPANS))
    Path("t.txt").write_text("\n".join(TEXTS))
    Path("p.tsv").write_text("\n".join(map("\t".join, PAIRS)))
    rng = np.random.default_rng(0)
    for name in ("v.npy", "w.npy"):
        np.save(name, rng.dirichlet(np.ones(5), (2, 3, 5)))
    Path("program.py").write_text(
        "import torch\ntorch.manual_seed(0)\nq = torch.randn(1, 2, 4, 8)\n"
        "torch.nn.functional.scaled_dot_product_attention(q, q, q)\n"
    )
    Path("train.py").write_text(
        "import torch\ntorch.manual_seed(0)\nattend = torch.nn.MultiheadAttention(8, 2, batch_first=True)\n"
        "for _ in range(5):\n    attend(*[torch.randn(2, 4, 8)] * 3)\n"
    )


@pytest.mark.parametrize(("command", "study"), OF_FILES, ids=[command for command, _ in OF_FILES])
def test_the_same_numbers_of_files(mhaviz, files, monkeypatch, command, study):
    test_the_same_numbers(mhaviz, monkeypatch, command, study)


@pytest.mark.parametrize(("command", "study"), STUDIES, ids=[command for command, _ in STUDIES])
def test_the_same_numbers(mhaviz, monkeypatch, command, study):
    monkeypatch.setattr(scaling, "sweep_scaling", functools.partial(scaling.sweep_scaling, draws=2))
    name, *words = shlex.split(command)
    result = mhaviz(name, "--json", *words)
    assert result.status == 0, result.err
    assert result.out == _written(study())


def _written(record):
    written = io.StringIO()
    write_json(document(record), written)
    return written.getvalue()


@pytest.mark.parametrize(("command", "study", "name"), MEASURED, ids=[command for command, *_ in MEASURED])
def test_what_is_measured_is_the_same_but_for_its_times(mhaviz, command, study, name):
    words = ("--lengths", "8", "--d-model", "16")
    ours = json.loads(mhaviz(command, *words, "--json").out)
    theirs = json.loads(_written(study([8], d_model=16)))
    assert ours["source"] == theirs["source"]
    assert [one["name"] for one in ours[name]] == [one["name"] for one in theirs[name]]
    assert inspect.signature(study).parameters["lengths"].default == _usual_lengths(command)


def _usual_lengths(command):
    (option,) = [one for one in load_command(command).params if one.name == "lengths"]
    return tuple(map(int, option.default.split(",")))

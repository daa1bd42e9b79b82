"""What all commands that draw have in common: every option has its effect, and a run gives what the last one gave."""

import json
import shlex
from itertools import combinations

import pytest
from PIL import Image

import mhaviz as package
from mhaviz.models.single_layer import SingleLayer
from mhaviz.models.transformers.model import TransformersModel
from mhaviz.views.figure import page

SMALL = "--d-model 16 --n-heads 2 --device cpu"
NUMBERS = {  # options that change what is computed
    f"heatmap 'a b c' {SMALL}": ["--head 1", "--target 'd e'", "--d-model 32", "--seed 1", "--mask causal"],
    f"trace-shapes 'a b c' {SMALL}": ["--target 'd e'", "--n-heads 4", "--mask causal", "--follow 0,1,3", "--values"],
    f"compare-scaling 'a b c' {SMALL}": ["--target 'd e'", "--head 1", "--seed 1", "--mask causal"],
    f"report 'a b c' {SMALL}": ["--head 1", "--seed 1", "--mask causal"],
    f"explain 'a b c' --token b {SMALL}": [
        *("--token c", "--head 1", "--target b,d", "--d-model 32", "--n-heads 4", "--seed 1", "--mask causal"),
    ],
    "embeddings 'a b' --d-model 16": ["--seed 1", "--d-model 8"],
    "compare-projections 'a b' --d-model 16 --n-heads 2": ["--include-self", "--d-model 32", "--n-heads 4", "--seed 1"],
}
LOOKS = {  # and those that change its picture alone
    f"heatmap 'a b c' {SMALL}": [
        *("--cmap viridis", "--vmax 1", "--dpi 100", "--columns 1", "--title Mine", "--width 3in", "--for slide"),
    ],
    f"compare-scaling 'a b c' {SMALL}": ["--cmap viridis", "--vmax 0.3", "--for column"],
    f"report 'a b c' {SMALL}": ["--cmap viridis"],
    "embeddings 'a b' --d-model 16": ["--cmap PuOr"],
    "compare-projections 'a b' --d-model 16 --n-heads 2": ["--cmap viridis"],
}


@pytest.mark.parametrize("command", NUMBERS)
def test_every_option_changes_the_numbers(mhaviz, command):
    found = []
    for option in ("", *NUMBERS[command]):
        result = mhaviz(*shlex.split(command), *shlex.split(option), "--json")
        assert (result.status, result.err) == (0, "")
        document = json.loads(result.out)
        assert document.pop("mhaviz") == package.__version__
        document.pop("source")  # which names the options
        found.append((option, document))
    for (one, a), (other, b) in combinations(found, 2):
        assert a != b, (one, other)


@pytest.mark.slow
@pytest.mark.parametrize("command", LOOKS)
def test_every_look_changes_the_picture_and_nothing_else_does(mhaviz, tmp_path, command):
    pictures = []
    for number, option in enumerate(("", *LOOKS[command], "")):
        path = tmp_path / f"{number}.png"
        result = mhaviz(*shlex.split(command), "--dpi", "60", *shlex.split(option), "-o", str(path))
        assert result.status == 0
        assert result.err.endswith(f"mhaviz: saved {path}\n")
        pictures.append(path.read_bytes())
    assert pictures[0] == pictures[-1]
    assert len(set(pictures)) == 1 + len(LOOKS[command])


@pytest.mark.parametrize("command", [
    f"masks 'a b c' 'd e' {SMALL}",
    f"explain 'a b c' --token b {SMALL}",
    f"report 'a b' {SMALL}",
    "embeddings 'a b' --d-model 16",
    "show saved.safetensors",
    "diff saved.safetensors saved.safetensors",
])  # fmt: skip
def test_an_advice_names_what_the_command_can_do(mhaviz, tmp_path, monkeypatch, command):
    """Of a picture that is too high or too narrow. That it has the options is checked wherever a command is run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(page, "HIGH", 0.5)
    package.load(d_model=16, n_heads=2).attend("a b c").save("saved.safetensors")
    high = mhaviz(*shlex.split(command), "-o", "high.png")
    assert high.status == 0
    assert "inches high, more than anybody sees at once; draw fewer sentences" in high.err
    assert ("a .html file" in high.err) == (mhaviz(*shlex.split(command), "-qo", "page.html").status == 0)
    narrow = mhaviz(*shlex.split(command), "--width", "1in", "-qo", "narrow.png")
    assert narrow.status in (0, 2)


WRONG = [  # what cannot be done, and how the message begins
    ("heatmap 'a b a' {} --query zebra", "--query: expected a word, or a position from 0 to {}, got 'zebra'"),
    ("heatmap 'a b a' {} --query 9", "--query: expected a word, or a position from 0 to {}, got '9'"),
    ("heatmap 'a b a' {} --query a", "--query: 'a' occurs 2 times"),
    ("heatmap 'a b a' {} --query 2 --window 0:2,:", "--query: expected a token, or a position from 0 to 1, got '2'"),
    ("heatmap 'a b a' {} --query 1", "--query: expected at least 4 words that the query sees, got 3: of so"),
    (
        "heatmap 'a b a' {} --query 1 --as answer --mean heads --show norms",
        "--query: layer 0, self, mean_norm: expected",
    ),
    ("heatmap 'a b a c' {} --query c --size 2", "--query: layer 0, self: expected the weights of single tokens, got "),
    ("heatmap 'a b a' {} --query b --vmax 1", "--vmax is for maps; leave it out, or add --as map"),
    ("heatmap 'a b a' {} --as lines --cmap bone", "--cmap is for maps; leave it out, or add --as map"),
    (
        "heatmap 'a b a c' {} --as lines --head 0 --size 2",
        "lines: layer 0, self: expected the weights of single tokens",
    ),
    (
        "heatmap 'a b a c' {} --as lines --head 0 --mean heads",
        "lines: layer 0, self, mean: expected weights of single heads",
    ),
    (
        f"heatmap '{'a ' * 31}' {{}} --as lines --head 0",
        "lines: expected at most 30 words, as lines from more hide each",
    ),
    ("heatmap 'a b a' {} --as answer", "--as answer is for one query; add --query WORD"),
    (
        "heatmap 'a b a' {} --query 1 --as map --size 1",
        "--query: query 1 shares a cell with others; give --window 1",
    ),
    ("heatmap 'a b a' {} --query 1 --show rollout --query c", "--query: expected a token, or a position from 0 to {}"),
    ("heatmap 'a b a' {} --pool max --size 1 --mean heads", "layer 0, self, max: the mean over heads is not defined"),
    ("heatmap 'a b a' {} --show uniform --size 1", "layer 0, self: expected weights of all tokens"),
    ("heatmap 'a b a' {} --window 0:9,:", "--window: expected query positions that go up"),
    ("heatmap 'a b a' {} --head 9", "--head: there is no head 9"),
    ("heatmap 'a b a' {} --layer 9", "--layer: there is no layer 9"),
    ("heatmap 'a b a' {} --kind cross", "--kind: expected "),
    ("explain 'a b a' {} --token zebra", "--token: expected a token, or a position from 0 to {}, got 'zebra'"),
    ("explain 'a b a' {} --token b --head 9", "--head: there is no head 9"),
    ("matrices 'a b a' {} --token 9", "--token: expected a token, or a position from 0 to {}, got '9'"),
    ("matrices 'a b a' {} --head 9", "--head: there is no head 9"),
    ("masks 'a b a' {} --head 9", "--head: there is no head 9"),
    ("compare-scaling 'a b a' {} --head 9", "--head: there is no head 9"),
    ("report 'a b a' {} --head 9", "--head: there is no head 9"),
    ("trace-shapes 'a b a' {} --layer 9", "--layer: there is no layer 9"),
]


@pytest.mark.parametrize("family", ["random", "bert"])
@pytest.mark.parametrize(("command", "message"), WRONG)
def test_what_cannot_be_done_is_said_before_the_model_runs(mhaviz, monkeypatch, model_folder, family, command, message):
    monkeypatch.setattr(SingleLayer, "run", None)
    monkeypatch.setattr(TransformersModel, "run", None)
    model, last = (SMALL, 2) if family == "random" else (f"--model {model_folder(family)}", 4)
    result = mhaviz(*shlex.split(command.format(model)))
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"mhaviz: {message.format(last)}")


def test_an_element_is_followed_where_every_reshape_is_known(mhaviz, model_folder):
    result = mhaviz("trace-shapes", "a b", "--model", str(model_folder("bert")), "--follow", "0,0,0")
    assert result.status == 2
    assert result.err.startswith("mhaviz: --follow: expected a layer that is traced through every reshape")


def test_hidden_tokens_are_no_queries(mhaviz, monkeypatch, model_folder):
    monkeypatch.setattr(TransformersModel, "run", None)
    words = "heatmap", "a b", "--model", str(model_folder("bert")), "--hide-special", "--query", "[CLS]"
    assert "--query: expected a token, or a position from 1 to 2, got '[CLS]'" in mhaviz(*words).err


def test_a_patch_outside_of_the_grid_is_refused_before_the_program_runs(mhaviz, tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "photo.png")
    (tmp_path / "program.py").write_text("raise SystemExit('has run')")
    words = "--image", str(tmp_path / "photo.png"), "--grid", "2x3", "--query", "2,0", str(tmp_path / "program.py")
    result = mhaviz("record", *words)
    assert (result.status, result.err) == (2, "mhaviz: --query: expected a patch from 0,0 to 1,2, got 2,0\n")

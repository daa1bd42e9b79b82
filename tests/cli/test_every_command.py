"""What all commands that draw have in common: every option has its effect, and a run gives what the last one gave."""

import json
import shlex
from itertools import combinations

import pytest

import mhaviz as package
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
    "embeddings --length 5": ["--length 6", "--d-model 8"],
    "compare-projections 'a b' --d-model 16 --n-heads 2": ["--include-self", "--d-model 32", "--n-heads 4", "--seed 1"],
}
LOOKS = {  # and those that change its picture alone
    f"heatmap 'a b c' {SMALL}": [
        *("--cmap viridis", "--vmax 1", "--dpi 100", "--columns 1", "--title Mine", "--footnote ''", "--width 3in"),
    ],
    f"compare-scaling 'a b c' {SMALL}": ["--cmap viridis"],
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


@pytest.mark.parametrize("command", LOOKS)
def test_every_look_changes_the_picture_and_nothing_else_does(mhaviz, tmp_path, command):
    pictures = []
    for number, option in enumerate(("", *LOOKS[command], "")):
        path = tmp_path / f"{number}.png"
        result = mhaviz(*shlex.split(command), "--dpi", "60", *shlex.split(option), "-o", str(path))
        assert (result.status, result.err) == (0, f"mhaviz: saved {path}\n")
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
    monkeypatch.setattr(page, "MOST_HEIGHT", 0.5)
    package.load(d_model=16, n_heads=2).attend("a b c").save("saved.safetensors")
    high = mhaviz(*shlex.split(command), "-o", "high.png")
    assert high.status == 0
    assert "inches high, more than anybody sees at once; draw fewer sentences" in high.err
    assert ("a .html file" in high.err) == (mhaviz(*shlex.split(command), "-qo", "page.html").status == 0)
    narrow = mhaviz(*shlex.split(command), "--width", "1in", "-qo", "narrow.png")
    assert narrow.status in (0, 2)

"""mhaviz diff as a user types it."""

import json
from pathlib import Path

import numpy as np
import pytest
from rounding import rounding

CLOSE = rounding(depth=2)

SMALL = ("--d-model", "16", "--n-heads", "2", "--device", "cpu")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def seeds(mhaviz, folder):
    """The same sentence with two seeds, in both formats."""
    for seed, name in (("0", "a.json"), ("1", "b.safetensors")):
        assert mhaviz("heatmap", "one two three", *SMALL, "--seed", seed, "-q", "-o", name).status == 0
    return folder


def test_a_picture_and_a_table(mhaviz, seeds):
    result = mhaviz("diff", "a.json", "b.safetensors")
    assert result.status == 0
    assert result.out.startswith("a.json and b.safetensors differ most in L0 H")
    assert "\nB − A, the change of every weight\nself-attention: one two three\n" in result.out
    assert "the heads that changed most" in result.out
    footnote = "A: a.json (random weights, seed 0, d_model 16, 2 heads, cpu); B: b.safetensors (random weights, seed 1"
    assert footnote in " ".join(result.out.split())
    assert not result.err


def test_in_numbers(mhaviz, seeds):
    data = json.loads(mhaviz("diff", "a.json", "b.safetensors", "--json").out)
    before, after = (
        np.array(json.loads(mhaviz("show", name, "--json").out)["maps"][0]["weights"], np.float32)
        for name in ("a.json", "b.safetensors")
    )
    (only,) = data["differences"]
    np.testing.assert_array_equal(np.array(only["change"], np.float32), after - before)
    m = (before.astype(float) + after) / 2
    bits = sum((p * np.log2(p / m)).sum(-1) for p in (before, after)) / 2
    np.testing.assert_allclose(only["divergence"], bits.mean(-1), atol=CLOSE)
    assert (data["unit"], data["bound"]) == ("bits", 1)
    assert [head["divergence"] for head in data["ranking"]] == sorted(only["divergence"], reverse=True)
    assert [(x["query"], x["key"]) for x in only["largest"]] == [
        tuple(divmod(int(np.abs(head).argmax()), 3)) for head in after - before
    ]
    assert (data["only_first"], data["only_second"]) == ([], [])
    assert data["source"]["second"]["seed"] == 1


def test_files(mhaviz, seeds):
    result = mhaviz("diff", "a.json", "b.safetensors", "--dpi", "40", "-o", "one.pdf", "-o", "one.json")
    assert (result.status, result.err.splitlines()) == (0, ["mhaviz: saved one.pdf", "mhaviz: saved one.json"])
    assert "holds no attention maps" in mhaviz("show", "one.json").err


OPTIONS = ["", "--head 1", "--cmap PiYG", "--vmax 0.1", "--width 3in", "--title Mine"]


def test_every_option_changes_the_picture(mhaviz, seeds):
    for i, option in enumerate([*OPTIONS, ""]):
        words = ("diff", "a.json", "b.safetensors", "--dpi", "40", *option.split(), "-q", "-o", f"{i}.png")
        assert mhaviz(*words).status == 0
    assert len({path.read_bytes() for path in seeds.glob("?.png")}) == len(OPTIONS)


def test_a_limit_for_machines(mhaviz, seeds):
    largest = json.loads(mhaviz("diff", "a.json", "b.safetensors", "--json").out)["ranking"][0]
    above, below = (f"{largest['divergence'] + x:.5f}" for x in (0.001, -0.001))
    assert mhaviz("diff", "a.json", "b.safetensors", "--fail-above", above).status == 0
    result = mhaviz("diff", "a.json", "b.safetensors", "--fail-above", below, "-o", "x.png", "--json")
    assert result.status == 3
    assert json.loads(result.out)["ranking"], "the result is shown all the same"
    assert Path("x.png").exists()
    saved, line = result.err.splitlines()
    assert saved == "mhaviz: saved x.png"
    assert line.startswith(
        f"mhaviz: expected a divergence of at most {float(below):g} bits, got {largest['divergence']:.4g} in "
        f"self L0 H{largest['head']}"
    )
    result = mhaviz("diff", "a.json", "b.safetensors", "--fail-above", "0", "-q")
    assert "; 2 heads of 2 are above" in result.err
    assert mhaviz("diff", "a.json", "a.json", "--fail-above", "0", "-q").status == 0


def test_nothing_that_a_limit_could_be_for(mhaviz, folder):
    mhaviz("heatmap", "a b c d e f", *SMALL, "--size", "3", "--pool", "max", "-q", "-o", "m.json")
    assert mhaviz("diff", "m.json", "m.json", "-q").status == 0
    result = mhaviz("diff", "m.json", "m.json", "-q", "--fail-above", "0.1")
    assert result.status == 1
    assert result.err == (
        "mhaviz: cannot tell whether too much has changed: layer 0, self, max has no divergence; compare maps by mass, "
        "whose rows sum to 1\n"
    )


def test_what_was_not_compared_is_no_success(mhaviz, folder):
    weights = np.full((3, 1, 2, 2), 0.5)
    np.save("three.npy", weights)
    np.save("one.npy", weights[:1])
    np.save("zeros.npy", weights[0] * [[[1]], [[0]]])
    for files, only in (("three.npy", "one.npy"), "three.npy"), (("one.npy", "three.npy"), "three.npy"):
        assert mhaviz("diff", *files, "-q").status == 0
        result = mhaviz("diff", *files, "--fail-above", "0.5", "-q")
        assert (result.status, result.err) == (
            1,
            f"mhaviz: cannot tell whether too much has changed: layer 1, self and 1 more only in {only}; compare files "
            "with the same maps\n",
        )
    assert mhaviz("diff", "three.npy", "one.npy", "--layer", "0", "--fail-above", "0", "-q").status == 0
    result = mhaviz("diff", "zeros.npy", "zeros.npy", "--fail-above", "0.5", "-q")
    assert (result.status, result.err) == (
        1,
        "mhaviz: cannot tell whether too much has changed: self L0 H1 has no divergence, as all its rows "
        "are zeros in both; expected some weight\n",
    )
    ranking = json.loads(mhaviz("diff", "zeros.npy", "zeros.npy", "--json").out)["ranking"]
    assert [head["divergence"] for head in ranking] == [0, None]


def test_arrays_of_the_same_name_are_told_apart(mhaviz, folder):
    for name in ("old", "new"):
        Path(name).mkdir()
        np.save(f"{name}/w.npy", np.eye(2))
        np.savez(f"{name}/w.npz", first=np.eye(2), second=np.eye(2))
    footnote = "A: old/w.npy; B: new/w.npy"
    assert footnote in mhaviz("diff", "old/w.npy", "new/w.npy").out
    result = mhaviz("diff", "old/w.npz", "new/w.npz", "--name", "first", "--json")
    assert json.loads(result.out)["source"]["footnote"] == "A: old/w.npz, first; B: new/w.npz, first"


def test_what_is_only_in_one_file(mhaviz, folder):
    mhaviz("heatmap", "one two", "three", *SMALL, "-q", "-o", "a.json")
    mhaviz("heatmap", "one two", "three", "four", *SMALL, "-q", "-o", "b.json")
    result = mhaviz("diff", "a.json", "b.json")
    assert result.status == 0
    assert result.err == "mhaviz: only in b.json: sentence 2, layer 0, self\n"


def test_arrays_of_another_tool(mhaviz, folder):
    np.save("a.npy", np.eye(2))
    np.save("b.npy", np.array([[0.5, 0.6], [0, 1]]))
    result = mhaviz("diff", "a.npy", "b.npy")
    assert result.status == 0
    assert "rows that do not sum to 1 are no distribution" in " ".join(result.out.split())
    assert result.err.splitlines() == [
        "mhaviz: b.npy: not all rows sum to 1; farthest from it, row 0 of self L0 H0 sums to 1.1",
        "mhaviz: b.npy: self L0 H0 has no divergence, as row 0 sums to 1.1",
    ]
    Path("l.txt").write_text("one\ntwo\n")
    mhaviz("heatmap", "one two", *SMALL, "--head", "0", "-q", "-o", "c.json")
    for pair in (("c.json", "a.npy"), ("a.npy", "c.json")):
        assert "expected the same tokens" in mhaviz("diff", *pair).err
    assert mhaviz("show", "a.npy", "--queries", "l.txt", "-q", "-o", "labelled.json").status == 0
    assert mhaviz("diff", "c.json", "labelled.json").status == 0
    result = mhaviz("diff", "c.json", "c.json", "--kind", "self")
    assert result.status == 2
    assert "c.json and c.json have their own tokens and kinds; leave out --kind" in result.err


@pytest.fixture
def arrays(folder):
    """Three heads, of which the last has one other row, slightly in one file, and altogether in another."""
    weights = np.full((3, 4, 4), 0.25)
    np.save("a.npy", weights)
    weights[2, 1] = (0.2501, 0.2499, 0.25, 0.25)
    np.save("slight.npy", weights)
    weights[2, 1] = (1, 0, 0, 0)
    np.save("b.npy", weights)
    return folder


def test_heads_that_are_not_drawn_are_checked_too(mhaviz, arrays):
    result = mhaviz("diff", "a.npy", "b.npy", "--head", "0,1", "--fail-above", "0.01", "--json")
    assert result.status == 3
    assert [head["head"] for head in json.loads(result.out)["ranking"]] == [0, 1]
    assert "in self L0 H2" in result.err


def test_heads_that_only_one_file_has(mhaviz, seeds):
    mhaviz("heatmap", "one two three", *SMALL, "--head", "1", "-q", "-o", "head.json")
    assert mhaviz("diff", "a.json", "head.json", "--head", "1", "--fail-above", "0", "-q").status == 0
    assert mhaviz("diff", "head.json", "a.json", "--head", "1", "-q").status == 0
    assert mhaviz("diff", "head.json", "a.json", "-q").status == 1


def test_the_limit_and_the_worst_row(mhaviz, arrays):
    m = np.array([0.625, 0.125, 0.125, 0.125])
    bits = (np.log2(1 / m[0]) + (0.25 * np.log2(0.25 / m)).sum()) / 2
    assert mhaviz("diff", "a.npy", "b.npy", "-q", "--fail-above", f"{bits / 4 + 1e-6}").status == 0
    result = mhaviz("diff", "a.npy", "b.npy", "-q", "--fail-above", "0.01")
    assert (result.status, result.err) == (
        3,
        f"mhaviz: expected a divergence of at most 0.01 bits, got {bits / 4:.4g} in self L0 H2\n",
    )
    shown = mhaviz("diff", "a.npy", "b.npy").out
    assert f"{bits:.4f} at 1" in shown
    assert mhaviz("diff", "a.npy", "b.npy", "--fail-above", "1.1").status == 2


def test_a_limit_has_as_many_digits_as_it_takes(mhaviz, arrays):
    err = mhaviz("diff", "a.npy", "slight.npy", "-q", "--fail-above", "0.0").err
    assert "expected a divergence of at most 0.0 bits, got " in err
    assert float(err.split("got ")[1].split()[0]) > 0
    got = json.loads(mhaviz("diff", "a.npy", "b.npy", "--json").out)["ranking"][0]["divergence"]
    err = mhaviz("diff", "a.npy", "b.npy", "-q", "--fail-above", f"{got - 1e-12:.15f}").err
    assert float(err.split("got ")[1].split()[0]) > got - 1e-12


def test_a_head_that_cannot_be_compared_is_no_success(mhaviz, arrays):
    weights = np.load("a.npy")
    weights[1, 3] *= 1.1
    np.save("bad.npy", weights)
    result = mhaviz("diff", "a.npy", "bad.npy", "--fail-above", "0.5")
    assert result.status == 1
    flaw = "bad.npy: self L0 H1 has no divergence, as row 3 sums to 1.1"
    assert f"mhaviz: {flaw}\n" in result.err
    assert f"mhaviz: cannot tell whether too much has changed: {flaw}; expected rows that sum to 1\n" in result.err
    rows = (line.split()[1:3] for line in result.out.split("B − A")[0].splitlines() if line.startswith(" L0"))
    assert [row for row in rows if row[1:] in (["0.0000"], ["–"])] == [["H0", "0.0000"], ["H2", "0.0000"], ["H1", "–"]]
    assert "L0 H0" not in result.err


def test_the_name_and_the_layer_of_both_files(mhaviz, folder):
    first, second = np.full((2, 2), 0.5), np.eye(2)
    np.savez("x.npz", first=first, second=second)
    np.savez("y.npz", first=second, second=second)
    np.save("layers.npy", np.stack([first, 3 * first])[:, None])
    np.save("others.npy", np.stack([second, first])[:, None])
    assert "--name: x.npz holds 2 arrays that could be weights" in mhaviz("diff", "x.npz", "y.npz").err
    named = mhaviz("diff", "x.npz", "y.npz", "--name", "first", "--json")
    layers = mhaviz("diff", "layers.npy", "others.npy", "--layer", "0", "--json")
    for result in (named, layers):
        (only,) = json.loads(result.out)["differences"]
        assert only["change"] == [(second - first).tolist()]
    assert json.loads(named.out)["source"]["footnote"] == "A: x.npz, first; B: y.npz, first"
    flaw = "layers.npy: self L1 H0 has no divergence, as row 0 sums to 3\n"
    assert flaw in mhaviz("diff", "layers.npy", "others.npy", "--layer", "1").err


def test_identical_maps(mhaviz, arrays):
    shown = mhaviz("diff", "a.npy", "a.npy").out
    assert "no weight differs" in shown
    assert "→" not in shown


def test_the_exit_statuses_are_in_the_help(mhaviz, folder):
    text = " ".join(mhaviz("diff", "--help").out.split())
    assert "3 if more has changed than --fail-above allows" in text
    assert "1 if it could not be compared; 2 for a wrong command line" in text


def test_an_input_is_no_output(mhaviz, seeds):
    for name in ("a.json", "./a.json"):
        result = mhaviz("diff", "b.safetensors", "a.json", "-o", name)
        assert result.status == 2
        assert "a.json is read, and cannot be written at the same time" in result.err


BAD = [
    (["a.json"], 2, "B"),
    (["a.json", "nothing.json"], 1, "cannot read nothing.json"),
    (["a.json", "b.safetensors", "--fail-above", "1.1"], 2, "expected bits from 0 to 1, got 1.1"),
    (["a.json", "b.safetensors", "--fail-above", "-0.1"], 2, "expected bits from 0"),
    (["a.json", "b.safetensors", "--fail-above", "nan"], 2, "expected bits from 0"),
    (["a.json", "b.safetensors", "--layer", "2"], 2, "there is no layer 2"),
    (["a.json", "other.json"], 1, "layer 0, self: expected the same tokens, but query 1 is 'two' in the first"),
    (["a.json", "masked.json"], 1, "no map is in both: the first has layer 0, self, the second layer 0, masked"),
    (["a.json", "head.json"], 1, "expected the same heads, got 0, 1 and 1; choose some with --head"),
    (["a.json", "b.safetensors", "-o", "x.safetensors"], 2, "expected a name ending in .png, .svg, .pdf, .json"),
]


@pytest.mark.parametrize(("arguments", "status", "message"), BAD, ids=[" ".join(words) for words, _, _ in BAD])
def test_bad_input_is_one_line_and_the_right_status(mhaviz, seeds, arguments, status, message):
    mhaviz("heatmap", "one TWOS THREES", *SMALL, "-q", "-o", "other.json")
    mhaviz("heatmap", "one two three", "--mask", "causal", *SMALL, "-q", "-o", "masked.json")
    mhaviz("heatmap", "one two three", "--head", "1", *SMALL, "-q", "-o", "head.json")
    before = sorted(seeds.iterdir())
    result = mhaviz("diff", *arguments, *([] if "-o" in arguments else ["-o", "out.png"]))
    assert (result.status, result.out) == (status, "")
    (line,) = result.err.splitlines()
    assert message in line
    assert sorted(seeds.iterdir()) == before


@pytest.fixture
def shaken_folder(model_folder, folder):
    """A model, and a folder with another of the same tokenizer, whose parameters are slightly others."""
    import torch
    import transformers as hf

    model = hf.AutoModel.from_pretrained(model_folder("bert"))
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    model.save_pretrained("shaken")
    hf.AutoTokenizer.from_pretrained(model_folder("bert")).save_pretrained("shaken")
    Path("t.txt").write_text("the cat sat on the mat\n\na dog\nhello world. the dog ran!\n")
    return str(model_folder("bert"))


def test_two_models_over_a_corpus(mhaviz, shaken_folder):
    command = ("diff", shaken_folder, "shaken", "--file", "t.txt", "--device", "cpu")
    result = mhaviz(*command, "-o", "d.png", "-o", "d.json", "--dpi", "40")
    assert result.status == 0, result.err
    assert result.out.startswith(f"{Path(shaken_folder).name} and shaken differ most in L")
    assert "\nself-attention: 8 heads, divergence of two models over 3 sentences, " in result.out
    data = json.loads(Path("d.json").read_text())
    means = [head["mean"] for head in data["ranking"]]
    assert (len(means), data["unit"], means) == (8, "bits", sorted(means, reverse=True))
    assert data["kinds"][0]["mean"][data["ranking"][0]["layer"]][data["ranking"][0]["head"]] == means[0]
    assert "above" not in data["ranking"][0]
    assert data["source"]["first"]["model"] != data["source"]["second"]["model"]

    page = mhaviz(*command, "-o", "d.html", "-q")
    assert (page.status, "differ most in L" in Path("d.html").read_text(encoding="utf-8")) == (0, True)

    most = means[2]
    result = mhaviz(*command, "--fail-above", f"{most!r}", "--json")
    assert result.status == 3
    last = result.err.splitlines()[-1]
    assert last.endswith("; 2 heads of 8 are above")
    assert f": expected a divergence of at most {most} bits, got " in last
    assert [head["above"] for head in json.loads(result.out)["ranking"]] == [True, True] + [False] * 6
    assert mhaviz("diff", shaken_folder, shaken_folder, "--file", "t.txt", "--fail-above", "0", "-q").status == 0

    on_disk = json.loads(mhaviz(*command[:-1], "cpu=12KiB", "--json").out)
    assert all("disk" in str(on_disk["source"][side]["device"]) for side in ("first", "second"))
    assert on_disk["kinds"] == data["kinds"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("{0}", "shaken"), 2, "got a folder; to compare models, add --file with a file of sentences"),
        (
            ("{0}", "shaken", "--file", "t.txt", "--name", "x"),
            2,
            "--name: for saved maps, and these are models",
        ),
        (("{0}", "shaken", "--file", "t.txt", "--vmax", "0.5"), 2, "--vmax: for saved maps"),
        (
            ("{0}", "shaken", "--file", "t.txt", "-o", "x.npz"),
            2,
            "expected a name ending in .png, .svg, .pdf, .json, .html",
        ),
        (("t.txt", "t.txt", "--device", "cpu"), 2, "--device: for models, which read sentences; add --file"),
        (("{0}", "shaken", "--file", "t.txt", "--layer", "7"), 2, "--layer: "),
        (("{0}", "nowhere/at-all", "--file", "t.txt"), 1, "nowhere/at-all"),
        (
            ("{0}", "shaken", "--file", "t.txt", "--fail-above", "1.5"),
            2,
            "--fail-above: expected bits from 0 to 1, got 1.5",
        ),
        (("{0}", "shaken", "--file", "none.txt"), 1, "none.txt"),
    ],
)
def test_what_two_models_cannot_do(mhaviz, shaken_folder, words, status, message):
    result = mhaviz("diff", *(word.format(shaken_folder) for word in words))
    assert (result.status, len(result.err.splitlines())) == (status, 1), result.err
    assert message in result.err


def test_a_corpus(mhaviz, shaken_folder):
    Path("many.txt").write_text("".join(f"the cat {'sat ' * (i % 4)}\na dog\n" for i in range(30)))
    command = ("diff", shaken_folder, "shaken", "--file", "many.txt", "--device", "cpu", "-q")
    result = mhaviz(*command, "--json", "--fail-above", "0")
    assert result.status == 3
    whole = json.loads(result.out)
    assert all(head["above"] for head in whole["ranking"])
    words = [head[name] for head in whole["ranking"] for name in ("query_token", "key_token")]
    assert {word.strip() for word in words} <= {"the", "cat", "sat", "a", "dog", "[CLS]", "[SEP]", "[UNK]"}
    assert all(head["low"] < head["mean"] < head["high"] for head in whole["ranking"])
    assert mhaviz(*command, "--resume", "-o", "p.json").status == 0
    assert json.loads(Path("p.json").read_text())["kinds"] == whole["kinds"]
    assert "Missing argument 'B'" in mhaviz("diff", "p.json").err
    assert "--resume: for models" in mhaviz("diff", "p.json", "p.json", "--resume").err


def test_texts_that_differ_are_said_and_with_a_limit_refused(mhaviz, seeds):
    mhaviz("heatmap", "one two three", *SMALL, "-q", "-o", "first.json")
    mhaviz("heatmap", "one warm three", *SMALL, "-q", "-o", "second.json")
    result = mhaviz("diff", "first.json", "second.json")
    assert (result.status, "the texts differ at 1 of 3 tokens: two / warm\n" in result.err) == (0, True)
    result = mhaviz("diff", "first.json", "second.json", "--fail-above", "1")
    assert (result.status, "but query 1 is 'two' in the first and 'warm' in the second" in result.err) == (1, True)
    assert "as a limit is for those" in result.err


def test_texts_with_other_spans(mhaviz, folder):
    """Beside sums over all weights of the same layer."""
    spans = {"long": [("a", 0, 2), ("b", 2, 5), ("c", 5, 8)], "short": [("b", 0, 3), ("c", 3, 6)]}
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    texts = {"long": " ".join(words), "short": " ".join(words[2:])}
    sums = {}
    for name, of_text in spans.items():
        Path(f"{name}-spans.json").write_text(json.dumps([{"name": one, "tokens": ends} for one, *ends in of_text]))
        run = ("heatmap", texts[name], *SMALL, "-q")
        assert mhaviz(*run, "--by", f"{name}-spans.json", "--query", "c", "-o", f"{name}.json").status == 0
        weights = np.array(json.loads(mhaviz(*run, "--json").out)["maps"][0]["weights"])
        begin, end = of_text[-1][1:]
        sums[name] = {one: weights[:, begin:end, i:j].sum(2).mean(1) for one, i, j in of_text}
    result = mhaviz("diff", "long.json", "short.json", "--json", "-o", "d.png")
    assert "only in long.json: a" in result.err
    (only,) = json.loads(result.out)["differences"]
    assert (only["keys"], only["queries"]) == (["a", "b", "c"], ["c"])
    before, after = (np.array([side.get(key, np.zeros(2)) for key in "abc"]).T for side in sums.values())
    np.testing.assert_allclose(np.array(only["change"])[:, 0], after - before, atol=CLOSE)
    assert only["only_first"] == {"queries": [], "keys": ["a"], "apart": []}
    assert np.array(only["second"]["chance"])[:, 0, 0].tolist() == [0, 0]
    assert mhaviz("diff", "long.json", "short.json").out.startswith("Without “a”, which had")
    assert mhaviz("diff", "long.json", "short.json", "--head", "1", "--layer", "0").status == 0
    limited = mhaviz("diff", "long.json", "short.json", "--fail-above", "1")
    assert limited.status == 1
    assert "as a limit is for one text" in limited.err

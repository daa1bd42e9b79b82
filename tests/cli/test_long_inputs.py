"""Whole files, pooled maps and windows as a user asks for them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from looking import attend
from rounding import rounding
from safetensors import safe_open

from mhaviz.api import long_inputs
from mhaviz.api.long_inputs import planned
from mhaviz.attention.pooled_map import Pooling
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.models.single_layer import RandomLayer
from mhaviz.views import scales as of_views

CLOSE = rounding()

SMALL = ("--d-model", "16", "--n-heads", "2", "--device", "cpu")
WORDS = [f"w{i % 37}" for i in range(700)]


@pytest.fixture
def book(tmp_path, monkeypatch):
    (tmp_path / "book.txt").write_text("\n\n".join(" ".join(WORDS[i : i + 50]) for i in range(0, 700, 50)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def weights():
    """All of them, as the layer gives them."""
    return attend(RandomLayer(16, 2), [" ".join(WORDS)]).maps[0].weights


def saved(result, path="map.json"):
    assert result.status == 0, result.err
    return json.loads(Path(path).read_text())["maps"]


def test_a_whole_file_is_one_input_and_is_pooled(mhaviz, book, weights):
    result = mhaviz("heatmap", "--file", "book.txt", "--whole", *SMALL, "--size", "70", "-o", "map.json")
    (only,) = saved(result)
    assert only["queries"] == only["keys"] == WORDS
    assert only["query_edges"] == only["key_edges"] == list(range(0, 701, 10))
    assert only["reduction"] == "mass"
    expected = weights.reshape(2, 70, 10, 70, 10).sum(axis=4).mean(axis=2)
    np.testing.assert_allclose(np.array(only["weights"]), expected, atol=CLOSE)
    assert result.err.splitlines()[0] == (
        "mhaviz: 700 tokens become 70 × 70 cells: each cell is the mean over up to 10 queries of their weight on up to "
        "10 keys"
    )


def test_standard_input_can_be_one_input(mhaviz, book):
    (only,) = saved(mhaviz("heatmap", "-", "--whole", *SMALL, "-o", "map.json", stdin=b"one two\nthree\n"))
    assert only["queries"] == ["one", "two", "three"]
    assert "query_edges" not in only


def test_a_short_input_is_drawn_as_ever(mhaviz):
    plain, sized = (mhaviz("heatmap", "a b c", *SMALL, "--json", *more).out for more in ([], ["--size", "3"]))
    assert plain == sized
    assert "summary" not in plain


@pytest.mark.parametrize("options", [["--size", "699"], ["--pool", "mass", "--size", "100"], []], ids=" ".join)
def test_what_makes_mhaviz_pool(mhaviz, book, options):
    (only,) = saved(mhaviz("heatmap", "--file", "book.txt", "--whole", *SMALL, *options, "-o", "map.json"))
    assert len(only["query_edges"]) - 1 < 700
    assert only["summary"]["queries"] == 700


def test_memory_decides_the_cells(mhaviz, book, monkeypatch):
    """2 heads of 4 bytes, three times over: 24 bytes a cell."""
    monkeypatch.setattr(long_inputs, "free_memory", lambda device: 4 * 24_000)
    (only,) = saved(mhaviz("heatmap", "--file", "book.txt", "--whole", *SMALL, "-o", "map.json"))
    assert len(only["query_edges"]) - 1 == 31
    result = mhaviz("heatmap", "--file", "book.txt", "--whole", *SMALL, "--size", "100")
    assert result.status == 1
    assert "--size 100 needs 234.4 KiB for 2 heads, where 23.4 KiB may be used: --size 31 would fit" in result.err


def test_all_weights_can_be_had(mhaviz, book, weights):
    (only,) = saved(mhaviz("heatmap", "--file", "book.txt", "--whole", *SMALL, "--size", "700", "-o", "map.json"))
    np.testing.assert_allclose(np.array(only["weights"]), weights, atol=CLOSE)
    assert "summary" not in only


def test_largest_weights(mhaviz, book, weights):
    arguments = ("--file", "book.txt", "--whole", *SMALL, "--size", "70", "--pool", "max")
    result = mhaviz("heatmap", *arguments, "-o", "map.json", "-o", "map.safetensors", "-o", "map.png")
    (largest,) = saved(result)
    assert largest["reduction"] == "max"
    expected = weights.reshape(2, 70, 10, 70, 10).max(axis=(2, 4))
    np.testing.assert_allclose(np.array(largest["weights"]), expected, atol=CLOSE)
    assert "each cell is the largest of up to 10 × 10 weights" in result.err
    with safe_open("map.safetensors", "np") as file:
        np.testing.assert_allclose(file.get_tensor("layer.0.self"), expected, atol=CLOSE)
        (described,) = json.loads(file.metadata()["mhaviz"])["maps"]
    assert described["key_edges"] == list(range(0, 701, 10))


def test_a_window_is_exact_and_has_its_tokens(mhaviz, book, weights):
    result = mhaviz(
        "heatmap", "--file", "book.txt", "--whole", *SMALL, "--window", "600:603,10:14", "--head", "1", "-o", "map.json"
    )
    (only,) = saved(result)
    np.testing.assert_allclose(np.array(only["weights"][0]), weights[1, 600:603, 10:14], atol=CLOSE)
    assert only["queries"] == WORDS[600:603]
    assert only["keys"] == WORDS[10:14]
    assert only["query_edges"] == [600, 601, 602, 603]
    assert only["heads"] == [1]
    assert only["summary"]["queries"] == 3
    assert "become" not in result.err


def test_the_same_command_writes_the_same_bytes(mhaviz, book):
    names = ("a.json", "b.json", "a.safetensors", "b.safetensors", "a.png", "b.png")
    arguments = ("--file", "book.txt", "--whole", "--d-model", "16", "--n-heads", "1", "--size", "50")
    for letter in "ab":
        outputs = [word for name in names if name.startswith(letter) for word in ("-o", name)]
        assert mhaviz("heatmap", *arguments, "-q", *outputs).status == 0
    for suffix in ("json", "safetensors", "png"):
        assert (book / f"a.{suffix}").read_bytes() == (book / f"b.{suffix}").read_bytes()


def test_sentences_of_unlike_length_have_scales_of_their_own(mhaviz, book):
    result = mhaviz("heatmap", " ".join(WORDS), "a b c", *SMALL, "--size", "50", "-o", "map.png")
    assert result.status == 0
    assert "in long maps, each cell is" in result.out or "each cell is the mean" in result.out
    assert result.err.count("become 50 × 50 cells") == 1


def test_source_target_and_causal_maps(mhaviz, book):
    (cross,) = saved(mhaviz("heatmap", " ".join(WORDS), "--target", "x y z", *SMALL, "--size", "50", "-o", "map.json"))
    assert np.array(cross["weights"]).shape == (2, 3, 50)
    (masked,) = saved(
        mhaviz("heatmap", "--file", "book.txt", "--whole", "--mask", "causal", *SMALL, "--size", "50", "-o", "map.json")
    )
    expected = attend(RandomLayer(16, 2, causal=True), [" ".join(WORDS)]).maps[0].weights
    np.testing.assert_allclose(
        np.array(masked["weights"]), expected.reshape(2, 50, 14, 50, 14).sum(axis=4).mean(axis=2), atol=CLOSE
    )


def test_windows_of_a_trained_model(mhaviz, tmp_path):
    path = tmp_path / "map.json"
    sentence = "the small black cat does not see my red car"
    whole = saved(mhaviz("heatmap", "--model", "translation", sentence, "-o", str(path)), path)
    parts = saved(mhaviz("heatmap", "--model", "translation", sentence, "--window", "2:5,0:4", "-o", str(path)), path)
    assert [m["kind"] for m in parts] == ["self", "masked", "cross"]
    for part, all_of_it in zip(parts, whole, strict=True):
        np.testing.assert_allclose(np.array(part["weights"]), np.array(all_of_it["weights"])[:, 2:5, :4], atol=CLOSE)
        assert part["queries"] == all_of_it["queries"][2:5]


def test_several_long_sentences(mhaviz, book):
    longer = " ".join(WORDS + WORDS[:50])
    first, second = saved(mhaviz("heatmap", " ".join(WORDS), longer, *SMALL, "--size", "50", "-o", "map.json"))
    assert (first["sentence"], second["sentence"]) == (0, 1)
    assert (first["key_edges"][-1], second["key_edges"][-1]) == (700, 750)


@pytest.mark.parametrize(("few", "announced"), [(2 * 10**9, False), (0, True)])
def test_a_long_run_is_announced(mhaviz, book, monkeypatch, few, announced):
    from mhaviz.api import long_inputs

    monkeypatch.setattr(long_inputs, "_FEW_SCORES", few)
    result = mhaviz("heatmap", "--file", "book.txt", "--whole", *SMALL, "-o", "map.json")
    assert ("mhaviz: this takes about " in result.err) == announced
    assert "become" not in mhaviz("heatmap", "--file", "book.txt", "--whole", *SMALL, "-q", "-o", "map.json").err


def test_an_interrupt_leaves_nothing(mhaviz, book, monkeypatch):
    from mhaviz.attention import short_map, tiled_pass

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(short_map, "MOST_WEIGHTS", 0)
    monkeypatch.setattr(tiled_pass.HeadBlocks, "sums", interrupt)
    result = mhaviz("heatmap", "--file", "book.txt", "--whole", *SMALL, "-o", "map.png", "-q")
    assert result.status == 130
    assert result.err == "mhaviz: interrupted\n"
    assert [path.name for path in book.iterdir()] == ["book.txt"]


BAD = [
    (["--window", "5,9"], 2, "--window: expected queries and keys such as 0:512,1000:1512 or 0:512,:, got '5,9'"),
    (["--window", "9:5,0:1"], 2, "--window: expected query positions that go up, from 0 to at most 700, got 9 to 5"),
    (["--window", "0:5,:701"], 2, "--window: expected key positions that go up, from 0 to at most 700, got 0 to 701"),
    (["--size", "0"], 2, "--size: expected at least 1 cell, got 0"),
    (["--pool", "mean"], 2, "--pool"),
]


@pytest.mark.parametrize(("options", "status", "message"), BAD, ids=[" ".join(options) for options, _, _ in BAD])
def test_bad_input_is_one_line(mhaviz, book, options, status, message):
    result = mhaviz("heatmap", "--file", "book.txt", "--whole", *SMALL, *options, "-o", "map.json")
    assert result.status == status
    (line,) = result.err.splitlines()
    assert message in line
    assert [path.name for path in book.iterdir()] == ["book.txt"]


def test_the_help_shows_all_defaults(mhaviz, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = " ".join(mhaviz("heatmap", "--help").out.replace("│", "").split())
    for default in (
        "mass",
        "auto, above most weights",
        "ink",
    ):
        assert f"[default: {default}]" in shown
    assert "150, on paper 300" in shown


def test_whole_needs_something_to_read(mhaviz, book):
    assert "--whole reads a file as one input; add --file" in mhaviz("heatmap", "a b", "--whole").err
    (book / "blank.txt").write_text("\n ...\n")
    (book / "empty.txt").write_text(" \n")
    assert "empty.txt is empty: expected text" in mhaviz("heatmap", "--file", "empty.txt", "--whole").err
    assert "expected a sentence with at least one word" in mhaviz("heatmap", "--file", "blank.txt", "--whole").err


def test_many_lines_come_with_a_hint(mhaviz, book):
    (book / "lines.txt").write_text("a b\n" * 21)
    assert "drew 21 sentences, one per line; --whole reads" in mhaviz("heatmap", "--file", "lines.txt", *SMALL).err
    assert not mhaviz("heatmap", "--file", "lines.txt", "--whole", *SMALL).err


OPTIONS = [
    ["--pool", "max"],
    ["--size", "64"],
    ["--window", "0:600,0:600"],
    ["--mask", "causal"],
    ["--head", "1"],
]


def test_every_option_changes_a_long_map(mhaviz, book):
    """The scale is that of a picture: see below."""
    found = [mhaviz("heatmap", "--file", "book.txt", "--whole", *SMALL, *one, "--json").out for one in ([], *OPTIONS)]
    assert len({json.dumps(json.loads(one)["maps"]) for one in found}) == len(found)


@pytest.mark.parametrize("words", [128, 129])
@pytest.mark.parametrize(("asked", "is_log", "high"), [
    ((), False, None), (("--vmax", "1"), False, 1.0), (("--log",), True, None),
])  # fmt: skip
def test_few_keys_and_many_have_the_same_kind_of_scale(mhaviz, monkeypatch, tmp_path, words, asked, is_log, high):
    scales = []
    draw = of_views.weight_scale
    monkeypatch.setattr(of_views, "weight_scale", lambda *arguments: scales.append(draw(*arguments)) or scales[-1])
    text = " ".join(f"w{i}" for i in range(words))
    saved = ("-o", str(tmp_path / "x.png"), "-o", str(tmp_path / "x.json"), "--dpi", "20", "-q")
    assert mhaviz("heatmap", text, "--d-model", "8", "--n-heads", "1", *asked, *saved).status == 0
    assert mhaviz("show", str(tmp_path / "x.json"), *asked, *saved[:2], *saved[4:]).status == 0
    assert len(scales) == 2
    weights = np.array(json.loads((tmp_path / "x.json").read_text())["maps"][0]["weights"])
    for drawn in scales:
        assert drawn.log == is_log
        if high or is_log:
            assert drawn.high == pytest.approx(high or weights.max())
        elif drawn.high == pytest.approx(weights.max()):  # most lies below 0.4 of it at least
            assert share_below(weights, 0.4 / 1.12 * drawn.high) < 0.9
        else:  # rounded up to 2 digits, which is at most a tenth more, from numbers that are known to 1 %
            assert share_below(weights, drawn.high / 1.12) < 0.9 <= share_below(weights, drawn.high)
            assert float(f"{drawn.high:.2g}") == drawn.high


def share_below(weights, end):
    """How much of the attention lies below."""
    return weights[weights < end].sum() / weights.sum()


def test_of_many_heads_no_more_is_kept_than_is_drawn(mhaviz, book, weights, monkeypatch):
    """2 heads of 700 × 700 weights stand for the million weights of which pictures have no pixels for each."""
    monkeypatch.setattr(long_inputs, "_MANY_CELLS", 2 * 500**2)
    monkeypatch.setattr(long_inputs, "_DRAWN_CELLS", 2 * 35**2)
    kept = []
    deliver = Delivery.deliver
    monkeypatch.setattr(
        Delivery, "deliver", lambda self, found, *more: kept.append(found) or deliver(self, found, *more)
    )
    for outputs in (["-o", "map.png"], ["-o", "map.html"], ["-o", "map.json"], ["-o", "map.json", "--size", "700"]):
        assert mhaviz("heatmap", "--file", "book.txt", "--whole", *SMALL, "-q", *outputs).status == 0
    drawn, page, data, sized = (attention[0] for attention in kept)
    expected = weights.reshape(2, 35, 20, 35, 20).sum(axis=4).mean(axis=2)
    for m in (drawn, page, data):
        np.testing.assert_allclose(m.weights, expected, atol=CLOSE)
        assert m.summary is not None
    assert page.queries_and_keys is not None
    assert sized.weights.shape == (2, 700, 700)


def test_many_heads_have_the_cells_of_the_largest_picture(monkeypatch):
    """32 layers of 32 heads; of a few heads nothing is pooled, and of very many a little is left of each."""
    monkeypatch.setattr(long_inputs, "free_memory", lambda device: 2**36)
    asked, cpu = Pooling(), torch.device("cpu")
    assert planned(asked, 512, 32 * 32, cpu, in_cells=True).size == 128
    assert planned(asked, 512, 32 * 32, cpu, in_cells=False) is None
    assert planned(asked, 512, 12 * 12, cpu, in_cells=True) is None
    assert planned(asked, 60, 32 * 32, cpu, in_cells=True) is None
    assert planned(asked, 512, 300 * 100, cpu, in_cells=True).size == 32

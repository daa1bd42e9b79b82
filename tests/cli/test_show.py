"""mhaviz show as a user types it: what heatmap has saved is drawn again."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SMALL = ("--d-model", "16", "--n-heads", "4", "--device", "cpu")
TEXT = " ".join(f"w{i % 17}" for i in range(90))
TRANSLATED = ["the small black cat does not see my red car", "--model", "translation", "--device", "cpu"]

DRAWN = {
    "several": ["one two three", "four", *SMALL, "--head", "3,0"],
    "masked": ["one two three", "--mask", "causal", *SMALL],
    "cross": ["one two three", "--target", "x y", *SMALL],
    "hostile": ["$x^2$ \x1b[31mred [bold] a\u202eb 👨‍👩‍👧 nul\x00", *SMALL],
    "pooled": [TEXT, "--size", "30", "--mask", "causal", *SMALL, "--head", "2,1"],
    "window": [TEXT, "--window", "3:40,7:9", *SMALL],
    "mixed": ["one two three", TEXT, "--size", "30", "--pool", "max", *SMALL],
    "trained": [*TRANSLATED],
    "trained, cross": [*TRANSLATED, "--kind", "cross", "--window", "1:4,0:5", "--pool", "max"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("drawn", DRAWN.values(), ids=DRAWN)
def test_the_same_picture_again(mhaviz, folder, drawn):
    small, data = ("--dpi", "40"), ("json", "safetensors")
    first = mhaviz("heatmap", *drawn, *small, *[part for s in ("png", *data) for part in ("-o", f"a.{s}")])
    assert first.status == 0, first.err
    for suffix, saved in (("json", ("png", *data)), ("safetensors", data)):  # both hold the same: one picture is enough
        sizes = small if "png" in saved else ()
        again = mhaviz("show", f"a.{suffix}", *sizes, *[part for s in saved for part in ("-o", f"{suffix}.{s}")])
        assert (again.status, again.out) == (0, first.out)
        for one in saved:
            assert (folder / f"a.{one}").read_bytes() == (folder / f"{suffix}.{one}").read_bytes(), one
    printed = [mhaviz(*words, "--json").out for words in (("heatmap", *drawn), ("show", "a.safetensors"))]
    assert printed[0] == printed[1]


def test_svg_and_pdf_are_the_same_too(mhaviz, folder):
    mhaviz("heatmap", "one two", *SMALL, "-o", "a.json", "-o", "a.svg", "-o", "a.pdf")
    assert mhaviz("show", "a.json", "-o", "b.svg", "-o", "b.pdf", "-q").status == 0
    for suffix in ("svg", "pdf"):
        assert (folder / f"a.{suffix}").read_bytes() == (folder / f"b.{suffix}").read_bytes()


LOOKS = ["--head 1,3", "--vmax 0.5", "--vmax auto", "--log", "--columns 1"]


PLAIN = {}
"""What heatmap saves when no look is asked for: the maps, and the picture."""

SAME = {("masked", "--vmax auto"), ("pooled", "--vmax auto")}  # as by default


@pytest.mark.parametrize(("drawn", "look"), [
    *(("masked", look) for look in LOOKS), *(("pooled", look) for look in ("--head 2", "--vmax auto")),
])  # fmt: skip
def test_every_look_is_that_of_heatmap(mhaviz, folder, look, drawn):
    words = DRAWN[drawn]
    if look == "--head 2":
        words = words[:-2]
    asked = ["--dpi", "40", *look.split()]
    if drawn not in PLAIN:
        mhaviz("heatmap", *DRAWN[drawn], "--dpi", "40", "-q", "-o", "a.safetensors", "-o", "plain.png")
        PLAIN[drawn] = [(folder / name).read_bytes() for name in ("a.safetensors", "plain.png")]
    maps, plain = PLAIN[drawn]
    (folder / "a.safetensors").write_bytes(maps)
    mhaviz("heatmap", *words, *asked, "-q", "-o", "a.png")
    result = mhaviz("show", "a.safetensors", *asked, "-q", "-o", "b.png")
    assert (result.status, result.out, result.err) == (0, "", "")
    assert (folder / "a.png").read_bytes() == (folder / "b.png").read_bytes()
    same = plain == (folder / "b.png").read_bytes()
    assert same == ((drawn, look) in SAME)


def test_the_maps_of_a_report(mhaviz, folder):
    mhaviz("report", "one two", *SMALL, "-q", "-o", "r.json")
    (only,) = json.loads(mhaviz("show", "r.json", "--json").out)["maps"]
    assert only["queries"] == ["one", "two"]


def several_layers(folder):
    maps = [
        {"layer": layer, "kind": "self", "queries": ["a", "b"], "keys": ["a", "b"], "heads": [5, 2]}
        | {"weights": [[[1, 0], [0.5, 0.5]], [[0.25, 0.75], [0, 1]]]}
        for layer in (0, 3)
    ]
    document = {"mhaviz": "0", "source": {"footnote": "f"}, "maps": maps}
    (folder / "x.json").write_text(json.dumps(document))


def test_a_layer_and_heads_that_are_not_0_1_2(mhaviz, folder):
    several_layers(folder)
    (only,) = json.loads(mhaviz("show", "x.json", "--layer", "3", "--head", "2", "--json").out)["maps"]
    assert (only["layer"], only["heads"], only["weights"]) == (3, [2], [[[0.25, 0.75], [0, 1]]])
    for options, message in (
        (["--layer", "1"], "--layer: there is no layer 1; the maps have layers 0 and 3"),
        (["--head", "6"], "--head: there is no head 6"),
    ):
        result = mhaviz("show", "x.json", *options)
        assert result.status == 2
        assert message in result.err


def test_an_array_of_another_tool(mhaviz, folder):
    np.save("w.npy", np.array([[[1, 0], [0.5, 0.25]]]))
    Path("l.txt").write_text("one\n[bold]\n")
    result = mhaviz("show", "w.npy", "--queries", "l.txt", "-o", "a.png", "-o", "a.safetensors")
    assert result.status == 0
    assert result.out.startswith("self-attention, w.npy: one [bold]\n")
    assert "L0 H0" in result.out
    assert result.out.rstrip().endswith("w.npy")
    notice, *saved = result.err.splitlines()
    assert notice == ("mhaviz: w.npy: not all rows sum to 1; farthest from it, row 1 of self L0 H0 sums to 0.75")
    assert saved == ["mhaviz: saved a.png", "mhaviz: saved a.safetensors"]
    assert mhaviz("show", "w.npy", "-q").err == ""
    data = json.loads(mhaviz("show", "a.safetensors", "--json").out)
    assert data["source"] == {"footnote": "w.npy", "kind": "array", "file": "w.npy"}
    assert data["maps"][0]["queries"] == ["one", "[bold]"]


@pytest.mark.parametrize("suffix", ["json", "safetensors"])
def test_mhaviz_s_own_files_take_no_labels(mhaviz, folder, suffix):
    mhaviz("heatmap", "one two", *SMALL, "-q", "-o", f"a.{suffix}")
    Path("labels.txt").write_text("one\ntwo")
    result = mhaviz("show", f"a.{suffix}", "--queries", "labels.txt", "--kind", "self")
    assert result.status == 2
    assert f"a.{suffix} has its own tokens and kinds; leave out --queries, --kind" in result.err


def test_a_long_array_is_not_blank(mhaviz, folder):
    np.save("w.npy", np.full((513, 513), 1 / 513, np.float32))
    named = {"auto.png": [], "given.png": ["--vmax", "auto"], "pale.png": ["--vmax", "1"]}
    for name, options in named.items():
        assert mhaviz("show", "w.npy", *options, "-q", "--dpi", "40", "-o", name).status == 0
    pictures = {name: (folder / name).read_bytes() for name in named}
    assert pictures["auto.png"] == pictures["given.png"] != pictures["pale.png"]
    inked = [(np.asarray(Image.open(name).convert("L")) < 200).mean() for name in named]
    assert inked[0] > 0.5 > 0.1 > inked[2], "equal weights are in the middle of the scale"
    assert "logarithmic" in mhaviz("show", "w.npy", "--log").out
    assert "logarithmic" not in mhaviz("show", "w.npy").out


def test_a_name_of_an_array_and_a_hostile_name_of_a_file(mhaviz, folder):
    np.savez("a\x1b[31m$x$.npz", first=np.eye(2), second=np.eye(3))
    result = mhaviz("show", "a\x1b[31m$x$.npz", "--name", "second", "--kind", "cross", "-o", "x.png")
    assert result.status == 0
    assert "a\\x1b[31m$x$.npz, second" in result.out
    assert "source-target attention, a\\x1b[31m$x$.npz; queries: 3 tokens, keys: 3 tokens" in result.out
    assert "\x1b" not in result.out + result.err


def test_rows_that_sum_to_2(mhaviz, folder):
    np.save("w.npy", np.array([[2, 0], [0.5, 0.48]]))
    for options, end in (((), "█ 2"), (("--vmax", "1"), "≥ 1")):
        shown = " ".join(mhaviz("show", "w.npy", *options).out.split())
        assert f"{end} rows are queries, columns keys; rows sum to between 0.98 and 2.00" in shown
        assert "a row sums to 1" not in shown


def test_layers_of_an_array(mhaviz, folder):
    np.save("w.npy", np.full((3, 2, 4, 4), 0.25))
    assert mhaviz("show", "w.npy", "-o", "x.png").out.count("self-attention, w.npy, layer ") == 3
    (only,) = json.loads(mhaviz("show", "w.npy", "--layer", "2", "--json").out)["maps"]
    assert only["layer"] == 2
    assert "four axes of an array is taken for layers" in " ".join(mhaviz("show", "--help").out.split())


def test_an_input_is_no_output(mhaviz, seed_file):
    before = Path("a.json").read_bytes()
    result = mhaviz("show", "a.json", "-o", "link.json")
    assert (result.status, result.out) == (2, "")
    assert result.err == "mhaviz: link.json is read, and cannot be written at the same time; give another name\n"
    assert Path("a.json").read_bytes() == before


@pytest.fixture
def seed_file(mhaviz, folder):
    mhaviz("heatmap", "one two", *SMALL, "-q", "-o", "a.json")
    Path("link.json").symlink_to("a.json")


BAD = [
    (["nothing.json"], 1, "cannot read nothing.json: No such file"),
    (["."], 1, "cannot read .: Is a directory"),
    (["folder.npy"], 1, "cannot read folder.npy: Is a directory"),
    (["l.txt"], 1, "cannot tell the format of l.txt: expected a name ending in .json, .npy, .npz, .safetensors, .pt"),
    (["cut.safetensors"], 1, "cannot read cut.safetensors: Error while deserializing header"),
    (["sweep.json"], 1, "sweep.json holds no attention maps"),
    (["other.json"], 1, "other.json was not saved by mhaviz"),
    (["two.npz"], 2, "--name: two.npz holds 2 arrays that could be weights; choose one of a (2, 2), b (2, 2)"),
    (["two.npz", "--name", "c"], 2, "--name: there is no array c in two.npz; it has a (2, 2), b (2, 2)"),
    (["w.npy", "--queries", "l.txt"], 2, "--queries: expected 2 labels, one per line, got 3"),
    (["w.npy", "--keys", "nothing.txt"], 1, "cannot read nothing.txt: No such file"),
    (["w.npy", "--queries", "latin.txt"], 1, "latin.txt is not UTF-8: byte 0xff in line 2; convert it"),
    (["w.npy", "--kind", "both"], 2, "--kind"),
    (["w.npy", "--head", "1"], 2, "there is no head 1"),
    (["w.npy", "--layer", "1"], 2, "there is no layer 1; the maps have layer 0 only"),
    (["w.npy", "--vmax", "2"], 2, "mhaviz: --vmax: expected a weight from 1e-30 to 1"),
    (["w.npy", "--cmap", "nothing"], 2, "mhaviz: --cmap: expected a matplotlib colormap"),
    (["w.npy", "--dpi", "3"], 2, "mhaviz: --dpi: expected at least 20, got 3"),
    (["w.npy", "--columns", "0"], 2, "mhaviz: --columns: expected at least 1, got 0"),
    (
        ["w.npy", "-o", ""],
        2,
        "the name of a file to save, ending in .png, .svg, .pdf, .json, .safetensors, .npz, .csv, .html, got none",
    ),
    (["w.npy", "-o", "x.gif"], 2, "expected a name ending in .png, .svg, .pdf, .json, .safetensors"),
    (["one.npy"], 1, "cannot read one.npy: expected weights (q_length, k_length)"),
    ([], 2, "FILE"),
]


@pytest.mark.parametrize(("arguments", "status", "message"), BAD, ids=[" ".join(words) for words, _, _ in BAD])
def test_bad_input_is_one_line_and_the_right_status(mhaviz, folder, arguments, status, message):
    (folder / "folder.npy").mkdir()
    (folder / "l.txt").write_text("a\nb\nc\n")
    (folder / "latin.txt").write_bytes(b"a\nb\xff")
    (folder / "cut.safetensors").write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00{")
    (folder / "sweep.json").write_text('{"mhaviz": "0", "source": {"footnote": ""}, "sweep": []}')
    (folder / "other.json").write_text('{"a": [1, 2]}')
    np.savez("two.npz", a=np.eye(2), b=np.eye(2))
    np.save("w.npy", np.eye(2))
    np.save("one.npy", np.ones(2))
    before = sorted(folder.iterdir())
    result = mhaviz("show", *arguments, *([] if "-o" in arguments else ["-o", "out.png"]))
    assert (result.status, result.out) == (status, "")
    (line,) = result.err.splitlines()
    assert line.startswith("mhaviz: ")
    assert message in line
    assert sorted(folder.iterdir()) == before


def test_a_query_is_answered_as_heatmap_does_or_it_is_said_why_not(mhaviz, folder):
    text, query = "the animal did not cross the street", ("--query", "street")
    asked = mhaviz("heatmap", text, *SMALL, *query, "-o", "street.npz")
    assert mhaviz("heatmap", text, *SMALL, "-q", "-o", "maps.npz").status == 0
    shown = mhaviz("show", "maps.npz", *query)
    assert (shown.out, shown.err) == (asked.out, "")
    as_map = mhaviz("show", "street.npz", *query, "--as", "map")
    unasked = mhaviz("show", "street.npz", *query)
    assert (as_map.err, as_map.status, unasked.out, unasked.status) == ("", 0, as_map.out, 0)
    why = "gave the map of the query, as an answer is not possible: layer 0, self: expected"
    assert unasked.err == f"mhaviz: {why} the queries and keys of all tokens, got some of them\n"
    np.save("bare.npy", np.full((1, 5, 5), 0.2, np.float32))
    assert mhaviz("show", "bare.npy", "--query", "3").err == f"mhaviz: {why} names of tokens, got positions\n"
    assert mhaviz("heatmap", text, *SMALL, "--size", "3", "-q", "-o", "pooled.npz").status == 0
    pooled = mhaviz("show", "pooled.npz", *query).err
    assert pooled.endswith("; give 7 cells where it is computed; --as map draws the weights\n")

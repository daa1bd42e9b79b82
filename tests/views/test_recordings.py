"""Maps of a program in every medium: which attention it is stands beside its title, whatever it is called."""

from dataclasses import replace

import numpy as np
import pandas
import pytest
from drawn import texts
from hostile import HOSTILE
from made import made_map
from matplotlib.figure import Figure
from rich.cells import cell_len
from shown import heatmap_view

import mhaviz
from mhaviz.inputs.tokens import patch_tokens
from mhaviz.pages.labels import title_text
from mhaviz.pages.map_words import map_title
from mhaviz.results.attention import Attention
from mhaviz.results.axis import Axis
from mhaviz.results.result import Source
from mhaviz.views.showing import figure_of
from mhaviz.views.style import Style
from mhaviz.views.tiles.places import row_starts


def recorded(modules, n_heads=2, lengths=(4,), seed=0, **more):
    """A map a module, of as many tokens as its length."""
    maps = []
    for layer, module in enumerate(modules):
        length = lengths[layer % len(lengths)]
        tokens = tuple(map(str, range(length)))
        weights = np.random.default_rng(seed + layer).dirichlet(np.ones(length), (n_heads, length)).astype(np.float32)
        maps.append(made_map(tokens, tokens, weights, layer=layer, module=module, **more))
    return Attention(Source("recorded: a test"), tuple(maps))


def texts_of(record, **style):
    return texts(figure_of(record, Style(**style)))


def test_the_name_of_all_layers_stands_under_the_title():
    shown = texts_of(recorded([f"blocks.{i}.attn" for i in range(3)]))
    assert shown.count("blocks.*.attn") == 1
    assert "self-attention, recorded, layers 0 to 2: 4 tokens" in shown


def test_a_name_goes_with_the_title():
    assert "attn" not in texts_of(recorded(["attn"]), title="")
    assert "attn" in texts_of(recorded(["attn"]), title="Mine")


def test_a_long_name_is_cut_in_its_middle():
    sheet = figure_of(recorded(["very_long_" * 30 + "end"]), Style())
    name = next(text for text in texts(sheet) if text.startswith("very_long"))
    assert "…" in name
    assert name.endswith("end")
    assert sheet.width < 10


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "html", "json", "npz", "safetensors", "csv"])
@pytest.mark.filterwarnings("ignore:no installed font", r"ignore:the picture is \d+ inches high")
def test_any_name_is_shown_and_saved(tmp_path, suffix):
    """Above its map each, all on one page."""
    path = tmp_path / f"maps.{suffix}"
    recorded(HOSTILE).save(path)
    assert path.stat().st_size
    if suffix in ("json", "npz", "safetensors"):
        assert [m.module for m in mhaviz.read(path)] == list(HOSTILE)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_terminal_shows_any_name_in_its_width(width, show):
    lines = show(heatmap_view(recorded(HOSTILE)), width).split("\n")
    assert all(cell_len(line) <= width for line in lines)
    assert not any(character in "".join(lines) for character in "\x1b\u202e\0")


def test_a_terminal_says_which_attention_each_is(show):
    shown = show(heatmap_view(recorded(["blocks.0.attn", "blocks.1.attn"])), 80)
    assert "self-attention, recorded, layer 1: 4 tokens  blocks.1.attn" in shown
    assert "\nblocks.0.abbbbbbbbb…bbbbbbbbbbbbb0.attn\n" in show(
        heatmap_view(recorded(["blocks.0.a" + "b" * 99 + "0.attn"])), 39
    )


def test_stages_of_other_sizes_are_laid_out_each_for_itself():
    few, many = recorded(["a"], 1, lengths=(48,)), recorded(["b"], 8, lengths=(4,))
    widths = [figure_of(one, Style()).width for one in (few, many, replace(few, maps=(*few, *many)))]
    assert widths[2] < 1.2 * max(widths[:2])


def test_titles_count_tokens_that_have_no_names(show):
    attention = recorded(["attn"], lengths=(17,))
    assert "17 tokens" in show(heatmap_view(attention), 80)
    patches = replace(attention[0], rows=Axis(patch_tokens(4, 4, 1)), columns=Axis(patch_tokens(4, 4, 1)))
    shown = texts_of(replace(attention, maps=(patches,)))
    assert "self-attention, recorded: 4 × 4 patches of an image" in shown
    assert title_text(map_title(patches, "recorded"), 80) == "self-attention, recorded: 4 × 4 patches of an image"


def test_labels_of_many_patches_are_where_rows_begin():
    tokens = patch_tokens(14, 14, 1)
    assert [tokens.texts[i] for i in row_starts(tokens, 5)] == ["token 0", *(f"{row},0" for row in range(1, 14))]
    assert [tokens.texts[i] for i in row_starts(tokens, 40)] == ["token 0", "5,0", "10,0"]
    assert row_starts(patch_tokens(2, 3), 1) == (0, 3)
    axis = Axis(tokens)
    m = made_map(axis.tokens.texts, axis.tokens.texts, np.full((1, 197, 197), 1 / 197, np.float32), module="attn")
    shown = texts_of(Attention(Source("s"), (replace(m, rows=axis, columns=axis),)))
    assert shown.count("13,0") == 2
    assert "0,4" not in shown


def test_tables_have_the_module_and_the_pass_where_they_are_known(tmp_path):
    names = ["blocks.0.attn", "=1+1"]
    one = recorded(names)
    film = Attention(one.source, tuple(m for i in (0, 100) for m in recorded(names, pass_number=i)))
    plain = recorded(["", ""])
    assert "module" not in plain.to_dataframe()
    assert [*one.to_dataframe()][:2] == ["module", "sentence"]
    frame = film.to_dataframe()
    assert [*frame][:2] == ["module", "pass"]
    film.save(tmp_path / "film.csv")
    read = pandas.read_csv(tmp_path / "film.csv", dtype={"weight": np.float32, "query": str, "key": str})
    pandas.testing.assert_frame_equal(read, frame, check_dtype=False)
    mixed = Attention(one.source, (one[0], plain[1]))
    assert mixed.to_dataframe()["module"].unique().tolist() == ["blocks.0.attn", ""]


@pytest.mark.parametrize("suffix", ["json", "npz", "safetensors"])
def test_passes_and_examples_are_read_back(tmp_path, suffix):
    maps = [m for i in (0, 100) for e in (0, 1) for m in recorded(["a.0", "a.1"], pass_number=i, sentence=e)]
    attention = Attention(Source("recorded"), tuple(maps))
    attention.save(tmp_path / f"film.{suffix}")
    read = mhaviz.read(tmp_path / f"film.{suffix}")
    assert [(m.module, m.pass_number, m.sentence) for m in read] == [
        (m.module, m.pass_number, m.sentence) for m in attention
    ]
    for m, original in zip(read, attention, strict=True):
        np.testing.assert_array_equal(m.weights, original.weights)


@pytest.mark.parametrize(
    ("field", "value"), [("module", 3), ("module", None), ("pass", -1), ("pass", "0"), ("pass", True)]
)
def test_a_wrong_field_is_named(tmp_path, field, value):
    import json

    recorded(["attn"]).save(tmp_path / "maps.json")
    document = json.loads((tmp_path / "maps.json").read_text())
    document["maps"][0][field] = value
    (tmp_path / "maps.json").write_text(json.dumps(document))
    with pytest.raises(mhaviz.MhavizError, match=field):
        mhaviz.read(tmp_path / "maps.json")


@pytest.mark.parametrize("module", ["$h$.0.attn", "x" * 99])
def test_axes_of_the_user_name_the_attention(module):
    ax = Figure().subplots()
    recorded([module], sentence=1).select(head=0).plot(ax=ax)
    head, name = ax.get_title().split("\n")
    assert head == "L0 H0"
    assert name == module or ("…" in name and len(name) < 80)
    ax.figure.canvas.draw()


def test_a_difference_names_the_attention_of_both_programs():
    before, after = recorded(["h.0.attn"]), recorded(["blocks.0.attn"], seed=1)
    assert "A: h.0.attn, B: blocks.0.attn" in texts_of(mhaviz.diff(before, after))
    assert "h.0.attn" in texts_of(mhaviz.diff(before, recorded(["h.0.attn"], seed=1)))
    assert "B: h.0.attn" in texts_of(mhaviz.diff(recorded([""], seed=1), before))

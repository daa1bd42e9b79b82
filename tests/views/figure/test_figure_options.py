"""What users choose for a paper or a talk: width, letters, title, footnote, numbers, names of the sides."""

import io
from dataclasses import replace

import numpy as np
import pytest
from drawn import images, inside, texts
from made import made_map
from PIL import Image
from shown import heatmap_figure

from mhaviz.errors import ArgumentError
from mhaviz.results.attention import Attention
from mhaviz.results.result import Source
from mhaviz.views.style import Style


def attention_of(n_tokens=6, n_heads=8, n_sentences=1):
    generator = np.random.default_rng(0)
    maps = []
    for sentence in range(n_sentences):
        length = n_tokens + sentence
        tokens = tuple(f"word{i}" for i in range(length))
        weights = generator.dirichlet(np.ones(length), (n_heads, length)).astype(np.float32)
        maps.append(made_map(tokens, tokens, weights, sentence=sentence if n_sentences > 1 else None))
    return Attention(Source("a source"), tuple(maps))


def inches(sheet):
    """Of the PNG, from its pixels and what it says of them."""
    stream = io.BytesIO()
    sheet.save(stream, "png")
    image = Image.open(stream)
    return tuple(pixels / dpi for pixels, dpi in zip(image.size, image.info["dpi"], strict=True))


@pytest.mark.parametrize(("width", "font_size", "n_tokens", "n_heads"), [
    (3.3, None, 40, 4), (3.3, 6, 12, 16), (6.9, 6, 1, 1), (6.9, None, 12, 16),
    (13.33, None, 1, 1), (13.33, None, 40, 4),
])  # fmt: skip
def test_a_picture_is_as_wide_as_it_is_wanted(width, font_size, n_tokens, n_heads):
    sheet = heatmap_figure(attention_of(n_tokens, n_heads), Style(width=width, font_size=font_size))
    inside(sheet)
    assert inches(sheet)[0] == pytest.approx(width, abs=0.02)


def test_more_than_fits_into_a_width_is_refused():
    with pytest.raises(ArgumentError, match=r"width`: expected at least 1\d\.\d inches .* got 3; .* `columns`"):
        heatmap_figure(attention_of(6, 30), Style(width=3, columns=30))


@pytest.mark.parametrize("size", [4, 8, 16])
def test_labels_are_as_large_as_they_are_wanted(size):
    sheet = heatmap_figure(attention_of(3, 1), Style(font_size=size))
    (label,) = {text.get_fontsize() for text in sheet.page.texts if text.get_text() == "word1"}
    assert label == size


def test_a_title_of_ones_own():
    attention = attention_of(3, 1)
    assert "self-attention, a source: word0 word1 word2" in texts(heatmap_figure(attention))
    titled = heatmap_figure(attention, Style(title="Figure $1$ [bold]"))
    assert "Figure $1$ [bold]" in texts(titled)
    assert not any("self-attention" in text for text in texts(titled))
    assert titled.heading == "Figure $1$ [bold]"
    without = heatmap_figure(attention, Style(title=""))
    assert not any("self-attention" in text for text in texts(without))
    assert without.height < titled.height


def test_a_title_over_several_sentences_leaves_them_theirs():
    sheet = heatmap_figure(attention_of(3, 2, n_sentences=2), Style(title="Both"))
    assert texts(sheet)[0] == "Both"
    assert sum("self-attention" in text for text in texts(sheet)) == 2


def numbers_in(sheet):
    return sum(
        len(outlines.get_offsets())
        for outlines in sheet.page.collections
        if str(outlines.get_label()).startswith("numbers")
    )


@pytest.mark.parametrize(("n_tokens", "there"), [(3, 9), (12, 144), (13, 0)])
def test_numbers_are_there_if_tokens_are_few(n_tokens, there):
    tokens = tuple(map(str, range(n_tokens)))
    even = np.full((1, n_tokens, n_tokens), 1 / n_tokens, np.float32)
    attention = Attention(Source("s"), (made_map(tokens, tokens, even),))
    assert numbers_in(heatmap_figure(attention)) == there


@pytest.mark.parametrize("n_tokens", [3, 40, 200])
def test_the_sides_are_named_once(n_tokens):
    sheet = heatmap_figure(attention_of(n_tokens, 3), Style(columns=2))
    inside(sheet)
    names = {text.get_text(): text.get_position() for text in sheet.page.texts if text.get_text() in ("query", "key")}
    assert texts(sheet).count("query") == texts(sheet).count("key") == 1
    tiles = [image.get_extent() for image in images(sheet, "L0 H")]
    assert names["query"][0] < min(left for left, *_ in tiles)
    assert names["key"] == pytest.approx((sum(tiles[2][:2]) / 2, names["key"][1])), "under the last row"
    assert names["key"][1] > max(bottom for *_, bottom, _ in tiles)


def test_sixteen_heads_of_twelve_tokens_fit_a_page():
    sheet = heatmap_figure(attention_of(12, 16))
    assert sheet.width <= 13.34
    assert sheet.height <= 10
    sizes = {text.get_fontsize() for text in sheet.page.texts if text.get_text().startswith("word")}
    assert min(sizes) >= 6.5


def test_sentences_are_in_line_and_share_a_scale_and_its_bar():
    sheet = heatmap_figure(attention_of(5, 4, n_sentences=3))
    inside(sheet)
    assert len(images(sheet, "scale of")) == 1
    for head in range(4):
        tiles = images(sheet, f"L0 H{head}")
        assert len({round(tile.get_extent()[0], 6) for tile in tiles}) == 1, "one above the other"
        assert len({tile.norm.vmax for tile in tiles}) == 1
    cells = {round((x1 - x0) / tile.get_array().shape[1], 6) for tile in images(sheet, "L0 H")
             for x0, x1, *_ in [tile.get_extent()]}  # fmt: skip
    assert len(cells) == 1, "of cells of one size"


def test_the_bar_tells_of_all_that_share_it():
    attention = attention_of(5, 1, n_sentences=2)
    low = replace(attention.maps[0], weights=np.full_like(attention.maps[0].weights, 0.2))
    sheet = heatmap_figure(Attention(attention.source, (low, attention.maps[1])), Style(vmax=0.3))
    assert "≥ 0.3" in texts(sheet), "although nothing is in the first sentence, beside which it stands"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"width": 0.5}, "expected 1 to 100 inches, got 0.5"),
        ({"font_size": 200}, "expected 2 to 72 points, got 200"),
        ({"width": float("nan")}, "got nan"),
    ],
)
def test_sizes_that_no_page_has(wrong, message):
    with pytest.raises(ArgumentError, match=message):
        Style(**wrong)


@pytest.mark.parametrize("width", [3.3, 7])
@pytest.mark.parametrize(("n_tokens", "n_heads"), [(2, 8), (9, 1), (30, 4)])
def test_names_keep_to_the_width(width, n_tokens, n_heads):
    sheet = heatmap_figure(attention_of(n_tokens, n_heads), Style(width=width))
    inside(sheet)
    assert inches(sheet)[0] == pytest.approx(width, abs=0.02)

"""How large a page is, and what is said of one that is too large."""

import re
from dataclasses import replace

import numpy as np
import pytest

import mhaviz
from mhaviz.errors import MhavizError
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import WEIGHT
from mhaviz.results.result import Source
from mhaviz.views.html import size
from mhaviz.views.html.contents import contents_of
from mhaviz.views.html.size import MapBytes, PageSize, prefers_codes
from mhaviz.views.style import Style


def test_queries_and_keys_are_preferred_where_they_are_fewer():
    assert prefers_codes(32, 512)
    assert not prefers_codes(64, 200)


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        ([MapBytes(8, 0, 2 * 2 * 10**5 * 64 * 8, True)] * 2, r"the page would be about 52\d\.\d MiB .* 256\.0 MiB"),
        ([MapBytes(10_000, 10_000 * 4)], r"for 10,000 heads, and browsers open at most .* 5,000 heads well"),
        ([MapBytes(144, 144 * 4096**2)], r"for 144 heads, .* take fewer with `head` or `layer`, a shorter text"),
    ],
)
def test_what_is_too_large_says_how_large_and_what_to_do(maps, message):
    with pytest.raises(MhavizError, match=message):
        PageSize.of(maps).require_fit(())


def test_the_sizes_of_the_readme_fit():
    twelve_layers = [MapBytes(12, 0, 12 * 2 * 512 * 64 * 2, True)] * 12
    size = PageSize.of(twelve_layers)
    size.require_fit(())
    assert size.bytes < 27e6


def test_few_weights_stay_what_they_are_and_more_have_fewer_bits():
    assert PageSize.of([MapBytes(72, 72 * 16**2)]).bits == 32
    assert PageSize.of([MapBytes(8, 8 * 512**2)]).bits == 16
    assert PageSize.of([MapBytes(144, 144 * 512**2)]).bits == 10


@pytest.mark.parametrize("are_kept", [False, True])
def test_the_guess_is_near(tmp_path, are_kept):
    attention = mhaviz.load("random").attend([" ".join(map(str, range(400)))])
    without = replace(attention, maps=tuple(replace(m, queries_and_keys=None) for m in attention.maps))
    require_near(attention if are_kept else without, tmp_path)


def require_near(record, tmp_path):
    record.save(tmp_path / "page.html")
    written = (tmp_path / "page.html").stat().st_size
    assert written / 1.6 < contents_of(record, Style()).bytes < written * 1.6


def test_the_guess_of_a_difference_is_near(tmp_path):
    """The weights of both sides are written, though each could be computed."""
    before, after = (mhaviz.load("random", seed=seed).attend(" ".join(map(str, range(300)))) for seed in (0, 1))
    assert before[0].queries_and_keys is not None
    require_near(mhaviz.diff(before, after), tmp_path)


def test_queries_and_keys_of_two_maps_count_once(tmp_path):
    alone = mhaviz.load("random").attend(" ".join(map(str, range(1200))), size=64, page=True)
    largest = replace(alone.maps[0], quantity=replace(WEIGHT, reduction="max"))
    both = replace(alone, maps=(*alone.maps, largest))
    require_near(both, tmp_path)
    assert contents_of(both, Style()).bytes < 1.3 * contents_of(alone, Style()).bytes


def test_heads_of_a_difference_are_counted_once():
    size = PageSize.of([MapBytes(2000, 3 * 2000 * 4, parts=3)])
    assert size.n_heads == 2000
    size.require_fit(())


def test_a_window_of_a_long_input_has_a_page(mhaviz, tmp_path, monkeypatch):
    """Queries and keys of all its tokens would be too large, and are not kept."""
    monkeypatch.setattr(size, "MOST_BYTES", 2**21)
    (tmp_path / "long.txt").write_text(" ".join(["word"] * 2_000))
    assert mhaviz("heatmap", "--file", tmp_path / "long.txt", "-o", tmp_path / "all.html").status == 1
    page = tmp_path / "page.html"
    result = mhaviz("heatmap", "--file", tmp_path / "long.txt", "--window", "0:20,0:30", "-o", page)
    assert (result.status, page.exists()) == (0, True), result.err


def test_the_command_says_it_before_it_computes(mhaviz, tmp_path, monkeypatch):
    from mhaviz.api import loaded

    monkeypatch.setattr(loaded, "pooled_maps", pytest.fail)
    words = " ".join(["word"] * 120_000)
    (tmp_path / "long.txt").write_text(words)
    result = mhaviz("heatmap", "--file", tmp_path / "long.txt", "--whole", "-o", tmp_path / "page.html")
    assert result.status == 1
    assert re.search(r"the page would be about \d+\.\d MiB.*take fewer with --head", result.err)
    assert not (tmp_path / "page.html").exists()


def test_saved_weights_of_very_many_heads(tmp_path):
    axis = Axis.of("ab")
    weights = np.full((5001, 2, 2), 0.5, np.float32)
    attention = Attention(Source("made"), (AttentionMap(weights, axis, axis),))
    with pytest.raises(MhavizError, match="for 5,001 heads"):
        attention.save(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []

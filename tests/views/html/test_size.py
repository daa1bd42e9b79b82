"""How large a page is, and what is said of one that is too large."""

import re

import numpy as np
import pytest

from mhaviz.errors import MhavizError
from mhaviz.records import Attention, AttentionMap, Axis, Source
from mhaviz.views.html.size import MapBytes, PageSize, prefers_codes


def test_queries_and_keys_are_preferred_where_they_are_fewer():
    assert prefers_codes(32, 512)
    assert not prefers_codes(64, 200)


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        ([MapBytes(8, 0, 2 * 2 * 10**5 * 64 * 8, True)] * 2, r"the page would be about 52\d\.\d MiB, .* 256\.0 MiB"),
        ([MapBytes(10_000, 10_000 * 4)], r"at most 5,000 heads in a page for the browser, got 10,000, about"),
        ([MapBytes(144, 144 * 4096**2)], r"has 144 heads; take fewer with `head` or `layer`, a shorter text"),
    ],
)
def test_what_is_too_large_says_how_large_and_what_to_do(maps, message):
    with pytest.raises(MhavizError, match=message):
        PageSize.of(maps).require_fit()


def test_the_sizes_of_the_readme_fit():
    twelve_layers = [MapBytes(12, 12 * 512**2, 12 * 2 * 512 * 64 * 2, True)] * 12
    size = PageSize.of(twelve_layers)
    size.require_fit()
    assert size.bytes < 27e6


def test_small_weights_have_sixteen_bits_and_large_ones_eight():
    assert PageSize.of([MapBytes(8, 8 * 20**2)]).bits == 16
    assert PageSize.of([MapBytes(144, 144 * 512**2)]).bits == 8


@pytest.mark.parametrize("queries_and_keys", [False, True])
def test_the_guess_is_near(mhaviz, tmp_path, queries_and_keys, monkeypatch):
    from mhaviz.api.loaded import load

    attention = load("random").attend([" ".join(map(str, range(400)))], queries_and_keys=queries_and_keys)
    guesses = []
    real = PageSize.require_fit
    monkeypatch.setattr(PageSize, "require_fit", lambda self: guesses.append(self.bytes) or real(self))
    attention.save(tmp_path / "page.html")
    written = (tmp_path / "page.html").stat().st_size
    assert written / 1.6 < guesses[-1] < written * 1.6


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
    with pytest.raises(MhavizError, match="got 5,001"):
        attention.save(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []

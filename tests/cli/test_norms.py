"""Norms instead of weights, on the command line."""

import json

import numpy as np
import pytest

from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import NORM
from mhaviz.views.scales import weight_scale
from mhaviz.views.style import Style


def plain(text):
    return " ".join(text.split())


def test_a_heatmap_of_norms_says_what_it_shows(mhaviz, tmp_path):
    path = tmp_path / "norms.json"
    shown = mhaviz("heatmap", "hello there my friend", "--show", "norms", "--head", "0", "-o", str(path))
    assert shown.status == 0
    assert "norms of self-attention" in shown.out
    assert NORM.remark in plain(shown.out)
    assert "a row sums to" not in plain(shown.out)
    (m,) = json.loads(path.read_text())["maps"]
    assert m["norm"] is True
    assert np.array(m["weights"]).shape == (1, 4, 4)
    again = mhaviz("show", str(path))
    assert NORM.remark in plain(again.out)


def test_pooled_norms_and_their_summary(mhaviz):
    words = " ".join(f"w{i}" for i in range(12))
    shown = plain(mhaviz("heatmap", words, "--show", "norms", "--size", "4", "--head", "0").out)
    assert "each cell is the mean over up to 3 queries of the sum of their norms on up to 3 keys" in shown
    summary = plain(mhaviz("heatmap", words, "--show", "norms", "--size", "4", "--head", "0").out)
    assert "largest norm" in summary
    assert "entropy of the weights, in nats" in summary
    assert "sinks: keys by the norm they receive, a share of all" in summary


def test_a_difference_of_norms_has_no_divergence(mhaviz, tmp_path):
    paths = [str(tmp_path / f"{seed}.json") for seed in range(2)]
    for seed, path in enumerate(paths):
        assert mhaviz("heatmap", "a b c", "--show", "norms", "--seed", str(seed), "-q", "-o", path).status == 0
    shown = plain(mhaviz("diff", *paths).out)
    assert "norms are no distribution: they have no divergence" in shown
    assert "of the norm that has changed most" in shown
    pooled = [str(tmp_path / f"pooled-{seed}.json") for seed in range(2)]
    for seed, path in enumerate(pooled):
        options = ("--show", "norms", "--size", "2", "--seed", str(seed), "-q", "-o", path)
        assert mhaviz("heatmap", "a b c d", *options).status == 0
    assert "queries of the sum of their norms on up to 2 keys" in plain(mhaviz("diff", *pooled).out)


def test_what_does_not_go_with_norms(mhaviz):
    assert mhaviz("heatmap", "a b", "--show", "outputs").status == 2
    assert "--show" in mhaviz("heatmap", "--help").out


def test_the_scale_of_norms_may_end_above_1(mhaviz, tmp_path):
    path = str(tmp_path / "norms.json")
    shown = mhaviz("heatmap", "a b c", "--show", "norms", "--vmax", "30", "-o", path)
    assert " 30 rows are queries" in plain(shown.out)
    assert " 30 rows are queries" in plain(mhaviz("show", path, "--vmax", "30").out)
    assert mhaviz("show", path, "--vmax", "30", "--log", "-o", str(tmp_path / "a.png")).status == 0
    other = str(tmp_path / "other.json")
    assert mhaviz("heatmap", "a b c", "--show", "norms", "--seed", "1", "-q", "-o", other).status == 0
    assert " 30 " in plain(mhaviz("diff", path, other, "--vmax", "30").out)
    endless = mhaviz("heatmap", "a", "--show", "norms", "--vmax", "inf")
    assert (endless.status, endless.err) == (
        2,
        "mhaviz: --vmax: expected a number from 1e-30 to 1e+30, or auto, got inf\n",
    )


@pytest.mark.parametrize("command", ["show", "diff"])
def test_the_scale_of_weights_may_not(mhaviz, tmp_path, command):
    paths = [str(tmp_path / f"weights-{seed}.json") for seed in range(1 + (command == "diff"))]
    for seed, path in enumerate(paths):
        assert mhaviz("heatmap", "a b c", "--seed", str(seed), "-q", "-o", path).status == 0
    refused = mhaviz(command, *paths, "--vmax", "2", "-o", str(tmp_path / "a.png"))
    assert refused.status == 2
    assert "--vmax: expected a weight from 1e-30 to 1, or auto, got 2.0" in refused.err
    assert not (tmp_path / "a.png").exists()


def test_a_logarithmic_scale_of_norms_does_not_end_at_1():
    """Of norms that are nearly alike, and larger than any weight."""
    norms = AttentionMap(np.full((1, 3, 3), 5.0, np.float32), Axis.of("abc"), Axis.of("abc"), quantity=NORM)
    scale = weight_scale(Style(log=True), [norms])
    assert scale.low < 5 < scale.high

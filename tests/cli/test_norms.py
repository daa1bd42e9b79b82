"""Norms instead of weights, on the command line."""

import json

import numpy as np

from mhaviz.records import NORM, AttentionMap, Axis
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
    shown = plain(mhaviz("heatmap", words, "--show", "norms", "--size", "4", "--head", "0", "--no-summary").out)
    assert "each cell is the mean over up to 3 queries of their norm on up to 3 keys" in shown
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


def test_what_does_not_go_with_norms(mhaviz):
    result = mhaviz("heatmap", "a b", "--show", "norms", "--rollout")
    assert result.status == 2
    assert "--rollout goes with weights, whose rows sum to 1, as those of --show norms do not" in result.err
    assert "--show" in mhaviz("heatmap", "--help-all").out
    assert "--show" in mhaviz("heads", "--help-all").out


def test_a_logarithmic_scale_of_norms_does_not_end_at_1():
    """Of norms that are nearly alike, and larger than any weight."""
    norms = AttentionMap(np.full((1, 3, 3), 5.0, np.float32), Axis.of("abc"), Axis.of("abc"), quantity=NORM)
    scale = Style(log=True).weight_scale([norms])
    assert scale.low < 5 < scale.high

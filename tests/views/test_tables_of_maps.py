"""Maps as .csv and .npz files, read back by pandas, by numpy and by mhaviz."""

import json
from dataclasses import replace

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import made_map

import mhaviz
from mhaviz.errors import MhavizError
from mhaviz.results.attention import Attention
from mhaviz.results.result import Source

WORDS = ("a,b", 'say "hi"', "two\nlines", "=1+1", "NA", "", " the", "\x1b[1m", "我")


def random_maps(tokens, n_maps=2):
    generator = np.random.default_rng(0)
    maps = [
        made_map(tokens, tokens, generator.random((2, len(tokens), len(tokens))).astype(np.float32), layer=layer)
        for layer in range(n_maps)
    ]
    to_special = generator.random(2).astype(np.float32)
    return Attention(Source("s", {"kind": "test"}), (replace(maps[0], to_special=to_special), *maps[1:]))


def read_csv(path):
    return pandas.read_csv(
        path, dtype={"weight": np.float32, "query": str, "key": str}, keep_default_na=False, lineterminator="\n"
    )


def test_a_csv_file_reads_back_equal(tmp_path):
    attention = random_maps(WORDS)
    attention.save(tmp_path / "maps.csv")
    pandas.testing.assert_frame_equal(read_csv(tmp_path / "maps.csv"), attention.to_dataframe(), check_dtype=False)


@given(
    st.lists(
        st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\0"), max_size=6),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=30, deadline=None)
def test_any_tokens_read_back_equal(tmp_path_factory, tokens):
    path = tmp_path_factory.mktemp("csv") / "maps.csv"
    attention = random_maps(tuple(tokens), 1)
    attention.save(path)
    frame = read_csv(path)
    assert frame["query"].astype(str).tolist() == attention.to_dataframe()["query"].tolist()
    np.testing.assert_array_equal(frame["weight"], attention.to_dataframe()["weight"])


def test_half_a_character_is_written_as_an_escape(tmp_path):
    random_maps(("\ud800", "b"), 1).save(tmp_path / "maps.csv")
    assert "\\ud800" in (tmp_path / "maps.csv").read_text()


def test_a_npz_file_reads_back_equal_by_numpy_and_by_mhaviz(tmp_path):
    attention = random_maps(WORDS)
    attention.save(tmp_path / "maps.npz")
    with np.load(tmp_path / "maps.npz") as arrays:
        assert arrays.files == ["layer.0.self", "layer.1.self", "mhaviz.json"]
        for m in attention.maps:
            np.testing.assert_array_equal(arrays[f"layer.{m.layer}.self"], m.weights)
        assert json.loads(arrays["mhaviz.json"])["maps"][0]["queries"] == list(WORDS)
    again = mhaviz.read(tmp_path / "maps.npz")
    assert again.source == attention.source
    for m, other in zip(attention.maps, again.maps, strict=True):
        assert (m.queries, m.layer, m.heads) == (other.queries, other.layer, other.heads)
        np.testing.assert_array_equal(m.weights, other.weights)
    np.testing.assert_array_equal(again.maps[0].to_special, attention.maps[0].to_special)


def test_a_npz_file_whose_description_is_broken(tmp_path):
    random_maps(("a", "b")).save(tmp_path / "maps.npz")
    content = (tmp_path / "maps.npz").read_bytes()
    (tmp_path / "short.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(MhavizError, match=r"short\.npz"):
        mhaviz.read(tmp_path / "short.npz")

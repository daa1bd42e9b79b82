"""The one row that a mean leaves of a query, as bars of its keys, beside numpy and a model of tables."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import mhaviz as package
from mhaviz.inputs.tokens import Tokens, patch_tokens
from mhaviz.pages.attention import attention_page
from mhaviz.pages.blocks import Dots, Matrices
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.result import Source

FEATURES = ("income", "age", "rooms", "households", "latitude")
PROGRAM = """import torch
from torch import nn

class FTTransformer(nn.Module):
    def __init__(self, n_features=5, d_model=8, n_heads=2, n_layers=3):
        super().__init__()
        self.weight, self.bias = (nn.Parameter(torch.randn(n_features, d_model)) for _ in range(2))
        self.cls = nn.Parameter(torch.randn(1, 1, d_model))
        layer = nn.TransformerEncoderLayer(d_model, n_heads, 16, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)

    def forward(self, x):
        tokens = x[:, :, None] * self.weight + self.bias
        return self.encoder(torch.cat([self.cls.expand(len(x), -1, -1), tokens], dim=1))[:, 0]

torch.manual_seed(0)
model, x = FTTransformer().eval(), torch.randn(64, 5)
if __name__ == "__main__":
    model(x)
"""


def eager_weights(model, x):
    """The weights of each layer's ``nn.MultiheadAttention``, (n_layers, batch_size, n_heads, tokens, tokens)."""
    model, found = model.double(), []
    tokens = x.double()[:, :, None] * model.weight + model.bias
    out = torch.cat([model.cls.expand(len(x), -1, -1), tokens], dim=1)
    for layer in model.encoder.layers:
        y = layer.norm1(out)
        found.append(layer.self_attn(y, y, y, average_attn_weights=False)[1])
        out = layer(out)
    return torch.stack(found).detach().numpy()


@pytest.fixture(scope="module")
def of_table():
    """A small FT-Transformer, its batch, and what was recorded of it."""
    scope = {"__name__": "ft"}
    exec(PROGRAM, scope)
    with package.record(scope["model"], examples="all", tokens=("CLS", *FEATURES)) as recording, torch.no_grad():
        scope["model"](scope["x"])
    return scope["model"], scope["x"], recording.attention


def test_the_row_of_a_class_token_over_a_batch(of_table):
    model, x, recorded = of_table
    mean = recorded.mean("heads", "layers", "examples")
    expected = eager_weights(model, x).mean(axis=(0, 1, 2))
    np.testing.assert_allclose(mean[0].weights[0], expected, atol=1e-6)
    assert mean[0].mean_over == (("heads", 6), ("layers", 3), ("examples", 64))
    (bars,) = attention_page(mean.of_query("CLS")).blocks
    assert [dot.name for dot in bars.dots] == list(FEATURES), "in their order, without the class token itself"
    np.testing.assert_allclose([dot.value for dot in bars.dots], expected[0, 1:], atol=1e-6)
    np.testing.assert_allclose([dot.chance for dot in bars.dots], 1 / 6)
    assert f"itself {expected[0, 0]:.3f}" in bars.notes
    title = attention_page(mean.of_query("CLS")).title
    best = int(expected[0, 1:].argmax())
    assert f"“{FEATURES[best]}”: {expected[0, 1 + best]:.3f}, {6 * expected[0, 1 + best]:.1f} ×" in title
    assert "mean over heads, 3 layers and 64 examples of self-attention" in bars.table.heading


def test_on_the_command_line(mhaviz, tmp_path):
    (tmp_path / "ft.py").write_text(PROGRAM)
    (tmp_path / "names.txt").write_text("\n".join(("CLS", *FEATURES)))
    files = [str(tmp_path / f"bars.{suffix}") for suffix in ("svg", "html", "csv")]
    outputs = (word for file in files for word in ("-o", file))
    options = ("--examples", "all", "--tokens", str(tmp_path / "names.txt"), "--query", "CLS", "--as", "map", *outputs)
    result = mhaviz("record", *options, "--mean", "heads,layers,examples", str(tmp_path / "ft.py"))
    assert result.status == 0, result.err
    assert re.search(r"income +0\.\d{3} +█", result.out)
    svg = (tmp_path / "bars.svg").read_text()
    for words in (*FEATURES, "chance 0.167", "mean over heads, 3 layers and 64 examples of self-attention, ft.py"):
        assert words in svg
    assert "layer 0" not in svg + result.out
    assert "heads, 3 layers and 64 examples" in (tmp_path / "bars.csv").read_text()


def test_a_mean_that_is_not_defined_saves_all_maps(mhaviz, tmp_path):
    (tmp_path / "ft.py").write_text(PROGRAM)
    path = tmp_path / "all.npz"
    result = mhaviz("record", "--mean", "layers,examples", "-qo", str(path), str(tmp_path / "ft.py"))
    assert result.status == 2
    assert "--mean examples: expected several examples, got 1; leave this out, or choose several with --examples" in (
        result.err
    )
    assert f"{path} is saved" in result.err
    assert len(np.load(path).files) == 4, "three layers and what they are of"


def row(weights, keys, query=1, special=(), **more):
    """Maps of all heads of one layer in which each query has these weights."""
    axis = Axis(Tokens(keys, special))
    every = np.tile(np.array(weights, np.float32), (2, len(keys), 1))
    m = AttentionMap(every, axis, axis, **more)
    return Attention(Source("made by hand"), (m,)).mean().of_query(query)


def test_sinks_and_the_query_itself_have_no_bars():
    page = attention_page(
        row([0.6, 0.02, 0.3, 0.04, 0.03, 0.01], ("[CLS]", "a", "b", "c", "d", "[SEP]"), special=(0, 5))
    )
    (bars,) = page.blocks
    assert [dot.name for dot in bars.dots] == ["b", "c", "d"]
    assert page.title == "“a” gives no other key 2 × uniform; most to “b”: 0.300, 1.8 ×"
    assert bars.notes == "without bars: [CLS] 0.600, itself 0.020, [SEP] 0.010; grey line: uniform attention"
    assert [name for name, *_ in bars.table.rows] == ["b", "c", "d"]


def test_a_later_key_has_no_bar_and_no_chance():
    weights = np.tril(np.ones((1, 4, 4), np.float32)) / np.arange(1, 5)[:, None]
    m = AttentionMap(weights, Axis.of("abcd"), Axis.of("abcd"), "masked")
    (bars,) = attention_page(Attention(Source(""), (m,)).mean().of_query(2)).blocks
    assert [(dot.name, round(dot.chance, 6)) for dot in bars.dots] == [("a", 0.333333), ("b", 0.333333)]


def test_chance_is_not_known_of_special_tokens_that_are_cropped_and_of_norms():
    mean = row([0.5, 0.3, 0.1], ("a", "b", "c"))
    (bars,) = attention_page(mean).blocks
    assert all(np.isnan(dot.chance) for dot in bars.dots), "some weight goes to keys that are not there"
    assert [column.heading for column in bars.table.columns] == ["key", "weight", ""]


@pytest.mark.parametrize("keys", [patch_tokens(2, 2, 1).texts, tuple(map(str, range(65)))])
def test_patches_and_many_keys_stay_a_row_of_a_map(keys):
    tokens = patch_tokens(2, 2, 1) if len(keys) == 5 else Tokens(keys)
    weights = np.full((2, len(keys), len(keys)), 1 / len(keys), np.float32)
    m = AttentionMap(weights, Axis(tokens), Axis(tokens))
    given = Attention(Source(""), (m, replace(m, layer=1)))
    (block,) = attention_page(given.mean("heads", "layers").of_query(0)).blocks
    assert isinstance(block, Matrices)


def test_layers_stay_rows_where_heads_alone_are_averaged():
    m = AttentionMap(np.full((2, 3, 3), 1 / 3, np.float32), Axis.of("abc"), Axis.of("abc"))
    given = Attention(Source(""), (m, replace(m, layer=1)))
    (block,) = attention_page(given.mean().of_query(0)).blocks
    assert block.maps[0].queries == ("L0", "L1")
    texts = Attention(Source(""), tuple(replace(m, sentence=i) for i in range(2)))
    page = attention_page(texts.mean().of_query(0))
    assert [type(block) is Dots for block in page.blocks] == [False, True, False, True]


def test_hostile_names_are_shown_as_they_are(tmp_path):
    names = ("$x$", "[bold]", "<script>", "\x1b[31m", "é")
    mean = row([0.2] * 5, names, query=4)
    mean.save(tmp_path / "bars.svg")
    shown = (tmp_path / "bars.svg").read_text()
    for name in ("$x$", "[bold]", "&lt;script&gt;", "é"):
        assert name in shown
    assert "\x1b" not in shown

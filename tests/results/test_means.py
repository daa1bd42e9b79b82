"""Means of maps over heads, layers, texts and passes, beside numpy in float64, and means that are not defined."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from made import span_map
from rich.console import Console

from mhaviz.api.saved_maps import diff, read
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.inputs.tokens import Tokens
from mhaviz.pages.attention import attention_page
from mhaviz.pages.labels import title_text
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import NORM, ROLLOUT, WEIGHT
from mhaviz.results.result import Source
from mhaviz.results.saved_form import describe, restore
from mhaviz.views.html.contents import contents_of
from mhaviz.views.showing import view_of
from mhaviz.views.style import Style

CAT, DOG = ("[CLS]", " the", " cat", " sat", " here", "."), ("[CLS]", " the", " dog", " ran", " off", ".")
SPANS = (((0, 1),), ((1, 4),), ((4, 6),)), (((0, 2),), ((2, 3),), ((3, 9),))


def made(texts=CAT, n_heads=2, seed=0, kind="masked", ranges=(), special=(0,), **more):
    """A map of this text with random weights, whose rows sum to 1."""
    weights = np.random.default_rng(seed).random((n_heads, len(texts), len(texts)))
    weights = np.tril(weights) if kind == "masked" else weights
    weights = (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)
    axis = Axis(Tokens(texts, special, ranges=ranges))
    return AttentionMap(weights, axis, axis, kind, **more)


def attention(*maps, **source):
    return Attention(Source("made by hand", **source), maps)


def model(n_heads=(2, 2), texts=(CAT, DOG), **more):
    """Layers with so many heads each that read these texts."""
    return attention(
        *(
            made(text, n, 10 * i + layer, sentence=i, layer=layer, **more)
            for i, text in enumerate(texts)
            for layer, n in enumerate(n_heads)
        )
    )


def beside(mean, *weights):
    np.testing.assert_array_equal(mean, np.mean(np.stack(weights).astype(np.float64), axis=0).astype(np.float32))


def test_the_mean_of_texts_has_their_common_labels_and_positions_for_others():
    given = model()
    mean = given.mean("sentences")
    assert [(m.layer, m.sentence, m.heads) for m in mean] == [(0, None, (0, 1)), (1, None, (0, 1))]
    beside(mean[0].weights, given[0].weights, given[2].weights)
    assert mean[0].keys == ("[CLS]", " the", " #2", " #3", " #4", ".")
    assert mean[0].columns.tokens.special == (0,)
    assert [m.name for m in mean] == [f"mean over 2 sentences, layer {i}, masked" for i in range(2)]
    assert mean[1].name_of(1) == "mean over 2 sentences, masked L1 H1"
    (block,) = attention_page(mean).blocks
    assert title_text(block.title, 120).startswith(
        "mean over 2 sentences of masked self-attention, made by hand, layers 0"
    )
    assert mean.source.remark == "mean of sentences 0 to 1"
    np.testing.assert_array_equal(mean.of_query("#3")[0].weights[:, 0], mean[0].weights[:, 3])
    with pytest.raises(ArgumentError, match="is of spans already"):
        mean.by("word")


def test_texts_of_the_same_words_keep_them_and_others_have_positions():
    same, other = model(texts=(CAT, CAT)).mean("sentences"), model(texts=(CAT, tuple("abcdef"))).mean("sentences")
    assert same[0].rows.tokens == Tokens(CAT, (0,))
    assert other[0].keys == ("0", "1", "2", "3", "4", "5")
    assert other[0].columns.are_positions


@pytest.mark.parametrize("n_heads", [(2, 2), (3, 1)])
@pytest.mark.parametrize("quantity", [WEIGHT, NORM])
def test_each_head_of_all_layers_counts_the_same(n_heads, quantity):
    given = model(n_heads, quantity=quantity)
    mean = given.mean("heads", "layers")
    for i, m in enumerate(mean):
        beside(m.weights[0], *(head for one in given if one.sentence == i for head in one.weights))
        assert (m.layer, m.heads, m.sentence) == (None, (0,), i)
        assert dict(m.mean_over) == {"heads": 4, "layers": 2}
    every = given.mean("layers", "sentences", "heads")
    beside(every[0].weights[0], *(head for m in given for head in m.weights))
    assert every[0].mean_over == (("heads", 4), ("layers", 2), ("sentences", 2))
    assert every[0].name == f"mean over 2 layers and 2 sentences, masked, {every[0].quantity.key}"
    assert every.source.remark.endswith("of layers 0 to 1, of sentences 0 to 1")
    for step in (given.mean().mean("layers").mean("sentences"), given.mean("sentences").mean("layers", "heads")):
        np.testing.assert_allclose(step[0].weights, every[0].weights, rtol=1e-6)
        assert step[0].mean_over == every[0].mean_over


def test_the_mean_over_passes():
    several = [made(seed=i, pass_number=10 * i, module="attn", texts=(CAT, DOG, CAT)[i]) for i in range(3)]
    (mean,) = attention(*several).mean("passes")
    beside(mean.weights, *(m.weights for m in several))
    assert (mean.pass_number, mean.mean_over) == (None, (("passes", 3),))
    (of_heads,) = attention(*several).mean("passes", "heads")
    assert of_heads.mean_over == (("heads", 2), ("passes", 3))


def test_a_single_layer_stays_itself():
    (mean,) = attention(made(layer=4)).mean("heads", "layers")
    assert (mean.layer, mean.mean_over, mean.name) == (4, (("heads", 2),), "layer 4, masked, mean")


def test_spans_are_matched_by_name_whatever_their_length():
    names = ("ask", "answer", "ask again")
    given = [made(names, seed=i, sentence=i, ranges=SPANS[i], special=()) for i in range(2)]
    (mean,) = attention(*given).mean("sentences")
    beside(mean.weights, *(m.weights for m in given))
    assert (mean.keys, mean.has_spans) == (names, True)
    np.testing.assert_array_equal(mean.beyond, np.triu(np.ones((3, 3), bool), 1))
    assert "query_tokens" not in attention(mean).to_dataframe(), "which differ"
    others = made(("ask", "reply", "ask again"), sentence=1, ranges=SPANS[1], special=())
    with pytest.raises(ArgumentError, match=r"the same spans in the same order, query 1 is 'answer' and 'reply'$"):
        attention(given[0], others).mean("sentences")


def by_span(apart, seed, n_heads=2, names=("ask", "reply"), **more):
    """A random map by span with these columns for the rest and sinks, whose first row has no lookback ratio."""
    random = np.random.default_rng(seed)
    mass = random.dirichlet(np.ones(len(names) + len(apart)), (n_heads, len(names)))
    lookback = random.random((n_heads, len(names)))
    lookback[:, 0] = np.nan
    more = {"layer": 0, "sentence": seed, "lengths": [3 + seed, 5]} | more
    return span_map(
        names, mass, random.random((n_heads, len(names), len(names))), None, apart, lookback=lookback, **more
    )


def test_means_by_span_have_a_column_for_each_sink_of_any_text():
    given = [by_span(("(rest)", "<s>"), 0), by_span(("(rest)", "."), 1), by_span(("<s>", ".", "."), 2)]
    (mean,) = attention(*given).mean("sentences")
    assert mean.keys == ("ask", "reply", "(rest)", ".", "<s>")
    remark = attention(*given).mean("sentences").source.remark
    assert remark.endswith("a sink in some texts alone, and in the others part of a span: '.', '<s>'")
    assert "sink" not in attention(given[0], replace(given[0], sentence=1)).mean("sentences").source.remark
    for new, name in enumerate(mean.keys):
        weights = [m.weights[..., [key == name for key in m.keys]].sum(axis=-1) for m in given]
        np.testing.assert_allclose(mean.weights[..., new], np.mean(weights, axis=0), atol=1e-7)
    np.testing.assert_allclose(mean.row_sums, 1, atol=1e-6)
    np.testing.assert_allclose(mean.chance[..., :2], np.mean([m.chance[..., :2] for m in given], axis=0), rtol=1e-6)
    assert np.isnan(mean.chance[..., 2:]).all()
    np.testing.assert_allclose(mean.lookback, np.mean([m.lookback for m in given], axis=0), rtol=1e-6)
    assert "key_tokens" not in attention(mean).to_dataframe()
    every = attention(*given).mean("heads", "sentences")[0]
    np.testing.assert_allclose(every.weights[0], mean.weights.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(every.chance[0], mean.chance.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(every.lookback[0], mean.lookback.mean(axis=0), rtol=1e-6)


def test_means_by_span_over_layers_count_heads_alike():
    given = [by_span(("<s>",), 0, 2), by_span(("<s>",), 0, 3, layer=1)]
    (mean,) = attention(*given).mean("heads", "layers")
    for name in ("weights", "chance", "lookback"):
        heads = np.concatenate([getattr(m, name) for m in given]).astype(np.float64)
        np.testing.assert_allclose(getattr(mean, name)[0], heads.mean(axis=0), rtol=1e-6)
    assert mean.columns.tokens.ranges == given[0].columns.tokens.ranges


def test_means_of_other_spans_are_refused():
    given = by_span(("<s>",), 0), by_span(("<s>",), 1, names=("ask", "answer"))
    with pytest.raises(ArgumentError, match=r"the same spans in the same order, query 1 is 'reply' and 'answer'$"):
        attention(*given).mean("sentences")
    shorter = by_span((), 0), by_span((), 1, names=("ask",), lengths=[3])
    with pytest.raises(ArgumentError, match=r"the same spans in the same order, query 1 is 'reply' and no span$"):
        attention(*shorter).mean("sentences")


def test_a_mean_by_span_comes_back_from_a_file(tmp_path):
    mean = attention(by_span(("(rest)",), 0), by_span(("<s>",), 1)).mean("sentences")
    mean.save(tmp_path / "mean.json")
    (again,) = read(tmp_path / "mean.json")
    for name in ("weights", "chance", "lookback"):
        np.testing.assert_array_equal(getattr(again, name), getattr(mean[0], name))
    assert (again.rows.tokens, again.columns.tokens) == (mean[0].rows.tokens, mean[0].columns.tokens)


def test_special_tokens_that_are_left_out_and_sinks():
    shares = [np.array(share, np.float32) for share in ([0.1, 0.3], [0.5, 0.1])]
    given = [replace(made(seed=i, sentence=i), to_special=share) for i, share in enumerate(shares)]
    beside(attention(*given).mean("sentences")[0].to_special, *shares)
    beside(attention(*given).mean("sentences", "heads")[0].to_special, *(s[None] for one in shares for s in one))
    with pytest.raises(ArgumentError, match="expected special tokens in both, or in neither"):
        attention(given[0], replace(given[1], to_special=None)).mean("sentences")
    both = attention(made(sentence=0), made(sentence=1, special=(0, 5))).mean("sentences")
    assert both[0].columns.tokens.special == (0,), "special in both"
    to_first = np.full((1, 6, 6), 0.02, np.float32)
    to_first[:, :, 0] = 0.9
    texts = [replace(made(text, 1, kind="self", sentence=i), weights=to_first) for i, text in enumerate((CAT, DOG))]
    sinks = attention(*texts).mean("sentences").with_sinks()[0].sinks
    assert [(sink.key, sink.token) for sink in sinks.sinks] == [(0, "[CLS]")]
    assert sinks.sinks[0].share == pytest.approx(0.9, abs=1e-6)


def test_a_rollout_is_averaged_over_texts_alone():
    given = model((1, 1), quantity=ROLLOUT)
    mean = given.mean("heads", "sentences")
    beside(mean[0].weights, given[0].weights, given[2].weights)
    assert dict(mean[0].mean_over) == {"sentences": 2}
    assert mean[0].title_prefix == "mean over 2 sentences of rollout of "
    with pytest.raises(ArgumentError, match="a rollout goes through all layers up to its own"):
        given.mean("heads", "layers")


@pytest.mark.parametrize(
    ("given", "over", "message"),
    [
        (model(), ["layers"], "head 1 of one layer has nothing to do with head 1 of another; give `mean` heads,layers"),
        (model().select(head=1), ["layers"], "head 1 of one layer has nothing"),
        (model(), ["words"], "expected heads, layers, sentences, examples or passes, got 'words'"),
        (model(), ["examples"], "`mean` examples: the texts of these maps are sentences; give sentences"),
        (attention(made()), ["sentences"], "expected several sentences, got 1"),
        (model(), ["passes"], "expected several passes, got 1"),
        (
            model(texts=(CAT, DOG[:5])),
            ["sentences"],
            "`mean`: sentence 0, layer 0, masked, and sentence 1, layer 0, masked: expected texts of one length, got 6 "
            "and 5 queries; give `by` turn or a file of spans, or texts of one length",
        ),
        (
            attention(made(sentence=0), made(sentence=1, kind="self")),
            ["sentences"],
            "sentence 0, layer 0, masked, and sentence 1, layer 0, self: expected the same mask and heads",
        ),
        (
            attention(made(sentence=0), made(sentence=1, n_heads=3)),
            ["sentences"],
            "sentence 0, layer 0, masked, and sentence 1, layer 0, masked: expected the same mask and heads",
        ),
        (
            attention(made(layer=0), made(layer=1, reach=2)),
            ["heads", "layers"],
            "layer 0, masked, and layer 1, masked: expected the same mask",
        ),
        (
            attention(made(layer=0), made(texts=CAT[:3], layer=1)),
            ["heads", "layers"],
            "layer 0, masked, and layer 1, masked: expected the same tokens, choose others by `layer`",
        ),
        (
            attention(*(made(sentence=i, layer=layer) for i, layer in [(0, 0), (0, 1), (1, 0)])),
            ["heads", "layers", "sentences"],
            "expected the same layers and heads in all sentences",
        ),
        (
            attention(*(made(layer=i, module=f"attn{' #2' * i}") for i in range(2))),
            ["heads", "layers"],
            "it is not known whether calls 1 to 2 of attn #1 to #2 are layers",
        ),
    ],
)
def test_means_that_are_not_defined(given, over, message):
    with pytest.raises(ArgumentError, match=re.escape(message)):
        given.mean(*over)


def test_a_window_that_hides_nothing_is_the_same_mask():
    (mean,) = attention(made(layer=0), made(layer=1, reach=9)).mean("heads", "layers")
    assert (mean.reach, mean.layer) == (None, None)


def test_modules_are_layers_where_their_names_share_a_pattern():
    names = [f"{tower}.layers.{i}.attn" for tower in ("text", "vision") for i in range(2)]
    given = attention(*(made(seed=i, layer=i, module=name) for i, name in enumerate(names)))
    mean = given.mean("heads", "layers")
    assert [m.module for m in mean] == ["text.layers.*.attn", "vision.layers.*.attn"]
    beside(mean[1].weights[0], *(head for m in given.maps[2:] for head in m.weights))


@pytest.mark.parametrize("suffix", ["json", "safetensors", "npz"])
def test_a_mean_comes_back_from_a_file(tmp_path, suffix):
    mean = model().mean("heads", "layers", "sentences")
    mean.save(tmp_path / f"mean.{suffix}")
    again = read(tmp_path / f"mean.{suffix}")
    assert (again[0].name, again[0].mean_over, again[0].layer) == (mean[0].name, mean[0].mean_over, None)
    np.testing.assert_array_equal(again[0].weights, mean[0].weights)
    assert diff(mean, again).maps[0].change.name == mean[0].name
    with pytest.raises(MhavizError, match=r"no map is in both: .*mean over 2 layers and 2 sentences"):
        diff(mean, model().mean("heads", "layers"))


def test_files_of_means_that_contradict_themselves(tmp_path):
    mean = model().mean("heads", "layers", "sentences")[0]
    older = {**describe(model().mean()[0])}
    del older["mean_over"]
    assert restore(older, mean.weights).title_prefix == "mean over heads of "
    for wrong in ({"layer": 0}, {"mean_over": {}}, {"mean": False}, {"sentence": 0}, {"mean_over": {"words": 2}}):
        with pytest.raises(ValueError, match=r"mean_over|Expected|layer"):
            restore(describe(mean) | wrong, mean.weights)


def test_what_is_averaged_has_no_number_in_tables(tmp_path):
    mean = model().mean("heads", "layers", "sentences")
    frame = mean.to_dataframe()
    assert set(frame.mean_over) == {"heads, 2 layers and 2 sentences"}
    assert frame.layer.isna().all()
    assert frame.sentence.isna().all()
    mean.save(tmp_path / "mean.csv")
    first = (tmp_path / "mean.csv").read_text().splitlines()[1]
    assert first.startswith('"","","masked",0,"[CLS]"'), first


def test_no_view_names_a_layer_that_is_averaged(tmp_path):
    mean = model().mean("heads", "layers", "sentences")
    with pytest.raises(ArgumentError, match="`layer`: the maps are means over layers"):
        mean.select(layer=0)
    changed = replace(mean, maps=(replace(mean[0], weights=mean[0].weights[:, ::-1]),))
    for name, result in (("mean", mean), ("query", mean.of_query("#3")), ("change", diff(mean, changed))):
        result.save(tmp_path / f"{name}.html")
        result.save(tmp_path / f"{name}.svg")
        console = Console(record=True, file=io.StringIO(), width=100)
        console.print(view_of(result, Style()))
        shown = (tmp_path / f"{name}.svg").read_text() + console.export_text()
        shown += (tmp_path / f"{name}.html").read_text().partition("<script")[0]
        assert "2 layers" in shown, name
        assert not re.search(r"layer (0|None|null)|L0|LNone", shown), name


def test_the_page_for_the_browser_says_what_is_averaged():
    document = contents_of(model().mean("heads", "layers"), Style()).document
    of_map = document["maps"][0]
    assert (of_map["layer"], of_map["layerText"], of_map["shortNames"]) == (None, "2 layers", ["mean"])
    assert of_map["names"] == ["mean over 2 layers, sentence 0, masked, mean"]

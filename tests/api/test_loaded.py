"""What Python users call: every kind of model by its name, every study, and records that show and save themselves."""

import io
import json
import re
import sys
from inspect import signature

import numpy as np
import pytest
import torch
from made import remade
from matplotlib.figure import Figure
from PIL import Image
from rounding import rounding
from torch import nn

import mhaviz
from mhaviz.api.loaded import checked
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.results.attention import Attention
from mhaviz.results.result import Source

CLOSE = rounding()

D_MODEL, N_HEADS = 16, 4
TEXT = "the small black cat sees my car"


@pytest.fixture
def layer():
    """PyTorch's layer, whose biases are no zeros."""
    torch.manual_seed(0)
    made = nn.MultiheadAttention(D_MODEL, N_HEADS, batch_first=True).eval()
    with torch.no_grad():
        made.in_proj_bias.normal_()
        made.out_proj.bias.normal_()
    return made


def renamed(layer):
    """Its parameters as other libraries name and turn them."""
    W, b = layer.in_proj_weight.detach(), layer.in_proj_bias.detach()
    out, out_bias = layer.out_proj.weight.detach(), layer.out_proj.bias.detach()

    def apart(names, outward):
        weights = {f"{name}.weight": part for name, part in zip(names, W.chunk(3), strict=True)}
        biases = {f"{name}.bias": part for name, part in zip(names, b.chunk(3), strict=True)}
        return weights | biases | {f"{outward}.weight": out, f"{outward}.bias": out_bias}

    return {
        "nanoGPT": {"c_attn.weight": W, "c_attn.bias": b, "c_proj.weight": out, "c_proj.bias": out_bias},
        "GPT-2": {"c_attn.weight": W.T, "c_attn.bias": b, "c_proj.weight": out.T, "c_proj.bias": out_bias},
        "timm": {"qkv.weight": W, "qkv.bias": b, "proj.weight": out, "proj.bias": out_bias},
        "llama": apart(("q_proj", "k_proj", "v_proj"), "o_proj"),
        "diffusers": apart(("to_q", "to_k", "to_v"), "to_out.0"),
        "bert": apart(("query", "key", "value"), "dense"),
    }


@pytest.mark.parametrize("form", ["nanoGPT", "GPT-2", "timm", "llama", "diffusers", "bert"])
def test_parameters_under_common_names(layer, tmp_path, form):
    X = torch.randn(5, D_MODEL)
    named = {f"h.0.attn.{name}": tensor.contiguous() for name, tensor in renamed(layer)[form].items()}
    torch.save(named, tmp_path / "w.pt")
    torch.save({"x": X}, tmp_path / "x.pt")
    model = mhaviz.load(tmp_path / "w.pt", n_heads=N_HEADS, input=tmp_path / "x.pt")
    output, weights = layer(X[None], X[None], X[None], average_attn_weights=False)
    np.testing.assert_allclose(model.attend()[0].weights, weights[0].detach(), atol=CLOSE)
    traced = model.trace_shapes((), values=True).step("O").values
    np.testing.assert_allclose(traced, output.detach(), atol=CLOSE)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"k_proj.weight": torch.zeros(8, D_MODEL)}, r"w\.pt: k_proj\.weight: expected \(16, 16\), got \(8, 16\)"),
        ({"k_proj.weight": torch.tensor(1.0)}, r"w\.pt: k_proj\.weight: expected \(16, 16\), got \(\)"),
        ({"o_proj.weight": None}, r"w\.pt: expected an output projection, named Wo, out_proj, .*rename it"),
        ({"q_proj.weight": None}, "expected parameters of an attention, with one of .*; rename them, or give"),
    ],
)
def test_parameters_that_cannot_be_taken(layer, tmp_path, changed, message):
    named = renamed(layer)["llama"] | changed
    torch.save({name: tensor for name, tensor in named.items() if tensor is not None}, tmp_path / "w.pt")
    with pytest.raises(MhavizError, match=message):
        mhaviz.load(tmp_path / "w.pt")


def test_an_attention_with_a_prefix_is_named_by_it(layer, tmp_path):
    named = {f"attn.{name}": tensor for name, tensor in renamed(layer)["llama"].items() if name != "o_proj.weight"}
    torch.save(named, tmp_path / "w.pt")
    with pytest.raises(MhavizError, match=r"w\.pt: attn: expected an output projection"):
        mhaviz.load(tmp_path / "w.pt")


def test_every_kind_of_model_by_its_name(model_folder, layer, tmp_path):
    torch.save(layer.state_dict(), tmp_path / "w.pt")
    assert mhaviz.load(d_model=32, n_heads=2).n_heads == 2
    assert mhaviz.load("translation").kinds == ("self", "masked", "cross")
    assert mhaviz.load(tmp_path / "w.pt", n_heads=4).layers == (0,)
    assert mhaviz.load(model_folder("bert")).layers == (0, 1)
    (tmp_path / "notes.txt").write_text("a")
    with pytest.raises(MhavizError, match=r"cannot tell what model .*notes\.txt is: expected a file"):
        mhaviz.load(tmp_path / "notes.txt")
    with pytest.raises(MhavizError, match=r"cannot read .*nothing\.pt: No such file"):
        mhaviz.load(tmp_path / "nothing.pt")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("random", {"prefix": "a"}, "`prefix` is for a file of parameters; random is a layer with random weights"),
        (
            "translation",
            {"d_model": 8, "seed": 1},
            "`d_model` is for a layer with random weights; translation is a trained model",
        ),
        ("translation", {"keep_case": True}, "`keep_case`: translation has learnt words in lower case; leave it out"),
        ("some/model", {"keep_case": True}, "`keep_case`: whether some/model reads capitals is settled by its tokeni"),
    ],
)
def test_options_that_a_model_does_not_take(name, options, message):
    with pytest.raises(ArgumentError, match=message):
        mhaviz.load(name, **options)


def test_a_model_in_memory_is_that_of_its_folder(model_folder):
    from transformers import AutoModel, AutoTokenizer

    folder = model_folder("bert")
    theirs, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    in_memory, named = (mhaviz.load(*given).attend(TEXT, layer=1) for given in ((theirs, tokenizer), (folder,)))
    np.testing.assert_array_equal(in_memory[0].weights, named[0].weights)
    for given, message in (
        ((theirs,), "expected the model's tokenizer too, got NoneType"),
        ((object(), tokenizer), "expected a name, a path or a transformers model, got object"),
        (("random", tokenizer), "`tokenizer` goes with a model in memory"),
    ):
        with pytest.raises(ArgumentError, match=message):
            mhaviz.load(*given)


def test_a_model_in_memory_stays_as_it_was(model_folder):
    """Its user may be training it, or may go on to ask it for its own weights."""
    from transformers import AutoModel, AutoTokenizer

    folder = model_folder("bert")
    theirs, tokenizer = (
        AutoModel.from_pretrained(folder, attn_implementation="eager"),
        AutoTokenizer.from_pretrained(folder),
    )
    theirs.encoder.train()
    theirs.embeddings.eval()
    in_training = {name for name, part in theirs.named_modules() if part.training}

    found = mhaviz.load(theirs, tokenizer).attend(TEXT)

    assert {name for name, part in theirs.named_modules() if part.training} == in_training != set()
    theirs.eval()
    outputs = theirs(**tokenizer(TEXT, return_tensors="pt"), output_attentions=True)
    for m, weights in zip(found, outputs.attentions, strict=True):
        np.testing.assert_allclose(m.weights, weights[0].detach(), atol=CLOSE)


def test_a_decoder_is_loaded_again_when_it_must_write(model_folder):
    model = mhaviz.load(model_folder("llama"))
    length = len(model.attend("the cat")[0].queries)
    assert len(model.attend("the cat", generate=3)[0].queries) in range(length + 1, length + 4)
    with pytest.raises(ArgumentError, match="`generate` is for a transformers model"):
        mhaviz.load().attend("the cat", generate=3)


def test_layers_and_heads_by_their_numbers(model_folder):
    model = mhaviz.load(model_folder("bert"))
    attention = model.attend(["the cat", "a dog"], layer=1, head=[2, 0])
    assert [(m.sentence, m.layer, m.heads) for m in attention] == [(0, 1, (2, 0)), (1, 1, (2, 0))]
    assert len(model.attend("the cat")) == 2
    for asked, message in (({"layer": 7}, "`layer`: there is no layer 7; the model has"), ({"head": 9}, "no head 9")):
        with pytest.raises(ArgumentError, match=message):
            model.attend("the cat", **asked)


def test_the_command_line_and_python_give_the_same(mhaviz, tmp_path):
    import mhaviz as package

    path = tmp_path / "maps.json"
    words = ("heatmap", TEXT, "--model", "translation", "--kind", "cross", "-q", "-o", str(path))
    assert mhaviz(*words).status == 0
    package.load("translation").attend(TEXT, kind="cross").save(tmp_path / "ours.json")
    assert json.loads(path.read_text()) == json.loads((tmp_path / "ours.json").read_text())


def test_attention_shows_and_saves_itself(tmp_path, monkeypatch):
    attention = mhaviz.load(d_model=16, n_heads=2).attend("one two three")
    attention.save(tmp_path / "a.png", tmp_path / "a.json", tmp_path / "a.safetensors", cmap="viridis")
    assert attention._repr_mimebundle_()["text/html"] == attention.to_html()._repr_html_()
    monkeypatch.setattr("mhaviz.views.showing._MOST_IN_NOTEBOOK", 1000)
    assert attention._repr_mimebundle_().keys() == {"text/plain", "image/png"}
    np.testing.assert_array_equal(mhaviz.read(tmp_path / "a.safetensors")[0].weights, attention[0].weights)
    for result, written in ((attention, "a.png"), (attention[0], "b.png")):
        result.plot(cmap="viridis").savefig(tmp_path / "plotted.png")
        result.save(tmp_path / written, cmap="viridis")
        plotted, saved = (Image.open(tmp_path / name).convert("RGB") for name in ("plotted.png", written))
        assert plotted.tobytes() == saved.tobytes()
    for path, message in (("a.gif", "cannot tell the format"), ("none/a.png", "there is no folder")):
        with pytest.raises(MhavizError, match=message):
            attention.save(tmp_path / path)
    with pytest.raises(ArgumentError, match="`cmap`: expected a matplotlib colormap"):
        attention.save(tmp_path / "b.png", cmap="nothing")


def test_every_study_gives_a_record_that_saves_itself(tmp_path, model_folder):
    model = mhaviz.load(d_model=16, n_heads=2)
    attention = model.attend("one two")
    records = {
        "explanation": mhaviz.explain(model, "one two three", "two", head=1),
        "scaling": mhaviz.compare_scaling("random", "one two"),
        "masks": mhaviz.masks(model, ["one two three", "one"], dropout=0.5),
        "matrices": mhaviz.matrices(model, "one two three", head=1),
        "trace": mhaviz.trace_shapes(model, "one two"),
        "statistics": mhaviz.head_statistics(mhaviz.load(model_folder("bert")), ["the cat", "a dog"]),
        "difference": mhaviz.diff(attention, mhaviz.attend(mhaviz.load(d_model=16, n_heads=2, seed=1), "one two")),
        "report": model.report("one two"),
    }
    for name, record in records.items():
        record.save(tmp_path / f"{name}.json")
        assert json.loads((tmp_path / f"{name}.json").read_text())["source"]
        assert isinstance(record.plot(), Figure)
    assert records["explanation"].position == 1
    with pytest.raises(ArgumentError, match="got 'four'"):
        mhaviz.explain(model, "one two", "four")


def test_changes_of_a_layer_and_of_some_heads(random_map):
    layers = [random_map(4, layer=layer, seed=layer) for layer in (0, 1)]
    both, few = Attention(Source("four heads"), tuple(layers)), Attention(Source("two"), (layers[0].select((2, 0)),))
    (m,) = mhaviz.diff(both, few, layer=0, head=[2]).maps
    assert m.change.heads == (2,)
    assert not m.change.weights.any()
    with pytest.raises(MhavizError, match="expected the same heads, got 0, 1, 2, 3 and 2, 0; choose some with `head`"):
        mhaviz.diff(both, few, layer=0)
    with pytest.raises(ArgumentError, match="`layer`: there is no layer 2; the maps have layers 0 to 1"):
        mhaviz.diff(both, both, layer=2)


def test_what_cannot_be_chosen_is_said():
    model = mhaviz.load(d_model=16, n_heads=2)
    attention = model.attend("a b")
    for wrong, message in (
        (lambda: model.attend("a b", layer="0"), "`layer`: expected a whole number, or several, got '0'"),
        (lambda: model.explain("a b", "a", head="0"), "`head`: expected a whole number, or several"),
        (lambda: attention.to_html(head=1), r"a picture has no head: .* among cmap, dpi, .*; draw what select\(head"),
        (lambda: attention.plot(query="a"), r"no query: .*; draw what answer\(query\) or of_query\(query\) returns$"),
        (lambda: attention[0].plot(query="a"), r"no query: .*; draw what of_query\(query\) returns$"),
        (lambda: attention[0].save("a.png", query="a"), r"no query: .*; draw what of_query\(query\) returns$"),
        (lambda: attention[0].to_html(query="a"), r"no query: .*; draw what of_query\(query\) returns$"),
        (lambda: attention.save("a.png", mean=True), r"no mean: .*; draw what mean\(\) returns$"),
        (lambda: attention.save("a.png", colour="red"), "a picture has no colour: expected a style"),
        (lambda: attention.select(head=2), "there is no head 2; the maps have heads 0 to 1"),
    ):
        with pytest.raises(ArgumentError, match=message):
            wrong()


def test_a_data_frame_has_every_weight_in_long_form(monkeypatch):
    attention = mhaviz.load(d_model=16, n_heads=2).attend(["one two three", "four"])
    frame = attention.to_dataframe()
    assert len(frame) == 2 * 3 * 3 + 2 * 1 * 1
    row = frame[(frame["head"] == 1) & (frame["query"] == "three") & (frame["key"] == "two")]
    assert row[["query_position", "key_position"]].values.tolist() == [[2, 1]]
    assert row["weight"].item() == attention[0].weights[1, 2, 1]
    sums = frame.groupby(["sentence", "head", "query_position"])["weight"].sum()
    np.testing.assert_allclose(sums, 1, atol=CLOSE)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MhavizError, match="a data frame needs pandas; install it with pip install pandas"):
        attention.to_dataframe()


def test_numbered_arrays_are_layers(tmp_path):
    generator = np.random.default_rng(0)
    layers = {f"layer_{i}": generator.dirichlet(np.ones(4), (2, 4)).astype(np.float32) for i in range(11)}
    np.savez(tmp_path / "w.npz", **layers)
    attention = mhaviz.read(tmp_path / "w.npz")
    assert [m.layer for m in attention] == list(range(11))
    np.testing.assert_array_equal(attention[10].weights, layers["layer_10"])
    np.savez(tmp_path / "gap.npz", layer_0=layers["layer_0"], layer_2=layers["layer_1"])
    with pytest.raises(ArgumentError, match="2 arrays that could be weights"):
        mhaviz.read(tmp_path / "gap.npz")


def test_axes_show_hostile_tokens_as_text():
    """No mathematics, no control characters, and what a font lacks is said once, by us."""
    m = mhaviz.load(d_model=16, n_heads=2).attend("a b c")[0]
    ugly = remade(m, queries=("$\\frac$", "漢\x1b[31m", "a\nb"), keys=("x" * 300, "\u202eab", "👩\u200d👩"))
    ax = Figure().subplots()
    with pytest.warns(UserWarning, match="no installed font has"):
        Attention(Source("s"), (ugly,)).select(head=0).plot(ax=ax)
    ax.figure.savefig(io.BytesIO())
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[0] == "$\\frac$"
    assert all(label.isprintable() for label in labels)


@pytest.mark.parametrize(
    ("options", "kind", "name"),
    [({}, "self", "sentence 1, layer 0, self"), ({"causal": True, "reduce": "max"}, "masked", "layer 0, masked, max")],
)
def test_an_attention_map_shows_and_saves_itself(options, kind, name, tmp_path):
    query, key = torch.randn(2, 2, 4, 30, 8)
    found = mhaviz.attention_map(query, key, rows=10, columns=10, **options)
    found.save(tmp_path / "m.png", tmp_path / "m.safetensors")
    attention = mhaviz.read(tmp_path / "m.safetensors")
    assert [m.kind for m in attention] == [kind] * 2
    assert name in attention[1].name
    np.testing.assert_array_equal(attention[1].weights, found.weights[1].numpy())
    np.testing.assert_array_equal(attention[0].rows.edges, found.query_edges.numpy())
    assert "text/html" in found._repr_mimebundle_()
    words = [f"w{i}" for i in range(30)]
    assert found.to_attention(words, words)[0].keys == tuple(words)
    with pytest.raises(ArgumentError, match="expected rows of 3 tokens, got 30"):
        found.to_attention(words[:3], words)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"show": "rollout", "verify": True}, "a rollout goes through all heads; leave out `verify`"),
        ({"show": "rollout", "size": 4, "head": 0}, "leave out `size`, `head`"),
        ({"pool": "mean"}, "`pool`: expected mass or max, got 'mean'"),
        ({"head": []}, "`head`: expected at least one head, got none; the layer has heads 0 to 7"),
        ({"head": 1.5}, "`head`: expected a whole number, or several, got 1.5"),
    ],
)
def test_what_does_not_go_together_is_said_in_python_too(asked, message):
    with pytest.raises(MhavizError, match=re.escape(message)):
        mhaviz.load().attend("a b c", **asked)


def test_numbers_of_numpy_are_numbers():
    model = mhaviz.load()
    attention = model.attend("a b c", head=np.arange(1, 3))
    assert attention[0].heads == (1, 2)
    assert attention.select(head=np.int64(2))[0].heads == (2,)
    assert model.explain("a b c", np.int64(1), head=np.argmax([0, 1])).head == 1
    with pytest.raises(ArgumentError, match="`head`: expected at least one head, got none"):
        attention.select(head=[])


def test_statistics_of_one_sentence_are_not_those_of_its_letters(model_folder):
    model = mhaviz.load(model_folder("bert"))
    one, listed = model.head_statistics(TEXT), model.head_statistics([TEXT])
    np.testing.assert_array_equal(one.kinds[0].sentences, listed.kinds[0].sentences)
    assert one.kinds[0].queries == listed.kinds[0].queries


def test_a_file_of_mhaviz_brings_its_own_labels(tmp_path):
    mhaviz.load().attend("a b").save(tmp_path / "own.json")
    with pytest.raises(ArgumentError, match="has its own tokens and kinds; leave out `queries`, `kind`"):
        mhaviz.read(tmp_path / "own.json", queries=["a", "b"], kind="self")


def test_what_is_odd_about_an_array_is_told(tmp_path):
    np.save(tmp_path / "x.npy", np.full((2, 2), 0.7, np.float32))
    told = []
    mhaviz.read(tmp_path / "x.npy", on_notice=told.append)
    assert any("sum to 1" in line for line in told)
    with pytest.raises(ArgumentError, match="`kind`: expected self, masked or cross, got 'foo'"):
        mhaviz.read(tmp_path / "x.npy", kind="foo")


def test_changes_need_a_head_in_common():
    attention = mhaviz.load().attend("a b c")
    first, second = attention.select([0, 1]), attention.select([2, 3])
    with pytest.raises(MhavizError, match="no head is in both: the first has heads 0, 1, the second 2, 3"):
        mhaviz.diff(first, second, head=0)
    with pytest.raises(ArgumentError, match="`head`: there is no head 5; both have head 1 only"):
        mhaviz.diff(first, attention.select([1, 5]), head=5)


def test_a_picture_that_is_coarser_than_asked_for_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("mhaviz.views.figure.sheet.MOST_AREA", 1_000_000)
    attention = mhaviz.load().attend(TEXT)
    with pytest.warns(UserWarning, match="drawn at .* dpi instead of 600"):
        attention.save(tmp_path / "x.png", dpi=600)


def test_examples_are_the_first_sentences_that_have_a_map(model_folder):
    texts = ["the cat", " ".join(["the"] * 600), "the cat sat", "the dog ran", "a dog"]
    model, told = mhaviz.load(model_folder("bert")), []
    assert model.head_statistics(texts).examples is None
    examples = model.head_statistics(texts, examples=3, on_notice=told.append).examples
    sentences = ["".join(m.queries[1:-1]) for m in examples.maps if m.layer == 0]
    assert sentences == ["the cat", "the cat sat", "the dog ran"]
    assert not any("room" in line for line in told)


def test_examples_are_as_many_as_a_page_has_room_for(model_folder, monkeypatch, tmp_path):
    """Statistics of a long corpus are not lost for a page that would be too large at the end."""
    model, told = mhaviz.load(model_folder("bert")), []
    n_heads = sum(site.n_heads for site in model._whole.all_sites)
    monkeypatch.setattr("mhaviz.views.html.size.MOST_HEADS", 2 * n_heads)
    statistics = model.head_statistics(["the cat", "a dog", "the dog"], examples=3, on_notice=told.append)
    assert {m.sentence for m in statistics.examples.maps} == {0, 1}
    assert told == ["a page for the browser has room for the maps of 2 of 3 sentences"]
    statistics.save(tmp_path / "page.html")


def test_statistics_of_no_sentence_are_none(model_folder):
    with pytest.raises(ArgumentError, match="expected at least one sentence, got none"):
        mhaviz.head_statistics(model_folder("bert"), [])


def test_maps_are_checked_before_the_model_runs_and_after_though_attend_has_no_parameter_for_it():
    seen = []
    found = checked(mhaviz.load("random", n_heads=2), seen.append).attend("a b c")
    assert [one.maps[0].queries for one in seen] == 2 * [("a", "b", "c")]
    assert seen[-1] is found
    assert not {name for name in signature(mhaviz.attend).parameters if "check" in name}

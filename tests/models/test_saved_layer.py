"""Weights of other tools: what PyTorch's own attention gives with the same parameters on the same X."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hostile import HOSTILE
from looking import attend, calls
from rounding import rounding
from safetensors.torch import save_file
from torch import nn

from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files import saved_array
from mhaviz.layer.attention import MultiHeadAttention
from mhaviz.models import layer_inputs
from mhaviz.models.saved_attention import read_attention
from mhaviz.models.saved_layer import SavedLayer, read_inputs

CLOSE = rounding()

D_MODEL, N_HEADS = 16, 4
SENTENCE = "the cat sat on the mat"
X = torch.randn(6, D_MODEL, generator=torch.Generator().manual_seed(1))


def reference(seed=0, **options):
    """PyTorch's layer with parameters that differ, biases too."""
    torch.manual_seed(seed)
    theirs = nn.MultiheadAttention(D_MODEL, N_HEADS, batch_first=True, **options).eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    return theirs


def expected(theirs, query, key=None, value=None, causal=False):
    """Output, (q_length, d_model), and weights, (n_heads, q_length, k_length)."""
    key = query if key is None else key
    value = key if value is None else value
    mask = nn.Transformer.generate_square_subsequent_mask(len(key)) if causal else None
    sides = (x[None] for x in (query, key, value))
    with torch.no_grad():
        output, weights = theirs(*sides, attn_mask=mask, average_attn_weights=False)
    return output[0], weights[0].numpy()


def save(state, path):
    """In the format of the suffix."""
    state = {name: tensor.detach().clone() for name, tensor in state.items()}
    save_file(state, path) if path.suffix == ".safetensors" else torch.save(state, path)
    return path


@pytest.fixture(params=["w.safetensors", "w.pt"])
def path(request, tmp_path):
    return tmp_path / request.param


def on_input(path, tensors, prefix=None, **options):
    """A layer with the weights of a file, on these tensors."""
    inputs = read_inputs(save(tensors, path.parent / "x.safetensors"))
    return SavedLayer(read_attention(path, prefix), N_HEADS, device_name="cpu", inputs=inputs, **options)


def close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, atol=CLOSE, rtol=0)


@pytest.mark.parametrize("options", [{}, {"bias": False}], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention(path, options, causal):
    theirs = reference(**options)
    layer = on_input(save(theirs.state_dict(), path), {"x": X}, causal=causal)
    (m,) = attend(layer, []).maps
    output, weights = expected(theirs, X, causal=causal)
    close(m.weights, weights)
    assert (m.queries, m.kind, m.sentence) == (tuple("012345"), "masked" if causal else "self", None)
    close(layer.trace(layer.encode([]), values=True).step("O").values[0], output)


def test_source_target_attention(path):
    theirs = reference()
    key, value = torch.randn(2, 3, D_MODEL)
    layer = on_input(save(theirs.state_dict(), path), {"query": X, "key": key, "value": value})
    (m,) = attend(layer, []).maps
    output, weights = expected(theirs, X, key, value)
    close(m.weights, weights)
    assert (m.queries, m.keys, m.kind) == (tuple("012345"), tuple("012"), "cross")
    close(layer.trace(layer.encode([]), values=True).step("O").values[0], output)
    assert layer.trace(layer.encode([])).step("V").shape == (1, 3, D_MODEL)
    (seen,) = calls(layer, [])
    heads = nn.functional.scaled_dot_product_attention(seen.call.query, seen.call.key, seen.call.value)
    with torch.no_grad():
        close(theirs.out_proj(heads.transpose(1, 2).flatten(2))[0], output)


def test_mhavizs_own_parameters(path):
    theirs, ours = reference(), MultiHeadAttention(D_MODEL, N_HEADS)
    with torch.no_grad():
        for i, side in enumerate((ours.Wq, ours.Wk, ours.Wv)):
            side.weight.copy_(theirs.in_proj_weight[i * D_MODEL : (i + 1) * D_MODEL])
            side.bias.copy_(theirs.in_proj_bias[i * D_MODEL : (i + 1) * D_MODEL])
    ours.Wo.load_state_dict(theirs.out_proj.state_dict())
    layer = on_input(save(ours.state_dict(), path), {"x": X})
    output, weights = expected(theirs, X)
    close(attend(layer, []).maps[0].weights, weights)
    close(layer.trace(layer.encode([]), values=True).step("O").values[0], output)


def test_biases_that_are_not_there_are_no_parameters(path):
    for bias, count in ((True, 4 * D_MODEL * (D_MODEL + 1)), (False, 4 * D_MODEL**2)):
        layer = on_input(save(reference(bias=bias).state_dict(), path), {"x": X})
        for values in (True, False):
            assert sum(step.parameters for step in layer.trace(layer.encode([]), values=values).steps) == count


def test_keys_without_a_bias(path):
    """As Whisper's."""
    theirs = reference()
    with torch.no_grad():
        theirs.in_proj_bias[D_MODEL : 2 * D_MODEL] = 0
    sides = zip("qkv", theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True)
    state = {f"out_proj.{name}": of for name, of in theirs.out_proj.state_dict().items()}
    for side, weight, bias in sides:
        state |= {f"{side}_proj.weight": weight.detach().clone()}
        state |= {} if side == "k" else {f"{side}_proj.bias": bias.detach().clone()}
    close(attend(on_input(save(state, path), {"x": X}), []).maps[0].weights, expected(theirs, X)[1])


def test_parameters_that_share_memory_are_two_in_the_layer(tmp_path):
    shared = torch.randn(D_MODEL, D_MODEL)
    torch.save({f"W{side}.weight": shared for side in "qkvo"}, tmp_path / "w.pt")
    layer = on_input(tmp_path / "w.pt", {"x": X})
    assert sum(step.parameters for step in layer.trace(layer.encode([]), values=True).steps) == 4 * D_MODEL**2


MODELS = {
    "encoder.layers.1.self_attn": lambda m: m.encoder.layers[1].self_attn,
    "decoder.layers.0.self_attn.": lambda m: m.decoder.layers[0].self_attn,
    "decoder.layers.1.multihead_attn": lambda m: m.decoder.layers[1].multihead_attn,
    "encoder.layers.0": lambda m: m.encoder.layers[0].self_attn,
}


@pytest.fixture(scope="module")
def transformer():
    torch.manual_seed(0)
    return nn.Transformer(D_MODEL, N_HEADS, 2, 2, 32, batch_first=True).eval()


@pytest.mark.parametrize("prefix", MODELS)
def test_an_attention_of_a_model(path, transformer, prefix):
    layer = on_input(save(transformer.state_dict(), path), {"x": X}, prefix)
    theirs = MODELS[prefix](transformer)
    close(attend(layer, []).maps[0].weights, expected(theirs, X)[1])
    assert layer.saved.prefix == prefix.rstrip(".") + ".self_attn" * (prefix == "encoder.layers.0")


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_stacks_and_checkpoints_with_more_than_a_state_dict(tmp_path, transformer, part):
    stack = getattr(transformer, part)
    torch.save({"step": 3, "model": stack.state_dict(), "names": ["a"]}, tmp_path / "w.ckpt")
    layer = on_input(tmp_path / "w.ckpt", {"x": X}, "model.layers.1.self_attn")
    close(attend(layer, []).maps[0].weights, expected(stack.layers[1].self_attn, X)[1])


@pytest.mark.parametrize("options", [{}, {"causal": True}], ids=str)
@pytest.mark.parametrize("target", [None, "le chat"])
def test_sentences(path, options, target):
    """X is what the trace shows, with the positions that go into it."""
    if target and options:
        return
    theirs = reference()
    layer = SavedLayer(read_attention(save(theirs.state_dict(), path)), N_HEADS, device_name="cpu", **options)
    attention = attend(layer, [SENTENCE], target)
    trace = layer.trace(layer.encode([SENTENCE], target), values=True)
    sides = ["X target", "X source"] if target else ["X"]
    _, weights = expected(
        theirs, *(torch.from_numpy(trace.step(side).values[0]) for side in sides), causal=bool(options)
    )
    close(attention.maps[0].weights, weights)
    assert attention.maps[0].keys == tuple(SENTENCE.split())
    assert attention.source.footnote == (f"weights of {path.name}; random embeddings, seed 0, d_model 16, 4 heads, cpu")
    other = attend(SavedLayer(layer.saved, N_HEADS, seed=1, device_name="cpu", **options), [SENTENCE], target)
    assert not np.allclose(other.maps[0].weights, weights), "another seed, other embeddings"


def test_a_batch_is_a_sentence_each_and_words_label_it(path):
    theirs = reference()
    save(theirs.state_dict(), path)
    layer = on_input(path, {"input": torch.stack([X, X.flip(0)]), "other": X})
    for sentences in ([], ["a b c d e f", SENTENCE]):
        for i, m in enumerate(attend(layer, sentences).maps):
            close(m.weights, expected(theirs, X.flip(0) if i else X)[1])
            assert (m.sentence, m.queries) == (i, tuple((sentences[i] if sentences else "0 1 2 3 4 5").split()))
    cross = on_input(path, {"query": X[:2], "key": X})
    (m,) = attend(cross, [SENTENCE], "le chat").maps
    assert (m.queries, m.keys) == (("le", "chat"), tuple(SENTENCE.split()))


@pytest.mark.parametrize("piece", [1, 4, 100])
@pytest.mark.parametrize("tensors", [{"x": X}, {"query": X[:5], "key": X}], ids=len)
def test_inputs_in_pieces(monkeypatch, path, piece, tensors):
    monkeypatch.setattr(layer_inputs, "PIECE", piece)
    theirs = reference()
    layer = on_input(save(theirs.state_dict(), path), tensors)
    (m,) = attend(layer, [], heads=(3, 1)).maps
    close(m.weights, expected(theirs, *tensors.values())[1][[3, 1]])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats_are_converted(path, dtype):
    theirs = reference().to(dtype)
    save(theirs.state_dict(), path)
    layer = on_input(path, {"x": X.to(dtype)})
    close(attend(layer, []).maps[0].weights, expected(theirs.float(), X.to(dtype).float())[1])


def test_footnotes_are_one_line_whatever_things_are_called(tmp_path):
    for name in HOSTILE:
        state = {f"{name}.{key}": tensor for key, tensor in reference().state_dict().items()}
        torch.save(state, tmp_path / "w.pt")
        layer = SavedLayer(read_attention(tmp_path / "w.pt"), N_HEADS, device_name="cpu")
        assert layer.saved.prefix == name
        assert attend(layer, ["a"]).source.footnote.isprintable()


def fails(error, *arguments, read=read_attention):
    with pytest.raises(error) as caught:
        read(*arguments)
    assert isinstance(caught.value, ArgumentError) == (error is ArgumentError)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_there_is_listed(path, transformer):
    save(transformer.state_dict(), path)
    there = [f"decoder.layers.{i}.{name}" for i in range(2) for name in ("multihead_attn", "self_attn")]
    there = ", ".join([*there, "encoder.layers.0.self_attn", "encoder.layers.1.self_attn"])
    assert fails(ArgumentError, path).endswith(f"holds 6 attentions; choose one with `prefix`: {there}")
    assert fails(ArgumentError, path, "encoder.layer") == (
        f"`prefix`: there is no attention encoder.layer in {path}; it has {there}"
    )
    assert fails(ArgumentError, path, "decoder.layers.1").endswith(
        "2 attentions within decoder.layers.1; choose one with `prefix`: decoder.layers.1.multihead_attn, "
        "decoder.layers.1.self_attn"
    )


def test_an_attention_without_a_prefix(tmp_path):
    save({"in_proj_weight": torch.zeros(3 * D_MODEL, D_MODEL)}, tmp_path / "w.pt")
    assert fails(ArgumentError, tmp_path / "w.pt", "a").endswith("it has one without a prefix")


@pytest.mark.parametrize("name", ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"])
def test_parameters_of_wrong_shapes_and_numbers(path, name):
    state = reference().state_dict()
    shape = tuple(state[name].shape)
    save(state | {name: torch.zeros(10)}, path)
    assert f"{name}: expected (" in (text := fails(MhavizError, path))
    assert "got (10)" in text
    save(state | {name: torch.zeros(shape, dtype=torch.int64)}, path)
    assert f"{name}: expected floating-point numbers, got int64" in fails(MhavizError, path)
    broken = state[name].clone()
    broken.view(-1)[-1] = torch.nan
    save(state | {name: broken}, path)
    assert f"{name}: expected finite numbers of float32, got nan at {[n - 1 for n in shape]}" in fails(
        MhavizError, path
    )
    save({key: tensor for key, tensor in state.items() if key != "out_proj.weight"}, path)
    assert "out_proj.weight is missing" in fails(MhavizError, path)


@pytest.mark.parametrize("shape", [(30, 16), (48,), (0, 0), (3, 16, 16), (48, 15)])
def test_packed_projections_must_be_three(path, shape):
    save(reference().state_dict() | {"in_proj_weight": torch.zeros(shape)}, path)
    assert f"got ({', '.join(map(str, shape))})" in fails(MhavizError, path)


def test_what_mhaviz_cannot_run(path):
    save(reference(add_bias_kv=True).state_dict(), path)
    assert "bias_k is a key or value of no token (add_bias_kv=True)" in fails(MhavizError, path)
    save(reference(kdim=12, vdim=20).state_dict(), path)
    assert "expected parameters of an attention, with one of in_proj_weight" in fails(MhavizError, path)
    save({"fc.weight": X, "fc.bias": X}, path)
    assert ", got fc.bias, fc.weight; rename" in fails(MhavizError, path)
    save({}, path)
    assert ", got no tensors; rename" in fails(MhavizError, path)


def test_heads_that_do_not_divide(path):
    saved = read_attention(save(reference().state_dict(), path))
    with pytest.raises(ArgumentError, match=r"got d_model 16 and 3 heads; try 2 or 4 heads$"):
        SavedLayer(saved, 3)


class Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit('run')",))


def test_nothing_is_run(tmp_path):
    for name, held in (("a.pt", {"x": Evil()}), ("b.pt", reference())):
        torch.save(held, tmp_path / name)
        text = fails(MhavizError, tmp_path / name)
        assert "or holds Python objects, which mhaviz never runs; save only tensors" in text
        assert "safetensors.torch.save_file(model.state_dict(), …)" in text


def test_broken_files(path):
    save(reference().state_dict(), path)
    whole = path.read_bytes()
    said = "Error while deserializing header" if path.suffix == ".safetensors" else "it is truncated or damaged"
    for content in (b"hello world", whole[:3], whole[:30], whole[: len(whole) // 2], whole[:-5]):
        path.write_bytes(content)
        assert said in fails(MhavizError, path)


def test_files_that_are_none(tmp_path):
    assert "No such file" in fails(MhavizError, tmp_path / "w.pt")
    assert "Is a directory" in fails(MhavizError, tmp_path)
    (tmp_path / "w.txt").write_text("")
    assert "expected a name ending in .safetensors, .pt" in fails(MhavizError, tmp_path / "w.txt")
    torch.save([X], tmp_path / "w.pt")
    assert "expected a state dict, which names its tensors, got a list of tensors" in fails(
        MhavizError, tmp_path / "w.pt"
    )
    loop = {}
    loop["a"] = loop
    torch.save(loop, tmp_path / "w.pt")
    assert ", got no tensors; rename" in fails(MhavizError, tmp_path / "w.pt")


def test_parameters_that_do_not_fit_into_memory(tmp_path):
    huge = torch.zeros(1).expand(3 * 2**22, 2**22)
    torch.save({"in_proj_weight": huge}, tmp_path / "w.pt")
    assert "its numbers need about" in fails(MhavizError, tmp_path / "w.pt")


def test_parameters_that_fit_one_by_one_only(tmp_path, monkeypatch):
    layer = MultiHeadAttention(16, 4)
    path = save(layer.state_dict(), tmp_path / "w.safetensors")
    monkeypatch.setattr(saved_array, "free_main_memory", lambda: 2 * 4 * 16 * 16 * 3)
    assert f"{path}: its numbers need about 8.0 KiB" in fails(MhavizError, path)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"x": X[0]}, "x: expected (length, d_model) or (batch_size, length, d_model), got (16)"),
        ({"x": X[None, None]}, "got (1, 1, 6, 16)"),
        ({"x": X[:0]}, "got (0, 16)"),
        ({"x": X.long()}, "x: expected floating-point numbers, got int64"),
        ({"x": X / 0}, "x: expected finite numbers of float32, got "),
        ({"query": X, "key": torch.stack([X, X])}, "got (1, 6, 16), (2, 6, 16), (2, 6, 16)"),
        ({"query": X, "key": X, "value": X[:2]}, "got (1, 6, 16), (1, 6, 16), (1, 2, 16)"),
    ],
)
def test_what_is_no_input(tmp_path, tensors, message):
    assert message in fails(MhavizError, save(tensors, tmp_path / "x.safetensors"), read=read_inputs)


def test_which_tensor_is_the_input(tmp_path):
    path = save({"a": X, "b": X[:2]}, tmp_path / "x.safetensors")
    assert fails(ArgumentError, save({}, tmp_path / "none.safetensors"), read=read_inputs).endswith("; it has none")
    assert "`input_name`: there is no tensor input in" in fails(ArgumentError, path, read=read_inputs)
    assert "no tensor c in" in fails(ArgumentError, path, "c", read=read_inputs)
    assert len(read_inputs(path, "b").query[0]) == 2
    torch.save(X, tmp_path / "x.pt")
    assert torch.equal(read_inputs(tmp_path / "x.pt").query[0], X)


@pytest.mark.parametrize(
    ("tensors", "sentences", "target", "causal", "message"),
    [
        ({"x": X}, ["a b"], None, False, "expected 6 words, one for each position of the input, got 2"),
        ({"x": X}, ["a", "b"], None, False, "expected a sentence for each of 1 inputs, or none, got 2"),
        ({"x": X}, [], "a", False, "a target labels queries of their own"),
        ({"query": X, "key": X}, [], "a", False, "expected 6 words"),
        ({"query": X, "key": X}, [], None, True, "a causal mask is for self-attention"),
        ({"query": X[None].expand(2, 6, 16), "key": X[None].expand(2, 6, 16)}, [], "a", False, "got 2; leave it out"),
    ],
)
def test_labels_that_cannot_be(path, tensors, sentences, target, causal, message):
    layer = on_input(save(reference().state_dict(), path), tensors, causal=causal)
    with pytest.raises(ArgumentError, match=message):
        layer.encode(sentences, target)


@pytest.mark.parametrize("keep_case", [True, False])
def test_labels_that_keep_their_capitals(path, keep_case):
    words = ("The", "Dog", "and", "the", "Red", "cat")
    shown = words if keep_case else tuple(word.lower() for word in words)
    layer = on_input(save(reference().state_dict(), path), {"query": X, "key": X}, keep_case=keep_case)
    (text,) = layer.encode([" ".join(words)], " ".join(words[::-1])).texts
    assert (text.source.texts, text.target.texts) == (shown, shown[::-1])


def test_inputs_of_other_sizes(path):
    save(reference().state_dict(), path)
    with pytest.raises(MhavizError, match=r"x\.safetensors: x: expected 16 features, as .* got 12$"):
        on_input(path, {"x": X[:, :12]})
    with pytest.raises(MhavizError, match=r"x\.safetensors: key: expected 16 features, as .* got 12$"):
        on_input(path, {"query": X, "key": X[:, :12]})


def test_what_does_not_fit_is_refused_before_it_starts(path, monkeypatch):
    from mhaviz.models import single_layer

    layer = on_input(save(reference().state_dict(), path), {"x": X})
    needs = []
    monkeypatch.setattr(single_layer, "require_memory", lambda needed, device, what: needs.append(needed))
    attend(layer, [])
    layer.trace(layer.encode([]), values=True)
    assert len(needs) == 2
    assert min(needs) > 4 * (4 * D_MODEL**2 + X.numel())


def test_the_file_is_left_alone(path):
    """Layers share the parameters that have been read; none of them changes these."""
    layer = on_input(save(reference().state_dict(), path), {"x": X})
    before = {name: tensor.clone() for name, tensor in layer.saved.parameters.items()}
    content = Path(path).read_bytes()
    layer.trace(layer.encode([]))
    attend(layer, [])
    assert all(torch.equal(before[name], tensor) for name, tensor in layer.saved.parameters.items())
    assert path.read_bytes() == content

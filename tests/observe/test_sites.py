"""Runs of attentions that are told apart: steps of generation where layers share a module, and kinds."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from rounding import rounding
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from mhaviz import record
from mhaviz.errors import ArgumentError

CLOSE = rounding()

LENGTH, ROOM = 8, 12


class Attend(nn.Module):
    """Holds no parameters, so that all layers of a program may share it."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask)


class Layer(nn.Module):
    """Writes keys and values into a cache that has room for more, or joins them to one that grows."""

    def __init__(self, attend: nn.Module, is_static: bool) -> None:
        super().__init__()
        self.attend, self.is_static, self.qkv = attend, is_static, nn.Linear(8, 24)
        self.keys, self.values, self.length = torch.zeros(1, 2, ROOM, 4), torch.zeros(1, 2, ROOM, 4), 0

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        start, self.length = self.length, self.length + x.shape[1]
        self.keys[:, :, start : self.length], self.values[:, :, start : self.length] = k, v
        n_keys = ROOM if self.is_static else self.length
        mask = torch.arange(n_keys) <= torch.arange(start, self.length)[:, None]
        H = self.attend(q, self.keys[:, :, :n_keys], self.values[:, :, :n_keys], mask)
        return x + H.transpose(1, 2).flatten(2)


class Decoder(nn.Module):
    def __init__(self, is_static: bool) -> None:
        super().__init__()
        attend = Attend()
        self.layers = nn.ModuleList(Layer(attend, is_static) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Generation(nn.Module):
    """All steps in one forward pass."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, x: Tensor, lengths: list[int]) -> None:
        for part in x.split(lengths, dim=1):
            self.decoder(part)


@pytest.mark.parametrize(
    ("lengths", "is_one_pass"), [([5, 1, 1, 1], False), ([5, 1, 1, 1], True), ([4, 2, 1, 1], False)]
)
@pytest.mark.parametrize("is_static", [True, False])
@torch.no_grad()
def test_steps_join_the_pass_of_their_own_layer_where_layers_share_a_module(lengths, is_one_pass, is_static):
    torch.manual_seed(0)
    decoder, x = Decoder(is_static), torch.randn(1, LENGTH, 8)
    with record(decoder) as whole:
        decoder(x)
    for layer in decoder.layers:
        layer.length = 0
    with record(decoder) as steps:
        if is_one_pass:
            Generation(decoder)(x, lengths)
        else:
            for part in x.split(lengths, dim=1):
                decoder(part)
    assert steps.modules == ("layers.0.attend", "layers.0.attend #2", "layers.0.attend #3")
    for expected, joined in zip(whole.attention.maps, steps.attention.maps, strict=True):
        assert joined.kind == "masked"
        np.testing.assert_allclose(joined.weights, expected.weights, atol=CLOSE)


class Block(nn.Module):
    """Each of its new tokens sees all of them, and what stands in the cache, as in block diffusion."""

    def forward(self, x: Tensor, cached: Tensor) -> Tensor:
        keys = torch.cat([cached, x], dim=2)
        return F.scaled_dot_product_attention(x, keys, keys)


def test_queries_that_see_later_keys_are_no_step_of_a_masked_map():
    block, x = Block(), torch.randn(1, 2, LENGTH, 4)
    with record(block, passes="0-") as recording:
        block(x[:, :, :4], x[:, :, :0])
        block(x[:, :, 4:], x[:, :, :4])
    for m in recording.attention.maps:
        np.testing.assert_allclose(m.weights.sum(axis=-1), 1, atol=CLOSE)
    assert [m.weights.shape for m in recording.attention.maps] == [(2, 4, 4), (2, 4, 8)]


class Pooling(nn.Module):
    """A class token alone reads all tokens, as in CaiT."""

    def __init__(self, by_hand: bool) -> None:
        super().__init__()
        self.by_hand = by_hand

    def forward(self, x: Tensor) -> Tensor:
        q = x[:, :, :1]
        return (q @ x.mT / 2).softmax(dim=-1) @ x if self.by_hand else F.scaled_dot_product_attention(q, x, x)


@pytest.mark.parametrize("by_hand", [True, False])
def test_one_query_that_begins_a_pass_is_not_called_masked(by_hand):
    with record() as recording:
        Pooling(by_hand)(torch.randn(1, 2, 5, 4))
    assert recording.attention.maps[0].kind == "self"


def test_no_attention_is_masked_that_shows_later_keys_to_another_example():
    q = torch.randn(2, 2, 5, 4)
    mask = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    mask[0].tril_()
    with record(examples="all") as recording:
        F.scaled_dot_product_attention(q, q, q, mask)
    expected = (q @ q.mT / 2).masked_fill(~mask, -torch.inf).softmax(dim=-1)
    for m, A in zip(recording.attention.maps, expected, strict=True):
        assert m.kind == "self"
        np.testing.assert_allclose(m.weights, A, atol=CLOSE)


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_block_that_reads_its_neighbours_on_both_sides_is_not_masked(by_hand):
    """As LongT5's local attention: 3 queries, the 9 keys around them, of which each sees 2 on either side."""
    q, k = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 9, 4)
    mask = (torch.arange(9) - torch.arange(3, 6)[:, None]).abs() <= 2
    expected = (q @ k.mT / 2).masked_fill(~mask, -torch.inf).softmax(dim=-1)
    with record() as recording:
        if by_hand:
            (q @ k.mT / 2).masked_fill(~mask, -torch.inf).softmax(dim=-1) @ k
        else:
            F.scaled_dot_product_attention(q, k, k, mask)
    (m,) = recording.attention.maps
    assert m.kind == "other"
    np.testing.assert_allclose(m.weights, expected[0, ..., 1:8], atol=CLOSE)  # nobody sees the first and the last key


class InBlocks(nn.Module):
    """Computes queries in blocks, in any order, each with a softmax of its own."""

    def __init__(self, starts: tuple[int, ...], size: int, is_causal: bool = False, gathers: bool = False) -> None:
        super().__init__()
        self.starts, self.size, self.is_causal, self.gathers = starts, size, is_causal, gathers

    def forward(self, x: Tensor) -> Tensor:
        q, made = x.unflatten(-1, (2, 4)).transpose(1, 2), []
        for start in self.starts:
            end = start + self.size
            k = q[:, :, :end] if self.is_causal else q
            mask = torch.arange(end) <= torch.arange(start, end)[:, None] if self.is_causal else None
            some = q[:, :, torch.arange(start, end)] if self.gathers else q[:, :, start:end]
            made.append(F.scaled_dot_product_attention(some, k, k, mask))
        return torch.cat(made, dim=2)


@pytest.mark.parametrize(("starts", "size"), [((0, 2, 4), 2), ((3, 0), 3), ((4, 2, 0), 2)])
def test_queries_in_blocks_are_named_after_their_tokens(starts, size):
    x, names = torch.randn(1, 6, 8), list("abcdef")
    with record(tokens=names) as recording:
        InBlocks(starts, size)(x)
    q = x.unflatten(-1, (2, 4)).transpose(1, 2)
    A = (q @ q.mT / 2).softmax(dim=-1)[0]
    for m, start in zip(recording.attention.maps, starts, strict=True):
        np.testing.assert_allclose(m.weights, A[:, start : start + size], atol=CLOSE)
        assert (m.kind, list(m.queries), list(m.keys)) == ("self", names[start : start + size], names)
    assert recording.notices == []
    with pytest.raises(ArgumentError, match="of InBlocks and InBlocks #2 that is not known"):
        _ = recording.rollout


def test_queries_in_blocks_that_were_gathered_are_named_after_their_tokens():
    with record() as recording:
        InBlocks((0, 3), 3, gathers=True)(torch.randn(1, 6, 8))
    assert [m.queries for m in recording.attention.maps] == [tuple("012"), tuple("345")]
    assert not recording.notices


def test_queries_that_are_lined_up_with_the_last_keys_are_named_as_these():
    with record(tokens=list("abcdef")) as recording:
        InBlocks((4, 2, 0), 2, is_causal=True)(torch.randn(1, 6, 8))
    assert ["".join(m.queries) for m in recording.attention.maps] == ["ef", "cd", "ab"]
    assert {m.layer for m in recording.attention.maps} == {0}
    assert not recording.notices


def _causal_weights(x: Tensor) -> Tensor:
    q = x.unflatten(-1, (2, 4)).transpose(1, 2)
    return (q @ q.mT / 2).masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf).softmax(dim=-1)[0]


@pytest.mark.parametrize(("starts", "size"), [((0, 2, 4), 2), ((0, 3), 3)])
@pytest.mark.parametrize("passes", ["0-", "1", "last", None])
def test_blocks_of_queries_with_growing_keys_are_one_map(starts, size, passes):
    texts, names = torch.randn(3, 1, 6, 8), list("abcdef")
    model = InBlocks(starts, size, is_causal=True)
    with record(tokens=names, **({} if passes is None else {"passes": passes})) as recording:
        for x in texts:
            model(x)
    drawn = {"0-": [0, 1, 2], "1": [1], "last": [2], None: [0]}[passes]
    assert recording.modules == ("InBlocks",)
    for m, number in zip(recording.attention.maps, drawn, strict=True):
        np.testing.assert_allclose(m.weights, _causal_weights(texts[number]), atol=CLOSE)
        assert (m.kind, list(m.queries), list(m.keys)) == ("masked", names, names)


def test_blocks_of_two_layers_of_one_module_are_joined_with_their_own():
    block, x = InBlocks((0, 2, 4), 2, is_causal=True), torch.randn(1, 6, 8)
    with record(layers := torch.nn.Sequential(block, block)) as recording:
        block.forward, inner = (lambda x: inner(x).transpose(1, 2).flatten(2)), block.forward
        layers(x)
    assert [(m.module, m.layer) for m in recording.attention.maps] == [("0", 0), ("0 #2", 1)]
    for m, text in zip(recording.attention.maps, (x, block.forward(x)), strict=True):
        np.testing.assert_allclose(m.weights, _causal_weights(text), atol=CLOSE)


class Grouped(nn.Module):
    """Heads share keys in groups, and have two axes; without an axis for the batch, as gpt-oss, or with it."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = 6

    def forward(self, x: Tensor) -> Tensor:
        q, k = x.unflatten(-1, (2, 3, 8)).movedim(-4, -2), x[..., :16].unflatten(-1, (2, 8)).movedim(-3, -2)
        A = torch.einsum("...kgqd,...kld->...kgql", q, k).softmax(dim=-1)
        self.weights = A.flatten(-4, -3)
        return torch.einsum("...kgql,...kld->...kgqd", A, k)


@pytest.mark.parametrize("batch", [(), (4,)])
def test_heads_in_groups_are_all_heads_of_one_example(batch):
    grouped = Grouped()
    with record(examples="all") as recording:
        grouped(torch.randn(*batch, 5, 48))
    weights = np.stack([m.weights for m in recording.attention.maps])
    np.testing.assert_array_equal(weights, grouped.weights.reshape(-1, 6, 5, 5))


class LastReads(nn.Module):
    """The last tokens read all: if they are all, it is self-attention."""

    def forward(self, x: Tensor, n_queries: int) -> Tensor:
        return F.scaled_dot_product_attention(x[:, :, -n_queries:], x, x)


def test_statistics_of_an_attention_whose_kind_changes_while_it_runs():
    reader, x = LastReads(), torch.randn(1, 2, 5, 4)
    with record(reader, statistics=True) as recording:
        for _ in range(2):
            reader(x[:, :, :4], 4)
            reader(x, 1)
        reader(x, 2)
    averages = recording.head_statistics.kinds
    assert [(one.kind, one.layers) for one in averages] == [("self", (0,)), ("masked", (0,))]
    assert averages[0].entropy.by_layer.tolist() == [[1, 4]]
    assert averages[1].entropy.by_layer.tolist() == [[2, 4 + 2]], "whole inputs, and no step"
    assert recording.notices == ["drawn is the first of 3 forward passes; `passes` chooses others"]


def _tiny(kind="Mistral", **sizes):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    whole = {"vocab_size": 12, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "initializer_range": 0.3}
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
    config = getattr(transformers, f"{kind}Config")(**(whole | heads | ids | sizes))
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


def _require_maps_of_text(model, recording, written):
    """Both layers have the weights of eager attention in one pass over the text; the last token was never read."""
    model.set_attn_implementation("eager")
    expected = model(written[:, :-1], output_attentions=True, use_cache=False).attentions
    maps = recording.attention.maps
    assert [m.layer for m in maps] == [0, 1]
    for m, A in zip(maps, expected, strict=True):
        assert m.weights.shape == A.shape[1:]
        np.testing.assert_allclose(m.weights, A[0].detach(), atol=1e-5)


REPEATING = torch.tensor([[3, 4, 5, 6, 7, 3, 4, 5, 6, 7, 3, 4]])


@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("window", [4, 12])
def test_steps_join_where_the_cache_has_lost_keys_of_the_prompt(window, cache):
    model, prompt = _tiny(sliding_window=window), torch.tensor([[3, 9, 5, 6, 11, 2, 8, 4, 10]])
    with record(model) as recording:
        written = model.generate(prompt, max_new_tokens=5, do_sample=False, cache_implementation=cache)
    _require_maps_of_text(model, recording, written)


def test_statistics_say_that_they_count_no_steps():
    model = _tiny()
    with record(model, statistics=True) as recording:
        model.generate(REPEATING, max_new_tokens=5, do_sample=False)
    source = recording.head_statistics.source
    assert ".self_attn 12 queries of whole inputs count, and not 4 of a decoder's steps" in source.remark
    assert (source.details["queries"], source.details["queries_of_steps"]) == (12, 4)


def test_a_prompt_that_is_read_in_parts_by_a_window_is_one_map():
    model = _tiny(sliding_window=4)
    with record(model) as recording:
        written = model.generate(REPEATING, max_new_tokens=4, do_sample=False, prefill_chunk_size=5)
    _require_maps_of_text(model, recording, written)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("drafts", ["looked up", "of a model"])
def test_a_pass_ends_where_drafts_are_rejected(drafts, attention):
    model, read = _tiny("Llama"), []
    model.set_attn_implementation(attention)
    lookup = {"prompt_lookup_num_tokens": 4}
    options = lookup if drafts == "looked up" else {"assistant_model": _tiny("Llama", num_hidden_layers=1)}
    hook = model.model.embed_tokens.register_forward_hook(lambda module, args, made: read.append(args[0]))
    with record(model) as recording:
        written = model.generate(REPEATING, max_new_tokens=9, do_sample=False, **options)
    hook.remove()
    n_right = (read[0] == written[:, : read[0].shape[1]]).sum()
    assert n_right < read[0].shape[1], "drafts beside the prompt were rejected"
    assert recording.attention.maps[0].rows.tokens.ids == tuple(read[0][0].tolist())
    _require_maps_of_text(model, recording, torch.cat([read[0], written[:, -1:]], dim=1))
    assert not recording.missed


class Drafting(nn.Module):
    """Reads on with a cache, whose keys may begin with learned ones."""

    def __init__(self, n_learned: int = 0) -> None:
        super().__init__()
        self.qkv, self.cache = nn.Linear(8, 24), None
        self.learned = nn.Parameter(torch.randn(2, 1, 2, n_learned, 4))

    def begin(self) -> None:
        self.cache = pytest.importorskip("transformers").DynamicCache()
        self.cache.update(*self.learned, 0)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        keys, values = self.cache.update(k, v, 0)
        mask = torch.ones(x.shape[1], keys.shape[2], dtype=torch.bool).tril(keys.shape[2] - x.shape[1])
        return F.scaled_dot_product_attention(q, keys, values, mask)

    def expected(self, text: Tensor) -> Tensor:
        """Of all tokens in one pass."""
        q, k = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(text).chunk(3, dim=-1)[:2])
        S = q @ torch.cat([self.learned[0], k], dim=2).mT / 2
        return (S + torch.full(S.shape, -torch.inf).triu(1 + S.shape[-1] - S.shape[-2])).softmax(dim=-1)[0].detach()


@torch.no_grad()
def test_drafts_that_a_program_of_ones_own_rejects_end_a_pass():
    torch.manual_seed(0)
    model, text, wrong = Drafting(), torch.randn(1, 10, 8), torch.randn(1, 5, 8)
    with record(model, passes="0-") as recording:
        model.begin()
        model(first := torch.cat([text[:, :5], wrong[:, :2]], dim=1))
        model.cache.crop(-2)
        model(text[:, 5:8])
        model(torch.cat([text[:, 8:9], wrong[:, 2:]], dim=1))
        model.cache.crop(-3)
        model(text[:, 9:])
    second = model.expected(torch.cat([text[:, :9], wrong[:, 2:]], dim=1))[:, 5:]
    for m, A in zip(
        recording.attention.maps, (model.expected(first), second, model.expected(text)[:, 9:]), strict=True
    ):
        np.testing.assert_allclose(m.weights, A, atol=1e-6)
    assert [m.kind for m in recording.attention.maps] == ["masked"] * 3
    assert [m.keys for m in recording.attention.maps] == [tuple(map(str, range(n))) for n in (7, 12, 10)]
    assert [m.queries[0] for m in recording.attention.maps] == ["0", "5", "9"]
    assert not recording.notices


@pytest.mark.parametrize("lengths", [(4, 4), (4, 1), (1, 4)])
@pytest.mark.parametrize("trains", [False, True])
def test_texts_after_the_same_learned_keys_are_passes_of_their_own(lengths, trains):
    torch.manual_seed(0)
    model, texts = Drafting(2), [torch.randn(1, n, 8) for n in lengths]
    expected = []
    with record(model, passes="0-") as recording:
        for text in texts:
            model.begin()
            model(text)
            expected.append(model.expected(text))
            model.learned.data += 0.1 * trains
    for m, A in zip(recording.attention.maps, expected, strict=True):
        np.testing.assert_allclose(m.weights, A, atol=1e-6)
    assert not recording.notices


@torch.no_grad()
def test_texts_that_go_on_with_copies_of_a_cache_are_passes_of_their_own():
    torch.manual_seed(0)
    model, prompt, texts = Drafting(), torch.randn(1, 4, 8), torch.randn(2, 1, 3, 8)
    with record(model, passes="0-") as recording:
        model.begin()
        model(prompt)
        cache = model.cache
        for text in texts:
            model.cache = deepcopy(cache)
            model(text)
    first, second = (model.expected(torch.cat([prompt, text], dim=1)) for text in texts)
    for m, A in zip(recording.attention.maps, (first, second[:, 4:]), strict=True):
        np.testing.assert_allclose(m.weights, A, atol=1e-6)
    assert [m.kind for m in recording.attention.maps] == ["masked", "other"]
    assert list(recording.attention.maps[1].queries) == ["row 0", "row 1", "row 2"], "what the copy held is not known"
    (line,) = recording.notices
    assert "keys do not continue those of the steps before" in line


@torch.no_grad()
@pytest.mark.parametrize(("bias", "factor"), [(0, 1), (50, 1), (5000, 1), (50, 0)])
@pytest.mark.parametrize("n_prompt", [1, 5])
def test_steps_with_the_caches_of_two_texts_in_turn_are_of_their_own_text(bias, factor, n_prompt):
    """A bias of the keys, as Qwen2's, makes those of all texts alike beside it; where it is all, values tell."""
    torch.manual_seed(0)
    model, texts, caches = Drafting(), torch.randn(2, 1, n_prompt + 3, 8), []
    model.qkv.bias[8] = bias
    model.qkv.weight[8:16] *= factor
    with record(model, passes="0-") as recording:
        for text in texts:
            model.begin()
            model(text[:, :n_prompt])
            caches.append(model.cache)
        for place in range(n_prompt, n_prompt + 3):
            for text, model.cache in zip(texts, caches, strict=True):
                model(text[:, place : place + 1])
    first, *rows = (slice(0, n_prompt), *(slice(place, place + 1) for place in range(n_prompt, n_prompt + 3)))
    expected = [model.expected(text)[:, part, : part.stop] for part in (first, *rows) for text in texts]
    assert len(recording.attention.maps) == len(expected)
    for m, A in zip(recording.attention.maps, expected, strict=True):
        np.testing.assert_allclose(m.weights, A, atol=1e-6 * max(bias, 1))


def _in_bits(bits):
    def rounded(x: Tensor) -> Tensor:
        least, most = x.amin(dim=-1, keepdim=True), x.amax(dim=-1, keepdim=True)
        step = (most - least) / (2**bits - 1)
        return ((x - least) / step).round() * step + least

    return rounded


@torch.no_grad()
@pytest.mark.parametrize(
    ("rounded", "bias", "n_prompt"),
    [
        *((lambda x: x.bfloat16().float(), bias, n) for bias in (0, 50, 5000) for n in (1, 5)),
        *((lambda x: x.half().float(), bias, n) for bias in (0, 50, 5000) for n in (1, 5)),
        *((lambda x: x.to(torch.float8_e4m3fn).float(), bias, 5) for bias in (0, 50)),
        *((_in_bits(8), bias, 12) for bias in (0, 50)),
        (_in_bits(4), 0, 12),
    ],
)
def test_steps_join_where_the_cache_keeps_keys_in_fewer_bits(rounded, bias, n_prompt):
    torch.manual_seed(0)
    model, text = Drafting(), torch.randn(1, n_prompt + 3, 8)
    model.qkv.bias[8] = bias
    model.begin()
    with record(model) as recording:
        for part in text.split([n_prompt, 1, 1, 1], dim=1):
            model(part)
            (layer,) = model.cache.layers
            layer.keys, layer.values = rounded(layer.keys), rounded(layer.values)
    (m,) = recording.attention.maps
    assert not recording.notices
    q, k = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in model.qkv(text).chunk(3, dim=-1)[:2])
    for place in range(n_prompt, n_prompt + 3):
        keys = torch.cat([rounded(k[:, :, :place]), k[:, :, place : place + 1]], dim=2)
        A = (q[:, :, place : place + 1] @ keys.mT / 2).softmax(dim=-1)[0, :, 0]
        np.testing.assert_allclose(m.weights[:, place, : place + 1], A, atol=1e-6 * max(bias, 1))


class Evicting(nn.Module):
    """Keeps a cache of four keys: a ring, or the first one and the last ones."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.qkv, self.k, self.v = way, nn.Linear(8, 24), torch.zeros(1, 2, 0, 4), torch.zeros(1, 2, 0, 4)

    def forward(self, x: Tensor, start: int) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        if self.way == "ring" and start >= 4:
            self.k[:, :, start % 4], self.v[:, :, start % 4] = k[:, :, 0], v[:, :, 0]
        else:
            self.k, self.v = torch.cat([self.k, k], dim=2), torch.cat([self.v, v], dim=2)
        self.weights = (q @ self.k.mT / 2).softmax(dim=-1)
        H = self.weights @ self.v
        if self.way != "ring" and self.k.shape[2] > 4:
            kept = [0, *range(self.k.shape[2] - 3, self.k.shape[2])]
            self.k, self.v = self.k[:, :, kept], self.v[:, :, kept]
        return H


@torch.no_grad()
@pytest.mark.parametrize(
    ("way", "n_new", "kept"),
    [
        ("ring", 1, ["4123", "4523", "4563", "4567"]),
        ("first and last", 1, ["02345", "03456", "04567"]),
        ("first and last", 2, ["034567"]),
    ],
)
def test_keys_of_a_cache_that_has_lost_some_have_their_names(way, n_new, kept):
    torch.manual_seed(0)
    model, weights = Evicting(way), []
    with record(model, passes="0-") as recording:
        for start in range(0, 8, n_new):
            model(torch.randn(1, n_new, 8), start)
            weights.append(model.weights[0])
    later = recording.attention.maps[-len(kept) :]
    assert ["".join(m.keys) for m in later] == kept
    for m, A in zip(later, weights[-len(later) :], strict=True):
        np.testing.assert_allclose(m.weights, A, atol=1e-6)
        assert m.kind == "other"  # no statistics along a diagonal
        assert m.queries == m.keys[-n_new:] or way == "ring"


@torch.no_grad()
def test_a_cache_whose_keys_are_in_another_order_is_not_joined():
    """The oldest key makes room for the newest in its place."""
    torch.manual_seed(0)
    model, text = Drafting(), torch.randn(1, 9, 8)

    def mask_of(n):
        return torch.arange(n) <= torch.arange(n)[:, None]

    q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in model.qkv(text).chunk(3, dim=-1))
    attend = Attend()
    with record(attend) as recording:
        attend(q[:, :, :4], k[:, :, :4], v[:, :, :4], mask_of(4))
        ring = torch.tensor([4, 1, 2, 3])
        attend(q[:, :, 4:5], k[:, :, ring], v[:, :, ring], None)
    m = recording.attention.maps[0]
    assert m.weights.shape == (2, 4, 4)


@torch.no_grad()
def test_nothing_is_said_of_a_pass_that_is_not_drawn():
    """Guidance runs the model on another text, too, which begins a pass of its own."""
    model, ids = _tiny("Llama"), REPEATING[:, :6]
    with record(model) as recording:
        model.generate(ids, max_new_tokens=4, do_sample=False, guidance_scale=1.5)
    model.set_attn_implementation("eager")
    for m, A in zip(recording.attention.maps, model(ids, output_attentions=True).attentions, strict=True):
        np.testing.assert_allclose(m.weights, A[0], atol=1e-5)
    assert all(line.startswith("drawn is the first of") for line in recording.notices)


def test_a_pass_that_begins_with_keys_in_another_order_and_goes_on_by_steps():
    """A cache that has lost some keys and holds the others in another order."""
    torch.manual_seed(0)
    q, k, cache, weights = nn.Linear(8, 8), nn.Linear(8, 8), None, []

    class Cached(nn.Module):
        def forward(self, x):
            nonlocal cache
            key = k(x)[:, None]
            cache = key if cache is None else torch.cat([cache, key], 2)
            weights.append((q(x)[:, None] @ cache.mT / 8**0.5).softmax(-1)[0, 0].numpy())
            return F.scaled_dot_product_attention(q(x)[:, None], cache, cache)

    model, seen = Cached(), []
    with torch.no_grad(), record(model, passes="0-", on_attention=seen.append) as recording:
        for n in (4, 1):
            model(torch.randn(1, n, 8))
        cache = cache[:, :, 2:].flip(2)
        for n in (1, 1, 1):
            model(torch.randn(1, n, 8))
    m = recording.attention.maps[1]
    expected = np.zeros((3, 6))
    for row, A in enumerate(weights[2:]):
        expected[row, : A.shape[1]] = A
    np.testing.assert_allclose(m.weights[0], expected, atol=1e-6)
    assert (m.kind, m.queries, m.keys) == ("other", tuple("567"), tuple("432567"))
    assert ["".join(one.keys[0].texts) for one in seen] == ["0123", "01234", "4325", "43256", "432567"]

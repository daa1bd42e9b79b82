"""Padding of a recorded batch is neither query nor key, in statistics and in maps: as a mask tells, for each example.

The oracle is the same sentence run alone, without padding, by PyTorch's or transformers' own weights.
"""

import numpy as np
import pytest
import torch
from torch import nn

import mhaviz

LENGTHS = (7, 4, 2)
WIDTH = 8


def batch(left: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states of three sentences, and which positions are padding."""
    x = torch.randn(3, 7, WIDTH, generator=torch.Generator().manual_seed(0))
    places = torch.arange(7)
    ends = torch.tensor(LENGTHS)[:, None]
    return x, (places < 7 - ends if left else places >= ends)


class ByHand(nn.Module):
    """Attention as tutorials write it; ``hide``: what is put where a key is hidden."""

    def __init__(self, hide=-1e9, n_heads=2, sharp=1.0):
        super().__init__()
        torch.manual_seed(1)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.num_heads, self.hide, self.sharp = n_heads, hide, sharp

    def heads(self, x):
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)

    def forward(self, x, visible=None):
        q, k, v = (self.heads(f(x)) for f in (self.q, self.k, self.v))
        scores = self.sharp * (q @ k.mT) / q.shape[-1] ** 0.5
        if visible is not None:
            scores = scores.masked_fill(~visible, self.hide)
        self.A = torch.softmax(scores, dim=-1)
        return (self.A @ v).transpose(1, 2).reshape(x.shape)


def diagonals(maps, offset=0):
    """The mean over the sentences of the mean weight at this distance, a number a head."""
    means = [np.diagonal(m, offset, axis1=1, axis2=2).mean(axis=-1) for m in maps if m.shape[1] > abs(offset)]
    return np.mean(means, axis=0)


def assert_same(recording, alone, remark="9 positions"):
    """Statistics and maps are those of the sentences run alone."""
    (kind,) = recording.head_statistics.kinds
    np.testing.assert_allclose(kind.itself.mean[0], diagonals(alone), atol=1e-6)
    np.testing.assert_allclose(kind.previous.mean[0], diagonals(alone, -1), atol=1e-6)
    assert kind.queries == sum(LENGTHS)
    assert remark in recording.head_statistics.source.remark
    for m, A in zip(recording.attention, alone, strict=True):
        np.testing.assert_allclose(m.weights, A, atol=1e-6)
        assert (len(m.rows.tokens), len(m.columns.tokens)) == A.shape[1:]


@pytest.mark.parametrize("need_weights", [True, False])
def test_key_padding_mask_of_torch_tells_padding(need_weights):
    layer = nn.MultiheadAttention(WIDTH, 2, batch_first=True).eval()
    x, padded = batch()
    with mhaviz.record(statistics=True, examples="all") as recording:
        layer(x, x, x, key_padding_mask=padded, need_weights=need_weights)
    one = [row[None, :length] for row, length in zip(x, LENGTHS, strict=True)]
    alone = [layer(y, y, y, average_attn_weights=False)[1][0].detach().numpy() for y in one]
    assert_same(recording, alone, "8 positions")


@pytest.mark.parametrize("hide", [-1e4, -1e9, torch.finfo(torch.float32).min])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_scores_that_are_hidden_by_hand_tell_padding(hide, left, causal):
    """Padded queries of left-padded causal attention see nothing: their softmax is alike for all keys."""
    layer = ByHand(hide)
    x, padded = batch(left)
    visible = ~padded[:, None, None] & (torch.ones(7, 7, dtype=torch.bool).tril() if causal else True)
    with mhaviz.record(layer, statistics=True, examples="all") as recording:
        layer(x, visible)
    alone = []
    for row, length in zip(x, LENGTHS, strict=True):
        y = row[-length:] if left else row[:length]
        layer(y[None], torch.ones(length, length, dtype=torch.bool).tril() if causal else None)
        alone.append(layer.A[0].detach().numpy())
    assert_same(recording, alone, "8 positions")


def test_a_sliding_window_and_padding():
    layer = ByHand(-torch.inf)
    x, padded = batch()
    window = torch.ones(7, 7, dtype=torch.bool).tril().triu(-1)
    with mhaviz.record(layer, statistics=True, examples="all") as recording:
        layer(x, ~padded[:, None, None] & window | torch.eye(7, dtype=torch.bool) & ~padded[:, None, :, None])
    # Of a padded query far behind its sentence a window leaves nothing to see: its softmax is NaN.
    (kind,) = recording.head_statistics.kinds
    assert kind.queries == sum(LENGTHS)
    assert np.isfinite(kind.entropy.mean).all()


@pytest.mark.parametrize(
    ("visible", "queries"),
    [
        (torch.ones(7, 7, dtype=torch.bool).tril(-1), 6),  # the first sees nothing, and nobody the last, which counts
        (torch.ones(7, 7, dtype=torch.bool).tril(-1) | (torch.arange(49) == 0).view(7, 7), 7),  # the first sees itself
        (torch.ones(7, 7, dtype=torch.bool).tril(), 7),
        (torch.arange(7) // 4 == torch.arange(2)[:, None, None].expand(2, 7, 1), 7),  # halves, one a head
        (torch.ones(7, 7, dtype=torch.bool).tril().triu(-1), 7),
    ],
    ids=["strictly causal", "strictly causal but for the first", "causal", "halves", "window"],
)
def test_keys_that_other_masks_hide_are_no_padding(visible, queries):
    q, k, v = torch.randn(3, 1, 2, 7, 4, generator=torch.Generator().manual_seed(2)).unbind()
    mask = visible.expand(1, 2, 7, 7)
    with mhaviz.record(statistics=True) as recording:
        nn.functional.scaled_dot_product_attention(q, k, v, mask)
    (kind,) = recording.head_statistics.kinds
    assert kind.queries == queries
    (m,) = recording.attention
    A = torch.softmax((q @ k.mT / 2).masked_fill(~mask, -torch.inf), -1).nan_to_num(0.0)
    np.testing.assert_allclose(m.weights, A[0], atol=1e-6)


def test_a_key_whose_weights_underflow_is_no_padding():
    layer = ByHand(sharp=2000.0)
    x, _ = batch()
    with mhaviz.record(layer, statistics=True) as recording:
        layer(x)
    assert (layer.A.sum(dim=(1, 2)) == 0).any()
    (kind,) = recording.head_statistics.kinds
    assert kind.queries == x.shape[0] * x.shape[1]
    np.testing.assert_allclose(kind.itself.mean[0], diagonals(layer.A.detach().numpy()), atol=1e-6)
    assert "no mask tells which queries are padding" in recording.head_statistics.source.remark


def test_of_cross_attention_the_keys_alone_are_told():
    layer = nn.MultiheadAttention(WIDTH, 2, batch_first=True).eval()
    x, padded = batch()
    queries = torch.randn(3, 5, WIDTH, generator=torch.Generator().manual_seed(3))
    with mhaviz.record(statistics=True, examples="all") as recording:
        _, A = layer(queries, x, x, key_padding_mask=padded, average_attn_weights=False)
    (kind,) = recording.head_statistics.kinds
    assert (kind.kind, kind.queries) == ("cross", 15)
    for m, weights, length in zip(recording.attention, A.detach(), LENGTHS, strict=True):
        np.testing.assert_allclose(m.weights, weights[:, :, :length], atol=1e-6)


@pytest.mark.parametrize("batch_first", [True, False])
def test_of_a_decoder_the_mask_of_its_self_attention_tells_which_queries_are_padding(batch_first):
    torch.manual_seed(0)
    embed = nn.Embedding(20, WIDTH)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, 2, 16, 0.0, batch_first=batch_first), 1)
    source, target = torch.randint(20, (3, 7)), torch.randint(20, (3, 5))
    lengths = (3, 5, 4)
    hidden, hidden_target = (
        torch.arange(7) >= torch.tensor(LENGTHS)[:, None],
        torch.arange(5) >= torch.tensor(lengths)[:, None],
    )
    source[hidden] = target[hidden_target] = 0

    def read(x, y, **masks):
        memory, tokens = (embed(ids if batch_first else ids.T) for ids in (x, y))
        decoder(tokens, memory, **masks)

    with mhaviz.record(examples="all") as recording:
        read(source, target, tgt_key_padding_mask=hidden_target, memory_key_padding_mask=hidden)
    of_batch = [m for m in recording.attention if m.kind == "cross"]
    for m, x, y, length, n in zip(of_batch, source, target, LENGTHS, lengths, strict=True):
        with mhaviz.record() as alone:
            read(x[None, :length], y[None, :n])
        (want,) = [one for one in alone.attention if one.kind == "cross"]
        assert m.weights.shape == want.weights.shape == (2, n, length)
        np.testing.assert_allclose(m.weights, want.weights, atol=1e-6)


def test_an_example_of_padding_alone_is_left_out():
    layer = nn.MultiheadAttention(WIDTH, 2, batch_first=True).eval()
    x, padded = batch()
    padded[1] = True
    with mhaviz.record(statistics=True, examples="all") as recording:
        layer(x, x, x, key_padding_mask=padded, need_weights=False)
    assert [m.sentence for m in recording.attention] == [0, 2]
    assert any("example 1: expected tokens, got only padding" in line for line in recording.notices)
    (kind,) = recording.head_statistics.kinds
    assert (kind.sentences, kind.queries) == (2, 9)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("starts", [(0, 3), (3, 0)])
def test_left_padding_of_a_decoder_that_writes(attention, cache, starts):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=30, **sizes, attn_implementation=attention)).eval()
    model.generation_config.eos_token_id = None
    ids = torch.randint(3, 30, (2, 6), generator=torch.Generator().manual_seed(4))
    mask = torch.ones_like(ids)
    for example, start in enumerate(starts):
        mask[example, :start] = 0
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "cache_implementation": cache}
    with mhaviz.record(model, examples="all") as recording, torch.no_grad():
        written = model.generate(ids, attention_mask=mask, **options)
    model.set_attn_implementation("eager")
    maps = recording.attention
    for m, row, start in zip(maps, written, starts, strict=True):
        (expected,) = model(row[None, start:-1], output_attentions=True).attentions
        assert (m.kind, m.weights.shape) == ("masked", expected.shape[1:])
        np.testing.assert_allclose(m.weights, expected[0].detach(), atol=1e-5)


KINDS = torch.tensor([0, 0, 0, 1, 1, 1, 1])  # text, then image
OF_IMAGE = (KINDS == 1).expand(7, 7)


def heads():
    return torch.randn(3, 1, 2, 7, 4, generator=torch.Generator().manual_seed(5)).unbind()


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("sees_all", [False, True])
def test_a_mask_that_hides_what_another_softmax_sees_tells_no_padding(is_first, sees_all):
    q, k, v = heads()
    masks = [OF_IMAGE, None if sees_all else ~OF_IMAGE]
    with mhaviz.record() as recording:
        for mask in masks if is_first else masks[::-1]:
            nn.functional.scaled_dot_product_attention(q, k, v, mask)
    assert any("its mask hides keys that another softmax sees" in line for line in recording.notices)
    if sees_all:
        (m,) = recording.attention
        np.testing.assert_allclose(m.weights, torch.softmax(q @ k.mT / 2, -1)[0], atol=1e-6)
    else:
        assert recording.is_empty


def test_masks_that_hide_the_same_keys_twice_tell_padding():
    layer, x = nn.Linear(8, 24), torch.randn(1, 7, 8)
    with mhaviz.record() as recording, torch.no_grad():
        q, k, v = layer(x).view(1, 7, 3, 2, 4).permute(2, 0, 3, 1, 4)
        for scale in (0.5, 1.0):
            nn.functional.scaled_dot_product_attention(q, k, v, OF_IMAGE, scale=scale)
    for m, scale in zip(recording.attention, (0.5, 1.0), strict=True):
        A = torch.softmax((scale * q @ k.mT)[..., 3:, 3:], -1)[0]
        np.testing.assert_allclose(m.weights, A, atol=1e-6)
    assert "left out, as padding" in recording.attention.source.remark


def test_of_tensors_of_which_nothing_is_known_the_keys_alone_are_padding():
    q, k, v = heads()
    with mhaviz.record() as recording:
        nn.functional.scaled_dot_product_attention(q, k, v, OF_IMAGE)
    np.testing.assert_allclose(recording.attention[0].weights, torch.softmax((q @ k.mT / 2)[..., 3:], -1)[0], atol=1e-6)
    assert any("which queries are, is not known" in line for line in recording.notices)


@pytest.mark.parametrize("by_hand", [False, True])
def test_keys_that_queries_weigh_all_the_same_are_no_padding(by_hand):
    """Of another input: no query sees the last two; a number hides all from the last query, or nothing."""
    q, k, v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
    x, y, mask = torch.randn(1, 4, WIDTH), torch.randn(1, 6, WIDTH), torch.zeros(4, 6)
    mask[:, 4:] = mask[3] = -1e9
    with mhaviz.record() as recording:
        queries, keys, values = q(x)[:, None], k(y)[:, None], v(y)[:, None]
        if by_hand:
            (queries @ keys.mT + mask).softmax(-1) @ values
        else:
            nn.functional.scaled_dot_product_attention(queries, keys, values, mask, scale=1)
    A = torch.softmax(q(x) @ k(y).mT + mask, -1).detach()
    np.testing.assert_allclose(recording.attention[0].weights, A, atol=1e-6)


@pytest.mark.parametrize("least", [-1e9, torch.finfo(torch.float32).min])
def test_a_query_from_which_a_bias_hides_everything_weighs_as_the_program_does(least):
    """Text reads the image, and of the image nobody reads anything: the least number in a whole row hides nothing."""
    q, k, v = heads()
    mask = torch.where((KINDS == 0)[:, None] & OF_IMAGE, 0.0, least)
    with mhaviz.record() as recording:
        nn.functional.scaled_dot_product_attention(q, k, v, mask)
    (m,) = recording.attention
    np.testing.assert_allclose(m.weights, torch.softmax(q @ k.mT / 2 + mask, -1)[0], atol=1e-6)


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("k_length", [7, 9])
def test_a_key_that_is_among_the_largest_scores_of_no_query_is_no_padding(seed, k_length):
    """Top-k attention (Gupta et al. 2021, arXiv 2106.06899), of one head; every query sees itself, too."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(1, 1, n, 4, generator=generator) for n in (7, k_length, k_length))
    S = q @ k.mT / 2
    seen = torch.zeros_like(S, dtype=torch.bool).scatter(-1, S.topk(2).indices, value=True)
    seen[..., 5] = False
    seen[..., :5, :5] |= torch.eye(5, dtype=torch.bool)
    with mhaviz.record() as recording:
        nn.functional.scaled_dot_product_attention(q, k, v, seen)
    (m,) = recording.attention
    A = torch.softmax(S.masked_fill(~seen, -torch.inf), -1).nan_to_num(0.0)
    np.testing.assert_allclose(m.weights, A[0], atol=1e-6)


def test_padding_between_a_text_and_an_image_and_a_prefix_that_sees_all_of_itself():
    layer, (x, _) = ByHand(), batch()
    padded, prefix = torch.arange(7) == 2, torch.arange(7) < 4
    with mhaviz.record(layer) as recording:
        layer(x, (torch.ones(7, 7, dtype=torch.bool).tril() | prefix) & ~padded)
    (m,) = recording.attention
    kept = [0, 1, 3, 4, 5, 6]
    np.testing.assert_allclose(m.weights, layer.A.detach()[0][:, kept][..., kept], atol=1e-6)


KEPT = [2, 3, 5, 6]


@pytest.mark.parametrize(
    ("queries", "is_padding"),
    [
        (lambda x: torch.randn(1, 4, WIDTH), False),
        (lambda x: x[:, :4], False),
        (lambda x: x[:, 2:6], False),
        (lambda x: x, True),
    ],
    ids=["another input", "the first of the keys", "some of the keys", "the same"],
)
def test_keys_that_no_query_may_see_are_left_out_and_called_padding_of_the_queries_own_tokens_alone(
    queries, is_padding
):
    """Of others they may be places of a cache that nobody has filled, or tokens that come later."""
    torch.manual_seed(6)
    q, k, v, x = *(nn.Linear(WIDTH, WIDTH) for _ in range(3)), torch.randn(1, 9, WIDTH)
    own, hides = queries(x), torch.ones(9, dtype=torch.bool).index_fill(0, torch.tensor(KEPT), value=False)
    with mhaviz.record() as recording:
        Q, K, V = (f(y)[:, None] for f, y in ((q, own), (k, x), (v, x)))
        nn.functional.scaled_dot_product_attention(Q, K, V, ~hides.expand(1, 1, own.shape[1], 9))
    (m,) = recording.attention
    A = torch.softmax(q(own) @ k(x).mT / WIDTH**0.5 + torch.zeros(9).masked_fill(hides, -torch.inf), -1).detach()
    np.testing.assert_allclose(m.weights, A[:, KEPT][..., KEPT] if is_padding else A[..., KEPT], atol=1e-6)
    assert m.keys == tuple(map(str, KEPT))
    said = [recording.attention.source.remark, *recording.notices]
    assert any("as padding" in line for line in said) == is_padding
    which = "tokens 0 to 1, 4, 7 to 8, queries and keys, as padding" if is_padding else "keys 0 to 1, 4, 7 to 8"
    assert any(f"left out {which}: the mask hides them from all queries" in line for line in recording.notices)
    assert ("keys that no query may see are left out" in said[0]) == (not is_padding)


@pytest.mark.parametrize("change", [lambda A: (2 * A).softmax(-1), lambda A: 0.7 * A + 0.3 / 7])
def test_keys_that_have_weight_after_all_are_no_padding(change):
    class Changing(ByHand):
        def forward(self, x, visible):
            q, k, v = (self.heads(f(x)) for f in (self.q, self.k, self.v))
            self.A = change(torch.softmax((q @ k.mT).masked_fill(~visible, self.hide), dim=-1))
            return self.A @ v

    model, (x, padding) = Changing(), batch()
    with torch.no_grad(), mhaviz.record(model, examples=1) as recording:
        model(x, ~padding[:, None, None])
    (m,) = recording.attention
    np.testing.assert_array_equal(m.weights, model.A[1].numpy())

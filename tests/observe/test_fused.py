"""PyTorch's own attention functions: float64 of what was observed, against what the program got."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rounding import rounding
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from watched import assert_explains, watch

from mhaviz import record
from mhaviz.attention.call import AttentionWeights

CLOSE = rounding()

pytestmark = [
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning"),
]

SDPA = F.scaled_dot_product_attention


def _exact(q, k, v, mask=None, is_causal=False, scale=None):
    """The equation of PyTorch's documentation in float64, its causal mask from the top left."""
    S = q.double() @ k.double().mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        S = S.masked_fill(torch.ones(S.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    if mask is not None:
        S = S.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else S + mask
    return S.softmax(-1).nan_to_num()


def _normal(*shape):
    return torch.randn(*shape)


@pytest.mark.parametrize("before", [(), (1,), (2, 3), (2, 2, 3)])
@pytest.mark.parametrize("axes", [None, 2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_masks(before, axes, dtype):
    torch.manual_seed(0)
    q, k, v = _normal(*before, 5, 8), _normal(*before, 7, 8), _normal(*before, 7, 6)
    mask = None
    if axes is not None:
        if axes > len(before) + 2:
            return
        shape = (*before[len(before) + 2 - axes :], 5, 7)
        mask = torch.randn(shape)
        mask = mask > -1 if dtype == torch.bool else mask
    seen, output = watch(SDPA, q, k, v, attn_mask=mask)
    assert torch.equal(output, SDPA(q, k, v, attn_mask=mask))
    assert_explains(seen.only())
    A = _exact(q, k, v, mask)
    torch.testing.assert_close(seen.weights().double().reshape(A.shape), A, rtol=0, atol=CLOSE)


@given(
    st.integers(1, 6), st.integers(1, 6), st.booleans(), st.sampled_from([None, 0.1, 2.0]), st.sampled_from([1, 2, 4])
)
def test_any_lengths(q_length, k_length, is_causal, scale, n_kv_heads):
    q, k, v = _normal(2, 4, q_length, 8), _normal(2, n_kv_heads, k_length, 8), _normal(2, n_kv_heads, k_length, 8)
    seen, _ = watch(SDPA, q, k, v, is_causal=is_causal, scale=scale, enable_gqa=True)
    assert_explains(seen.only())
    A = _exact(q, k.repeat_interleave(4 // n_kv_heads, 1), v, None, is_causal, scale)
    torch.testing.assert_close(seen.weights().double(), A, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("corner", [causal_upper_left, causal_lower_right])
@pytest.mark.parametrize("q_length", [1, 6, 9])
def test_causal_masks_from_either_corner(corner, q_length):
    """Of values that are one-hot, the output is the weights."""
    q, k, v = torch.randn(2, 4, q_length, 8), torch.randn(2, 4, 9, 8), torch.eye(9).expand(2, 4, 9, 9)
    mask = corner(q_length, 9)
    seen, A = watch(SDPA, q, k, v, attn_mask=mask)
    assert seen.missed == []
    torch.testing.assert_close(seen.weights(), A, rtol=0, atol=CLOSE)
    assert torch.equal(A, SDPA(q, k, v, attn_mask=mask))


def test_queries_that_are_broadcast_to_the_heads_of_the_keys_are_refused():
    q, k = torch.randn(2, 1, 5, 8), torch.randn(2, 3, 4, 8)
    seen, _ = watch(SDPA, q, k, k)
    assert seen.names == []
    (line,) = seen.missed
    assert line.endswith("(2, 1, 5, 8), are broadcast to its keys, (2, 3, 4, 8); expand them to show it")


def test_positional_arguments_and_a_row_of_a_mask():
    q = _normal(2, 4, 5, 8)
    seen, _ = watch(SDPA, q, q, q, torch.tensor([True, True, False, True, True])[None, None, None], 0.0, False)
    assert_explains(seen.only())


def test_dropout_leaves_no_output_and_the_same_numbers():
    q = _normal(2, 4, 5, 8)
    torch.manual_seed(1)
    expected = SDPA(q, q, q, dropout_p=0.5)
    torch.manual_seed(1)
    seen, output = watch(SDPA, q, q, q, dropout_p=0.5)
    assert torch.equal(output, expected)
    assert seen.only().output is None
    torch.testing.assert_close(seen.weights().sum(-1), torch.ones(2, 4, 5))


@pytest.mark.parametrize("needs_weights", [False, True])
def test_weights_before_dropout_are_said_to_be(needs_weights):
    x, attend = _normal(1, 5, 8), nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)
    remarks = []
    for is_training in (True, False):
        with record() as recording:
            attend.train(is_training)(x, x, x, need_weights=needs_weights)
        remarks.append(recording.attention.source.remark)
    assert remarks == ["some weights are those before dropout", ""]


def test_a_program_that_has_sdpa_by_its_own_name_or_replaces_it():
    def other(*args, **kwargs):
        return SDPA(*args, **kwargs) * 2

    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    x = _normal(1, 3, 8)

    def program():
        F.scaled_dot_product_attention = other
        return layer(x, x, x, need_weights=False)[0]

    try:
        seen, output = watch(program)
        assert F.scaled_dot_product_attention is other, "what the program put there stays"
        assert torch.equal(output, layer(x, x, x, need_weights=False)[0])
        assert len(seen) == 1
    finally:
        F.scaled_dot_product_attention = SDPA


ARGUMENTS = {
    "plain": {},
    "bias": {"add_bias_kv": True},
    "zero": {"add_zero_attn": True},
    "other widths": {"kdim": 6, "vdim": 10},
    "no bias": {"bias": False},
}


CASES = [
    (arguments, mask)
    for mask in (None, "padding", "bool", "float", "per head", "causal")
    for arguments in ARGUMENTS
    if arguments == "plain" or mask in (None, "bool")
]


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(("arguments", "mask"), CASES)
def test_multi_head_attention(need_weights, batch_first, arguments, mask):
    """The oracle are its own weights."""
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=batch_first, **ARGUMENTS[arguments])
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    q, k, v = _normal(3, 5, 8), _normal(3, 6, layer.kdim), _normal(3, 6, layer.vdim)
    if arguments == "plain":
        q = k = v = _normal(3, 6, 8)
    if not batch_first:
        q, k, v = (x.transpose(0, 1) for x in (q, k, v)) if q is not k else [q.transpose(0, 1)] * 3
    length = q.shape[1 if batch_first else 0]
    hides = torch.zeros(3, 6, dtype=torch.bool)
    hides[1, 4:] = True
    causal = torch.ones(length, 6, dtype=torch.bool).triu(1)
    given = {
        None: {},
        "padding": {"key_padding_mask": hides},
        "bool": {"attn_mask": causal},
        "float": {"attn_mask": torch.randn(length, 6)},
        "per head": {"attn_mask": torch.randn(6, length, 6)},
        "causal": {"attn_mask": causal, "is_causal": length == 6},
    }[mask]
    _, A = layer(q, k, v, need_weights=True, average_attn_weights=False, **given)
    expected = layer(q, k, v, need_weights=need_weights, **given)
    seen, output = watch(layer, q, k, v, need_weights=need_weights, **given)
    assert torch.equal(output[0], expected[0])
    assert output[1] is expected[1] or torch.equal(output[1], expected[1])
    torch.testing.assert_close(seen.weights(), A, rtol=0, atol=CLOSE)
    assert_explains(seen.only())
    assert seen.only().order.tokens.are_same is (q is k)


def test_multi_head_attention_without_a_batch():
    layer, x = nn.MultiheadAttention(8, 2), _normal(5, 8)
    _, A = layer(x, x, x, average_attn_weights=False)
    seen, _ = watch(layer, x, x, x)
    torch.testing.assert_close(seen.weights()[0], A, rtol=0, atol=CLOSE)


def test_training_of_multi_head_attention_is_the_same_with_and_without():
    def train():
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
        attend = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True)
        optimiser = torch.optim.AdamW([*layer.parameters(), *attend.parameters()])
        for _ in range(3):
            x = torch.randn(2, 5, 8)
            out, A = attend(layer(x), x, x)
            (out.square().sum() + A.square().sum()).backward()
            optimiser.step()
        return [p.detach().clone() for p in (*layer.parameters(), *attend.parameters())]

    seen, recorded = watch(train)
    for one, other in zip(recorded, train(), strict=True):
        assert torch.equal(one, other)
    assert len(seen) == 6


def test_a_pass_that_an_optimiser_calls_is_seen():
    layer, x = nn.MultiheadAttention(8, 2), _normal(2, 5, 8)
    optimiser = torch.optim.LBFGS(layer.parameters(), max_iter=1)

    def loss():
        y = x / 2  # the same tokens, if they are followed
        loss = layer(y, y + 1, y)[0].square().sum()
        loss.backward()
        return loss

    seen, _ = watch(optimiser.step, loss)
    assert seen.only().order.tokens.are_same


@pytest.mark.parametrize("gradients", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("padded", [False, True])
def test_transformer(gradients, padded):
    """Its fast path is for inference."""
    torch.manual_seed(0)
    model = nn.Transformer(8, 2, 2, 2, 16, batch_first=True).eval()
    source, target = _normal(2, 5, 8), _normal(2, 4, 8)
    hides = torch.tensor([[False] * 5, [False] * 3 + [True] * 2]) if padded else None

    def program():
        with gradients():
            return model(source, target, src_key_padding_mask=hides, memory_key_padding_mask=hides, tgt_is_causal=False)

    expected = program()
    seen, output = watch(program)
    assert torch.equal(output, expected), "bit for bit, as the program alone"
    assert seen.names == [
        *(f"encoder.layers.{i}.self_attn" for i in (0, 1)),
        *(f"decoder.layers.{i}.{name}" for i in (0, 1) for name in ("self_attn", "multihead_attn")),
    ]
    for observed in seen:
        assert_explains(observed)
        assert observed.order.tokens.are_same is (not observed.place.name.endswith("multihead_attn"))
    if padded:
        assert seen[0].call.weights()[1, :, :3, 3:].abs().max() == 0


SCORES = {
    "none": None,
    "bias": lambda s, b, h, q, k: s + 0.1 * (q - k) * (h + 1),
    "capped": lambda s, b, h, q, k: 5 * torch.tanh(s / 5),
    "masked": lambda s, b, h, q, k: torch.where(q >= k, s, -float("inf")),
    "clamped": lambda s, b, h, q, k: s.clamp(-0.3, 2),
    "cubed": lambda s, b, h, q, k: s**3,
}
MASKS = {
    "none": None,
    "causal": lambda b, h, q, k: q >= k,
    "per head": lambda b, h, q, k: (q - k).abs() <= h + b,
}


@pytest.mark.parametrize(
    ("score", "mask"),
    [*zip(SCORES, itertools.cycle(MASKS), strict=False), ("none", "per head"), ("bias", "none"), ("clamped", "none")],
)
def test_flex_attention(score, mask):
    torch.manual_seed(0)
    n_kv_heads = 4 if (list(SCORES).index(score) + list(MASKS).index(mask)) % 2 else 2
    q, k, v = _normal(2, 4, 6, 8), _normal(2, n_kv_heads, 6, 8), _normal(2, n_kv_heads, 6, 8)
    hides = None if MASKS[mask] is None else create_block_mask(MASKS[mask], 2, 4, 6, 6, device="cpu")
    seen, output = watch(flex_attention, q, k, v, SCORES[score], hides, enable_gqa=True)
    assert torch.equal(output, flex_attention(q, k, v, SCORES[score], hides, enable_gqa=True))
    b, h, i, j = torch.meshgrid(*map(torch.arange, (2, 4, 6, 6)), indexing="ij")
    S = q.double() @ k.double().repeat_interleave(4 // n_kv_heads, 1).mT * 8**-0.5
    S = S if SCORES[score] is None else SCORES[score](S, b, h, i, j)
    A = (S if MASKS[mask] is None else S.masked_fill(~MASKS[mask](b, h, i, j), -torch.inf)).softmax(-1)
    torch.testing.assert_close(seen.weights().double(), A, rtol=0, atol=CLOSE)
    if not isinstance(seen.only().call, AttentionWeights):
        assert_explains(seen.only())
    elif MASKS[mask] is not None:
        assert torch.equal(seen.only().call.seen, MASKS[mask](b, h, i, j))


def test_autocast():
    q = _normal(2, 4, 5, 8)
    layer = nn.MultiheadAttention(8, 2, batch_first=True)

    def program():
        with torch.autocast("cpu", torch.bfloat16):
            x = layer(q[:, 0], q[:, 0], q[:, 0])[0]
            return SDPA(q, q, q), (q @ q.mT).softmax(-1) @ q, x

    seen, outputs = watch(program)
    for one, other in zip(outputs, program(), strict=True):
        assert torch.equal(one, other)
    assert len(seen) == 3
    assert seen.missed == []
    for number in range(3):
        torch.testing.assert_close(
            seen.weights(number).sum(-1), torch.ones_like(seen.weights(number)[..., 0]), rtol=0, atol=0.02
        )


def test_tensors_that_hold_nothing():
    meta = torch.randn(1, 2, 3, 4, device="meta")
    seen, _ = watch(SDPA, meta, meta, meta)
    assert not seen
    assert "hold nothing" in seen.missed[0]


class Cross(nn.Module):
    """Two inputs, and PyTorch's causal mask between them; ``A``: what it makes of the weights."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, y, x):
        q, k = [z.unflatten(-1, (2, 8)).transpose(1, 2) for z in (self.q(y), self.k(x))]
        self.A = _exact(q, k, k, is_causal=True).float()
        return SDPA(q, k, k, is_causal=True)


@pytest.mark.parametrize("n_keys", [5, 8])
def test_a_causal_mask_between_two_inputs_is_drawn_and_keys_that_it_hides_are_said_to_be_left_out(n_keys):
    model = Cross()
    with torch.no_grad(), record(model) as recording:
        model(torch.randn(1, 5, 16), torch.randn(1, n_keys, 16))
    (m,) = recording.attention
    torch.testing.assert_close(torch.from_numpy(m.weights), model.A[0, :, :, :5], rtol=0, atol=CLOSE)
    assert m.kind == "cross"
    assert ("keys that no query may see are left out" in recording.attention.source.remark) == (n_keys > 5)

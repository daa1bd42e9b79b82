"""Operators of other libraries. None of them is installed here: operators of their names and schemas stand in."""

import pytest
import torch
from rounding import rounding
from watched import assert_explains, watch

from mhaviz.attention.call import AttentionWeights

CLOSE = rounding()

_LIBRARIES = []


def _define(schema, function):
    """Register an operator of this schema, in plain PyTorch."""
    namespace, rest = schema.split("::")
    name = rest.split("(")[0]
    if not hasattr(getattr(torch.ops, namespace), name):
        library = torch.library.Library(namespace, "FRAGMENT")
        library.define(rest)
        library.impl(name, function, "CompositeExplicitAutograd")
        _LIBRARIES.append(library)
    return getattr(getattr(torch.ops, namespace), name)


def _exact(query, key, value, scale, seen=None, bias=None, softcap=0.0, sinks=None):
    """softmax(…) V in float64; tensors (batch, length, heads, features)."""
    q, k, v = (x.double().transpose(1, 2) for x in (query, key, value))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    S = q @ k.mT * scale
    if softcap:
        S = softcap * (S / softcap).tanh()
    if bias is not None:
        S = S + bias
    if seen is not None:
        S = S.masked_fill(~seen, -torch.inf)
    if sinks is not None:
        S = torch.cat([S, sinks.double().view(1, -1, 1, 1).expand(*S.shape[:3], 1)], -1)
    A = S.softmax(-1)[..., : k.shape[2]].nan_to_num()
    return A, (A @ v).transpose(1, 2).to(query.dtype)


def _seen(q_length, k_length, causal, left, right, top_left=False):
    """By the definition in flash-attn's documentation: key j of query i, lined up at the end."""
    seen = torch.ones(q_length, k_length, dtype=torch.bool)
    offset = 0 if top_left else k_length - q_length
    for i in range(q_length):
        for j in range(k_length):
            if (causal and j > i + offset) or (left >= 0 and j < i + offset - left):
                seen[i, j] = False
            if right >= 0 and j > i + offset + right:
                seen[i, j] = False
    return seen


def _flash(q, k, v, p, scale, causal, left, right, softcap, slopes, return_softmax):
    bias = None
    if slopes is not None:
        places = torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1] - torch.arange(k.shape[1])
        bias = -slopes.double().view(-1, slopes.shape[-1], 1, 1) * places.abs()
    seen = _seen(q.shape[1], k.shape[1], causal, left, right)
    out = _exact(q, k, v, scale, seen, bias, softcap)[1]
    return out, q.new_zeros(1), q.new_zeros(1), q.new_zeros(1)


def _flash_varlen(q, k, v, cu_q, cu_k, max_q, max_k, p, scale, causal, left=-1, right=-1, softcap=0.0, slopes=None, *_):
    parts = []
    for a, b, c, d in zip(cu_q[:-1], cu_q[1:], cu_k[:-1], cu_k[1:], strict=True):
        parts.append(
            _flash(q[None, a:b], k[None, c:d], v[None, c:d], p, scale, causal, left, right, softcap, slopes, 0)
        )
    return torch.cat([part[0][0] for part in parts]), q.new_zeros(1), q.new_zeros(1), q.new_zeros(1)


FLASH = _define(
    "flash_attn::_flash_attn_forward(Tensor q, Tensor k, Tensor v, float dropout_p, float softmax_scale, bool causal, "
    "SymInt window_size_left, SymInt window_size_right, float softcap, Tensor? alibi_slopes, bool return_softmax) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    _flash,
)
VARLEN = _define(
    "flash_attn::_flash_attn_varlen_forward(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, "
    "SymInt max_seqlen_q, SymInt max_seqlen_k, float dropout_p, float softmax_scale, bool causal, SymInt "
    "window_size_left=-1, SymInt window_size_right=-1, float softcap=0., Tensor? alibi_slopes=None, bool "
    "return_softmax=False, Tensor? block_table=None, Tensor? leftpad_k=None, Tensor? seqused_k=None, bool "
    "zero_tensors=False, int num_splits=0) -> (Tensor, Tensor, Tensor, Tensor)",
    _flash_varlen,
)


def _inputs(q_length=5, k_length=7, n_heads=4, n_kv_heads=2, batch_size=2, d=8):
    torch.manual_seed(0)
    shapes = [(batch_size, q_length, n_heads, d)] + 2 * [(batch_size, k_length, n_kv_heads, d)]
    return [torch.randn(shape) for shape in shapes]


def _assert_weights(seen, A):
    torch.testing.assert_close(seen.weights().double(), A, rtol=0, atol=CLOSE)
    assert_explains(seen.only())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("left", "right"), [(-1, -1), (2, 0), (2, 1), (-1, 1), (1, -1)])
@pytest.mark.parametrize("softcap", [0.0, 3.0])
def test_flash_attention(causal, left, right, softcap):
    q, k, v = _inputs()
    seen, out = watch(FLASH, q, k, v, 0.0, 0.3, causal, left, right, softcap, None, False)
    A, expected = _exact(q, k, v, 0.3, _seen(5, 7, causal, left, right), softcap=softcap)
    assert torch.equal(out[0], expected)
    _assert_weights(seen, A)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("of_each", [False, True])
def test_alibi(causal, of_each):
    q, k, v = _inputs()
    slopes = torch.rand(2, 4) if of_each else torch.rand(4)
    seen, _ = watch(FLASH, q, k, v, 0.0, 0.3, causal, 2 if of_each else -1, -1, 0.0, slopes, False)
    bias = -slopes.double().view(-1, 4, 1, 1) * (torch.arange(5)[:, None] + 2 - torch.arange(7)).abs()
    A, _ = _exact(q, k, v, 0.3, _seen(5, 7, causal, 2 if of_each else -1, -1), bias)
    _assert_weights(seen, A)


def test_dropout_leaves_no_output():
    q, k, v = _inputs()
    seen, _ = watch(FLASH, q, k, v, 0.1, 0.3, False, -1, -1, 0.0, None, False)
    assert seen.only().output is None


class _Function(torch.autograd.Function):
    """As flash-attn calls its operators."""

    @staticmethod
    def forward(ctx, q, k, v):
        return torch.ops.flash_attn._flash_attn_forward(q, k, v, 0.0, 0.3, True, -1, -1, 0.0, None, False)[0]

    @staticmethod
    def backward(ctx, grad):
        return grad, grad, grad


def test_within_an_autograd_function():
    q, k, v = (x.requires_grad_() for x in _inputs(6, 6, 4, 4))
    seen, out = watch(_Function.apply, q, k, v)
    assert seen.only().call.causal
    assert_explains(seen.only())
    out.sum().backward()


def test_packed_sequences_of_several_lengths():
    torch.manual_seed(0)
    q, k, v = torch.randn(9, 4, 8), torch.randn(9, 2, 8), torch.randn(9, 2, 8)
    starts = torch.tensor([0, 3, 3, 9])
    seen, _ = watch(VARLEN, q, k, v, starts, starts, 6, 6, 0.0, 0.3, True)
    A, expected = _exact(q[None, :3], k[None, :3], v[None, :3], 0.3, _seen(3, 3, True, -1, -1))
    _assert_weights(seen, A)
    assert torch.equal(seen.only().output.transpose(1, 2), expected)
    assert seen.missed == [f"{seen.names[0]}: packs 3 sequences of 0 to 6 tokens into one; the first is recorded"]


def test_packed_sequences_of_one_length_are_a_batch():
    torch.manual_seed(0)
    q, k, v = torch.randn(9, 4, 8), torch.randn(15, 2, 8), torch.randn(15, 2, 8)
    slopes = torch.rand(4)
    seen, _ = watch(
        VARLEN, q, k, v, torch.tensor([0, 3, 6, 9]), torch.tensor([0, 5, 10, 15]), 3, 5, 0.0, 0.3, True,
        alibi_slopes=slopes,
    )  # fmt: skip
    assert seen.only().call.shape == (3, 4, 3, 5)
    bias = -slopes.double().view(-1, 4, 1, 1) * (torch.arange(3)[:, None] + 2 - torch.arange(5)).abs()
    parts = [x.unflatten(0, (3, -1)) for x in (q, k, v)]
    _assert_weights(seen, _exact(*parts, 0.3, _seen(3, 5, True, -1, -1), bias)[0])
    assert not seen.missed


def test_packed_sequences_that_hold_nothing():
    x = torch.randn(4, 2, 8)
    nothing = torch.tensor([0, 0, 0])
    seen, _ = watch(VARLEN, x, x, x, nothing, torch.tensor([0, 2, 4]), 0, 2, 0.0, 0.3, False)
    assert not seen
    assert "packs empty sequences" in seen.missed[0]


def test_pages_are_said_not_to_be_seen():
    x, starts = torch.randn(4, 2, 8), torch.tensor([0, 2, 4])
    seen, _ = watch(VARLEN, x, x, x, starts, starts, 2, 2, 0.0, 0.3, False, block_table=torch.zeros(2, 2))
    assert not seen
    assert "flash_attn::_flash_attn_varlen_forward cannot be recorded with block_table" in seen.missed[0]


def _flash_3(q, k, v, *rest):
    rest = (*rest, *[None] * (32 - len(rest)))  # the last ones that are not given do not come
    scale, causal, left, right = rest[20] or q.shape[-1] ** -0.5, rest[21], rest[22], rest[23]
    seen = _seen(q.shape[1], k.shape[1], causal, *(-1 if x is None else x for x in (left, right)))
    return _exact(q, k, v, scale, seen, sinks=rest[31])[1], *[q.new_zeros(1)] * 3


FLASH_3 = _define(
    "flash_attn_3::fwd(Tensor q, Tensor k, Tensor v, Tensor(k_new!)? k_new=None, Tensor(v_new!)? v_new=None, Tensor? "
    "q_v=None, Tensor(out!)? out=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, Tensor? "
    "cu_seqlens_k_new=None, Tensor? seqused_q=None, Tensor? seqused_k=None, int? max_seqlen_q=None, int? "
    "max_seqlen_k=None, Tensor? page_table=None, Tensor? kv_batch_idx=None, Tensor? leftpad_k=None, Tensor? "
    "rotary_cos=None, Tensor? rotary_sin=None, Tensor? seqlens_rotary=None, Tensor? q_descale=None, Tensor? "
    "k_descale=None, Tensor? v_descale=None, float? softmax_scale=None, bool is_causal=False, int "
    "window_size_left=-1, int window_size_right=-1, int attention_chunk=0, float softcap=0., bool "
    "is_rotary_interleaved=False, Tensor? scheduler_metadata=None, int num_splits=0, bool? pack_gqa=None, int "
    "sm_margin=0, Tensor? s_aux=None) -> (Tensor, Tensor, Tensor, Tensor)",
    _flash_3,
)


def test_flash_attention_3():
    q, k, v = _inputs()
    sinks = torch.randn(4)
    seen, _ = watch(FLASH_3, q, k, v, is_causal=True, window_size_left=3, s_aux=sinks)
    A, _ = _exact(q, k, v, 8**-0.5, _seen(5, 7, True, 3, -1), sinks=sinks)
    _assert_weights(seen, A)
    assert seen.only().call.has_sink
    seen, _ = watch(FLASH_3, q, k, v, seqused_k=torch.tensor([3, 4]))
    assert not seen
    assert "caches that are partly filled" in seen.missed[0]


CUTLASS = _define(
    "xformers::efficient_attention_forward_cutlass(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, Tensor? "
    "seqstart_q, Tensor? seqstart_k, int? max_seqlen_q, float dropout_p, bool compute_logsumexp, int custom_mask_type, "
    "float? scale, Tensor? causal_diagonal, Tensor? seqlen_k, int? window_size) -> (Tensor, Tensor, int, int)",
    lambda q, k, v, bias, _a, _b, _c, _d, _e, mask, scale, _f, _g, window: (
        _exact(q, k, v, scale or q.shape[-1] ** -0.5,
               _seen(q.shape[1], k.shape[1], mask > 0, (window or 0) - 1, -1, mask == 1), bias)[1],
        q.new_zeros(1), 0, 0,
    ),
)  # fmt: skip


@pytest.mark.parametrize("mask", [0, 1, 2])
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("with_bias", [False, True])
def test_xformers(mask, window, with_bias):
    """LowerTriangularMask is mask 1, LowerTriangularFromBottomRightMask is 2."""
    if window and not mask:
        return
    q, k, v = _inputs(n_kv_heads=4)
    bias = torch.randn(2, 4, 5, 7) if with_bias else None
    seen, _ = watch(CUTLASS, q, k, v, bias, None, None, None, 0.0, False, mask, None, None, None, window)
    A, _ = _exact(q, k, v, 8**-0.5, _seen(5, 7, mask > 0, (window or 0) - 1, -1, mask == 1), bias)
    _assert_weights(seen, A)


def test_varlen_attn_of_pytorch():
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    q = torch.randn(7, 4, 8)
    starts = torch.tensor([0, 4, 7], dtype=torch.int32)
    namespace = torch.ops.torch_attn
    # The operator runs on GPUs alone: its stand-in has its schema under another name.
    schema = str(namespace._varlen_attn.default._schema).replace("torch_attn::", "torch_attn_test_flash_attn::")
    assert varlen is not None
    stand_in = _define(
        schema.replace("_varlen_attn(", "_varlen_forward("),
        lambda q, k, v, cu_q, cu_k, mq, mk, causal, scale, window, *_: (
            _flash_varlen(q, k, v, cu_q, cu_k, mq, mk, 0, scale or 8**-0.5, causal, *(window or (-1, -1)), 0.0, None)[
                0
            ],
            q.new_zeros(1),
            q.new_zeros(1),
        ),
    )
    seen, _ = watch(stand_in, q, q, q, starts, starts, 4, 4, False, None, [1, 0])
    A, _ = _exact(q[None, :4], q[None, :4], q[None, :4], 8**-0.5, _seen(4, 4, False, 1, 0))
    _assert_weights(seen, A)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("is_operator", [False, True])
def test_operators_below_sdpa(causal, is_operator):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, n, 8) for n in (5, 7, 7))
    home = torch.ops.aten if is_operator else torch
    seen, _ = watch(home._scaled_dot_product_flash_attention_for_cpu, q, k, v, 0.0, causal, scale=0.2)
    assert_explains(seen.only())
    seen, _ = watch(home._scaled_dot_product_attention_math, q, k, v, torch.randn(5, 7), 0.0, False)
    assert_explains(seen.only())
    seen, _ = watch(torch.ops.aten.scaled_dot_product_attention.default, q, k, v, None, 0.0, causal)
    assert_explains(seen.only())


def test_an_exported_program():
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    x = torch.randn(1, 2, 5, 8)
    exported = torch.export.export(Model(), (x,)).module()
    seen, out = watch(exported, x)
    assert_explains(seen.only())
    assert seen.only().call.causal
    assert torch.equal(out, exported(x))


def test_unknown_operators_are_named_once():
    paged = _define("vllm_test::paged_attention_v9(Tensor q, Tensor cache) -> Tensor", lambda q, cache: q.clone())
    other = _define("sage_test::attn(Tensor x) -> Tensor", lambda x: x.clone())
    backward = _define("sage_test::attn_backward(Tensor x) -> Tensor", lambda x: x.clone())
    plain = _define("sage_test::plain(Tensor x) -> Tensor", lambda x: x.clone())
    x = torch.randn(3, 3)
    seen, _ = watch(lambda: [paged(x, x), paged(x, x), other(x), backward(x), plain(x)])
    assert not seen
    assert [line.split(":", 3)[:3] for line in seen.missed] == [
        ["vllm_test", "", "paged_attention_v9"],
        ["sage_test", "", "attn"],
    ]


def test_weights_are_no_call():
    """Whatever is read of an operator keeps its queries and keys."""
    q, k, v = _inputs()
    seen, _ = watch(FLASH, q, k, v, 0.0, 0.3, False, -1, -1, 0.0, None, False)
    assert not isinstance(seen.only().call, AttentionWeights)

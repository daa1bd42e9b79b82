"""The layers of torch.nn, and a GPT as nanoGPT writes it."""

import math
import warnings
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from zoo.program import Entry, Program, Weights, spread

WIDTH, HEADS, LENGTH, MEMORY, BATCH = 24, 4, 7, 5, 2
# As many heads as two divide: PyTorch's fast path wants that.


def numbers(length: int, batch_first: bool, seed: int) -> Tensor:
    x = torch.randn(BATCH, length, WIDTH, generator=torch.Generator().manual_seed(seed))
    return x if batch_first else x.transpose(0, 1).contiguous()


class WithWeights:
    """A context in which every nn.MultiheadAttention of a model returns its weights, which are kept here, a head each.

    Its own oracle: ``need_weights=True, average_attn_weights=False``.
    """

    def __init__(self, model: nn.Module):
        self.attentions = [module for module in model.modules() if isinstance(module, nn.MultiheadAttention)]
        self.kept: list[Tensor] = []
        self.handles: list[Any] = []

    def __enter__(self) -> "WithWeights":
        def ask(_module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
            return args[:3], {**kwargs, "need_weights": True, "average_attn_weights": False}

        def keep(_module: nn.Module, _args: Any, _kwargs: Any, output: tuple[Tensor, Tensor]) -> None:
            self.kept.append(output[1].detach().clone())

        for module in self.attentions:
            self.handles.append(module.register_forward_pre_hook(ask, with_kwargs=True))
            self.handles.append(module.register_forward_hook(keep, with_kwargs=True))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()


def program(model: nn.Module, inputs: tuple[Tensor, ...], options: dict[str, Any]) -> Program:
    spread(model, 2.0)

    def run() -> Any:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nested tensors "will change in the near future"
            return model(*inputs, **options)

    def own() -> list[Weights]:
        torch.backends.mha.set_fastpath_enabled(False)  # which has no rows for padding
        try:
            with WithWeights(model) as seen:
                run()
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
        return [(f"nn.MultiheadAttention {i}", A) for i, A in enumerate(seen.kept)]

    return Program(model, run, own, "need_weights=True")


def multihead(batch_first: bool, need_weights: bool, cross: bool = False, causal: bool = False, **more: Any) -> Program:
    x, memory = numbers(LENGTH, batch_first, 1), numbers(MEMORY, batch_first, 2)
    torch.manual_seed(0)
    model = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first, **more)
    keys = memory if cross else x
    options: dict[str, Any] = {"need_weights": need_weights}
    if causal:
        options |= {"attn_mask": nn.Transformer.generate_square_subsequent_mask(LENGTH), "is_causal": True}
    return program(model, (x, keys, keys), options)


def padded() -> Program:
    x = numbers(LENGTH, True, 1)
    model = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    hidden = torch.arange(LENGTH) >= torch.tensor([[LENGTH], [4]])
    return program(model, (x, x, x), {"key_padding_mask": hidden})


def encoder(batch_first: bool, is_padded: bool = False) -> Program:
    """The padding of one that is padded is cut out on PyTorch's fast path, and its output is 0."""
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=batch_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=is_padded)
    hidden = torch.arange(LENGTH) >= torch.tensor([[LENGTH], [4]])
    return program(model, (numbers(LENGTH, batch_first, 1),), {"src_key_padding_mask": hidden if is_padded else None})


def decoder(batch_first: bool) -> Program:
    model = nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, HEADS, 32, batch_first=batch_first), 2)
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    inputs = numbers(LENGTH, batch_first, 1), numbers(MEMORY, batch_first, 2)
    return program(model, inputs, {"tgt_mask": mask, "tgt_is_causal": True})


def transformer(batch_first: bool) -> Program:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "enable_nested_tensor is True, but ..."
        model = nn.Transformer(WIDTH, HEADS, 1, 1, 32, batch_first=batch_first)
    return program(model, (numbers(LENGTH, batch_first, 1), numbers(MEMORY, batch_first, 2)), {})


class CausalSelfAttention(nn.Module):
    """As karpathy/nanoGPT's: fused, or by hand with a mask in a buffer."""

    def __init__(self, flash: bool):
        super().__init__()
        self.flash = flash
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.attn_dropout = nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(LENGTH, LENGTH)).view(1, 1, LENGTH, LENGTH))
        self.kept: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = (y.view(B, T, HEADS, C // HEADS).transpose(1, 2) for y in self.c_attn(x).split(C, dim=2))
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            att = self.attn_dropout(F.softmax(att, dim=-1))
            self.kept.append(att.detach().clone())
            y = att @ v
        projected: Tensor = self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return projected


class Block(nn.Module):
    def __init__(self, flash: bool):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(WIDTH), CausalSelfAttention(flash), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 48), nn.GELU(), nn.Linear(48, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, flash: bool, n_layers: int = 3):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(50, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList(Block(flash) for _ in range(n_layers))
        self.lm_head = nn.Linear(WIDTH, 50, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        scores: Tensor = self.lm_head(x)
        return scores


def nano_gpt(flash: bool) -> Program:
    torch.manual_seed(0)
    model = spread(GPT(flash), 2.0)
    ids = torch.tensor([[3, 14, 15, 9, 26, 5, 35], [2, 7, 18, 28, 18, 28, 45]])

    def run() -> Tensor:
        with torch.no_grad():
            scores: Tensor = model(ids)
        return scores

    def own() -> list[Weights]:
        """Those of the same parameters, computed by hand."""
        by_hand = GPT(False).eval()
        by_hand.load_state_dict(model.state_dict())
        with torch.no_grad():
            by_hand(ids)
        return [(f"h.{i}.attn", block.attn.kept[0]) for i, block in enumerate(by_hand.h)]  # type: ignore[union-attr]

    return Program(model, run, own, "the manual branch")


def entry(name: str, function: Any, *arguments: Any, **options: Any) -> Entry:
    return Entry(name, "torch.nn", partial(function, *arguments, **options))


TORCH = [
    entry("nn.MultiheadAttention", multihead, False, True),
    entry("nn.MultiheadAttention, need_weights=False", multihead, False, False),
    entry("nn.MultiheadAttention, batch_first", multihead, True, True),
    entry("nn.MultiheadAttention, batch_first, need_weights=False", multihead, True, False),
    entry("nn.MultiheadAttention, cross", multihead, True, True, cross=True),
    entry("nn.MultiheadAttention, causal", multihead, True, False, causal=True),
    entry(
        "nn.MultiheadAttention, add_bias_kv, add_zero_attn",
        multihead,
        True,
        False,
        add_bias_kv=True,
        add_zero_attn=True,
    ),
    entry("nn.MultiheadAttention, key_padding_mask", padded),
    entry("nn.TransformerEncoder", encoder, False),
    entry("nn.TransformerEncoder, batch_first", encoder, True),
    entry("nn.TransformerEncoder, batch_first, src_key_padding_mask", encoder, True, True),
    entry("nn.TransformerDecoder", decoder, False),
    entry("nn.TransformerDecoder, batch_first", decoder, True),
    entry("nn.Transformer", transformer, False),
    entry("nn.Transformer, batch_first", transformer, True),
    Entry("nanoGPT, flash", "by hand", partial(nano_gpt, True)),
    Entry("nanoGPT, manual", "by hand", partial(nano_gpt, False)),
]

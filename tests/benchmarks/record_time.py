"""A program with and without ``mhaviz.record``: its forward passes, and the memory of its maps.

1. A forward pass that is recorded, all maps reduced at once, beside the same without: nanoGPT's layers (12 of 12 heads,
   d_model 768, random weights, the fused kernel) at 256 and 1,024 tokens, MiniLM at 256. At most 1.3 times.
2. A forward pass of a training of which nothing is kept any more, beside the same without a recorder: 1.1 times.
3. Memory of recording a GPT-2 of six layers of six heads at 4,096 tokens, above what its forward pass takes, beside
   that of eager attention's weights. At most a tenth.
4. Steps of AdamW over 48 small parameters, under the recorder and alone: at most 3 times, and 11 where its functions
   were followed as others are.
5. Steps of a training of which ``mhaviz.Watch`` samples none, beside the same alone: small encoders of 2 and 4 layers.
   At most 1.02 times.
6. One function of PyTorch, ``x + 1``, under the recorder and alone, in microseconds.
"""

import time
from collections.abc import Callable
from functools import partial

import torch
from measure import Row, in_fresh_process, parse_repeat, peak_memory, print_table, time_functions
from model_time import MINILM
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers import AutoModel, GPT2Config, GPT2Model

import mhaviz

FORWARD, KEPT_NOTHING, MEMORY, STEP, BETWEEN = 1.3, 1.1, 0.1, 3.0, 1.02


class Attention(nn.Module):
    """As nanoGPT has it."""

    def __init__(self, d_model: int, n_head: int) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.n_head = n_head

    def forward(self, x: Tensor) -> Tensor:
        heads = (y.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for y in self.c_attn(x).chunk(3, dim=-1))
        return self.c_proj(F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, d_model: int, n_head: int) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(d_model), Attention(d_model, n_head)
        self.ln_2, self.up, self.down = (
            nn.LayerNorm(d_model),
            nn.Linear(d_model, 4 * d_model),
            nn.Linear(4 * d_model, d_model),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.down(F.gelu(self.up(self.ln_2(x))))


def nano_gpt() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(1000, 768), *(Block(768, 12) for _ in range(12))).eval()


@torch.no_grad()
def run(model: nn.Module, ids: Tensor) -> None:
    model(ids)


def record(model: nn.Module, ids: Tensor) -> None:
    with mhaviz.record(model) as recording:
        run(model, ids)
    assert not recording.is_empty


def forward(what: str, model: nn.Module, length: int, repeat: int) -> Row:
    ids = torch.randint(1000, (1, length), generator=torch.Generator().manual_seed(0))
    mhaviz_, peer = time_functions([partial(record, model, ids), partial(run, model, ids)], repeat)
    return Row(f"forward pass, recorded, {what}, {length:,} tokens; peer: alone", mhaviz_, peer, FORWARD)


def kept_nothing(model: nn.Module, length: int, repeat: int) -> Row:
    ids = torch.randint(1000, (1, length))
    recording = mhaviz.record(model)
    with recording:
        run(model, ids)

    def later() -> None:
        with recording:
            run(model, ids)

    ours, theirs = time_functions([later, partial(run, model, ids)], repeat)
    return Row(f"the passes after it, {length:,} tokens; peer: alone", ours, theirs, KEPT_NOTHING)


def gpt2(attention: str) -> nn.Module:
    sizes = {"vocab_size": 1000, "n_positions": 4096, "n_embd": 384, "n_layer": 6, "n_head": 6}
    return GPT2Model(GPT2Config(**sizes, use_cache=False, attn_implementation=attention)).eval()


def memory_of(how: str) -> float:
    model = gpt2("eager" if how == "eager" else "sdpa")
    ids = torch.randint(1000, (1, 4096))
    functions: dict[str, Callable[[], object]] = {
        "alone": lambda: run(model, ids),
        "recorded": lambda: record(model, ids),
        "eager": lambda: model(ids, output_attentions=True),
    }
    with torch.no_grad():
        return peak_memory(functions[how])


def memory() -> Row:
    alone, recorded, eager = (in_fresh_process(memory_of, how) for how in ("alone", "recorded", "eager"))
    what = f"memory above the {alone:,.0f} MiB of a forward pass, 4,096 tokens; peer: eager weights"
    return Row(what, [recorded - alone], [eager - alone], MEMORY, "MiB")


def step(repeat: int) -> Row:
    parameters = [nn.Parameter(torch.ones(32)) for _ in range(48)]
    for x in parameters:
        x.grad = torch.ones(32)
    optimiser = torch.optim.AdamW(parameters, foreach=False)

    def alone() -> None:
        for _ in range(20):
            optimiser.step()

    def recorded() -> None:
        with mhaviz.record():
            alone()

    ours, theirs = time_functions([recorded, alone], repeat)
    return Row("20 steps of AdamW over 48 small parameters; peer: alone", ours, theirs, STEP)


def between_samples(d_model: int, n_layers: int, length: int, repeat: int) -> Row:
    """Each round is of 20 steps, as single ones differ by more than a hook takes."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(d_model, 4, 2 * d_model, batch_first=True)
    model = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
    optimiser, x = torch.optim.AdamW(model.parameters()), torch.randn(16, length, d_model)
    watch = mhaviz.Watch(every=10**9)

    def steps() -> None:
        for _ in range(20):
            optimiser.zero_grad()
            model(x).square().mean().backward()
            optimiser.step()

    def watched() -> None:
        with watch:
            steps()

    ours, theirs = time_functions([watched, steps], repeat)
    what = f"20 steps of a training between two samples, {n_layers} layers of d_model {d_model}, {length} tokens"
    return Row(f"{what}; peer: alone", ours, theirs, BETWEEN)


def of_a_function(number: int = 20_000) -> tuple[float, float]:
    """Microseconds, under the recorder and alone."""
    x = torch.zeros(4)

    def taken() -> float:
        start = time.perf_counter()
        for _ in range(number):
            x + 1
        return (time.perf_counter() - start) / number * 1e6

    alone = taken()
    with mhaviz.record():
        return taken(), alone


def main() -> None:
    repeat = parse_repeat(__doc__, default=7)
    model = nano_gpt()
    rows = [forward("nanoGPT", model, length, repeat) for length in (256, 1024)]
    rows.append(forward("MiniLM", AutoModel.from_pretrained(MINILM).eval(), 256, repeat))
    rows.append(kept_nothing(model, 256, repeat))
    rows.append(memory())
    rows.append(step(repeat))
    rows += [between_samples(*sizes, repeat=5 * repeat) for sizes in ((32, 2, 12), (128, 4, 64))]
    print_table(rows)
    ours, alone = of_a_function()
    print(f"\nA function of PyTorch takes {ours:.1f} µs under the recorder, {alone:.1f} µs alone.")


if __name__ == "__main__":
    main()

"""The memory of a page, statistics and a picture of 32 layers of 32 heads at 512 tokens, above that of the model.

The model is a Llama of tiny width with random weights, so that all that counts is of the maps. Its peer: the weights of
all layers as eager attention returns them. At most a third of these; one layer's weights are 32 MiB.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from measure import Row, in_fresh_process, parse_repeat, peak_memory, print_table
from model_time import MINILM
from transformers import AutoTokenizer, LlamaConfig, LlamaModel

import mhaviz
from mhaviz.api.loaded import LoadedModel

LAYERS, HEADS, TOKENS, TARGET = 32, 32, 512, 1 / 3
TEXT = " ".join(["the cat sat on a mat"] * 85)


def model(attention: str) -> LlamaModel:
    torch.manual_seed(0)
    sizes = {"vocab_size": 31_000, "hidden_size": 8 * HEADS, "intermediate_size": 64, "num_hidden_layers": LAYERS}
    config = LlamaConfig(**sizes, num_attention_heads=HEADS, attn_implementation=attention, use_cache=False)
    return LlamaModel(config).eval()


def save(loaded: LoadedModel, outputs: tuple[str, ...]) -> None:
    attention = loaded.attend(TEXT, page=".html" in outputs)
    assert len(attention[0].queries) == TOKENS
    with tempfile.TemporaryDirectory() as folder:
        for suffix in outputs:
            attention.save(Path(folder, f"heads{suffix}"))


def taken(outputs: tuple[str, ...]) -> float:
    """MiB; without outputs by eager attention."""
    if not outputs:
        ids = torch.randint(300, (1, TOKENS))
        whole = model("eager")
        with torch.no_grad():
            return peak_memory(lambda: whole(ids, output_attentions=True))
    loaded = mhaviz.load(model("sdpa"), AutoTokenizer.from_pretrained(MINILM))
    loaded.attend("the cat", layer=0).plot()  # what is imported is no part of it
    work: Callable[[], None] = partial(save, loaded, outputs)
    return peak_memory(work)


def main() -> None:
    parse_repeat(__doc__, default=1)
    eager = in_fresh_process(taken, ())
    rows = []
    for outputs in ((".png",), (".html",), (".html", ".png")):
        ours = in_fresh_process(taken, outputs)
        what = f"{LAYERS} × {HEADS} heads, {TOKENS} tokens, summary, {' and '.join(outputs)}; peer: eager weights"
        rows.append(Row(what, [ours], [eager], TARGET, "MiB"))
    print_table(rows)


if __name__ == "__main__":
    main()

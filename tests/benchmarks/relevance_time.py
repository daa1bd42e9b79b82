"""Relevance of 8,192 tokens beside the gradient alone, and beside eager weights that are kept with their gradients.

A Llama of random weights, two layers of four heads, d_model 256, float32, one thread. Its relevance for one logit may
take 1.5 times as long as the gradient of that logit at the embeddings, by a forward and a backward pass of the fused
kernel, and a quarter of the time and a tenth of the memory of eager weights A and their gradients, of which it is r in
r ← r + r Ā, Ā = E_h (A ⊙ ∂y/∂A)⁺ (Chefer et al. 2021, arXiv 2103.15679). Memory is the peak above the model, in a
process for each; the eager weights and their gradients need 7 GB of it.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from measure import Row, in_fresh_process, parse_repeat, peak_memory, print_table, time_functions
from numpy.typing import NDArray
from tokenizers import Tokenizer, models
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from mhaviz.analyses.word_relevance import relevance_of_tokens
from mhaviz.attention.model import Model
from mhaviz.inputs.given import Given
from mhaviz.inputs.tokens import Text
from mhaviz.models.transformers.model import model_in_memory

TOKENS, FEW, VOCABULARY = 8192, 64, 1000
BACKWARD, EAGER, MEMORY = 1.5, 0.25, 0.1


def model(attention: str) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=TOKENS,
        use_cache=False,
        attn_implementation=attention,
    )
    return LlamaForCausalLM(config).eval()


def some_ids(length: int) -> Tensor:
    return torch.randint(VOCABULARY, (1, length), generator=torch.Generator().manual_seed(1))


def y(output) -> Tensor:  # type: ignore[no-untyped-def]
    return output.logits[0, -1, 7]


def opened() -> Model:
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, "w0"))
    return model_in_memory(model("sdpa"), PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w0"))


def relevance(whole: Model, text: Text) -> NDArray[np.float64]:
    of_tokens, _ = relevance_of_tokens(whole.graded(text, whole.target(y, text)))
    return of_tokens


def embedded(whole: LlamaForCausalLM, ids: Tensor) -> Tensor:
    whole.requires_grad_(False)
    return whole.get_input_embeddings()(ids).requires_grad_()


def backward(whole: LlamaForCausalLM, ids: Tensor) -> Tensor:
    x = embedded(whole, ids)
    (gradient,) = torch.autograd.grad(y(whole(inputs_embeds=x)), x)
    return gradient


def eager(whole: LlamaForCausalLM, ids: Tensor) -> NDArray[np.float64]:
    output = whole(inputs_embeds=embedded(whole, ids), output_attentions=True)
    for A in output.attentions:
        A.retain_grad()
    y(output).backward()
    r = torch.zeros(ids.shape)
    r[0, -1] = 1
    gained = torch.zeros_like(r)
    for A in reversed(output.attentions):
        gained = gained + (r + gained) @ (A.detach() * A.grad)[0].clamp(min=0).mean(dim=0)
    return gained[0].double().numpy()


def way(name: str, length: int) -> Callable[[], object]:
    """What is measured, after it has run on a few tokens: what is imported is no part of it."""
    torch.set_num_threads(1)
    if name == "relevance":
        whole = opened()
        few, text = (whole.read(Given(ids=(tuple(some_ids(n)[0].tolist()),))).texts[0] for n in (FEW, length))
        relevance(whole, few)
        return partial(relevance, whole, text)
    of, function = (model("sdpa"), backward) if name == "backward" else (model("eager"), eager)
    function(of, some_ids(FEW))
    return partial(function, of, some_ids(length))


def memory_of(name: str, length: int) -> float:
    return peak_memory(way(name, length))


def rows(repeat: int, length: int = TOKENS) -> list[Row]:
    names = ("relevance", "backward", "eager")
    ours, backward, eager = time_functions([way(name, length) for name in names], repeat, warm=False)
    memory, of_backward, of_eager = ([in_fresh_process(memory_of, name, length)] for name in names)
    what = f"relevance of {length:,} tokens"
    return [
        Row(f"{what}; peer: the gradient at the embeddings", ours, backward, BACKWARD),
        Row(f"{what}; peer: eager weights and gradients", ours, eager, EAGER),
        Row("its memory; peer: the gradient at the embeddings", memory, of_backward, BACKWARD, "MiB"),
        Row("its memory; peer: eager weights and gradients", memory, of_eager, MEMORY, "MiB"),
    ]


if __name__ == "__main__":
    print_table(rows(parse_repeat(__doc__, 3)))

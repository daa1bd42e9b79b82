"""Train a model of two layers that copies, and save it as a checkpoint: python samples/induction.py FOLDER

In a few seconds it grows a head that looks at the previous token, and heads of the layer after it that look at what
followed an earlier copy (Olsson et al. 2022, arXiv 2209.11895).

It reads a beginning, random words, some of these once more at a random place, and random words; it is trained on what
is read again alone. As the places differ, no position tells what follows, and only an earlier copy does.
"""

import sys
from pathlib import Path

import torch
import transformers as hf
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch.nn.functional import cross_entropy

WORDS = 31
LENGTH = 32  # tokens of a sequence that it learns from
SHORTEST, LONGEST = 4, 12  # words that are read twice
STEPS, BATCH_SIZE, RATE, WARMING = 400, 32, 5e-3, 20


def word_tokenizer() -> hf.PreTrainedTokenizerFast:
    """<s>, and the words w1, w2, …; the number of a word is its token."""
    tokenizer = Tokenizer(models.WordLevel({"<s>": 0, **{f"w{i}": i for i in range(1, WORDS + 1)}}, "w1"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 0)])
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", pad_token="<s>")


def train(seed: int = 0) -> hf.GPTNeoXForCausalLM:
    """The model, trained."""
    config = hf.GPTNeoXConfig(
        vocab_size=WORDS + 1,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        # Half of a head's features tell positions, the others words; slow rotations would tell short distances badly.
        rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
        bos_token_id=0,
        eos_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = hf.GPTNeoXForCausalLM(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    random = torch.Generator().manual_seed(seed)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / WARMING)
        ids, is_known = _sequences(random)
        logits = model(input_ids=ids).logits[:, :-1]
        optimizer.zero_grad()
        cross_entropy(logits[is_known[:, 1:]], ids[:, 1:][is_known[:, 1:]]).backward()
        optimizer.step()
    return model.eval()


def _sequences(random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """ids, (batch_size, LENGTH), and which of them an earlier copy tells: all that is read again but its first word."""

    def places(most: torch.Tensor) -> torch.Tensor:
        return (torch.rand(BATCH_SIZE, 1, generator=random) * (most + 1)).long().clamp(max=most)

    ids = torch.randint(1, WORDS + 1, (BATCH_SIZE, LENGTH), generator=random)
    ids[:, 0] = 0
    n = torch.randint(SHORTEST, LONGEST + 1, (BATCH_SIZE, 1), generator=random)
    first = 1 + places(LENGTH - 1 - 2 * n)
    again = first + n + places(LENGTH - first - 2 * n)
    positions = torch.arange(LENGTH)[None]
    is_again = (positions >= again) & (positions < again + n)
    ids = ids.gather(1, torch.where(is_again, positions - again + first, positions))
    return ids, is_again & (positions > again)


def save_copier(folder: Path) -> None:
    """Train the model, and save it with its tokenizer."""
    for part in (train(), word_tokenizer()):
        part.save_pretrained(folder)


if __name__ == "__main__":
    hf.utils.logging.disable_progress_bar()
    save_copier(Path(sys.argv[1]))

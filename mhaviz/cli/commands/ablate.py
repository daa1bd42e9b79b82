"""mhaviz ablate"""

from typing import Annotated, Literal

import typer

from mhaviz.cli.shared.appearance import ColourOptions, style_of
from mhaviz.cli.shared.console import corpus_progress
from mhaviz.cli.shared.corpora import require_one_process
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import CheckpointOptions, Heads
from mhaviz.cli.shared.ranking import RepeatOptions, Top
from mhaviz.cli.shared.texts import CorpusFile, Sentences, quotes_notice, stream_sentences
from mhaviz.pages.registry import ABLATION_SUFFIXES


def ablate(
    checkpoint: CheckpointOptions,
    delivery: Delivery,
    looks: ColourOptions,
    repeats: RepeatOptions,
    sentences: Sentences = None,
    file: CorpusFile = None,
    head: Heads = None,
    sort: Annotated[
        Literal["change", "loss"], typer.Option(metavar="COLUMN", help="Rank by change or loss.")
    ] = "change",
    top: Top = 16,
) -> None:
    """Zero one head at a time, and rank the heads by how much predictions change.

    \b
    mhaviz ablate --model path/to/gpt2 --file sentences.txt -o ablation.png
    mhaviz ablate --model path/to/bert "Paris is the capital of France." --sort loss --top 5
    mhaviz ablate --model path/to/gpt2 --random-repeat 50 -o induction.png

    The change is that of the distribution of the next token, or of masked tokens, in bits. For models that predict no
    tokens, it is 1 − cosine of the mean of the last layer. Texts that are too long for the model are left out.

    Output: a {ABLATION_SUFFIXES} file.
    """
    delivery.check([file] if file else [], ABLATION_SUFFIXES)
    require_one_process("ablate reads all sentences")

    from mhaviz.pages.head_numbers import Order

    style, order = style_of(looks, delivery), Order(sort, top)
    probe = repeats.probe(sentences, file)
    stream = stream_sentences(sentences, file) if probe is None else ()
    loaded = checkpoint.load(delivery, predicts=True)
    with corpus_progress(delivery.quiet) as on_progress:
        found = loaded.ablate(
            stream,
            layer=checkpoint.layer,
            head=head,
            kind=checkpoint.kind,
            probe=probe,
            on_notice=delivery.tell,
            on_progress=on_progress,
        )
    delivery.deliver(found, style, order=order, notice=quotes_notice(sentences))

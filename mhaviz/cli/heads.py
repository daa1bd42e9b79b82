"""mhaviz heads"""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli import options
from mhaviz.cli.delivery import Delivery
from mhaviz.cli.layers import choose_corpus_source, pretrained_notices
from mhaviz.cli.progress import progress
from mhaviz.cli.sentences import quotes_notice, stream_sentences
from mhaviz.errors import ArgumentError, MhavizError, quoted
from mhaviz.units import parse_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType

    from mhaviz.models.corpus_batches import CorpusBatches, Sentence
    from mhaviz.models.pretrained.model import PretrainedModel
    from mhaviz.records import HeadStatistics, Kind
    from mhaviz.views.figure.sheet import Sheet


class SortColumn(StrEnum):
    """What heads can be ranked by."""

    entropy = "entropy"
    distance = "distance"
    itself = "itself"
    previous = "previous"
    next = "next"
    first = "first"
    separators = "separators"
    copies = "copies"
    induction = "induction"
    layer = "layer"  # and in it by the head: the order of the model


def heads(
    context: typer.Context,
    sentences: options.Sentences = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Read sentences from a UTF-8 file of any size, one a line; - is standard input."),
    ] = None,
    sort: Annotated[
        SortColumn, typer.Option("--sort", metavar="COLUMN", help=f"Rank by {', '.join(SortColumn)}.")
    ] = SortColumn.entropy,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="The other end first. \\[default: low entropy, high distance and weights]")
    ] = False,
    top: Annotated[str, typer.Option(metavar="N|all", help="Rows of the table.")] = "16",
    kind: Annotated[options.AttentionKind | None, typer.Option("--kind", help="These attentions alone.")] = None,
    model: options.Model = None,
    revision: options.Revision = None,
    dtype: options.Dtype = "auto",
    layer: options.Layers = None,
    device: options.Device = "auto",
    output: options.Output = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    cmap: options.Cmap = "bone",
    dpi: options.Dpi = 150,
) -> None:
    """Say what every head of a model looks at, averaged over many sentences.

    For each head its entropy, the distance it looks, and its weight on the query itself, on the previous, the next and
    the first token, on separators such as [SEP], on earlier copies of the query's token, and on what followed those
    (induction): the mean over the sentences, and the standard deviation between them.

    A table of the heads, and a layers × heads picture of each number. Sentences that the model cannot read, as they
    are too long, are left out and counted.

    Output: a .png, .svg, .pdf or .json file.
    """
    delivery = Delivery(output or (), quiet, json, inputs=options.files_read(context))
    most = _parse_top(top)

    from mhaviz.views.head_statistics import Order

    look, order = options.choose_look(cmap, dpi), Order(sort.value, reverse, most)
    stream = stream_sentences(sentences, file)
    source = choose_corpus_source(context, delivery)
    delivery.tell(pretrained_notices(source))
    statistics = _read(source, stream, kind.value if kind else None, delivery)

    def draw() -> "Sheet":
        from mhaviz.views.figure.head_statistics import head_statistics_figure

        return head_statistics_figure(statistics, look)

    def view() -> "RenderableType":
        from mhaviz.views.terminal.head_statistics import HeadStatisticsView

        return HeadStatisticsView(statistics, order, cmap)

    delivery.deliver(statistics, draw, view, notice=quotes_notice(sentences))


def _parse_top(text: str) -> int | None:
    """ "20" → 20; "all" → None. Raises ArgumentError if it cannot be read."""
    if text.strip().lower() == "all":
        return None
    most = parse_whole(text.strip()) if text.strip().isdecimal() else 0
    if not most:
        raise ArgumentError(f"--top: expected a number of heads such as 20, or all, got {quoted(text)}")
    return most


def _read(
    source: "PretrainedModel", sentences: "Iterable[Sentence]", kind: "Kind | None", delivery: Delivery
) -> "HeadStatistics":
    """Let the model read them all.

    Raises:
        ArgumentError: the model has no attention of this kind.
        MhavizError: it can read none of them.
    """
    from mhaviz.analyses.head_statistics import HeadStudy
    from mhaviz.models.corpus_batches import CorpusBatches

    study = HeadStudy(kind)
    batches = CorpusBatches(sentences, source.lengths, source.max_length)
    with progress(delivery.quiet, time_left=True) as told:
        for batch in batches:
            source.run(source.encode_unnamed(batch.texts), study.add, batched=True)
            if not study.kinds:
                raise ArgumentError(f"--kind: the model has no {kind} attention")
            told(batch.done, f"{batches.taken:,} sentence{'s' * (batches.taken != 1)}")
    left_out = list(_left_out(batches, source.max_length))
    if not batches.taken:
        raise MhavizError(f"expected a sentence that the model can read: {'; '.join(left_out)}")
    delivery.tell(left_out)
    return study.result(source.describe(), batches.too_long)


def _left_out(batches: "CorpusBatches", most: int | None) -> "Iterator[str]":
    """What is said of sentences that are in no batch."""
    if batches.too_long:
        were = "sentence was" if batches.too_long == 1 else "sentences were"
        yield f"{batches.too_long:,} {were} left out: expected at most {most:,} tokens, got up to {batches.longest:,}"
    if batches.empty:
        were = "sentence was" if batches.empty == 1 else "sentences were"
        yield f"{batches.empty:,} {were} left out: the model's tokenizer finds no token"

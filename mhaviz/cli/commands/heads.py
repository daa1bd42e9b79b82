"""mhaviz heads"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from mhaviz.cli.command import require_unread
from mhaviz.cli.shared.appearance import ColourOptions, style_of
from mhaviz.cli.shared.console import corpus_progress
from mhaviz.cli.shared.corpora import CorpusOptions, keeping, require_one_process
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import CheckpointOptions, WhyOption
from mhaviz.cli.shared.ranking import ProbeOptions, RankingOptions
from mhaviz.cli.shared.texts import CorpusFile, Languages, Sentences, quotes_notice, stream_sentences
from mhaviz.errors import ArgumentError, quoted
from mhaviz.inputs.span_choice import SpanKind
from mhaviz.pages.registry import ABLATION_SUFFIXES, HEAD_SUFFIXES

if TYPE_CHECKING:
    from mhaviz.api.loaded import LoadedModel
    from mhaviz.views.style import Style

_EXAMPLES = 3  # sentences whose maps a page for the browser shows


def heads(
    checkpoint: CheckpointOptions,
    delivery: Delivery,
    looks: ColourOptions,
    probes: ProbeOptions,
    corpus: CorpusOptions,
    ranking: RankingOptions,
    pairs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='Instead of sentences: pairs of words, \\[{"text": …, "query": "it", "key": "cat"}, …], to find heads '
            "that link them. Also JSON Lines, or columns in a .tsv or .csv file.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="turn|FILE",
            help="Weight on each turn of chats, in JSON Lines of --file or -; or on each span of texts in a file, "
            '\\[{"text": …, "spans": [{"name": …, "text": …}, …]}, …].',
        ),
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="SPAN", help="With --by: span of the queries. \\[default: the last]")
    ] = None,
    why: WhyOption = None,
    sentences: Sentences = None,
    file: CorpusFile = None,
    languages: Languages = None,
) -> None:
    """Show where each head of a model looks, averaged over many sentences.

    \b
    mhaviz heads --model path/to/bert --file sentences.txt -o heads.png
    mhaviz heads --model path/to/gpt2 --random-repeat 50 -o induction.png -o induction.csv
    mhaviz heads --model path/to/gpt2 --file essays.txt --needle "The best thing to do here is to eat a sandwich."
    mhaviz heads --model path/to/bert --pairs pronouns.jsonl -o pronouns.png
    mhaviz heads --model path/to/llama --by turn --file chats.jsonl -o turns.png
    mhaviz heads --model path/to/classifier --why label=POSITIVE --file reviews.txt -o why.png
    torchrun --nproc-per-node 8 -m mhaviz heads --model path/to/bert --file corpus.txt -o heads.png

    For each head: entropy; attention distance; mean weight on the query itself, on the previous, next and first token,
    on separators such as [SEP], on earlier copies of the query's token, and on the tokens that followed them
    (induction); the share of sentences in which it is a sink; with --needle, its retrieval score. Each number has its
    mean over sentences, 95% interval, chance level (equal weights), standard deviation and distribution.

    Texts that are too long for the model are cut into overlapping pieces; each query counts once.

    With --pairs: mean weight from one word to the other, in how many pairs a head finds it, and the pairs that the best
    head misses. With --by: mean weight from one span on each of the others, beside what uniform attention would give.
    With --why: on which heads predictions depend, by gradients, beside what zeroing each head changes, as ablate does.

    Output: a {HEAD_SUFFIXES} file; with --pairs, --by and --why no page for the browser.
    """
    if by in get_args(SpanKind) and by != "turn":
        raise ArgumentError(f"--by: expected turn, or a file of texts with spans, got {quoted(by)}")
    spans = Path(by) if by not in (None, "turn") else None
    has_page = all(one is None for one in (pairs, by, why))
    suffixes = HEAD_SUFFIXES if has_page else ABLATION_SUFFIXES
    delivery.check([one for one in (file, pairs, spans) if one], suffixes)
    style = style_of(looks, delivery)
    if query is not None and by is None:
        raise ArgumentError("--query chooses a span of texts; add --by turn or --by FILE")
    if why is not None:
        if pairs is not None or by is not None or languages:
            raise ArgumentError("--why explains predictions of texts; leave out --pairs, --by and --languages")
        require_unread([probes, corpus, ranking], ["--top"], "--why explains predictions, and has numbers of its own")
        _explain(checkpoint, delivery, style, sentences, file, why, ranking.top)
        return
    if by is not None:
        if sentences or pairs or (spans and file):
            raise ArgumentError(f"--by {by} takes the place of sentences and pairs; leave them out")
        if by == "turn" and file is None:
            raise ArgumentError("--by turn reads chats; add --file chats.jsonl")
        require_unread([probes, corpus, ranking], ["--top"], "--by takes the place of sentences, and of their numbers")
        if languages:
            raise ArgumentError("--by reads texts as they are; leave out --languages")
        _look_at_spans(checkpoint, delivery, style, spans or file, query, ranking.top)
        return
    if pairs is not None:
        if sentences or file is not None:
            raise ArgumentError("--pairs takes the place of sentences; leave out one of them")
        require_unread(
            [probes, corpus, ranking], ["--top"], "--pairs takes the place of sentences, and of their numbers"
        )
        _link(checkpoint, delivery, style, pairs, ranking.top, languages)
        return
    probe = probes.probe(sentences, file)
    order = ranking.order(probe)
    texts = corpus.corpus(delivery, sentences, file, probes.random_repeat is None)
    with keeping(texts, delivery):
        examples = _EXAMPLES if ".html" in delivery.suffixes else 0
        with _studied(checkpoint, delivery) as (loaded, options):
            found = loaded.head_statistics(texts, probe=probe, examples=examples, **options | (languages or {}))
        delivery.deliver(found, style, order=order, notice=quotes_notice(sentences))


@contextmanager
def _studied(
    checkpoint: CheckpointOptions, delivery: Delivery, predicts: bool = False
) -> "Iterator[tuple[LoadedModel, dict[str, Any]]]":
    """Return the model, and the options that all its studies have, while the progress is shown."""
    loaded = checkpoint.load(delivery, predicts)
    with corpus_progress(delivery.quiet) as on_progress:
        yield (
            loaded,
            {
                "layer": checkpoint.layer,
                "kind": checkpoint.kind,
                "on_notice": delivery.tell,
                "on_progress": on_progress,
            },
        )


def _explain(
    checkpoint: CheckpointOptions,
    delivery: Delivery,
    style: "Style",
    sentences: list[str] | None,
    file: Path | None,
    why: str,
    most: int | None,
) -> None:
    """Show on which heads the predictions of texts depend; ``most``: number of heads in the table."""
    require_one_process("--why reads all texts")
    texts = stream_sentences(sentences, file)
    with _studied(checkpoint, delivery, predicts=True) as (loaded, options):
        found = loaded.head_relevance(texts, why, **options)
    from mhaviz.pages.head_numbers import Order
    from mhaviz.pages.head_relevance import USUAL_RELEVANCE

    order = Order(USUAL_RELEVANCE.column, most)
    delivery.deliver(found, style, order=order, notice=quotes_notice(sentences))


def _look_at_spans(
    checkpoint: CheckpointOptions,
    delivery: Delivery,
    style: "Style",
    texts: Path | None,
    query: str | None,
    most: int | None,
) -> None:
    """Show how much heads look at the spans of the texts of a file; ``most``: number of heads in the table."""
    assert texts is not None
    with _studied(checkpoint, delivery) as (loaded, options):
        found = loaded.head_spans(texts, query, **options)
    from mhaviz.pages.head_numbers import Order

    delivery.deliver(found, style, order=Order("", most))


def _link(
    checkpoint: CheckpointOptions,
    delivery: Delivery,
    style: "Style",
    pairs: Path,
    most: int | None,
    languages: dict[str, str | None] | None,
) -> None:
    """Show which heads link the pairs of a file; ``most``: number of heads in the table."""
    with _studied(checkpoint, delivery) as (loaded, options):
        found = loaded.head_pairs(pairs, **options | (languages or {}))
    from mhaviz.pages.head_numbers import Order
    from mhaviz.pages.head_pairs import USUAL_ORDER

    delivery.deliver(found, style, order=Order(USUAL_ORDER.column, most))

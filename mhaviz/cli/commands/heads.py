"""mhaviz heads"""

from mhaviz.cli.shared.appearance import ColourOptions, style_of
from mhaviz.cli.shared.console import corpus_progress
from mhaviz.cli.shared.corpora import CorpusOptions, keeping
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import CheckpointOptions
from mhaviz.cli.shared.ranking import ProbeOptions, RankingOptions
from mhaviz.cli.shared.texts import CorpusFile, Languages, Sentences, quotes_notice
from mhaviz.pages.registry import HEAD_SUFFIXES

_EXAMPLES = 3  # sentences whose maps a page for the browser shows


def heads(
    checkpoint: CheckpointOptions,
    delivery: Delivery,
    looks: ColourOptions,
    probes: ProbeOptions,
    corpus: CorpusOptions,
    ranking: RankingOptions,
    sentences: Sentences = None,
    file: CorpusFile = None,
    languages: Languages = None,
) -> None:
    """Show where each head of a model looks, averaged over many sentences.

    \b
    mhaviz heads --model path/to/bert --file sentences.txt -o heads.png
    mhaviz heads --model path/to/bert --file sentences.txt --sort previous --top 5
    mhaviz heads --model path/to/gpt2 --random-repeat 50 -o induction.png -o induction.csv
    mhaviz heads --model path/to/gpt2 --file essays.txt --needle "The best thing to do here is to eat a sandwich."
    torchrun --nproc-per-node 8 -m mhaviz heads --model path/to/bert --file corpus.txt -o heads.png

    For each head: entropy; attention distance; mean weight on the query itself, on the previous, next and first token,
    on separators such as [SEP], on earlier copies of the query's token, and on the tokens that followed them
    (induction); the share of sentences in which it is a sink; with --needle, its retrieval score. Each number has its
    mean over sentences, 95% interval, chance level (equal weights), standard deviation and distribution.

    Texts that are too long for the model are cut into overlapping pieces; each query counts once.

    Output: a {HEAD_SUFFIXES} file.
    """
    delivery.check([file] if file else [], HEAD_SUFFIXES)
    style = style_of(looks, delivery)
    probe = probes.probe(sentences, file)
    order = ranking.order(probe)
    texts = corpus.corpus(delivery, sentences, file, probes.random_repeat is None)
    with keeping(texts, delivery):
        loaded = checkpoint.load(delivery)
        with corpus_progress(delivery.quiet) as on_progress:
            found = loaded.head_statistics(
                texts,
                layer=checkpoint.layer,
                kind=checkpoint.kind,
                probe=probe,
                examples=_EXAMPLES if ".html" in delivery.suffixes else 0,
                on_notice=delivery.tell,
                on_progress=on_progress,
                **(languages or {}),
            )
        delivery.deliver(found, style, order=order, notice=quotes_notice(sentences))

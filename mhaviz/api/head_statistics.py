"""``LoadedModel.head_statistics``: what every head looks at, averaged over a corpus."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from mhaviz.analyses.bootstrap import Bootstrap
from mhaviz.analyses.head_statistics import HeadStudy
from mhaviz.analyses.weights import attention_weights, map_sizes
from mhaviz.api.corpora import Corpus
from mhaviz.api.long_inputs import page_size
from mhaviz.attention.model import CorpusModel, Inputs, Model
from mhaviz.limits import MOST_CELLS
from mhaviz.models.corpus_batches import Sentence
from mhaviz.models.load import Notice
from mhaviz.records.given import Given
from mhaviz.records.head_statistics import SHOWN, HeadStatistics
from mhaviz.records.probes import Probe
from mhaviz.records.quantity import ShownNumbers, require_shown


def head_statistics(
    model: CorpusModel,
    corpus: Corpus,
    examples: int,
    probe: Probe | None,
    bootstrap: Bootstrap,
    on_notice: Notice,
    on_progress: Callable[[float, int], None],
    show: ShownNumbers,
) -> HeadStatistics:
    """See ``LoadedModel.head_statistics``; ``model``: of which the attentions that count are looked at."""
    require_shown(show, ShownNumbers)
    source = model.describe()
    if show == "norms":
        model, source = model.with_norms(), replace(source, details={**source.details, SHOWN: show})
    corpus, bootstrap, needle = corpus.probed(model, probe, bootstrap)
    shown: list[Sentence] = []
    is_first = not corpus.is_shared or corpus.own_shard.number == 1
    corpus = replace(corpus, texts=_watched(corpus.sentences, model, examples * is_first, shown))
    study = HeadStudy(bootstrap, probe, needle, show)
    found = corpus.read(study, [model], source, on_notice, on_progress)
    return _with_examples(found, model, shown, on_notice)


def _watched(sentences: Iterable[Sentence], model: CorpusModel, most: int, shown: list[Sentence]) -> Iterator[Sentence]:
    """The sentences; the first that a page has room for are put into ``shown``, so many at most."""
    longest = min(MOST_CELLS, model.max_length or MOST_CELLS)
    for sentence in sentences:
        if len(shown) < most:
            length = len(sentence.tokens.source) if sentence.tokens else model.lengths([sentence.text])[0]
            shown += [sentence] * (0 < length <= longest)
        yield sentence


def _with_examples(found: HeadStatistics, model: Model, shown: list[Sentence], on_notice: Notice) -> HeadStatistics:
    """With all weights on some of the sentences, as many as a page has room for."""
    wanted = len(shown)

    def inputs() -> Inputs:
        ids = tuple(one.tokens.source.ids for one in shown if one.tokens)
        return model.read(Given(ids=ids) if ids else Given(tuple(one.text for one in shown)))

    while shown and not page_size(map_sizes(model, inputs()), None).fits:
        shown.pop()
    if len(shown) < wanted:
        on_notice(f"a page for the browser has room for the maps of {len(shown)} of {wanted} sentences")
    return replace(found, examples=attention_weights(model, inputs(), keep=True)) if shown else found

"""``LoadedModel.head_statistics``: what every head looks at, averaged over a corpus."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from mhaviz.analyses.bootstrap import Bootstrap
from mhaviz.analyses.head_statistics import HeadStudy
from mhaviz.analyses.weights import attention_weights, map_sizes
from mhaviz.api.corpora import CorpusRun, count_batch, sentences_of
from mhaviz.api.division import Division
from mhaviz.api.left_out import tell_left_out
from mhaviz.api.long_inputs import page_size
from mhaviz.api.parts import result_of
from mhaviz.attention.model import CorpusModel, Inputs, Model
from mhaviz.limits import MOST_CELLS
from mhaviz.models.corpus_batches import Sentence
from mhaviz.models.load import Notice
from mhaviz.processes import this_process
from mhaviz.records.given import Given
from mhaviz.records.head_statistics import SHOWN, HeadStatistics
from mhaviz.records.probes import Probe
from mhaviz.records.quantity import ShownNumbers, require_shown


def head_statistics(
    model: CorpusModel,
    texts: str | Iterable[str | Sentence],
    division: Division,
    examples: int = 0,
    overlap: int | None = None,
    probe: Probe | None = None,
    bootstrap: Bootstrap | None = None,
    on_notice: Notice = lambda notice: None,
    on_progress: Callable[[float, int], None] = lambda done, sentences: None,
    show: ShownNumbers = "weights",
) -> HeadStatistics:
    """See ``LoadedModel.head_statistics``; ``model``: of which the attentions that count are looked at."""
    require_shown(show, ShownNumbers)
    model = model.with_norms() if show == "norms" else model
    shows = this_process().is_first or not division.distributed
    shown: list[Sentence] = []
    corpus, bootstrap = sentences_of(texts), bootstrap or Bootstrap()
    needle: tuple[int, ...] = ()
    if probe is not None:
        from mhaviz.models.pretrained.probe_texts import probing

        made = probing(model, probe, corpus)
        corpus, needle = made.sentences, made.needle
        bootstrap = replace(bootstrap, texts_apart=made.texts_apart)
    sentences = _watched(corpus, model, examples if shows else 0, shown)
    study = HeadStudy(bootstrap, probe, needle)
    options: dict[str, Any] = {
        "kind": model.kind,
        "layers": None if model.layers is None else sorted(model.layers),
        "overlap": overlap,
        "languages": model.spoken,
        "replicates": bootstrap.replicates,
        "seed": bootstrap.seed,
        "texts_apart": bootstrap.texts_apart,
        "probe": msgspec.to_builtins(probe),
    }
    if model.zeroed:
        options["zeroed"] = sorted(map(list, model.zeroed))
    source = model.describe()
    if show != "weights":
        options[SHOWN] = show
        source = replace(source, details={**source.details, SHOWN: show})
    count = partial(count_batch, model, study)
    run = CorpusRun("heads", study, [model], count, options, source, overlap)
    part = run.over(sentences, division, on_notice, on_progress)
    tell_left_out("head_statistics", part.behind, model.max_length, on_notice, overlap, part.shard)
    return _with_examples(result_of(part), model, shown, on_notice)


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

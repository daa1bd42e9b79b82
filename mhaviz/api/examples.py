"""The maps of some sentences of a corpus, for a page for the browser that shows them beside statistics of heads."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from mhaviz.analyses.weights import attention_weights, map_sizes
from mhaviz.api.long_inputs import page_size
from mhaviz.attention.model import CorpusModel, Inputs, Model
from mhaviz.inputs.given import Given
from mhaviz.inputs.tokens import Sentence
from mhaviz.limits import MOST_CELLS
from mhaviz.models.load import Notice
from mhaviz.results.head_statistics import HeadStatistics


def watched(sentences: Iterable[Sentence], model: CorpusModel, most: int, shown: list[Sentence]) -> Iterator[Sentence]:
    """The sentences; the first that a page has room for are put into ``shown``, so many at most."""
    longest = min(MOST_CELLS, model.max_length or MOST_CELLS)
    for sentence in sentences:
        if len(shown) < most:
            length = len(sentence.tokens.source) if sentence.tokens else model.lengths([sentence.text])[0]
            shown += [sentence] * (0 < length <= longest)
        yield sentence


def with_examples(found: HeadStatistics, model: Model, shown: list[Sentence], on_notice: Notice) -> HeadStatistics:
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

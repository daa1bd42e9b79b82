"""Maps of a few sentences of a corpus, which a page for the browser shows beside the numbers of its heads."""

from collections.abc import Iterable, Iterator, Sequence

from mhaviz.analyses.weights import attention_weights, map_sizes
from mhaviz.api.long_inputs import page_size
from mhaviz.attention.model import CorpusModel, Inputs, Model
from mhaviz.inputs.given import Given
from mhaviz.inputs.tokens import Sentence
from mhaviz.limits import MOST_CELLS
from mhaviz.models.load import Notice
from mhaviz.results.attention import Attention


def watched(sentences: Iterable[Sentence], model: CorpusModel, most: int, shown: list[Sentence]) -> Iterator[Sentence]:
    """Iterate over the sentences, and append the first ``most`` that are short enough for a page to ``shown``."""
    longest = min(MOST_CELLS, model.max_length or MOST_CELLS)
    for sentence in sentences:
        if len(shown) < most:
            length = len(sentence.tokens.source) if sentence.tokens else model.lengths([sentence.text])[0]
            shown += [sentence] * (0 < length <= longest)
        yield sentence


def attentions_of(models: Sequence[Model], shown: list[Sentence], on_notice: Notice) -> list[Attention]:
    """Return the attention of each model on these sentences; [] if a page has room for none.

    Sentences at the end are removed from ``shown`` until a page has room for the maps.
    """
    first, wanted = models[0], len(shown)
    parts = 1 if len(models) == 1 else 3  # before, after, and the change

    def inputs() -> Inputs:
        ids = tuple(one.tokens.source.ids for one in shown if one.tokens)
        return first.read(Given(ids=ids) if ids else Given(tuple(one.text for one in shown)))

    while shown and not page_size(map_sizes(first, inputs()) * parts, None).fits:
        shown.pop()
    if len(shown) < wanted:
        on_notice(f"a page for the browser has room for the maps of {len(shown)} of {wanted} sentences")
    if not shown:
        return []
    read = inputs()
    return [attention_weights(model, read, keep=parts == 1) for model in models]

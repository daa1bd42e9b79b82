"""Heads on which the predictions of a corpus depend."""

from collections.abc import Callable, Collection

from mhaviz.analyses.head_relevance import HeadRelevanceStudy
from mhaviz.attention.model import CorpusModel
from mhaviz.attention.targets import Why
from mhaviz.corpus.batches import CorpusBatches
from mhaviz.corpus.corpus import Corpus, Texts, tell_left_out
from mhaviz.errors import ArgumentError
from mhaviz.models.load import Notice
from mhaviz.results.head_relevance import HeadRelevance


def head_relevance(
    model: CorpusModel,
    texts: Texts,
    why: Why,
    heads: Collection[int] | None,
    on_notice: Notice,
    on_progress: Callable[[float, int], None],
) -> HeadRelevance:
    """Run ``LoadedModel.head_relevance`` for these heads of all attentions to which ``model`` is restricted."""
    corpus = Corpus.of(texts)
    if corpus.torchrun or corpus.part is not None:
        raise ArgumentError("expected a corpus without torchrun and part, as it is read at once; leave them out")
    study, done = HeadRelevanceStudy(model, why, heads), 0.0
    batches = CorpusBatches(corpus.sentences, model.lengths, model.max_length)
    for batch in batches:
        inputs = model.encode_unnamed(batch.texts, batch.pieces)
        share = (batch.done - done) / len(inputs.texts) / study.n_passes
        for text, number in zip(inputs.texts, batch.numbers, strict=True):

            def on_pass(passes: int, before: float = done, share: float = share) -> None:
                on_progress(before + share * passes, batches.progress.taken)

            study.add(text, number, on_pass)
            done += share * study.n_passes
        done = batch.done
    tell_left_out(batches.progress, model.max_length, on_notice)
    return study.result(model.describe(), batches.progress.too_long)

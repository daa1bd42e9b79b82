"""Studies over corpora, which may be larger than memory."""

from mhaviz.analyses.study import Study
from mhaviz.attention.model import CorpusModel, SiteCall
from mhaviz.models.corpus_batches import CorpusBatch


def count_batch(model: CorpusModel, study: Study, batch: CorpusBatch) -> None:
    """Run the model on a batch, and add what its attentions are called with to the study."""

    def add(seen: SiteCall) -> None:
        start = seen.sentence or 0  # some models read one sentence after the other
        study.add(seen, batch.numbers[start : start + len(seen.queries)])

    model.run(model.encode_unnamed(batch.texts), add, batched=True)

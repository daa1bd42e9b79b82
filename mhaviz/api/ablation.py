"""Ablation of heads over a corpus: how much the output changes when one head at a time is zeroed."""

from collections.abc import Callable, Collection
from dataclasses import replace

from mhaviz.analyses.ablation import AblationStudy
from mhaviz.attention.model import CorpusModel
from mhaviz.corpus.batches import MOST_TOKENS, CorpusBatches
from mhaviz.corpus.corpus import Corpus, Texts, tell_left_out
from mhaviz.errors import ArgumentError, parameter
from mhaviz.inputs.probes import Probe, RandomRepeats
from mhaviz.models.load import Notice
from mhaviz.results.ablation import Ablation


def ablation(
    model: CorpusModel,
    texts: Texts,
    heads: Collection[int] | None,
    on_notice: Notice,
    on_progress: Callable[[float, int], None],
    probe: Probe | None,
) -> Ablation:
    """Run ``LoadedModel.ablate`` for these heads of all attentions to which ``model`` is restricted."""
    if isinstance(probe, RandomRepeats) and any(site.kind == "cross" for site in model.all_sites):
        raise ArgumentError(
            f"{parameter('random_repeat')}: expected a model that predicts the tokens that it reads, got one that "
            f"predicts what its decoder writes; give sentences in its place"
        )
    corpus = Corpus.of(texts)
    if corpus.torchrun or corpus.part is not None:
        raise ArgumentError("ablate reads a corpus at once: expected one without torchrun and part; leave them out")
    corpus, _, texts_apart = corpus.probed(model, probe)
    study = AblationStudy(model, heads, texts_apart, isinstance(probe, RandomRepeats))
    most = min(MOST_TOKENS, study.most_tokens or MOST_TOKENS)
    batches = CorpusBatches(corpus.sentences, model.lengths, model.max_length, most)
    done = 0.0
    for batch in batches:

        def on_pass(passes: int, before: float = done, ahead: float = batch.done - done) -> None:
            on_progress(before + ahead * passes / study.n_passes, batches.progress.taken)

        study.add(model.encode_unnamed(batch.texts, batch.pieces), batch.numbers, on_pass)
        done = batch.done
    tell_left_out(batches.progress, model.max_length, on_notice)
    return replace(study.result(model.describe(), batches.progress.too_long), probe=probe)

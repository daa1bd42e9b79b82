"""What a checkpoint tells of itself: where it comes from, how it learnt, and what it gets right."""

import math
from collections.abc import Sequence

import torch

from mhaviz.errors import MhavizError
from mhaviz.models.known_words import require_known
from mhaviz.records import Evaluation, LearningPoint, Source, Training
from mhaviz.training.checkpoint import Checkpoint
from mhaviz.training.corpus import Pair
from mhaviz.training.evaluation import SCORES, held_out_score, perplexity


def checkpoint_source(
    checkpoint: Checkpoint, device: torch.device, pairs: Sequence[Pair] = (), target_given: bool = False
) -> Source:
    """A model that has learnt something, and the sentences that it was given, with what it made of them."""
    c = checkpoint
    corpus = repr(c.corpus)[1:-1]  # a footnote is one line, whatever the file is called
    score = f", {SCORES[c.task]} {c.milestones[-1].score:.2f} of {c.scored:,} held out" if c.milestones else ""
    cut_off = "" if all(pair.ended for pair in pairs) else "; a translation did not end and was cut off"
    footnote = (
        f"{c.task}, learnt in {c.step:,} steps from {corpus:.60}{score}; d_model {c.sizes.d_model}, "
        f"{c.sizes.n_heads} heads, {device}{cut_off}"
    )
    details: dict[str, object] = {
        "kind": "checkpoint",
        "task": c.task,
        "corpus": c.corpus,
        "steps": c.step,
        "seed": c.plan.seed,
        "d_model": c.sizes.d_model,
        "n_heads": c.sizes.n_heads,
        "device": str(device),
    }
    if pairs:
        details["sentences"] = [" ".join(pair.source or pair.target) for pair in pairs]
    if pairs and c.task == "translation":
        details |= {"translations": [" ".join(pair.target) for pair in pairs], "target_given": target_given}
    rows = "source-target rows are the words being produced" if pairs and c.task == "translation" else ""
    return Source(footnote, details, rows)


def training_record(checkpoint: Checkpoint, device: torch.device) -> Training:
    """How the model learnt."""
    c = checkpoint
    return Training(
        source=checkpoint_source(c, device),
        task=c.task,
        score_name=SCORES[c.task],
        points=tuple(LearningPoint(m.step, m.loss, m.score) for m in c.milestones),
        steps=c.plan.steps,
        training_sentences=c.sentences[0],
        held_out_sentences=c.sentences[1],
        scored_sentences=c.scored,
        parameters=sum(parameter.numel() for parameter in c.model.parameters()),
    )


def evaluate(checkpoint: Checkpoint, pairs: Sequence[Pair], held_out: bool, device: torch.device) -> Evaluation:
    """How much of these pairs the model gets right; whether its attention aligns them is a study's question.

    ``held_out``: whether it has surely been trained on none of them.

    Raises:
        ArgumentError: words that the model does not know.
        MhavizError: what it computes is NaN or infinite.
    """
    c = checkpoint
    for pair in pairs:
        if pair.source:
            require_known(pair.source, c.source_vocabulary, "source ")
        require_known(pair.target, c.target_vocabulary, "target " if pair.source else "")
    c.model.to(device)
    of_guesses = perplexity(c, pairs, device)
    if not math.isfinite(of_guesses):
        raise MhavizError("the model's guesses are no numbers: its parameters are too large; train it again")
    return Evaluation(
        source=checkpoint_source(c, device),
        task=c.task,
        score_name=SCORES[c.task],
        score=held_out_score(c, pairs, device),
        perplexity=of_guesses,
        sentences=len(pairs),
        held_out=held_out,
    )

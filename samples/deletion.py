"""Remove words in the order of a ranking, and see how far a prediction falls: python samples/deletion.py [SENTENCES]

These are deletion curves (Samek et al. 2017, "Evaluating the visualization of what a deep neural network has learned",
arXiv 1509.06321): the earlier a ranking names the words on which a prediction hangs, the faster its logit y falls. The
words of 60 sentences are ranked by five numbers, for the bundled translator and for the classifier of sentiment.py,
which is trained on the way; all takes two minutes:

- relevance, attention × gradient (Chefer et al. 2021, arXiv 2103.15679);
- rollout of attention weights (Abnar and Zuidema 2020, arXiv 2005.00928), in the row of the class token; for the
  translator, the weights of the translated word on the source × the rollout of the encoder;
- the norm of the gradient of y at the embedding of each word;
- a random number;
- the fall of y without that word alone, for which the model runs once a word.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np
import sentiment
import torch
from torch import nn

import mhaviz
from mhaviz.training.grammar import translation_corpus

SENTENCES, REMOVED = 60, (1, 2, 3)  # numbers of words that are removed together
RANKINGS = ("relevance", "rollout", "gradient norm", "random", "removal of each")


@dataclass(frozen=True)
class Prediction:
    """A sentence, and what is predicted for it: a label, or a word of its translation at a place."""

    text: str
    why: str
    target: str | None = None
    place: int = 0

    def explained(self, model: mhaviz.LoadedModel, text: str, removal="top"):
        """The relevance of the words of a text for this prediction."""
        return model.attend(text, self.target, show="relevance", why=self.why, removal=removal)

    def logit(self, output):
        """y: it is the largest logit, as the model predicts this by itself."""
        return output.logits[0].reshape(-1, output.logits.shape[-1])[self.place].max()


def reviews(model: mhaviz.LoadedModel, count: int) -> Iterator[Prediction]:
    """Reviews on which the classifier has not been trained, with the label that it gives them."""
    random = Random(1)
    for _ in range(count):
        text, _ = sentiment.review(random)
        label = model.attend(text, show="relevance", why="top").explained.choice
        yield Prediction(text, f"label={label}")


def translations(model: mhaviz.LoadedModel, count: int) -> Iterator[Prediction]:
    """Held-out sentences, with a random word of the translation that is there once."""
    random = Random(1)
    for pair in random.sample(translation_corpus().held_out, count):
        text = " ".join(pair.source)
        written = model.attend(text, kind="cross")[0].queries[:-1]  # without the end mark
        place = random.choice([i for i, word in enumerate(written) if written.count(word) == 1])
        yield Prediction(text, written[place], " ".join(written), place)


def scores(model: mhaviz.LoadedModel, prediction: Prediction, random: Random) -> dict[str, np.ndarray]:
    """The numbers by which words are ranked, (n_words,) each."""
    found = prediction.explained(model, prediction.text, "all")
    (given,) = np.nonzero(~found.text.aside)
    numbers = {
        "relevance": found.text.relevance,
        "rollout": rollout(model, prediction),
        "gradient norm": gradient_norm(model, prediction),
        "removal of each": found.text.falls,
    }
    scores = {name: x[given] for name, x in numbers.items()}
    return scores | {"random": np.array([random.random() for _ in given])}


def rollout(model: mhaviz.LoadedModel, prediction: Prediction) -> np.ndarray:
    """The row of the class token; of a translator, of the translated word."""
    if prediction.target is None:
        return model.attend(prediction.text, show="rollout")[-1].weights[0, 0]
    encoder = model.attend(prediction.text, show="rollout", kind="self")[-1].weights[0]
    return model.attend(prediction.text, prediction.target, kind="cross")[0].weights.mean(0)[prediction.place] @ encoder


def gradient_norm(model: mhaviz.LoadedModel, prediction: Prediction) -> np.ndarray:
    """‖∂y/∂x‖ of the embedding x of each token of the text, which the first lookup of the model returns."""
    looked_up, norms = {}, []

    def keep(module, inputs, output):
        if isinstance(module, nn.Embedding):
            looked_up[module] = output

    def y(output):
        logit = prediction.logit(output)
        if logit.requires_grad:  # it does not where words are removed
            (gradient,) = torch.autograd.grad(logit, next(iter(looked_up.values())), retain_graph=True)
            norms.append(gradient[0].norm(dim=-1).numpy())
        return logit

    hook = nn.modules.module.register_module_forward_hook(keep)
    try:
        model.attend(prediction.text, prediction.target, show="relevance", why=y)
    finally:
        hook.remove()
    return norms[0]


def falls(model: mhaviz.LoadedModel, prediction: Prediction, random: Random) -> np.ndarray:
    """How far y falls by each ranking when its first words are removed, (n_rankings, n_removed)."""
    words, found = prediction.text.split(), {}

    def y(without: frozenset[int]) -> float:
        if without not in found:
            rest = " ".join(word for i, word in enumerate(words) if i not in without)
            found[without] = prediction.explained(model, rest).y
        return found[without]

    of = scores(model, prediction, random)
    orders = [np.argsort(-of[name], kind="stable").tolist() for name in RANKINGS]
    return np.array([[y(frozenset()) - y(frozenset(order[:k])) for k in REMOVED] for order in orders])


def curves(model: mhaviz.LoadedModel, predictions: Iterator[Prediction]) -> np.ndarray:
    """(n_sentences, n_rankings, n_removed)"""
    random = Random(0)
    return np.array([falls(model, prediction, random) for prediction in predictions])


def print_table(title: str, curves: np.ndarray) -> None:
    """Print the mean falls of y, how far their mean is from that of relevance, ± the standard error of these
    differences, and in how many sentences no other first word would make y fall further."""
    beside = (curves - curves[:, :1]).mean(axis=2)  # n_sentences n_rankings
    errors = beside.std(axis=0, ddof=1) / len(curves) ** 0.5
    first = np.isclose(curves[:, :, 0], curves[:, -1:, 0]).mean(axis=0)
    removed = " | ".join(f"without {k}" for k in REMOVED)
    print(f"\n| {title}, {len(curves)} sentences | {removed} | beside relevance | best first word |")
    print("| --- |" + " ---: |" * (len(REMOVED) + 2))
    for i, name in enumerate(RANKINGS):
        apart = f"{beside[:, i].mean():+.2f} ± {errors[i]:.2f}" if i else ""
        numbers = " | ".join(f"{fall:.2f}" for fall in curves[:, i].mean(axis=0))
        print(f"| {name} | {numbers} | {apart} | {first[i]:.0%} |".replace("-", "−"))


def main(count: int = SENTENCES) -> None:
    translator = mhaviz.load("translation")
    print_table("translator", curves(translator, translations(translator, count)))
    classifier = mhaviz.load(sentiment.train(), sentiment.word_tokenizer())
    print_table("classifier", curves(classifier, reviews(classifier, count)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

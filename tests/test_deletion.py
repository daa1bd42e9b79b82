"""The deletion curves of samples/deletion.py: their rankings beside the same numbers computed by hand, and what must
hold of them whatever the models are."""

from pathlib import Path

import deletion
import numpy as np
import pytest
import torch
import transformers as hf

import mhaviz
from mhaviz.training import TRANSLATION
from mhaviz.training.loading import load_checkpoint

TOUR = (Path(__file__).parent.parent / "samples" / "README.md").read_text(encoding="utf-8")
TEXT = "the small black cat sees my red car"


@pytest.fixture(scope="module")
def translator():
    return mhaviz.load("translation")


def test_what_a_translation_is_ranked_by(translator):
    written = translator.attend(TEXT, kind="cross")[0].queries[:-1]
    scores = deletion.scores(translator, deletion.Prediction(TEXT, "noir", " ".join(written), 3), deletion.Random(0))
    checkpoint = load_checkpoint(TRANSLATION)
    model, words, forms = checkpoint.model.eval(), checkpoint.source_vocabulary, checkpoint.target_vocabulary
    ids = torch.tensor([words.ids(TEXT.split())])
    x = model.source_embeddings.lookup.weight.detach()[ids].requires_grad_()
    memory = model.position(x * x.shape[-1] ** 0.5)
    memory, A = model.encoder_self(memory, memory)
    read = torch.tensor([forms.ids(["<start>", *written])])
    decoded = model.decode(read, model.encoder_forward(memory))
    (number,) = forms.ids(["noir"])
    (gradient,) = torch.autograd.grad(decoded.logits[0, 3, number], x)
    np.testing.assert_allclose(scores["gradient norm"], gradient[0].norm(dim=-1).numpy(), rtol=1e-3)
    reached = (A[0].mean(dim=0) + torch.eye(ids.shape[1])) / 2  # of one layer
    reached = decoded.cross[0, :, 3].mean(dim=0) @ reached
    np.testing.assert_allclose(scores["rollout"], reached.detach().numpy(), rtol=1e-3)


def test_the_table_has_means_and_paired_errors(capsys):
    falls = np.zeros((4, 5, 3))
    falls[:, 0] = [3.0, 2.0, 1.0]
    falls[:, 1] = [3.0, 3.0, 3.0]
    falls[:2, 2] = 4.0  # by 2 more than relevance in two sentences, and by 2 less in the others
    falls[:, 4] = 4.0
    deletion.print_table("model", falls)
    heading, _, *rows = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.split("\n")[1:-1]
    )
    assert f"sentences | {' | '.join(heading[1:])} |" in TOUR
    assert all(f"\n| {name} | " in TOUR for name, *_ in rows)
    assert rows[0] == ["relevance", "3.00", "2.00", "1.00", "", "0%"]
    assert rows[1] == ["rollout", "3.00", "3.00", "3.00", "+1.00 ± 0.00", "0%"]
    assert rows[2] == ["gradient norm", "2.00", "2.00", "2.00", f"+0.00 ± {(16 / 3) ** 0.5 / 2:.2f}", "50%"]
    assert rows[3][4] == "−2.00 ± 0.00"
    assert rows[4][5] == "100%"


def require_best_first(curves):
    """A word that is removed alone makes y fall furthest if it is the one found by removing each."""
    first = curves[:, :, 0]
    assert (first <= first[:, -1:] + 1e-4).all()
    assert first[:, 3].mean() < first[:, -1].mean()


@pytest.mark.slow  # 15 s of one core
def test_no_ranking_of_a_translator_is_better_than_removal(translator):
    curves = deletion.curves(translator, deletion.translations(translator, 12))
    assert curves.shape == (12, 5, 3)
    require_best_first(curves)


@pytest.mark.slow  # 10 s of one core, and half a minute if the classifier has not been trained
def test_relevance_of_a_classifier_is_better_than_chance(classifier):
    loaded = mhaviz.load(classifier)
    curves = deletion.curves(loaded, deletion.reviews(loaded, 12))
    require_best_first(curves)
    means = curves.mean(axis=(0, 2))
    assert means[0] > means[3] + 1


@pytest.mark.slow  # half a minute if the classifier has not been trained
def test_what_a_classifier_is_ranked_by(classifier):
    text = "the plot was not very good and my brother came along"
    loaded, prediction = mhaviz.load(classifier), deletion.Prediction(text, "label=NEGATIVE")
    scores = deletion.scores(loaded, prediction, deletion.Random(0))
    model = hf.BertForSequenceClassification.from_pretrained(classifier, attn_implementation="eager").eval()
    ids = hf.AutoTokenizer.from_pretrained(classifier)(text, return_tensors="pt")["input_ids"]
    x = model.get_input_embeddings()(ids).detach().requires_grad_()
    output = model(inputs_embeds=x, output_attentions=True)
    (gradient,) = torch.autograd.grad(output.logits[0, 0], x)
    np.testing.assert_allclose(scores["gradient norm"], gradient[0, 1:-1].norm(dim=-1).numpy(), rtol=1e-3)
    R = eye = torch.eye(ids.shape[1])
    for A in output.attentions:
        R = (A[0].mean(dim=0) + eye) / 2 @ R
    np.testing.assert_allclose(scores["rollout"], R[0, 1:-1].detach().numpy(), rtol=1e-4)
    without = [model(torch.cat([ids[:, :i], ids[:, i + 1 :]], dim=1)).logits[0, 0] for i in range(1, ids.shape[1] - 1)]
    falls = (output.logits[0, 0] - torch.stack(without)).detach().numpy()
    np.testing.assert_allclose(scores["removal of each"], falls, atol=1e-3)

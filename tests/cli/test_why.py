"""mhaviz heatmap --why as a user types it: on the bundled translator, and on checkpoints with random weights."""

import csv
import json

import pytest
import transformers as hf
from families import BERT_LIKE, V, word_pieces
from seeing import photo_of, save

TEXT = "the small black cat sees my red car"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import torch

    path = tmp_path_factory.mktemp("why")
    torch.manual_seed(0)
    labels = {0: "NEGATIVE", 1: "POSITIVE"}
    config = hf.BertConfig(vocab_size=V, id2label=labels, label2id={name: i for i, name in labels.items()}, **BERT_LIKE)
    hf.BertForSequenceClassification(config).save_pretrained(path / "classifier")
    hf.BertModel(hf.BertConfig(vocab_size=V, **BERT_LIKE)).save_pretrained(path / "headless")
    save("vit", path / "vit")
    photo_of().save(path / "photo.png")
    for name in ("classifier", "headless"):
        word_pieces().save_pretrained(path / name)
    return path


@pytest.fixture
def heatmap(mhaviz, folder, monkeypatch):
    monkeypatch.chdir(folder)
    return lambda *arguments: mhaviz("heatmap", *arguments)


def test_the_source_word_of_a_translated_word_decides(heatmap, folder):
    result = heatmap("--model", "translation", TEXT, "--why", "noir", "-o", "w.png", "-o", "w.json", "-o", "w.csv")
    assert (result.status, "saved w.png" in result.err) == (0, True)
    assert result.out.startswith("“black” decides: without it the logit of “noir” falls from ")
    found = json.loads((folder / "w.json").read_text())
    words = {word["word"]: word for word in found["text"]["words"]}
    assert found["explained"] == {"kind": "token", "choice": "noir", "is_top": False}
    assert max(words, key=lambda word: words[word]["relevance"]) == "black"
    assert words["black"]["fall"] > 5
    assert words["black"]["without"] != "noir"
    assert sum(word["fall"] is not None for word in words.values()) == 5
    rows = list(csv.DictReader((folder / "w.csv").read_text().splitlines()))
    assert {row["side"] for row in rows} == {"text", "written"}


def test_a_label_is_explained_in_python_as_on_the_command_line(heatmap):
    import mhaviz

    result = heatmap("--model", "classifier", "the cat sat", "--why", "label=POSITIVE", "--removal", "all", "--json")
    found = json.loads(result.out)
    same = mhaviz.attend("classifier", "the cat sat", show="relevance", why="label=POSITIVE", removal="all")
    assert found["y"] == same.y
    assert [word["relevance"] for word in found["text"]["words"]] == same.text.relevance.tolist()
    assert [word["fall"] for word in found["text"]["words"]][1:-1] == same.text.falls[1:-1].tolist()


def test_the_top_prediction_is_explained_without_a_target(heatmap):
    result = heatmap("--model", "classifier", "the cat sat", "--why", "top")
    assert "its top prediction" in result.out


def test_maps_of_heads_have_both_signs(heatmap, folder, mhaviz):
    result = heatmap("--model", "classifier", "the cat sat", "--why", "label=POSITIVE", "--layer", "1", "-o", "m.json")
    assert result.status == 0
    (m,) = json.loads((folder / "m.json").read_text())["maps"]
    numbers = [number for head in m["weights"] for row in head for number in row]
    assert min(numbers) < 0 < max(numbers)
    assert m["relevance"] is True
    assert mhaviz("show", "m.json").out.startswith("relevance of self-attention")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--model", "classifier", "the cat", "--why", "label=NEUTRAL"], 2, "no label 'NEUTRAL'"),
        (["--model", "classifier", "the cat", "--why", "cat"], 2, "expected label=NAME"),
        (["--model", "headless", "the cat", "--why", "cat"], 2, "has no head that predicts"),
        (["--model", "translation", TEXT, "--why", "chien"], 2, "'chien' is not among the written tokens"),
        (["the cat", "--why", "cat"], 2, "expected a model that predicts"),
        (["--model", "classifier", "the cat", "a dog", "--why", "label=POSITIVE"], 2, "one prediction, got 2 texts"),
        (["--model", "classifier", "the cat", "--why", "label=POSITIVE", "--query", "cat"], 2, "leave out --query"),
        (["--model", "classifier", "the cat", "--why", "top", "--as", "lines"], 2, "leave out --as"),
        (
            ["--model", "classifier", "the cat", "--why", "top", "--columns", "1", "-o", "x.png"],
            2,
            "--columns is for maps",
        ),
        (["--model", "classifier", "the cat", "--why", ""], 2, "expected a token, label=NAME, top"),
        (["--model", "translation", TEXT, "--why", "label=A"], 2, "'label=A' is not among the written"),
        (["--model", "classifier", "the cat", "--why", "label=POSITIVE", "--verify"], 2, "leave out --verify"),
        (["--model", "classifier", "the cat", "--why", "top", "--removal", "all", "--layer", "0"], 2, "is for words"),
        (["--model", "classifier", "the cat", "--removal", "all"], 2, "add --why"),
        (["--model", "classifier", "the cat", "--why", "label=POSITIVE", "-o", "x.npz"], 2, "cannot tell the format"),
        (["--model", "classifier", "the cat", "--why", "label=POSITIVE", "--show", "norms"], 2, "--why"),
        (["--model", "vit", "--image", "photo.png", "--why", "label=POSITIVE"], 2, "no label 'POSITIVE'"),
        (["--model", "vit", "--image", "photo.png", "--why", "top", "--layer", "1"], 2, "leave out --layer"),
        (["--model", "vit", "--image", "photo.png", "--why", "top", "--grid", "4x4"], 2, "leave out --grid"),
        (["--model", "vit", "--image", "photo.png", "--why", "top", "--key", "1,1"], 2, "leave out --key"),
        (["--model", "vit", "--image", "photo.png", "--image", "photo.png", "--why", "top"], 2, "got 2 images"),
        (["--model", "vit", "the cat", "--image", "photo.png", "--why", "top"], 2, "reads images, and no text"),
    ],
)
def test_bad_input_is_one_line(heatmap, arguments, status, message):
    result = heatmap(*arguments)
    assert (result.status, result.out) == (status, "")
    assert message in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_patches_of_an_image_are_explained(heatmap, folder):
    import mhaviz

    result = heatmap("--model", "vit", "--image", "photo.png", "--why", "label=LABEL_1", "-o", "w.png", "-o", "w.json",
                     "-o", "w.csv")  # fmt: skip
    assert (result.status, "saved w.png" in result.err) == (0, True), result.err
    found = json.loads((folder / "w.json").read_text())
    same = mhaviz.attend("vit", image="photo.png", show="relevance", why="label=LABEL_1")
    assert found["y"] == same.y
    assert [patch["relevance"] for patch in found["patches"]] == same.text.relevance[1:].tolist()
    assert found["image"]["name"] == "photo.png"
    rows = list(csv.DictReader((folder / "w.csv").read_text().splitlines()))
    assert [(row["row"], row["column"]) for row in rows[:5]] == [(str(i // 4), str(i % 4)) for i in range(5)]
    assert any(line.startswith("y is the logit of LABEL_1") for line in result.out.splitlines()[:3])


@pytest.mark.slow  # half a minute: it trains the classifier of the tour
def test_a_classifier_of_signs_hangs_on_the_patch_with_the_sign(tmp_path):
    import signs
    import torch

    import mhaviz
    from mhaviz.pages.relevance import title_text

    signs.save_classifier(tmp_path / "signs")
    model = mhaviz.load(str(tmp_path / "signs"), predicts=True)
    for seed in range(100, 112):
        _, (label,), (patch,) = signs.walls(torch.Generator().manual_seed(seed), 1)
        found = model.attend(image=signs.photo(seed), show="relevance")
        name = ",".join(map(str, patch.tolist()))
        assert found.explained.choice == signs.LABELS[label]
        if found.explained.choice == "nothing":
            assert title_text(found).startswith("no single patch of the 5 most relevant decides, nor do they together")
        else:
            assert found.text.words.texts[found.text.ranked[0]] == name
            assert title_text(found).startswith(f"patch {name} decides")


@pytest.mark.slow  # half a minute: it trains the classifier of the tour
def test_a_classifier_that_has_learnt_negation_hangs_on_it(mhaviz, classifier, monkeypatch):
    monkeypatch.chdir(classifier.parent)
    result = mhaviz("heatmap", "--model", "sentiment", "the plot was not very good and my brother came along", "--json",
                    "--why", "label=NEGATIVE", "--removal", "all")  # fmt: skip
    found = json.loads(result.out)
    words = {word["word"].strip(): word for word in found["text"]["words"]}
    assert max(words, key=lambda word: words[word]["fall"] or 0) == "not"
    assert words["not"]["without"] == "POSITIVE"
    assert {*sorted(words, key=lambda word: -words[word]["relevance"])[:2]} == {"not", "good"}

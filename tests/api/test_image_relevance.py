"""Relevance of patches of checkpoints in folders, beside eager weights with gradients, and logits of blanked pixels."""

import json

import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from seeing import OF_TEXT, SIZES, SQUARE, cut, in_silence, photo_of, save, stretched

import mhaviz
from mhaviz.api import image_relevance
from mhaviz.errors import ArgumentError, MhavizError

LABELS = {0: "dog", 1: "cat", 2: "bird"}
NAMES = {"id2label": LABELS, "label2id": {name: i for i, name in LABELS.items()}}
SMALL = {name: SIZES[name] for name in SIZES if name != "intermediate_size"}
KINDS = {
    "vit": (hf.ViTForImageClassification, lambda: hf.ViTConfig(**SIZES, **NAMES), [0]),
    "deit": (hf.DeiTForImageClassification, lambda: hf.DeiTConfig(**SIZES, **NAMES), [0]),
    "taught": (hf.DeiTForImageClassificationWithTeacher, lambda: hf.DeiTConfig(**SIZES, **NAMES), [0, 1]),
    "beit": (
        hf.BeitForImageClassification,
        lambda: hf.BeitConfig(**SIZES, **NAMES, use_relative_position_bias=True),
        range(1, 17),
    ),
    "dinov2": (hf.Dinov2ForImageClassification, lambda: hf.Dinov2Config(**SMALL, **NAMES), range(17)),
    "registers": (
        hf.Dinov2WithRegistersForImageClassification,
        lambda: hf.Dinov2WithRegistersConfig(**SMALL, **NAMES, num_register_tokens=2),
        [0, *range(3, 19)],
    ),
    "clip": (
        hf.CLIPForImageClassification,
        lambda: hf.CLIPConfig(vision_config=SIZES, text_config=OF_TEXT | {"vocab_size": 9}, **NAMES),
        range(1, 17),
    ),
}
QUICK = {"vit", "registers"}


def saved(name, folder, processor=None):
    """Write a classifier whose weights are so large that attention is far from uniform."""
    of, config, _ = KINDS[name]
    random = torch.Generator().manual_seed(1)
    with in_silence():
        model = of(config())
        for key, x in model.named_parameters():
            is_scale = x.ndim == 1 and ("norm" in key or "lambda" in key) and "bias" not in key
            x.data = torch.randn(x.shape, generator=random) * (0.3 if x.ndim > 1 else 0.1) + is_scale
        model.save_pretrained(folder)
        (processor or stretched()).save_pretrained(folder)
    return folder


def pixels_of(folder, photo):
    with in_silence():
        return hf.AutoImageProcessor.from_pretrained(folder)(photo, return_tensors="pt")["pixel_values"].double()


def eager(name, folder):
    with in_silence():
        return KINDS[name][0].from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved("vit", tmp_path_factory.mktemp("image") / "vit")


@pytest.fixture(scope="module")
def vit(folder):
    return mhaviz.load(str(folder), dtype="float64", predicts=True)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in KINDS]
)  # a second each
def test_relevance_is_that_of_eager_weights(name, tmp_path, monkeypatch):
    softmax = torch.nn.functional.softmax  # eager functions round it to float32
    monkeypatch.setattr(torch.nn.functional, "softmax", lambda x, dim=-1, dtype=None, **_: softmax(x, dim=dim))
    folder, photo = saved(name, tmp_path / name), photo_of()
    loaded = mhaviz.load(str(folder), dtype="float64", predicts=True)
    found = loaded.attend(image=photo, show="relevance", why="label=cat")
    output = eager(name, folder)(pixel_values=pixels_of(folder, photo), output_attentions=True)
    for A in output.attentions:
        A.retain_grad()
    y = output.logits[0, 1]
    y.backward()
    assert found.y == pytest.approx(y.item(), rel=1e-10)
    R = torch.eye(output.attentions[0].shape[-1], dtype=torch.float64)
    for A in output.attentions:
        R = R + (A * A.grad)[0].clamp(min=0).mean(dim=0) @ R  # equations 5 and 6
    expected = (R - torch.eye(len(R)))[list(KINDS[name][2])].mean(dim=0).detach().numpy()
    assert found.text.relevance == pytest.approx(expected, rel=1e-8, abs=1e-10 * expected.max())
    n_special = len(expected) - 16
    assert found.text.aside.tolist() == [True] * n_special + [False] * 16
    weights = found.over.maps[0].weights[0].ravel()
    assert weights == pytest.approx(expected[n_special:] / expected.sum(), rel=1e-6)


@pytest.mark.parametrize("colour", ["processor", "image"])
def test_falls_are_those_of_blanked_pixels(colour, tmp_path):
    processor = cut() if colour == "processor" else hf.ViTImageProcessor(size=SQUARE, do_normalize=False)
    folder, photo = saved("vit", tmp_path / "vit", processor), photo_of(60, 40)
    loaded = mhaviz.load(str(folder), dtype="float64", predicts=True)
    found = loaded.attend(image=photo, show="relevance", why="label=cat", removal="all")
    model, pixels = eager("vit", folder), pixels_of(folder, photo)
    fill = 0 if colour == "processor" else pixels.mean(dim=(2, 3), keepdim=True)
    box = (0, 1 / 6, 1, 5 / 6) if colour == "processor" else (0, 0, 1, 1)  # the processor crops the photo
    assert found.to_dict()["box"] == pytest.approx(box, abs=0.02)

    def logits_without(cells):
        blank = pixels.clone()
        for row, column in cells:
            blank[:, :, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] = fill
        with torch.no_grad():
            return model(pixel_values=blank).logits[0]

    assert found.blank == colour
    rows = [*found.rows()]
    for one in rows:
        logits = logits_without([(one["row"], one["column"])])
        assert found.y - one["fall"] == pytest.approx(float(logits[1]), rel=1e-6, abs=1e-6)
        assert one["without"] == LABELS[int(logits.argmax())]
    first = sorted(rows, key=lambda one: -one["relevance"])[:5]
    logits = logits_without([(one["row"], one["column"]) for one in first])
    assert found.y - found.together.fall == pytest.approx(float(logits[1]), rel=1e-6, abs=1e-6)
    assert (found.together.count, found.together.without) == (5, LABELS[int(logits.argmax())])


@given(st.integers(1, 40), st.integers(1, 16), st.integers(0, 5), st.integers(0, 5))
def test_pixels_of_patches_are_parts_of_their_view(count, side, before, after):
    cells = [image_relevance._slice(i, count, before, before + count * side) for i in range(count)]
    assert [(one.start, one.stop) for one in cells] == [
        (before + i * side, before + (i + 1) * side) for i in range(count)
    ]
    uneven = [image_relevance._slice(i, count, before, before + count * side + after) for i in range(count)]
    assert [one.stop for one in uneven[:-1]] == [one.start for one in uneven[1:]]
    assert (uneven[0].start, uneven[-1].stop) == (before, before + count * side + after)


def test_the_strongest_five_are_removed(vit):
    found = vit.attend(image=photo_of(), show="relevance")
    assert found.explained.is_top
    assert found.chosen == found.explained.choice
    relevances = {i: r for i, r in enumerate(found.text.relevance) if i}
    assert found.text.removed == sorted(relevances, key=lambda i: -relevances[i])[:5]


def test_a_function_of_the_output_is_explained(vit, folder):
    def margin(output):
        return output.logits[0, 1] - output.logits[0, 0]

    found = vit.attend(image=photo_of(), show="relevance", why=margin)
    output = eager("vit", folder)(pixel_values=pixels_of(folder, photo_of()))
    assert (found.explained.kind, found.explained.choice, found.chosen) == ("function", "margin", "")
    assert found.y == pytest.approx(float(margin(output).detach()), rel=1e-4)


def test_parameters_keep_their_gradients(vit):
    model = vit._whole.loaded.model
    model.classifier.weight.requires_grad_(False)
    before = [x.requires_grad for x in model.parameters()]
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            found = vit.attend(image=photo_of(), show="relevance", why="label=cat")
    assert found.text.relevance.any()
    assert [x.requires_grad for x in model.parameters()] == before
    assert all(x.grad is None for x in model.parameters())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"why": "label=fish"}, r"no label 'fish'; it has 'dog', 'cat', 'bird'"),
        ({"why": "cat"}, "expected label=NAME, as the model is a classifier"),
        ({"image": [photo_of(), photo_of()]}, "one prediction, got 2 images"),
        ({"layer": 1}, "draws the patches, through all heads; leave out `layer`"),
        ({"head": 1}, "draws the patches, through all heads; leave out `head`"),
        ({"texts": "a cat"}, "reads images, and no text; leave out 'a cat'"),
        ({"why": lambda output: output.logits}, "expected a scalar from 'y', got a tensor of shape"),
    ],
)
def test_what_cannot_be_explained_is_refused(vit, asked, message):
    with pytest.raises(ArgumentError, match=message):
        vit.attend(**{"image": photo_of(), "show": "relevance"} | asked)


def test_a_model_without_a_head_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="has no head that predicts a label of an image"):
        mhaviz.attend(str(save("clip_vision", tmp_path / "clip")), image=photo_of(), show="relevance")


def test_a_text_beside_an_image_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="how attention to an image and to a text joins is not known"):
        mhaviz.attend(str(save("llava", tmp_path / "llava")), "the cat", image=photo_of(), show="relevance")


def test_windows_are_refused(tmp_path):
    sizes = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4]}
    with in_silence():
        config = hf.SwinConfig(**sizes, window_size=4, **NAMES)
        hf.SwinForImageClassification(config).save_pretrained(tmp_path / "swin")
        stretched().save_pretrained(tmp_path / "swin")
    with pytest.raises(MhavizError, match="no gradient arrives, as it runs in windows"):
        mhaviz.attend(str(tmp_path / "swin"), image=photo_of(), show="relevance")


def test_the_document_names_patches_by_row_and_column(vit, tmp_path):
    Image.fromarray(np.asarray(photo_of())).save(tmp_path / "photo.png")
    found = vit.attend(image=tmp_path / "photo.png", show="relevance", why="label=cat")
    found.save(tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["image"] == {"name": "photo.png", "width": 60, "height": 40}
    assert document["grid"] == [4, 4]
    assert [(one["row"], one["column"]) for one in document["patches"]] == [(i // 4, i % 4) for i in range(16)]
    assert sum(one["fall"] is not None for one in document["patches"]) == 5
    assert [one["token"] for one in document["special"]] == ["cls_token"]
    assert len([*found.rows()]) == 16

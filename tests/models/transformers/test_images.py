"""Models that read images, from their folders, against what transformers gives as their attentions."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf
from seeing import SEEING, SQUARE, in_silence, of_language, photo_of, save

import mhaviz
from mhaviz.api.image_attention import placed_in_photos
from mhaviz.errors import ArgumentError, MhavizError, ProgramError
from mhaviz.inputs.patches import WHOLE, PatchGrid
from mhaviz.inputs.tokens import Tokens
from mhaviz.models.transformers.images import SeenImages

ALONE = [name for name in SEEING if name not in ("clip", "llava")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}

    def folder(name):
        if name not in made:
            made[name] = save(name, tmp_path_factory.mktemp("seeing") / name)
        return made[name]

    return folder


def eager_attentions(folder, photo, text=None):
    """All attentions that transformers gives for a photo, by module of the output."""
    with in_silence(), torch.no_grad():
        model = hf.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
        if text is None:
            inputs = hf.AutoImageProcessor.from_pretrained(folder)(images=photo, return_tensors="pt")
            model = getattr(model, "vision_model", model)
        else:
            inputs = hf.AutoProcessor.from_pretrained(folder)(images=photo, text=text, return_tensors="pt")
        return model(**inputs, output_attentions=True), inputs


@pytest.mark.numeric
@pytest.mark.parametrize("name", [name for name in ALONE if name not in ("swin", "detr")] + ["clip"])
def test_weights_are_those_of_the_eager_model(folders, name):
    photo = photo_of()
    attention = mhaviz.load(folders(name)).attend(image=photo)
    expected, _ = eager_attentions(folders(name), photo)
    maps = [m for m in attention.maps if m.kind == "self"]
    assert len(maps) == len(expected.attentions) == 2
    for m, weights in zip(maps, expected.attentions, strict=True):
        assert m.weights == pytest.approx(weights[0].numpy(), abs=1e-6)


@pytest.mark.numeric
def test_an_encoder_and_a_decoder_of_objects(folders):
    photo = photo_of()
    attention = mhaviz.load(folders("detr")).attend(image=photo)
    expected, _ = eager_attentions(folders("detr"), photo)
    found = {tuple(m.weights.shape): m.weights for m in attention.maps}
    for weights in (*expected.encoder_attentions, *expected.decoder_attentions, *expected.cross_attentions):
        assert found[tuple(weights[0].shape)] == pytest.approx(weights[0].numpy(), abs=1e-6)


@pytest.mark.numeric
def test_windows(folders):
    """transformers gives the weights of the last layer of each stage alone."""
    attention = mhaviz.load(folders("swin")).attend(image=photo_of())
    expected, _ = eager_attentions(folders("swin"), photo_of())
    for layer, weights in zip((1, 3), expected.attentions, strict=True):
        first = next(m for m in attention.maps if m.layer == layer)
        assert first.weights == pytest.approx(weights[0].numpy(), abs=1e-6)


@pytest.mark.parametrize(
    ("name", "box"),
    [
        ("vit", WHOLE),
        ("clip_vision", (0, 1 / 6, 1, 5 / 6)),
        ("clip", (0, 1 / 6, 1, 5 / 6)),
        ("dinov2", (0.1, 14 / 60, 0.9, 46 / 60)),
        ("yolos", WHOLE),
    ],
)
def test_patches_know_which_part_of_the_photo_they_cover(folders, name, box):
    attention = mhaviz.load(folders(name)).attend(image=photo_of())
    for tokens in {m.columns.tokens for m in attention.maps}:
        (grid,) = tokens.images
        assert grid.box == pytest.approx(box, abs=0.01)
        assert grid.shape == ((4, 6) if name == "yolos" else (4, 4))


TEMPLATE = (
    "{% for m in messages %}{% for c in m.content %}{{ '<image>' if c.type == 'image' else c.text }}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %} cat{% endif %}"
)


@pytest.mark.numeric
@pytest.mark.parametrize("template", [None, TEMPLATE], ids=["plain", "a chat template"])
def test_a_text_beside_an_image(tmp_path, folders, template):
    folder = save("llava", tmp_path / "llava")
    of_language(template).save_pretrained(folder)
    photo = photo_of()
    attention = mhaviz.load(folder).attend("the cat", image=photo)
    prompt = "<image>\nthe cat" if template is None else "<image>the cat cat"
    expected, inputs = eager_attentions(folder, photo, prompt)
    maps = [m for m in attention.maps if m.kind == "masked"]
    assert len(maps) == 2
    for m, weights in zip(maps, expected.attentions, strict=True):
        assert m.weights == pytest.approx(weights[0].numpy(), abs=1e-6)
    tokens = maps[0].columns.tokens
    assert tokens.ids == tuple(inputs["input_ids"][0].tolist())
    (grid,) = tokens.images
    assert grid.places == tuple(range(16))
    assert tokens.texts[:2] == ("0,0", "0,1")
    assert " cat" in tokens.texts[16:] or "cat" in tokens.texts[16:]
    assert grid.box == pytest.approx((0, 1 / 6, 1, 5 / 6), abs=0.01)
    over = attention.over_image(photo, len(tokens) - 1)
    assert over.maps


def test_a_model_of_images_and_text_reads_an_image_alone(folders):
    attention = mhaviz.load(folders("llava")).attend(image=photo_of())
    assert {len(m.queries) for m in attention.maps} == {17}


@pytest.mark.parametrize("as_what", [str, Path, lambda path: np.array(photo_of()), lambda path: [photo_of()]])
def test_an_image_of_any_kind(folders, tmp_path, as_what):
    photo_of().save(tmp_path / "photo.png")
    model = mhaviz.load(folders("vit"))
    found = model.attend(image=as_what(tmp_path / "photo.png"))
    assert found[0].weights == pytest.approx(model.attend(image=photo_of())[0].weights)


def test_a_large_photo_is_read_whole(folders, monkeypatch):
    """Pictures show smaller ones."""
    from mhaviz.files import images

    model = mhaviz.load(folders("vit"))
    before = model.attend(image=photo_of())[0].weights
    monkeypatch.setattr(images, "MOST_SIDE", 8)
    assert (model.attend(image=photo_of())[0].weights == before).all()


def test_layers_heads_and_what_is_made_of_them(folders):
    model, photo = mhaviz.load(folders("vit")), photo_of()
    whole = model.attend(image=photo)
    (one,) = model.attend(image=photo, layer=1, head=[0, 2]).maps
    assert one.weights == pytest.approx(whole[1].weights[[0, 2]])
    assert model.attend(image=photo, mean="heads")[0].weights[0] == pytest.approx(whole[0].weights.mean(0), abs=1e-6)
    rolled = model.attend(image=photo, show="rollout")
    assert rolled[0].quantity.key == "rollout"


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ("a cat", {"image": photo_of()}, "reads images, and no text; leave out 'a cat'"),
        ("a cat", {}, 'reads images, and no text; give one: attend(image="photo.png")'),
        ((), {"image": [photo_of(), photo_of()]}, "`image`: expected one image, got 2"),
        ((), {"image": photo_of(), "verify": True}, "`verify` is for texts"),
        ((), {"image": photo_of(), "show": "norms"}, "`show` is for texts"),
        ((), {"image": photo_of(), "pair": "a"}, "`pair` goes with a sentence, got none|expected|with one sentence"),
        ((), {"image": photo_of(), "generate": 3}, "leave out `generate`"),
        ((), {"image": photo_of(), "kind": "cross"}, "`kind`: expected a kind of attention that has run, self"),
        ((), {"image": photo_of(), "layer": 7}, "layer"),
        ((), {"image": 3}, "`image`: expected a path, a PIL image"),
    ],
)
def test_what_a_model_of_images_does_not_read(folders, texts, options, message):
    with pytest.raises(ArgumentError) as raised:
        mhaviz.load(folders("vit")).attend(texts, **options)
    assert any(part in str(raised.value) for part in message.split("|"))
    assert "\n" not in str(raised.value)


def test_other_studies_say_that_it_reads_images(folders):
    model = mhaviz.load(folders("vit"))
    assert "ImageModel" in repr(model)
    studies = [
        lambda: model.explain("a", 0),
        lambda: model.embeddings("a"),
        lambda: model.layers,
        lambda: model.head_statistics(["a"]),
    ]
    for study in studies:
        with pytest.raises(ArgumentError, match="reads images, and no text"):
            study()


def test_models_of_texts_refuse_images(model_folder):
    for model in (mhaviz.load("random"), mhaviz.load(model_folder("bert"))):
        with pytest.raises(ArgumentError, match=r"`image` is for|no image processor"):
            model.attend("a", image=photo_of())


def test_a_folder_without_an_image_processor_gives_a_program(tmp_path):
    folder = save("vit", tmp_path / "vit", with_processor=False)
    for texts, options in (("a cat", {}), ((), {"image": photo_of()})):
        with pytest.raises(ProgramError, match="has no image processor") as raised:
            mhaviz.load(folder).attend(texts, **options)
        assert raised.value.program.count("\n") == 5
        assert "\n" not in raised.value.message


def test_a_folder_whose_processor_cannot_be_loaded(folders, tmp_path):
    folder = save("vit", tmp_path / "vit")
    (folder / "preprocessor_config.json").write_text('{"image_processor_type": "NoSuchProcessor"}')
    with pytest.raises(ProgramError, match="its image processor cannot be loaded"):
        mhaviz.load(folder).attend(image=photo_of())
    (folder / "preprocessor_config.json").write_text(
        '{"image_processor_type": "ViTImageProcessor", "size": {"height": 1000000000, "width": 1000000000}}'
    )
    with pytest.raises(MhavizError, match="pixels a side"):
        mhaviz.load(folder).attend(image=photo_of())


def test_code_of_a_folder_is_not_run(tmp_path):
    folder = save("vit", tmp_path / "vit")
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    path = folder / "preprocessor_config.json"
    path.write_text(path.read_text().replace("{", '{"auto_map": {"AutoImageProcessor": "evil.Processor"},', 1))
    attention = mhaviz.load(folder).attend(image=photo_of())
    assert attention.maps


def test_padding_is_beside_the_photo(tmp_path):
    folder = save("clip_vision", tmp_path / "padded")
    with in_silence():
        hf.LlavaImageProcessor(size={"shortest_edge": 32}, crop_size=SQUARE, do_pad=True).save_pretrained(folder)
    attention = mhaviz.load(folder).attend(image=photo_of())
    (grid,) = attention[0].columns.tokens.images
    assert grid.box == pytest.approx((-0.25, 0, 1.25, 1), abs=0.01)
    over = attention.over_image(photo_of())
    (photo,) = over.photos
    assert photo.shape == (60, 60, 3)
    assert (photo[:9] == 128).all()
    assert (photo[10:50] == np.asarray(photo_of())).all()
    assert over.maps[0].views[0].box == pytest.approx((0, 0, 1, 1), abs=0.01)


def test_tiles_are_parts_of_the_photo_and_have_their_own_maps():
    """A tower reads a smaller copy of the photo and its halves as a batch."""
    halves = (WHOLE, (0, 0, 1, 0.5), (0, 0.5, 1, 1))
    tower = Tokens(("a", "b"), images=(PatchGrid(1, 1, (1,)),))
    for example, half in enumerate(halves):
        placed = placed_in_photos(tower, SeenImages({}, None, (halves,)), example, unknown := set())
        assert (placed.images[0].box, unknown) == (half, set())
    words = Tokens(("a", "b", "c"), images=(PatchGrid(1, 2, (1, 2)),))  # which no tile is
    assert placed_in_photos(words, SeenImages({}, words, (halves,)), 0, unknown) == words
    assert unknown == {0}

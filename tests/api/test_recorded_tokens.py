"""Which of the numbers that a program has looked up are the tokens of an attention."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mhaviz
from mhaviz.api.recorded_tokens import TokenNames
from mhaviz.recording.inputs import SeenInputs
from mhaviz.records import Attention, Source

SOURCE, TARGET = torch.tensor([[5, 3, 8, 1]]), torch.tensor([[2, 7, 7, 4]])


@pytest.fixture(autouse=True)
def no_tokenizer_of_another_test(monkeypatch):
    """The one tokenizer that there is names the tokens of whatever reads numbers that it has."""
    monkeypatch.setattr("mhaviz.api.recorded_tokens.tokenizer_anywhere", lambda: None)


class Program:
    """What a program reads, and in which order; nobody looks for its tokenizer."""

    def __init__(self):
        def failed(error):
            raise error

        self.inputs = SeenInputs(failed)
        self.looks = self.inputs.looks()
        self.names = TokenNames(self.inputs, None, None, pytest.fail)
        self.names._looked = True

    def read(self, ids):
        self.looks[F.embedding](F.embedding, (ids, torch.zeros(9, 2)), {})

    def attend(self, lengths=(4, 4), examples=(0,), batch_size=1, first=0, is_cross=False):
        queries, keys = self.names.sides(1, lengths, examples, batch_size, first, is_cross)
        self.inputs.n_attentions += 1
        return [one.ids for one in queries], [one.ids for one in keys]


def tuples(ids):
    return [tuple(row) for row in ids.tolist()]


def test_a_source_and_a_target_of_one_length():
    program, source, target = Program(), tuples(SOURCE), tuples(TARGET)
    for _ in range(2):
        program.read(SOURCE)
        assert program.attend() == (source, source)
        program.read(TARGET)
        assert program.attend() == (target, target)
        assert program.attend(is_cross=True) == (target, source)


def test_nothing_tells_which_of_two_texts_it_is_that_were_read_before_any_attention():
    program = Program()
    program.read(SOURCE)
    program.read(TARGET)
    assert program.attend() == ([()], [()])
    assert program.attend(is_cross=True) == ([()], [()])


def test_the_same_text_read_twice_and_its_positions():
    program = Program()
    for ids in (SOURCE, SOURCE.clone(), torch.arange(4)[None], torch.zeros(1, 4, dtype=torch.long)):
        program.read(ids)
    assert program.attend()[0] == tuples(SOURCE)


def test_examples_of_a_batch_and_beams_of_them():
    program, both = Program(), torch.cat([SOURCE, TARGET])
    program.read(both)
    assert program.attend(examples=(0, 1), batch_size=2)[0] == tuples(both)
    assert program.attend(examples=(0, 1), batch_size=6)[0] == [*tuples(SOURCE), ()], "beams of the first, or the next"


def test_keys_of_a_cache_that_has_lost_its_first_are_named_by_their_places():
    program = Program()
    _, (keys,) = program.names.sides(1, (1, 4), (0,), 1, 6, False)
    assert keys.texts == ("3", "4", "5", "6")


def test_what_is_read_in_a_layer_names_the_same_objects():
    program = Program()
    program.read(SOURCE)
    first = program.names.sides(1, (4, 4), (0,), 1, 0, False)
    program.read(nn.Parameter(torch.zeros(4, 4)).long())  # position biases
    assert program.names.sides(1, (4, 4), (0,), 1, 0, False) is first


IMAGE = torch.linspace(-1, 1, 3 * 32 * 32).reshape(1, 3, 32, 32)
VISION = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
VISION |= {"image_size": 32, "patch_size": 8}
TEXT = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "pad_token_id": 0}
TEXT |= {"num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 16}
PATCHES = tuple(f"{row},{column}" for row in range(4) for column in range(4))
IMAGE_TOKEN = 55


def _keys(model, **inputs):
    """The keys of each attention, by its module; the patches of the image are 4 × 4."""
    with mhaviz.record(model.eval()) as recording, torch.no_grad():
        model(**inputs)
    return {m.module: m for m in recording.attention}


@pytest.mark.parametrize(
    ("name", "options", "before", "after"),
    [
        ("ViT", {}, ["[cls]"], []),
        ("DeiT", {}, ["[cls]", "[special 1]"], []),
        ("Dinov2WithRegisters", {"num_register_tokens": 4}, ["[cls]", *(f"[special {i}]" for i in range(1, 5))], []),
        ("SiglipVision", {}, [], []),
        (
            "Yolos",
            {"image_size": (32, 32), "num_detection_tokens": 3},
            ["[cls]"],
            [f"[special {i}]" for i in (1, 2, 3)],
        ),
    ],
)
def test_patches_stand_where_the_program_joins_them_with_other_tokens(name, options, before, after):
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(**(VISION | options))
    for m in _keys(getattr(transformers, f"{name}Model")(config), pixel_values=IMAGE).values():
        assert m.keys == (*before, *PATCHES, *after)
        assert m.columns.tokens.grid == (4, 4)


def _llava():
    from transformers import LlavaConfig, LlavaForConditionalGeneration

    vision, text = VISION | {"model_type": "clip_vision_model"}, TEXT | {"model_type": "llama"}
    return LlavaForConditionalGeneration(
        LlavaConfig(vision_config=vision, text_config=text, image_token_index=IMAGE_TOKEN, vision_feature_layer=-1)
    )


def _paligemma():
    from transformers import PaliGemmaConfig, PaliGemmaForConditionalGeneration

    vision = VISION | {"model_type": "siglip_vision_model", "projection_dim": 16}
    text = TEXT | {"model_type": "gemma"}
    config = PaliGemmaConfig(vision_config=vision, text_config=text, image_token_index=IMAGE_TOKEN, projection_dim=16)
    return PaliGemmaForConditionalGeneration(config)


@pytest.mark.parametrize(("make", "before", "after"), [(_llava, 3, 0), (_llava, 2, 4), (_paligemma, 0, 4)])
def test_patches_among_a_text_stand_where_its_image_tokens_are(make, before, after):
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    ids = torch.tensor([[*range(1, 1 + before), *[IMAGE_TOKEN] * 16, *range(9, 9 + after)]])
    types = {"token_type_ids": torch.zeros_like(ids)} if make is _paligemma else {}
    m = _keys(make(), input_ids=ids, pixel_values=IMAGE, **types)["model.language_model.layers.0.self_attn"]
    places = (ids[0] == IMAGE_TOKEN).nonzero()[:, 0].tolist()
    assert [m.keys[place] for place in places] == list(PATCHES)
    assert [m.keys[i] for i in range(len(m.keys)) if i not in places] == [
        str(i) for i in range(len(m.keys)) if i not in places
    ]
    assert m.columns.tokens.special == ()
    over = Attention(Source("test"), (m,)).over_image(np.zeros((32, 32, 3), np.uint8), query=len(m.keys) - 1)
    expected = m.weights[:, -1, places].reshape(-1, 4, 4)
    np.testing.assert_array_equal(over.maps[0].weights, expected)


def test_learned_queries_and_merged_patches_are_no_patches():
    transformers = pytest.importorskip("transformers")
    former = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    text = {"model_type": "opt", "vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "ffn_dim": 16}
    text |= {"num_attention_heads": 2, "word_embed_proj_dim": 16, "max_position_embeddings": 40}
    config = transformers.Blip2Config(
        vision_config=VISION,
        qformer_config=former | {"encoder_hidden_size": 16},
        text_config=text,
        num_query_tokens=18,
        image_token_index=IMAGE_TOKEN,
    )
    ids = torch.tensor([[*[IMAGE_TOKEN] * 18, 2, 7, 8]])
    found = _keys(transformers.Blip2ForConditionalGeneration(config), input_ids=ids, pixel_values=IMAGE)
    keys = {name.rpartition("layer")[0].rpartition(".")[0]: m.keys for name, m in found.items() if "cross" not in name}
    assert not {*keys["qformer.encoder"]} & {"[cls]", *PATCHES}
    (cross,) = (m for name, m in found.items() if "cross" in name)
    assert cross.keys == ("[cls]", *PATCHES)


def test_a_text_as_long_as_the_sequence_of_an_image_is_not_called_patches():
    pytest.importorskip("transformers")
    ids = torch.tensor([[1, *[IMAGE_TOKEN] * 16]])
    found = _keys(_llava(), input_ids=ids, pixel_values=IMAGE)
    assert found["model.language_model.layers.0.self_attn"].keys == ("0", *PATCHES)
    assert found["model.vision_tower.encoder.layers.0.self_attn"].keys == ("[cls]", *PATCHES)


class Tower(nn.Module):
    """One head by hand; ``tokens`` makes what it reads."""

    def __init__(self, tokens):
        super().__init__()
        self.tokens, self.q, self.k = tokens, nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        x = self.tokens(x)
        return (self.q(x) @ self.k(x).mT).softmax(-1) @ x


class Turned(nn.Module):
    def __init__(self, turn=lambda x: x.mT):
        super().__init__()
        self.turn = turn

    def forward(self, x):
        return self.turn(x)


@pytest.mark.parametrize("order", ["image text sound", "text image sound", "sound text image"])
def test_towers_of_as_many_tokens_are_named_each_by_what_it_reads(order):
    inputs = {"image": IMAGE, "text": torch.arange(16).flip(0)[None], "sound": torch.zeros(1, 1, 64)}
    image = nn.Sequential(nn.Conv2d(3, 8, 8, 8), nn.Flatten(2), Turned())
    parts = {"image": image, "text": nn.Embedding(16, 8), "sound": nn.Sequential(nn.Conv1d(1, 8, 4, 4), Turned())}
    towers = nn.ModuleDict({name: Tower(tokens) for name, tokens in parts.items()})
    with mhaviz.record(towers) as recording, torch.no_grad():
        for name in order.split():
            towers[name](inputs[name])
    found = {m.module: m for m in recording.attention}
    positions = tuple(map(str, range(16)))
    assert {name: m.keys for name, m in found.items()} == {"image": PATCHES, "text": positions, "sound": positions}


@pytest.mark.parametrize(
    "turn",
    [
        lambda x: x.roll(1, 1),
        lambda x: x.flip(1),
        lambda x: x[:, torch.arange(15, -1, -1)],
        lambda x: x.unflatten(1, (4, 4)).transpose(1, 2).flatten(1, 2),
        lambda x: x.gather(1, torch.arange(15, -1, -1)[None, :, None].expand_as(x)),
    ],
    ids=["roll", "flip", "index", "columns first", "gather"],
)
def test_patches_in_another_order_are_not_named(turn):
    tower = Tower(nn.Sequential(nn.Conv2d(3, 8, 8, 8), nn.Flatten(2), Turned(), Turned(turn)))
    with mhaviz.record(tower) as recording, torch.no_grad():
        tower(IMAGE)
    assert recording.attention.maps[0].keys == tuple(map(str, range(16)))

"""Which of the numbers that a program has looked up are the tokens of an attention."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import mhaviz
from mhaviz.api.recorded_tokens import TokenNames
from mhaviz.inputs.tokens import Tokens
from mhaviz.observe.inputs import SeenInputs
from mhaviz.observe.regions import NONE, SeenImage, cells_of
from mhaviz.observe.sides import TokenRegions
from mhaviz.results.attention import Attention
from mhaviz.results.result import Source


@pytest.fixture(autouse=True)
def no_tokenizer_of_another_test(monkeypatch):
    """The one tokenizer that there is names the tokens of whatever reads numbers that it has."""
    monkeypatch.setattr("mhaviz.api.recorded_tokens.tokenizer_of_program", lambda: None)


class Program(nn.Module):
    """Reads two texts of one length, and attends from one to the other as ``sides`` makes them."""

    def __init__(self, sides, attend="by hand"):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places, self.types, self.lines = (nn.Embedding(9, 8) for _ in range(4))
        self.q, self.k, self.sides, self.how = nn.Linear(8, 8), nn.Linear(8, 8), sides, attend
        self.rnn, self.attention = nn.GRU(8, 8, batch_first=True), nn.MultiheadAttention(8, 2, batch_first=True)

    def attend(self, x, y):
        if self.how == "module":
            return self.attention(x, y, y)[0]
        q, k, v = (one.unflatten(-1, (2, 4)).transpose(-3, -2) for one in (self.q(x), self.k(y), y))
        made = F.scaled_dot_product_attention(q, k, v) if self.how == "fused" else (q @ k.mT).softmax(-1) @ v
        return made.transpose(-3, -2).flatten(-2)

    def forward(self, one, other):
        return self.attend(*self.sides(self, one, other))


ONE, OTHER, BOTH = (
    torch.tensor([[5, 3, 8, 1]]),
    torch.tensor([[2, 7, 7, 4]]),
    torch.tensor([[5, 3, 8, 1], [2, 7, 7, 4]]),
)
SOUND = torch.ones(1, 4, 8)
PLACES, TYPES = torch.arange(4)[None], torch.zeros(1, 4, dtype=torch.long)


def alone(make):
    """Of what a function makes of the first text, queries and keys."""
    return lambda p, one, other: (make(p, p.words(one)),) * 2


def read_by(sides, one=ONE, other=OTHER, attend="by hand"):
    """The numbers of the queries and of the keys of a program's last attention, of each example."""
    program = Program(sides, attend)
    with mhaviz.record(program, examples="all") as recording, torch.no_grad():
        program(one, other)
    last = [m for m in recording.attention if m.layer == recording.attention.maps[-1].layer]
    return [(m.rows.tokens.ids, m.columns.tokens.ids) for m in last]


def pairs(queries, keys):
    return [(tuple(q), tuple(k)) for q, k in zip(queries.tolist(), keys.tolist(), strict=True)]


WAYS = pytest.mark.parametrize("attend", ["by hand", "fused", "module"])


@WAYS
def test_texts_of_one_length_are_told_apart_by_what_is_made_of_them(attend):
    def reversed_(p, one, other):
        return tuple(p.words(ids) for ids in (one, other))[::-1]

    assert read_by(lambda p, one, other: (p.words(one), p.words(other)), attend=attend) == pairs(ONE, OTHER)
    assert read_by(reversed_, attend=attend) == pairs(OTHER, ONE)
    assert read_by(lambda p, one, other: (p.words(one), SOUND), attend=attend) == [(tuple(ONE[0].tolist()), ())]
    assert read_by(lambda p, one, other: (SOUND + p.words(other)[:, :0].sum(), p.words(one)), attend=attend) == [
        ((), tuple(ONE[0].tolist()))
    ]


KEPT = {
    "sum": lambda p, x: p.places(PLACES) + x + p.types(TYPES) + p.places.weight[:4],
    "the same text twice": lambda p, x: x + p.lines(ONE.clone()),
    "layers": lambda p, x: x + F.gelu(F.layer_norm(p.q(x), (8,))) * 2,
    "recurrent": lambda p, x: p.rnn(x)[0],
    "attention": lambda p, x: p.attention(x, x, x)[0],
    "encoder": lambda p, x: nn.TransformerEncoderLayer(8, 2, 8, batch_first=True).eval()(x),
    "features": lambda p, x: torch.cat([SOUND[..., :3], x[..., :5]], -1),
    "axes": lambda p, x: x.mT.flatten(1).unflatten(1, (8, 4)).mT,
    "convolution": lambda p, x: F.conv1d(x.mT, torch.ones(8, 8, 3), padding=1).mT,
    "dropout": lambda p, x: F.dropout(x, 0.1),
    "others behind them": lambda p, x: torch.cat([x, SOUND], 1)[:, :6][:, :4],
    "list of heads": lambda p, x: p.k(p.q(x).unflatten(-1, (2, 4))[..., [1], :].repeat(1, 1, 2, 1).flatten(2)),
    "zeros": lambda p, x: torch.zeros_like(x) + x,
    "nothing masked": lambda p, x: x.masked_fill(torch.zeros(1, 4, 1, dtype=torch.bool), 0),
    "features masked": lambda p, x: x.masked_fill(torch.arange(8) > 3, 0),
    "layers of some": lambda p, x: torch.where(MASK[..., None], p.q(x), x),
    "layers of some, added": lambda p, x: x + p.q(x) * ~MASK[..., None],
    "numbers one by one": lambda p, x: F.hardswish(+x.sub(1).div_(2).abs().maximum(x * 0) / 2 - 1.0).to(x.dtype) ** 2,
    "real numbers": lambda p, x: torch.complex(x, x).conj().real.clamp(min=0).contiguous(),
    "normalised": lambda p, x: F.normalize(F.rms_norm(F.group_norm(x.mT, 2).mT, (8,)), dim=-1).softmax(-1),
    "norm": lambda p, x: x * x.square().mean(-1, keepdim=True).rsqrt(),
    "blended with positions": lambda p, x: x * (1 - 0.5 * SHARE) + p.places.weight[:4] * SHARE,
}


@WAYS
@pytest.mark.parametrize("name", KEPT)
def test_what_keeps_tokens_in_their_places_keeps_their_names(name, attend):
    def sides(p, one, other):
        p.words(other)
        return (KEPT[name](p, p.words(one)),) * 2

    assert read_by(sides, attend=attend) == pairs(ONE, ONE)


def _set(x, y, index=(slice(None), slice(None))):
    x[index] = y
    return x


MASK = torch.tensor([[False, True, False, False]])
SHARE = MASK[..., None].float()
REPLACED = {
    "filled": lambda p, x: x.masked_fill(SHARE > 0, 0),
    "where": lambda p, x: torch.where(SHARE > 0, p.q.bias, x),
    "where, of a layer": lambda p, x: torch.where(SHARE > 0, p.q(SOUND), x),
    "where, of an embedding": lambda p, x: torch.where(SHARE > 0, p.types(torch.tensor(0)), x),
    "where, of embeddings": lambda p, x: torch.where(SHARE > 0, p.types(TYPES), x),
    "where, of embeddings first": lambda p, x: torch.where(SHARE == 0, x, p.types(TYPES)),
    "blend": lambda p, x: x * (1 - SHARE) + p.q.bias * SHARE,
    "blend, of an embedding": lambda p, x: p.types(torch.tensor(0)) * SHARE + (1 - SHARE) * x,
    "blend in place": lambda p, x: x.mul_(1 - SHARE).add_(p.q.bias * SHARE),
    "interpolated": lambda p, x: x.lerp(p.q.bias.expand_as(x), SHARE),
    "a row of 0": lambda p, x: _set(x, 0, (0, 1)),
    "filled by an index": lambda p, x: x.index_fill(1, torch.tensor([1]), 0),
}
LOST = {
    "filled in place": lambda p, x: _zeroed(x),
    "filled in place, in other memory": lambda p, x: _zeroed(_in_other_memory(_zeroed(p.words(OTHER)), x)),
    "set by mask": lambda p, x: _set(x + 0, p.q.bias, MASK),
    "where": lambda p, x: torch.where(MASK[..., None], p.q.bias, x),
    "where not": lambda p, x: x.where(~MASK[..., None], p.q.bias) + p.places(PLACES),
    "filled": lambda p, x: (x + 0).masked_fill_(MASK[..., None], 0),
    "scattered": lambda p, x: x.masked_scatter(MASK[..., None], p.q.bias),
    "sound": lambda p, x: SOUND * 2,
    "sound by a layer": lambda p, x: p.q(SOUND),
    "sum of two texts": lambda p, x: x + p.words(OTHER),
    "shift": lambda p, x: torch.cat([SOUND[:, :1], x], 1)[:, :4],
    "shift by padding": lambda p, x: F.pad(x, (0, 0, 1, -1)),
    "others in the place of the last": lambda p, x: torch.cat([x[:, :3], SOUND], 1)[:, :4],
    "list": lambda p, x: x[:, [1, 0, 2, 3]],
    "roll": lambda p, x: x.roll(1, 1),
    "flip": lambda p, x: x.flip(1),
    "sort": lambda p, x: x.sort(1).values,
    "index": lambda p, x: x[:, torch.tensor([3, 2, 1, 0])],
    "scatter": lambda p, x: torch.zeros_like(x).scatter(1, torch.tensor([3, 2, 1, 0])[:, None].expand(1, 4, 8), x),
    "halves": lambda p, x: torch.cat([x[:, 2:], x[:, :2]], 1),
    "written": lambda p, x: torch.zeros_like(x).index_copy_(1, torch.tensor([3, 2, 1, 0]), x),
    "copied into": lambda p, x: p.words(ONE).copy_(x.flip(1)),
    "set": lambda p, x: _set(p.words(ONE), x.flip(1)),
    "features": lambda p, x: F.pad(x, (0, 0, 0, 4)).unflatten(1, (2, 4))[:, 1],
}


@pytest.mark.parametrize("name", LOST)
def test_what_has_other_tokens_or_moves_them_has_no_names(name):
    for attend in ("by hand", "fused", "module"):
        found = read_by(alone(LOST[name]), attend=attend)
        assert {ids for pair in found for ids in pair} == {()}, attend


BATCHES = {
    "of a text and sound": (lambda p, x: torch.cat([SOUND, x]), [None, ONE]),
    "of two texts": (lambda p, x: torch.cat([x, p.words(OTHER)]), [ONE, OTHER]),
    "stacked": (lambda p, x: torch.stack([x[0], p.words(OTHER)[0]]), [ONE, OTHER]),
}


@WAYS
@pytest.mark.parametrize("name", BATCHES)
def test_each_example_of_a_batch_that_is_made_of_texts_has_its_words(name, attend):
    make, texts = BATCHES[name]
    expected = [() if text is None else tuple(text[0].tolist()) for text in texts]
    assert read_by(alone(make), attend=attend) == [(ids, ids) for ids in expected]


def _zeroed(x):
    x[:, 1].zero_()
    return x


def _in_other_memory(_, x):
    x.data = x.data.clone()
    return x


class Letters:
    """As much of a tokenizer as names need."""

    vocab_size, all_special_ids, special_tokens_map = 9, [8], {"mask_token": "[mask]"}
    unk_token = unk_token_id = None

    def __len__(self):
        return 9


@pytest.mark.parametrize("name", REPLACED)
def test_words_that_others_stand_in_the_place_of_alone_lose_their_names(monkeypatch, name):
    monkeypatch.setattr("mhaviz.api.recorded_tokens.tokenizer_of_program", Letters)
    monkeypatch.setattr(
        "mhaviz.models.transformers.read.name_tokens",
        lambda _, ids, **more: Tokens(tuple("abcdefgh"[i - 1] for i in ids)),
    )
    with mhaviz.record(program := Program(alone(REPLACED[name]))) as recording, torch.no_grad():
        program(ONE, OTHER)
    assert recording.attention.maps[0].keys == ("e", "row 1", "h", "a")
    with mhaviz.record(program) as recording, torch.no_grad():
        program(torch.tensor([[5, 8, 3, 1]]), OTHER)
    assert recording.attention.maps[0].keys == tuple("ehca")  # 8 is special: it says that something is there


def test_a_prompt_and_what_was_written_after_it_have_their_words(monkeypatch):
    """The words of the prompt were gone once a step had followed."""
    monkeypatch.setattr("mhaviz.api.recorded_tokens.tokenizer_of_program", Letters)
    monkeypatch.setattr(
        "mhaviz.models.transformers.read.name_tokens",
        lambda _, ids, **more: Tokens(tuple("abcdefgh"[i - 1] for i in ids)),
    )
    decoder = Decoder()
    with mhaviz.record(decoder) as recording, torch.no_grad():
        for ids in torch.tensor([[5, 3, 7, 1, 2]]).split([3, 1, 1], 1):
            decoder(ids)
    (m,) = recording.attention
    assert (m.queries, m.keys) == (tuple("ecgab"), ("prefix 0", "prefix 1", *"ecgab"))


def test_a_text_is_named_once_for_all_rows_that_were_moved(monkeypatch):
    named = []
    monkeypatch.setattr("mhaviz.api.recorded_tokens.tokenizer_of_program", Letters)
    monkeypatch.setattr(
        "mhaviz.models.transformers.read.name_tokens",
        lambda _, ids, **more: named.append(ids) or Tokens(tuple("abcdefgh"[i - 1] for i in ids)),
    )
    with mhaviz.record(program := Program(lambda p, one, other: (p.words(one), p.words(one).flip(1)))) as recording:
        program(ONE, OTHER)
    before = len(named)
    assert recording.attention.maps[0].keys == tuple("ahce")
    assert before <= 1, named


class Tables(nn.Module):
    """Adds up what is looked up in several tables, and attends."""

    def __init__(self, *sizes):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, 8) for n in sizes)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, *ids):
        x = sum(table(one) for table, one in zip(self.tables, ids, strict=True))
        return self.attention(x, x, x)[0]


FROM_TWO = PLACES + 2
OWN, OTHERS = tuple("echa"), tuple("0123")


@pytest.mark.parametrize(
    ("sizes", "ids", "names"),
    [
        ([9], [ONE], OWN),
        ([64], [ONE], OWN),  # filled up
        ([24], [ONE], OTHERS),  # items of a shop
        ([9], [FROM_TWO], OTHERS),
        ([9, 2], [ONE, TYPES], OWN),
        ([9, 9], [ONE, TYPES], OWN),  # GPT-2 has types in the table of its words
        ([9, 9], [ONE, PLACES], OWN),
        ([9, 514], [ONE, FROM_TWO], OWN),  # RoBERTa's places
        ([9, 500], [ONE, OTHER], OWN),
        ([9, 9], [ONE, ONE], OWN),
        ([9, 64], [ONE, OTHER], OTHERS),  # two streams of codes
        ([9, 9], [ONE, FROM_TWO], OTHERS),
        ([9, 9], [FROM_TWO, ONE], OTHERS),
    ],
)
def test_names_are_of_the_only_table_that_may_be_the_tokenizers(monkeypatch, sizes, ids, names):
    monkeypatch.setattr("mhaviz.api.recorded_tokens.tokenizer_of_program", Letters)
    monkeypatch.setattr(
        "mhaviz.models.transformers.read.name_tokens",
        lambda _, ids, **more: Tokens(tuple("abcdefgh"[i - 1] for i in ids)),
    )
    with mhaviz.record(program := Tables(*sizes)) as recording, torch.no_grad():
        program(*ids)
    assert recording.attention.maps[0].keys == names
    assert ("names of the only tokenizer" in recording.attention.source.remark) == (names == OWN)  # of so few, a guess


def test_a_large_vocabulary_may_be_filled_up_by_a_twentieth(monkeypatch):
    class Large(Letters):
        vocab_size = 10_000

        def __len__(self):
            return 10_000

    monkeypatch.setattr("mhaviz.api.recorded_tokens.tokenizer_of_program", Large)
    for n_rows, numbers in {9_999: (), 10_500: tuple(ONE[0].tolist()), 10_501: ()}.items():
        inputs = SeenInputs()
        number = inputs.read(ONE, n_rows)
        read = TokenNames(inputs, None, None, pytest.fail)._read(frozenset({number}), 4)
        assert (() if read is None else tuple(read.ids[0].tolist())) == numbers


TEXT_OF_SIX, LEARNED = torch.tensor([[5, 3, 8, 1, 6, 2]]), torch.randn(1, 2, 8)
ROWS = ("row 0", "row 1"), ("row 6", "row 7")


@pytest.mark.parametrize("attend", ["by hand", "fused", "module"])
@pytest.mark.parametrize("n_behind", [0, 2])
def test_words_are_those_of_the_queries_before_and_behind_rows_that_only_keys_have(attend, n_behind):
    def sides(p, one, other):
        x = p.words(one)
        return x, torch.cat([x, LEARNED] if n_behind else [LEARNED, x], 1)

    with mhaviz.record(program := Program(sides, attend), tokens=list("abcdef")) as recording:
        program(TEXT_OF_SIX, OTHER)
    (m,) = recording.attention
    assert m.queries == tuple("abcdef")
    assert m.keys == ((*"abcdef", *ROWS[1]) if n_behind else (*ROWS[0], *"abcdef"))


@pytest.mark.parametrize("attend", ["by hand", "fused"])
def test_learned_queries_that_are_keys_have_one_name(attend):
    """The resampler of Alayrac et al. 2022, Flamingo, arXiv 2204.14198, figure 5."""
    program = Program(lambda p, one, other: (p.learned, torch.cat([p.words(one), p.learned], 1)), attend)
    program.learned = nn.Parameter(LEARNED)
    with mhaviz.record(program) as recording, torch.no_grad():
        program(TEXT_OF_SIX, OTHER)
    (m,) = recording.attention
    assert m.queries == ("fixed 0", "fixed 1")
    assert m.keys == (*"012345", *m.queries)


@pytest.mark.parametrize(
    "arguments", [{"add_bias_kv": True}, {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True}]
)
@pytest.mark.parametrize("is_cross", [False, True])
def test_keys_that_a_layer_of_pytorch_adds_are_rows(arguments, is_cross):
    layer, words = nn.MultiheadAttention(8, 2, batch_first=True, **arguments), nn.Embedding(9, 8)
    with mhaviz.record(tokens=list("abcdef")) as recording:
        x = words(TEXT_OF_SIX)
        layer(words(OTHER) if is_cross else x, x, x)
    assert recording.attention[0].keys == (*"abcdef", *ROWS[1][: len(arguments)])


class Decoder(nn.Module):
    """Writes on with a cache whose first keys are learned."""

    def __init__(self):
        super().__init__()
        self.words, self.qkv, self.cache = nn.Embedding(9, 8), nn.Linear(8, 24), None
        self.prefix = nn.Parameter(torch.randn(2, 1, 2, 8))

    def forward(self, ids):
        q, *new = self.qkv(self.words(ids)).chunk(3, -1)
        k, v = self.cache = [torch.cat(pair, 1) for pair in zip(self.cache or self.prefix, new, strict=True)]
        mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1])
        return F.scaled_dot_product_attention(*(x[:, None] for x in (q, k, v)), mask)


@pytest.mark.parametrize("lengths", [[6], [4, 1, 1], [3, 2, 1]])
@pytest.mark.parametrize("names", ["abcdef", "01abcdef", ""])
def test_queries_and_keys_of_a_decoder_have_the_same_names_after_a_prefix(lengths, names):
    decoder = Decoder()
    with mhaviz.record(decoder, tokens=list(names) or None) as recording, torch.no_grad():
        for ids in TEXT_OF_SIX.split(lengths, 1):
            decoder(ids)
    (m,) = recording.attention
    learned = tuple("01") if len(names) > 6 else ("prefix 0", "prefix 1")
    assert m.keys == (*learned, *("abcdef" if names else "012345"))
    assert m.queries == m.keys[2:]


def test_examples_of_a_batch_and_beams_of_them_and_a_part_of_it():
    def batch(make):
        return [q for q, _ in read_by(alone(make), one=BOTH)]

    both = [tuple(row) for row in BOTH.tolist()]
    assert batch(lambda p, x: x) == both
    assert batch(lambda p, x: x.repeat_interleave(3, 0))[:1] == both[:1]
    assert batch(lambda p, x: x[1:]) == both[1:]
    assert batch(lambda p, x: x.chunk(2)[1]) == both[1:]
    assert batch(lambda p, x: x.flip(0)) == both
    assert batch(lambda p, x: x[[1, 0]]) == both


def test_patches_of_a_text_are_those_of_its_example():
    """Of two texts, each with an image of its own."""
    names = TokenNames(SeenInputs(), None, None, pytest.fail)
    images = SeenImage(1, 4, 8), SeenImage(1, 4, 8)
    regions, _ = cells_of(images, [[(0, 1)], [(0, 4)], [(0, 4), (4, 8)]], torch.device("cpu"))
    side = TokenRegions(regions, torch.tensor([[0, 1, NONE], [NONE, 2, 3]]))

    def queries(example):
        ((tokens,), _) = names.sides(1, (2, 1, 3, 3), (example,), 0, False, patches=(side, side))
        return tokens.texts, [(image.image, image.places) for image in tokens.images]

    assert queries(0) == (("0,0", "0,1", "token 2"), [(0, (0, 1))])
    assert queries(1) == (("token 0", "0,0", "0,1"), [(1, (1, 2))])


def test_keys_of_a_cache_that_has_lost_its_first_are_named_by_their_places():
    names = TokenNames(SeenInputs(), None, None, pytest.fail)
    _, (keys,) = names.sides(1, (1, 1, 1, 4), (0,), 6, False)
    assert keys.texts == ("3", "4", "5", "6")


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
        ("ViT", {}, ["cls_token"], []),
        ("DeiT", {}, ["cls_token", "distillation_token"], []),
        (
            "Dinov2WithRegisters",
            {"num_register_tokens": 4},
            ["cls_token", *(f"register_tokens {i}" for i in range(4))],
            [],
        ),
        ("SiglipVision", {}, [], []),
        (
            "Yolos",
            {"image_size": (32, 32), "num_detection_tokens": 3},
            ["cls_token"],
            [f"detection_tokens {i}" for i in range(3)],
        ),
    ],
)
def test_patches_stand_where_the_program_joins_them_with_other_tokens(name, options, before, after):
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(**(VISION | options))
    for m in _keys(getattr(transformers, f"{name}Model")(config), pixel_values=IMAGE).values():
        assert m.keys == (*before, *PATCHES, *after)
        assert m.columns.tokens.grid == (4, 4)


class Patched(nn.Module):
    """Attends to the patches of an image with what is no class token before them: a word, or the state of a robot."""

    def __init__(self, other):
        super().__init__()
        self.other, self.patches, self.cls_token = other, nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.zeros(1, 1, 8))

    def forward(self, given, image):
        x = torch.cat([self.other(given)[:, None], self.patches(image).flatten(2).mT], 1)
        return F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])


@pytest.mark.parametrize(
    ("other", "given"), [(nn.Embedding(9, 8), torch.tensor([3])), (nn.Linear(5, 8), torch.ones(1, 5))]
)
def test_what_stands_before_patches_is_called_a_class_token_by_nobody(other, given):
    (m,) = _keys(Patched(other), given=given, image=torch.rand(1, 3, 16, 16)).values()
    assert m.keys == ("token 0", *PATCHES)


def test_rows_that_are_joined_to_keys_of_an_image_are_no_class_token():
    def sides(p, one, other):
        x = F.conv2d(IMAGE, torch.ones(8, 3, 8, 8), stride=8).flatten(2).mT
        return x, torch.cat([SOUND, x], 1)

    program = Program(sides)
    program.attend = lambda x, y: F.scaled_dot_product_attention(*(one[:, None] for one in (x, y, y)))
    with mhaviz.record(program) as recording:
        program(ONE, OTHER)
    assert recording.attention.maps[0].queries == PATCHES
    assert recording.attention.maps[0].keys == (*(f"token {i}" for i in range(4)), *PATCHES)


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
    assert not {*keys["qformer.encoder"]} & {"class_embedding", *PATCHES}
    (cross,) = (m for name, m in found.items() if "cross" in name)
    assert cross.keys == ("class_embedding", *PATCHES)


def test_a_text_as_long_as_the_sequence_of_an_image_is_not_called_patches():
    pytest.importorskip("transformers")
    ids = torch.tensor([[1, *[IMAGE_TOKEN] * 16]])
    found = _keys(_llava(), input_ids=ids, pixel_values=IMAGE)
    assert found["model.language_model.layers.0.self_attn"].keys == ("0", *PATCHES)
    assert found["model.vision_tower.encoder.layers.0.self_attn"].keys == ("class_embedding", *PATCHES)


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


@pytest.mark.parametrize("n_registers", [0, 1, 3])
@pytest.mark.parametrize("has_patches", [False, True])
def test_tokens_behind_registers_that_were_put_between_keep_their_numbers(n_registers, has_patches):
    """As DINOv2 does: [cls] and patches are cut apart, and the registers stand between."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 8, 4, 4) if has_patches else nn.Linear(5, 8)
            self.cls, self.registers = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, n_registers, 8))
            self.attn, self.pool = (nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))

        def forward(self, x):
            x = self.patches(x)
            x = torch.cat([self.cls, x.flatten(2).mT if has_patches else x], 1)
            x = torch.cat([x[:, :1], self.registers, x[:, 1:]], 1)
            x = self.attn(x, x, x)[0]
            patches = x[:, 1 + n_registers :]
            return self.pool(x[:, :1], patches, patches)

    with mhaviz.record() as recording:
        Net()(torch.randn(1, 3, 8, 12) if has_patches else torch.randn(1, 6, 5))
    whole, pool = recording.attention.maps
    assert whole.kind == "self"
    registers = [f"registers {i}" for i in range(n_registers)] if n_registers > 1 else ["registers"] * n_registers
    places = tuple(map(str, range(6)))
    assert has_patches or whole.keys == ("cls", *registers, *places)
    assert pool.keys == (("0,0", "0,1", "0,2", "1,0", "1,1", "1,2") if has_patches else places)


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
def test_patches_in_another_order_keep_their_names(turn):
    tower = Tower(nn.Sequential(nn.Conv2d(3, 8, 8, 8), nn.Flatten(2), Turned(), Turned(turn)))
    with mhaviz.record(tower) as recording, torch.no_grad():
        tower(IMAGE)
    turned = turn(torch.arange(16.0)[None, :, None].expand(1, 16, 8))[0, :, 0]
    assert recording.attention.maps[0].keys == tuple(PATCHES[int(number)] for number in turned)
    assert recording.attention.maps[0].keys != PATCHES


def test_mixtures_of_patches_are_not_named():
    turned = Turned(lambda x: torch.fft.fft2(x).real)
    tower = Tower(nn.Sequential(nn.Conv2d(3, 8, 8, 8), nn.Flatten(2), Turned(), turned))
    with mhaviz.record(tower) as recording, torch.no_grad():
        tower(IMAGE)
    assert recording.attention.maps[0].keys == tuple(f"row {row}" for row in range(16))


LINES, WORDS = torch.randn(6, 8), torch.randn(4, 8)
UNORDERED = {
    "embeddings of images and of texts": lambda p, attend: attend(LINES, WORDS),
    "a batch that reads itself": lambda p, attend: attend(p.q(LINES), p.k(LINES)),
    "two batches": lambda p, attend: attend(p.q(LINES), p.k(WORDS)),
    "a queue": lambda p, attend: attend(F.normalize(LINES), torch.cat([WORDS, F.normalize(LINES)])),
    "means over an image": lambda p, attend: attend(p.q(torch.ones(6, 8, 2, 2).mean((2, 3))), p.k(LINES)),
    "an axis that was put before": lambda p, attend: attend(p.q(LINES[None]), p.k(LINES[None])),
    "means over texts": lambda p, attend: attend(*(2 * [p.words(LINES.long().abs()).mean(1)[None]])),
}
ORDERED = {
    "with a batch": lambda p, attend: attend(p.q(BATCH), p.k(BATCH)),
    "with a batch that was taken away": lambda p, attend: attend(p.q(BATCH[0]), p.k(BATCH[0])),
    "words that were looked up": lambda p, attend: attend(*(2 * [p.words(torch.tensor([5, 3, 8, 1, 2, 7]))])),
    "later keys are hidden": lambda p, attend: attend(p.q(LINES), p.k(LINES), torch.ones(6, 6).tril().log()),
    "as PyTorch documents its function": lambda p, attend: F.scaled_dot_product_attention(LINES, WORDS, WORDS),
    "as PyTorch documents its layer": lambda p, attend: p.attention(LINES, LINES, LINES)[0],
}
BATCH = LINES[None]


@pytest.mark.parametrize("name", UNORDERED | ORDERED)
def test_what_may_be_a_batch_as_well_as_a_sequence_has_rows_unless_the_user_names_it(name):
    made = []

    def attend(x, y, mask=0):
        made.append((x @ y.mT + mask).softmax(-1))
        return made[0] @ y

    program, (run, sides) = Program(None), ((UNORDERED | ORDERED)[name], ["queries", "keys"])
    names = tuple("abcdef")
    with mhaviz.record() as recording, mhaviz.record(tokens=names) as named, torch.no_grad():
        run(program, attend)
    (m,), (of_user,) = recording.attention.maps, named.attention.maps
    if made:
        np.testing.assert_allclose(m.weights, made[0].reshape(m.weights.shape), atol=1e-6)
    for side in sides:
        texts = getattr(m, side)
        assert texts == tuple(f"row {place}" if name in UNORDERED else str(place) for place in range(len(texts)))
    assert of_user.queries == (m.queries if name.startswith("means") else names)  # which are no tokens
    may_be_batch = name in UNORDERED and name != "means over texts"
    assert ("“row i” is a token or an example" in recording.attention.source.remark) == may_be_batch
    assert "row i" not in named.attention.source.remark or len(of_user.keys) != len(names)


@pytest.mark.parametrize("is_looked_up", [False, True])
@pytest.mark.parametrize("n_heads", [1, 2])
def test_examples_that_read_one_another_are_rows(is_looked_up, n_heads):
    """SAINT (Somepalli et al. 2021, arXiv 2106.01342), section 3.2, for each place of a batch."""

    def attend(x):
        q = program.q(x.transpose(0, 1)).unflatten(-1, (n_heads, -1)).transpose(1, 2)
        return (q @ q.mT).softmax(-1) @ q

    program, ids = Program(None), torch.tensor([[5, 3, 8, 1], [2, 7, 7, 4], [1, 6, 2, 8]])
    x = program.words(ids).detach()
    with mhaviz.record() as recording, torch.no_grad():
        attend(program.words(ids) if is_looked_up else x)
    (m,) = recording.attention
    q = program.q(x)[:, 0].unflatten(-1, (n_heads, -1)).transpose(0, 1)
    np.testing.assert_allclose(m.weights, (q @ q.mT).softmax(-1).detach(), atol=1e-6)
    assert m.queries == m.keys == ("row 0", "row 1", "row 2")

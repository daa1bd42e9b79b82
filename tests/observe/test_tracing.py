"""Patches of images are followed through whatever moves them, and named only where they are that.

The oracle is in the numbers: each pixel holds the number of its patch, the first convolution leaves it as it is, and so
a tensor that only moved functions have touched says by its values which patches its rows are.
"""

import math
import random

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import mhaviz

ROWS, COLUMNS, CELL, FEATURES = 4, 6, 4, 5
NAMES = tuple(f"{row},{column}" for row in range(ROWS) for column in range(COLUMNS))
IMAGE = (
    torch.arange(ROWS * COLUMNS).view(ROWS, 1, COLUMNS, 1).expand(ROWS, CELL, COLUMNS, CELL).flatten(2).flatten(0, 1)
)
IMAGE = IMAGE.float()[None, None].expand(1, 3, -1, -1) + 1.0


class Numbered(nn.Module):
    """Attends to patches, each of whose features is its number plus 1, after ``move`` has moved them.

    ``move`` takes (batch, rows, columns, features), and returns (batch, tokens, features).
    """

    def __init__(self, move, attend="fused"):
        super().__init__()
        self.patches, self.move, self.attend = nn.Conv2d(3, FEATURES, CELL, CELL, bias=False), move, attend
        nn.init.constant_(self.patches.weight, 1 / (3 * CELL * CELL))
        self.moved = None

    def forward(self, image):
        x = self.moved = self.move(self.patches(image).permute(0, 2, 3, 1))
        if self.attend == "fused":
            return F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])
        return (x @ x.mT / math.sqrt(FEATURES)).softmax(-1) @ x


def recorded(move, attend="fused", image=IMAGE):
    """The tokens that are named of the first example, and which patches their numbers say that they are: −1: none."""
    net = Numbered(move, attend)
    with mhaviz.record(net, examples="all") as recording, torch.no_grad():
        net(image)
    numbers = net.moved
    maps = [one for m in recording.attention.maps for one in (m.windows or (m,))]
    found = []
    for m, x in zip(maps, numbers, strict=True):
        known = {place: (grid, i) for grid in m.columns.tokens.images for i, place in enumerate(grid.places)}
        for place, row in enumerate(x):
            code = round(float(row[0])) - 1 if bool((row - row[0].round()).abs().max() < 1e-3) else -1
            if place in known:
                grid, i = known[place]
                assert grid.shape == (ROWS, COLUMNS)
                found.append((i, code))
            else:
                found.append((None, code))
            assert m.keys[place] in (NAMES[known[place][1]],) if place in known else m.keys[place] not in NAMES
    return found


MOVES = {
    "flat": lambda x: x.flatten(1, 2),
    "columns first": lambda x: x.transpose(1, 2).flatten(1, 2),
    "rolled": lambda x: x.roll((1, 2), (1, 2)).flatten(1, 2),
    "flipped": lambda x: x.flip(2).flatten(1, 2),
    "windows": lambda x: x.view(1, 2, 2, 3, 2, FEATURES).transpose(2, 3).reshape(6, 4, FEATURES),
    "shifted windows": lambda x: (
        x.roll((-1, -1), (1, 2)).view(1, 2, 2, 3, 2, FEATURES).transpose(2, 3).reshape(6, 4, FEATURES)
    ),
    "shuffled": lambda x: x.flatten(1, 2)[:, torch.randperm(24, generator=torch.Generator().manual_seed(0))],
    "masked out": lambda x: x.flatten(1, 2)[:, torch.arange(24) % 3 > 0],
    "gathered": lambda x: x.flatten(1, 2).gather(1, torch.arange(23, -1, -2)[None, :, None].expand(1, 12, FEATURES)),
    "with a class token": lambda x: torch.cat([torch.zeros(1, 1, FEATURES), x.flatten(1, 2)], 1),
    "between words": lambda x: torch.zeros(1, 30, FEATURES).masked_scatter(
        ((torch.arange(30) > 2) & (torch.arange(30) < 27))[None, :, None].expand(1, 30, FEATURES), x
    ),
    "put by a mask": lambda x: put(x, lambda text, y: text.__setitem__((0, torch.arange(30) > 5), y)),
    "put by an index": lambda x: put(x, lambda text, y: text.index_copy_(1, torch.arange(24) + 3, y[None])),
    "copied into a slice": lambda x: put(x, lambda text, y: text[0, 2:26].copy_(y)),
    "chosen by where": lambda x: torch.where(
        (torch.arange(24) % 2 == 0)[None, :, None], x.flatten(1, 2), torch.zeros(1, 24, FEATURES)
    ),
    "padded and cut": lambda x: F.pad(x, (0, 0, 1, 0, 0, 1))[:, 1:, :-1].flatten(1, 2),
    "split and stacked": lambda x: torch.stack(x.unbind(1)[::-1], 1).flatten(1, 2),
    "upsampled": lambda x: F.interpolate(x.permute(0, 3, 1, 2), scale_factor=1).permute(0, 2, 3, 1).flatten(1, 2),
    "added to": lambda x: (x + torch.zeros(1, ROWS, COLUMNS, FEATURES)).flatten(1, 2),
}


def put(x, write):
    text = torch.zeros(1, 30, FEATURES)
    write(text, x.reshape(24, FEATURES))
    return text


@pytest.mark.parametrize("attend", ["fused", "by hand"])
@pytest.mark.parametrize("name", MOVES)
def test_patches_are_named_wherever_they_are_moved(name, attend):
    found = recorded(MOVES[name], attend)
    assert all(number == code if code >= 0 else number is None for number, code in found), found
    assert any(number is not None for number, _ in found)


MIXES = {
    "frequencies": lambda x: torch.fft.fft2(x.flatten(1, 2)).real,
    "running sums": lambda x: x.flatten(1, 2).cumsum(1),
    "means of all": lambda x: x.flatten(1, 2).mean(1, keepdim=True).expand(1, 24, FEATURES),
    "a mixing matrix": lambda x: torch.randn(24, 24) @ x.flatten(1, 2),
    "sorted": lambda x: x.flatten(1, 2).sort(1, descending=True).values,
    "sums with others": lambda x: x.flatten(1, 2) + x.flip(1).flatten(1, 2),
}


@pytest.mark.parametrize("name", MIXES)
def test_what_is_no_single_patch_is_not_named(name):
    assert all(number is None for number, _ in recorded(MIXES[name]))


def _chain(generator):
    """A random chain of functions that move patches, as text and as a function."""
    steps = {
        "roll": lambda x: x.roll(generator.choice([-1, 1, 2]), generator.choice([1, 2])),
        "flip": lambda x: x.flip(generator.choice([1, 2])),
        "transpose": lambda x: x.transpose(1, 2),
        "reverse": lambda x: x[:, torch.arange(x.shape[1] - 1, -1, -1)],
        "cut": lambda x: x[:, 1:] if x.shape[1] > 2 else x,
        "every other": lambda x: x[:, :, ::2] if x.shape[2] > 3 else x,
        "pad": lambda x: F.pad(x, (0, 0, 1, 1)),
        "cat": lambda x: torch.cat([x[:, :1], x[:, 1:]], 1),
        "join": lambda x: torch.cat([x[..., 1:, :], x[..., :1, :]], 2),
        "fold": lambda x: x.flatten(1, 2).unflatten(1, (x.shape[2], x.shape[1])),
        "index_select": lambda x: x.index_select(2, torch.randperm(x.shape[2])),
        "gather": lambda x: x.gather(1, torch.randperm(x.shape[1]).view(1, -1, 1, 1).expand(x.shape)),
        "scale": lambda x: x * 1.0,
        "split": lambda x: torch.cat(x.split(1, 1)[::-1], 1),
        "movedim": lambda x: x.movedim(2, 1),
        "squeeze": lambda x: x[:, None].squeeze(1),
        "contiguous": lambda x: x.contiguous().view(x.shape),
    }
    names = [generator.choice(sorted(steps)) for _ in range(generator.randint(1, 7))]

    def move(x):
        for name in names:
            x = steps[name](x)
        return x.flatten(1, 2)

    return " ".join(names), move


@pytest.mark.parametrize("seed", range(60))
def test_random_chains_are_never_named_wrong(seed):
    torch.manual_seed(seed)
    names, move = _chain(random.Random(seed))
    found = recorded(move)
    wrong = [(number, code) for number, code in found if number is not None and number != code]
    assert not wrong, names
    assert [number for number, code in found if code >= 0] == [code for _, code in found if code >= 0], names


WRITES = {
    "copied over": lambda y: y[:, :5].copy_(torch.full((1, 5, FEATURES), 0.5)),
    "zeroed through a view that was made before": lambda y: y.chunk(2, 1)[0].zero_(),
    "random": lambda y: y[:, 3:].uniform_(),
    "a number": lambda y: y.__setitem__((slice(None), slice(0, 4)), 0.5),
    "written out": lambda y: torch.add(torch.full_like(y, 0.5), 0, out=y),
    "by strides": lambda y: torch.as_strided(y, (1, 4, FEATURES), y.stride()).copy_(torch.full((1, 4, FEATURES), 0.5)),
    "other data": lambda y: Tensor.data.__set__(y, y.flip(1).clone()),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_over_patches_is_not_named(name):
    def move(x):
        y = x.flatten(1, 2).clone()
        WRITES[name](y)
        return y

    assert all(number in (None, code) for number, code in recorded(move))


def test_a_program_gets_its_own_results():
    indices, out = torch.arange(23, -1, -1), []

    def move(x):
        y = (x.flatten(1, 2) * 100).int()
        out.append(torch.empty(1, 24, FEATURES, dtype=torch.int32))
        torch.index_select(y, 1, indices, out=out[-1])
        return x.flatten(1, 2)

    net = Numbered(move)
    net(IMAGE)
    with mhaviz.record(net):
        net(IMAGE)
    assert torch.equal(*out)


def test_words_of_a_decoder_are_no_patches():
    """As many as there are patches, which they read in each layer."""
    layers, words = (
        nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 8, 0.0, batch_first=True), 2),
        torch.randn(1, 16, 8),
    )

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.layers = nn.Conv2d(3, 8, 4, 4), layers

        def forward(self, image, text):
            return self.layers(text, self.patches(image).flatten(2).mT)

    with mhaviz.record(net := Reads()) as recording, torch.no_grad():
        net(torch.randn(1, 3, 16, 16), words)
    assert not any(m.rows.tokens.images for m in recording.attention)
    assert [m.columns.tokens.grid for m in recording.attention if m.columns.tokens.images] == [(4, 4)] * 2


def test_two_images_of_a_pass_are_two():
    class Twins(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.attend = nn.Conv2d(3, 8, 4, 4), nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, one, other):
            for image in (one, other):
                x = self.patches(image).flatten(2).mT
                self.attend(x, x, x)

    with mhaviz.record(net := Twins(), passes="0-") as recording, torch.no_grad():
        net(torch.zeros(1, 3, 16, 16), torch.ones(1, 3, 16, 16))
    seen = [m.columns.tokens.images[0] for m in recording.attention]
    assert [(grid.image, float(grid.seen.mean())) for grid in seen] == [(0, 0.0), (1, 1.0)]


def test_gated_residuals_do_not_add_up():
    """Each block adds what was pooled from all patches, as a squeeze and an excitation do."""
    convolution = nn.Conv2d(3, FEATURES, 1)

    def move(x):
        for _ in range(24):
            x = x + x * x.mean((1, 2), keepdim=True).sigmoid()
        return x.flatten(1, 2)

    net = Numbered(move)
    with mhaviz.record(net) as recording, torch.no_grad():
        net(IMAGE)
    assert convolution is not None
    assert recording.attention.maps[0].columns.tokens.grid == (ROWS, COLUMNS)


def test_a_block_of_padding_is_no_patch():
    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 8, 4, 4, padding=4)

        def forward(self, image):
            x = self.patches(image).flatten(2).mT[:, None]
            return F.scaled_dot_product_attention(x, x, x)

    with mhaviz.record(net := Padded()) as recording, torch.no_grad():
        net(torch.randn(1, 3, 16, 16))
    (m,) = recording.attention
    assert [m.keys[place] for place in (0, 7, 8, 13, 28)] == ["0", "0,0", "0,1", "1,0", "3,3"]


NO_IMAGES = {
    "points": (torch.randn(16, 64, 3), lambda x, p: p["read"](x)),
    "a series": (torch.randn(8, 96, 3), lambda x, p: p["read"](x)),
    "three heads": (torch.randn(1, 3, 20, 8), lambda x, p: x[0]),
    "text by a convolution": (torch.randint(20, (1, 12)), lambda x, p: p["grams"](p["words"](x)[:, None])[..., 0].mT),
    "text as a map": (
        torch.randint(20, (1, 64)),
        lambda x, p: p["merge"](p["words"](x).mT.unflatten(2, (8, 8))).flatten(2).mT,
    ),
    "joints in time": (torch.randn(1, 3, 10, 17), lambda x, p: p["pixels"](x).flatten(2).mT),
    "a recording": (torch.randn(1, 1, 20, 50), lambda x, p: p["signal"](x).flatten(2).mT),
}


@pytest.mark.parametrize("name", NO_IMAGES)
def test_what_is_no_image_has_no_patches(name):
    x, tokens = NO_IMAGES[name]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleDict(
                {
                    "read": nn.Linear(3, 8),
                    "words": nn.Embedding(20, 8),
                    "grams": nn.Conv2d(1, 8, (3, 8)),
                    "merge": nn.Conv2d(8, 8, 2, 2),
                    "pixels": nn.Conv2d(3, 8, 1),
                    "signal": nn.Conv2d(1, 8, (1, 5), (1, 5)),
                }
            )

        def forward(self, x):
            x = tokens(x, self.parts)
            x = x[:, None] if x.ndim == 3 else x
            return F.scaled_dot_product_attention(x, x, x)

    with mhaviz.record(net := Net()) as recording, torch.no_grad():
        net(x)
    assert not any(m.columns.tokens.images for m in recording.attention)


class Denoiser(nn.Module):
    """A small U-Net on latents, told a time: words are looked at in two resolutions, column by column."""

    def __init__(self):
        super().__init__()
        self.read, self.write = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(16, 4, 3, padding=1)
        self.shrink, self.time = nn.Conv2d(8, 8, 3, 2, 1), nn.Linear(2, 8)

    def look(self, x, words):
        queries = x.mT.flatten(2).mT  # batch_size width·height features
        seen = F.scaled_dot_product_attention(queries, words, words)
        return x + seen.mT.unflatten(2, (x.shape[3], x.shape[2])).mT

    def forward(self, x, time, words):
        angles = torch.stack([torch.sin(time), torch.cos(time)], -1).expand(len(x), 2)
        x = self.read(x) + self.time(angles)[:, :, None, None]
        x = self.look(x, words)
        low = self.look(self.shrink(x) + self.time(angles)[:, :, None, None], words)
        return self.write(torch.cat([x, F.interpolate(low, scale_factor=2.0)], 1))


STEPS = {
    "the latents less a part": lambda latents, with_words, _: latents - 0.1 * with_words,
    "guided": lambda latents, with_words, without: latents - 0.1 * (without + 5 * (with_words - without)),
    "with noise": lambda latents, with_words, _: 0.9 * latents - 0.1 * with_words + torch.randn_like(latents),
    "as DDIM": lambda latents, with_words, _: 0.8 * ((latents - 0.6 * with_words) / 0.8).clamp(-1, 1) + with_words / 2,
}


@pytest.mark.parametrize(("step", "batch_size"), [(step, 1 + (step == "guided")) for step in STEPS])
def test_an_image_that_is_made_in_steps_keeps_its_places(step, batch_size):
    """As by a diffusion model with classifier-free guidance: both halves of a batch are of the same latents."""
    torch.manual_seed(0)
    net, words, latents = Denoiser(), torch.randn(2 * batch_size, 5, 8), torch.randn(batch_size, 4, 4, 6)
    with mhaviz.record(net, passes="0-", examples="all") as recording, torch.no_grad():
        for time in (1.0, 0.5):
            without, with_words = net(torch.cat([latents, latents]), torch.tensor(time), words).chunk(2)
            latents = STEPS[step](latents, with_words, without)
    maps = recording.attention.maps
    assert len(maps) == 2 * 2 * 2 * batch_size
    for m in maps:
        height, width = (4, 6) if m.layer == 0 else (2, 3)
        assert m.queries == tuple(f"{row},{column}" for column in range(width) for row in range(height))
        assert [image.image for image in m.rows.tokens.images] == [m.sentence % batch_size]


def test_a_mirror_image_is_another_image():
    """Though it is made of the same numbers as the image."""
    latents = torch.randn(1, 4, 4, 6)
    with mhaviz.record(net := Denoiser(), examples="all") as recording, torch.no_grad():
        net(torch.cat([latents, latents.flip(3)]), torch.tensor(1.0), torch.randn(2, 5, 8))
    assert [m.rows.tokens.images[0].image for m in recording.attention if m.layer == 0] == [0, 1]

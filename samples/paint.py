"""Paints a picture from noise by words, as a diffusion model does, with weights that are set, not learnt.

Each word has a colour and a place. What a pixel is expected to have been before noise was added to it is the mean of
the colours, weighed by how likely it shows each word, p(word | pixel) ∝ p(pixel | word) p(word). With Gaussian noise
this is cross-attention: pixels are queries, words are keys and values. See which pixels look at the sun:

    mhaviz record --passes 0- --image - --key 1 --mean heads,layers,passes --size 1024 samples/paint.py
"""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

SIDE, STEPS = 32, 8
WORDS = ("sky", "sun", "hills", "house")
COLOURS = torch.tensor([[-0.1, 0.3, 0.9, 1], [1, 0.8, 0.2, 0.9], [-0.4, 0.4, -0.5, -0.2], [0.6, -0.4, -0.6, -0.6]])
"""Red, green, blue and depth of each word, from −1 to 1."""

PLACES = torch.tensor(
    [[0, 0, 0, 0, 0], [-118.2, 88, 300, -200, -200], [-24.8, 40, 0, 0, 0], [-93.9, 256, 120, -200, -200]]
)
"""Log p(word) at a place, up to a constant: coefficients of 1, y, x, y² and x², from the top left. Sun and house are
round, and hills lie below."""


class CrossAttention(nn.Module):
    """Looks at the words from each pixel of latents, (batch_size, 4, height, width), under noise of this variance."""

    def forward(self, latents, words, signal, variance):
        height, width = latents.shape[2:]
        y, x = torch.meshgrid(*(torch.arange(n) / n for n in (height, width)), indexing="ij")
        places = torch.stack([torch.ones_like(y), y, x, y**2, x**2]).expand(len(latents), 5, height, width)
        power = torch.full_like(latents[:, :1], signal**2 / variance)
        queries = torch.cat([signal / variance * latents, power, places], dim=1).flatten(2).mT[:, None]
        # batch_size, one head, n_pixels, channels
        found = F.scaled_dot_product_attention(queries, words, words[..., :4], scale=1.0)
        return found[:, 0].mT.unflatten(2, (height, width))


class UNet(nn.Module):
    """Estimates latents before noise, (batch_size, 4, height, width), from means over few neighbours and over more."""

    def __init__(self):
        super().__init__()
        powers = -(COLOURS**2).sum(1, keepdim=True) / 2  # −‖x − a μ‖² / 2 σ² = a x·μ / σ² − a² ‖μ‖² / 2 σ² + …
        self.words = nn.Embedding.from_pretrained(torch.cat([COLOURS, powers, PLACES], dim=1))
        self.down, self.up = nn.Module(), nn.Module()
        self.down.attn2, self.up.attn2 = CrossAttention(), CrossAttention()

    def forward(self, latents, ids, signal, noise):
        words = self.words(ids)[:, None]  # batch_size, one head, n_words, features
        line = torch.tensor([1.0, 2.0, 1.0]) / 4
        few = F.conv2d(latents, torch.einsum("io,y,x->ioyx", torch.eye(4), line, line), padding=1)
        of_few = self.up.attn2(few, words, signal, (noise * 3 / 8) ** 2)  # Σ line² of its variance is left, twice
        of_more = self.down.attn2(F.avg_pool2d(few, 2), words, signal, (noise * 5 / 16) ** 2)  # of 1, 3, 3, 1
        return (of_few + F.interpolate(of_more, scale_factor=2.0)) / 2


def paint(unet, words, steps=STEPS):
    """Return a picture of words, uint8, (SIDE, SIDE, 3), from noise that becomes less in each step.

    The steps are those of DDIM (Song et al. 2021, arXiv 2010.02502, equation 12, σ = 0).
    """
    latents = torch.randn(1, 4, SIDE, SIDE)
    signals = torch.linspace(0.05, 1, steps + 1).tolist()
    ids = torch.tensor([[WORDS.index(word) for word in words]])
    for signal, after in pairwise(signals):
        noise = (1 - signal**2) ** 0.5
        clean = unet(latents, ids, signal, noise)
        latents = after * clean + (1 - after**2) ** 0.5 / noise * (latents - signal * clean)
    return ((latents[0, :3] / 2 + 0.5).clamp(0, 1) * 255).byte().permute(1, 2, 0).numpy()


if __name__ == "__main__":
    torch.manual_seed(0)
    paint(UNet(), WORDS)

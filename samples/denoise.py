"""Takes noise from a picture: each patch becomes a mean of patches like it, weighed by a softmax.

These are the non-local means of Buades, Coll and Morel (2005, doi:10.1109/CVPR.2005.38), whose weights are attention:
|q − k|² = |q|² − 2 q·k + |k|², where |q|² is the same for all keys. See what a patch of the sun looks at:

    mhaviz record --image - --query 2,10 samples/denoise.py
"""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

SIDE, PATCH, NOISE = 112, 8, 0.06


def picture():
    """Return a sun over hills, and a house, with noise, (1, 3, SIDE, SIDE)."""
    y, x = torch.meshgrid(torch.arange(SIDE) / SIDE, torch.arange(SIDE) / SIDE, indexing="ij")
    image = torch.tensor([0.45, 0.62, 0.92])[:, None, None] + 0.25 * y
    for inside, colour in (
        ((x - 0.76) ** 2 + (y - 0.2) ** 2 < 0.011, (0.99, 0.93, 0.67)),
        (y > 0.55 + 0.06 * torch.sin(9 * x), (0.34, 0.5, 0.42)),
        (y > 0.72 - 0.05 * torch.sin(5 * x + 1), (0.33, 0.52, 0.2)),
        ((x > 0.2) & (x < 0.43) & (y > 0.5) & (y < 0.78), (0.77, 0.3, 0.22)),
        ((x > 0.27) & (x < 0.36) & (y > 0.58) & (y < 0.68), (0.98, 0.88, 0.6)),
    ):
        image = torch.where(inside, torch.tensor(colour)[:, None, None], image)
    return (image + NOISE * torch.randn(3, SIDE, SIDE)).clamp(0, 1)[None]


class NonLocalMeans(nn.Module):
    """Replaces each patch by the mean of all patches, weighed by how alike they are."""

    def forward(self, image):
        patches = F.unfold(image, PATCH, stride=PATCH).mT[:, None]  # batch_size, one head, n_patches, features
        width = 4 * NOISE**2 * patches.shape[-1]
        likeness = -(patches**2).sum(-1)[..., None, :] / width
        means = F.scaled_dot_product_attention(patches, patches, patches, likeness, scale=2 / width)
        return F.fold(means[:, 0].mT, image.shape[2:], PATCH, stride=PATCH)


torch.manual_seed(0)
NonLocalMeans()(picture())

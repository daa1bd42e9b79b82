"""Train a small classifier of images, and save it as a checkpoint with a photo: python samples/signs.py FOLDER

In half a minute a vision transformer learns which small sign is on a wall of many colours: a circle, a cross, a square
or none. All that tells is within one of its 8 × 8 patches.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import transformers as hf
from PIL import Image, ImageDraw
from torch import Tensor

LABELS = ("circle", "cross", "square", "nothing")
SIDE, PATCH, SIGN = 64, 8, 6
STEPS, BATCH_SIZE, RATE = 700, 32, 3e-3
PHOTO_SEED, PHOTO_SIDE = 0, 512


def sign(label: str) -> Tensor:
    """The pixels of a sign: bool, (SIGN, SIGN)."""
    image, ends = Image.new("1", (SIGN, SIGN)), (0, 0, SIGN - 1, SIGN - 1)
    draw = ImageDraw.Draw(image)
    if label == "circle":
        draw.ellipse(ends, outline=1)
    elif label == "cross":
        draw.line(ends, fill=1)
        draw.line((0, SIGN - 1, SIGN - 1, 0), fill=1)
    elif label == "square":
        draw.rectangle(ends, outline=1)
    return torch.from_numpy(np.array(image))


def walls(random: torch.Generator, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Walls with a sign, (count, 3, SIDE, SIDE) from 0 to 1, the index of each label, and the row and column of the
    patch that it is in, (count, 2)."""
    colours = torch.rand(count, 3, 4, 4, generator=random)
    images = 0.15 + 0.5 * torch.nn.functional.interpolate(colours, size=(SIDE, SIDE), mode="bilinear")
    images += 0.03 * torch.randn(images.shape, generator=random)
    labels = torch.randint(len(LABELS), (count,), generator=random)
    patches = torch.randint(SIDE // PATCH, (count, 2), generator=random)
    corners = patches * PATCH + torch.randint(PATCH - SIGN + 1, (count, 2), generator=random)
    chalk = 0.9 + 0.1 * torch.rand(count, 3, 1, generator=random)
    for image, label, (y, x), colour in zip(images, labels.tolist(), corners.tolist(), chalk, strict=True):
        image[:, y : y + SIGN, x : x + SIGN][:, sign(LABELS[label])] = colour
    return images.clamp(0, 1), labels, patches


def train(seed: int = 0) -> hf.ViTForImageClassification:
    """The model, trained."""
    config = hf.ViTConfig(
        image_size=SIDE,
        patch_size=PATCH,
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=96,
        id2label=dict(enumerate(LABELS)),
        label2id={label: i for i, label in enumerate(LABELS)},
    )
    random = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = hf.ViTForImageClassification(config).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS)
        for _ in range(STEPS):
            images, labels, _ = walls(random, BATCH_SIZE)
            optimizer.zero_grad()
            model(pixel_values=2 * images - 1, labels=labels).loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def photo(seed: int = PHOTO_SEED) -> Image.Image:
    """A wall as a photo of PHOTO_SIDE pixels a side."""
    (image,), _, _ = walls(torch.Generator().manual_seed(seed), 1)
    pixels = (255 * image.permute(1, 2, 0)).round().to(torch.uint8).numpy()
    return Image.fromarray(pixels).resize((PHOTO_SIDE, PHOTO_SIDE), Image.Resampling.NEAREST)


def save_classifier(folder: Path) -> None:
    """Train the model, and save it with its image processor and a photo, wall.png."""
    train().save_pretrained(folder)
    hf.ViTImageProcessor(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    photo().save(folder / "wall.png")


if __name__ == "__main__":
    hf.utils.logging.disable_progress_bar()
    save_classifier(Path(sys.argv[1]))

"""Relevance of the patches of an image for a prediction, beside what removing a patch does to it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from mhaviz.inputs.tokens import Tokens
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.image import ImageAttention
from mhaviz.results.quantity import RELEVANCE
from mhaviz.results.relevance import Relevance, WordRelevance
from mhaviz.results.result import Source

Blank = Literal["processor", "image"]
"""Colour of a patch that is removed: the mean colour of the image processor, which it makes 0, or that of the image."""

PATCH_RELEVANCE = replace(RELEVANCE, key="patch_relevance", name="relevance", is_signed=False, of_all_heads=True)
"""Relevance of each key for a prediction, summed over its queries and all layers: at least 0, in no unit."""


@dataclass(frozen=True, kw_only=True)
class ImageRelevance(Relevance):
    """What the patches of an image have to do with the label that a classifier predicts; see ``Relevance``.

    Attributes:
        text: the tokens that the model makes of the image: patches, and special tokens such as a class token.
        over: relevance of the patches over the photo, as of one head.
        blank: what the pixels of a removed patch are set to.
    """

    over: ImageAttention
    blank: Blank

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; excludes the pixels.

        "grid" is the number of rows and columns of "patches"; "box", the part of the image that they cover: top, left,
        bottom and right, as fractions of its height and width.
        """
        (view,) = self.over.maps[0].views
        found = super().to_dict()
        tokens = found.pop("text")["words"]
        special = [token for token in tokens if token["aside"]]
        image = self.over.to_dict()["image"]
        return found | {
            "image": image,
            "grid": view.grid,
            "box": view.box,
            "removed_is": self.blank,
            "patches": [*self.rows()],
            "special": [{"token": token["word"], "relevance": token["relevance"]} for token in special],
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the patches as rows of a table; see ``RowsResult``."""
        side, (grid,) = self.text, self.text.words.images
        for i, place in enumerate(grid.places):
            row, column = divmod(i, grid.columns)
            numbers = {"relevance": float(side.relevance[place]), "fall": float(side.falls[place])}
            yield {"row": row, "column": column, **numbers, "without": side.without[place]}


def relevance_over(source: Source, side: WordRelevance, photo: object) -> ImageAttention:
    """Return the relevance of patches over a photo, as the attention of one head from what is explained.

    Args:
        source: the model.
        side: the tokens of the image, with their patches.
        photo: a path, a PIL image, or a uint8 array.

    Raises:
        MhavizError: the photo cannot be read.
    """
    shares = side.relevance / (side.relevance.sum() or 1.0)
    weights = shares.astype(np.float32)[None, None]
    rows, columns = Axis(Tokens(("y",))), Axis(replace(side.words, ranges=()))
    m = AttentionMap(weights, rows, columns, "cross", layer=None, heads=(0,), quantity=PATCH_RELEVANCE)
    return Attention(source, (m,)).over_image(photo, 0)

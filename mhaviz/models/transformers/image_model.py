"""A checkpoint of transformers that reads images, and no text alone, as a ``Model``."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from mhaviz.attention.model import Inputs, Model, OnAttention, Site
from mhaviz.errors import ArgumentError, is_accepted, parameter
from mhaviz.inputs.given import Given
from mhaviz.models.transformers.folder import has_image_processor, without_processor
from mhaviz.models.transformers.load import Loaded
from mhaviz.results.embeddings import EmbeddedText
from mhaviz.results.result import Source
from mhaviz.results.trace import VALUES_UP_TO, ShapeTrace


@dataclass(frozen=True, kw_only=True)
class ImageModel(Model):
    """A model that reads images, and no text alone. Its attention is recorded while it runs; see ``ImageReader``.

    Attributes:
        loaded: the model; with a tokenizer it may read a text beside an image.

    Raises:
        ArgumentError: by each method that would read a text, or an attention that is not known before the model runs.
    """

    loaded: Loaded

    reads_text = False

    @property
    def all_sites(self) -> tuple[Site, ...]:
        """See ``Model.all_sites``. Raises ArgumentError, as they are known once the model runs."""
        raise self._no_text()

    @property
    def lacks_labels(self) -> bool:  # type: ignore[override]
        """See ``Model``."""
        return self.loaded.lacks_labels

    @property
    def is_classifier(self) -> bool:  # type: ignore[override]
        """See ``Model``."""
        return self.loaded.is_classifier

    @cached_property
    def device(self) -> torch.device:
        """Device of the model."""
        return self.loaded.device

    def encode(self, sentences: Sequence[str], target: str | None = None) -> Inputs:
        """See ``Model.encode``. Raises ArgumentError."""
        raise self._no_text()

    def read(self, given: Given) -> Inputs:
        """See ``Model.read``. Raises ArgumentError."""
        raise self._no_text()

    def embed_given(self, given: Given) -> EmbeddedText:
        """See ``Model.embed_given``. Raises ArgumentError."""
        raise self._no_text()

    def run(
        self, inputs: Inputs, on_attention: OnAttention, heads: Sequence[int] | None = None, batched: bool = False
    ) -> None:
        """See ``Model.run``. Raises ArgumentError."""
        raise self._no_text()

    def trace(self, inputs: Inputs, values: bool = False, most_values: int = VALUES_UP_TO) -> ShapeTrace:
        """See ``Model.trace``. Raises ArgumentError."""
        raise self._no_text()

    def describe(self, inputs: Inputs | None = None) -> Source:
        """See ``Model.describe``."""
        name, kind = self.loaded.name, type(self.loaded.model).__name__
        return Source(f"{name}: {kind}, {self.loaded.where}", {"kind": "checkpoint", "model": name, "class": kind})

    def _no_text(self) -> ArgumentError:
        """Return the error for anything but attention over an image."""
        loaded = self.loaded
        if loaded.folder is not None and not has_image_processor(loaded.folder):
            return without_processor(loaded.name, loaded.folder)
        if not is_accepted("image"):
            advice = "mhaviz heatmap --image photo.png draws its attention"
        elif (image := parameter("image")).startswith("-"):
            advice = f"add {image} photo.png"
        else:
            advice = 'give one: attend(image="photo.png")'
        alone = "" if loaded.reads_images_alone else " alone"
        return ArgumentError(f"{loaded.name} reads images, and no text{alone}; {advice}")

"""Reading of images for a transformers model, by the processor in its folder, and running of the model on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor
from transformers import AutoImageProcessor, AutoProcessor

from mhaviz.errors import ArgumentError, MhavizError, ProgramError, as_one_line, counted, parameter, quoted
from mhaviz.inputs.patches import Box
from mhaviz.inputs.tokens import Tokens
from mhaviz.models.transformers.confinement import confined
from mhaviz.models.transformers.folder import has_image_processor, image_program, without_processor
from mhaviz.models.transformers.load import Loaded
from mhaviz.models.transformers.photo_crop import shown_parts
from mhaviz.models.transformers.read import encodable, name_tokens
from mhaviz.models.transformers.run import field_of, graph_from
from mhaviz.models.transformers.silence import silence

_FROM_FILES: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}

PIXELS = "pixel_values"
"""Name of the pixels among a model's inputs."""

_MOST_PIXELS = 2**14
"""Most pixels of a side that a processor may ask for; some give the number of all pixels in its place."""


@dataclass(frozen=True)
class SeenImages:
    """What a model reads of images, and of a text beside them.

    Attributes:
        fields: inputs of the model, by transformers' names.
        tokens: tokens of the text, with those that stand for images; None: it reads images alone.
        parts: for each image, the part that each view of it shows; see ``shown_parts``.
    """

    fields: Mapping[str, Tensor]
    tokens: Tokens | None
    parts: tuple[tuple[Box | None, ...], ...]


@dataclass(frozen=True)
class ImageReader:
    """Image processor of a folder, beside its model.

    Attributes:
        loaded: the model. Without a tokenizer it reads images alone.

    Raises:
        ArgumentError: the model is in memory, and has no folder.
        ProgramError: the folder has no image processor.
    """

    loaded: Loaded

    def __post_init__(self) -> None:
        if self.loaded.folder is None:
            raise ArgumentError(
                f"{parameter('image')} needs the image processor of a folder, got a model in memory; run it within "
                f"mhaviz.record, and draw the recording's attention.over_image"
            )
        if not has_image_processor(self.loaded.folder):
            raise without_processor(self.loaded.name, self.loaded.folder)

    @property
    def _folder(self) -> Path:
        assert self.loaded.folder is not None
        return self.loaded.folder

    def read(self, photos: Sequence[Image], text: str | None = None) -> SeenImages:
        """Return what the model reads of images, and of a text beside them.

        Raises:
            ArgumentError: several images, for a model that reads one; a text, for one that reads none.
            MhavizError: a processor that cannot be loaded, or does not take these images.
            ProgramError: the folder has no processor of a text and images together.
        """
        if text is not None:
            return self._read_with(photos, text)
        fields = self._processed(lambda: self._of_images(images=list(photos), return_tensors="pt"))
        if len(photos) > 1 and len(fields.get(PIXELS, ())) > 1:
            raise ArgumentError(
                f"{parameter('image')}: expected one image, got {len(photos)}; {self.loaded.name} reads each alone"
            )
        return SeenImages(fields, None, self._parts(photos, self._of_images))

    def run(self, seen: SeenImages, with_graph: bool = False) -> Any:
        """Run one forward pass, and return its output; without a text, of the part of the model that reads images.

        ``with_graph``: whether autograd records the pass, from the pixels on.

        Raises:
            MhavizError: the model cannot be run.
        """
        part = self._of_pixels if seen.tokens is None else self.loaded.model
        named = signature(getattr(part, "forward", part)).parameters
        dtype, device = self.loaded.model.dtype, self.loaded.device
        fields = {
            name: x.to(device, dtype if x.is_floating_point() else None)
            for name, x in seen.fields.items()
            if name in named
        }
        cache = {"use_cache": False} if "use_cache" in named and field_of(self.loaded.model.config, "use_cache") else {}
        if with_graph:
            fields = {name: x.clone().requires_grad_(x.is_floating_point()) for name, x in fields.items()}
        graph = graph_from(self.loaded.model, lambda x: False) if with_graph else torch.no_grad()
        with graph, self.loaded.running(on_images=True):
            return part(**fields, **cache)

    @property
    def has_mean_colour(self) -> bool:
        """Whether the processor makes a mean colour that it knows 0."""
        processor = self._of_images
        return bool(getattr(processor, "do_normalize", False)) and getattr(processor, "image_mean", None) is not None

    @property
    def _of_pixels(self) -> Callable[..., Any]:
        """The part of the model that reads images. Raises MhavizError if it is not known."""
        model: Any = self.loaded.model
        if type(model).main_input_name == PIXELS:
            has_decoder = "decoder_input_ids" in signature(model.forward).parameters
            part: Callable[..., Any] = model.get_encoder() if has_decoder else model
            return part
        if not hasattr(model, "get_image_features"):
            raise ArgumentError(f"{self.loaded.name} ({self.loaded.type}) reads an image beside a text; add a text")
        features: Callable[..., Any] = model.get_image_features
        return features

    def _read_with(self, photos: Sequence[Image], text: str) -> SeenImages:
        if self.loaded.reads_images_alone:
            raise ArgumentError(f"{self.loaded.name} reads images, and no text; leave out {quoted(text)}")
        program = image_program(self.loaded.name, self._folder, text=text)
        processor = self._loaded(AutoProcessor, program)
        if not hasattr(processor, "image_processor") or not hasattr(processor, "tokenizer"):
            raise ProgramError(
                f"{self.loaded.name} has no processor of a text and images together ({type(processor).__name__}); "
                f"save such lines as look.py, and run mhaviz record --image photo.png look.py:",
                program,
            )
        prompt = encodable(processor.tokenizer, self._prompt(processor, len(photos), text))
        fields = self._processed(lambda: processor(images=list(photos), text=[prompt], return_tensors="pt"))
        ids = fields.get("input_ids")
        if ids is None or PIXELS not in fields:
            raise MhavizError(f"{self.loaded.name}: expected {PIXELS} and input_ids of its processor, got {[*fields]}")
        tokens = name_tokens(self.loaded.tokenizer, ids[0].tolist())
        return SeenImages(fields, tokens, self._parts(photos, processor.image_processor))

    def _prompt(self, processor: Any, n_images: int, text: str) -> str:
        """Return the text with what stands for the images, by the chat template if there is one."""
        if getattr(processor, "chat_template", None):
            content = [*[{"type": "image"}] * n_images, {"type": "text", "text": text}]
            messages = [{"role": "user", "content": content}]
            prompt: str = confined(
                lambda: processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True),
                f"the chat template of {self.loaded.name}",
                "give a shorter text, or take another copy of its files",
            )
            return prompt
        token = getattr(processor, "image_token", None)
        return text if not isinstance(token, str) or token in text else f"{token * n_images}\n{text}"

    @cached_property
    def _of_images(self) -> Any:
        """The image processor."""
        return self._loaded(AutoImageProcessor, image_program(self.loaded.name, self._folder))

    def _loaded(self, kind: Any, program: str) -> Any:
        """Return a processor from the folder. Raises ProgramError if it cannot be loaded."""
        try:
            with silence(1, 2), as_one_line(f"{self.loaded.name}: its image processor cannot be loaded"):
                processor = kind.from_pretrained(self._folder, **_FROM_FILES)
                _require_size(getattr(processor, "image_processor", processor), self.loaded.name)
                return processor
        except MhavizError as error:
            advice = "save such lines as look.py, and run mhaviz record --image photo.png look.py:"
            raise ProgramError(f"{error}; {advice}", program) from error

    def _processed(self, process: Callable[[], Any]) -> dict[str, Tensor]:
        with silence(2), as_one_line(f"{self.loaded.name}: its processor does not take this"):
            return {name: x for name, x in process().items() if isinstance(x, Tensor)}

    def _parts(self, photos: Sequence[Image], processor: Any) -> tuple[tuple[Box | None, ...], ...]:
        """Return the part that each view of each image shows."""
        sizes = {photo.size for photo in photos}

        def pixels(image: Image) -> Any:
            return processor(images=[image], return_tensors="np")[PIXELS]

        with silence(2), as_one_line(f"{self.loaded.name}: its processor does not take this"):
            known = {size: shown_parts(pixels, *size) for size in sizes}
        return tuple(known[photo.size] for photo in photos)


def _require_size(processor: Any, name: str) -> None:
    """Raise MhavizError if a processor asks for images that are too large for any memory."""
    fields = processor.to_dict() if hasattr(processor, "to_dict") else {}
    sizes = [size for field in ("size", "crop_size", "pad_size") if isinstance(size := fields.get(field), Mapping)]
    found = [value for size in sizes for value in size.values()]
    if largest := [value for value in found if isinstance(value, int | float) and value > _MOST_PIXELS**2]:
        raise MhavizError(
            f"{name}: expected images of at most {counted(_MOST_PIXELS)} pixels a side, got {largest[0]:,}"
        )

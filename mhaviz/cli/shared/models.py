"""Options for which model is looked at, where it runs, and which of its attentions are shown."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.models.load import RANDOM, ModelKind, kind_of
from mhaviz.models.pretrained.folder import is_file
from mhaviz.numbering import parse_number
from mhaviz.processes import this_process

if TYPE_CHECKING:
    from mhaviz.api.loaded import LoadedModel
    from mhaviz.records.given import Given

model_option = partial(typer.Option, rich_help_panel="The model")
weights_option = partial(typer.Option, rich_help_panel="Random weights, or a file of parameters")

AnyKind = Literal["self", "masked", "cross"]

Layers = Annotated[str, typer.Option(help="Layers: 0,3-5 or all.")]
Heads = Annotated[str, typer.Option(help="Heads: 0,3-5 or all.")]
Kind = Annotated[AnyKind | None, model_option(metavar="self|masked|cross", help="This kind of attention alone.")]
Generate = Annotated[
    int, model_option(metavar="N", min=0, help="Let a decoder write so many tokens more, greedily.", show_default=False)
]
Device = Annotated[
    str,
    model_option(metavar="NAME|LIMITS", help="auto, cpu, cuda:1, mps; spread, over all; cpu=2GiB,0=10GiB, at most."),
]
Dtype = Annotated[str | None, model_option(metavar="TYPE", help="auto (as its files), float32, float64, bfloat16, …")]
DModel = Annotated[int | None, weights_option(help="Features of each token. \\[default: 512]")]
NHeads = Annotated[int | None, weights_option(help="Number of heads; it must divide d_model. \\[default: 8]")]
Seed = Annotated[int | None, weights_option(help="Seed of random weights and embeddings. \\[default: 0]")]


@dataclass(frozen=True, eq=False, repr=False)
class ModelOptions:
    """Which model, and where it runs."""

    model: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="random, the default; translation, which is bundled; a file of mhaviz train; a file with parameters, "
            "FILE#NAME if it has several attentions; a folder of transformers, or a hub id, such as gpt2 or "
            "gpt2@REVISION.",
            show_default=False,
        ),
    ] = RANDOM
    device: Device = "auto"
    dtype: Dtype = None

    @cached_property
    def _kind(self) -> ModelKind:
        """Reads a whole file where its suffix does not tell."""
        return kind_of(split_model(self.model)[0])

    @property
    def takes_any_text(self) -> bool:
        """Whether its tokenizer makes tokens of texts without words, too."""
        return self._kind.takes_any_text

    @property
    def has_seed(self) -> bool:
        """Whether something in it is drawn from a seed."""
        return "seed" in self._kind.options

    @property
    def is_random(self) -> bool:
        """Whether no model is named: the layer with random weights."""
        return self.model == RANDOM

    @property
    def has_input(self) -> bool:
        """Whether a file takes the place of sentences."""
        return False

    @property
    def files(self) -> list[Path]:
        """Those that are read: none of them may be written over."""
        return [Path(split_model(self.model)[0])]

    @property
    def options(self) -> dict[str, Any]:
        """More arguments of ``mhaviz.load``."""
        return {}

    def load(self, on_notice: Callable[[str], None], given: "Given", **options: Any) -> "LoadedModel":
        """The model that is to read what is given. Raises as ``mhaviz.load`` does."""
        from mhaviz.api.loaded import load

        name, asked = split_model(self.model)
        shares = not this_process().is_alone and self.takes_any_text
        return load(
            name,
            on_notice=on_notice,
            writes=given.generate > 0,
            dtype=self.dtype,
            tensor_parallel=shares or None,
            **asked,
            **parse_device(self.device),
            **self.options | options,
        )


def split_model(text: str) -> tuple[str, dict[str, Any]]:
    """ "gpt2@main" → "gpt2" of a revision; "w.pt#attn" → "w.pt" of a prefix; a path that is there → itself."""
    for mark, option in (("#", "prefix"), ("@", "revision")):
        name, there, asked = text.rpartition(mark)
        if there and name and not Path(text).exists() and (option == "revision" or is_file(name)):
            return name, {option: asked}
    return text, {}


def parse_device(text: str) -> dict[str, Any]:
    """What ``mhaviz.load`` takes: "cuda:1" → device, "spread" → device_map, "cpu=2GiB" → device_map with max_memory."""
    if text == "spread":
        return {"device_map": "auto"}
    return {"device_map": "auto", "max_memory": text} if "=" in text else {"device": text}


@dataclass(frozen=True, eq=False, repr=False)
class AnyModelOptions(ModelOptions):
    """The same, with the options of models that have no sizes, or no inputs, of their own."""

    n_heads: NHeads = None
    d_model: DModel = None
    seed: Seed = None
    mask: Annotated[
        Literal["none", "causal"] | None,
        weights_option(help="causal: a query sees no later key."),
    ] = None
    input: Annotated[
        str | None,
        weights_option(
            metavar="FILE|FILE#TENSOR",
            help="Input of the attention, (length, d_model), one or several; SENTENCE labels it. With tensors query "
            "and key: source-target attention.",
        ),
    ] = None

    @property
    def has_input(self) -> bool:
        """Whether a file takes the place of sentences."""
        return self.input is not None

    @property
    def files(self) -> list[Path]:
        """Those that are read."""
        return [*super().files, *([self._split_input[0]] if self.input else [])]

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of ``mhaviz.load``."""
        path, name = self._split_input if self.input else (None, None)
        return {
            "d_model": self.d_model,
            "n_heads": self.n_heads,
            "seed": self.seed,
            "causal": None if self.mask is None else self.mask == "causal",
            "input": path,
            "input_name": name,
        }

    @property
    def _split_input(self) -> tuple[Path, str | None]:
        """ "x.npz#query" → x.npz and "query"; a file that is there is none with a tensor."""
        name = self.input or ""
        path, mark, tensor = name.rpartition("#")
        return (Path(path), tensor) if mark and path and not is_file(name) else (Path(name), None)


@dataclass(frozen=True, eq=False, repr=False)
class CheckpointOptions:
    """The checkpoint of transformers, the layers and the kind that are looked at, and where it runs."""

    model: Annotated[
        str, typer.Option(metavar="FOLDER|ID", help="A folder of transformers, or a hub id, such as gpt2@REVISION.")
    ]
    layer: Layers = "all"
    kind: Kind = None
    device: Device = "auto"
    dtype: Dtype = None

    def load(self, delivery: Delivery, predicts: bool = False) -> "LoadedModel":
        """The model, on the device of this process. Raises as ``mhaviz.load`` does."""
        from mhaviz.api.loaded import load

        (name, asked), where = split_model(self.model), parse_device(self.device)
        if "device" in where:
            where["device"] = this_process().device(where["device"])
        loaded = load(name, predicts=predicts, on_notice=delivery.notice, dtype=self.dtype, **asked, **where)
        delivery.tell(loaded.notices)
        return loaded


@dataclass(frozen=True, eq=False, repr=False)
class OneAttention:
    """Which attention is looked into."""

    layer: Annotated[str | None, typer.Option(help="The layer that is looked into. \\[default: the first]")] = None
    kind: Kind = None

    @property
    def chosen(self) -> dict[str, Any]:
        """The arguments of a study. Raises ArgumentError for several layers."""
        layer = None if self.layer is None else parse_number("layer", self.layer, "expected one layer")
        return {"layer": layer, "kind": self.kind}

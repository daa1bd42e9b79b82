"""Options for which model is looked at, where it runs, and which of its attentions are shown."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.parsing import one, parsed, several, wholes
from mhaviz.inputs.given import Given
from mhaviz.models.load import RANDOM, kind_of
from mhaviz.models.transformers.folder import is_file
from mhaviz.processes import this_process

if TYPE_CHECKING:
    from mhaviz.api.loaded import LoadedModel


model_option = partial(typer.Option, rich_help_panel="The model")
array_option = partial(typer.Option, rich_help_panel="Arrays of other tools")
weights_option = partial(typer.Option, rich_help_panel="Random weights, or a file of parameters")


def split_model(text: str) -> tuple[str, dict[str, Any]]:
    """ "gpt2@main" → "gpt2" of a revision; "w.pt#attn" → "w.pt" of a prefix; a path that is there → itself."""
    for mark, option in (("#", "prefix"), ("@", "revision")):
        name, there, part = text.rpartition(mark)
        if there and name and not Path(text).exists() and (option == "revision" or is_file(name)):
            return name, {option: part}
    return text, {}


def parse_device(text: str) -> dict[str, Any]:
    """What ``mhaviz.load`` takes: "cuda:1" → device, "spread" → device_map, "cpu=2GiB" → device_map with max_memory."""
    if text == "spread":
        return {"device_map": "auto"}
    return {"device_map": "auto", "max_memory": text} if "=" in text else {"device": text}


def load_model(text: str, delivery: Delivery, device: str, **options: Any) -> "LoadedModel":
    """The model of this name, on the device of this process. Raises as ``mhaviz.load`` does."""
    from mhaviz.api.loaded import load

    (name, part), where = split_model(text), parse_device(device)
    if "device" in where:
        where["device"] = this_process().device(where["device"])
    with delivery.working(f"loading {name}"):
        return load(name, on_notice=delivery.tell, **part, **where, **options)


def _input(text: str) -> tuple[Path, str | None]:
    """ "x.npz#query" → x.npz and "query"; a file that is there is none with a tensor."""
    path, mark, tensor = text.rpartition("#")
    return (Path(path), tensor) if mark and path and not is_file(text) else (Path(text), None)


AnyKind = Literal["self", "masked", "cross"]

Layers = Annotated[Any, typer.Option(metavar="N,N-N", parser=several("layers"), help="Layers: 0,3-5. \\[default: all]")]
Heads = Annotated[Any, typer.Option(metavar="N,N-N", parser=several("heads"), help="Heads: 0,3-5. \\[default: all]")]
Mean = Annotated[bool, typer.Option("--mean", help="Over the heads of each layer.")]
Kind = Annotated[AnyKind | None, model_option(metavar="self|masked|cross", help="This kind of attention alone.")]
ArrayKind = Annotated[
    AnyKind | None,
    array_option(help="What the array is. \\[default: cross if the labels differ or the map is no square, else self]"),
]
Generate = Annotated[
    int, model_option(metavar="N", min=0, help="Let a decoder write so many tokens more, greedily.", show_default=False)
]
Device = Annotated[
    str,
    model_option(metavar="NAME|LIMITS", help="auto, cpu, cuda:1, mps; spread, over all; cpu=2GiB,0=10GiB, at most."),
]
PlainDevice = Annotated[str, model_option(metavar="NAME", help="auto, cpu, cuda, cuda:1 or mps.")]
Dtype = Annotated[str | None, model_option(metavar="TYPE", help="auto (as its files), float32, float64, bfloat16, …")]
DModel = Annotated[int | None, weights_option(help="Features of each token. \\[default: 512]")]
NHeads = Annotated[int | None, weights_option(help="Number of heads; it must divide d_model. \\[random: 8]")]
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

    @property
    def files(self) -> list[Path]:
        """Those that are read: none of them may be written over."""
        path = self.options.get("input")
        return [Path(split_model(self.model)[0]), *([path] if path else [])]

    @property
    def options(self) -> dict[str, Any]:
        """More arguments of ``mhaviz.load``."""
        return {}

    @property
    def takes(self) -> tuple[str, ...]:
        """What may be asked of a model of its kind."""
        return kind_of(split_model(self.model)[0]).options

    def load(self, delivery: Delivery, given: Given, **options: Any) -> "LoadedModel":
        """The model that is to read what is given. Raises as ``mhaviz.load`` does."""
        shares = not this_process().is_alone and "tensor_parallel" in self.takes
        return load_model(
            self.model,
            delivery,
            self.device,
            dtype=self.dtype,
            predicts=given.generate > 0,
            tensor_parallel=shares or None,
            **self.options | options,
        )


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
        Any,
        weights_option(
            metavar="FILE|FILE#TENSOR",
            parser=_input,
            help="Input of the attention, (length, d_model), one or several; SENTENCE labels it. With tensors query "
            "and key: source-target attention.",
        ),
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of ``mhaviz.load``."""
        path, tensor = self.input or (None, None)
        return {
            "d_model": self.d_model,
            "n_heads": self.n_heads,
            "seed": self.seed,
            "causal": None if self.mask is None else self.mask == "causal",
            "input": path,
            "input_name": tensor,
        }


@dataclass(frozen=True, eq=False, repr=False)
class CheckpointOptions:
    """The checkpoint of transformers, the layers and the kind that are looked at, and where it runs."""

    model: Annotated[
        str, typer.Option(metavar="FOLDER|ID", help="A folder of transformers, or a hub id, such as gpt2@REVISION.")
    ]
    layer: Layers = None
    kind: Kind = None
    device: Device = "auto"
    dtype: Dtype = None

    def load(self, delivery: Delivery, predicts: bool = False) -> "LoadedModel":
        """The model, on the device of this process. Raises as ``mhaviz.load`` does."""
        loaded = load_model(self.model, delivery, self.device, dtype=self.dtype, predicts=predicts)
        delivery.tell(*loaded.notices)
        return loaded


@dataclass(frozen=True, eq=False, repr=False)
class OneAttention:
    """Which attention is looked into."""

    layer: Annotated[
        Any,
        typer.Option(metavar="N", parser=one("layer"), help="The layer that is looked into. \\[default: the first]"),
    ] = None
    kind: Kind = None


Lengths = Annotated[
    Any,
    typer.Option(
        metavar="N,N,…",
        parser=parsed(wholes, "numbers of tokens such as 16,64,256"),
        help="Lengths of the inputs, in tokens.",
    ),
]


@dataclass(frozen=True, eq=False, repr=False)
class LayerOptions:
    """The sizes of the layer."""

    d_model: DModel = None
    n_heads: NHeads = None
    seed: Seed = None


@dataclass(frozen=True, eq=False, repr=False)
class BenchOptions:
    """Where time and memory are measured, and what takes too long."""

    device: PlainDevice = "auto"
    most_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="Skip what would take longer than this, once.")
    ] = 5.0

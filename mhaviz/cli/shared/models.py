"""Options for the model, the device it runs on, and which of its attentions are shown."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.parsing import names, one, parsed, several, wholes
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files.texts import read_json
from mhaviz.inputs.given import Given
from mhaviz.inputs.span_choice import SpanChoice, SpanKind
from mhaviz.models.load import RANDOM, kind_of
from mhaviz.models.transformers.folder import is_file
from mhaviz.processes import this_process

if TYPE_CHECKING:
    from mhaviz.api.loaded import LoadedModel


model_option = partial(typer.Option, rich_help_panel="The model")
array_option = partial(typer.Option, rich_help_panel="Arrays of other tools")
weights_option = partial(typer.Option, rich_help_panel="Random weights, or a file of parameters")


def split_model(text: str) -> tuple[str, dict[str, Any]]:
    """Split a revision or prefix off the name of a model: "gpt2@main", "w.pt#attn". Paths that exist are not split."""
    for mark, option in (("#", "prefix"), ("@", "revision")):
        name, there, part = text.rpartition(mark)
        if there and name and not Path(text).exists() and (option == "revision" or is_file(name)):
            return name, {option: part}
    return text, {}


def parse_device(text: str) -> dict[str, Any]:
    """Return arguments of ``mhaviz.load``: device, or device_map for "spread", with max_memory for "cpu=2GiB"."""
    if text == "spread":
        return {"device_map": "auto"}
    return {"device_map": "auto", "max_memory": text} if "=" in text else {"device": text}


def load_model(text: str, delivery: Delivery, device: str, **options: Any) -> "LoadedModel":
    """Load the model of this name on the device of this process. Raises as ``mhaviz.load``."""
    from mhaviz.api.loaded import load

    (name, part), where = split_model(text), parse_device(device)
    if "device" in where:
        where["device"] = this_process().device(where["device"])
    with delivery.working(f"loading {name}"):
        return load(name, on_notice=delivery.tell, **part, **where, **options)


def _input(text: str) -> tuple[Path, str | None]:
    """Split the name of a tensor off a file: "x.npz#query" → x.npz and "query". Files that exist are not split."""
    path, mark, tensor = text.rpartition("#")
    return (Path(path), tensor) if mark and path and not is_file(text) else (Path(text), None)


def _averaged(text: str) -> tuple[str, ...]:
    """ "heads,layers" → ("heads", "layers")."""
    from mhaviz.results.means import require_averaged

    return require_averaged(names(text))


AnyKind = Literal["self", "masked", "cross"]

Layers = Annotated[Any, typer.Option(metavar="N,N-N", parser=several("layers"), help="Layers: 0,3-5. \\[default: all]")]
Heads = Annotated[Any, typer.Option(metavar="N,N-N", parser=several("heads"), help="Heads: 0,3-5. \\[default: all]")]
Mean = Annotated[
    Any,
    typer.Option(
        metavar="heads,layers",
        parser=parsed(_averaged, "heads, layers, sentences, examples or passes, or several such as heads,layers"),
        help="Mean over heads, layers, sentences, examples or passes.",
        show_default=False,
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT|FILE",
        help='Spans for tokens: word, sentence, line, turn, or a JSON file \\[{"name": "answer", "text": "…"}, …].',
    ),
]


def read_by(by: str | None) -> Any:
    """Return spans as an argument of ``Attention.by``: a kind, or those in a file. Raises MhavizError if it cannot be
    read."""
    if by is None or by in get_args(SpanKind) or not (Path(by).suffix or is_file(by)):
        return by
    try:
        return SpanChoice.of(read_json(Path(by)))
    except ArgumentError as error:
        raise MhavizError(f"{by}: {error}") from error


WhyOption = Annotated[
    str | None,
    model_option(
        metavar="TARGET",
        help='What made a prediction: " Paris", label=NAME, or top.',
    ),
]

Kind = Annotated[AnyKind | None, model_option(metavar="self|masked|cross", help="Show only this kind of attention.")]
ArrayKind = Annotated[
    AnyKind | None,
    array_option(help="Kind of attention. \\[default: cross if labels differ or the map is not square, else self]"),
]
Generate = Annotated[
    int, model_option(metavar="N", min=0, help="Let a decoder write N more tokens, greedily.", show_default=False)
]
Device = Annotated[
    str,
    model_option(
        metavar="NAME|LIMITS",
        help="auto, cpu, cuda:1, mps; spread: all; cpu=2GiB: a limit.",
        show_default=False,
    ),
]
PlainDevice = Annotated[str, model_option(metavar="NAME", help="auto, cpu, cuda, cuda:1 or mps.")]
Dtype = Annotated[str | None, model_option(metavar="TYPE", help="auto (as its files), float32, float64, bfloat16, …")]
DModel = Annotated[int | None, weights_option(help="Features of each token. \\[default: 512]")]
NHeads = Annotated[int | None, weights_option(help="Number of heads; it must divide d_model. \\[random: 8]")]
Seed = Annotated[int | None, weights_option(help="Seed of random weights and embeddings. \\[default: 0]")]
KeepCase = Annotated[bool, weights_option("--keep-case", help="Keep capitals; words are in lower case else.")]


@dataclass(frozen=True, eq=False, repr=False)
class ModelOptions:
    """Options for the model and the device it runs on."""

    model: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="random (the default); translation (bundled); a file saved by mhaviz train; a file with parameters, "
            "FILE#NAME of several; a transformers folder or hub id, as gpt2@REVISION.",
            show_default=False,
        ),
    ] = RANDOM
    device: Device = "auto"
    dtype: Dtype = None

    @property
    def files(self) -> list[Path]:
        """Files that are read, which must not be overwritten."""
        path = self.options.get("input")
        return [Path(split_model(self.model)[0]), *([path] if path else [])]

    @property
    def options(self) -> dict[str, Any]:
        """Further arguments of ``mhaviz.load``."""
        return {}

    @property
    def takes(self) -> tuple[str, ...]:
        """Names of the options that this kind of model takes."""
        return kind_of(split_model(self.model)[0]).options

    def load(self, delivery: Delivery, given: Given, **options: Any) -> "LoadedModel":
        """Load the model for reading ``given``. Raises as ``mhaviz.load``."""
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
    """Options for any model: with sizes of random weights, and the input of saved parameters."""

    n_heads: NHeads = None
    d_model: DModel = None
    seed: Seed = None
    mask: Annotated[
        Literal["none", "causal"] | None,
        weights_option(help="causal: queries do not see later keys."),
    ] = None
    keep_case: KeepCase = False
    input: Annotated[
        Any,
        weights_option(
            metavar="FILE|FILE#TENSOR",
            parser=_input,
            help="File of inputs, (length, d_model), which SENTENCE labels; query and key: source-target attention.",
        ),
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """Further arguments of ``mhaviz.load``."""
        path, tensor = self.input or (None, None)
        return {
            "d_model": self.d_model,
            "n_heads": self.n_heads,
            "seed": self.seed,
            "causal": None if self.mask is None else self.mask == "causal",
            "keep_case": self.keep_case or None,
            "input": path,
            "input_name": tensor,
        }


@dataclass(frozen=True, eq=False, repr=False)
class DecoderOptions:
    """Options for a transformers checkpoint, its device, and the layers that are shown."""

    model: Annotated[
        str, typer.Option(metavar="FOLDER|ID", help="A transformers folder or hub id, such as gpt2@REVISION.")
    ]
    layer: Layers = None
    device: Device = "auto"
    dtype: Dtype = None

    def load(self, delivery: Delivery, predicts: bool = False) -> "LoadedModel":
        """Load the model on the device of this process, and print its notices. Raises as ``mhaviz.load``."""
        loaded = load_model(self.model, delivery, self.device, dtype=self.dtype, predicts=predicts)
        delivery.tell(*loaded.notices)
        return loaded


@dataclass(frozen=True, eq=False, repr=False)
class CheckpointOptions(DecoderOptions):
    """Options for a transformers checkpoint, its device, and the attentions that are shown."""

    kind: Kind = None


@dataclass(frozen=True, eq=False, repr=False)
class OneAttention:
    """Options for a command that shows one attention."""

    layer: Annotated[
        Any,
        typer.Option(metavar="N", parser=one("layer"), help="Layer to show. \\[default: the first]"),
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
    """Options for the sizes of a layer with random weights."""

    d_model: DModel = None
    n_heads: NHeads = None
    seed: Seed = None

"""Groups of options. Each field is an option, with its help; commands take whole groups."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from mhaviz.cli.shared.numbers import parse_memory, parse_numbers, parse_vmax, parse_window
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.limits import MOST_CELLS

if TYPE_CHECKING:
    from mhaviz.analyses.bench import Bench
    from mhaviz.api.loaded import LoadedModel
    from mhaviz.files.maps import About
    from mhaviz.records import AttentionMap, Kind
    from mhaviz.views.look import Look

_T = TypeVar("_T")

MODEL, RANDOM = "The model", "Random weights, or a file of parameters"
LONG, ARRAY, OUTPUT, LOOK = "Long inputs", "Arrays of other tools", "Output", "Looks"
MAX_TOKENS = 2**18
"""Longer inputs take longer than most people would wait; they can be had by asking for them."""


class Mask(StrEnum):
    """Which keys a query may see."""

    none = "none"
    causal = "causal"


class AttentionKind(StrEnum):
    """The attentions of a model."""

    self_ = "self"
    masked = "masked"
    cross = "cross"


class Pool(StrEnum):
    """What becomes of the weights that share a cell."""

    mass = "mass"
    max = "max"
    both = "both"


class ColourScale(StrEnum):
    """How weights become colours."""

    linear = "linear"
    log = "log"


Sentences = Annotated[
    list[str] | None, typer.Argument(metavar="SENTENCE", help="Sentences, in quotes; - reads them from standard input.")
]
OneSentence = Annotated[
    list[str] | None,
    typer.Argument(metavar="SENTENCE", help="One sentence, in quotes; - reads it from standard input."),
]
File = Annotated[Path | None, typer.Option("--file", help="Read sentences from a UTF-8 file, one a line.")]
Target = Annotated[
    str | None,
    typer.Option(help="Queries from this sentence, keys and values from SENTENCE; of a translator, what it writes."),
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME|FILE",
        help="random; translation, which is bundled; a file of mhaviz train, or with the parameters of an attention; "
        "a folder or a hub id of transformers.",
    ),
]
Layers = Annotated[str | None, typer.Option("--layer", help="Layers to draw: 0,3-5 or all. \\[default: all]")]
OneLayer = Annotated[str | None, typer.Option("--layer", help="The layer that is looked into. \\[default: the first]")]
Heads = Annotated[str, typer.Option("--head", help="Heads to draw: 0,3-5 or all.")]
KindOption = Annotated[
    AttentionKind | None,
    typer.Option(
        "--kind",
        metavar="self|masked|cross",
        help="This kind of attention alone.",
        rich_help_panel=MODEL,
    ),
]
Lengths = Annotated[str, typer.Option(metavar="N,N,…", help="Lengths of the inputs, in tokens.")]
Seed = Annotated[
    int | None,
    typer.Option("--seed", help="Seed of random weights and embeddings. \\[default: 0]", rich_help_panel=RANDOM),
]
Device = Annotated[
    str,
    typer.Option("--device", metavar="NAME", help="auto, cpu, cuda, cuda:1 or mps.", rich_help_panel=MODEL),
]
DModel = Annotated[
    int | None, typer.Option("--d-model", help="Features of each token. \\[default: 512]", rich_help_panel=RANDOM)
]
NHeads = Annotated[
    int | None,
    typer.Option("--n-heads", help="Number of heads; it must divide d_model. \\[default: 8]", rich_help_panel=RANDOM),
]
Revision = Annotated[str | None, typer.Option(help="A branch, tag or commit of a hub id.", rich_help_panel=MODEL)]
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE",
        help="auto (as its files), float32, bfloat16 or float16.",
        rich_help_panel=MODEL,
    ),
]


@dataclass(frozen=True)
class ModelOptions:
    """Which model, and what may be asked of it. Of several layers one is looked into."""

    model: ModelName = "random"
    layer: OneLayer = None
    kind: KindOption = None
    device: Device = "auto"
    revision: Revision = None
    dtype: Dtype = None
    generate: Annotated[
        int,
        typer.Option(
            "--generate",
            metavar="N",
            help="Let a decoder write so many tokens more, greedily.",
            show_default=False,
            rich_help_panel=MODEL,
        ),
    ] = 0
    n_heads: NHeads = None
    d_model: DModel = None
    seed: Seed = None
    mask: Annotated[
        Mask | None,
        typer.Option("--mask", help="causal: a query sees no later key. \\[default: none]", rich_help_panel=RANDOM),
    ] = None
    prefix: Annotated[
        str | None,
        typer.Option(
            "--prefix",
            metavar="NAME",
            help="Which attention of the file, such as encoder.layers.0.self_attn.",
            rich_help_panel=RANDOM,
        ),
    ] = None
    input: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="What goes into it, (length, d_model) or (batch_size, length, d_model), not random embeddings; "
            "SENTENCE then labels it. Tensors query and key: source-target attention.",
            rich_help_panel=RANDOM,
        ),
    ] = None
    input_name: Annotated[
        str | None,
        typer.Option("--input-name", help="Which tensor of --input, if it holds several.", rich_help_panel=RANDOM),
    ] = None

    @property
    def files(self) -> list[Path]:
        """Those that are read: none of them may be written over."""
        return [Path(self.model), *([self.input] if self.input else [])]

    @property
    def given(self) -> list[str]:
        """The names of the options that differ from what they are by default."""
        return [field.name for field in fields(self) if getattr(self, field.name) != field.default]

    @property
    def takes_any_text(self) -> bool:
        """Whether its tokenizer makes tokens of texts without words, too."""
        from mhaviz.models.kinds import kind_of

        return kind_of(self.model) == "transformers"

    @property
    def kind_name(self) -> "Kind | None":
        """As in ``LoadedModel.attend``."""
        return self.kind.value if self.kind else None

    def load(self, on_notice: Callable[[str], None], **others: Any) -> "LoadedModel":
        """The model. ``others``: in place of what the options say. Raises as ``mhaviz.load`` does."""
        from mhaviz.api.loaded import load

        if self.generate < 0:
            raise ArgumentError(f"--generate: expected a number of tokens from 0 on, got {self.generate}")
        asked = {
            "d_model": self.d_model,
            "n_heads": self.n_heads,
            "seed": self.seed,
            "causal": None if self.mask is None else self.mask is Mask.causal,
            "prefix": self.prefix,
            "input": self.input,
            "input_name": self.input_name,
            "revision": self.revision,
            "dtype": self.dtype,
        } | others
        given = {name: value for name, value in asked.items() if value is not None}
        return load(self.model, device=self.device, writes=self.generate > 0, on_notice=on_notice, **given)

    def layers(self, loaded: "LoadedModel") -> tuple[int, ...] | None:
        """Those that are asked for; None: as many as the command looks at. Raises ArgumentError if one is not there."""
        return None if self.layer is None else parse_numbers("layer", self.layer, loaded.layers, "the model")

    def one_layer(self, loaded: "LoadedModel") -> int | None:
        """The same, of a command that looks into one."""
        layers = self.layers(loaded)
        if layers is not None and len(layers) > 1:
            raise ArgumentError(f"--layer: expected one layer, got {len(layers)}; name one of them")
        return layers[0] if layers else None


@dataclass(frozen=True)
class ManyLayers(ModelOptions):
    """The same, of commands that draw all layers."""

    layer: Layers = None


@dataclass(frozen=True)
class LongOptions:
    """Inputs whose weights are too many to be drawn one by one."""

    whole: Annotated[
        bool,
        typer.Option("--whole", help="Read all of --file, or of -, as one input.", rich_help_panel=LONG),
    ] = False
    pool: Annotated[
        Pool | None,
        typer.Option(
            "--pool",
            metavar="mass|max|both",
            help="What a cell shows. \\[default: mass]",
            rich_help_panel=LONG,
        ),
    ] = None
    size: Annotated[
        int | None,
        typer.Option(
            "--size",
            metavar="CELLS",
            help=f"Pool what has more rows or columns than this. \\[default: {MOST_CELLS}]",
            rich_help_panel=LONG,
        ),
    ] = None
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="Q0:Q1,K0:K1",
            help="These queries and keys alone, with their shares of all keys.",
            rich_help_panel=LONG,
        ),
    ] = None
    summary: Annotated[
        bool | None,
        typer.Option(
            "--summary/--no-summary",
            help="What each head does, in numbers. \\[default: of pooled maps]",
            rich_help_panel=LONG,
        ),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="Memory limit for computing the map, such as 2GiB. \\[default: a quarter of what is free]",
            rich_help_panel=LONG,
        ),
    ] = None
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", metavar="N", help="Refuse longer inputs.", rich_help_panel=LONG)
    ] = MAX_TOKENS

    @property
    def asked(self) -> dict[str, Any]:
        """As ``LoadedModel.attend`` takes them. Raises ArgumentError if one cannot be read."""
        pool: Literal["mass", "max", "both"] | None = self.pool.value if self.pool else None
        return {
            "pool": pool,
            "size": self.size,
            "window": parse_window(self.window),
            "summary": self.summary,
            "memory": parse_memory(self.memory),
            "max_tokens": self.max_tokens,
        }


@dataclass(frozen=True)
class ArrayOptions:
    """What is said of arrays that say nothing of themselves."""

    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Which array of a file, where several could be weights; of two files, given once or twice.",
            rich_help_panel=ARRAY,
        ),
    ] = None
    queries: Annotated[
        Path | None,
        typer.Option(
            "--queries",
            metavar="LABELS.txt",
            help="Labels of the rows, one a line; alone, of both sides of a square map. \\[default: positions]",
            rich_help_panel=ARRAY,
        ),
    ] = None
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="LABELS.txt", help="Labels of the columns, one a line.", rich_help_panel=ARRAY),
    ] = None
    kind: Annotated[
        AttentionKind | None,
        typer.Option(
            "--kind",
            help="What the array is. \\[default: cross if the labels differ or the map is no square, else self]",
            rich_help_panel=ARRAY,
        ),
    ] = None

    @property
    def files(self) -> list[Path]:
        """Those that are read."""
        return [path for path in (self.queries, self.keys) if path is not None]

    def of_files(self, number: int) -> "list[About]":
        """What is said of each of one or two files. Raises MhavizError if labels cannot be read."""
        from mhaviz.files.maps import About

        labels = _labels("--queries", self.queries), _labels("--keys", self.keys)
        kind: Kind | None = self.kind.value if self.kind else None
        return [About(name, *labels, kind) for name in of_each("--name", self.name, number)]


def of_each(option: str, given: Sequence[_T] | None, number: int) -> list[_T | None]:
    """What an option says of each of some files: given once, it is said of all."""
    if not given:
        return [None] * number
    if len(given) > number:
        times = "once" if number == 1 else "once, or twice, for A and for B"
        raise ArgumentError(f"{option}: expected it {times}; got it {len(given)} times")
    both: list[_T | None] = [given[0], given[-1]]
    return both[:number]


def _labels(option: str, path: Path | None) -> tuple[str, ...] | None:
    from mhaviz.files.texts import read_labels

    try:
        return None if path is None else read_labels(path)
    except MhavizError as error:
        raise MhavizError(f"{option}: {error}") from error


@dataclass(frozen=True)
class OutputOptions:
    """Where the result goes."""

    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", help="Save; the suffix picks the format. Repeatable."),
    ] = None
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing in the terminal but errors.")] = False
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False


@dataclass(frozen=True)
class DpiOption:
    """How a picture without maps looks."""

    dpi: Annotated[int, typer.Option(help="Pixels an inch.", rich_help_panel=LOOK)] = 150

    @property
    def look(self) -> "Look":
        """Raises ArgumentError."""
        from mhaviz.views.look import Look

        return Look(dpi=self.dpi)


@dataclass(frozen=True)
class CmapOptions(DpiOption):
    """How a picture with colours looks."""

    cmap: Annotated[str, typer.Option(help="A matplotlib colormap for the weights.", rich_help_panel=LOOK)] = "bone"

    @property
    def look(self) -> "Look":
        """Raises ArgumentError."""
        from mhaviz.views.look import Look

        return Look(self.cmap, self.dpi)


@dataclass(frozen=True)
class VmaxOptions(CmapOptions):
    """The same with a scale."""

    vmax: Annotated[
        str | None,
        typer.Option(
            metavar="WEIGHT|auto",
            help="The weight with the last colour; auto: the largest. \\[default: 1; of long maps auto]",
            rich_help_panel=LOOK,
        ),
    ] = None

    @property
    def look(self) -> "Look":
        """Raises ArgumentError."""
        from mhaviz.views.look import Look

        return Look(self.cmap, self.dpi, vmax=parse_vmax(self.vmax or "1"))


@dataclass(frozen=True)
class PageOptions(VmaxOptions):
    """The same with heads side by side."""

    columns: Annotated[int | None, typer.Option(help="Heads side by side in the picture.", rich_help_panel=LOOK)] = None

    @property
    def look(self) -> "Look":
        """Raises ArgumentError."""
        from mhaviz.views.look import Look

        return Look(self.cmap, self.dpi, self.columns, parse_vmax(self.vmax or "1"))


@dataclass(frozen=True)
class MapOptions(PageOptions):
    """How maps look."""

    scale: Annotated[
        ColourScale | None,
        typer.Option(
            "--scale", metavar="linear|log", help="\\[default: log for more than 128 keys]", rich_help_panel=LOOK
        ),
    ] = None

    @property
    def look(self) -> "Look":
        """Raises ArgumentError."""
        from dataclasses import replace

        return replace(super().look, log=self.scale is ColourScale.log if self.scale else None)

    def look_of(self, maps: "tuple[AttentionMap, ...]") -> "Look":
        """The look of these maps: colours end at the largest weight where maps are long or parts of one."""
        from dataclasses import replace

        from mhaviz.views.look import ends_at_largest

        return replace(self.look, vmax=None) if self.vmax is None and ends_at_largest(maps) else self.look


@dataclass(frozen=True)
class BenchOptions:
    """What is measured, and how patiently."""

    most_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="Skip what would take longer than this, once.")
    ] = 5.0
    d_model: DModel = None
    n_heads: NHeads = None
    seed: Seed = None
    device: Device = "auto"

    @property
    def bench(self) -> "Bench":
        """The layer that is measured. Raises ArgumentError for sizes that cannot be."""
        from mhaviz.analyses.bench import Bench
        from mhaviz.devices import resolve_device

        d_model, n_heads = 512 if self.d_model is None else self.d_model, 8 if self.n_heads is None else self.n_heads
        return Bench(d_model, n_heads, self.seed or 0, resolve_device(self.device))

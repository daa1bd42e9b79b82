"""The options that commands share."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.errors import ArgumentError, counted, quoted, shortened
from mhaviz.units import parse_bytes, parse_whole

if TYPE_CHECKING:
    from mhaviz.analyses.pooled_maps import OpenWindow
    from mhaviz.records import AttentionMap
    from mhaviz.views.look import Look

_LAYER, _TRAINED, _PRETRAINED, _SAVED = "The layer", "A trained model", "A model of transformers", "Saved weights"
_LONG = "Long inputs"
_ARRAY, _OUTPUT, _LOOK = "Arrays of other tools", "Output", "Looks"
_LAST_POSITION = 10**12  # no input is so long


class Mask(StrEnum):
    """Which keys a query may see."""

    none = "none"
    causal = "causal"


class AttentionKind(StrEnum):
    """The attentions of a trained model."""

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
    list[str] | None, typer.Argument(metavar="SENTENCE", help="Sentences; - reads them from standard input.")
]
OneSentence = Annotated[
    list[str] | None,
    typer.Argument(metavar="SENTENCE", help="One sentence, in quotes; - reads it from standard input."),
]
File = Annotated[Path | None, typer.Option("--file", help="Read sentences from a UTF-8 file, one a line.")]
Target = Annotated[
    str | None,
    typer.Option(help="Source-target attention: queries from this sentence, keys and values from SENTENCE."),
]
DModel = Annotated[int, typer.Option("--d-model", help="Features of each token.", rich_help_panel=_LAYER)]
Heads = Annotated[int, typer.Option("--heads", help="Heads; they must divide d_model.", rich_help_panel=_LAYER)]
Seed = Annotated[int, typer.Option(help="Seed of random weights and embeddings.", rich_help_panel=_LAYER)]
Device = Annotated[
    str, typer.Option(metavar="auto|cpu|cuda|cuda:N|mps", help="Where the layer runs.", rich_help_panel=_LAYER)
]
MaskOption = Annotated[Mask, typer.Option("--mask", help="causal: a query sees no later key.", rich_help_panel=_LAYER)]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|translation",
        help="A model that has learnt something, in place of random weights: made by mhaviz train, or the translator "
        "that comes with mhaviz.",
        rich_help_panel=_TRAINED,
    ),
]
KindOption = Annotated[
    AttentionKind | None,
    typer.Option("--kind", help="Which of a trained model's attentions.", rich_help_panel=_TRAINED),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="FOLDER|ID",
        help="A checkpoint of Hugging Face's transformers, in place of random weights: a folder, or a hub id, which is "
        "looked for in the local cache first.",
        rich_help_panel=_PRETRAINED,
    ),
]
Revision = Annotated[str | None, typer.Option(help="A branch, tag or commit of a hub id.", rich_help_panel=_PRETRAINED)]
Dtype = Annotated[
    str,
    typer.Option(
        metavar="auto|float32|bfloat16|float16",
        help="Numbers that the model computes with; auto: those of the checkpoint.",
        rich_help_panel=_PRETRAINED,
    ),
]
Layers = Annotated[
    str | None,
    typer.Option("--layer", help="Layers to draw: 0,3-5 or all. \\[default: all]", rich_help_panel=_PRETRAINED),
]
OneLayer = Annotated[
    str | None,
    typer.Option("--layer", help="The layer that is looked into. \\[default: 0]", rich_help_panel=_PRETRAINED),
]
HideSpecial = Annotated[
    bool,
    typer.Option(
        "--hide-special",
        help="Leave out tokens that are not of the text, such as [CLS]; weights are then shares of the others.",
        rich_help_panel=_PRETRAINED,
    ),
]
Generate = Annotated[
    int,
    typer.Option(
        "--generate",
        metavar="N",
        help="Let a decoder go on writing, greedily, for so many tokens, and draw prompt and continuation as one.",
        rich_help_panel=_PRETRAINED,
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="Recompute each layer's output from the weights drawn, and say how far it is from the model's own; with "
        "--quiet the exit status alone tells: 1 if it is farther than rounding explains.",
        rich_help_panel=_PRETRAINED,
    ),
]
Rollout = Annotated[
    bool,
    typer.Option(
        "--rollout",
        help="Draw what the weights of all layers up to each come to, residual connections included (Abnar and "
        "Zuidema 2020).",
        rich_help_panel=_PRETRAINED,
    ),
]
WeightsFile = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="FILE",
        help="A .safetensors or torch.save file with the parameters of a torch.nn.MultiheadAttention or of mhaviz's "
        "layer, in place of random weights; --heads says how many heads it has.",
        rich_help_panel=_SAVED,
    ),
]
Prefix = Annotated[
    str | None,
    typer.Option(
        "--prefix",
        metavar="NAME",
        help="Which attention of a model's, such as encoder.layers.0.self_attn.",
        rich_help_panel=_SAVED,
    ),
]
InputFile = Annotated[
    Path | None,
    typer.Option(
        "--input",
        metavar="FILE",
        help="What goes into the attention, (length, d_model) or (batch_size, length, d_model), in place of random "
        "embeddings with positions; SENTENCE then labels it. Tensors query and key: source-target attention.",
        rich_help_panel=_SAVED,
    ),
]
InputName = Annotated[
    str | None,
    typer.Option("--input-name", help="Which tensor of --input, if it holds several.", rich_help_panel=_SAVED),
]
Whole = Annotated[
    bool,
    typer.Option("--whole", help="Read all of --file, or of standard input, as one input.", rich_help_panel=_LONG),
]
PoolOption = Annotated[
    Pool | None,
    typer.Option(
        "--pool",
        help="mass: a cell is the mean over its queries of their weight on its keys; max: the largest weight in it. "
        "\\[default: mass]",
        rich_help_panel=_LONG,
    ),
]
Size = Annotated[
    int, typer.Option(metavar="CELLS", help="Pool what has more rows or columns than this.", rich_help_panel=_LONG)
]
WindowOption = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="Q0:Q1,K0:K1",
        help="Show these queries and keys alone, counted from 0; each weight is still a share of all keys.",
        rich_help_panel=_LONG,
    ),
]
Summary = Annotated[
    bool | None,
    typer.Option(
        "--summary/--no-summary",
        help="What each head does, in numbers; in --json too. \\[default: of inputs longer than --size]",
        rich_help_panel=_LONG,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="BYTES",
        help="What weights, or else the blocks of a pooled map, may take beside inputs and program, such as 2GiB; less "
        "is slower. \\[default: a quarter of what is free]",
        rich_help_panel=_LONG,
    ),
]
MaxTokens = Annotated[
    int, typer.Option("--max-tokens", metavar="N", help="Refuse longer inputs.", rich_help_panel=_LONG)
]
ArrayName = Annotated[
    str | None,
    typer.Option("--name", help="Which array of a file, where several could be weights.", rich_help_panel=_ARRAY),
]
ArrayNames = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="Which array of a file, where several could be weights; given twice: that of A, then that of B.",
        rich_help_panel=_ARRAY,
    ),
]
QueryLabels = Annotated[
    Path | None,
    typer.Option(
        "--queries",
        metavar="LABELS.txt",
        help="Labels of the rows, one a line; alone, of both sides of a square map. \\[default: positions]",
        rich_help_panel=_ARRAY,
    ),
]
KeyLabels = Annotated[
    Path | None,
    typer.Option("--keys", metavar="LABELS.txt", help="Labels of the columns, one a line.", rich_help_panel=_ARRAY),
]
ArrayKind = Annotated[
    AttentionKind | None,
    typer.Option(
        "--kind",
        help="What the array is. \\[default: cross if the labels differ or the map is no square, else self]",
        rich_help_panel=_ARRAY,
    ),
]
SavedHead = Annotated[str, typer.Option("--head", help="Heads to draw: 0,3-5 or all.")]
SavedLayer = Annotated[int | None, typer.Option("--layer", help="Maps of this layer alone.")]
SavedLayers = Annotated[
    list[int] | None,
    typer.Option("--layer", metavar="N", help="Maps of this layer alone; given twice: that of A with that of B."),
]
Output = Annotated[
    list[Path] | None,
    typer.Option("-o", "--output", help="Save; the suffix picks the format. Repeatable.", rich_help_panel=_OUTPUT),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show nothing in the terminal but errors.", rich_help_panel=_OUTPUT)
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else.", rich_help_panel=_OUTPUT)
]
Cmap = Annotated[str, typer.Option(help="A matplotlib colormap for the weights.", rich_help_panel=_LOOK)]
Vmax = Annotated[
    str,
    typer.Option(
        metavar="WEIGHT|auto",
        help="The weight with the last colour; auto: the largest, as in windows and in maps of more than 128 keys.",
        rich_help_panel=_LOOK,
    ),
]
LookScale = Annotated[
    ColourScale | None,
    typer.Option("--scale", help="\\[default: log for maps of more than 128 keys, else linear]", rich_help_panel=_LOOK),
]
Dpi = Annotated[int, typer.Option(help="Pixels an inch.", rich_help_panel=_LOOK)]
Lengths = Annotated[str, typer.Option(metavar="N,N,…", help="Lengths of the inputs, in tokens.")]
MostSeconds = Annotated[float, typer.Option(metavar="SECONDS", help="Skip what would take longer than this, once.")]
Columns = Annotated[int | None, typer.Option(help="Heads side by side in the picture.", rich_help_panel=_LOOK)]


def given(context: typer.Context, names: Iterable[str]) -> list[str]:
    """Those of these parameters that stand on the command line, as options are written."""
    sources = {name: getattr(context.get_parameter_source(name), "name", "") for name in names}
    return [f"--{name.replace('_', '-')}" for name, source in sources.items() if source == "COMMANDLINE"]


_READ = ("file", "before", "after", "weights", "input", "checkpoint", "queries", "keys", "corpus", "evaluate")
"""Parameters that name a file to be read, in any command; a model's or a corpus's own name is that of no file."""


def files_read(context: typer.Context) -> list[Path]:
    """Those that the command line names: none of them may be written over."""
    return [Path(context.params[name]) for name in _READ if context.params.get(name) is not None]


def choose_look(
    cmap: str = "bone",
    dpi: int = 150,
    columns: int | None = None,
    vmax: float | None = 1.0,
    log: bool | None = None,
) -> "Look":
    """A ``Look`` as the command line has it. Raises ArgumentError that names the option."""
    from mhaviz.views.look import Look

    try:
        return Look(cmap, dpi, columns, vmax, log=log)
    except ArgumentError as error:
        raise ArgumentError(f"--{error}") from None


def choose_map_look(context: typer.Context) -> "Look":
    """The look that a command which draws maps is asked for."""
    asked = context.params
    log = asked["scale"] is ColourScale.log if asked["scale"] else None
    return choose_look(asked["cmap"], asked["dpi"], asked["columns"], parse_vmax(asked["vmax"]), log)


def fit_look(context: typer.Context, look: "Look", maps: "Sequence[AttentionMap]") -> "Look":
    """The look, whose colours end at the largest weight where maps are long or parts of one, unless --vmax is given."""
    from dataclasses import replace

    from mhaviz.views.look import spans_magnitudes

    fits = any(not m.is_whole or (spans_magnitudes(m) and not m.quantity.is_rollout) for m in maps)
    return replace(look, vmax=None) if fits and not given(context, ["vmax"]) else look


def parse_vmax(text: str) -> float | None:
    """ "0.5" → 0.5; "auto" → None. Raises ArgumentError if it cannot be read."""
    if text.strip().lower() == "auto":
        return None
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"--vmax: expected a weight such as 0.5, or auto, got {text!r}") from None


def parse_window(text: str | None) -> "OpenWindow | None":
    """ "0:512,1000:" → (0, 512, 1000, None). Raises ArgumentError if it cannot be read."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d*):(\d*),(\d*):(\d*)", re.sub(r"\s", "", text), re.ASCII)
    if not match:
        raise ArgumentError(f"--window: expected queries and keys such as 0:512,1000:1512 or 0:512,: got {text[:60]!r}")
    q0, q1, k0, k1 = (parse_whole(end) if end else None for end in match.groups())
    for end in (q0, q1, k0, k1):
        if end is not None and end > _LAST_POSITION:
            raise ArgumentError(f"--window: expected positions up to {_LAST_POSITION:,}, got {counted(end)}")
    return q0, q1, k0, k1


def parse_memory(text: str | None) -> int | None:
    """ "2GiB" → 2147483648. Raises ArgumentError if it cannot be read."""
    try:
        return parse_bytes(text) if text is not None else None
    except ValueError as error:
        raise ArgumentError(f"--memory: {error}") from None


def parse_heads(text: str, n_heads: int) -> tuple[int, ...]:
    """ "0,3-5" → (0, 3, 4, 5); "all" → all of them.

    Raises:
        ArgumentError: it cannot be read, or there is no such head.
    """
    return _parse_numbers("head", text, range(n_heads), "the layer")


def parse_layers(text: str, layers: Sequence[int]) -> tuple[int, ...]:
    """The same of the layers of a model, which need not all have an attention."""
    return _parse_numbers("layer", text, layers, "the model")


def _parse_numbers(what: str, text: str, there: Sequence[int], owner: str) -> tuple[int, ...]:
    if text.strip().lower() == "all":
        return tuple(there)
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            raise ArgumentError(f"--{what}: expected {what}s such as 0, 3-5 or all, got {quoted(text)}")
        low, high = parse_whole(first), parse_whole(last or first)
        if low > high:
            raise ArgumentError(f"--{what}: expected a range that goes up, got {quoted(part.strip())}")
        missing = next((number for number in (high, *range(low, min(high, max(there)))) if number not in there), None)
        if missing is not None:
            number = str(missing) if missing != high else shortened(last or first)
            raise ArgumentError(f"--{what}: there is no {what} {number}; {owner} has {_listed(what, there)}")
        numbers += range(low, high + 1)
    return tuple(dict.fromkeys(numbers))


def _listed(what: str, there: Sequence[int]) -> str:
    """ "heads 0 to 7", "head 0 only", "layers 1, 3 and 5"."""
    if len(there) == 1:
        return f"{what} {there[0]} only"
    if list(there) == list(range(there[0], there[-1] + 1)):
        return f"{what}s {there[0]} to {there[-1]}"
    return f"{what}s {', '.join(map(str, there[:-1]))} and {there[-1]}"


def parse_lengths(text: str) -> tuple[int, ...]:
    """ "16,64,256" → (16, 64, 256). Raises ArgumentError if it cannot be read."""
    lengths = []
    for part in map(str.strip, text.split(",")):
        if not part.removeprefix("-").isdecimal():
            raise ArgumentError(f"--lengths: expected numbers of tokens such as 16,64,256, got {quoted(text)}")
        lengths.append(parse_whole(part))
    return tuple(lengths)

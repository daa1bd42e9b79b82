"""mhaviz record"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mhaviz.cli.command import asked, require_unread
from mhaviz.cli.shared.appearance import ColourOptions, MapOptions, PoolOptions, style_of
from mhaviz.cli.shared.console import option_name, say
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.images import ImageOptions
from mhaviz.cli.shared.models import By, Heads, Layers, Mean, read_by
from mhaviz.cli.shared.parsing import several
from mhaviz.cli.shared.queries import likely_form, maps_of, require_looks
from mhaviz.cli.surroundings import room_for_a_program
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files.texts import read_labels
from mhaviz.pages.registry import HEAD_SUFFIXES, MAP_SUFFIXES

if TYPE_CHECKING:
    from mhaviz.api.recording import Recording
    from mhaviz.observe.program import Ending, Program
    from mhaviz.results.attention import Attention
    from mhaviz.views.style import Style

_MOST_HEADS = 16  # rows of the table of --show heads
_MOST_TOKENS = 2**31  # so that maps are kept whole, as far as memory allows, to be summed by span


@dataclass(frozen=True, eq=False, repr=False)
class Recorded:
    """Options for what is recorded of a program."""

    module: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="Record attentions with such names, as 'blocks.*.attn'. Repeatable."),
    ] = None
    layer: Layers = None
    head: Heads = None
    passes: Annotated[
        str | None,
        typer.Option(metavar="N,N-N,N-,last", help="Forward passes, such as 0,100,last. \\[default: the first]"),
    ] = None
    examples: Annotated[
        Any, typer.Option(metavar="N,N|all", parser=several("examples", "all"), help="Examples of a batch.")
    ] = 0
    tokens: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="UTF-8 file with names of the tokens, one per line. \\[default: from the program's only tokenizer, if "
            "numbers were looked up in a table of its size, even if they are no words; else positions]",
        ),
    ] = None

    def parse(self) -> dict[str, Any]:
        """Return these options as arguments of ``mhaviz.record``. Raises MhavizError if names cannot be read."""
        return asked(self) | {"tokens": None if self.tokens is None else read_labels(self.tokens)}


def record(
    *,
    script: Annotated[str, typer.Argument(metavar="SCRIPT|MODULE", help="Program to run.", show_default=False)],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="Arguments and options of the program.", show_default=False),
    ] = None,
    is_module: Annotated[bool, typer.Option("-m", help="Run a module, as python -m does.")] = False,
    recorded: Recorded,
    pooled: PoolOptions,
    delivery: Delivery,
    looks: MapOptions,
    images: ImageOptions,
    show: Annotated[
        Literal["weights", "rollout", "heads"],
        typer.Option(
            metavar="weights|rollout|heads",
            help="rollout: attention rollout up to each layer; heads: where each looks, averaged over all passes.",
        ),
    ] = "weights",
    mean: Mean = None,
    by: By = None,
) -> None:
    """Run a PyTorch program, and draw the attention weights that it computes.

    \b
    mhaviz record -o run.html train.py --epochs 1
    mhaviz record -o maps.safetensors -m my_package.generate "a prompt"
    mhaviz record --module 'blocks.*.attn' --passes 0,100,200- -o film.html train.py
    mhaviz record --show heads -o heads.png evaluate.py
    mhaviz record --image photo.png -o over.png classify.py photo.png
    mhaviz record --examples all --mean heads,layers,examples --query '#0' -o bars.png train.py

    The program runs unchanged, as python runs it: it gets the arguments after its name, and its exit status is that of
    mhaviz. Options of mhaviz come before its name. When it ends, what was recorded is saved, unless it ends by
    os._exit, SIGKILL or a crash such as SIGSEGV.

    The first forward pass of each attention is drawn, unless --passes chooses others.

    Output: a {MAP_SUFFIXES} file.
    """
    inputs = [Path(script), *([recorded.tokens] if recorded.tokens else []), *images.files]
    delivery.check(inputs, HEAD_SUFFIXES if show == "heads" else MAP_SUFFIXES)
    if show == "heads":
        require_unread(
            (recorded, pooled, images, looks),
            ("--module", "--layer", "--grid", *(option_name(one.name) for one in fields(ColourOptions))),
            "--show heads averages over all passes and examples, and draws no maps",
        )
        if others := [name for name, value in (("--by", by), ("--mean", mean)) if value is not None]:
            raise ArgumentError(f"--show heads averages over tokens, and draws no maps; leave out {others[0]}")
    if show == "rollout" and pooled.pool is not None:
        raise ArgumentError("a rollout needs single tokens, and --pool joins them to cells; leave it out")
    options, style = recorded.parse(), style_of(looks, delivery)
    style.require_vmax()
    images.check(names_patches=True, head=recorded.head, is_mean=mean is not None)
    _require_form(images, style, show)
    spans = read_by(by)
    folder = Path.cwd()
    program = _find(script, arguments or [], is_module)
    _warn_of_output(delivery, arguments or [])

    from mhaviz.api.recording import record as start

    recording = start(
        **options,
        grid=images.grid,
        pool=pooled.pool,
        size=pooled.size if spans is None else pooled.size or _MOST_TOKENS,
        statistics=show == "heads",
        page=".html" in delivery.suffixes and show == "weights" and by is None and mean is None,
        program=f"-m {script}" if is_module else Path(script).name,
    )
    if show == "rollout":
        recording.require_rollout()
    with room_for_a_program(keeps_stdout=delivery.json), recording:
        ending = program.run()
    if ending.is_fork:
        raise typer.Exit(ending.status)

    with suppress(FileNotFoundError):  # if the folder is gone, files elsewhere can still be saved
        os.chdir(folder)
    try:
        _deliver(recording, ending, delivery, style, images, show, spans, mean)
    except MhavizError as error:
        if not ending.status:
            raise
        if not (recording.is_empty and ending.said_why):
            say(str(error))
    raise typer.Exit(ending.status)


def _require_form(images: ImageOptions, style: "Style", show: str) -> None:
    """Raise ArgumentError if the form of maps has no such look, or a rollout has no such form, before the work."""
    if show == "rollout" and images.form not in (None, "map"):
        form = f"{option_name('form')} {images.form}"
        raise ArgumentError(f"a rollout goes through all heads, and {form} is of single heads; leave out one")
    if show == "weights" and not images.are_over:
        require_looks(style, likely_form(images.query, images.form))


def _find(script: str, arguments: list[str], is_module: bool) -> "Program":
    """Return the program. If it cannot be parsed, show Python's own message and exit."""
    from mhaviz.observe.program import Program, show_error

    try:
        return Program(script, arguments, is_module)
    except SyntaxError as error:
        show_error(error.with_traceback(None))
        raise typer.Exit(1) from None


def _deliver(
    recording: "Recording",
    ending: "Ending",
    delivery: Delivery,
    style: "Style",
    images: ImageOptions,
    show: str,
    by: Any,
    mean: Sequence[str] | None,
) -> None:
    """Save and show what was recorded. Raises MhavizError."""
    if recording.is_empty:
        delivery.tell(*recording.missed[1:])  # the error says the first
    result: Any
    if show == "heads":
        result = recording.head_statistics
    else:
        result = recording.rollout if show == "rollout" else recording.attention
    if ending.how is not None:
        verb = "saved" if delivery.paths else "here is"
        delivery.tell(f"the program ended with {ending.how}; {verb} what was recorded until then")
    delivery.tell(*(recording.missed if show == "heads" else recording.notices))
    if show == "heads":
        from mhaviz.pages.head_numbers import Order

        delivery.deliver(result, style, order=Order("entropy", _MOST_HEADS))
    else:
        maps: Attention = result
        if by is not None:
            with _saving_all(maps, delivery, style):
                maps = maps.by(by)
        if mean is not None and not images.are_over:
            with _saving_all(maps, delivery, style):
                maps, mean = maps.mean(*mean), None
        if not images.are_over and images.query is not None and delivery.paths_of_maps:
            with _saving_all(maps, delivery, style):
                maps_of(maps, images.query, images.form)
        images.deliver(maps, delivery, style, mean)


@contextmanager
def _saving_all(maps: "Attention", delivery: Delivery, style: "Style") -> Iterator[None]:
    """Save all maps where there are no such spans, mean or query of them: a recording may be long, or come but once."""
    try:
        yield
    except ArgumentError as error:
        reason = error

        def no_map() -> None:
            raise reason

        delivery.deliver_beside(lambda: maps, "all maps", no_map, style)


def _warn_of_output(delivery: Delivery, arguments: list[str]) -> None:
    """Print a notice if -o, which seems meant for mhaviz, comes after the program and goes to it."""
    for option, value in pairwise(arguments):
        if not delivery.paths and option in ("-o", "--output") and Path(value).suffix.lower() in MAP_SUFFIXES:
            delivery.tell(f"{option} {value} comes after the program and goes to it; put options of mhaviz before it")

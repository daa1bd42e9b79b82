"""mhaviz record"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from mhaviz.cli.command import asked, require_unread
from mhaviz.cli.shared.appearance import ColourOptions, MapOptions, PictureOptions, PoolOptions, style_of
from mhaviz.cli.shared.console import option_name, say
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.images import ImageOptions
from mhaviz.cli.shared.models import By, Heads, Layers, Mean, read_by
from mhaviz.cli.shared.parsing import several
from mhaviz.cli.shared.queries import likely_form, maps_of, require_looks
from mhaviz.cli.surroundings import room_for_a_program
from mhaviz.errors import ArgumentError, MhavizError
from mhaviz.files.texts import read_labels
from mhaviz.pages.registry import HEAD_SUFFIXES, HEALTH_SUFFIXES, MAP_SUFFIXES

if TYPE_CHECKING:
    from mhaviz.api.recording import Recording
    from mhaviz.api.watching import Watch
    from mhaviz.observe.program import Program
    from mhaviz.results.attention import Attention
    from mhaviz.views.style import Style

_BETWEEN_LINES = 10.0  # seconds between lines on a program that is watched
_WORST = {
    "attention/largest_score/highest": "largest score",
    "attention/entropy/lowest": "least entropy of a head",
    "attention/one_hot/highest": "most one-hot rows of a head",
    "attention/collapsed_heads": "heads that have collapsed",
}
"""What such a line says of a sample, by the names of its scalars."""

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
            "a table of its size was read; else positions]",
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
        Literal["weights", "rollout", "heads"] | None,
        typer.Option(
            metavar="weights|rollout|heads",
            help="rollout: attention rollout up to each layer; heads: where each looks, over all passes. "
            "\\[default: weights]",
        ),
    ] = None,
    mean: Mean = None,
    by: By = None,
    watch: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="When which head collapses, from each Nth pass."),
    ] = None,
) -> None:
    """Run a PyTorch program, and draw the attention weights that it computes.

    \b
    mhaviz record -o run.html train.py --epochs 1
    mhaviz record -o maps.safetensors -m my_package.generate "a prompt"
    mhaviz record --module 'blocks.*.attn' --passes 0,100,200- -o film.html train.py
    mhaviz record --show heads -o heads.png evaluate.py
    mhaviz record --watch 50 -o health.png -o health.csv train.py
    mhaviz record --image photo.png -o over.png classify.py photo.png
    mhaviz record --examples all --mean heads,layers,examples --query '#0' -o bars.png train.py

    The program runs unchanged, as python runs it: it gets the arguments after its name, and its exit status is that of
    mhaviz. Options of mhaviz come before its name. When it ends, what was recorded is saved, unless it ends by
    os._exit, SIGKILL or a crash such as SIGSEGV.

    The first forward pass of each attention is drawn, unless --passes chooses others.

    Output: a {MAP_SUFFIXES} file, of --watch no maps.
    """
    name = f"-m {script}" if is_module else Path(script).name
    inputs = [Path(script), *([recorded.tokens] if recorded.tokens else []), *images.files]
    if watch is not None:
        delivery.check(inputs, HEALTH_SUFFIXES)
        study = "--watch keeps numbers of each head, and no maps"
        read = ("--module", *(option_name(one.name) for one in fields(PictureOptions)))
        require_unread((recorded, pooled, images, looks), read, study)
        if others := [option for option, value in (("--show", show), ("--by", by), ("--mean", mean)) if value]:
            raise ArgumentError(f"{study}; leave out {', '.join(others)}")
        style, program = style_of(looks, delivery), _find(script, arguments or [], is_module)
        _warn_of_output(delivery, arguments or [])
        watching = _watching(watch, recorded.module, name, delivery)
        _run(program, watching, delivery, lambda: _deliver_health(watching, delivery, style))
    show = show or "weights"
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
        program=name,
    )
    if show == "rollout":
        recording.require_rollout()
    _run(program, recording, delivery, lambda: _deliver(recording, delivery, style, images, show, spans, mean))


def _run(
    program: "Program", recorder: "Recording | Watch", delivery: Delivery, deliver: Callable[[], None]
) -> NoReturn:
    """Run the program within the recorder, deliver what has come of it, and exit with the program's status."""
    folder = Path.cwd()
    with room_for_a_program(keeps_stdout=delivery.json), recorder:
        ending = program.run()
    if ending.is_fork:
        raise typer.Exit(ending.status)

    with suppress(FileNotFoundError):  # if the folder is gone, files elsewhere can still be saved
        os.chdir(folder)
    if ending.how is not None and not recorder.is_empty:
        verb = "saved" if delivery.paths else "here is"
        delivery.tell(f"the program ended with {ending.how}; {verb} what was recorded until then")
    try:
        deliver()
    except MhavizError as error:
        if not ending.status:
            raise
        if not (recorder.is_empty and ending.said_why):
            say(str(error))
    raise typer.Exit(ending.status)


def _watching(every: int, module: list[str] | None, name: str, delivery: Delivery) -> "Watch":
    """Return what watches the program; on a terminal, it says now and then how the heads are."""
    from mhaviz.api.watching import Watch

    said = time.monotonic()

    def on_sample(number: int, scalars: Mapping[str, float]) -> None:
        nonlocal said
        if time.monotonic() - said >= _BETWEEN_LINES:
            said = time.monotonic()
            worst = (f"{text} {scalars[name]:.3g}" for name, text in _WORST.items() if name in scalars)
            delivery.tell(f"pass {number:,}: {', '.join(worst)}")

    on_terminal = on_sample if sys.stderr.isatty() and not delivery.quiet else None
    return Watch(every=every, module=module, on_sample=on_terminal, on_notice=delivery.tell, program=name)


def _deliver_health(watching: "Watch", delivery: Delivery, style: "Style") -> None:
    """Save and show the health of the program's heads. Raises MhavizError."""
    try:
        health = watching.health
    except MhavizError as error:  # which may say the first of them
        delivery.tell(*(notice for notice in watching.notices if notice not in str(error)))
        raise
    delivery.tell(*watching.notices)
    delivery.deliver(health, style)


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

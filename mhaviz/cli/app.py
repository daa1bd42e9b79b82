"""The program: its list of commands, and the message and exit code of each error."""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from mhaviz._version import __version__
from mhaviz.cli.commands.compare_implementations import compare_implementations
from mhaviz.cli.commands.compare_projections import compare_projections
from mhaviz.cli.commands.compare_scaling import compare_scaling
from mhaviz.cli.commands.complexity import complexity
from mhaviz.cli.commands.diff import diff
from mhaviz.cli.commands.embeddings import embeddings
from mhaviz.cli.commands.explain import explain
from mhaviz.cli.commands.heads import heads
from mhaviz.cli.commands.heatmap import heatmap
from mhaviz.cli.commands.masks import masks
from mhaviz.cli.commands.matrices import matrices
from mhaviz.cli.commands.record import record
from mhaviz.cli.commands.report import report
from mhaviz.cli.commands.show import show
from mhaviz.cli.commands.trace_shapes import trace_shapes
from mhaviz.cli.commands.train import train
from mhaviz.cli.shared.console import option_name, printing, say
from mhaviz.cli.shared.running import ProgramEndedError
from mhaviz.cli.usage_errors import LARGEST, beyond, usage_message
from mhaviz.errors import (
    ArgumentError,
    ChangedError,
    MhavizError,
    StoppedError,
    is_out_of_memory,
    parameters_named,
    quoted,
)
from mhaviz.processes import is_first_to_fail
from mhaviz.views.formats import DIFFERENCE_SUFFIXES, HEAD_SUFFIXES, MAP_SUFFIXES, PAGE_SUFFIXES, RECORD_SUFFIXES

DONE, COULD_NOT, WRONG_COMMAND_LINE, CHANGED, INTERRUPTED = 0, 1, 2, 3, 130


def _help(text: str) -> str:
    """A docstring with the formats named, and each paragraph on one line, as the terminal's width breaks them.

    Examples, which begin with a backspace as typer wants it, keep their lines.
    """
    groups = {
        "{record_files}": RECORD_SUFFIXES,
        "{page_files}": PAGE_SUFFIXES,
        "{map_files}": MAP_SUFFIXES,
        "{difference_files}": DIFFERENCE_SUFFIXES,
        "{head_files}": HEAD_SUFFIXES,
    }
    for place, suffixes in groups.items():
        text = text.replace(place, f"{', '.join(suffixes[:-1])} or {suffixes[-1]}")
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(p if p.startswith("\b") else " ".join(p.split()) for p in paragraphs)


def with_options_of_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer takes it: a parameter that is a dataclass becomes a parameter for each of its fields.

    No number reaches the command that is too large for PyTorch, numpy and matplotlib alike.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    options = {name: inspect.signature(group).parameters for name, group in groups.items()}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        annotations = get_type_hints(groups[name], include_extras=True) if name in groups else hints
        parameters += [
            one.replace(annotation=annotations[one.name], kind=one.KEYWORD_ONLY)
            for one in options.get(name, {name: parameter}).values()
        ]

    if any(get_args(one.annotation)[1].hidden for one in parameters):
        parameters.append(inspect.Parameter("help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_All))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        values.pop("help_all", None)
        _require_small(values)
        made = {name: group(**{one: values.pop(one) for one in options[name]}) for name, group in groups.items()}
        command(**made, **values)

    del run.__wrapped__  # whose signature typer would take
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _show_all(context: typer.Context, wanted: bool) -> None:
    if not wanted:
        return
    hidden: list[Any] = [option for option in context.command.params if getattr(option, "hidden", False)]
    for option in hidden:
        option.hidden = False
    try:
        typer.echo(context.get_help())
    finally:
        for option in hidden:
            option.hidden = True
    raise typer.Exit


_All = Annotated[
    bool, typer.Option("--help-all", callback=_show_all, is_eager=True, help="Show every option and exit.")
]
"""Of a command with options that are made with ``hidden=True``: those that few people need, for which --help has no
room."""


def _require_small(values: Mapping[str, Any]) -> None:
    """Raise ArgumentError for a number that no library below can hold."""
    for name, value in values.items():
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and abs(number) > LARGEST:
                raise ArgumentError(beyond(option_name(name), number))


_HELP = ["-h", "--help"]
app = typer.Typer(
    name="mhaviz",
    context_settings={"help_option_names": _HELP},
)
for command in (
    heatmap,
    record,
    embeddings,
    trace_shapes,
    explain,
    matrices,
    masks,
    heads,
    compare_scaling,
    compare_projections,
    compare_implementations,
    complexity,
    train,
    report,
    show,
    diff,
):
    app.command(
        help=_help(command.__doc__ or ""),
        context_settings={"allow_interspersed_args": command is not record},  # what follows a program is its own
    )(with_options_of_groups(command))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mhaviz {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def mhaviz(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """See what happens inside multi-head attention: weights, shapes, scaling."""
    if context.invoked_subcommand is None:
        with printing():
            typer.echo(context.get_help())
        raise typer.Exit(WRONG_COMMAND_LINE)


@parameters_named(option_name)
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status; errors become one line on standard error."""
    status = DONE
    try:
        words = list(sys.argv[1:] if arguments is None else arguments)
        _require_folder()
        with printing():  # typer prints the help
            status = _program()(args=words, prog_name="mhaviz", standalone_mode=False)
        if status == INTERRUPTED:  # typer has made this of the exception
            raise KeyboardInterrupt
    except ProgramEndedError as end:
        return end.status
    except StoppedError as interrupt:
        return _fail(str(interrupt), INTERRUPTED)
    except ArgumentError as error:
        return _fail(str(error), WRONG_COMMAND_LINE)
    except ChangedError as error:
        return _fail(str(error), CHANGED)
    except MhavizError as error:
        return _fail(str(error), COULD_NOT)
    except typer.TyperException as error:  # a usage error
        return _fail(usage_message(error, words), WRONG_COMMAND_LINE)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return _fail("out of memory; use a shorter input, a smaller d_model or fewer heads", COULD_NOT)
    except OSError as error:
        name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""  # else a descriptor
        return _fail(f"{quoted(name)}: {error.strerror or error}", COULD_NOT)
    return int(status or DONE)


def _require_folder() -> None:
    """Raise MhavizError in a folder that has been deleted, where libraries end the process, or cannot be found."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise MhavizError("the folder that this runs in has been deleted; change to another") from error


def _program() -> Any:
    """All commands, whose help shows no type for flags: they take no value."""
    program: Any = typer.main.get_command(app)
    for command in (program, *program.commands.values()):
        for option in (*command.params, command.get_help_option(typer.Context(command, help_option_names=_HELP))):
            if getattr(option, "is_flag", False):
                option.display_type_rich = lambda ctx: None
    return program


def _fail(message: str, status: int) -> int:
    """Say why it could not be done: of several processes, which torchrun ends when one fails, the first that fails."""
    if is_first_to_fail():
        say(message)
    return status

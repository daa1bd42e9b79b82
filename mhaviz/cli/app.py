"""The program, its commands, and what becomes of errors."""

import gc
import inspect
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mhaviz._version import __version__
from mhaviz.cli.commands.compare_implementations import compare_implementations
from mhaviz.cli.commands.compare_projections import compare_projections
from mhaviz.cli.commands.compare_scaling import compare_scaling
from mhaviz.cli.commands.complexity import complexity
from mhaviz.cli.commands.diff import diff
from mhaviz.cli.commands.explain import explain
from mhaviz.cli.commands.heads import heads
from mhaviz.cli.commands.heatmap import heatmap
from mhaviz.cli.commands.report import report
from mhaviz.cli.commands.show import show
from mhaviz.cli.commands.trace_shapes import trace_shapes
from mhaviz.cli.commands.train import train
from mhaviz.cli.shared.command import with_options_of_groups
from mhaviz.cli.shared.console import say
from mhaviz.cli.shared.numbers import LARGEST, beyond
from mhaviz.cli.shared.surroundings import settle_surroundings
from mhaviz.errors import ArgumentError, MhavizError, StoppedError, is_out_of_memory, shortened
from mhaviz.units import parse_whole

DONE, COULD_NOT, WRONG_COMMAND_LINE, INTERRUPTED = 0, 1, 2, 130


def _joined(text: str) -> str:
    """A docstring with each paragraph on one line: it is the terminal's width that breaks them, not the source's.

    Examples, which begin with a backspace as typer wants it, keep their lines.
    """
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(p if p.startswith("\b") else " ".join(p.split()) for p in paragraphs)


_HELP = ["-h", "--help"]
app = typer.Typer(
    name="mhaviz",
    context_settings={"help_option_names": _HELP},
)
for command in (
    heatmap,
    trace_shapes,
    explain,
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
    app.command(help=_joined(command.__doc__ or ""))(with_options_of_groups(command))


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
        typer.echo(context.get_help())
        raise typer.Exit(WRONG_COMMAND_LINE)


def run() -> int:
    """The program as it is installed.

    Most of a short run goes into importing torch and matplotlib, and much of that into the garbage collector, which
    looks again and again, and once more at the end, through objects that stay: it is told to look more rarely.
    """
    settle_surroundings()
    gc.set_threshold(100_000, 50, 50)
    _open_streams()
    status = main()
    gc.freeze()
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status; errors become one line on standard error."""
    try:
        words = list(sys.argv[1:] if arguments is None else arguments)
        status = _program()(args=words, prog_name="mhaviz", standalone_mode=False)
        sys.stdout.flush()
        if status == INTERRUPTED:  # typer has made this of the exception
            raise KeyboardInterrupt
    except StoppedError as interrupt:
        return _fail(str(interrupt), INTERRUPTED)
    except ArgumentError as error:
        return _fail(str(error), WRONG_COMMAND_LINE)
    except MhavizError as error:
        return _fail(str(error), COULD_NOT)
    except typer.TyperException as error:  # a usage error
        command = getattr(getattr(error, "ctx", None), "command_path", "mhaviz")
        message = (
            _renamed(error)
            or _asked_for_help(error, words)
            or _unreadable_number(error, words)
            or f"{_plain(error.format_message())}; see {command} --help"
        )
        return _fail(message, WRONG_COMMAND_LINE)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return _fail("out of memory; use a shorter input, a smaller d_model or fewer heads", COULD_NOT)
    except BrokenPipeError:  # who reads us has seen enough
        _silence_output()
        return DONE
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):  # which typer makes an exit of, while it prints help
            raise
        _silence_output()
        return DONE
    except OSError as error:
        _silence_output()
        return _fail(f"cannot write the result: {error.strerror or error}", COULD_NOT)
    return int(status or DONE)


_NEW_NAMES = {"--checkpoint": "--model", "--weights": "--model", "--heads": "--n-heads"}


def _program() -> Any:
    """All commands, whose help shows no type for flags: they take no value."""
    program: Any = typer.main.get_command(app)
    for command in (program, *program.commands.values()):
        for option in (*command.params, command.get_help_option(typer.Context(command, help_option_names=_HELP))):
            if getattr(option, "is_flag", False):
                option.display_type_rich = lambda ctx: None
    return program


def _renamed(error: typer.TyperException) -> str:
    """What is said of an option that has another name now; "" of any other error."""
    name = str(getattr(error, "option_name", ""))
    return f"{name} is {_NEW_NAMES[name]} now" if name in _NEW_NAMES else ""


def _asked_for_help(error: typer.TyperException, words: Sequence[str]) -> str:
    """What is said of ``mhaviz help``, and of ``mhaviz help heatmap``; "" of any other error."""
    if not words or words[0] != "help" or "No such command" not in error.format_message():
        return ""
    return f"there is no command help: use mhaviz {' '.join([*words[1:2], '--help'])}"


def _plain(message: str) -> str:
    """A usage error without the words of the library that checks types."""
    message = re.sub(r"Input should be a valid (integer|number), .*", r"expected a \1", message)
    message = re.sub(r"'[^']*'|\"[^\"]*\"", lambda match: shortened(match[0]), message)
    return message.replace("Value error, ", "").replace("expected a integer", "expected a whole number").rstrip(".")


def _unreadable_number(error: typer.TyperException, words: Sequence[str]) -> str:
    """What is said of a number of so many digits that typer cannot read it; "" of any other error."""
    if "exceeded maximum size" not in error.format_message():
        return ""
    for option in getattr(getattr(error, "param", None), "opts", ()):
        after = [word for word, before in zip(words[1:], words, strict=False) if before == option]
        joined = [word.removeprefix(f"{option}=") for word in words if word.startswith(f"{option}=")]
        for given in map(str.strip, after + joined):
            if re.fullmatch(r"[+-]?\d+", given) and abs(number := parse_whole(given)) > LARGEST:
                return beyond(option, number)
    return ""


def _silence_output() -> None:
    """Nobody can read what is left to write: let it not fail a second time at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_streams() -> None:
    """Let what a narrow encoding lacks be escaped, and stand in for streams that the caller has closed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        elif hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _fail(message: str, status: int) -> int:
    say(message)
    return status

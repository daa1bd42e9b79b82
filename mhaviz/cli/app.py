"""The program, its commands, and what becomes of errors."""

import functools
import gc
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mhaviz._version import __version__
from mhaviz.cli.compare_implementations import compare_implementations
from mhaviz.cli.compare_projections import compare_projections
from mhaviz.cli.compare_scaling import compare_scaling
from mhaviz.cli.complexity import complexity
from mhaviz.cli.console import say
from mhaviz.cli.diff import diff
from mhaviz.cli.explain import explain
from mhaviz.cli.heads import heads
from mhaviz.cli.heatmap import heatmap
from mhaviz.cli.report import report
from mhaviz.cli.show import show
from mhaviz.cli.surroundings import settle_surroundings
from mhaviz.cli.trace_shapes import trace_shapes
from mhaviz.cli.train import train
from mhaviz.errors import ArgumentError, MhavizError, StoppedError, is_out_of_memory, quoted, shortened
from mhaviz.limits import LEAST_DPI
from mhaviz.units import parse_whole

_LARGEST = 2**63 - 1  # what a whole number of these libraries can be
_LEAST = {"--seed": 0, "--layer": 0, "--generate": 0, "--dpi": LEAST_DPI}  # of other options it is 1
DONE, COULD_NOT, WRONG_COMMAND_LINE, INTERRUPTED = 0, 1, 2, 130


def _joined(text: str) -> str:
    """A docstring with each paragraph on one line: it is the terminal's width that breaks them, not the source's."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _with_small_numbers(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which no number reaches that is too large for PyTorch, numpy and matplotlib alike."""

    @functools.wraps(command)
    def checked(**values: Any) -> None:
        for name, value in values.items():
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, int) and abs(number) > _LARGEST:
                    raise ArgumentError(_beyond(f"--{name.replace('_', '-')}", number))
        command(**values)

    return checked


def _beyond(option: str, number: int) -> str:
    """What is said of a number that is too large, or so far below 0 that no option can mean it."""
    expected = f"at least {_LEAST.get(option, 1)}" if number < 0 else "a number below 2^63"
    return f"{option}: expected {expected}, got {quoted(number)}"


app = typer.Typer(
    name="mhaviz",
    context_settings={"help_option_names": ["-h", "--help"]},
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
    app.command(help=_joined(command.__doc__ or ""))(_with_small_numbers(command))


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
        status = app(args=words, prog_name="mhaviz", standalone_mode=False)
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
        message = _unreadable_number(error, words) or f"{_plain(error.format_message())}; see {command} --help"
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
            if re.fullmatch(r"[+-]?\d+", given) and abs(number := parse_whole(given)) > _LARGEST:
                return _beyond(option, number)
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

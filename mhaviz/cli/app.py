"""The program: its list of commands, and the message and exit status of each error.

The module of a command is imported when the command is called, completed, or asked for its help.
"""

import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from mhaviz._version import __version__
from mhaviz.cli import module_that_failed
from mhaviz.cli.shared.console import option_name, printing, say
from mhaviz.errors import (
    ArgumentError,
    MhavizError,
    ProgramError,
    StoppedError,
    is_out_of_memory,
    parameters_named,
    quoted,
    shortened,
)

DONE, COULD_NOT, WRONG_COMMAND_LINE = 0, MhavizError.status, ArgumentError.status

COMMANDS = {
    "heatmap": "Draw the attention weights of every head.",
    "record": "Run a PyTorch program, and draw the attention weights that it computes.",
    "embeddings": "Show what the first layer reads, X, beside the embeddings and positions of a sentence.",
    "trace-shapes": "Show the shape of every tensor of the layer, from the input to the output.",
    "check": "Check an attention layer of yours for mistakes, such as a wrong mask, scale or layout of heads.",
    "explain": "Explain one query of one head, feature by feature and key by key.",
    "matrices": "Show the whole layer as matrices with their shapes: X → Q, K, V → S → A → H → O.",
    "masks": "Show what a mask hides: scores before and after it, weights, and the weights after dropout.",
    "heads": "Show where each head of a model looks, averaged over many sentences.",
    "ablate": "Zero one head at a time, and rank the heads by how much predictions change.",
    "budget": "Show how much of each head's attention a smaller key-value cache keeps.",
    "compare-scaling": "Show why scores are divided by √d_key: scores and softmax, unscaled beside scaled.",
    "compare-projections": "Build up multi-head attention: no projection, then one, two, three, then several heads.",
    "compare-implementations": "Compute the same attention in five ways, from a loop over queries and keys to a fused "
    "kernel.",
    "complexity": "Count the cost of attention, N²·d_model + N·d_model², and measure it.",
    "train": "Train a small model made of mhaviz's own layers, so that its maps have something to show.",
    "evaluate": "Count the held-out sentences that a trained model translates correctly.",
    "report": "Put tokens, heads, shapes and scaling on one page.",
    "show": "Draw saved attention weights.",
    "diff": "Show what differs between two saved attentions, or between two models over a corpus.",
    "samples": "Write the sample files that the examples use to a folder.",
}
"""First line of the help of each command. Its function is in the module of the same name in ``commands``."""


class _LazyGroup(TyperGroup):
    """A group that knows the names and first lines of its commands, and builds the one that is called."""

    def __init__(self, **settings: Any) -> None:
        named = {name: TyperCommand(name, help=line) for name, line in COMMANDS.items()}
        super().__init__(**settings | {"commands": named})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that is called, with its options. Typer calls this to run it, and to complete options."""
        name, named, rest = super().resolve_command(ctx, args)
        return name, named and load_command(str(name)), rest


def load_command(name: str) -> TyperCommand:
    """Import the module of a command, and build its options."""
    from mhaviz.cli.command import command_of

    function = name.replace("-", "_")
    module = import_module(f"mhaviz.cli.commands.{function}")
    # Options after the program's name are the program's.
    return command_of(getattr(module, function), name, allow_interspersed_args=name != "record")


app = typer.Typer(name="mhaviz", cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})


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
    """Visualise multi-head attention: weights, matrices, shapes and heads."""
    if context.invoked_subcommand is None:
        with printing():
            typer.echo(context.get_help())
        raise typer.Exit(WRONG_COMMAND_LINE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program on these arguments and return its exit status. An error is one line on standard error, and maybe
    a program below it that does what could not be done."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    status = DONE
    try:
        _require_folder()
        with printing():  # typer prints the help
            status = _run(words)
    except ProgramError as error:
        _fail(error.message, error.status)
        print(f"\n{error.program}\n", file=sys.stderr)  # noqa: T201
        return error.status
    except MhavizError as error:
        return _fail(str(error), error.status)
    except typer.TyperException as error:
        return _fail(_usage_message(error, words), WRONG_COMMAND_LINE)
    except KeyboardInterrupt:
        return _fail("interrupted", StoppedError.status)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return _fail("out of memory; use a shorter input, a smaller d_model or fewer heads", COULD_NOT)
    except OSError as error:
        if error.errno is None and module_that_failed(error):  # a library lacks another
            raise
        name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""  # else a descriptor
        return _fail(f"{quoted(name)}: {error.strerror or error}", COULD_NOT)
    return int(status or DONE)


def _run(words: list[str]) -> Any:
    """Run the program on these words, and return its exit status.

    If the first word is a command, the command is run without the group, for whose options typer imports pydantic in
    90 ms. The group shows help, completes words, and reports commands that do not exist.
    """
    if words and words[0] in COMMANDS:
        command = load_command(words[0])
        options = {option for one in command.params for option in one.opts}
        with parameters_named(option_name, lambda name: option_name(name).partition(" ")[0] in options):
            return command(words[1:], prog_name=f"mhaviz {words[0]}", standalone_mode=False)
    from mhaviz.cli.command import with_plain_flags

    return with_plain_flags(typer.main.get_command(app))(words, prog_name="mhaviz", standalone_mode=False)


def _require_folder() -> None:
    """Raise MhavizError if the current folder has been deleted: libraries would end the process, or not be found."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise MhavizError("the current folder has been deleted; change to another") from error


def _usage_message(error: Any, words: Sequence[str]) -> str:
    """Return typer's message on a command line that it cannot parse, with the command that shows help."""
    command = " ".join(["mhaviz", *(word for word in words[:1] if word in COMMANDS)])
    wrong = re.sub(r"'[^']*'|\"[^\"]*\"", lambda match: shortened(match[0]), error.format_message()).rstrip(".")
    wrong = re.sub(r"^Invalid value for '(--\S+)': (Value error, )?", r"\1: ", wrong)
    return f"{wrong}{' See' if wrong.endswith('?') else '; see'} {command} --help"


def _fail(message: str, status: int) -> int:
    """Print the message of an error, and return the exit status."""
    say(message)
    return status

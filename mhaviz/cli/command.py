"""Typer commands, made from functions that take groups of options."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from mhaviz.cli import module_that_failed
from mhaviz.cli.shared.console import option_name
from mhaviz.errors import ArgumentError, StoppedError, quoted
from mhaviz.pages import registry

HELP_OPTIONS = ["-h", "--help"]


def command_of(function: Callable[..., None], name: str, **settings: Any) -> TyperCommand:
    """Return the command of a function, whose docstring is the help.

    A parameter that is a dataclass becomes one option for each of its fields. The command raises ArgumentError for a
    number that is too large for PyTorch, NumPy and matplotlib. ``settings``: settings of typer's context.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {one: hint for one, hint in hints.items() if is_dataclass(hint)}
    options = {one: inspect.signature(group).parameters for one, group in groups.items()}
    parameters: list[inspect.Parameter] = []
    for one, parameter in inspect.signature(function).parameters.items():
        annotations = get_type_hints(groups[one], include_extras=True) if one in groups else hints
        parameters += [
            option.replace(annotation=annotations[option.name], kind=option.KEYWORD_ONLY)
            for option in options.get(one, {one: parameter}).values()
        ]
    if any(get_args(one.annotation)[1].hidden for one in parameters):
        parameters.append(inspect.Parameter("help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_All))

    def run(**values: Any) -> None:
        values.pop("help_all", None)
        _require_small(values)
        made = {one: group(**{name: values.pop(name) for name in options[one]}) for one, group in groups.items()}
        try:
            function(**made, **values)
        except KeyboardInterrupt:  # typer would turn it into exit status 130, which a recorded program may have, too
            raise StoppedError("interrupted") from None
        except EOFError as error:  # of a module whose bytecode is cut off; typer would take it for Ctrl-D
            raise ImportError(str(error), name=module_that_failed(error)) from error

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app = typer.Typer(add_completion=False)
    settings |= {"help_option_names": HELP_OPTIONS}
    app.command(name, help=_help(function.__doc__ or ""), context_settings=settings)(run)
    command: TyperCommand = with_plain_flags(typer.main.get_command(app))
    return command


def with_plain_flags(command: Any) -> Any:
    """Return the command with no type shown in its help for flags, as they take no value."""
    for option in (*command.params, command.get_help_option(typer.Context(command, help_option_names=HELP_OPTIONS))):
        if getattr(option, "is_flag", False):
            option.display_type_rich = lambda ctx: None
    return command


def _help(text: str) -> str:
    """Return a docstring with each paragraph on one line, so that lines are broken at the width of the terminal.

    Names in braces, such as {MAP_SUFFIXES}, are replaced by these suffixes of ``registry``. A paragraph that begins
    with a backspace, as examples do for typer, keeps its lines.
    """
    for name, suffixes in vars(registry).items():
        if name.endswith("_SUFFIXES"):
            text = text.replace(f"{{{name}}}", f"{', '.join(suffixes[:-1])} or {suffixes[-1]}")
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(p if p.startswith("\b") else " ".join(p.split()) for p in paragraphs)


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
"""Option of commands that have rare options, made with ``hidden=True``, for which --help has no room."""


def given(group: Any) -> list[str]:
    """Return the names of a group's options that differ from their defaults."""
    return [option_name(one.name) for one in fields(group) if getattr(group, one.name) != one.default]


def asked(group: Any) -> dict[str, Any]:
    """Return a group's options as arguments, without those that are None."""
    return {name: value for name, value in vars(group).items() if value is not None}


def require_unread(groups: Iterable[Any], read: Collection[str], study: str) -> None:
    """Raise ArgumentError if options are given that a study does not read. ``read``: the options that it reads."""
    if others := [name for group in groups for name in given(group) if name not in read]:
        raise ArgumentError(f"{study}; leave out {', '.join(others)}")


def _require_small(values: Mapping[str, Any]) -> None:
    """Raise ArgumentError for a number that does not fit into 64 bits."""
    for name, value in values.items():
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and abs(number) >= 2**63:
                raise ArgumentError(f"{option_name(name)}: expected a number from -2^63 to 2^63, got {quoted(number)}")

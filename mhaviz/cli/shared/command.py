"""How a command is made of groups of options: dataclasses, each field of which is an option."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

from mhaviz.cli.shared.numbers import require_small


def with_options_of_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer takes it: a parameter that is a dataclass becomes a parameter for each of its fields.

    No number reaches the command that is too large for PyTorch, numpy and matplotlib alike.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        hint = hints[name]
        if not is_dataclass(hint):
            parameters.append(parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[name] = hint
        of_fields = get_type_hints(hint, include_extras=True)
        for field in fields(hint):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            parameters.append(
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=of_fields[field.name]
                )
            )

    @functools.wraps(command)
    def run(**values: Any) -> None:
        require_small(values)
        made = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**made, **values)

    del run.__wrapped__  # whose signature typer would take
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run

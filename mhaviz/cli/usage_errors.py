"""Error messages for a command line that cannot be parsed."""

import re
from collections.abc import Sequence

import typer

from mhaviz.errors import quoted, shortened
from mhaviz.units import parse_whole

LARGEST = 2**63 - 1
"""What a whole number of PyTorch, numpy and matplotlib can be."""

_NEW_NAMES = {"--checkpoint": "--model", "--weights": "--model", "--heads": "--n-heads"}


def usage_message(error: typer.TyperException, words: Sequence[str]) -> str:
    """What is wrong, and what to do. ``words``: the command line."""
    name, message = str(getattr(error, "option_name", "")), error.format_message()
    context = getattr(error, "ctx", None)
    options = {option for one in getattr(getattr(context, "command", None), "params", ()) for option in one.opts}
    if _NEW_NAMES.get(name) in options:
        return f"{name} is {_NEW_NAMES[name]} now"
    if words[:1] == ["help"] and "No such command" in message:
        return f"there is no command help: use mhaviz {' '.join([*words[1:2], '--help'])}"
    command = getattr(context, "command_path", "mhaviz")
    wrong = _plain(message)
    advice = f" See {command} --help" if wrong.endswith("?") else f"; see {command} --help"
    return _unreadable_number(error, words) or wrong + advice


def beyond(option: str, number: int) -> str:
    """What is said of a number that is too large, or so far below 0 that no option can mean it."""
    return f"{option}: expected a number {'from 0 on' if number < 0 else 'below 2^63'}, got {quoted(number)}"


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

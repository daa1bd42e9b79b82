"""Errors of mhaviz. A message says what was expected, what was given, and what to do about it.

A message is one line. Values of the user, and errors of other libraries, are shortened in it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_QUOTED, _REASON = 60, 160
"""Most characters of a value, and of another library's error, in a message."""

_name_parameter: ContextVar[Callable[[str], str]] = ContextVar("name_parameter", default="`{}`".format)
_is_accepted: ContextVar[Callable[[str], bool]] = ContextVar("is_accepted", default=lambda name: True)


class MhavizError(Exception):
    """Base class of the errors of mhaviz. The message is one line, written for the user.

    ``status``: exit status of the command line.

    Examples:
        >>> try:
        ...     mhaviz.read("missing.npy")
        ... except mhaviz.MhavizError as error:
        ...     print(error)
        cannot read missing.npy: No such file or directory
    """

    status = 1


class ArgumentError(MhavizError, ValueError):
    """Error for an argument or option that cannot be used. It is a ``ValueError`` as well.

    Examples:
        >>> try:
        ...     mhaviz.load("random", n_heads=7)
        ... except mhaviz.ArgumentError as error:
        ...     print(error)
        expected heads that divide d_model evenly, got d_model 512 and 7 heads; try 4 or 8 heads
    """

    status = 2


class ProgramError(ArgumentError):
    """Error with a program that does what could not be done.

    Attributes:
        message: the message, one line.
        program: lines of the program, which can be copied; "": there is none.
    """

    def __init__(self, message: str, program: str = "") -> None:
        self.message, self.program = message, program
        super().__init__(f"{message}\n\n{program}" if program else message)


class TooLongError(ArgumentError):
    """Error for a text with more tokens than a model can read, which studies of many texts leave out."""


class ChangedError(MhavizError):
    """Error for attentions that differ by more than a limit; the message names the head and the difference."""

    status = 3


class StoppedError(MhavizError):
    """Error for work that the user has stopped; the message says what has been kept of it."""

    status = 130


@contextmanager
def begun_by(where: str) -> Iterator[None]:
    """Begin each ArgumentError of this block with where its cause is: "chats.jsonl, line 3"."""
    try:
        yield
    except ArgumentError as error:
        raise type(error)(f"{where}: {error}") from error


def parameter(name: str) -> str:
    """Return a parameter's name for a message: in backticks, or as an option on the command line."""
    return _name_parameter.get()(name)


def is_accepted(name: str) -> bool:
    """Return whether a message may advise a parameter: on the command line, whether the command has its option."""
    return _is_accepted.get()(name)


@contextmanager
def parameters_named(by: Callable[[str], str], accepted: Callable[[str], bool] = lambda name: True) -> Iterator[None]:
    """Let ``parameter`` name parameters, and ``is_accepted`` tell which can be given, by these functions in the block.

    Names cannot be replaced in a finished message, which may quote the user's own text.
    """
    tokens = _name_parameter.set(by), _is_accepted.set(accepted)
    try:
        yield
    finally:
        _name_parameter.reset(tokens[0])
        _is_accepted.reset(tokens[1])


@contextmanager
def not_accepted(name: str) -> Iterator[None]:
    """Let no message in the block advise a parameter, as it does not go with others that are given."""
    accepted = _is_accepted.get()
    with parameters_named(_name_parameter.get(), lambda other: other != name and accepted(other)):
        yield


def quoted(value: object) -> str:
    """Return a value for a message: its ``repr``, cut in the middle if it is long."""
    if isinstance(value, int) and abs(value) >= 10**_QUOTED:
        sign = " negative" if value < 0 else ""
        return f"a{sign} number of more than {_QUOTED} digits"  # Python refuses to write numbers of thousands of digits
    return shortened(repr(value))


def shortened(text: str, most: int = _QUOTED) -> str:
    """Return a text for a message without quotes, cut in the middle to ``most`` characters if it is long."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}…{text[1 - half :]}"


def counted(number: int, thing: str = "") -> str:
    """Return "1,234", or of a thing "1 token", "21,400 tokens". Very long numbers are ``quoted``."""
    text = f"{number:,}" if abs(number) < 10**_QUOTED else quoted(number)
    return f"{text} {thing if number == 1 else plural(thing)}" if thing else text


def plural(thing: str) -> str:
    """Return the plural of a noun: "tokens", "passes", "queries", "keys".

    >>> plural("query"), plural("key"), plural("pass")
    ('queries', 'keys', 'passes')
    """
    if thing.endswith("y") and thing[-2:-1] not in "aeiou":
        return f"{thing[:-1]}ies"
    return f"{thing}es" if thing.endswith("s") else f"{thing}s"


def reason(error: BaseException) -> str:
    """Return another library's error in one line. That of a KeyError is only its key, to which words are added."""
    text = " ".join(str(error).split())
    if not text:
        return type(error).__name__
    if isinstance(error, KeyError):
        text = f"there is no {shortened(text)}"
    return text if len(text) <= _REASON else f"{text[: _REASON - 1]}…"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory has run out. PyTorch raises a RuntimeError: on a GPU, a subclass of this name."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or (isinstance(error, RuntimeError) and "allocate memory" in str(error))


@contextmanager
def as_one_line(what: str, advice: str = "") -> Iterator[None]:
    """Convert any error of a library inside this block to a MhavizError: "WHAT (REASON); ADVICE".

    Libraries raise anything on broken files: TypeError, RecursionError, AssertionError, or the PanicException of Rust,
    which is not a subclass of Exception. MhavizError, Ctrl-C and a lack of memory are not converted.
    """
    try:
        yield
    except (MhavizError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        if is_out_of_memory(error):
            raise
        raise MhavizError(f"{what} ({reason(error)})" + (f"; {advice}" if advice else "")) from error

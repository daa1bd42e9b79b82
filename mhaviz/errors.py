"""One family of errors. A message says what was expected, what came, and what to do about it.

What a message quotes, of a user or of another library, is cut: an error is one line that can be read.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_QUOTED, _REASON = 60, 160
"""The most characters of a value, and of somebody else's error, in a message."""

_name_parameter: ContextVar[Callable[[str], str]] = ContextVar("name_parameter", default="`{}`".format)


class MhavizError(Exception):
    """Something could not be done; the message is one line, written for the person who asked for it.

    ``status``: the exit status of the command line.

    Examples:
        >>> try:
        ...     mhaviz.read("missing.npy")
        ... except mhaviz.MhavizError as error:
        ...     print(error)
        cannot read missing.npy: No such file or directory
    """

    status = 1


class ArgumentError(MhavizError, ValueError):
    """A value that was passed in cannot be used. It is also a ``ValueError``, for callers in Python.

    Examples:
        >>> try:
        ...     mhaviz.load("random", n_heads=7)
        ... except mhaviz.ArgumentError as error:
        ...     print(error)
        expected heads that divide d_model evenly, got d_model 512 and 7 heads; try 4 or 8 heads
    """

    status = 2


class ChangedError(MhavizError):
    """Two attentions were compared, and differ by more than is allowed; the message says in which head, by how much."""

    status = 3


class StoppedError(MhavizError):
    """The user has stopped the work; the message says what there is of it."""

    status = 130


def parameter(name: str) -> str:
    """A parameter in a message: in backticks, or as the option that it is on the command line."""
    return _name_parameter.get()(name)


@contextmanager
def parameters_named(by: Callable[[str], str]) -> Iterator[None]:
    """Name the parameters in messages so, while they are made: a finished message also quotes what a user wrote."""
    token = _name_parameter.set(by)
    try:
        yield
    finally:
        _name_parameter.reset(token)


def quoted(value: object) -> str:
    """A value that somebody gave, as it stands in a message: its ``repr``, cut in the middle if it is long."""
    if isinstance(value, int) and abs(value) >= 10**_QUOTED:
        sign = " negative" if value < 0 else ""
        return f"a{sign} number of more than {_QUOTED} digits"  # Python refuses to write numbers of thousands of digits
    return shortened(repr(value))


def shortened(text: str) -> str:
    """A text that stands in a message as it is, such as what another library has quoted: cut in the middle, if long."""
    half = _QUOTED // 2
    return text if len(text) <= _QUOTED else f"{text[:half]}…{text[1 - half :]}"


def counted(number: int) -> str:
    """A number that somebody gave, as people read it: "1,234"; what is too long to be read is ``quoted``."""
    return f"{number:,}" if abs(number) < 10**_QUOTED else quoted(number)


def reason(error: BaseException) -> str:
    """Somebody else's error in one line, without its traceback; a KeyError says no more than the key."""
    text = " ".join(str(error).split())
    if not text:
        return type(error).__name__
    if isinstance(error, KeyError):
        text = f"there is no {shortened(text)}"
    return text if len(text) <= _REASON else f"{text[: _REASON - 1]}…"


def is_out_of_memory(error: BaseException) -> bool:
    """PyTorch says so by a RuntimeError: on the CPU with these words, on a GPU with a class of this name."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or (isinstance(error, RuntimeError) and "allocate memory" in str(error))


@contextmanager
def as_one_line(what: str, advice: str = "") -> Iterator[None]:
    """Make a MhavizError of whatever a library raises on data that is not ours: "WHAT (REASON); ADVICE".

    Libraries that read foreign files raise anything: TypeError, RecursionError, AssertionError, and the PanicException
    of programs in Rust, which is no Exception. Ours, Ctrl-C and a lack of memory stay what they are.
    """
    try:
        yield
    except (MhavizError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        if is_out_of_memory(error):
            raise
        raise MhavizError(f"{what} ({reason(error)})" + (f"; {advice}" if advice else "")) from error

"""A check of a layer in a user's file: the file is imported, and the layer built from arguments that the user gives.

All of this runs the user's code. The command line does it in a child process.
"""

import dataclasses
import importlib.util
import inspect
import linecache
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from mhaviz.errors import ArgumentError, MhavizError, is_out_of_memory, parameter, quoted, reason, shortened
from mhaviz.inputs.sizes import D_MODEL, N_HEADS, size_among
from mhaviz.results.check import Check
from mhaviz.results.result import Source

_CONFIGS = ("config", "cfg", "conf", "args", "hparams")
"""Names of a parameter that takes all sizes in one object."""

_FIRST = {
    *("x", "X", "q", "Q", "query", "queries", "k", "K", "key", "v", "V", "value", "h", "inp", "input", "inputs"),
    *("hidden_states", "src", "tgt", "embeddings", "tokens"),
}
"""Names of the first parameter of a function that may be an attention."""

_OURS = str(Path(__file__).parents[1])
_MOST_NAMES = 8  # of what a file has, in a message


@dataclass(frozen=True)
class Target:
    """A layer by the name that it has in a file or a module.

    Attributes:
        place: path of the file, or dotted name of the module.
        name: name in it, such as "MyAttention" or "model.blocks.0.attn"; "": not given.
        is_file: whether ``place`` is a file.
    """

    place: str
    name: str
    is_file: bool

    @classmethod
    def of(cls, text: str) -> "Target":
        """Split "model.py:MyAttention" or "package.module:MyAttention".

        Raises:
            ArgumentError: it is neither.
            MhavizError: there is no such file.
        """
        place, mark, name = text.rpartition(":")
        if not mark or not re.fullmatch(r"[\w.]*", name) or Path(text).is_file():
            place, name = text, ""
        if not place or "\0" in place:
            raise ArgumentError(f"expected FILE.py:NAME or MODULE:NAME, got {quoted(text)}")
        path = Path(place)
        if not path.is_file() and all(part.isidentifier() for part in place.split(".")) and path.suffix != ".py":
            return cls(place, name, False)
        if path.suffix == ".ipynb":
            raise ArgumentError(f"expected a Python file, got the notebook {place}; in a notebook, call mhaviz.check")
        if path.is_dir():
            raise ArgumentError(f"expected FILE.py:NAME or MODULE:NAME, got the folder {place}")
        if not path.exists():
            raise MhavizError(f"there is no file {shortened(place)}; give FILE.py:NAME, or MODULE:NAME")
        if not path.is_file():
            raise ArgumentError(f"expected a Python file, got {place}, a device or a pipe")
        return cls(place, name, True)

    def __str__(self) -> str:
        shown = Path(self.place).name if self.is_file else self.place
        return f"{shown}:{self.name}" if self.name else shown

    @property
    def folder(self) -> Path:
        """Folder that comes first in ``sys.path``: that of the file, as in ``python FILE``, or the current folder."""
        return Path(self.place).resolve().parent if self.is_file else Path.cwd()


def check_file(
    target: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    d_model: int | None = None,
    n_heads: int | None = None,
    ignore: Sequence[str] = (),
    seed: int = 0,
    time_limit: float = 60.0,
    on_progress: Callable[[str], None] = lambda what: None,
    on_notice: Callable[[str], None] = lambda line: None,
) -> Check:
    """Import a file or a module, build a layer of it, and check the layer.

    This runs the code of the file, which may change anything in this process.

    Args:
        target: see ``Target.of``.
        arguments: arguments of the layer's class or function.
        d_model, n_heads: sizes of the layer; None: taken from its arguments under their usual names, if they have one.
        ignore, seed: as in ``mhaviz.check``. The layer is built with this seed, too.
        time_limit: seconds for all of it.
        on_progress: is called with what is done next.
        on_notice: is called with what the user should know, a line each.

    Raises:
        ArgumentError: there is no such name, or the arguments do not fit.
        MhavizError: the code raises an error, or ends the process.
    """
    from mhaviz.api.checking import check

    begun, given = time.monotonic(), Target.of(target)
    folder, current = given.folder, Path.cwd()
    sys.path.insert(0, str(folder))
    sys.argv[:] = [given.place]
    _seed(seed)
    user = _User(given, folder, current)
    on_progress(f"importing {given.place}")
    with user.running(f"cannot import {given.place}"):
        module = _import(given)
    with user.running(f"cannot find {given}"):
        name, found = _find(module, given)
    user.given = given = replace(given, name=name)
    on_progress(f"building {given}")
    _seed(seed)
    sizes = {"d_model": d_model, "n_heads": n_heads}
    builder = _Builder(name, dict(arguments or {}), {key: size for key, size in sizes.items() if size}, on_notice)
    with user.running(
        f"cannot build {name}", builder.advice, f"mend it, or give other arguments by {parameter('with')}"
    ):
        layer = builder.build(found)
    values = builder.values
    on_progress(f"checking {given}")
    with user.running(f"cannot check {given}"):
        checked = check(
            layer,
            d_model=d_model or size_among(values, D_MODEL),
            n_heads=n_heads or size_among(values, N_HEADS),
            ignore=ignore,
            seed=seed,
            time_limit=max(time_limit - (time.monotonic() - begun), 0.1),
            on_progress=lambda what: on_progress(f"checking {given}: {what}"),
        )
    return user.named(checked, dict(arguments or {}))


def _seed(seed: int) -> None:
    """Set the seed of all that a layer may draw its parameters from."""
    import numpy as np
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


@dataclass
class _User:
    """The user's code: what it is called in messages, and which frames are its own."""

    given: Target
    folder: Path
    current: Path

    @contextmanager
    def running(
        self, what: str, advice: Callable[[BaseException], str] = lambda error: "", otherwise: str = "mend it first"
    ) -> Iterator[None]:
        """Run the user's code in this block, and raise MhavizError for whatever it raises.

        Args:
            what: what cannot be done then.
            advice: returns what to do about an error; "": not known.
            otherwise: what to do about any other error.
        """
        try:
            yield
        except MhavizError:
            raise
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
            said = f", saying {quoted(end.code)}" if isinstance(end.code, str) else ""
            raise MhavizError(
                f"{what}: the program ended the process with status {status}{self._at(end)}{said}; expected it to "
                f"return: put what runs it below if __name__ == '__main__'"
            ) from end
        except BaseException as error:
            if is_out_of_memory(error):
                raise MhavizError(
                    f"{what} (out of memory{self._at(error)}); give smaller sizes by {parameter('with')}"
                ) from error
            why = reason(error) if str(error) else self._source_of(error)
            told = f"{type(error).__name__}{self._at(error)}{': ' * bool(why)}{why}"
            raise MhavizError(f"{what} ({told}); {advice(error) or self._advice(error) or otherwise}") from error

    def _advice(self, error: BaseException) -> str:
        """Return what to do about an error of the user's code; "": not known."""
        if isinstance(error, ModuleNotFoundError) and error.name:
            if f"{self.given.place}.".startswith(f"{error.name}."):
                return f"give FILE.py:NAME, or a module that is installed or lies in {self.folder}"
            return f"install {shortened(error.name)} beside mhaviz, for {sys.executable}, or leave its import out"
        if isinstance(error, ImportError) and "relative import" in str(error):
            module = f"{self.folder.name}.{Path(self.given.place).stem}"
            return f"it is part of a package: give {module}:NAME, from the folder above"
        if re.search("cuda|nvidia", f"{type(error).__name__} {error}", re.IGNORECASE):
            return "it needs CUDA, and is checked on the CPU: expected tensors on the device of the input, x.device"
        return ""

    def _at(self, error: BaseException) -> str:
        """Return the last line of the user's own code that led to an error: " in model.py:12"; "": there is none."""
        if isinstance(error, SyntaxError) and error.filename and error.lineno:
            return f" in {self.path(error.filename)}:{error.lineno}"
        lines = self._lines(error)
        return f" in {self.path(lines[-1][0])}:{lines[-1][1]}" if lines else ""

    def _source_of(self, error: BaseException) -> str:
        """Return the text of that line, such as "assert d_model % n_heads == 0"; "": there is none."""
        lines = self._lines(error)
        return shortened(linecache.getline(*lines[-1]).strip()) if lines else ""

    def _lines(self, error: BaseException) -> list[tuple[str, int]]:
        """Return the lines of the user's own code that led to an error."""
        steps = [(step.f_code.co_filename, line) for step, line in traceback.walk_tb(error.__traceback__)]
        return [(file, line) for file, line in steps if is_of_user(file, self.folder)]

    def path(self, file: str) -> str:
        """Return a path as seen from the folder in which the user called mhaviz, or as the user gave it."""
        with suppress(ValueError):
            return str(Path(file).relative_to(self.current))
        if self.given.is_file:  # its folder may be a link to elsewhere
            with suppress(ValueError):
                return str(Path(self.given.place).parent / Path(file).relative_to(self.folder))
        return file

    def named(self, check: Check, arguments: Mapping[str, Any]) -> Check:
        """Return the check with the user's names: of the layer, in its source, and of files."""
        source = check.source
        details = {**source.details, "program": str(self.given)}
        if arguments:
            details["arguments"] = {name: _plain(value) for name, value in arguments.items()}
        of_layer = source.footnote.removeprefix(f"{source.details.get('name')}, ")
        if size_among(arguments, D_MODEL):
            of_layer = of_layer.removeprefix(f"d_model {source.details.get('d_model')}, ")
        footnote = ", ".join(filter(None, [str(self.given), _written(arguments), of_layer]))
        findings = tuple(
            replace(one, line=one.line and replace(one.line, file=self.path(one.line.file))) for one in check.findings
        )
        return replace(check, source=Source(footnote, details, source.remark), findings=findings)


def is_of_user(file: str, folder: Path) -> bool:
    """Return whether a file of code lies in the user's folder, and is neither ours nor an installed library's."""
    path = Path(file)
    return path.is_relative_to(folder) and not (path.is_relative_to(_OURS) or "site-packages" in path.parts)


def _import(given: Target) -> ModuleType:
    """Import the file or the module. A file is not __main__, so that nothing below ``if __name__ == "__main__"`` runs.

    A file is compiled anew: bytecode that Python keeps may be that of a file of the same size and second.
    """
    if not given.is_file:
        return importlib.import_module(given.place)
    path = str(Path(given.place).resolve())
    name = Path(path).stem
    if name in sys.modules or not name.isidentifier():  # a library of that name stays what it is
        name = f"checked_{re.sub(r'[^0-9a-zA-Z_]', '_', name)}"
    loader = SourceFileLoader(name, path)
    spec = ModuleSpec(name, loader, origin=path)
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as dataclasses and pickle look for it there
    try:
        code = compile(loader.get_data(path), path, "exec", dont_inherit=True)
    except ValueError as error:  # NUL, in some versions of Python
        raise SyntaxError(str(error)) from error
    exec(code, module.__dict__)
    return module


def _find(module: ModuleType, given: Target) -> tuple[str, Any]:
    """Return the name and the object that are asked for; without a name, the only one that may be an attention.

    Raises ArgumentError if there is none, or more than one.
    """
    if not given.name:
        names = _candidates(module)
        if len(names) != 1:
            raise ArgumentError(f"expected a name after {given.place}, as {given.place}:NAME; {_listed(names)}")
        return names[0], getattr(module, names[0])
    found: Any = module
    walked: list[str] = []
    for part in given.name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            if found is not module:
                message = f"{given.place}: {'.'.join(walked)}, {_kind(found)}, has no {shortened(part)}"
                raise ArgumentError(f"{message}; give the name of a layer in it") from error
            message = f"there is no {shortened(part)} in {given.place}; {_listed(_candidates(module))}"
            raise ArgumentError(message) from error
        walked.append(part)
    if not callable(found):
        raise ArgumentError(
            f"{given}: expected a class, a function or an instance of a layer, got {_kind(found)}; "
            f"{_listed(_candidates(module))}"
        )
    return given.name, found


def _kind(value: object) -> str:
    kind = "a module" if isinstance(value, ModuleType) else type(value).__name__
    return f"{kind} {shortened(value.__name__)}" if isinstance(value, type | ModuleType) else kind


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "it has no class of torch.nn.Module, no instance of such, and no function on queries or x"
    more = f" and {len(names) - _MOST_NAMES} more" * (len(names) > _MOST_NAMES)
    return f"it has {', '.join(names[:_MOST_NAMES])}{more}"


def _candidates(module: ModuleType) -> list[str]:
    """Return the names of what may be an attention, those first that are called so."""
    from torch import nn

    names = []
    for name, value in list(vars(module).items()):
        is_own = getattr(value, "__module__", None) == module.__name__
        if isinstance(value, type):
            is_there = is_own and issubclass(value, nn.Module)
        elif inspect.isfunction(value):
            is_there = is_own and next(iter(inspect.signature(value).parameters), "") in _FIRST
        else:
            is_there = isinstance(value, nn.Module)
        if is_there and not name.startswith("_"):
            names.append(name)
    return sorted(names, key=lambda name: "att" not in name.lower())


class _Builder:
    """Builds a layer from the arguments that the user gives.

    Args:
        name: name of the layer's class or function.
        arguments: arguments by name.
        sizes: d_model and n_heads, if the user gives them apart, for parameters that have no other argument.
        on_notice: is called with what else the user should know.
    """

    def __init__(
        self, name: str, arguments: dict[str, Any], sizes: dict[str, int], on_notice: Callable[[str], None]
    ) -> None:
        self._name, self._arguments, self._sizes, self._on_notice = name, arguments, sizes, on_notice
        self._config: object = None
        self._reads: tuple[str, ...] = ()
        self.values: dict[str, Any] = dict(arguments)
        """All arguments by name, with the defaults of those that are not given."""

    def build(self, found: Any) -> Any:
        """Return the layer: an instance of a class; what a function that takes no tensors returns; or ``found`` itself.

        Raises ArgumentError if the arguments do not fit.
        """
        if isinstance(found, type):
            return self._made(found)
        if inspect.isroutine(found) or isinstance(found, partial):
            return self._of_function(found)
        if self._arguments:
            raise ArgumentError(
                f"{self._name} is an instance, and takes no arguments; leave out {parameter('with')}{self._as_sizes()}"
            )
        return found

    def _made(self, function: Any) -> Any:
        """Return the layer that a class or a function makes."""
        layer = function(**self._bound(function))
        if not callable(layer):
            raise ArgumentError(
                f"expected {self._name} to be an attention, or to make one, got {_kind(layer)} from it, which cannot "
                f"be called; an attention takes x, or queries, keys and values"
            )
        return layer

    def _of_function(self, function: Any) -> Any:
        """Return a function with the user's arguments; or what it makes, if it takes sizes and no tensors."""
        parameters = _parameters(function)
        if parameters is None:
            return function
        left = [p for p in parameters if p.name not in self._arguments and p.kind != p.VAR_KEYWORD]
        needed = {p.name for p in left if p.default is p.empty and p.kind != p.VAR_POSITIONAL}
        takes_tensors = any(p.kind == p.VAR_POSITIONAL or p.name in _FIRST for p in left)
        if not takes_tensors and (not needed or needed & _SIZES):
            return self._made(function)
        arguments = self._filled([p.name for p in parameters])
        self._require_known(parameters)
        self._require_all(sorted(needed & _SIZES - arguments.keys()))
        self.values = _defaults(parameters) | arguments
        return partial(function, **arguments) if arguments else function

    def _bound(self, function: Any) -> dict[str, Any]:
        """Return the arguments of a class, or of a function that makes a layer."""
        parameters = _parameters(function)
        if parameters is None:
            return self._arguments
        needed = [p.name for p in parameters if p.default is p.empty and p.kind not in _VARIADIC]
        if len(needed) == 1 and needed[0] in _CONFIGS and needed[0] not in self._arguments:
            return {needed[0]: self._configured(function, needed[0])}
        arguments = self._filled([p.name for p in parameters])
        self._require_known(parameters)
        self._require_all([name for name in needed if name not in arguments])
        self.values = _defaults(parameters) | arguments
        return arguments

    def _filled(self, names: Collection[str]) -> dict[str, Any]:
        """Return the user's arguments, with sizes that are given apart under the first of these names that is one."""
        arguments = dict(self._arguments)
        for size, known in (("d_model", D_MODEL), ("n_heads", N_HEADS)):
            taking = [name for name in known if name in names]
            if size in self._sizes and taking and taking[0] not in arguments:
                arguments[taking[0]] = self._sizes[size]
        return arguments

    def _require_all(self, missing: Sequence[str]) -> None:
        """Raise ArgumentError if arguments are missing."""
        if missing:
            raise ArgumentError(f"{self._name} needs {_and(missing)}; give {_pairs(missing)}")

    def _require_known(self, parameters: Sequence[inspect.Parameter]) -> None:
        """Raise ArgumentError for an argument that is not among these parameters."""
        if any(p.kind == p.VAR_KEYWORD for p in parameters):
            return
        known = [p.name for p in parameters if p.kind not in _VARIADIC]
        if unknown := [name for name in self._arguments if name not in known]:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ArgumentError(
                f"{self._name} has no argument {shortened(unknown[0])}; {takes}{self._as_sizes(unknown[:1])}"
            )

    def _as_sizes(self, names: Collection[str] | None = None) -> str:
        """Return the advice to give sizes by options of their own; "": no size is among these arguments."""
        among = {name: value for name, value in self._arguments.items() if names is None or name in names}
        sizes = [("d_model", size_among(among, D_MODEL)), ("n_heads", size_among(among, N_HEADS))]
        given = [f"{parameter(name)} {size}" for name, size in sizes if size]
        return f"; give {' and '.join(given)}" if given else ""

    def _configured(self, function: Any, name: str) -> Any:
        """Return the object that holds all sizes: of the dataclass that annotates it, or a plain namespace."""
        if kind := _dataclass_of(function, name):
            inner = _Builder(kind.__name__, self._arguments, self._sizes, self._on_notice)
            self._config = kind(**inner._bound(kind))
            self.values = inner.values
            self._on_notice(f"{self._name}({name}): {name} is {shortened(repr(self._config), 200)}")
            return self._config
        reads = _read_of(function, name)
        self.values = self._filled([*reads, *self._arguments])
        self._reads = tuple(one for one in reads if one not in self.values)
        if not self.values:
            raise ArgumentError(f"{self._name} needs {name}; give {_pairs(reads or [D_MODEL[0], N_HEADS[0]])}")
        self._config = SimpleNamespace(**self.values)
        self._on_notice(f"{self._name}({name}): {name} is a SimpleNamespace with {_written(self.values)}")
        return self._config

    def advice(self, error: BaseException) -> str:
        """Return what to do about an error of the layer's code: give what it reads of its config."""
        if not isinstance(error, AttributeError) or self._config is None or error.obj is not self._config:
            return ""
        return f"give {_pairs(dict.fromkeys([error.name, *self._reads]))}"


_SIZES = {*D_MODEL, *N_HEADS, *_CONFIGS} - _FIRST


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _parameters(function: Any) -> list[inspect.Parameter] | None:
    """Return the parameters of a class or a function; None: they cannot be known, as of some in C."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return None


def _defaults(parameters: Sequence[inspect.Parameter]) -> dict[str, Any]:
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _dataclass_of(function: Any, name: str) -> type | None:
    """Return the dataclass that annotates a parameter of a class or a function; None: there is none."""
    with suppress(Exception):  # an annotation in quotes may hold anything
        kind = inspect.signature(function, eval_str=True).parameters[name].annotation
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            return kind
    return None


def _read_of(function: Any, name: str) -> list[str]:
    """Return the attributes of a parameter that the code of a class or a function reads, in their order."""
    with suppress(OSError, TypeError):
        return list(dict.fromkeys(re.findall(rf"\b{name}\.([a-zA-Z]\w*)\b(?!\()", inspect.getsource(function))))
    return []


def _pairs(names: Any) -> str:
    """Return how to give these arguments."""
    return f"{parameter('with')} {','.join(f'{shortened(name)}=…' for name in names)}"


def _plain(value: object) -> object:
    """Return the value of an argument as JSON has it."""
    return value if isinstance(value, str | int | float | None) else repr(value)


def _written(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={shortened(repr(value))}" for name, value in arguments.items())


def _and(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last

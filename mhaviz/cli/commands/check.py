"""mhaviz check"""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mhaviz._version import __version__
from mhaviz.cli.command import given
from mhaviz.cli.shared.appearance import PictureOptions, style_of
from mhaviz.cli.shared.console import option_name, printing, progress
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.models import load_model
from mhaviz.cli.shared.parsing import parse_arguments, parsed
from mhaviz.errors import ArgumentError, MhavizError, parameter, quoted
from mhaviz.pages.registry import CHECK_SUFFIXES

if TYPE_CHECKING:
    from mhaviz.cli.shared.child import Job
    from mhaviz.results.check import Check

_ADVISED = ("with", "d_model", "n_heads", "ignore", "seed", "time_limit")
"""Options that an error of the layer may advise."""


def check(
    *,
    layer: Annotated[
        str | None,
        typer.Argument(metavar="FILE.py:NAME|MODULE:NAME", help="Class, function or instance.", show_default=False),
    ] = None,
    with_: Annotated[
        list[Any] | None,
        typer.Option(
            "--with",
            metavar="NAME=VALUE,…",
            parser=parsed(parse_arguments, "arguments such as d_model=64,n_heads=4,bias=False, each of them once"),
            help="Arguments of the class. Repeatable.",
        ),
    ] = None,
    d_model: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Features of each token. \\[default: as in --with, or as the layer has]"),
    ] = None,
    n_heads: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of heads, for a function of heads. \\[default: as above]"),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="CODE", help="Leave out findings of this code. Repeatable.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option(metavar="CODE", help="Print what a code means and how to mend it, and exit.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="FOLDER|ID", help="Check a model of transformers in place of a layer.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of parameters and inputs.")] = 0,
    time_limit: Annotated[float, typer.Option(metavar="SECONDS", help="Stop after this time.")] = 60.0,
    delivery: Delivery,
    looks: PictureOptions,
) -> None:
    """Check an attention layer of yours for mistakes, such as a wrong mask, scale or layout of heads.

    \b
    mhaviz check model.py:MyAttention --with d_model=64,n_heads=4
    mhaviz check model.py:layer -o findings.png
    mhaviz check my_package.attention:attend --d-model 64 --ignore uniform-row
    mhaviz check model.py:CausalSelfAttention --with n_embd=64,n_head=4 -o findings.sarif
    mhaviz check --model path/to/model
    mhaviz check --explain scale

    This imports FILE and runs its code, in a process of its own, as python FILE does, but not what is below
    if __name__ == "__main__". What it prints goes to standard error.

    NAME is a class, which gets the arguments of --with; an instance; a function of x, or of queries, keys and values;
    or a function that makes a layer. A parameter config gets the arguments of --with as one object. The layer runs on
    the CPU with random inputs, and each output is compared with that of an input that should give the same.

    Output: a {CHECK_SUFFIXES} file.

    Exit status: 0; 1 if there are errors among the findings, or the layer could not be checked; 2 for a wrong command
    line. A notice, which may be on purpose, is no error.
    """
    of_layer = {"--with": with_, option_name("d_model"): d_model, option_name("n_heads"): n_heads}
    given_of_layer = [name for name, value in of_layer.items() if value]
    if explain is not None:
        others = [*filter(None, [layer, model]), *given_of_layer, *(["--ignore"] if ignore else []), *given(looks)]
        if others or delivery.paths:
            raise ArgumentError(f"--explain explains a code, and checks nothing; leave out {[*others, '-o'][0]}")
        _explain(explain, delivery)
        return
    if not 0 < time_limit < float("inf"):
        raise ArgumentError(f"{parameter('time_limit')}: expected seconds above 0, got {quoted(time_limit)}")
    if (layer is None) == (model is None):
        got = "none" if layer is None else f"{layer} and --model {model}"
        raise ArgumentError(
            f"expected a layer, as FILE.py:NAME, or a model of transformers, as --model FOLDER, got {got}; give one of "
            f"them, or --explain CODE"
        )
    settings = {"ignore": _require_codes(ignore or ()), "seed": seed, "time_limit": time_limit}
    if model is not None:
        if given_of_layer:
            raise ArgumentError(f"a model has sizes of its own; leave out {given_of_layer[0]}")
        delivery.check([], CHECK_SUFFIXES)
        style = style_of(looks, delivery)
        found = _check_model(model, settings, delivery)
    else:
        from mhaviz.api.checked_file import Target
        from mhaviz.cli.shared.child import Job

        assert layer is not None
        target = Target.of(layer)
        delivery.check([Path(target.place)] if target.is_file else [], CHECK_SUFFIXES)
        style = style_of(looks, delivery)
        arguments = {"target": layer, "arguments": _joined(with_ or ()), "d_model": d_model, "n_heads": n_heads}
        job = Job(
            "mhaviz.api.checked_file:check_file",
            arguments | settings,
            str(target),
            target.folder,
            time_limit,
            _ADVISED,
        )
        delivery.tell(f"importing {target.place}, which runs its code")
        found = _run(job, delivery)
    delivery.deliver(found, style)
    _require_no_errors(found)


def _check_model(model: str, settings: dict[str, Any], delivery: Delivery) -> "Check":
    """Check a model of transformers, in float32. Raises as ``mhaviz.load`` and ``LoadedModel.check``."""
    loaded = load_model(model, delivery, "cpu")
    with progress(delivery.quiet, f"checking {model}", is_counted=False) as show:
        return loaded.check(**settings, on_progress=lambda name: show(0.0, name))


def _run(job: "Job", delivery: Delivery) -> "Check":
    """Check a layer in a child process. Raises as ``run_in_child``."""
    from mhaviz.cli.shared.child import run_in_child
    from mhaviz.results.check import Check

    with progress(delivery.quiet, "loading PyTorch", is_counted=False) as show:
        return run_in_child(job, Check, lambda text: show(0.0, text), delivery.tell)


def _joined(groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the arguments of all --with. Raises ArgumentError if one is given twice."""
    found: dict[str, Any] = {}
    for group in groups:
        if twice := [name for name in group if name in found]:
            raise ArgumentError(f"--with: expected each argument once, got {twice[0]} twice")
        found |= group
    return found


def _require_codes(codes: Sequence[str]) -> list[str]:
    """Return the codes. Raises ArgumentError if there is no such code."""
    if not codes:
        return []
    from mhaviz.checks.registry import codes as all_codes

    if unknown := [code for code in codes if code not in all_codes()]:
        near = get_close_matches(unknown[0], all_codes(), 1)
        meant = f"; did you mean {near[0]}?" if near else f"; expected {', '.join(all_codes())}"
        raise ArgumentError(f"there is no code {quoted(unknown[0])}{meant}")
    return list(codes)


def _explain(code: str, delivery: Delivery) -> None:
    """Print what a code means. Raises ArgumentError if there is no such code."""
    _require_codes([code])
    from mhaviz.checks.registry import codes

    explanation = codes()[code].explanation
    with printing():
        if delivery.json:
            from mhaviz.views.data import write_json

            write_json({"mhaviz": __version__, "code": code, "explanation": explanation}, sys.stdout)
        elif not delivery.quiet:
            typer.echo(f"{code}: {explanation}")


def _require_no_errors(check: "Check") -> None:
    """Raise MhavizError if there are errors among the findings."""
    if errors := list(dict.fromkeys(finding.code for finding in check.errors)):
        raise MhavizError(
            f"{check.source.model}: expected no errors, got {', '.join(errors)}; --explain {errors[0]} says more, and "
            f"--ignore leaves out what is on purpose"
        )

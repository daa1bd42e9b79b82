"""Gradients: each projection learns."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from mhaviz.checks.evidence import Evidence
from mhaviz.checks.findings import finding
from mhaviz.checks.registry import CannotProbe, probe
from mhaviz.results.check import Finding


@probe("dead-parameter", "gradients", unless="random isolated")
def dead_parameter(evidence: Evidence) -> Iterator[Finding]:
    """A projection gets no gradient.

    The gradient of a randomly weighted sum of the outputs is computed with respect to each parameter of the layer.

    Why it hides: the other projections learn, and the loss falls. A projection that is not called, overwritten by the
    next line, or cut off by ``detach()``, ``.data`` or ``torch.no_grad()`` stays random. So do layers in a Python list
    or dict, whose parameters no optimizer gets.

    How to mend it: call each projection on its own input, and use what it returns. Hold layers in ``nn.ModuleList`` or
    ``nn.ModuleDict``. A bias of keys is not counted: its gradient is 0 in any layer, as a softmax does not see what is
    added to all scores of a row.
    """
    if unregistered := _unregistered(evidence):
        yield _finding(
            unregistered,
            f"{unregistered} holds layers in a Python list or dict",
            "its parameters are not those of the module, so that no optimizer changes them",
            "nn.ModuleList or nn.ModuleDict in place of the list or dict",
        )
        return
    parameters = list(_parameters(evidence))
    named = {name: one for name, _, one in parameters}
    if not named:
        raise CannotProbe("it has no parameters")
    graph = evidence.base.graph
    generator = torch.Generator().manual_seed(evidence.seed)
    weights = torch.randn(graph.shape, generator=generator).to(graph)
    if not graph.requires_grad:
        yield _finding("", "the output has no graph", "all of the layer runs under no_grad, or is detached")
        return
    total = (graph * weights).sum() + sum(one.sum() for one in evidence.base.named if one.requires_grad)
    values = list(named.values())
    gradients = torch.autograd.grad(total, values, retain_graph=True, allow_unused=True)
    found = dict(zip(named, gradients, strict=True))
    unused = [name for name, gradient in found.items() if gradient is None]
    matrices = [name for name, owner, one in parameters if _is_projection(owner, name, one)]
    starts_at_zero = any(
        not bool(named[name].any()) and gradient is not None and bool(gradient.any()) and not name.endswith("bias")
        for name, gradient in found.items()
    )
    zero = [name for name in matrices if (one := found.get(name)) is not None and not bool(one.any())]
    zero = [] if starts_at_zero else zero  # a matrix or a gate of zeros passes no gradient on
    if dead := [*unused, *zero]:
        near = [name for name in dead if _is_near(evidence, name)]
        name = (near or dead)[0]
        mistake = f"{name} is not used, is overwritten, or its output is detached"
        yield _finding(name, f"{name} gets no gradient", mistake, is_notice=not near)
        return
    for name in [] if starts_at_zero else matrices:
        gradient = found.get(name)
        part = None if gradient is None else _dead_part(gradient)
        if part is not None:
            mistake = "a part of a joint projection is not used, or is detached"
            yield _finding(name, f"{part} of {name} get no gradient", mistake)
            return


def _tables(evidence: Evidence) -> set[nn.Parameter]:
    """Return the tables of embeddings of a transformers model, which is given embeddings in place of tokens."""
    tables = [getattr(module, "get_input_embeddings", lambda: None)() for module in evidence.layer.modules]
    return {one for table in tables if isinstance(table, nn.Module) for one in table.parameters()}


def _parameters(evidence: Evidence) -> Iterator[tuple[str, nn.Module, nn.Parameter]]:
    """Iterate over the names, modules and values of the parameters that are to learn.

    Where a function runs more than one module, the number of its module stands in the name.
    """
    modules, met = evidence.layer.modules, _tables(evidence)
    for number, module in enumerate(modules, 1):
        root = f"{type(module).__name__} {number} of {len(modules)}" if len(modules) > 1 else ""
        for prefix, owner in module.named_modules():
            for name, one in owner.named_parameters(recurse=False):
                if one.requires_grad and one not in met:
                    met.add(one)
                    yield ".".join(filter(None, (root, prefix, name))), owner, one


def _unregistered(evidence: Evidence) -> str:
    """Return the name of an attribute that holds modules in a list or dict, unknown to its module; "": none does."""
    for root in evidence.layer.modules:
        registered = set(root.modules())
        for prefix, module in root.named_modules():
            for name, held in vars(module).items():
                several = held.values() if isinstance(held, dict) else held if isinstance(held, list | tuple) else ()
                if name.startswith("_"):
                    continue
                if any(isinstance(one, nn.Module) and one not in registered for one in several):
                    return f"{prefix}.{name}".lstrip(".")
    return ""


def _is_projection(owner: nn.Module, name: str, matrix: Tensor) -> bool:
    """Return whether a parameter is a matrix that multiplies activations."""
    if matrix.ndim < 2 or isinstance(owner, nn.Embedding):
        return False
    last = name.rpartition(".")[2].lower()
    return "weight" in last or last in _PROJECTIONS


_PROJECTIONS = {"wq", "wk", "wv", "wo", "w_q", "w_k", "w_v", "w_o", "w_qkv", "wqkv"}

_PARTS = (2, 3, 4, 6, 8)
"""Numbers of equal parts of a joint projection, such as queries, keys and values."""


def _dead_part(gradient: Tensor) -> str | None:
    """Return which rows or columns of a matrix, one of some equal parts or more, get no gradient; None: none."""
    if gradient.ndim != 2 or gradient.numel() < 64:
        return None
    for axis, name in ((0, "rows"), (1, "columns")):
        dead = ~gradient.any(dim=1 - axis)
        if bool(dead.all()):
            continue
        for n_parts in _PARTS:
            if len(dead) % n_parts or len(dead) == n_parts:
                continue
            whole = dead.view(n_parts, -1)
            parts = whole.all(dim=1)
            if bool(parts.any()) and torch.equal(parts[:, None].expand_as(whole), whole):
                places = dead.nonzero().flatten()
                return f"{name} {int(places[0])} to {int(places[-1])}"
    return None


def _is_near(evidence: Evidence, name: str) -> bool:
    """Return whether a parameter belongs to a module in which attention runs, or to the module around it.

    A whole model may have others that its output does not read, such as a pooler, and so may a library's layer, such as
    projections of global tokens. A list of modules is none around.
    """
    known = {prefix: module for root in evidence.layer.modules for prefix, module in root.named_modules()}
    owner = known.get(name.rpartition(".")[0].rpartition(".")[0])
    if owner is not None and type(owner).__module__.startswith("transformers."):
        return False
    running = {seen.step.module for seen in evidence.attentions if seen.step.module in known}
    around = {_around(one, known) for one in running} or {""}
    lists = {one.rpartition(".")[0] for one in running}
    of_heads = {one for one in lists if isinstance(known.get(one), nn.ModuleList)}
    inside = any(name.startswith(f"{one}.") for one in running | of_heads)
    return bool(evidence.attentions) and (inside or any(_is_child(name, one) for one in around))


def _is_child(name: str, module: str) -> bool:
    """Return whether a parameter is a module's own, or that of a module directly within it."""
    within = name.removeprefix(f"{module}.") if module else name
    return (within != name or not module) and within.count(".") <= 1


def _around(name: str, known: Mapping[str, nn.Module]) -> str:
    """Return the name of the module that calls another."""
    name = name.rpartition(".")[0]
    while isinstance(known.get(name), nn.ModuleList | nn.ModuleDict):
        name = name.rpartition(".")[0]
    return name


def _finding(
    name: str,
    found: str,
    mistake: str,
    mend: str = "call each projection on its own input, and use what it returns",
    is_notice: bool = False,
) -> Finding:
    return finding(
        "dead-parameter",
        severity="notice" if is_notice else "error",
        tried="the gradient of the outputs, with respect to each parameter",
        found=found,
        mistake=mistake,
        mend=mend,
        module=name.rpartition(".")[0],
    )

"""Find the module in which a later token is first seen: two passes that differ in it, module by module."""

from typing import Any

import torch
from torch import Tensor, nn

from mhaviz.checks.evidence import Evidence
from mhaviz.checks.tolerances import changes


def first_leak(evidence: Evidence, token: int, causal: bool) -> str | None:
    """Return the first module whose output changes before a token that is replaced; None: not known.

    Modules are compared in the order in which they end, so that the innermost is named.

    Args:
        evidence: of the layer.
        token: place of the token that is replaced.
        causal: whether later tokens are to be hidden.
    """
    before, after = (_outputs(evidence, keys, causal) for keys in (evidence.keys, evidence.with_token(token)))
    for (name, x), (other, y) in zip(before, after, strict=False):
        if name != other or x.shape != y.shape:
            return None
        if bool(changes(x, y)[:, :token].any()):
            return name
    return None


def _outputs(evidence: Evidence, keys: Tensor, causal: bool) -> list[tuple[str, Tensor]]:
    """Return the outputs of modules that are tokens, (batch_size, length, features), in the order in which they end."""
    found: list[tuple[str, Tensor]] = []

    def keep(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            first = output[0] if isinstance(output, tuple | list) and output else output
            if isinstance(first, Tensor) and first.ndim == 3 and first.shape[:2] == keys.shape[:2]:
                found.append((name, first.detach().cpu().clone()))

        return hook

    hooks = [
        module.register_forward_hook(keep(name))
        for root in evidence.layer.modules
        for name, module in root.named_modules()
        if name
    ]
    try:
        with torch.no_grad():
            evidence.run(keys, causal=causal)
    finally:
        for one in hooks:
            one.remove()
    return found

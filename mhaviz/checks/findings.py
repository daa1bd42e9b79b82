"""Make findings: their line, and their maps as they are beside the maps as they should be."""

import linecache
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mhaviz.observe.steps import Step
from mhaviz.results.attention import head_name
from mhaviz.results.check import Contrast, Finding, Line, Quantity, Severity


def finding(
    code: str,
    *,
    tried: str,
    found: str,
    mistake: str,
    mend: str,
    severity: Severity = "error",
    at: Step | None = None,
    module: str = "",
    contrast: Contrast | None = None,
) -> Finding:
    """Return a finding.

    Args:
        code, severity, tried, found, mistake, mend, contrast: as of ``Finding``.
        at: the step at which it is seen; None: there is none.
        module: name of the module in which it is seen; "": that of the step.
    """
    line = None if at is None else line_of(at.file, at.line)
    named = module or ("" if at is None else at.module)
    return Finding(code, severity, tried, found, mistake, mend, named, line, contrast)


def line_of(file: str, number: int) -> Line | None:
    """Return a line of a program, with its file as seen from the current folder; None: not known."""
    if not file or not number:
        return None
    path = Path(file)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return Line(str(path), number, linecache.getline(file, number).strip())


def contrast(
    quantity: Quantity,
    found: Tensor,
    expected: Tensor,
    *,
    axes: tuple[str, str] = ("query", "key"),
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    panels: Sequence[str] | None = None,
    note: str = "",
) -> Contrast:
    """Return a contrast of two tensors, (n_panels, n_rows, n_columns). Rows and columns are numbered if not named."""
    n_panels, n_rows, n_columns = found.shape
    heads = [head_name(None, head) for head in range(n_panels)] if n_panels > 1 else []
    named = tuple(heads if panels is None else panels)
    return Contrast(
        quantity,
        _array(found),
        _array(expected.expand_as(found)),
        axes,
        tuple(rows or token_names(n_rows)),
        tuple(columns or token_names(n_columns)),
        named,
        note,
    )


def _array(x: Tensor) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    return np.ascontiguousarray(x.detach().float().numpy())


def weighed(products: Tensor, factor: float, visible: Tensor | None = None) -> Tensor:
    """Return softmax(factor · q·k) over the keys that are visible, (…, q_length, k_length); 0 in rows that see none."""
    scores = products.float() * factor
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return torch.softmax(scores, dim=-1).nan_to_num(0.0)


def token_names(length: int, keep: Tensor | None = None) -> tuple[str, ...]:
    """Return the names of tokens: "x3", or "pad" for padding; ``keep``: (length,)."""
    kept = [True] * length if keep is None else keep.tolist()
    return tuple(f"x{place}" if is_kept else "pad" for place, is_kept in enumerate(kept))

"""Rows that see no key: they are no NaN, and no mean of what is hidden."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from mhaviz.checks.evidence import HIDDEN, Evidence
from mhaviz.checks.findings import finding
from mhaviz.checks.probes.masks import CAUSES, masked_at, require_keep
from mhaviz.checks.registry import probe
from mhaviz.checks.tolerances import changes
from mhaviz.results.check import Finding


def _wholly_hidden(evidence: Evidence) -> tuple[Tensor, Tensor]:
    keep = torch.ones_like(evidence.keep)
    keep[1] = False
    return keep, evidence.run(evidence.keys, keep=keep)


def _is_of_pytorch(evidence: Evidence) -> bool:
    """Return whether attention is PyTorch's, or its mask was added as −∞: both are known to give NaN."""
    every = [one for module in evidence.layer.modules for one in module.modules()]
    return "−∞" in evidence.layer.masking.reading or any(isinstance(one, nn.MultiheadAttention) for one in every)


@probe("nan", "hidden sentences", unless="random mask-polarity")
def nan(evidence: Evidence) -> Iterator[Finding]:
    """A query that sees no key becomes NaN.

    All tokens of a sentence are hidden; or padding stands at the beginning while later tokens are hidden.

    Why it hides: it takes a batch with an empty sentence, or padding on the left. NaN then spreads to all parameters in
    one step.

    How to mend it: fill such rows with 0, ``weights.masked_fill(~visible.any(-1, keepdim=True), 0.0)``, or give each
    query at least one key. Hide keys by ``masked_fill`` of the scores: where −∞ is added, gradients stay NaN. PyTorch's
    own layers give NaN, too, which is a notice.
    """
    require_keep(evidence)
    _, output = _wholly_hidden(evidence)
    spread = not bool(output[[0, 2]].isfinite().all())
    tried = "a sentence of which all tokens are hidden"
    is_nan = bool(output.isnan().any())
    if not is_nan and evidence.layer.takes_causal and not evidence.layer.is_cross:
        left = evidence.run(evidence.keys, keep=evidence.padded_at_end.flip(-1), causal=True)
        is_nan = spread = bool(left[:, HIDDEN:].isnan().any())
        tried = "padding at the beginning, and later tokens hidden"
    if is_nan:
        where_ = "other sentences or tokens become NaN" if spread else "its output is NaN"
        yield finding(
            "nan",
            severity="notice" if _is_of_pytorch(evidence) else "error",
            tried=tried,
            found=where_,
            mistake="a softmax over −∞ alone is NaN",
            mend="weights.masked_fill(~visible.any(-1, keepdim=True), 0.0)",
            at=masked_at(evidence.padded_pass),
        )


@probe(
    "uniform-row",
    "hidden sentences",
    unless=f"{CAUSES} nan mask-polarity mask-side padding mask-value",
)
def uniform_row(evidence: Evidence) -> Iterator[Finding]:
    """A query that sees no key averages hidden keys in silence.

    All tokens of a sentence are hidden, and its output still changes with them.

    Why it hides: the weights of a softmax are relative. Where all keys of a query have −1e9, none is hidden from it:
    its weights sum to 1, as those of any query, and no NaN warns.

    How to mend it: zero such rows, ``weights.masked_fill(~visible.any(-1, keepdim=True), 0.0)``, or make sure that they
    are not read. It is a notice, as many libraries leave such rows as they are.
    """
    require_keep(evidence)
    keep, before = _wholly_hidden(evidence)
    run = partial(evidence.run, keep=keep)
    last = run(evidence.with_token(evidence.k_length - 1))
    rows = slice(None) if evidence.layer.is_cross else slice(0, evidence.length - 1)
    if bool(changes(before[1, rows], last[1, rows]).any()):
        yield finding(
            "uniform-row",
            severity="notice",
            tried="a sentence of which all tokens are hidden",
            found="its outputs still change with its tokens",
            mistake="the mask adds the same finite number to all scores, which a softmax does not see",
            mend="weights.masked_fill(~visible.any(-1, keepdim=True), 0.0), where such rows are read",
            at=masked_at(evidence.padded_pass),
        )

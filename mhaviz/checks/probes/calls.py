"""Calls of a layer: the same twice, other sizes, other sentences in the batch, its input afterwards."""

from collections.abc import Iterator

import torch

from mhaviz.checks.evidence import BATCH_SIZE, LENGTHS, Evidence
from mhaviz.checks.findings import finding
from mhaviz.checks.registry import probe
from mhaviz.checks.tolerances import changes
from mhaviz.results.check import Finding


def _differs(evidence: Evidence) -> bool:
    """Return whether two calls with the same input differ."""
    for draw in range(1, _DRAWS):
        again = evidence.output(evidence.x, seed=evidence.seed + draw, **evidence.beside(evidence.keys))
        if again.shape != evidence.plain.shape or bool(changes(evidence.plain, again).any()):
            return True
    return False


_DRAWS = 5
"""Number of calls with other random numbers: a branch that is dropped now and then is seldom dropped in two."""


@probe("eval-dropout", "evaluation mode")
def eval_dropout(evidence: Evidence) -> Iterator[Finding]:
    """Dropout acts in evaluation mode.

    Two calls with the same input differ after ``.eval()``, as some weights or features are zeroed at random.

    Why it hides: training expects dropout, and a single output looks as good as another. Scores on held-out data are
    lower than they could be, and differ from run to run.

    How to mend it: ``F.dropout`` drops by default, whatever the mode of the module. Pass ``training=self.training``, or
    use ``nn.Dropout``. ``F.scaled_dot_product_attention`` drops whenever ``dropout_p`` is above 0: pass
    ``dropout_p=self.p if self.training else 0.0``.
    """
    drops = next((step for step in evidence.base.steps if step.name == "dropout"), None)
    if drops is not None and _differs(evidence):
        yield finding(
            "eval-dropout",
            tried="the same input twice, after .eval()",
            found="the two outputs differ",
            mistake="dropout acts in evaluation mode",
            mend="F.dropout(x, p, training=self.training), or dropout_p=self.p if self.training else 0.0 for SDPA",
            at=drops,
        )


@probe("random", "evaluation mode", unless="eval-dropout")
def random(evidence: Evidence) -> Iterator[Finding]:
    """The output is random in evaluation mode, and no dropout is seen.

    Two calls with the same input differ after ``.eval()``.

    Why it hides: outputs of a layer that is created anew in ``forward``, or to which noise is added, have the right
    size. No single output looks wrong.

    How to mend it: create parameters in ``__init__``, not in ``forward``, and add noise only if ``self.training``.
    Where the noise is on purpose, ignore this code.
    """
    if _differs(evidence):
        yield finding(
            "random",
            tried="the same input twice, after .eval()",
            found="the two outputs differ, and no dropout was seen",
            mistake="a layer is created in forward, or noise is added in evaluation mode",
            mend="create parameters in __init__, and add noise only if self.training",
        )


@probe("input-changed", "input unchanged")
def input_changed(evidence: Evidence) -> Iterator[Finding]:
    """A call changes its input in place.

    The input, or its mask, holds other numbers after the call.

    Why it hides: the output is right. The residual that is added afterwards is wrong, and so is whatever else reads the
    same tensor.

    How to mend it: write ``x = x * c`` in place of ``x *= c``, ``x.mul_(c)`` or ``x[...] = …``, or clone the input
    first.
    """
    x, keys, keep = evidence.x.clone(), evidence.keys.clone(), evidence.keep.clone()
    with torch.no_grad():
        memory = keys if evidence.layer.is_cross else None
        evidence.layer(x, memory=memory)
        if evidence.layer.takes_keep:
            evidence.layer(x, keep, memory=memory)
    if bool((keep != evidence.keep).any()):
        yield finding(
            "input-changed",
            tried="the mask before and after a call",
            found="the call has changed its mask",
            mistake="an operation in place, such as mask.logical_not_() or mask[…] = …",
            mend="write mask = ~mask, or clone the mask first",
        )
    elif bool((x != evidence.x).any()) or bool((keys != evidence.keys).any()) or evidence.layer.changes_heads:
        yield finding(
            "input-changed",
            tried="the input before and after a call",
            found="the call has changed its input",
            mistake="an operation in place, such as x *= c or x.masked_fill_(…)",
            mend="write x = x * c, or clone the input first",
        )


def _sizes(evidence: Evidence) -> Iterator[tuple[str, int, int, int]]:
    """Iterate over sizes to try: their names, batch_size, length and k_length."""
    yield "a batch of 1", 1, evidence.length, evidence.k_length
    if evidence.length == LENGTHS[0]:
        yield "a length of 1", BATCH_SIZE, 1, evidence.k_length
        yield "a length of 13", BATCH_SIZE, 13, 11 if evidence.layer.is_cross else 13


@probe("shape", "sizes")
def shape(evidence: Evidence) -> Iterator[Finding]:
    """A usual size of the input fails, or gives an output of another shape.

    The layer is called with a batch of 1, with a single token, with 7 and 13 tokens, and with a mask of padding. A
    layer may refuse a size by ValueError or AssertionError.

    Why it hides: training has batches of 32 and lengths of 512. ``squeeze()`` without an axis also removes the axis of
    a batch of 1, such as the last of a file, and a reshape by a fixed size fails or joins tokens of different
    sentences.

    How to mend it: name the axis, as in ``squeeze(1)``, and take sizes from ``x.shape`` in each call.
    """
    given = tuple(evidence.base.output.shape)
    if given[:2] != tuple(evidence.x.shape)[:2]:
        yield _of_shape("the input", f"its output is {given}, in place of {tuple(evidence.x.shape)}")
        return
    if evidence.length != LENGTHS[0]:
        try:
            evidence.output(evidence.random(LENGTHS[0], 4), **evidence.beside(evidence.keys))
        except RuntimeError as error:  # those who refuse a length on purpose raise ValueError or AssertionError
            first = " ".join(str(error).split())[:120]
            found = f"it raises {first}, and takes a length of {evidence.length}"
            yield _of_shape(f"a length of {LENGTHS[0]}", found, is_notice=True)  # windows, or a table of positions
    if evidence.layer.mask_error:
        yield _of_shape("a mask of padding", f"it raises {evidence.layer.mask_error}")
        return
    for name, batch_size, length, k_length in _sizes(evidence):
        x, keys = (evidence.random(n, 4, batch_size) for n in (length, k_length))
        try:
            output = evidence.output(x, **evidence.beside(keys))
        except (AssertionError, ValueError):
            continue
        except (RuntimeError, IndexError) as error:
            text = " ".join(str(error).split())[:120]
            yield _of_shape(name, f"it raises {text}", is_notice="out of range" in text)  # such as the 3 best of 1 key
            return
        if output.shape[:2] != x.shape[:2]:
            yield _of_shape(name, f"its output is {tuple(output.shape)}, in place of {tuple(x.shape)}")
            return


def _of_shape(tried: str, found: str, is_notice: bool = False) -> Finding:
    return finding(
        "shape",
        severity="notice" if is_notice else "error",
        tried=tried,
        found=f"with {tried} {found}" if tried != "the input" else found,
        mistake="an operation fits other sizes alone, such as squeeze() without an axis, or a size written as a number",
        mend="name the axis, as in squeeze(1), and take sizes from x.shape",
    )

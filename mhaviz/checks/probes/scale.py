"""Scale: the factor of q·k, wherever it stands."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch

from mhaviz.checks.attentions import Seen
from mhaviz.checks.evidence import BATCH_SIZE, Evidence
from mhaviz.checks.factors import UNEXPLAINED, Followed, Regression, follow, regress
from mhaviz.checks.findings import contrast, finding
from mhaviz.checks.registry import CannotProbe, probe
from mhaviz.checks.tolerances import is_factor, relative
from mhaviz.results.attention import head_name
from mhaviz.results.check import Contrast, Finding

_CAUSES = "random input-changed heads-layout softmax-axis batch not-attention row-sum"


class _Factor(NamedTuple):
    """A factor that q·k may have.

    Attributes:
        value: the number.
        name: what it is.
        mistake: how it comes about; "": it is right.
        is_notice: whether it may well be on purpose, or another number by chance.
    """

    value: float
    name: str
    mistake: str = ""
    is_notice: bool = False


def _factors(evidence: Evidence, seen: Seen) -> list[_Factor]:
    """Return factors that q·k may have, the right one first."""
    d_key, d_model = seen.d_key, evidence.layer.d_model
    n_heads = max(d_model // d_key, 1)
    return [
        _Factor(d_key**-0.5, "1/√d_key"),
        _Factor(1.0, "1", "scores are not divided by √d_key"),
        _Factor(1 / d_key, "1/d_key", "scores are divided by d_key, or twice by √d_key", True),
        _Factor(d_model**-0.5, "1/√d_model", "scores are divided by √d_model, not by √d_key"),
        _Factor(d_key**0.5, "√d_key", "scores are multiplied by √d_key, not divided"),
        _Factor(d_key**-0.25, "d_key^-¼", "only queries or only keys are multiplied by d_key^-¼"),
        _Factor(1 / d_model, "1/d_model", "scores are divided by d_model"),
        _Factor(d_key**-1.5, "1/d_key^1.5", "scores are divided by √d_key thrice"),
        _Factor(d_model**0.5, "√d_model", "scores are multiplied by √d_model"),
        _Factor(n_heads**-0.5, "1/√n_heads", "scores are divided by √n_heads, not by √d_key"),
    ]


@probe("softcap", "scale", unless=_CAUSES)
def softcap(evidence: Evidence) -> Iterator[Finding]:
    """Scores are capped by a tanh.

    log A is regressed on q·k, and c·tanh(s·q·k / c) fits where no line does.

    Why it hides: it is on purpose in Gemma 2 (arXiv 2408.00118, section 2), and leaves small scores as they are.

    How to mend it: nothing, where it is on purpose. ``F.scaled_dot_product_attention`` has no cap: a checkpoint that
    was trained with it needs ``flex_attention``, another kernel that has it, or a softmax that is written out.
    """
    for number in range(len(evidence.attentions)):
        line = regress(evidence, number)
        if line is not None and line.softcap is not None:
            yield finding(
                "softcap",
                severity="notice",
                tried="a line through log A and q·k",
                found=f"scores are capped at {line.softcap:.3g}",
                mistake="",
                mend="nothing, if it is on purpose",
                at=evidence.attentions[number].step,
            )
            return


@probe("scale", "scale", unless=f"{_CAUSES} softcap")
def scale(evidence: Evidence) -> Iterator[Finding]:
    """Scores are not divided by √d_key.

    log A is regressed on q·k, which gives the factor of q·k in the softmax; gradients give the factors that stand in
    queries and keys. Their product should be 1/√d_key (Vaswani et al. 2017, arXiv 1706.03762, section 3.2.1).

    Why it hides: the layer trains, only worse. The variance of q·k grows with d_key, so that without the factor the
    softmax gives nearly all weight to a single key, and its gradients vanish. With too small a factor all keys weigh
    alike.

    How to mend it: ``scores = q @ k.mT / math.sqrt(d_key)``, with d_key the size of the last axis of a head, not
    d_model. ``F.scaled_dot_product_attention`` divides by itself: do not scale queries beforehand. T5 has no factor,
    and small initial weights in its place; muP divides by d_key. Both are notices.
    """
    if not evidence.attentions:
        raise CannotProbe("no queries and keys were seen")
    reasons = []
    for number, seen in enumerate(evidence.attentions):
        line = regress(evidence, number)
        if line is None:
            reasons.append("no softmax of q·k was seen")
            continue
        if line.unexplained > UNEXPLAINED:
            reasons.append("scores are more than q·k")
            continue
        sides = [follow(evidence, number, side) for side in ("query", "key")]
        if _are_unit(seen) and is_factor(line.slope, seen.d_key**-0.5):
            text = f"queries and keys have length 1, and their products are multiplied by 1/√d_key = {line.slope:.3g}"
            mistake = "cosines are divided by √d_key, so that all keys weigh alike"
            yield _finding(evidence, seen, line.slope, text, mistake, False)
            return
        if any(side is not None and not side.is_linear for side in sides):
            reasons.append("queries or keys are normalised")
            continue
        if any(side is None or side.factor is None for side in sides):
            reasons.append("queries or keys are not followed to a projection")
            continue
        found = _of_factor(evidence, seen, line, [side for side in sides if side is not None])
        if found is not None:
            yield found
            return
    if len(reasons) == len(evidence.attentions):
        raise CannotProbe(reasons[0])


def _of_factor(evidence: Evidence, seen: Seen, line: Regression, sides: list[Followed]) -> Finding | None:
    inside = math.prod(side.factor or 1.0 for side in sides)
    factor = line.slope * inside
    if not line.is_same:
        factors = ", ".join(f"{slope * inside:.3g}" for slope in line.by_head[:4])
        return _finding(evidence, seen, factor, f"heads have other factors of q·k, {factors}", "", True)
    right, *others = _factors(evidence, seen)
    text = f"not {right.name} = {right.value:.3g}{_where(line.slope, sides, seen)}"
    changed = _at_another_length(evidence, seen, inside)
    if changed is not None and not is_factor(changed, factor):
        found = f"the factor of q·k is {factor:.3g}, and {changed:.3g} for {evidence.length + 4} tokens, {text}"
        is_root = all(is_factor(one, n**-0.5) for one, n in ((factor, evidence.length), (changed, evidence.length + 4)))
        mistake = "scores are divided by the root of the length, not of d_key" if is_root else ""
        return _finding(evidence, seen, factor, found, mistake, not is_root)
    if is_factor(factor, right.value):
        return None
    fitting = [one for one in others if is_factor(factor, one.value)]
    if not fitting:
        return _finding(evidence, seen, factor, f"the factor of q·k is {factor:.3g}, {text}", "", True)
    places = (line.slope, *(side.factor or 1.0 for side in sides))
    if not any(is_factor(one, seen.d_key**-0.25) for one in places[1:]):  # then it stands on neither side alone
        fitting.sort(key=lambda one: one.name == "d_key^-¼")
    first, also = fitting[0], [one.name for one in fitting[1:]]
    named = f"{first.name}, here also {' and '.join(also)}" if also else first.name
    is_twice = first.name == "1/d_key" and sum(is_factor(one, right.value) for one in places) == 2
    is_notice = (first.is_notice and not is_twice) or (first.name == "1" and _is_made_up(seen, sides))
    mistake = "scores are divided by √d_key twice" if is_twice else first.mistake
    value = "" if first.name == "1" else f" = {factor:.3g}"
    return _finding(evidence, seen, factor, f"the factor of q·k is {named}{value}, {text}", mistake, is_notice)


def _at_another_length(evidence: Evidence, seen: Seen, inside: float) -> float | None:
    """Return the factor of q·k where the input is longer; None: not known."""
    if evidence.layer.is_cross:
        return None
    longer = evidence.longer
    if longer is None:
        return None
    try:
        number = evidence.attentions.index(seen)
        if number >= len(longer.attentions):
            return None
        line = regress(longer, number)
    except (RuntimeError, ValueError, IndexError):
        return None
    return None if line is None or line.unexplained > UNEXPLAINED else line.slope * inside


def _are_unit(seen: Seen) -> bool:
    """Return whether all queries and keys have length 1, so that q·k is a cosine."""
    lengths = [x.detach().float().norm(dim=axis) for x, axis in zip((seen.query, seen.key), seen.features, strict=True)]
    return all(bool(((one - 1).abs() < 1e-2).all()) for one in lengths)


def _where(slope: float, sides: list[Followed], seen: Seen) -> str:
    """Return which factors stand where, if queries or keys have any."""
    parts = [
        f"{value:.3g} in the {name}"
        for value, name in zip((side.factor or 1.0 for side in sides), ("queries", "keys"), strict=True)
        if not is_factor(value, 1.0)
    ]
    if not parts:
        return ""
    kernel = "scaled_dot_product_attention" if seen.fused is not None else "the softmax"
    return f": {', '.join(parts)}, {slope:.3g} in {kernel}"


def _is_made_up(seen: Seen, sides: list[Followed]) -> bool:
    """Return whether something makes up for a factor of 1: small weights, as T5's and GPT-Neo's, or a bias of
    positions.

    T5's query weights are smaller than its key weights by √d_key at first.
    """
    scores = seen.products
    if float(scores.std()) <= _SMALL:
        return True
    weights = [side.weight for side in sides]
    if weights[0] is not None and weights[1] is not None and weights[0].shape == weights[1].shape:
        ratio = float(weights[1].float().std() / weights[0].float().std()) / math.sqrt(seen.d_key)
        if 0.75 < ratio < 1.33:
            return True
    return _has_bias(seen)


_SMALL = 0.5
"""Standard deviation of scores that no softmax saturates with."""


def _has_bias(seen: Seen) -> bool:
    """Return whether something that is no mask is added to the scores."""
    softmax, products = seen.softmax, seen.by_head(seen.products, BATCH_SIZE)
    A = None if softmax is None else seen.by_head(softmax, BATCH_SIZE) if softmax.shape == seen.products.shape else None
    if A is None or products is None:
        return False
    rest = A.double().clamp(min=1e-30).log() - products
    rest = rest - rest.mean(dim=-1, keepdim=True)
    return bool((rest.abs() > relative(seen.query) * products.abs().amax()).any()) and bool((A > 0).all())


def _finding(evidence: Evidence, seen: Seen, factor: float, found: str, mistake: str, is_notice: bool) -> Finding:
    return finding(
        "scale",
        severity="notice" if is_notice else "error",
        tried="a line through log A and q·k, and the factors of queries and keys by their gradients"
        if seen.fused is None
        else "the factor that the kernel is given, and those of queries and keys by their gradients",
        found=found,
        mistake=mistake,
        mend="q @ k.mT / math.sqrt(d_key), where d_key is the size of a head",
        at=seen.softmaxes[0] if seen.softmaxes else seen.step,
        contrast=None if is_notice else _contrast(evidence, seen, factor),
    )


def _contrast(evidence: Evidence, seen: Seen, factor: float) -> Contrast | None:
    """Return the weights of sentence 0 beside those with the factor 1/√d_key."""
    weights = evidence.base.weights(evidence.attentions.index(seen))
    if weights is None:
        return None
    A = weights[0]
    # What is added to scores, such as a bias, would be multiplied as well: it is small beside them.
    expected = torch.softmax(A.double().log() * (seen.d_key**-0.5 / factor), dim=-1).nan_to_num(0.0).float()
    head, row = divmod(int((A - expected).abs().amax(dim=-1).flatten().argmax()), A.shape[1])
    note = (
        f"{f'{head_name(None, head)}, ' * (len(A) > 1)}query x{row}: its largest weight is "
        f"{float(A[head, row].max()):.2f}, and would be {float(expected[head, row].max()):.2f}"
    )
    return contrast("weight", A, expected, note=note)

"""The softmax: the axis that it runs over, the sums of its rows, and what becomes of its weights."""

from collections.abc import Iterator

import torch
from torch import Tensor

from mhaviz.checks.attentions import Seen
from mhaviz.checks.evidence import BATCH_SIZE, Evidence
from mhaviz.checks.findings import contrast, finding, weighed
from mhaviz.checks.passes import Pass
from mhaviz.checks.registry import CannotProbe, probe
from mhaviz.observe.steps import Step
from mhaviz.results.attention import head_name
from mhaviz.results.check import Contrast, Finding

_ROUNDING = 2**-7
"""Deviation from 1 that the sums of half-precision weights may have."""


def _weighed(evidence: Evidence) -> Iterator[tuple[Seen, Tensor, int]]:
    """Iterate over attentions written out, with their weights and the axis of their keys.

    Raises:
        CannotProbe: there is none.
    """
    weighed = [
        (seen, A, seen.key_axis, seen.query_axis) for seen in evidence.attentions if (A := seen.weights) is not None
    ]
    known = [
        (seen, A, key)
        for seen, A, key, query in weighed
        if key is not None
        and query is not None
        and bool(A.isfinite().all())
        and _are_of_tokens(evidence, A, query, key)
    ]
    if not known and not any(seen.fused is not None for seen in evidence.attentions):
        raise CannotProbe("no weights were seen to meet values")
    yield from known


def _are_of_tokens(evidence: Evidence, A: Tensor, query: int, key: int) -> bool:
    """Return whether weights can be those of tokens, not of features, as in linear attention."""
    return A.shape[key] >= min(evidence.k_length, evidence.length) and A.shape[query] % evidence.length == 0


def _sums_to_one(A: Tensor, axis: int) -> bool:
    return bool(((A.sum(dim=axis, dtype=torch.float32) - 1).abs() < _ROUNDING).all())


@probe("softmax-axis", "softmax axis", unless="random")
def softmax_axis(evidence: Evidence) -> Iterator[Finding]:
    """The softmax runs over queries, heads, or the batch, in place of keys.

    The weights that meet the values are summed over each of their axes. The sums over the keys should be 1.

    Why it hides: a softmax over any axis gives numbers of a plausible size. ``softmax(dim=1)`` of (batch_size, n_heads,
    length, length) runs over heads, and ``F.softmax(x)`` without an axis runs over axis 0 or 1. After a softmax over
    queries, the queries compete for each key: a later query, or padding, changes the weights of all others.

    How to mend it: ``softmax(dim=-1)``, where the last axis is that of the keys. The product with values sums over it.
    """
    for seen, A, key in _weighed(evidence):
        if _sums_to_one(A, key) or A.shape[key] == 1:
            continue
        rest = [axis for axis in range(A.ndim) if axis != key and A.shape[axis] > 1]
        others = [axis for axis in rest if _sums_to_one(A, axis)]
        both = [axis for axis in rest if _sums_to_one(A.sum(dim=key, keepdim=True), axis)]
        if not others and not both:
            continue
        over, query = (others or both)[0], seen.query_axis
        is_batch = over == 0 and A.shape[0] == BATCH_SIZE
        name = "queries" if over == query else "sentences of the batch" if is_batch else "heads"
        name += " and keys" * (not others)
        yield finding(
            "softmax-axis",
            tried="sums of the weights over each of their axes",
            found=f"the weights of {name} sum to 1, not those of the keys",
            mistake=f"the softmax runs over {name}, axis {over} of {tuple(A.shape)}"
            + (", or weights are transposed before they meet values" if over == query else ""),
            mend=f"softmax(dim={key - A.ndim}), the axis of the keys",
            at=seen.softmaxes[0] if seen.softmaxes else seen.values,
            contrast=_contrast(seen, f"the weights of a row should sum to 1, and those of {name} do"),
        )
        return


def _contrast(seen: Seen, note: str) -> Contrast | None:
    """Return the weights of sentence 0 beside softmax(q·k / √d_key)."""
    found, products = seen.weights_by_head(BATCH_SIZE), seen.by_head(seen.products, BATCH_SIZE)
    if found is None or products is None or found.shape != products.shape:
        return None
    sums = found[0].sum(dim=-1)
    head, row = divmod(int((sums - 1).abs().argmax()), sums.shape[1])
    named = f"{head_name(None, head)}, " if found.shape[1] > 1 else ""
    note = f"{named}query {row}: weights sum to {float(sums[head, row]):.2f}; {note}"
    return contrast("weight", found[0], weighed(products[0], seen.d_key**-0.5), note=note)


@probe("mask-after-softmax", "masks before the softmax", unless="eval-dropout random softmax-axis")
def mask_after_softmax(evidence: Evidence) -> Iterator[Finding]:
    """The mask is applied after the softmax.

    The softmax gives weight to keys that the mask hides, and this weight is zeroed afterwards.

    Why it hides: hidden keys have weight 0, as they should. The other weights sum to less than 1, by the weight that
    the hidden keys had, so that an output still depends on what is hidden. Where rows are divided by their sums again,
    the weights are right, and this is a notice.

    How to mend it: set hidden scores to −∞, ``scores.masked_fill(~keep, -torch.inf)``, before the softmax.
    """
    if not evidence.attentions:
        raise CannotProbe("no weights were seen to meet values")
    for one, tried in _passes(evidence):
        for seen in one.attentions:
            before, after = seen.softmax_as_met, seen.weights
            key, query = seen.key_axis, seen.query_axis
            if before is None or after is None or key is None or query is None:
                continue
            before, after = before.movedim((query, key), (-2, -1)), after.movedim((query, key), (-2, -1))
            rows = (after != 0).any(dim=-1)  # a row that sees no key may well be zeroed
            zeroed = (before > _SEEN) & (after == 0) & rows[..., None]
            if not bool(zeroed.any()) or not bool(after.isfinite().all()):
                continue
            sums = after.sum(dim=-1)[zeroed.any(dim=-1)]
            is_whole = bool(((sums - 1).abs() < _ROUNDING).all())
            yield finding(
                "mask-after-softmax",
                severity="notice" if is_whole else "error",
                tried=tried,
                found="weights are zeroed after the softmax, and divided by their sums again"
                if is_whole
                else f"weights are zeroed after the softmax, and sum to {float(sums.min()):.2f} at least, not 1",
                mistake="" if is_whole else "the mask is applied to weights, not to scores",
                mend="scores.masked_fill(~keep, -torch.inf), before the softmax",
                at=_changed_at(one, seen),
                contrast=None if is_whole else _renormalised(seen),
            )
            return


def _changed_at(one: Pass, seen: Seen) -> Step | None:
    """Return the last step at which weights met another tensor before the values, or the values."""
    number = seen.step.number
    found = [step for step in one.steps if step.name == "combined" and step.number == number]
    return found[-1] if found else seen.values


_SEEN = 1e-6
"""Weight of a key that no mask hides."""


def _passes(evidence: Evidence) -> Iterator[tuple[Pass, str]]:
    """Iterate over passes with the masks that the layer takes, and what was tried."""
    yield evidence.base, "the weights before and after what follows the softmax"
    if evidence.layer.takes_keep:
        yield evidence.padded_pass, "padding at the end of sentence 1, and the weights before and after it is hidden"
    if evidence.layer.takes_causal:
        yield evidence.causal_pass, "later tokens hidden, and the weights before and after"


def _renormalised(seen: Seen) -> Contrast | None:
    """Return the weights of the sentence whose rows lack most, beside the same rows divided by their sums."""
    A = seen.weights_by_head(BATCH_SIZE)
    if A is None:
        return None
    sums = A.sum(dim=-1, keepdim=True)
    lacks = (1 - sums).masked_fill(sums == 0, 0.0)
    sentence = int(lacks.flatten(1).amax(dim=1).argmax())
    head, row = divmod(int(lacks[sentence].flatten().argmax()), A.shape[2])
    named = f"{head_name(None, head)}, " if A.shape[1] > 1 else ""
    note = f"{named}query {row}: weights sum to {float(sums[sentence, head, row]):.2f}, and should sum to 1"
    return contrast("weight", A[sentence], (A / sums.clamp(min=1e-30))[sentence], note=note)


@probe("row-sum", "sums of weights", unless="random softmax-axis eval-dropout mask-after-softmax")
def row_sum(evidence: Evidence) -> Iterator[Finding]:
    """Weights of a query do not sum to 1, although nothing is hidden.

    The weights that meet the values are summed over the keys.

    Why it hides: a norm or an output projection behind the attention makes up for sums that are all too large or too
    small. Sums that depend on the length do not carry over to longer inputs.

    How to mend it: leave the weights as the softmax gives them, or divide exponentials by their sum over the keys, with
    ``keepdim=True``. A sigmoid or ReLU in place of the softmax is a notice, as it may be on purpose; for a gate on the
    weights, ignore this code.
    """
    for seen, A, key in _weighed(evidence):
        softmax = seen.softmax
        if (
            _sums_to_one(A, key)
            or _has_sink(seen, A, key)
            or _is_over_one_more(seen, A, key)
            or (softmax is not None and _mixes_heads(softmax, A))
        ):
            continue
        sums = A.sum(dim=key, dtype=torch.float32)
        low, high = float(sums.min()), float(sums.max())
        text = f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} to {high:.2f}"
        is_other = not _are_rows_scaled(seen, A, key) and not _are_exponentials(seen, A)
        is_other |= seen.values is not None and seen.values.name == "unweighed"  # may be divided by their sums later
        is_other &= not bool((A <= 0).all())
        yield finding(
            "row-sum",
            severity="notice" if is_other else "error",
            tried="sums of each query's weights",
            found=f"they are {text}, not 1",
            mistake="weights are made by another function than a softmax, or of more than one"
            if is_other
            else "weights are scaled after the softmax, or divided by another sum than that over the keys",
            mend="weights = scores.softmax(dim=-1), unchanged, or divided by their sum over the keys",
            at=seen.values,
            contrast=_contrast(seen, "the weights of a row should sum to 1"),
        )
        return


def _are_rows_scaled(seen: Seen, A: Tensor, key: int) -> bool:
    """Return whether each row is a row of the softmax, times a number."""
    softmax = seen.softmax_as_met
    if softmax is None or seen.values is None or seen.values.name == "unweighed":
        return False
    ratio = A.double() / softmax.double().clamp(min=1e-30)
    mean = ratio.mean(dim=key, keepdim=True)
    return bool(((ratio - mean).abs() <= 1e-3 * mean.abs().clamp(min=1e-12)).all())


def _are_exponentials(seen: Seen, A: Tensor) -> bool:
    """Return whether log A of each row is a line of q·k, with the same slope for all."""
    products = seen.products
    if A.shape != products.shape or bool((A <= 0).any()):
        return False
    x, y = products.double(), A.double().log()
    x, y = (one - one.mean(dim=-1, keepdim=True) for one in (x, y))
    x, y = x.flatten(), y.flatten()
    return bool((x @ y) ** 2 > (1 - 1e-6) * (x @ x) * (y @ y))


def _has_sink(seen: Seen, A: Tensor, key: int) -> bool:
    """Return whether the softmax had more columns than keys."""
    softmax = seen.softmax
    if softmax is None or not seen.softmaxes:
        return False
    axis = seen.softmaxes[0].axis
    return axis is not None and softmax.shape[axis] > A.shape[key]


def _is_over_one_more(seen: Seen, A: Tensor, key: int) -> bool:
    """Return whether weights are exponentials divided by their sum and one more number, the same for all queries.

    Then A / (1 − their sum) is the exponential of a line of q·k, with the same intercept for all queries.
    """
    products = seen.products
    rest = 1 - A.sum(dim=key, keepdim=True)
    if A.shape != products.shape or bool((rest <= 1e-6).any()) or bool((A <= 0).any()):
        return False
    x, y = products.flatten().double(), (A / rest).flatten().double().log()
    x, y = x - x.mean(), y - y.mean()
    return bool((x @ y) ** 2 > (1 - 1e-6) * (x @ x) * (y @ y))


def _mixes_heads(softmax: Tensor, A: Tensor) -> bool:
    """Return whether the weights are the softmax's, mixed over its second axis by a matrix, as talking heads are."""
    if softmax.shape != A.shape or A.ndim != 4 or A.shape[1] == 1:
        return False
    x, y = (one.movedim(1, -1).reshape(-1, one.shape[1]).double() for one in (softmax, A))
    solution = torch.linalg.lstsq(x, y).solution
    off = solution - torch.diag(solution.diagonal())
    return bool((x @ solution - y).norm() < 1e-3 * y.norm()) and bool(off.norm() > 1e-3 * solution.norm())


@probe("sinks", "sums of weights", unless="random softmax-axis row-sum mask-after-softmax")
def sinks(evidence: Evidence) -> Iterator[Finding]:
    """A part of each query's weight goes to a sink: a column of the softmax that is no key.

    The softmax has more columns than there are keys, and the rest is dropped; or 1 is added to the sum of exponentials.

    Why it hides: it is mostly on purpose, so that a head may look at nothing (Xiao et al. 2023, arXiv 2309.17453).
    gpt-oss learns a sink for each head.

    How to mend it: where it is not on purpose, drop the column before the softmax.
    """
    for seen, A, key in _weighed(evidence):
        if (_has_sink(seen, A, key) or _is_over_one_more(seen, A, key)) and not _sums_to_one(A, key):
            sums = A.sum(dim=key, dtype=torch.float32)
            yield finding(
                "sinks",
                severity="notice",
                tried="sums of each query's weights",
                found=f"they are {float(sums.min()):.2f} to {float(sums.max()):.2f}, the rest goes to a sink",
                mistake="",
                mend="nothing, if the sink is on purpose",
                at=seen.softmaxes[0] if seen.softmaxes else seen.values,
            )
            return


@probe("not-attention", "one softmax", unless="random softmax-axis eval-dropout")
def not_attention(evidence: Evidence) -> Iterator[Finding]:
    """The softmax is applied twice, or its weights do not meet the values of their keys.

    What a softmax is given is compared with what another has returned, and the axes of the product of weights and
    values with one another.

    Why it hides: rows sum to 1. Weights of a second softmax are nearly uniform, as its scores lie between 0 and 1: no
    weight of a row is more than e times another. An einsum whose letters do not match sums all values, whatever the
    weights.

    How to mend it: apply the softmax once, to the masked scores. The keys have the same letter in weights and values,
    as in ``torch.einsum("bhqk,bhkd->bhqd", weights, values)``.
    """
    if not any(step.name in ("values", "fused") for step in evidence.base.steps):
        raise CannotProbe("no weights were seen to meet values")
    for step in evidence.base.steps:
        if step.name == "values" and step.product is not None and (letter := _free_letter(step)):
            yield finding(
                "not-attention",
                tried="which axes the product of weights and values sums over",
                found=f"the axis {letter} of the weights is summed alone, and that of the values apart from it",
                mistake="a letter of the einsum is not that of the values' tokens, so that all values are summed",
                mend="torch.einsum('bhqk,bhkd->bhqd', weights, values)",
                at=step,
            )
            return
    for seen in evidence.attentions:
        if len(seen.softmaxes) < 2:
            continue
        first, second = seen.softmaxes[:2]
        given = second.given[0].detach()
        if given.shape == first.result.shape and second.axis == first.axis and torch.allclose(given, first.result):
            yield finding(
                "not-attention",
                tried="what the softmax is given",
                found="a softmax is given the weights of another",
                mistake="the softmax is applied twice, so that weights are nearly uniform",
                mend="apply it once, to the scores",
                at=second,
                contrast=_contrast(seen, "weights of a second softmax differ by a factor of e at most"),
            )
            return
    yield from _changed_afterwards(evidence)


def _changed_afterwards(evidence: Evidence) -> Iterator[Finding]:
    """Yield the notice that weights are not those of their softmax, though they sum to 1 and none was zeroed."""
    for seen, A, key in _weighed(evidence):
        softmax = seen.softmax_as_met
        if softmax is None or not _sums_to_one(A, key) or bool((A == 0).any()):
            continue
        if bool(((A.float() - softmax.float()).abs() > _ROUNDING).any()) and not _mixes_heads(softmax, A):
            yield finding(
                "not-attention",
                severity="notice",
                tried="the weights that the softmax has made, and those that meet the values",
                found="they are not the same, though both sum to 1",
                mistake="weights are changed after the softmax",
                mend="nothing, if it is on purpose",
                at=_changed_at(evidence.base, seen),
                contrast=_contrast(seen, "the softmax of the scores is on the right"),
            )
            return


def _free_letter(step: Step) -> str:
    """Return the letter of an axis of the weights that is summed alone, as an axis of the values is; "": none is."""
    assert step.product is not None
    letters, others, result = step.product.axes[step.which], step.product.others(step.which), step.product.result
    alone = [letter for letter in letters if letter not in others and letter not in result]
    of_values = [letter for letter in others if letter not in letters and letter not in result]
    return alone[0] if alone and of_values else ""

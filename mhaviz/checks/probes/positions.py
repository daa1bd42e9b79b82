"""Positions: relative ones stay relative, and values have none."""

from collections.abc import Iterator

import torch
from torch import Tensor

from mhaviz.checks.attentions import Seen
from mhaviz.checks.evidence import BATCH_SIZE, Evidence
from mhaviz.checks.factors import follow
from mhaviz.checks.findings import contrast, finding
from mhaviz.checks.probes.layout import are_tokens
from mhaviz.checks.registry import CannotProbe, probe
from mhaviz.checks.tolerances import are_close, changes, relative
from mhaviz.results.check import Finding

_CAUSES = "random heads-layout softmax-axis batch isolated"


@probe("positions", "positions", unless=_CAUSES)
def positions(evidence: Evidence) -> Iterator[Finding]:
    """Rotary positions are not relative, or values are rotated.

    All tokens of a sentence are the same, so that q·k may depend on the distance of query and key alone (Su et al.
    2021, arXiv 2104.09864, section 3.2), and values on nothing. Where the layer takes positions, all are shifted by 5,
    and no output should change.

    Why it hides: a rotation keeps the length of a vector, so that scores have their usual size and the loss falls.
    Positions that are not relative do not carry over to other places of a text, to a cache, or to a longer context.

    How to mend it: rotate queries and keys by the same angles, along the axis of tokens, after the split into heads,
    and leave values alone. Half-split and interleaved pairs of features are two layouts: use the same for both.
    """
    if not evidence.attentions:
        raise CannotProbe("no queries and keys were seen")
    for number, seen in enumerate(evidence.constant_pass.attentions):
        if number >= len(evidence.attentions):
            break
        if not are_tokens(evidence, number):
            continue  # a convolution before it, say, has positions of its own at the ends
        found = _of_products(evidence, number, seen) or _of_values(evidence, seen) or _of_heads(evidence, number, seen)
        if found is not None:
            yield found
            return
    yield from _shifted(evidence)


def _of_products(evidence: Evidence, number: int, seen: Seen) -> Finding | None:
    products = seen.by_head(seen.products, BATCH_SIZE)
    if products is None or products.shape[2] != products.shape[3]:
        return None
    lengths = [x.detach().norm(dim=axis) for x, axis in zip((seen.query, seen.key), seen.features, strict=True)]
    if not all(_are_alike(one) for one in lengths) and not _are_paired(evidence, number):
        return None  # positions are added
    scores, n = products[0], products.shape[2]
    size = scores.abs().amax()
    for offset in range(1 - n, n):
        along = scores.diagonal(offset, 1, 2)
        if bool(((along - along[:, :1]).abs() > relative(seen.query) * size).any()):
            expected = torch.stack([_relative(one) for one in scores])
            return finding(
                "positions",
                tried="a sentence of the same token everywhere, so that q·k depends on distances alone",
                found=f"q·k of a key {abs(offset)} {'later' if offset > 0 else 'earlier'} depends on the position"
                if offset
                else "q·k of a token with itself depends on the position",
                mistake="queries and keys are rotated by other angles, or only one of them is",
                mend="rotate queries and keys by the same cos and sin, along the axis of tokens",
                at=seen.step,
                contrast=contrast(
                    "weight",
                    torch.softmax(scores * seen.d_key**-0.5, dim=-1),
                    torch.softmax(expected * seen.d_key**-0.5, dim=-1),
                    note="all tokens are the same: along each diagonal, scores should be the same",
                ),
            )
    return None


def _are_paired(evidence: Evidence, number: int) -> bool:
    """Return whether features of queries or keys are each made of two features of a projection, as a rotation's are."""
    sides = [follow(evidence, number, side) for side in ("query", "key")]
    return any(side is not None and side.is_linear and side.n_mixed == 2 for side in sides)


def _are_alike(lengths: Tensor) -> bool:
    """Return whether rows of one head and sentence have the same length, whatever their position."""
    flat = lengths.detach()
    spread = torch.stack([flat.amax(dim=axis) - flat.amin(dim=axis) for axis in (-1,)]).amax()
    if float(spread) <= relative(flat) * float(flat.abs().amax()):
        return True
    return any(
        float((flat.amax(dim=axis) - flat.amin(dim=axis)).amax()) <= relative(flat) * float(flat.abs().amax())
        for axis in range(max(flat.ndim - 2, 0), flat.ndim)
    )


def _relative(scores: Tensor) -> Tensor:
    """Return scores whose diagonals are those of the first row and column, (length, length)."""
    n = len(scores)
    distance = torch.arange(n)[None] - torch.arange(n)[:, None]
    return torch.where(distance >= 0, scores[0][distance.clamp(min=0)], scores[:, 0][(-distance).clamp(min=0)])


def _of_values(evidence: Evidence, seen: Seen) -> Finding | None:
    axes = seen.axes_of_values
    if axes is None or seen.value is None:
        return None
    features, tokens = axes
    V = seen.value.detach().movedim((tokens, features), (-2, -1))
    V = V.reshape(-1, *V.shape[-2:])[0]
    if V.shape[0] != evidence.k_length:
        return None
    lengths = V.norm(dim=-1)
    turns = bool(((V - V[:1]).abs() > relative(V) * V.abs().amax()).any())
    if turns and bool(((lengths - lengths[0]).abs() <= relative(V) * lengths.amax()).all()):
        return finding(
            "positions",
            tried="a sentence of the same token everywhere, so that all its values are the same",
            found="values keep their length and turn with the position",
            mistake="values are rotated, as queries and keys are",
            mend="rotate queries and keys alone",
            at=seen.values or seen.fused,
        )
    return None


def _of_heads(evidence: Evidence, number: int, seen: Seen) -> Finding | None:
    """Return the finding that rows are rotated by the same angles at all positions."""
    axis = seen.features[0]
    letters = seen.query_axes.replace(seen.query_axes[axis], "")
    _, query, _ = seen.letters
    if query not in letters:
        return None
    rows = seen.query.detach().movedim(axis, -1).movedim(letters.index(query), -2)
    if rows.shape[-2] < 3 or bool(changes(rows[..., 1:2, :].expand_as(rows[..., 1:, :]), rows[..., 1:, :]).any()):
        return None
    side = follow(evidence, number, "query")
    if side is None or not side.is_linear or side.factor is None or side.n_mixed != 2:
        return None
    return finding(
        "positions",
        tried="a sentence of the same token everywhere, and what its queries are made of",
        found="queries are rotated, by the same angles at all positions",
        mistake="the rotation follows the axis of heads, not that of tokens",
        mend="rotate along the axis of tokens: cos and sin of (length, d_key), against (…, length, d_key)",
        at=seen.step,
    )


def _shifted(evidence: Evidence) -> Iterator[Finding]:
    name = evidence.layer.positions
    if name is None or evidence.layer.is_cross:
        return
    at = torch.arange(evidence.length, device=evidence.x.device).expand(BATCH_SIZE, -1)
    try:
        here, there = (evidence.output(evidence.x, **{name: at + shift}) for shift in (0, 5))
    except (IndexError, RuntimeError, TypeError):
        return
    if _is_rotary(evidence) and not are_close(there, here):
        yield finding(
            "positions",
            tried=f"{name} shifted by 5",
            found="outputs change with a common shift of all positions",
            mistake="positions are not relative: queries and keys are rotated by other angles, or values are",
            mend="rotate queries and keys by the same cos and sin",
        )


def _is_rotary(evidence: Evidence) -> bool:
    seen = evidence.constant_pass.attentions
    return bool(seen) and all(
        _are_alike(x.detach().norm(dim=axis))
        for x, axis in zip((seen[0].query, seen[0].key), seen[0].features, strict=True)
    )

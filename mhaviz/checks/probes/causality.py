"""Causality: a query sees its own token and those before it, and no other."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from mhaviz.checks.evidence import Evidence, Influence
from mhaviz.checks.findings import contrast, finding
from mhaviz.checks.modules import first_leak
from mhaviz.checks.probes.masks import as_masked, masked_at
from mhaviz.checks.registry import CannotProbe, probe
from mhaviz.checks.tolerances import are_close, changes
from mhaviz.results.attention import head_name
from mhaviz.results.check import Finding

_CAUSES = "random heads-layout batch softmax-axis isolated mask-value mask-after-softmax input-changed"


@probe("causal", "causality", unless=_CAUSES)
def causal(evidence: Evidence) -> Iterator[Finding]:
    """A query sees a later token, or does not see an earlier one or its own.

    One token at a time is replaced. An output before it that changes has seen a later token. Longer inputs follow, for
    masks of a fixed length. A prefix whose tokens see one another is a notice.

    Why it hides: such a leak lowers the loss, in training and in validation alike, as both read the whole text. It
    shows when text is generated. A mask that is one off, ``triu(diagonal=0)`` for ``diagonal=1``, hides a token from
    itself.

    How to mend it: ``torch.ones(length, length, dtype=torch.bool)`` with ``.tril()`` is True where a query sees a key,
    with ``.triu(diagonal=1)`` where it does not. ``is_causal=True`` of ``F.scaled_dot_product_attention`` begins in the
    top left corner, which is wrong for the last query over a cache.
    """
    if evidence.layer.is_cross or evidence.length == 1:
        raise CannotProbe("it is cross-attention")
    if evidence.layer.takes_causal:
        yield from _told(evidence)
        return
    by_head = evidence.seen_by_head
    hides = by_head is not None and bool(by_head.tril(-1).any()) and not bool(by_head.triu(1).any())
    if not evidence.is_causal and not hides and not _some_heads(by_head):
        if (far := _far(evidence)) is not None:
            yield far
            return
        raise CannotProbe("it takes no causal mask, and sees tokens to both sides alike")
    on = evidence.depends
    expected = torch.ones(on.shape, dtype=torch.bool).tril()
    found = list(
        _found(evidence, Influence(on, expected, evidence.base.output), "one token at a time, replaced by another")
    )
    yield from found or _later(evidence)


def _later(evidence: Evidence) -> Iterator[Finding]:
    """Yield the finding that later tokens are seen in a longer input, which a mask of the first input's length
    allows."""
    for length in (evidence.length + 4, _LONG):
        x = evidence.random(length, 5)
        last = x.clone()
        last[:, -1] = evidence.others[:, 0]
        try:
            changed = changes(evidence.output(x), evidence.output(last)).any(dim=-1).any(dim=0)[:-1]
        except (RuntimeError, IndexError, ValueError, AssertionError):
            return
        if bool(changed.any()):
            yield finding(
                "causal",
                tried=f"the last of {length} tokens, replaced by another, after inputs of {evidence.length} tokens",
                found=f"output {int(changed.int().argmax())} changes with token {length - 1}, which is later",
                mistake="the mask fits the first input's length alone, or a longer one is cut out at the wrong place",
                mend="make the mask of x.shape[1] in each call",
                at=masked_at(evidence.base),
            )
            return


_LONG = 250
"""Length at which a mask that is cut out of a longer one at the wrong place begins to hide."""


def _far(evidence: Evidence) -> Finding | None:
    """Return the finding that later tokens are hidden only from some distance on; None: they are not, or not known.

    Then a token changes all outputs from some place before it to the end.
    """
    x, first = evidence.random(_LONG, 5), []
    try:
        before = evidence.output(x)
        for place in (0, _LONG // 2, _LONG - 1):
            one = x.clone()
            one[:, place] = evidence.others[:, 0]
            changed = changes(before, evidence.output(one)).any(dim=-1).any(dim=0)
            start = int(changed.int().argmax())
            if not bool(changed[start:].all()):
                return None
            first.append(place - start)
    except (RuntimeError, IndexError, ValueError, AssertionError):
        return None
    if first[0] or not 0 < first[2] < _LONG - 1 or first[1] not in (first[2], _LONG // 2):
        return None
    return finding(
        "causal",
        tried=f"the first, the middle and the last of {_LONG} tokens, replaced by others",
        found=f"outputs up to {first[2]} tokens before a token change with it, and all of {evidence.length} tokens",
        mistake="the mask is cut out of a longer one at the wrong place, and hides nothing of a short input",
        mend="mask[:length, :length], whose rows and columns begin at the same token",
        at=masked_at(evidence.base),
    )


def _told(evidence: Evidence) -> Iterator[Finding]:
    found = list(
        _found(evidence, evidence.causal, "one token at a time, replaced by another, where later ones are to be hidden")
    )
    kept = torch.ones_like(evidence.keep)
    if not found and evidence.layer.takes_keep and are_close(evidence.run(evidence.keys, keep=kept), evidence.plain):
        both = evidence.influence(kept, True)
        found = list(
            _found(
                evidence,
                both,
                "one token at a time, where later ones are to be hidden, with a mask that hides no padding",
            )
        )
    yield from found


class _Verdict(NamedTuple):
    """What is seen that must not be, or not seen that may be.

    Attributes:
        found: in words.
        mistake: the likely mistake.
        cell: query and key at which it is seen.
        is_notice: whether it is on purpose, mostly.
    """

    found: str
    mistake: str
    cell: tuple[int, int]
    is_notice: bool = False


def _found(evidence: Evidence, influence: Influence, tried: str) -> Iterator[Finding]:
    n = evidence.length
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    on = influence.on.any(dim=0)
    verdict = _verdict(evidence, on & later, on & later.mT, later)
    if verdict is None:
        return
    query, key = verdict.cell
    found, where = verdict.found, None
    if bool((on & later).any()) and len({seen.step.module for seen in evidence.attentions}) > 1:
        where = first_leak(evidence, key, evidence.layer.takes_causal)
        found += "" if where is None else f", first in {where}"
    relation = "which is later" if key > query else "its own" if key == query else "which is earlier"
    note = f"query x{query} beside key x{key}, {relation}"
    picture = as_masked(evidence, evidence.causal_pass, ~later, 0, note)  # None: the weights are right
    yield finding(
        "causal",
        severity="notice" if verdict.is_notice else "error",
        tried=tried,
        found=found,
        mistake=verdict.mistake,
        mend="torch.ones(length, length, dtype=torch.bool).tril() is True where a query sees a key",
        at=None if verdict.mistake.startswith("weights hide") else masked_at(evidence.causal_pass, ~later),
        module=where or "",
        contrast=picture or contrast("influence", influence.on[:1].float(), influence.expected[:1].float(), note=note),
    )


def _verdict(evidence: Evidence, leaks: Tensor, sees: Tensor, later: Tensor) -> _Verdict | None:
    """Return what is wrong in what queries see; None: nothing.

    Args:
        evidence: of the layer.
        leaks, sees: bool, (length, length), which later and which earlier tokens change a query's output.
        later: bool, of the same shape, True for later tokens.
    """
    missing = evidence.depends.any(dim=0) & later.mT & ~sees
    if _is_blind(evidence) and not bool(leaks[1:].any()) and _is_all_or_none(leaks[0, 1:]):
        found, is_tied = "no query gives weight to its own token", _are_tied(evidence)
        found += ", and the first, which sees none, averages all" * bool(leaks[0].any())
        mistake = "the mask is one off: it hides a token from itself"
        tied = "queries are keys, and a token is hidden from itself, as Reformer does"
        return _Verdict(found, tied if is_tied else mistake, (len(leaks) - 1,) * 2, is_tied)
    if bool(leaks.any()):
        cell = _first(leaks)
        found = f"output {cell[0]} changes with token {cell[1]}, which is later"
        n_prefix = int(leaks.any(dim=1).sum()) + 1
        prefix = torch.zeros_like(leaks)
        prefix[:n_prefix, :n_prefix] = True
        if torch.equal(leaks, prefix & later) and n_prefix < len(leaks):
            return _Verdict(found, f"the first {n_prefix} tokens see one another, as a prefix does", cell, True)
        if not bool(sees.any()):
            mistake = "the mask is upside down: it shows later tokens and hides earlier ones"
        elif torch.equal(leaks, later) and not bool(missing.any()):
            mistake = _partly(evidence) or "no mask of later tokens is applied"
        elif not bool(leaks.triu(2).any()):
            mistake = "the mask is one off: it shows the next token as well"
        else:
            mistake = "the mask hides only some of the later tokens"
        return _Verdict(found, mistake, cell)
    if bool(missing.any()) and evidence.layer.takes_causal:  # else it has a window, or blocks
        cell = _first(missing)
        found = f"output {cell[0]} does not change with token {cell[1]}, which is earlier"
        return _Verdict(found, "the mask hides earlier tokens, too", cell)
    return None


def _first(on: Tensor) -> tuple[int, int]:
    query, key = on.nonzero()[0].tolist()
    return query, key


def _is_all_or_none(on: Tensor) -> bool:
    return bool(on.all()) or not bool(on.any())


def _some_heads(by_head: Tensor | None) -> bool:
    """Return whether some heads hide all later tokens, and others show them."""
    if by_head is None or by_head.shape[1] != by_head.shape[2]:
        return False
    sees_later = by_head.triu(1).flatten(1).any(dim=1)
    sees_earlier = by_head.tril(-1).flatten(1).any(dim=1)
    return bool((~sees_later & sees_earlier).any()) and bool(sees_later.any())


def _are_tied(evidence: Evidence) -> bool:
    """Return whether the queries of an attention are its keys, up to a factor for each."""
    for seen in evidence.attentions:
        query, key = (x.detach().cpu().float() for x in (seen.query, seen.key))
        if query.shape != key.shape:
            key = key.mT
        if query.shape == key.shape:
            cosine = torch.nn.functional.cosine_similarity(query, key, dim=seen.features[0])
            if bool((cosine > 1 - 1e-4).all()):
                return True
    return False


def _partly(evidence: Evidence) -> str:
    """Return that only some heads hide later tokens, with their numbers; "": all are alike, or it is not known."""
    one = evidence.causal_pass
    every = []
    for number in range(len(one.attentions)):
        A = one.weights(number)
        if A is None:
            return ""
        of = number if len(one.attentions) > 1 else None
        every += [(head_name(of, head), shown) for head, shown in enumerate(A[0] > 0)]
    leaking = [name for name, shown in every if bool(shown.triu(1).any())]
    if not leaking:
        return "weights hide later tokens, and something else mixes them in"
    return f"the mask is not applied in {', '.join(leaking)}" if len(leaking) < len(every) else ""


def _is_blind(evidence: Evidence) -> bool:
    """Return whether no query but the first gives weight to its own token, though it gives some to earlier ones.

    Weights without a softmax may leave a part of 1, which the layer gives to the token itself, as where sticks are
    broken.
    """
    one = evidence.causal_pass
    for number, seen in enumerate(one.attentions):
        if seen.values is not None and seen.values.name == "unweighed":
            continue
        weights = one.weights(number)
        if weights is None or weights.shape[2:] != (evidence.length, evidence.length):
            continue
        A = weights[0]
        own = A.diagonal(dim1=1, dim2=2)[:, 1:]
        if not bool((own > 1e-9).any()) and bool((A.tril(-1) > 0).any()):
            return True
    return False

"""Causality: a query sees its own token and those before it, and no other."""

from collections.abc import Iterator

import torch
from torch import Tensor

from mhaviz.checks.evidence import Evidence, Influence
from mhaviz.checks.findings import contrast, finding
from mhaviz.checks.modules import first_leak
from mhaviz.checks.passes import changes
from mhaviz.checks.probes.masks import as_masked, masked_at
from mhaviz.checks.registry import CannotProbe, probe
from mhaviz.results.check import Finding

_CAUSES = "random heads-layout batch softmax-axis isolated mask-value mask-after-softmax input-changed"


@probe("causal", "causality", unless=_CAUSES)
def causal(layer: Evidence) -> Iterator[Finding]:
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
    if layer.layer.is_cross or layer.length == 1:
        raise CannotProbe("it is cross-attention")
    if layer.layer.takes_causal:
        yield from _told(layer)
        return
    by_head = _seen_by_head(layer)
    hides = by_head is not None and bool(by_head.tril(-1).any()) and not bool(by_head.triu(1).any())
    if not layer.is_causal and not hides and not _some_heads(by_head):
        if (far := _far(layer)) is not None:
            yield far
            return
        raise CannotProbe("it takes no causal mask, and sees tokens to both sides alike")
    on = layer.depends
    expected = torch.ones(on.shape, dtype=torch.bool).tril()
    found = list(_found(layer, Influence(on, expected, layer.base.output), "one token at a time, replaced by another"))
    yield from found or _later(layer)


def _later(layer: Evidence) -> Iterator[Finding]:
    """Yield the finding that later tokens are seen in a longer input, which a mask of the first input's length
    allows."""
    for length in (layer.length + 4, _LONG):
        x = layer.random(length, 5)
        last = x.clone()
        last[:, -1] = layer.others[:, 0]
        try:
            changed = changes(layer.output(x), layer.output(last)).any(dim=-1).any(dim=0)[:-1]
        except (RuntimeError, IndexError, ValueError, AssertionError):
            return
        if bool(changed.any()):
            yield finding(
                "causal",
                tried=f"the last of {length} tokens, replaced by another, after inputs of {layer.length} tokens",
                found=f"output {int(changed.int().argmax())} changes with token {length - 1}, which is later",
                mistake="the mask fits the first input's length alone, or a longer one is cut out at the wrong place",
                mend="make the mask of x.shape[1] in each call",
                at=masked_at(layer.base),
            )
            return


_LONG = 250
"""Length at which a mask that is cut out of a longer one at the wrong place begins to hide."""


def _far(layer: Evidence) -> Finding | None:
    """Return the finding that later tokens are hidden only from some distance on; None: they are not, or not known.

    Then a token changes all outputs from some place before it to the end.
    """
    x, first = layer.random(_LONG, 5), []
    try:
        before = layer.output(x)
        for place in (0, _LONG // 2, _LONG - 1):
            one = x.clone()
            one[:, place] = layer.others[:, 0]
            changed = changes(before, layer.output(one)).any(dim=-1).any(dim=0)
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
        found=f"outputs up to {first[2]} tokens before a token change with it, and all of {layer.length} tokens",
        mistake="the mask is cut out of a longer one at the wrong place, and hides nothing of a short input",
        mend="mask[:length, :length], whose rows and columns begin at the same token",
        at=masked_at(layer.base),
    )


def _told(layer: Evidence) -> Iterator[Finding]:
    found = list(_found(layer, layer.causal, "one token at a time, replaced by another, with causal=True"))
    if not found and layer.layer.takes_keep:
        both = layer.influence(torch.ones_like(layer.keep), True)
        found = list(_found(layer, both, "one token at a time, with causal=True and a mask of padding"))
    yield from found


def _found(layer: Evidence, influence: Influence, tried: str) -> Iterator[Finding]:
    n = layer.length
    later, earlier = torch.ones(n, n).triu(1).bool(), torch.ones(n, n).tril(-1).bool()
    on = influence.on.any(dim=0)
    leaks, sees = on & later, on & earlier
    missing = layer.depends.any(dim=0) & earlier & ~on
    blind = _blind(layer, influence)
    if blind and not bool(leaks[1:].any()) and _first_averages_all(leaks):
        text = "no query gives weight to its own token"
        mistake = "the mask is one off: it hides a token from itself"
        if bool(leaks[0].any()):
            text += ", and the first, which sees none, averages all"
    elif bool(leaks.any()):
        query, key = leaks.nonzero()[0].tolist()
        text = f"output {query} changes with token {key}, which is later"
        step_over = [int((leaks.nonzero()[:, 1] - leaks.nonzero()[:, 0]).max())]
        if not bool(sees.any()):
            mistake = "the mask is upside down: it shows later tokens and hides earlier ones"
        elif bool((leaks == later).all()) and not bool(missing.any()):
            mistake = _partly(layer) or "no mask of later tokens is applied"
        elif step_over[0] == 1:
            mistake = "the mask is one off: it shows the next token as well"
        else:
            mistake = "the mask hides only some of the later tokens"
    elif bool(missing.any()):
        query, key = missing.nonzero()[0].tolist()
        text = f"output {query} does not change with token {key}, which is earlier"
        mistake = "the mask hides earlier tokens, too"
        if not layer.layer.takes_causal:
            return  # a window, or blocks
    else:
        return
    n_prefix = int(leaks.any(dim=1).sum()) + 1
    prefix = torch.zeros_like(leaks)
    prefix[:n_prefix, :n_prefix] = True
    is_notice = bool(leaks.any()) and torch.equal(leaks, prefix & later) and n_prefix < n and not blind
    if is_notice:
        mistake = f"the first {n_prefix} tokens see one another, as a prefix does"
    if blind and _are_tied(layer):
        is_notice, mistake = True, "queries are keys, and a token is hidden from itself, as Reformer does"
    note = text
    one = layer.causal_pass
    where = None
    if bool(leaks.any()) and len({seen.step.module for seen in layer.attentions}) > 1:
        where = first_leak(layer, int(leaks.nonzero()[:, 1].max()), layer.layer.takes_causal)
        text += f", first in {where[0]}" if where is not None else ""
    at = masked_at(one)
    picture = as_masked(layer, one, torch.ones(n, n, dtype=torch.bool).tril(), 0, note)
    yield finding(
        "causal",
        tried=tried,
        found=text,
        mistake=mistake,
        mend="torch.ones(length, length, dtype=torch.bool).tril() is True where a query sees a key",
        severity="notice" if is_notice else "error",
        at=at,
        contrast=picture or contrast("influence", influence.on[:1].float(), influence.expected[:1].float(), note=note),
    )


def _first_averages_all(leaks: Tensor) -> bool:
    """Return whether the first query sees all later keys, as a row that is wholly hidden may, or none."""
    return bool(leaks[0, 1:].all()) or not bool(leaks[0].any())


def _seen_by_head(layer: Evidence) -> Tensor | None:
    """Return which keys have weight in any sentence of ``base``: bool, (n_heads, q_length, k_length); None: not
    seen."""
    every = []
    for number in range(len(layer.attentions)):
        A = layer.base.weights(number)
        if A is None or A.shape[2:] != (layer.length, layer.length):
            return None
        every.append((A > 0).any(dim=0))
    return torch.cat(every) if every else None


def _some_heads(by_head: Tensor | None) -> bool:
    """Return whether some heads hide all later tokens, and others show them."""
    if by_head is None or by_head.shape[1] != by_head.shape[2]:
        return False
    sees_later = by_head.triu(1).flatten(1).any(dim=1)
    sees_earlier = by_head.tril(-1).flatten(1).any(dim=1)
    return bool((~sees_later & sees_earlier).any()) and bool(sees_later.any())


def _are_tied(layer: Evidence) -> bool:
    """Return whether the queries of an attention are its keys, up to a factor for each."""
    for seen in layer.attentions:
        query, key = (x.detach().cpu().float() for x in (seen.query, seen.key))
        if query.shape != key.shape:
            key = key.mT
        if query.shape == key.shape:
            cosine = torch.nn.functional.cosine_similarity(query, key, dim=seen.features[0])
            if bool((cosine > 1 - 1e-4).all()):
                return True
    return False


def _partly(layer: Evidence) -> str:
    """Return that only some heads hide later tokens, with their numbers; "": all are alike, or it is not known."""
    one = layer.causal_pass
    every = []
    for number in range(len(one.attentions)):
        A = one.weights(number)
        if A is None:
            return ""
        every += list(A[0] > 0)
    leaking = [number for number, A in enumerate(every) if bool(A.triu(1).any())]
    if not leaking or len(leaking) == len(every):
        return ""
    return f"the mask is not applied in {'head' if len(leaking) == 1 else 'heads'} {', '.join(map(str, leaking))}"


def _blind(layer: Evidence, influence: Influence) -> bool:
    """Return whether no query but the first gives weight to its own token, though it gives some to earlier ones."""
    one = layer.causal_pass
    for number in range(len(one.attentions)):
        weights = one.weights(number)
        if weights is None or weights.shape[2:] != (layer.length, layer.length):
            continue
        A = weights[0]
        own = A.diagonal(dim1=1, dim2=2)[:, 1:]
        if not bool((own > 1e-9).any()) and bool((A.tril(-1) > 0).any()):
            return True
    return False

"""Caches and packed documents: what is computed in steps, or in one row, is what it is apart."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from mhaviz.checks.evidence import BATCH_SIZE, Evidence
from mhaviz.checks.findings import contrast, finding
from mhaviz.checks.registry import CannotProbe, probe
from mhaviz.checks.tolerances import close
from mhaviz.results.check import Finding

_CAUSES = "random heads-layout softmax-axis batch shape"


@probe("cache", "cache", unless=_CAUSES)
def cache(evidence: Evidence) -> Iterator[Finding]:
    """Tokens that are read in steps, over a cache, have another output than tokens that are read at once.

    The first tokens are read at once, the others one by one, or one and two at once, each with the cache of those
    before.

    Why it hides: training has no cache. Generated text is fluent for a while, and gets worse the longer it is.

    How to mend it: the position of a new token is the length of the cache, not 0. Keys are rotated before they are
    cached or after, not both. The last query sees all keys: ``is_causal=True`` of ``F.scaled_dot_product_attention``
    begins in the top left corner, so that a single query would see only the first.
    """
    name, start = evidence.layer.cache, evidence.layer.start
    if (name is None and start is None) or evidence.layer.is_cross:
        raise CannotProbe("it takes no cache")
    sizes = (evidence.length - 3, 1, 2) if evidence.length > 3 else (1,) * evidence.length
    whole = _whole(evidence)
    for steps, what in ((_one_by_one(sizes), "one by one"), (sizes, "one, then two at once")):
        try:
            stepped = _stepped(evidence, steps)
        except CannotProbe:
            raise
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            yield _of_cache(
                f"{steps[0]} tokens at once, then {what}", f"it raises {' '.join(str(error).split())[:120]}", 0
            )
            return
        if stepped.shape != whole.shape:
            yield _of_cache(f"{steps[0]} tokens at once, then {what}", f"outputs are {tuple(stepped.shape)}", 0)
            return
        differs = ~close(stepped.cpu(), whole).all(dim=2).all(dim=0)
        if bool(differs.any()):
            token = int(differs.int().argmax())
            yield _of_cache(
                f"{steps[0]} tokens at once, then {what}, with the cache",
                f"outputs differ from those of one pass from token {token} on",
                token,
                steps[0],
            )
            return


def _one_by_one(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return (sizes[0], *(1,) * sum(sizes[1:]))


def _whole(evidence: Evidence) -> Tensor:
    if evidence.layer.takes_causal and not evidence.is_causal:
        return evidence.output(evidence.x, causal=True)
    return evidence.output(evidence.x, **_begin(evidence))


def _begin(evidence: Evidence) -> dict[str, Any]:
    return {evidence.layer.start: 0} if evidence.layer.cache is None and evidence.layer.start is not None else {}


def _stepped(evidence: Evidence, sizes: tuple[int, ...]) -> Tensor:
    """Return the outputs of tokens that are read in steps of these sizes.

    Raises:
        CannotProbe: the layer returns no cache.
    """
    name, start, held, begin, outputs = evidence.layer.cache, evidence.layer.start, None, 0, []
    uses = {"use_cache": True} if "use_cache" in evidence.layer.parameters else {}
    for size in sizes:
        x = evidence.x[:, begin : begin + size]
        given: dict[str, Any] = {**uses}
        if name is not None:
            given[name] = held
        if start is not None:
            given[start] = begin
        if evidence.layer.positions is not None and name is not None:
            given[evidence.layer.positions] = torch.arange(begin, begin + size, device=x.device).expand(BATCH_SIZE, -1)
        if evidence.layer.takes_causal and not evidence.is_causal:
            given |= evidence.layer.masks_for(None, True, (BATCH_SIZE, size, begin + size), x.device)
        with torch.no_grad():
            result = evidence.layer.call(x, None, **given)
        if name is not None:
            if not isinstance(result, tuple | list) or len(result) < 2 or result[1] is None:
                raise CannotProbe(f"it takes {name}, and returns no cache beside its output")
            held = result[-1]
        outputs.append(result[0] if isinstance(result, tuple | list) else result)
        begin += size
    return torch.cat(outputs, dim=1)


def _of_cache(tried: str, found: str, token: int, first: int = -1) -> Finding:
    mistake = "positions begin again in each step, keys are rotated twice, or the mask is that of the first tokens"
    if token and token < first:
        mistake = "the first tokens already differ from a pass without a cache"
    return finding(
        "cache",
        tried=tried,
        found=found,
        mistake=mistake,
        mend="positions from the length of the cache on, and the last query aligned with the last key",
    )


@probe("packed", "packed documents", unless=_CAUSES)
def packed(evidence: Evidence) -> Iterator[Finding]:
    """Documents that are packed into one row see one another.

    A row holds two documents. Tokens of one are replaced, and outputs of the other change.

    Why it hides: shapes are right, and the loss is only a little higher, as a model learns to overlook the document
    before.

    How to mend it: hide keys of other documents as well as later keys.
    ``documents[:, :, None] == documents[:, None, :]`` is True where a query sees a key; kernels of variable lengths
    take ``cu_seqlens``. Positions that begin again in each document hide nothing by themselves: a layer that takes only
    these gets a notice.
    """
    name = evidence.layer.documents or evidence.layer.positions
    if name is None or evidence.layer.is_cross:
        raise CannotProbe("it takes no documents")
    if evidence.layer.documents is None and not (evidence.layer.takes_causal or evidence.is_causal):
        raise CannotProbe("it takes no documents, and sees later tokens")
    if evidence.length < 5:
        raise CannotProbe("it takes too few tokens")
    boundaries = (3, evidence.length - 3, evidence.length // 2)
    documents = torch.stack([(torch.arange(evidence.length) >= at).long() for at in boundaries])
    starts = torch.tensor(boundaries)[:, None]
    at = torch.arange(evidence.length) - documents * starts
    device = evidence.x.device
    given = {name: (documents if evidence.layer.documents else at).to(device)}
    if evidence.layer.documents and evidence.layer.positions:
        given[evidence.layer.positions] = at.to(device)
    causal = evidence.layer.takes_causal
    _, on = evidence.changed(causal=causal, **given)
    same = documents[:, :, None] == documents[:, None, :]
    leaks = on & ~same
    if bool(leaks.any()):
        sentence, query, key = leaks.nonzero()[0].tolist()
        is_told = evidence.layer.documents is not None
        yield finding(
            "packed",
            severity="error" if is_told else "notice",
            tried=f"two documents in a row, told by {name}, and one token at a time replaced",
            found=f"output {query}, of document {int(documents[sentence, query])}, changes with token {key}, of "
            f"document {int(documents[sentence, key])}",
            mistake="the mask does not hide other documents" if is_told else "positions that begin again hide nothing",
            mend="documents[:, :, None] == documents[:, None, :], beside the causal mask",
            contrast=contrast("influence", on[sentence][None].float(), (on & same)[sentence][None].float()),
        )

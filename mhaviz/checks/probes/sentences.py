"""Sentences and tokens: those of other sentences are not seen, those of the same are."""

from collections.abc import Iterator

import torch
from torch import Tensor

from mhaviz.checks.evidence import Evidence
from mhaviz.checks.findings import contrast, finding
from mhaviz.checks.probes.layout import query_axis_of_output
from mhaviz.checks.registry import probe
from mhaviz.checks.tolerances import are_close, changes
from mhaviz.results.check import Finding


@probe("batch", "independent sentences", unless="eval-dropout random shape heads-layout softmax-axis")
def batch(evidence: Evidence) -> Iterator[Finding]:
    """Sentences of a batch influence one another.

    One sentence of a batch is replaced, and the outputs of others change; or a sentence alone, or elsewhere in the
    batch, has another output.

    Why it hides: shapes are right, and the loss falls, as sentences of a batch hint at one another. With a batch of 1,
    as in use, the hints are gone.

    How to mend it: check ``batch_first``: ``nn.MultiheadAttention`` reads (length, batch_size, d_model) unless it is
    told otherwise. Look for a softmax, a mean or a norm over axis 0.
    """
    changed = changes(evidence.base.output, evidence.sentence_pass.output)[1:].any(dim=(1, 2))
    if bool(changed.any()):
        yield _of_batch(
            "other tokens in sentence 0",
            f"the output of sentence {int(changed.int().argmax()) + 1} changes",
        )
        return
    alone = evidence.output(evidence.x[1:2], **evidence.beside(evidence.keys[1:2]))
    if alone.shape == evidence.base.output[:1].shape and not are_close(alone, evidence.plain[1:2]):
        yield _of_batch("sentence 1 alone, and in a batch", "its outputs differ")
        return
    turned = evidence.output(evidence.x.flip(0), **evidence.beside(evidence.keys.flip(0))).flip(0)
    if not are_close(turned, evidence.plain):
        yield _of_batch("the sentences of a batch in reverse order", "their outputs differ")


def _of_batch(tried: str, found: str) -> Finding:
    return finding(
        "batch",
        tried=tried,
        found=found,
        mistake="an operation runs over the batch: batch_first, a softmax or a norm over axis 0, or a mask of others",
        mend="pass batch_first=True, or name the axis of tokens",
    )


@probe("isolated", "tokens see others", unless="heads-layout softmax-axis random batch")
def isolated(evidence: Evidence) -> Iterator[Finding]:
    """A token does not see the others, or a query does not see all of the memory.

    Each token is replaced in turn, and no output but its own changes. In cross-attention a query sees all of the
    memory.

    Why it hides: without attention a layer still transforms each token, so that the loss falls.

    How to mend it: check the axis of the softmax and the source of the values. A softmax over an axis of length 1 gives
    weights of 1, and values that are made of the query's own token bring no other. The memory has no later tokens to
    hide.
    """
    others = evidence.depends
    if evidence.layer.is_cross and _is_triangle(others.any(dim=0)):
        yield finding(
            "isolated",
            tried="one token of the memory at a time is replaced by another",
            found="query 0 sees only token 0 of the memory, query 1 only tokens 0 and 1, and so on",
            mistake="a causal mask is applied to the memory, all of which a query may see",
            mend="hide only padding of the memory",
            at=evidence.attentions[0].step if evidence.attentions else None,
            contrast=contrast("influence", others[:1].float(), torch.ones(1, *others.shape[1:])),
        )
        return
    if any(_sees_others(evidence, number) for number in range(len(evidence.attentions))):
        return  # what it sees goes nowhere: an output projection of zeros, or unused, which gradients tell
    if not evidence.layer.is_cross:
        others = others & ~torch.eye(evidence.length, dtype=torch.bool)
    if not bool(others.any()):
        whose = (
            "no output changes with any token of the memory"
            if evidence.layer.is_cross
            else "only its own output changes"
        )
        yield finding(
            "isolated",
            tried="one token at a time is replaced by another",
            found=whose,
            mistake="the softmax runs over a single key, or the values are those of the query",
            mend="take keys and values from all tokens, and sum the weights' axis of keys",
            at=evidence.attentions[0].step if evidence.attentions else None,
            contrast=contrast("influence", evidence.depends[:1].float(), torch.ones(1, *evidence.depends.shape[1:])),
        )


def _is_triangle(on: Tensor) -> bool:
    return bool(on.any()) and torch.equal(on, torch.ones_like(on).tril())


def _sees_others(evidence: Evidence, number: int) -> bool:
    """Return whether the weighted values of an attention change with other tokens than their own."""
    before, axis = evidence.attentions[number].output, query_axis_of_output(evidence.attentions[number])
    if before is None or axis is None or before.shape[axis] != evidence.length:
        return False
    for place, one in enumerate(evidence.token_passes):
        found = one.attentions
        after = found[number].output if number < len(found) else None
        if after is None or after.shape != before.shape:
            return False
        changed = changes(before.detach(), after.detach()).movedim(axis, 0).flatten(1).any(dim=1)
        if not evidence.layer.is_cross:
            changed[place] = False
        if bool(changed.any()):
            return True
    return False

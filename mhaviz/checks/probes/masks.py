"""Padding: what it holds, and how much there is, does not matter."""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import torch
from torch import Tensor

from mhaviz.checks.evidence import HIDDEN, Evidence, Influence
from mhaviz.checks.factors import regress
from mhaviz.checks.findings import contrast, finding, token_names, weighed
from mhaviz.checks.passes import Pass
from mhaviz.checks.registry import CannotProbe, probe
from mhaviz.checks.tolerances import are_close, changes
from mhaviz.observe.steps import Step
from mhaviz.results.attention import head_name
from mhaviz.results.check import Contrast, Finding

CAUSES = "random heads-layout batch softmax-axis input-changed mask-after-softmax"


def require_keep(evidence: Evidence) -> None:
    """Raise CannotProbe if the layer takes no mask of padding."""
    if not evidence.layer.takes_keep:
        raise CannotProbe("it takes no mask of padding")


def real(evidence: Evidence) -> Tensor:
    """Return which queries of sentence 1 are no padding: bool, (q_length,)."""
    return torch.ones(evidence.length, dtype=torch.bool) if evidence.layer.is_cross else evidence.keep[1]


def masked_at(one: Pass, visible: Tensor | None = None) -> Step | None:
    """Return the step at which scores met a mask, or where none is seen, their softmax or kernel.

    Args:
        one: the pass with the mask.
        visible: bool, (q_length, k_length), what queries should see. The step is that of the first attention that
            weighs other keys; None: of the first attention.
    """
    if not one.attentions:
        return None
    numbers = range(len(one.attentions))
    found = one.attentions[next((n for n in numbers if visible is not None and _weighs(one, n, ~visible)), 0)]
    masks = [step for step in one.steps if step.name == "combined" and step.number == found.step.number]
    masks = [step for step in masks if any(_is_mask(x) for x in step.given)]
    return masks[-1] if masks else found.softmaxes[0] if found.softmaxes else found.step


def _weighs(one: Pass, number: int, cells: Tensor) -> bool:
    """Return whether an attention gives weight to any of these cells in sentence 0: bool, (q_length, k_length)."""
    A = one.weights(number)
    return A is not None and A.shape[2:] == cells.shape and bool((A[0][:, cells] > 0).any())


def _is_mask(x: Tensor) -> bool:
    """Return whether a tensor that scores have met is bool, or holds no more than two different numbers."""
    return x.dtype == torch.bool or (not x.requires_grad and len(torch.unique(x)) <= 2)


def as_masked(
    evidence: Evidence, one: Pass, visible: Tensor, sentence: int, note: str | None = None
) -> Contrast | None:
    """Return the weights of a sentence beside those of a mask as it should be; None: not known, or no others.

    They are those of the first attention that gives weight to what is hidden, or none to what is not.

    Args:
        evidence: of the layer.
        one: the pass with the mask.
        visible: bool, (q_length, k_length), what queries should see.
        sentence: number of the sentence.
        note: see ``Contrast``; None: how much of its weight a query gives to what is hidden.
    """
    for number, seen in enumerate(one.attentions):
        weights, products = one.weights(number), one.products(number)
        if weights is None or products is None or weights.shape != products.shape or weights.shape[2:] != visible.shape:
            return None
        A, plain = weights[sentence], evidence.base.weights(number) if number < len(evidence.attentions) else None
        expected = None if plain is None or plain.shape != weights.shape else plain[sentence].masked_fill(~visible, 0)
        if expected is not None and bool((expected[:, visible] > 0).all()):  # with the layer's factor and biases
            expected = (expected / expected.sum(dim=-1, keepdim=True)).nan_to_num(0.0)
        else:
            factor = seen.fused.scale if seen.fused is not None and seen.fused.scale is not None else seen.d_key**-0.5
            expected = weighed(products[sentence], factor, visible)
        if torch.allclose(A, expected, atol=1e-3, equal_nan=True):
            continue
        keep = evidence.keep[sentence] if one is evidence.padded_pass else None
        names = token_names(evidence.k_length, keep)
        rows = token_names(evidence.length) if evidence.layer.is_cross else names
        if note is None:
            hidden = A.masked_fill(visible, 0.0).sum(dim=-1).masked_fill(~real(evidence), 0.0).nan_to_num(0.0)
            head, query = divmod(int(hidden.argmax()), A.shape[1])
            named = f"{head_name(None, head)}, " if len(A) > 1 else ""
            note = f"{named}query x{query}: gives {float(hidden[head, query]):.2f} of its weight to padding"
        return contrast("weight", A, expected, rows=rows, columns=names, note=note)
    return None


def _visible(evidence: Evidence) -> Tensor:
    """Return what the queries of sentence 1 should see with padding: bool, (q_length, k_length)."""
    visible = evidence.keep[1].expand(evidence.length, -1)
    return visible.tril() if evidence.is_causal else visible


@probe("mask-polarity", "padding", unless=CAUSES)
def mask_polarity(evidence: Evidence) -> Iterator[Finding]:
    """The mask of padding is upside down: it hides tokens and shows padding.

    Tokens and padding are replaced in turn. The outputs of tokens change with padding, and not with other tokens. A
    parameter that is called ``mask`` may have either meaning, and the meaning that hides padding is taken.

    Why it hides: shapes are right, and a sentence without padding, of which all keys are hidden, averages them where
    the mask is −1e9. ``True`` hides in the ``key_padding_mask`` of ``nn.MultiheadAttention`` and shows in the
    ``attn_mask`` of ``F.scaled_dot_product_attention``. In transformers 1 is a token.

    How to mend it: pass ``~mask``, and name a mask by what it says, such as ``keep`` or ``is_padding``.
    """
    require_keep(evidence)
    on, expected = evidence.padded.on[1, real(evidence)], evidence.padded.expected[1, real(evidence)]
    whole = evidence.padded.on[1]
    off = torch.ones_like(on) if evidence.layer.is_cross else ~torch.eye(*whole.shape, dtype=torch.bool)[real(evidence)]
    can = evidence.depends[1, real(evidence)] & off
    tokens, padding = can & expected, can & ~expected
    is_hidden = not bool((on & tokens).any()) and bool(tokens.any())
    if is_hidden and bool((on & padding).any() if bool(padding.any()) else _all_kept_hides(evidence)):
        yield finding(
            "mask-polarity",
            tried=f"{evidence.tried_padding}, and another token in each place",
            found="outputs of tokens change with padding, and not with other tokens",
            mistake="the mask is upside down: it hides tokens and shows padding",
            mend="pass ~mask, or swap the two values where it is applied",
            at=masked_at(evidence.padded_pass),
            contrast=as_masked(evidence, evidence.padded_pass, _visible(evidence), 1),
        )


def _all_kept_hides(evidence: Evidence) -> bool:
    """Return whether a mask that hides nothing hides all tokens from one another."""
    whole = evidence.influence(torch.ones_like(evidence.keep), False)
    off = torch.ones_like(whole.on) if evidence.layer.is_cross else ~torch.eye(*whole.on.shape[1:], dtype=torch.bool)
    return not bool((whole.on & off).any())


@probe("mask-side", "padding", unless=f"{CAUSES} mask-polarity")
def mask_side(evidence: Evidence) -> Iterator[Finding]:
    """The mask of padding hides rows of queries in place of columns of keys.

    With padding, the outputs of tokens are the same as without a mask, and those of padding are not.

    Why it hides: only outputs of padding change, and these are thrown away. All tokens see padding, as without a mask.

    How to mend it: the mask broadcasts to (batch_size, n_heads, q_length, k_length): ``mask[:, None, None, :]``, not
    ``mask[:, None, :, None]``.
    """
    require_keep(evidence)
    if evidence.layer.is_cross or not bool(evidence.padded.leaks[1, real(evidence)].any()):
        return
    before = evidence.plain[1]
    after = evidence.padded.output[1]
    changed = changes(before, after).any(dim=-1)
    tokens, padding = changed[evidence.keep[1]], changed[~evidence.keep[1]]
    if not bool(tokens.any()) and bool(padding.any()):
        yield finding(
            "mask-side",
            tried=evidence.tried_padding,
            found="outputs of tokens are as without a mask, and those of padding are others",
            mistake="the mask hides rows of queries, not columns of keys",
            mend="mask[:, None, None, :] of (batch_size, n_heads, q_length, k_length), not mask[:, None, :, None]",
            at=masked_at(evidence.padded_pass),
            contrast=as_masked(evidence, evidence.padded_pass, _visible(evidence), 1),
        )


def _masked_passes(evidence: Evidence) -> Iterator[tuple[Pass, Tensor, int, str]]:
    """Iterate over passes with a mask that leaks: the pass, what should be seen, a sentence, and what was tried."""
    if evidence.layer.takes_keep and bool(evidence.padded.leaks[1, real(evidence)].any()):
        yield evidence.padded_pass, _visible(evidence), 1, evidence.tried_padding
    leaks = evidence.layer.takes_causal and bool(evidence.causal.leaks.any())
    if leaks or (not evidence.layer.takes_causal and not evidence.layer.is_cross and evidence.length > 1):
        later = torch.ones(evidence.length, evidence.k_length, dtype=torch.bool).tril()
        yield evidence.causal_pass, later, 0, "later tokens hidden"


@probe("mask-value", "padding", unless=f"{CAUSES} mask-polarity mask-side")
def mask_value(evidence: Evidence) -> Iterator[Finding]:
    """The numbers of the mask are too small to hide a key.

    The mask changes the weights of hidden keys, and leaves them above 0.

    Why it hides: padding has less weight than without a mask, and nothing fails. Examples are ``1e-9`` in place of
    ``-1e9``, a bool mask that is added as 0 and 1, and −10, which large scores outweigh. A mask that multiplies scores
    by 0 gives a hidden key the score of an average key.

    How to mend it: ``scores.masked_fill(~keep, -torch.inf)``, or ``torch.finfo(scores.dtype).min`` in place of −∞.
    """
    for one in (evidence.base, *([evidence.causal_pass] if evidence.layer.takes_causal else [])):
        for step in one.steps:
            if step.name == "fused" and len(step.given) > 3 and _is_of_ones(step.given[3]):
                yield finding(
                    "mask-value",
                    tried="the mask that scaled_dot_product_attention is given",
                    found="it holds the floating-point numbers 0 and 1, which are added to the scores",
                    mistake="a float mask is added, so that 1 and 0 hide nothing: it should be bool",
                    mend="mask.bool(), where True takes part, or 0 and -inf",
                    at=step,
                )
                return
    for one, visible, sentence, tried in _masked_passes(evidence):
        for number, seen in enumerate(one.attentions):
            A, products = one.weights(number), one.products(number)
            if A is None or products is None or A.shape != products.shape or A.shape[2:] != visible.shape:
                continue
            rows = visible.any(dim=-1)
            rows &= real(evidence) if one is evidence.padded_pass else rows
            shown, hidden = rows[:, None] & visible, rows[:, None] & ~visible
            left = A[sentence][:, hidden]
            if not left.numel() or not bool((left > _SEEN).all()) or not bool((A[sentence][:, shown] > _SEEN).all()):
                continue
            line = regress(evidence, number)
            factor = seen.d_key**-0.5 if line is None else line.slope
            if not _is_weak(A[sentence], products[sentence] * factor, shown, hidden):
                continue
            share = float(A[sentence][:, rows].masked_fill(visible[rows], 0.0).sum(dim=-1).max())
            yield finding(
                "mask-value",
                tried=tried,
                found=f"hidden keys keep up to {share:.2f} of a query's weight",
                mistake="the numbers of the mask are too small, such as 1e-9 for -1e9, or a bool mask that is added",
                mend="scores.masked_fill(~keep, -torch.inf)",
                at=masked_at(one),
                contrast=as_masked(evidence, one, visible, sentence, f"up to {share:.2f} goes to hidden keys"),
            )
            return


_SEEN = 1e-7
"""Weight of a key that no mask hides."""


def _is_of_ones(mask: Tensor) -> bool:
    """Return whether a mask of floating-point numbers holds only 0 and 1, and both."""
    return mask.is_floating_point() and sorted(torch.unique(mask).tolist()) == [0.0, 1.0]


def _is_weak(A: Tensor, scores: Tensor, shown: Tensor, hidden: Tensor) -> bool:
    """Return whether log A of hidden keys is another number than their scores give, as a weak mask makes it.

    Args:
        A, scores: (n_heads, q_length, k_length).
        shown, hidden: bool, (q_length, k_length), what the mask should show and hide.
    """
    rest = A.double().clamp(min=1e-30).log() - scores.double()
    first = shown.int().argmax(dim=-1)
    rest = rest - rest.gather(-1, first[None, :, None].expand(len(rest), -1, 1))
    return bool(rest[:, shown].abs().amax() < 1e-3) and bool(rest[:, hidden].abs().median() > 1e-3)


@probe("padding", "padding", unless=f"{CAUSES} eval-dropout mask-polarity mask-side mask-value")
def padding(evidence: Evidence) -> Iterator[Finding]:
    """Padding changes the outputs of tokens.

    Padded tokens are replaced, and their number is changed; a mask that hides nothing is compared with none. Nothing of
    this should change the output of a token.

    Why it hides: training pads each batch as it comes, and the model learns to live with padding. In use, a sentence
    alone has another output than in a batch.

    How to mend it: hide padding as keys, in each layer and in all heads,
    ``scores.masked_fill(~keep[:, None, None, :], -torch.inf)``. A mask that is repeated for heads stays beside its
    sentence with ``repeat_interleave(n_heads, dim=0)``. Means are over tokens alone, not over the padded length.
    """
    require_keep(evidence)
    for trial in _trials(evidence):
        leaks = trial.influence.leaks[trial.sentence] & trial.queries[:, None] & ~trial.keep
        if not bool(leaks.any()):
            continue
        query, key = leaks.nonzero()[0].tolist()
        without = evidence.run(evidence.keys, causal=trial.is_causal)
        has_effect = bool(changes(without, trial.influence.output)[trial.sentence, trial.queries].any())
        is_plain = trial.influence is evidence.padded
        yield finding(
            "padding",
            tried=f"{trial.name}, replaced by others",
            found=f"the output of query {query} changes with padded key {key}",
            mistake="padding is not hidden in all heads or for all queries" if has_effect else "the mask has no effect",
            mend="scores.masked_fill(~keep[:, None, None, :], -torch.inf)",
            at=masked_at(evidence.padded_pass),
            contrast=(as_masked(evidence, evidence.padded_pass, _visible(evidence), 1) if is_plain else None)
            or contrast(
                "influence",
                trial.influence.on[trial.sentence][None].float(),
                trial.influence.expected[trial.sentence][None].float(),
            ),
        )
        return
    for name, wanted, found in _outputs(evidence):
        if wanted.shape == found.shape and not are_close(found, wanted):
            is_weighed = _weighs_padding(evidence)
            yield finding(
                "padding",
                tried=name,
                found="outputs of tokens change",
                mistake="padded keys keep weight, though what they hold is cleared"
                if is_weighed
                else "the number of padded tokens matters: a mask of another sentence, or a mean over all",
                mend="hide padding as keys, in each layer, keep masks beside their sentences, and count tokens alone",
                at=masked_at(evidence.padded_pass),
            )
            return


def _weighs_padding(evidence: Evidence) -> bool:
    """Return whether any attention gives weight to padding of sentence 1."""
    one, cells = evidence.padded_pass, real(evidence)[:, None] & ~evidence.keep[1]
    for number in range(len(one.attentions)):
        A = one.weights(number)
        if A is not None and A.shape[2:] == cells.shape and bool((A[1][:, cells] > _SEEN).any()):
            return True
    return False


class _Trial(NamedTuple):
    """A mask of padding.

    Attributes:
        name: what was tried.
        influence: of tokens, with the mask.
        queries: bool, (q_length,), True for queries of sentence 1 that are no padding.
        keep: bool, (k_length,), True for keys of sentence 1 that are no padding.
        is_causal: whether later tokens were to be hidden, too.
        sentence: the sentence that is padded.
    """

    name: str
    influence: Influence
    queries: Tensor
    keep: Tensor
    is_causal: bool = False
    sentence: int = 1


def _trials(evidence: Evidence) -> Iterator[_Trial]:
    """Iterate over masks of padding: alone, and where the layer takes it with later tokens hidden, at either end."""
    yield _Trial(evidence.tried_padding, evidence.padded, real(evidence), evidence.keep[1])
    other = evidence.keep.roll(1, 0)  # of sentence 2
    queries = torch.ones(evidence.length, dtype=torch.bool) if evidence.layer.is_cross else other[2]
    yield _Trial(
        f"{HIDDEN} padded tokens in sentence 2 alone", evidence.influence(other, False), queries, other[2], False, 2
    )
    if evidence.layer.takes_causal and not evidence.layer.is_cross:
        for keep, place in ((evidence.padded_at_end, "end"), (evidence.padded_at_end.flip(-1), "beginning")):
            name = f"{HIDDEN} padded tokens at the {place} of sentence 1, and later tokens hidden"
            yield _Trial(name, evidence.influence(keep, True), keep[1], keep[1], True)


def _outputs(evidence: Evidence) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Iterate over outputs of tokens that should be the same: what was tried, and both outputs."""
    keep = evidence.padded_at_end
    queries = slice(None) if evidence.layer.is_cross else slice(0, evidence.length - HIDDEN)
    padded = evidence.run(evidence.keys, keep=keep)
    unpadded = evidence.run(evidence.keys, keep=torch.ones_like(keep))
    yield "padding at the end of sentence 1, and sentence 0, which has none", unpadded[0], padded[0]
    if not evidence.layer.needs_mask:
        yield "no mask, and a mask that hides nothing", evidence.plain, unpadded
    cut = evidence.keys[1:2, :-HIDDEN]
    x = evidence.x[1:2] if evidence.layer.is_cross else cut
    with suppress(RuntimeError):  # it may take inputs of one length alone
        alone = evidence.output(x, keep=torch.ones(1, cut.shape[1], dtype=torch.bool), **evidence.beside(cut))
        yield "sentence 1 without its padding", alone[0], padded[1, queries]
    lengths = torch.tensor([evidence.k_length, evidence.k_length - HIDDEN, max(evidence.k_length - HIDDEN - 2, 1)])
    others = evidence.run(evidence.keys, keep=torch.arange(evidence.k_length) < lengths[:, None])
    yield "more padding in sentence 2, and sentence 1", padded[1, queries], others[1, queries]

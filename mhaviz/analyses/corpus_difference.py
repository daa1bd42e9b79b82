"""How the attention of two models differs over any number of sentences, in constant memory and in parts.

Both models read the same tokens, batch by batch. Of each row of weights the Jensen–Shannon divergence is computed where
the weights are; what is kept of a sentence is a mean for each head, and where its largest row is.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mhaviz.analyses.pieces import Pieces
from mhaviz.analyses.sums import Study, stacked
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import CorpusModel, Inputs, SiteCall, is_counted, is_token
from mhaviz.errors import MhavizError, parameter
from mhaviz.inputs.tokens import Kind, Text, Tokens
from mhaviz.results.corpus_difference import CorpusDifference, KindDivergence
from mhaviz.results.source import Source

_BLOCK = 2**22
"""Weights of each model that are compared at a time: the numbers that the comparison makes of them take 64 MiB."""

_SAMPLE = "The cat sat on the mat."
"""Tokenizers that make the same of it are taken for one."""

_KEPT_BYTES = 2**29
"""Queries and keys of the first model that wait for those of the second, if more than one attention has them."""


class DifferenceStudy(Study):
    """Running averages of how far two models are apart in each head, to which pairs of batches are added.

    In float64 if one of the models computes in float64, else in float32; sums over sentences are of float64.
    """

    name = "diff"

    def __init__(self) -> None:
        super().__init__()
        self._pieces = Pieces()

    def shapes(self, n_heads: int) -> dict[str, tuple[int, ...]]:
        """A mean over sentences of each head, its largest row, and how many queries there were."""
        a_head = dict.fromkeys(("mean", "deviations", "largest", "sentence", "query"), (n_heads,))
        return {**a_head, "count": (1,), "queries": (1,)}

    def read(
        self,
        models: Sequence[CorpusModel],
        texts: Sequence[str],
        pieces: Sequence[Text | None],
        numbers: Sequence[int],
    ) -> None:
        """See ``Study.read``; of two models. Raises MhavizError if the second makes other tokens of a text."""
        before, after = models
        inputs = before.encode_unnamed(texts, pieces)
        whole = [row for row, text in enumerate(inputs.texts) if text.piece is None]  # pieces are the same
        others = after.read_unnamed([texts[row] for row in whole])
        for row, other in zip(whole, others, strict=True):
            _require_same_tokens(inputs.texts[row].source, other, f"sentence {numbers[row]}, {texts[row]!r:.40}")
        add_batch(self, before, after, inputs, numbers)

    def add_pair(self, before: SiteCall, after: SiteCall, numbers: Sequence[int]) -> None:
        """Count the sentences of an attention that both models have been called with.

        Args:
            before, after: the calls, of the same tokens.
            numbers: of each of these sentences in the corpus, from 0.
        """
        counts = is_counted(before, torch.device("cpu")).numpy()
        bits = _of_rows(before, after).cpu().double().numpy()  # batch_size n_heads q_length
        bits = np.where(counts[:, None], bits, 0.0)
        site = before.site.kind, before.site.layer
        sums, heads = self.of(*site, bits.shape[1]), np.arange(bits.shape[1])
        offsets = [piece.offset if piece else 0 for piece in before.pieces] or [0] * len(bits)
        for row in np.lexsort((offsets, numbers)):  # of equal rows that of the first sentence stays
            query = bits[row].argmax(axis=1)
            largest, sentence = bits[row, heads, query], np.full(len(heads), numbers[row] + 1.0)
            sums.join({"largest": largest, "sentence": sentence, "query": query + offsets[row] + 1.0})
        _, (totals, lengths) = self._pieces.joined(site, before.pieces, numbers, bits.sum(axis=2), counts.sum(axis=1))
        if len(totals):
            sums.add_values(totals / lengths[:, None], np.ones((len(totals), 1), np.bool_))
            sums["queries"] += lengths.sum()

    def result(self, source: Source, too_long: int = 0) -> CorpusDifference:
        """The averages over all sentences so far; ``too_long``: how many could not be read."""
        kinds = [
            KindDivergence(
                kind,
                layers,
                int(sums[0]["count"][0]),
                int(sums[0]["queries"][0]),
                stacked([one.mean() for one in sums]),
                stacked([one.spread for one in sums]),
                stacked([one["largest"] for one in sums]),
                *(stacked([one[name] for one in sums], 0).astype(np.int64) - 1 for name in ("sentence", "query")),
            )
            for kind, layers, sums in self.layers()
        ]
        return CorpusDifference(source, tuple(kinds), too_long)


def add_batch(
    study: DifferenceStudy, before: CorpusModel, after: CorpusModel, inputs: Inputs, numbers: Sequence[int]
) -> None:
    """Let both models read these inputs, and count each attention that is looked at.

    The queries and keys of the first model are kept until the second has its own, of as many layers as fit: with many,
    or of long texts, both models read the inputs again for the others. Weights are of one layer at a time.

    Args:
        study: what they are added to.
        before, after: the models, which have passed ``require_alike``.
        inputs: what the first model reads for these sentences; the second reads the same.
        numbers: of the sentences in the corpus.
    """
    if not (before.pads_unseen and after.pads_unseen) and len(inputs.texts) > 1:
        for text, number in zip(inputs.texts, numbers, strict=True):
            add_batch(study, before, after, Inputs((text,)), [number])
        return
    wanted = {(site.kind, site.layer) for site in before.sites(inputs)}
    while wanted:
        kept = _Kept(wanted)
        before.run(inputs, kept.keep, batched=True)
        found = set(kept.calls)
        after.run(inputs, partial(kept.compare, study, numbers), batched=True)
        if not found or kept.calls:
            raise MhavizError("expected the same attentions of both models, but one shows fewer as it runs")
        wanted -= found


class _Kept:
    """Calls of the first model, as many as fit, that wait for those of the second.

    ``wanted``: the attentions, by kind and layer, that have not been compared.
    """

    def __init__(self, wanted: Collection[tuple[Kind, int]]) -> None:
        self._wanted, self._bytes = wanted, 0
        self.calls: dict[tuple[Kind, int], SiteCall] = {}

    def keep(self, seen: SiteCall) -> None:
        """Keep a call of the first model, without its values, if there is room."""
        site, size = (seen.site.kind, seen.site.layer), _bytes_of(seen)
        if site in self._wanted and (not self.calls or self._bytes + size <= _KEPT_BYTES):
            self.calls[site] = _without_values(seen)
            self._bytes += size

    def compare(self, study: DifferenceStudy, numbers: Sequence[int], seen: SiteCall) -> None:
        """Count a call of the second model with that of the first, if that was kept."""
        first = self.calls.pop((seen.site.kind, seen.site.layer), None)
        if first is not None:
            study.add_pair(first, seen, numbers)


def require_alike(before: CorpusModel, after: CorpusModel) -> None:
    """Raise MhavizError unless both models have the same attentions, each with as many heads."""
    first, second = ({(site.kind, site.layer): site.n_heads for site in model.sites()} for model in (before, after))
    for kind, layer in [*first, *second]:
        heads = [sites.get((kind, layer), 0) for sites in (first, second)]
        if heads[0] != heads[1]:
            raise MhavizError(
                f"expected the same attentions in both models, but layer {layer}, {kind}, has {heads[0]} heads in the "
                f"first and {heads[1]} in the second; compare models of one kind, or what both have by "
                f"{parameter('layer')} or {parameter('kind')}"
            )


def require_comparable(first: CorpusModel, second: CorpusModel) -> None:
    """Raise MhavizError unless both have the same attentions: by their tokens, where those differ as well.

    Models of two tokenizers may make the same of the user's texts, and are compared; who has other models, however,
    should hear first of what no choice of layers mends.
    """
    try:
        require_alike(first, second)
    except MhavizError:
        one, other = _sample_of(first), _sample_of(second)
        if one and other:
            _require_same_tokens(one, other, f"a sample, {_SAMPLE!r},")
        raise


def _sample_of(model: CorpusModel) -> Tokens | None:
    """What it makes of the sample; None if its tokenizer knows nothing of what is not in its vocabulary."""
    try:
        (tokens,) = model.read_unnamed([_SAMPLE])
    except MhavizError:
        return None
    return tokens


def _require_same_tokens(one: Tokens, other: Tokens, where: str) -> None:
    """Raise MhavizError unless the tokens that two models make of a text are the same; ``where``: names it."""
    if (one.ids, one.special) == (other.ids, other.special):
        return
    if len(one) != len(other):
        differing = f"{where} has {len(one):,} tokens in the first and {len(other):,} in the second"
    else:
        differing = f"{where}: {_first_difference(one.ids, other.ids)}"
    raise MhavizError(f"expected the same tokens in both models, but {differing}; compare models of one tokenizer")


def _first_difference(ids: Sequence[int], others: Sequence[int]) -> str:
    for place, (one, other) in enumerate(zip(ids, others, strict=True)):
        if one != other:
            return f"token {place} has number {one:,} in the first and {other:,} in the second"
    return "other tokens are special in the second"


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """The Jensen–Shannon divergence of each row of p and that of q, in bits: 0 for equal rows, 1 for disjoint ones.

    With s = p + q and t = |p − q| / s,

        JSD(p, q) = ¼ Σ s [(1 + t) log₂(1 + t) + (1 − t) log₂(1 − t)]

    which is ½ KL(p ‖ s/2) + ½ KL(q ‖ s/2) of Lin 1991, section IV, written by the difference: of rows that are nearly
    the same, where p log₂(2p / s) and q log₂(2q / s) cancel, as many digits are right as the weights have.

    Args:
        p, q: rows that sum to 1, or to 0, (…, k_length), of one floating type.

    Returns:
        (…), from 0 to 1.
    """
    s = p + q
    most = 1 - torch.finfo(p.dtype).eps / 2  # log 0 is infinite: what is wrong by that is the last digit but one
    t = (p - q).abs_().div_(s.clamp(min=torch.finfo(p.dtype).tiny)).clamp_(max=most)
    terms = t.log1p().mul_(1 + t).add_((-t).log1p_().mul_(1 - t))
    return terms.mul_(s).sum(dim=-1).div_(4 * math.log(2)).clamp_(0.0, 1.0)


def _of_rows(before: SiteCall, after: SiteCall) -> Tensor:
    """The divergence of each row, (batch_size, n_heads, q_length), some queries at a time; of padding anything."""
    batch_size, n_heads, q_length, k_length = before.call.shape
    step = max(_BLOCK // (batch_size * n_heads * k_length), 1)
    device = before.call.device
    is_query, is_key = (is_token(side, device) for side in (before.queries, before.keys))
    is_padded = not (bool(is_query.all()) and bool(is_key.all()))
    has_rest = before.call.has_sink or after.call.has_sink
    blocks = []
    for start in range(0, q_length, step):
        rows = [seen.call.weights(start, start + step).to(device) for seen in (before, after)]
        dtype = torch.float64 if any(A.dtype == torch.float64 for A in rows) else torch.float32
        p, q = (A.to(dtype) for A in rows)
        if is_padded:  # where the weights may be anything
            visible = (is_query[:, start : start + step, None] & is_key[:, None])[:, None]
            p, q = (A.masked_fill(~visible, 0.0) for A in (p, q))
        if has_rest:
            p, q = (torch.cat([A, (1 - A.sum(dim=-1, keepdim=True)).clamp_(min=0.0)], dim=-1) for A in (p, q))
        blocks.append(jensen_shannon(p, q))
    return torch.cat(blocks, dim=2)


def _bytes_of(seen: SiteCall) -> int:
    """What is kept of it takes so much memory."""
    call = seen.call
    kept = (call.query, call.key) if isinstance(call, AttentionCall) else (call.given,)
    return sum(tensor.numel() * tensor.element_size() for tensor in kept)


def _without_values(seen: SiteCall) -> SiteCall:
    """The same, of which weights can be computed when the model has gone on."""
    if isinstance(seen.call, AttentionCall):
        value = seen.call.value[..., :0].clone()
        return replace(seen, call=replace(seen.call, value=value), output=None)
    return replace(seen, call=replace(seen.call, given=seen.call.given.clone()), output=None)

"""How the attention of two models differs over any number of sentences, in constant memory and in parts.

Both models read the same tokens, batch by batch. Of each row of weights the Jensen–Shannon divergence is computed where
the weights are; what is kept of a sentence is a mean for each head, and where its largest row is.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from mhaviz.analyses.difference import jensen_shannon
from mhaviz.analyses.sums import Pieces, Study, stacked
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import CorpusModel, Inputs, SiteCall, is_counted, is_token
from mhaviz.errors import MhavizError, parameter
from mhaviz.inputs.tokens import Kind, Text, Tokens
from mhaviz.results.corpus_difference import CorpusDifference, Divergence, KindDivergence
from mhaviz.results.result import Source

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
            require_same_tokens(inputs.texts[row].source, other, f"sentence {numbers[row]}, {texts[row]!r:.40}")
        self.add_batch(before, after, inputs, numbers)

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

    def add_batch(self, before: CorpusModel, after: CorpusModel, inputs: Inputs, numbers: Sequence[int]) -> None:
        """Let both models read these inputs, and count each attention that is looked at.

        The queries and keys of the first model are kept until the second has its own, of as many layers as fit: with
        many, or of long texts, both models read the inputs again for the others. Weights are of one layer at a time.

        Args:
            before, after: the models, which have passed ``require_same_attentions``.
            inputs: what the first model reads for these sentences; the second reads the same.
            numbers: of the sentences in the corpus.
        """
        if not (before.pads_unseen and after.pads_unseen) and len(inputs.texts) > 1:
            for text, number in zip(inputs.texts, numbers, strict=True):
                self.add_batch(before, after, Inputs((text,)), [number])
            return
        wanted = {(site.kind, site.layer) for site in before.sites(inputs)}
        calls: dict[tuple[Kind, int], SiteCall] = {}

        def keep(seen: SiteCall) -> None:
            site, size = (seen.site.kind, seen.site.layer), sum(map(_bytes_of, (seen, *calls.values())))
            if site in wanted and (not calls or size <= _KEPT_BYTES):
                calls[site] = _without_values(seen)

        def compare(seen: SiteCall) -> None:
            if first := calls.pop((seen.site.kind, seen.site.layer), None):
                self.add_pair(first, seen, numbers)

        while wanted:
            before.run(inputs, keep, batched=True)
            found = set(calls)
            after.run(inputs, compare, batched=True)
            if not found or calls:
                raise MhavizError("expected the same attentions of both models, but one shows fewer as it runs")
            wanted -= found

    def result(self, source: Source, too_long: int = 0) -> CorpusDifference:
        """The averages over all sentences so far; ``too_long``: how many could not be read."""
        kinds = []
        for kind, layers, sums in self.layers():
            places = {name: stacked([one[name] for one in sums], 0.0) for name in ("sentence", "query")}
            mean, spread = stacked([one.mean() for one in sums]), stacked([one.spread for one in sums])
            unknown = np.full_like(mean, np.nan)
            divergence = Divergence(
                mean=mean,
                spread=spread,
                low=unknown,
                high=unknown,
                sentences=int(sums[0]["count"][0]),
                queries=int(sums[0]["queries"][0]),
                largest=stacked([one["largest"] for one in sums]),
                **{name: place.astype(np.int64) - 1 for name, place in places.items()},
            )
            kinds.append(KindDivergence(kind, layers, divergence))
        return CorpusDifference(source, tuple(kinds), too_long)


def require_same_attentions(first: CorpusModel, second: CorpusModel) -> None:
    """Raise MhavizError unless both have the same attentions: by their tokens, where those differ as well.

    Models of two tokenizers may make the same of the user's texts, and are compared; who has other models, however,
    should hear first of what no choice of layers mends.
    """
    heads = [{(site.kind, site.layer): site.n_heads for site in model.sites()} for model in (first, second)]
    for site in [*heads[0], *heads[1]]:
        one, other = (of_model.get(site, 0) for of_model in heads)
        if one != other:
            if (tokens := _sample_of(first)) and (others := _sample_of(second)):
                require_same_tokens(tokens, others, f"a sample, {_SAMPLE!r},")
            raise MhavizError(
                f"expected the same attentions in both models, but layer {site[1]}, {site[0]}, has {one} heads in the "
                f"first and {other} in the second; compare models of one kind, or what both have by "
                f"{parameter('layer')} or {parameter('kind')}"
            )


def _sample_of(model: CorpusModel) -> Tokens | None:
    """What it makes of the sample; None if its tokenizer knows nothing of what is not in its vocabulary."""
    try:
        (tokens,) = model.read_unnamed([_SAMPLE])
    except MhavizError:
        return None
    return tokens


def require_same_tokens(one: Tokens, other: Tokens, where: str) -> None:
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
        blocks.append(jensen_shannon(p, q, torch.log1p))
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

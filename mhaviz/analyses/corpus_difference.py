"""How the attention of two models differs over any number of sentences, in constant memory and in parts.

Both models read the same tokens, batch by batch. Of each row of weights the Jensen–Shannon divergence is computed where
the weights are; what is kept of a sentence is a mean for each head, and where its largest row is.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.analyses.bootstrap import Bootstrap, add_numbers, head_numbers, number_shapes, poisson_weights
from mhaviz.analyses.difference import TIED, jensen_shannon
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

_BOOTSTRAP = Bootstrap()
"""Of the intervals."""

_CHARACTERS = 24
"""That are kept of a token."""

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
        self._drawn: tuple[tuple[int, ...], NDArray[np.float64]] = (), np.empty(0)

    def shapes(self, n_heads: int) -> dict[str, tuple[int, ...]]:
        """A mean over sentences of each head, its largest row, and how many queries there were."""
        a_head = dict.fromkeys(("largest", "sentence", "query", "key"), (n_heads,))
        tokens = {"ids": (n_heads, 2), "tokens": (n_heads, 2, _CHARACTERS)}
        return number_shapes(n_heads, 1, _BOOTSTRAP) | a_head | tokens | {"queries": (1,)}

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
        for sums in self.sums.values():
            for place in zip(*np.nonzero((sums["ids"] > 0) & (sums["tokens"][..., 0] == 0)), strict=True):
                sums["tokens"][place] = _codes(before.token_text(int(sums["ids"][place]) - 1))

    def add_pair(self, before: SiteCall, after: SiteCall, numbers: Sequence[int]) -> None:
        """Count the sentences of an attention that both models have been called with.

        Args:
            before, after: the calls, of the same tokens.
            numbers: of each of these sentences in the corpus, from 0.
        """
        counts = is_counted(before, torch.device("cpu")).numpy()
        bits, keys = (one.cpu().numpy() for one in _of_rows(before, after))  # batch_size n_heads q_length
        bits = np.where(counts[:, None], bits.astype(np.float64), 0.0)
        site = before.site.kind, before.site.layer
        sums, heads = self.of(*site, bits.shape[1]), np.arange(bits.shape[1])
        offsets = [piece.offset if piece else 0 for piece in before.pieces] or [0] * len(bits)
        for row in np.lexsort((offsets, numbers)):  # of equal rows that of the first sentence stays
            query = bits[row].argmax(axis=1)
            key, first = keys[row, heads, query], offsets[row] + 1.0
            where = {
                "sentence": np.full(len(heads), numbers[row] + 1.0),
                "query": query + first,
                "key": key + first,
                "ids": np.stack([_ids(before.queries[row])[query], _ids(before.keys[row])[key]], axis=1),
                "tokens": np.zeros((len(heads), 2, _CHARACTERS)),  # nobody knows them yet
            }
            sums.join({"largest": bits[row, heads, query]} | where)
        whole, (totals, lengths) = self._pieces.joined(
            site, before.pieces, numbers, bits.sum(axis=2), counts.sum(axis=1)
        )
        if whole:
            means = (totals / lengths[:, None])[..., None]
            add_numbers(sums, means, np.ones((len(whole), 1), np.bool_), self._drawn_of(whole))
            sums["queries"] += lengths.sum()

    def _drawn_of(self, numbers: tuple[int, ...]) -> NDArray[np.float64]:
        """How often these sentences are drawn by the bootstrap; the layers of a batch share it."""
        if self._drawn[0] != numbers:
            self._drawn = numbers, poisson_weights(numbers, _BOOTSTRAP)
        return self._drawn[1]

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
            sentence, query, key = (
                stacked([one[name] for one in sums], 0.0).astype(np.int64) - 1 for name in ("sentence", "query", "key")
            )
            tokens = _texts(stacked([one["tokens"] for one in sums], 0.0))
            divergence = Divergence(
                **head_numbers(sums, 0, _BOOTSTRAP),
                sentences=int(sums[0]["count"][0, 0]),
                queries=int(sums[0]["queries"][0]),
                largest=stacked([one["largest"] for one in sums]),
                sentence=sentence,
                query=query,
                key=key,
                query_token=tokens[..., 0],
                key_token=tokens[..., 1],
            )
            kinds.append(KindDivergence(kind, layers, divergence))
        return CorpusDifference(source, tuple(kinds), too_long, replicates=_BOOTSTRAP.replicates)


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


def _ids(tokens: Tokens) -> NDArray[np.float64]:
    """Their numbers in the vocabulary, from 1; 0: not known."""
    return np.array(tokens.ids or [-1] * len(tokens), np.float64) + 1


def _codes(text: str) -> NDArray[np.float64]:
    """Its characters as numbers of Unicode, (_CHARACTERS,), padded with 0; a long text is cut."""
    codes = np.zeros(_CHARACTERS)
    cut = text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"
    codes[: len(cut)] = list(map(ord, cut))
    return codes


def _texts(codes: NDArray[np.float64]) -> NDArray[np.str_]:
    """The reverse of ``_codes``; of what is no character, as in anybody's file, U+FFFD."""
    is_character = (codes < 0xD800) | ((codes > 0xDFFF) & (codes <= 0x10FFFF))
    return np.where(is_character, codes, 0xFFFD).astype("<u4").view(f"<U{_CHARACTERS}")[..., 0]


def _of_rows(before: SiteCall, after: SiteCall) -> tuple[Tensor, Tensor]:
    """Of each row its divergence, and the key whose weight differs most, (batch_size, n_heads, q_length).

    Some queries at a time; of padding anything.
    """
    batch_size, n_heads, q_length, k_length = before.call.shape
    step = max(_BLOCK // (batch_size * n_heads * k_length), 1)
    device = before.call.device
    is_query, is_key = (is_token(side, device) for side in (before.queries, before.keys))
    is_padded = not (bool(is_query.all()) and bool(is_key.all()))
    has_rest = before.call.has_sink or after.call.has_sink
    blocks, keys = [], []
    for start in range(0, q_length, step):
        rows = [seen.call.weights(start, start + step).to(device) for seen in (before, after)]
        dtype = torch.float64 if any(A.dtype == torch.float64 for A in rows) else torch.float32
        p, q = (A.to(dtype) for A in rows)
        if is_padded:  # where the weights may be anything
            visible = (is_query[:, start : start + step, None] & is_key[:, None])[:, None]
            p, q = (A.masked_fill(~visible, 0.0) for A in (p, q))
        apart = (p - q).abs_()  # of one that loses what another gains, rounding chooses none
        keys.append((apart >= apart.amax(dim=-1, keepdim=True) * (1 - TIED)).byte().argmax(dim=-1))
        if has_rest:
            p, q = (torch.cat([A, (1 - A.sum(dim=-1, keepdim=True)).clamp_(min=0.0)], dim=-1) for A in (p, q))
        blocks.append(jensen_shannon(p, q, torch.log1p))
    return torch.cat(blocks, dim=2), torch.cat(keys, dim=2)


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

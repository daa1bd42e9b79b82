"""Difference between the attention of two models over any number of sentences, in constant memory and in shards.

Both models read the same tokens, batch by batch. The Jensen–Shannon divergence of each row of weights is computed on
the device of the weights. Only a mean for each head, and the place of its largest row, are kept of a sentence.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.analyses.bootstrap import add_numbers, head_numbers, number_shapes, poisson_weights
from mhaviz.analyses.difference import jensen_shannon
from mhaviz.analyses.sums import Pieces, Study, stacked
from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import CorpusModel, Inputs, SiteCall, is_counted, is_token
from mhaviz.errors import MhavizError, parameter
from mhaviz.inputs.tokens import Kind, Text, Tokens
from mhaviz.results.corpus_difference import CorpusDifference, Divergence, KindDivergence
from mhaviz.results.difference import TIED
from mhaviz.results.result import Source

_BLOCK = 2**22
"""Number of weights of each model that are compared at a time. The comparison takes 64 MiB."""

_SAMPLE = "The cat sat on the mat."
"""Text by which two tokenizers are compared."""

_CHARACTERS = 24
"""Number of characters of a token that are kept."""

_KEPT_BYTES = 2**29
"""Most bytes of the first model's queries and keys that are kept at a time. A single attention may take more."""


class DifferenceStudy(Study):
    """Running averages of the divergence between two models in each head.

    Divergences are computed in float64 if one of the models computes in float64, else in float32. Sums over sentences
    are in float64.
    """

    name = "diff"

    def __init__(self) -> None:
        super().__init__()
        self._pieces = Pieces()
        self._drawn: tuple[tuple[int, ...], NDArray[np.float64]] = (), np.empty(0)

    def shapes(self, n_heads: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of each head's mean over sentences, of its largest row, and of the number of queries."""
        a_head = dict.fromkeys(("largest", "sentence", "query", "key"), (n_heads,))
        tokens = {"ids": (n_heads, 2), "tokens": (n_heads, 2, _CHARACTERS)}
        return number_shapes(n_heads, 1) | a_head | tokens | {"queries": (1,)}

    def read(
        self,
        models: Sequence[CorpusModel],
        texts: Sequence[str],
        pieces: Sequence[Text | None],
        numbers: Sequence[int],
    ) -> None:
        """See ``Study.read``; takes two models. Raises MhavizError if their tokens of a text differ."""
        before, after = models
        inputs = before.encode_unnamed(texts, pieces)
        whole = [row for row, text in enumerate(inputs.texts) if text.piece is None]  # the models share the pieces
        others = after.read_unnamed([texts[row] for row in whole])
        for row, other in zip(whole, others, strict=True):
            require_same_tokens(inputs.texts[row].source, other, f"sentence {numbers[row]}, {texts[row]!r:.40}")
        self.add_batch(before, after, inputs, numbers)
        for sums in self.sums.values():
            for place in zip(*np.nonzero((sums["ids"] > 0) & (sums["tokens"][..., 0] == 0)), strict=True):
                sums["tokens"][place] = _code_points(before.token_text(int(sums["ids"][place]) - 1))

    def add_pair(self, before: SiteCall, after: SiteCall, numbers: Sequence[int]) -> None:
        """Add the sentences of one attention in both models.

        Args:
            before, after: calls of the attention in both models, on the same tokens.
            numbers: index of each of these sentences in the corpus, from 0.
        """
        counts = is_counted(before, torch.device("cpu")).numpy()
        bits, keys = (one.cpu().numpy() for one in _row_divergences(before, after))  # batch_size n_heads q_length
        bits = np.where(counts[:, None], bits.astype(np.float64), 0.0)
        site = before.site.kind, before.site.layer
        sums, heads = self.of(*site, bits.shape[1]), np.arange(bits.shape[1])
        offsets = [piece.offset if piece else 0 for piece in before.pieces] or [0] * len(bits)
        for row in np.lexsort((offsets, numbers)):  # of equal rows, the one of the first sentence is kept
            query = bits[row].argmax(axis=1)
            key, first = keys[row, heads, query], offsets[row] + 1.0
            where = {
                "sentence": np.full(len(heads), numbers[row] + 1.0),
                "query": query + first,
                "key": key + first,
                "ids": np.stack([_ids(before.queries[row])[query], _ids(before.keys[row])[key]], axis=1),
                "tokens": np.zeros((len(heads), 2, _CHARACTERS)),  # filled in by ``read``
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
        """Return how often the bootstrap draws these sentences; cached, as all layers of a batch use the same."""
        if self._drawn[0] != numbers:
            self._drawn = numbers, poisson_weights(numbers)
        return self._drawn[1]

    def add_batch(self, before: CorpusModel, after: CorpusModel, inputs: Inputs, numbers: Sequence[int]) -> None:
        """Run both models on these inputs, and add each of their selected attentions.

        Queries and keys of the first model are kept until the second model runs, for as many layers as fit into
        ``_KEPT_BYTES``. For the other layers both models run again. Weights are computed for one layer at a time.

        Args:
            before, after: the models, which have passed ``require_same_attentions``.
            inputs: the sentences, encoded by the first model; both models read them.
            numbers: index of each sentence in the corpus, from 0.
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
                raise MhavizError("expected the same attentions in both models, but one of them ran fewer")
            wanted -= found

    def result(self, source: Source, too_long: int = 0) -> CorpusDifference:
        """Return the averages over all sentences so far; ``too_long``: number of sentences that could not be read."""
        kinds = []
        for kind, layers, sums in self.layers():
            sentence, query, key = (
                stacked([one[name] for one in sums], 0.0).astype(np.int64) - 1 for name in ("sentence", "query", "key")
            )
            tokens = _texts(stacked([one["tokens"] for one in sums], 0.0))
            divergence = Divergence(
                **head_numbers(sums, 0),
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
        return CorpusDifference(source, tuple(kinds), too_long)


def require_same_attentions(first: CorpusModel, second: CorpusModel) -> None:
    """Raise MhavizError unless both models have the same attentions with the same numbers of heads.

    If their tokenizers differ as well, the error is about these, as no choice of layers would help. Models with
    different tokenizers but the same attentions are accepted, as their tokens of the given texts may be equal.
    """
    heads = [{(site.kind, site.layer): site.n_heads for site in model.sites()} for model in (first, second)]
    for site in [*heads[0], *heads[1]]:
        one, other = (of_model.get(site, 0) for of_model in heads)
        if one != other:
            if (tokens := _sample_of(first)) and (others := _sample_of(second)):
                require_same_tokens(tokens, others, f"a sample, {_SAMPLE!r},")
            raise MhavizError(
                f"expected the same attentions in both models, but layer {site[1]}, {site[0]}, has {one} heads in the "
                f"first and {other} in the second; compare models of one architecture, or choose what "
                f"both have by {parameter('layer')} or {parameter('kind')}"
            )


def _sample_of(model: CorpusModel) -> Tokens | None:
    """Return the model's tokens of the sample; None if the tokenizer cannot encode it."""
    try:
        (tokens,) = model.read_unnamed([_SAMPLE])
    except MhavizError:
        return None
    return tokens


def require_same_tokens(one: Tokens, other: Tokens, where: str) -> None:
    """Raise MhavizError unless the tokens of a text are the same in two models; ``where``: name of the text."""
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
    """Return ids in the vocabulary plus 1; 0: not known."""
    return np.array(tokens.ids or [-1] * len(tokens), np.float64) + 1


def _code_points(text: str) -> NDArray[np.float64]:
    """Return the Unicode code points of a text, (_CHARACTERS,), padded with 0; a long text is cut."""
    codes = np.zeros(_CHARACTERS)
    cut = text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"
    codes[: len(cut)] = list(map(ord, cut))
    return codes


def _texts(codes: NDArray[np.float64]) -> NDArray[np.str_]:
    """Invert ``_code_points``. Numbers that are not characters, which a file may hold, become U+FFFD."""
    is_character = (codes < 0xD800) | ((codes > 0xDFFF) & (codes <= 0x10FFFF))
    return np.where(is_character, codes, 0xFFFD).astype("<u4").view(f"<U{_CHARACTERS}")[..., 0]


def _row_divergences(before: SiteCall, after: SiteCall) -> tuple[Tensor, Tensor]:
    """Compute the divergence of each row, and the key whose weight differs most, (batch_size, n_heads, q_length) each.

    Blocks of queries are computed at a time. Rows of padding are undefined.
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
        if is_padded:  # the weights of padding are arbitrary
            visible = (is_query[:, start : start + step, None] & is_key[:, None])[:, None]
            p, q = (A.masked_fill(~visible, 0.0) for A in (p, q))
        apart = (p - q).abs_()  # the first of nearly equal changes is taken, so that rounding does not decide
        keys.append((apart >= apart.amax(dim=-1, keepdim=True) * (1 - TIED)).byte().argmax(dim=-1))
        if has_rest:
            p, q = (torch.cat([A, (1 - A.sum(dim=-1, keepdim=True)).clamp_(min=0.0)], dim=-1) for A in (p, q))
        blocks.append(jensen_shannon(p, q, torch.log1p))
    return torch.cat(blocks, dim=2), torch.cat(keys, dim=2)


def _bytes_of(seen: SiteCall) -> int:
    """Return the memory of the tensors of a call that are kept."""
    call = seen.call
    kept = (call.query, call.key) if isinstance(call, AttentionCall) else (call.given,)
    return sum(tensor.numel() * tensor.element_size() for tensor in kept)


def _without_values(seen: SiteCall) -> SiteCall:
    """Return a call whose weights can be computed after the model has gone on, without its values and output."""
    if isinstance(seen.call, AttentionCall):
        value = seen.call.value[..., :0].clone()
        return replace(seen, call=replace(seen.call, value=value), output=None)
    return replace(seen, call=replace(seen.call, given=seen.call.given.clone(), seen=None), output=None)

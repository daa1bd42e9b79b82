"""The interface of a model: it encodes texts, runs on them, and shows what each of its attentions is called with.

Weights, maps, statistics, explanations and checks are made of these calls, by ``analyses``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.padding import Padding
from mhaviz.attention.soundness import require_numbers
from mhaviz.devices import resolve_device
from mhaviz.errors import ArgumentError, MhavizError, parameter
from mhaviz.inputs.given import Given
from mhaviz.inputs.tokens import Kind, Piece, Text, Tokens, is_run
from mhaviz.results.ablation import Prediction
from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.corpus_part import ModelIdentity
from mhaviz.results.embeddings import EmbeddedText
from mhaviz.results.result import Source
from mhaviz.results.trace import VALUES_UP_TO, ShapeTrace


@dataclass(frozen=True)
class Inputs:
    """What a model reads: its own tokens for each sentence."""

    texts: tuple[Text, ...]

    @property
    def longest(self) -> int:
        """Tokens of the longest side of any sentence."""
        return max(max(map(len, text.sides("cross"))) for text in self.texts)

    def sentence(self, number: int) -> int | None:
        """The number itself where there are several sentences; None where there is one."""
        return number if len(self.texts) > 1 else None


@dataclass(frozen=True)
class Site:
    """One of a model's attentions.

    Attributes:
        kind: of attention.
        layer: counted from 0; encoder, decoder and cross attention are each counted by themselves.
        n_heads, d_key: its sizes.
        number: its place among all attentions of the model, in the order in which they run.
        module: what the model calls it, "blocks.0.attn"; nothing where that is not known.
    """

    kind: Kind
    layer: int
    n_heads: int
    d_key: int
    number: int = 0
    module: str = ""


@dataclass(frozen=True)
class SiteCall:
    """What one attention of a model is called with, for some sentences.

    Attributes:
        site: which attention.
        call: what it computes with, of these heads alone.
        heads: their numbers.
        queries, keys: the tokens of each sentence of the batch; the shorter ones are padded at their ends.
        output: what the model itself has made of the values, (batch_size, n_heads, q_length, d_value), if it shows it.
        sentence: the number of the first sentence; None if there is only one.
        reach: a query sees no key that is more positions away than this (a sliding window); None: all.
        pieces: for each sentence, which part of a longer one it is, with the queries that count; None, or nothing: the
            whole.
        padding: what is padding beside what stands behind the ends of the shorter sentences; None: nothing.
    """

    site: Site
    call: AttentionCall | AttentionWeights
    heads: tuple[int, ...]
    queries: tuple[Tokens, ...]
    keys: tuple[Tokens, ...]
    output: Tensor | None = None
    sentence: int | None = None
    reach: int | None = None
    pieces: tuple[Piece | None, ...] = ()
    padding: Padding | None = None

    @property
    def with_inputs(self) -> AttentionCall:
        """The call. Raises MhavizError of a model that shows its weights alone."""
        if not isinstance(self.call, AttentionCall):
            raise MhavizError(
                "the model shows its weights alone, and no queries and keys: only heatmap and heads can draw it"
            )
        return self.call

    def map(
        self,
        values: NDArray[np.float32],
        edges: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
        **others: Any,
    ) -> AttentionMap:
        """Weights of the one sentence of this call as a map.

        Args:
            values: (n_heads, rows, columns).
            edges: where the rows and the columns begin, and where the last ones end, of a part or of cells; None: a
                row a query and a column a key.
            others: further fields of ``AttentionMap``, or other values of those that are known.
        """
        (queries,), (keys,) = self.queries, self.keys
        rows, columns = Axis(queries), Axis(keys)
        if edges:
            rows, columns = (
                Axis(tokens[int(cells[0]) : int(cells[-1])], cells)
                for tokens, cells in zip((queries, keys), edges, strict=True)
            )
        known: dict[str, Any] = {
            "kind": self.site.kind,
            "layer": self.site.layer,
            "heads": self.heads,
            "sentence": self.sentence,
            "reach": self.reach,
            "sink": self.call.has_sink,
            "module": self.site.module,
        }
        return AttentionMap(values, rows, columns, **known | others)

    def without_padding(self) -> "SiteCall":
        """The same without padding, of a call of one sentence. Raises MhavizError if there is nothing else."""
        if self.padding is None:
            return self
        rows, columns = (one[0].nonzero().flatten().tolist() for one in (self.padding.queries, self.padding.keys))
        if not (rows and columns):
            raise MhavizError("expected tokens, got padding alone")
        call = self.call
        if isinstance(call, AttentionWeights):  # without its rounding being spread over the keys that remain
            call = replace(call, given=call.given[:, :, rows][..., columns])
        else:
            call = call.part(rows, columns)
        output = None if self.output is None else self.output[:, :, rows]
        (queries,), (keys,) = self.queries, self.keys
        cut = _of_run(queries, rows), _of_run(keys, columns)
        return replace(self, call=call, queries=cut[:1], keys=cut[1:], output=output, padding=None)


def _of_run(tokens: Tokens, positions: Sequence[int]) -> Tokens:
    return tokens[positions[0] : positions[-1] + 1] if is_run(positions) else tokens.at(tuple(positions))


OnAttention = Callable[[SiteCall], None]


@dataclass(frozen=True, kw_only=True)
class Model(ABC):
    """The interface of every model. It stands here, and not in ``models``, as analyses may know no more of a model.

    A new kind of model is a file in ``models`` with a subclass, and a loader and a row in ``models/load.py``. It
    defines the abstract methods. Its ``run`` makes a ``SiteCall`` of each attention, with an ``AttentionCall`` if it
    knows queries and keys, or with ``AttentionWeights`` if it knows the weights alone, and gives it to ``show``, which
    checks it and calls ``on_attention``.

    Attributes:
        layers, kind: the attentions that are looked at; None: all.
        can_write: whether it may go on writing a text, if it has been loaded with what predicts.
        norms: whether calls know the norms of their values.
        device_name: see ``resolve_device``.
        seed: of what it draws.
    """

    layers: tuple[int, ...] | None = None
    kind: Kind | None = None
    norms: bool = False
    can_write = False
    device_name = "auto"
    seed = 0

    @property
    @abstractmethod
    def all_sites(self) -> tuple[Site, ...]:
        """Its attentions, in the order in which they run."""

    @cached_property
    def device(self) -> torch.device:
        """Where it runs."""
        return resolve_device(self.device_name)

    @abstractmethod
    def encode(self, sentences: Sequence[str], target: str | None = None) -> Inputs:
        """What the model reads for these sentences.

        Args:
            sentences: any texts that it takes.
            target: for source-target attention, of one sentence.

        Raises:
            ArgumentError: sentences that it cannot take.
        """

    def read(self, given: Given) -> Inputs:
        """What the model reads of what a user gives: as ``encode``, and of a pair, a chat or ids if it takes them.

        Raises:
            ArgumentError: as ``encode``; what it does not take.
        """
        require_texts(given)
        return self.encode(given.sentences, given.target)

    @abstractmethod
    def run(
        self, inputs: Inputs, on_attention: OnAttention, heads: Sequence[int] | None = None, batched: bool = False
    ) -> None:
        """Run, and show every attention that is looked at: all of a sentence, in order, then those of the next.

        Args:
            inputs: what ``encode`` has made.
            on_attention: is called with each. The tensors are only valid during the call.
            heads: show these alone, or those of them that an attention has; None: all.
            batched: several sentences may be read at once, padded, and are shown together.

        Raises:
            MhavizError: the model does not fit into memory; NaN or infinity in what it computes with.
        """

    @abstractmethod
    def describe(self, inputs: Inputs | None = None) -> Source:
        """What a picture says of where its numbers come from."""

    @abstractmethod
    def trace(self, inputs: Inputs, values: bool = False, most_values: int = VALUES_UP_TO) -> ShapeTrace:
        """Every step of the way through one attention; with ``values``, the numbers of small tensors too.

        ``most_values``: so many numbers are few enough to be kept.
        """

    def sites(self, inputs: Inputs | None = None) -> tuple[Site, ...]:
        """The attentions that are looked at, for these inputs."""
        return tuple(
            site
            for site in self.all_sites
            if (self.layers is None or site.layer in self.layers) and self.kind in (None, site.kind)
        )

    @property
    def notices(self) -> list[str]:
        """What should be known of how the model is looked at, a line each."""
        return []

    def require_calls(self) -> None:  # noqa: B027 (``SiteCall.with_inputs`` says it of every model)
        """Raise MhavizError of a model that shows its weights alone: before it runs, if that is known so early."""

    def require_outputs(self) -> torch.dtype:
        """The type of the outputs that it shows beside its weights. Raises MhavizError of a model that shows none."""
        raise only_of_transformers("verify")

    def with_norms(self) -> Self:
        """The same model, whose calls know the norms of their values behind W_O: see ``AttentionCall.value_norms``.

        Raises:
            MhavizError: an attention that is looked at has no W_O that could be found.
        """
        return replace(self, norms=True)

    def writing(self, n_tokens: int) -> Self:
        """The same model, of which a decoder goes on writing so many tokens. Raises ArgumentError if it cannot."""
        raise only_of_transformers("generate")

    def speaking(self, source: str | None, target: str | None) -> Self:
        """The same model, of which texts are in this language, and what it writes in that; None: as they are.

        Raises ArgumentError if it does not know them.
        """
        require_texts(Given(source_language=source, target_language=target))
        return self

    def embed(self, text: str, target: str | None = None) -> EmbeddedText:
        """What the first layer reads of a text, and what it is made of.

        Args:
            text: a sentence.
            target: of an encoder with a decoder: look at what its decoder reads of this, instead of at the text.

        Raises:
            ArgumentError: a text that it cannot take, or of which not every two tokens can be compared; a target that
                it does not read.
            MhavizError: it has no embeddings; NaN or infinity in them.
        """
        raise ArgumentError(
            f"expected a model with embeddings, got the parameters of an attention alone; name another by "
            f"{parameter('model')}"
        )

    def embed_given(self, given: Given) -> EmbeddedText:
        """As ``embed``, of one sentence, or of a pair, a chat or ids if it takes them. Raises as both do."""
        require_texts(given)
        if len(given.sentences) != 1:
            raise ArgumentError(f"this looks into one sentence, got {len(given.sentences)}; give one of them")
        return self.embed(given.sentences[0], given.target)

    def one_site(self, inputs: Inputs) -> Site:
        """The one attention that is looked at. Raises ArgumentError if there are several."""
        sites = self.sites(inputs)
        if len(sites) > 1:
            layers, kinds = sorted({site.layer for site in sites}), list(dict.fromkeys(site.kind for site in sites))
            by = (
                f"{parameter('layer')}, from {layers[0]} to {layers[-1]}"
                if len(layers) > 1
                else f"{parameter('kind')}, of {', '.join(kinds)}"
            )
            raise ArgumentError(f"this looks into one attention, and the model has several; choose by {by}")
        return sites[0]

    def select(self, layers: tuple[int, ...] | None = None, kind: Kind | None = None) -> Self:
        """The same model, of which these layers and this kind of attention are looked at; None: all.

        Raises:
            ArgumentError: it has no such attention.
        """
        kinds = tuple(dict.fromkeys(site.kind for site in self.all_sites))
        if kind is not None and kind not in kinds:
            raise ArgumentError(
                f"{parameter('kind')}: expected a kind of attention that the model has, {', '.join(kinds)}, got {kind}"
            )
        return replace(self, layers=layers, kind=kind)

    @property
    def has_layers(self) -> bool:
        """Whether an attention must be named with its layer."""
        return len({site.layer for site in self.all_sites}) > 1

    @property
    def n_heads(self) -> int:
        """Of the attention that has most."""
        return max(site.n_heads for site in self.sites())


class Predictor(ABC):
    """What a model makes at its end: a token at some places of a text, or at least an embedding of the text."""

    @property
    @abstractmethod
    def prediction(self) -> Prediction:
        """What it makes at the end."""

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """The number of tokens that it chooses among where it predicts one."""

    @abstractmethod
    def masked(self, inputs: Inputs, positions: Sequence[Sequence[int]]) -> Inputs:
        """The same inputs with the token that stands for a hidden one, at these positions of each sentence."""

    @abstractmethod
    def logits(self, inputs: Inputs, positions: Sequence[Sequence[int]]) -> Tensor:
        """What it predicts at these positions of each sentence, or of its target if it has one.

        Returns:
            float32, (n_positions, vocabulary), those of one sentence after those of another.

        Raises:
            MhavizError: as ``Model.run``; NaN among them.
        """

    @abstractmethod
    def pooled(self, inputs: Inputs) -> Tensor:
        """The mean over the tokens of what the last layer makes of each sentence: float32, (batch_size, d_model).

        Raises:
            MhavizError: as ``logits``.
        """


@dataclass(frozen=True, kw_only=True)
class CorpusModel(Model):
    """A model that reads many texts in batches, and makes something at its end.

    A head is zeroed where it has mixed its values, before they are projected: the mask variables ξ of Michel et al.
    2019, "Are Sixteen Heads Really Better than One?" (arXiv 1905.10650, section 2.2).

    Attributes:
        zeroed: the heads whose output is zeroed, each by the number of its attention and its own.
    """

    zeroed: frozenset[tuple[int, int]] = frozenset()

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each of many texts, special ones included; 0 if there are no others."""
        return [len(tokens) for tokens in self.read_unnamed(texts)]

    @abstractmethod
    def encode_unnamed(self, sentences: Sequence[str], pieces: Sequence[Text | None] = ()) -> Inputs:
        """As ``encode``, of many sentences, whose tokens nobody will look at.

        ``pieces``: for each sentence the piece of it that is read in its place; None: the whole.
        """

    @property
    @abstractmethod
    def max_length(self) -> int | None:
        """The most tokens that the model can read; None: there is no such limit."""

    @property
    @abstractmethod
    def language_codes(self) -> list[str | None]:
        """The codes of the languages of its texts and of what it writes; None: as its tokenizer has it."""

    @property
    @abstractmethod
    def pads_unseen(self) -> bool:
        """Whether ``run`` reads several sentences at once if it may: padding changes nothing of what they give."""

    @abstractmethod
    def read_unnamed(self, texts: Sequence[str]) -> Sequence[Tokens]:
        """The tokens of each of many texts of any length, without what a decoder would write."""

    @abstractmethod
    def token_text(self, number: int) -> str:
        """What the token of this number is called, wherever it stands."""

    @property
    @abstractmethod
    def identity(self) -> ModelIdentity:
        """Its name, and what tells it from models with other parameters, on whatever machine it runs."""

    @property
    @abstractmethod
    def predictor(self) -> Predictor:
        """What it makes at the end."""

    @abstractmethod
    def zeroing(self, heads: Collection[tuple[Site, int]]) -> Self:
        """The same model with the output of these heads zeroed, whatever it does then.

        While it runs a MhavizError is raised if the output of an attention cannot be reached.
        """


def call_of_one(model: Model, inputs: Inputs, heads: Sequence[int]) -> SiteCall:
    """What the one attention that is looked at is called with, for one sentence, of these heads.

    Raises:
        ArgumentError: there are several attentions or sentences, or no such head; the model shows its weights alone.
        MhavizError: as ``Model.run``.
    """
    model.require_calls()
    site = model.one_site(inputs)
    if len(inputs.texts) > 1:
        raise ArgumentError(f"this looks into one sentence, got {len(inputs.texts)}; give one of them")
    require_heads(site, heads)
    found: list[SiteCall] = []
    model.run(inputs, found.append, heads)
    return found[0]


def require_heads(site: Site, heads: Sequence[int]) -> None:
    """Raise ArgumentError unless the attention has these heads."""
    for head in heads:
        if not 0 <= head < site.n_heads:
            raise ArgumentError(f"expected a head from 0 to {site.n_heads - 1}, got {head}")


def only_of_transformers(option: str) -> ArgumentError:
    """The error where another model is asked for what only a model of transformers has."""
    return ArgumentError(f"{parameter(option)} is for a model of transformers; name one by {parameter('model')}")


def require_texts(given: Given) -> None:
    """Raise ArgumentError if more than sentences and a target is given, of a model that reads nothing else."""
    if given.others:
        raise only_of_transformers(given.others[0])


def require_one_target(sentences: Sequence[str], target: str | None) -> None:
    """Raise ArgumentError unless there is a sentence, and no other beside it if a target goes with it."""
    if not sentences:
        raise ArgumentError("expected at least one sentence, got none")
    if target is not None and len(sentences) > 1:
        raise ArgumentError(f"a target goes with one sentence, got {len(sentences)}; give one of them")


def heads_of(site: Site, heads: Sequence[int] | None) -> tuple[int, ...]:
    """Those of these heads that the attention has; None: all."""
    return tuple(h for h in (range(site.n_heads) if heads is None else heads) if h < site.n_heads)


def show(on_attention: OnAttention, seen: SiteCall, of: str, advice: str, heads: Sequence[int] | None = None) -> None:
    """Show an attention's call, if it computes with numbers.

    Args:
        on_attention: is called with it.
        seen: the call.
        of: what an error calls the attention.
        advice: what to do if there is NaN in it.
        heads: those of the call's that are wanted; None: all.

    Raises:
        MhavizError: NaN or infinity, with the heads.
    """
    padded = len(seen.queries) > 1 or seen.padding is not None
    is_query, is_key = are_tokens(seen, seen.call.device) if padded else (None, None)
    require_numbers(seen.call, of, advice, seen.output, is_query, is_key, seen.heads)
    seen = with_plain_mask(seen)
    if heads is not None:
        places = [seen.heads.index(head) for head in heads if head in seen.heads]
        if not places:
            return
        output = None if seen.output is None else seen.output[:, places]
        chosen = tuple(seen.heads[place] for place in places)
        seen = replace(seen, call=seen.call.select(places), heads=chosen, output=output)
    on_attention(seen)


def with_plain_mask(seen: SiteCall) -> SiteCall:
    """The same call by the simplest rule that hides the same keys: see ``AttentionCall.with_plain_mask``."""
    if not isinstance(seen.call, AttentionCall):
        return seen
    call, reach = seen.call.with_plain_mask(seen.site.kind == "masked" or seen.call.causal)
    return replace(seen, call=call, reach=reach)


def is_counted(seen: SiteCall, device: torch.device) -> Tensor:
    """bool, (batch_size, q_length): False for padding, for queries that see no key, and for those that count in another
    piece of their text.
    """
    counts, _ = are_tokens(seen, device)
    for row, piece in enumerate(seen.pieces):
        if piece is not None:
            counts[row, : piece.start] = False
            counts[row, piece.end :] = False
    return counts


def are_tokens(seen: SiteCall, device: torch.device) -> tuple[Tensor, Tensor]:
    """bool, (batch_size, q_length) and (batch_size, k_length): False for padding, and for queries that see no key."""
    is_query, is_key = is_token(seen.queries, device), is_token(seen.keys, device)
    if seen.padding is None:
        return is_query, is_key
    return is_query & seen.padding.queries & seen.padding.sees, is_key & seen.padding.keys


def is_token(sides: Sequence[Tokens], device: torch.device) -> Tensor:
    """bool, (batch_size, length of the longest): False for padding."""
    lengths = torch.tensor([len(tokens) for tokens in sides], device=device)
    return torch.arange(int(lengths.max()), device=device) < lengths[:, None]

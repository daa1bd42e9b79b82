"""The interface of a model: it encodes texts, runs on them, and passes each attention call to a handler.

The functions of ``analyses`` compute weights, maps, statistics, explanations and checks from these calls.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.graded import GradedAttention
from mhaviz.attention.padding import Padding
from mhaviz.attention.soundness import require_numbers
from mhaviz.attention.targets import Score, Target, Why
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
    """Inputs of a model: its own tokens for each sentence."""

    texts: tuple[Text, ...]

    @property
    def longest(self) -> int:
        """Number of tokens on the longest side of any sentence."""
        return max(max(map(len, text.sides("cross"))) for text in self.texts)

    def sentence(self, number: int) -> int | None:
        """Return the number itself if there are several sentences, else None."""
        return number if len(self.texts) > 1 else None


@dataclass(frozen=True)
class Site:
    """One of a model's attentions.

    Attributes:
        kind: kind of attention.
        layer: number of the layer, from 0. Encoder, decoder and cross attention are counted separately.
        n_heads, d_key: number of heads, and features of a key.
        number: place among all attentions of the model, in the order in which they run.
        module: name of the module in the model, such as "blocks.0.attn"; empty: not known.
    """

    kind: Kind
    layer: int
    n_heads: int
    d_key: int
    number: int = 0
    module: str = ""


@dataclass(frozen=True)
class SiteCall:
    """One call of one attention of a model, for some sentences.

    Attributes:
        site: the attention.
        call: queries, keys and values of the call, or its weights, of these heads alone.
        heads: numbers of the heads.
        queries, keys: tokens of each sentence of the batch. Shorter sentences are padded at their ends.
        output: output of the attention as the model computed it, (batch_size, n_heads, q_length, d_value); None: not
            known.
        sentence: number of the first sentence; None: there is only one.
        reach: sliding window: the largest distance, in positions, of a key that a query sees; None: no window.
        pieces: for each sentence, the part of a longer sentence that it is, with the queries that count; None, or an
            empty tuple: all of it.
        padding: padding other than behind the ends of the shorter sentences; None: there is none.
        places: positions of the queries among the keys, if these are all tokens of a text and the queries only some of
            them; None: both are the same tokens, or of two texts.
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
    places: range | None = None

    @property
    def with_inputs(self) -> AttentionCall:
        """The call. Raises MhavizError if the model shows its weights alone."""
        if not isinstance(self.call, AttentionCall):
            raise MhavizError(
                "the model gives only its weights, and no queries and keys: only heatmap and heads can draw it"
            )
        return self.call

    def map(
        self,
        values: NDArray[np.float32],
        axes: tuple[Axis, Axis] | None = None,
        **others: Any,
    ) -> AttentionMap:
        """Return weights of this call, which has one sentence, as a map.

        Args:
            values: weights, (n_heads, rows, columns).
            axes: rows and columns; None: one row for each query and one column for each key.
            others: fields of ``AttentionMap`` that are set beside, or in place of, those of this call.
        """
        (queries,), (keys,) = self.queries, self.keys
        rows, columns = axes or (Axis(queries), Axis(keys))
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
        """Return this call, which has one sentence, without padding. Raises MhavizError if nothing else is left."""
        if self.padding is None:
            return self
        rows, columns = (one[0].nonzero().flatten().tolist() for one in (self.padding.queries, self.padding.keys))
        if not (rows and columns):
            raise MhavizError("expected tokens, got only padding: the mask hides every key from every query")
        call = self.call
        if isinstance(call, AttentionWeights):  # ``part`` would spread rounding errors over the keys that remain
            call = call.arranged(lambda x: x[:, :, rows][..., columns])
        else:
            call = call.part(rows, columns)
        output = None if self.output is None else self.output[:, :, rows]
        (queries,), (keys,) = self.queries, self.keys
        cut = _tokens_at(queries, rows), _tokens_at(keys, columns)
        return replace(self, call=call, queries=cut[:1], keys=cut[1:], output=output, padding=None)


def _tokens_at(tokens: Tokens, positions: Sequence[int]) -> Tokens:
    return tokens[positions[0] : positions[-1] + 1] if is_run(positions) else tokens.at(tuple(positions))


@dataclass(frozen=True)
class GradedRun:
    """A run of a model on one text, with the gradients of a target.

    Attributes:
        score: what comes of the target.
        attentions: its attentions, with the gradients at their outputs, in the order in which they run; those on which
            the target does not depend are left out.
    """

    score: Score
    attentions: tuple[tuple[Site, GradedAttention], ...]


LABELS: Literal["labels"] = "labels"

Predicts = bool | Literal["labels"]
"""Whether a model is loaded with its head, if its files have one: True, one that predicts next or masked tokens;
"labels", that of a classifier, and of another model as True."""

OnAttention = Callable[[SiteCall], None]


@dataclass(frozen=True, kw_only=True)
class Model(ABC):
    """The interface of every model. It is not in ``models``, as ``analyses`` use this interface alone.

    To add a kind of model, write a subclass that defines the abstract methods, in a file of ``models``, and add a
    loader and a row to ``models/load.py``. ``run`` makes a ``SiteCall`` for each attention, with an ``AttentionCall``
    if queries and keys are known, or with ``AttentionWeights`` if only the weights are. It passes the ``SiteCall`` to
    ``show``, which checks it and calls ``on_attention``.

    Attributes:
        layers, kind: layers and kind of the selected attentions; None: all.
        can_write: whether the model can generate text, if loaded with its language modelling head.
        reads_text: whether the model reads texts; if not, it reads images alone.
        lacks_labels, is_classifier: whether its files are of a classifier whose head was not loaded, or was.
        norms: whether calls have ``value_norms``.
        device_name: name of the device; see ``resolve_device``.
        seed: seed of random numbers.
    """

    layers: tuple[int, ...] | None = None
    kind: Kind | None = None
    norms: bool = False
    can_write = False
    reads_text = True
    lacks_labels = False
    is_classifier = False
    device_name = "auto"
    seed = 0

    @property
    @abstractmethod
    def all_sites(self) -> tuple[Site, ...]:
        """All attentions of the model, in the order in which they run."""

    @cached_property
    def device(self) -> torch.device:
        """Device on which the model runs."""
        return resolve_device(self.device_name)

    @abstractmethod
    def encode(self, sentences: Sequence[str], target: str | None = None) -> Inputs:
        """Return the inputs of the model for these sentences.

        Args:
            sentences: texts.
            target: text of the decoder, for one sentence; None: none is given.

        Raises:
            ArgumentError: texts that the model cannot read.
        """

    def read(self, given: Given) -> Inputs:
        """Return the inputs for texts, or for a pair, a chat or ids where the model takes them.

        Raises:
            ArgumentError: as ``encode``; a form of input that the model does not take.
        """
        require_texts(given)
        return self.encode(given.sentences, given.target)

    @abstractmethod
    def run(
        self, inputs: Inputs, on_attention: OnAttention, heads: Sequence[int] | None = None, batched: bool = False
    ) -> None:
        """Run the model, and pass the call of each selected attention to a handler.

        The calls of a sentence come in the order of ``sites``, before those of the next sentence.

        Args:
            inputs: result of ``encode`` or ``read``.
            on_attention: handler, called with each call. The tensors are only valid during the call.
            heads: heads to show; an attention that lacks one of them shows the others; None: all.
            batched: whether several sentences may be padded and run, and then shown, together.

        Raises:
            MhavizError: the model does not fit into memory; NaN or infinity in an attention.
        """

    @abstractmethod
    def describe(self, inputs: Inputs | None = None) -> Source:
        """Return the source of the numbers, which pictures name."""

    @abstractmethod
    def trace(self, inputs: Inputs, values: bool = False, most_values: int = VALUES_UP_TO) -> ShapeTrace:
        """Return the shapes of all steps of one attention.

        Args:
            inputs: result of ``encode`` or ``read``.
            values: whether to keep the numbers of small tensors.
            most_values: largest number of elements of a small tensor.
        """

    def sites(self, inputs: Inputs | None = None) -> tuple[Site, ...]:
        """Return the selected attentions, for these inputs."""
        return tuple(
            site
            for site in self.all_sites
            if (self.layers is None or site.layer in self.layers) and self.kind in (None, site.kind)
        )

    def first_sites(self, inputs: Inputs) -> dict[Kind, Site]:
        """Return the first of the selected attentions of each kind."""
        found = dict[Kind, Site]()
        for site in self.sites(inputs):
            found.setdefault(site.kind, site)
        return found

    @property
    def notices(self) -> list[str]:
        """Notices for the user about how the model is run, one line each."""
        return []

    def require_calls(self) -> None:  # noqa: B027 (``SiteCall.with_inputs`` says it of every model)
        """Raise MhavizError if the model is known, before it runs, to show its weights alone."""

    def require_outputs(self) -> torch.dtype:
        """Return the type of the outputs in its calls. Raises MhavizError if its calls have none."""
        raise only_of_transformers("verify")

    def with_norms(self) -> Self:
        """Return the model with ``value_norms`` in its calls: see ``AttentionCall``.

        Raises:
            MhavizError: the output projection W_O of a selected attention was not found.
        """
        return replace(self, norms=True)

    def writing(self, n_tokens: int) -> Self:
        """Return the model with a decoder that generates ``n_tokens`` tokens. Raises ArgumentError if it cannot."""
        raise only_of_transformers("generate")

    def speaking(self, source: str | None, target: str | None) -> Self:
        """Return the model with other languages of its texts and of the text it generates; None: unchanged.

        Raises:
            ArgumentError: the model does not know a language.
        """
        require_texts(Given(source_language=source, target_language=target))
        return self

    def target(self, why: Why, text: Text) -> Target:
        """Return the scalar of the model's output on a text that is explained.

        Args:
            why: a token, "label=NAME", "top" for the model's top prediction, or a function from its output to a scalar.
            text: the text.

        Raises:
            ArgumentError: the model predicts nothing, or not this.
        """
        raise ArgumentError(
            f"{parameter('why')}: expected a model that predicts, which {type(self).__name__} does not; name a "
            f"transformers model with a head, or translation, by {parameter('model')}"
        )

    def graded(self, text: Text, target: Target) -> GradedRun:
        """Run on a text, and return the gradients of a target at the outputs of all attentions.

        Raises:
            MhavizError: no gradient arrives at an attention; the model mixes tokens outside of attention; y is NaN or
                infinite; or it does not fit into memory.
        """
        raise NotImplementedError

    def score(self, text: Text, target: Target) -> Score:
        """Run on a text, and return what comes of a target, of a ``CorpusModel`` with its heads ``zeroed``."""
        raise NotImplementedError

    def embed(self, text: str, target: str | None = None) -> EmbeddedText:
        """Return what the first layer reads for a text, and the embeddings and positions beside it.

        Args:
            text: a sentence.
            target: text of the decoder, whose embeddings are then returned; None: return those of ``text``.

        Raises:
            ArgumentError: a text that the model cannot read, or that has too many tokens to compare each two; a target
                that it does not read.
            MhavizError: the model has no embeddings; NaN or infinity in them.
        """
        raise ArgumentError(
            f"expected a model with embeddings, got only the parameters of an attention; name another by "
            f"{parameter('model')}"
        )

    def embed_given(self, given: Given) -> EmbeddedText:
        """As ``embed``, for one sentence, or for a pair, a chat or ids where the model takes them."""
        require_texts(given)
        if len(given.sentences) != 1:
            raise ArgumentError(f"expected one sentence, got {len(given.sentences)}; give one of them")
        return self.embed(given.sentences[0], given.target)

    def one_site(self, inputs: Inputs) -> Site:
        """Return the one selected attention. Raises ArgumentError if there are several."""
        sites = self.sites(inputs)
        if len(sites) > 1:
            layers, kinds = sorted({site.layer for site in sites}), list(dict.fromkeys(site.kind for site in sites))
            by = (
                f"{parameter('layer')}, from {layers[0]} to {layers[-1]}"
                if len(layers) > 1
                else f"{parameter('kind')}, of {', '.join(kinds)}"
            )
            raise ArgumentError(f"expected one attention, got {len(sites)}; choose one by {by}")
        return sites[0]

    def select(self, layers: tuple[int, ...] | None = None, kind: Kind | None = None) -> Self:
        """Return the model with these layers and this kind of attention selected; None: all.

        Raises:
            ArgumentError: the model has no such attention.
        """
        kinds = tuple(dict.fromkeys(site.kind for site in self.all_sites))
        if kind is not None and kind not in kinds:
            raise ArgumentError(
                f"{parameter('kind')}: expected a kind of attention that the model has, {', '.join(kinds)}, got {kind}"
            )
        return replace(self, layers=layers, kind=kind)

    @property
    def has_layers(self) -> bool:
        """Whether the model has more than one layer, so that an attention is named with its layer."""
        return len({site.layer for site in self.all_sites}) > 1

    @property
    def n_heads(self) -> int:
        """Largest number of heads of a selected attention."""
        return max(site.n_heads for site in self.sites())


class Predictor(ABC):
    """The final output of a model: predictions of tokens, or at least an embedding of the text."""

    @property
    @abstractmethod
    def prediction(self) -> Prediction:
        """What the model predicts."""

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Number of tokens among which a prediction chooses."""

    @abstractmethod
    def masked(self, inputs: Inputs, positions: Sequence[Sequence[int]]) -> Inputs:
        """Return the inputs with the mask token at these positions of each sentence."""

    @abstractmethod
    def logits(self, inputs: Inputs, positions: Sequence[Sequence[int]]) -> Tensor:
        """Compute the logits at these positions of each sentence, or of its target if it has one.

        Returns:
            float32, (n_positions, vocabulary), sentence by sentence.

        Raises:
            MhavizError: as ``Model.run``; NaN in the logits.
        """

    @abstractmethod
    def pooled(self, inputs: Inputs) -> Tensor:
        """Compute the mean output of the last layer over the tokens of each sentence: float32, (batch_size, d_model).

        Raises:
            MhavizError: as ``logits``.
        """


@dataclass(frozen=True, kw_only=True)
class CorpusModel(Model):
    """A model that reads many texts in batches, and has a final output.

    Zeroing a head sets its output A V to 0, before the output projection: the mask variables ξ of Michel et al. 2019,
    "Are Sixteen Heads Really Better than One?" (arXiv 1905.10650, section 2.2).

    Attributes:
        zeroed: heads whose output is zeroed in what ``predictor`` predicts, and in ``score``, as pairs of
            ``Site.number`` and the number of the head.
    """

    zeroed: frozenset[tuple[int, int]] = frozenset()

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, with special tokens; 0 if there are no others."""
        return [len(tokens) for tokens in self.read_unnamed(texts)]

    @abstractmethod
    def encode_unnamed(self, sentences: Sequence[str], pieces: Sequence[Text | None] = ()) -> Inputs:
        """As ``encode``, for many sentences, with empty labels of their tokens.

        ``pieces``: for each sentence, the piece that is read in its place; None: all of it.
        """

    @property
    @abstractmethod
    def max_length(self) -> int | None:
        """Largest number of tokens that the model can read; None: no limit."""

    @property
    @abstractmethod
    def language_codes(self) -> list[str | None]:
        """Language codes of its texts and of the text it generates; None: the tokenizer's default."""

    @property
    @abstractmethod
    def pads_unseen(self) -> bool:
        """Whether ``run`` can batch sentences, as padding does not change the results of the others."""

    @abstractmethod
    def read_unnamed(self, texts: Sequence[str]) -> Sequence[Tokens]:
        """Return the tokens of each text, of any length, without the tokens that a decoder would generate."""

    @abstractmethod
    def token_text(self, number: int) -> str:
        """Return the text of the token with this id."""

    @property
    @abstractmethod
    def identity(self) -> ModelIdentity:
        """Name of the model, and a fingerprint of its parameters that is the same on every machine."""

    @property
    @abstractmethod
    def predictor(self) -> Predictor:
        """Final output of the model."""

    @abstractmethod
    def zeroing(self, heads: Collection[tuple[Site, int]]) -> Self:
        """Return the model with the output of these heads zeroed in what its ``predictor`` predicts.

        When that runs, MhavizError is raised if the output of an attention cannot be replaced.
        """


def call_of_one(model: Model, inputs: Inputs, heads: Sequence[int]) -> SiteCall:
    """Return the call of the one selected attention, for one sentence, of these heads.

    Raises:
        ArgumentError: several attentions or sentences; a head that the attention does not have.
        MhavizError: the model shows its weights alone; as ``Model.run``.
    """
    model.require_calls()
    site = model.one_site(inputs)
    if len(inputs.texts) > 1:
        raise ArgumentError(f"expected one sentence, got {len(inputs.texts)}; give one of them")
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
    """Return the error for an option that only models of transformers have."""
    return ArgumentError(f"{parameter(option)} is for a transformers model; name one with {parameter('model')}")


def require_texts(given: Given) -> None:
    """Raise ArgumentError if more than sentences and a target is given, for models that read nothing else."""
    if given.others:
        raise only_of_transformers(given.others[0])


def require_one_target(sentences: Sequence[str], target: str | None) -> None:
    """Raise ArgumentError if there is no sentence, or more than one with a target."""
    if not sentences:
        raise ArgumentError("expected at least one sentence, got none")
    if target is not None and len(sentences) > 1:
        raise ArgumentError(f"a target goes with one sentence, got {len(sentences)}; give one of them")


def heads_of(site: Site, heads: Sequence[int] | None) -> tuple[int, ...]:
    """Return which of these heads the attention has; None: all its heads."""
    return tuple(h for h in (range(site.n_heads) if heads is None else heads) if h < site.n_heads)


def show(on_attention: OnAttention, seen: SiteCall, of: str, advice: str, heads: Sequence[int] | None = None) -> None:
    """Check the call of an attention, and pass it to a handler.

    Args:
        on_attention: handler; not called if the call has none of the heads.
        seen: the call.
        of: name of the attention in an error.
        advice: end of an error's message, what to do about NaN.
        heads: heads of the call to show; None: all.

    Raises:
        MhavizError: NaN or infinity; the message names the heads.
    """
    padded = len(seen.queries) > 1 or seen.padding is not None
    is_query, is_key = are_tokens(seen, seen.call.device) if padded else (None, None)
    require_numbers(seen.call, of, advice, seen.output, is_query, is_key, seen.heads, seen.site.layer)
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
    """Return the call with the simplest mask that hides the same keys: see ``AttentionCall.with_plain_mask``."""
    if not isinstance(seen.call, AttentionCall):
        return seen
    call, window = seen.call.with_plain_mask(seen.site.kind == "masked" or seen.call.causal)
    return replace(seen, call=call, reach=window)


def is_counted(seen: SiteCall, device: torch.device) -> Tensor:
    """Return which queries count: bool, (batch_size, q_length).

    False for padding, for queries that see no key, and for those that count in another piece of their text.
    """
    counts, _ = are_tokens(seen, device)
    for row, piece in enumerate(seen.pieces):
        if piece is not None:
            counts[row, : piece.start] = False
            counts[row, piece.end :] = False
    return counts


def are_tokens(seen: SiteCall, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return which queries and which keys are tokens: bool, (batch_size, q_length) and (batch_size, k_length).

    False for padding, and for queries that see no key.
    """
    is_query, is_key = is_token(seen.queries, device), is_token(seen.keys, device)
    if seen.padding is None:
        return is_query, is_key
    return is_query & seen.padding.queries & seen.padding.sees, is_key & seen.padding.keys


def is_token(sides: Sequence[Tokens], device: torch.device) -> Tensor:
    """Return which positions are tokens: bool, (batch_size, length of the longest sentence); False for padding."""
    lengths = torch.tensor([len(tokens) for tokens in sides], device=device)
    return torch.arange(int(lengths.max()), device=device) < lengths[:, None]

"""A checkpoint of transformers as a ``Model``."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mhaviz.attention.model import CorpusModel, GradedRun, Inputs, OnAttention, Site, SiteCall, heads_of, show
from mhaviz.attention.norms import value_norms
from mhaviz.attention.targets import Score, Target, Why
from mhaviz.devices import require_memory
from mhaviz.errors import ArgumentError, MhavizError, counted, parameter
from mhaviz.inputs.given import Given
from mhaviz.inputs.tokens import Kind, Piece, Text, Tokens, segments_text
from mhaviz.limits import require_comparable
from mhaviz.models.step_recorder import StepRecorder
from mhaviz.models.transformers import explain
from mhaviz.models.transformers.embedding import first_input
from mhaviz.models.transformers.fingerprint import fingerprint
from mhaviz.models.transformers.languages import Languages
from mhaviz.models.transformers.load import Loaded
from mhaviz.models.transformers.output_projection import output_grams, weighted_of
from mhaviz.models.transformers.predict import TransformersPredictor
from mhaviz.models.transformers.read import name_tokens
from mhaviz.models.transformers.run import field_of, form_of_its_own, run_hooked
from mhaviz.models.transformers.sites import LENGTHS, few_tokens, find_sites
from mhaviz.models.transformers.texts import Texts
from mhaviz.models.transformers.trace import trace_attention
from mhaviz.observe.attention_functions import EAGER, SDPA
from mhaviz.observe.observed import ObservedCall
from mhaviz.results.corpus_part import ModelIdentity
from mhaviz.results.embeddings import EmbeddedText
from mhaviz.results.result import Source
from mhaviz.results.trace import VALUES_UP_TO, ShapeTrace

_OF_WINDOWS = ("sliding_window", "local_attention")
"""Fields of the configuration of models that compute masks."""


@dataclass(frozen=True)
class TransformersModel(CorpusModel):
    """A model of transformers, with the attentions that were found in it.

    Attributes:
        texts: the model with its reader of texts.
        grams: result of ``gram_matrices`` for each selected attention, by its number; None: no norms are asked for.

    Raises:
        ArgumentError: the model cannot generate text; it does not know a language.
    """

    texts: Texts
    grams: Mapping[int, Tensor] | None = None

    can_write = True

    def __post_init__(self) -> None:
        self.texts.languages.require_known(self.loaded.tokenizer, self.loaded.name)
        if self.texts.generate and (self._kinds == ("self",) or not self.loaded.model.can_generate()):
            why = "sees later tokens" if self._kinds == ("self",) else "has no language modelling head"
            raise ArgumentError(
                f"{parameter('generate')}: {self.loaded.name} {why}, so it cannot generate text; leave it out"
            )

    @classmethod
    def of(cls, loaded: Loaded) -> "TransformersModel":
        """Return a model with its attentions, as found by ``find_sites``. Raises MhavizError as that does."""
        return cls(Texts(find_sites(loaded)))

    @property
    def loaded(self) -> Loaded:
        """The loaded model."""
        return self.texts.loaded

    @property
    def all_sites(self) -> tuple[Site, ...]:
        """All attentions of the model, in the order in which they run."""
        return self.loaded.sites

    @property
    def lacks_labels(self) -> bool:  # type: ignore[override]
        """See ``Model``."""
        return self.loaded.lacks_labels

    @property
    def is_classifier(self) -> bool:  # type: ignore[override]
        """See ``Model``."""
        return self.loaded.is_classifier

    @cached_property
    def device(self) -> torch.device:
        """Device of the model's inputs."""
        return self.loaded.device

    @property
    def has_layers(self) -> bool:
        """Always True, as attentions of transformers' models are named with their layers."""
        return True

    def encode(self, sentences: Sequence[str], target: str | None = None) -> Inputs:
        """Return the tokens of each sentence and, for an encoder with a decoder, of its target, given or generated.

        Raises:
            ArgumentError: a text without tokens, or with more than the model has positions; a target for several
                sentences, or for a model that is not an encoder with a decoder.
            MhavizError: the input does not fit into memory.
        """
        return self.read(Given(tuple(sentences), target))

    def read(self, given: Given) -> Inputs:
        """See ``Model.read``. Raises as ``encode``."""
        inputs = Inputs(tuple(self._speaking(given).texts.read(given)))
        self._require_memory(inputs)
        return inputs

    def encode_unnamed(self, sentences: Sequence[str], pieces: Sequence[Text | None] = ()) -> Inputs:
        """See ``CorpusModel.encode_unnamed``. The decoder of an encoder with a decoder generates the targets."""
        return Inputs(tuple(self.texts.read_without_names(sentences, pieces)))

    def run(
        self, inputs: Inputs, on_attention: OnAttention, heads: Sequence[int] | None = None, batched: bool = False
    ) -> None:
        """Run on each sentence, or if ``batched`` on all at once unless padding changes results; see ``Model.run``.

        Raises:
            MhavizError: NaN or infinity in a selected attention, or in one before it.
        """
        for number, texts in enumerate(self._batches(inputs, batched)):
            self._run_batch(texts, inputs.sentence(number), on_attention, heads)

    def _batches(self, inputs: Inputs, batched: bool) -> list[tuple[Text, ...]]:
        """Split the texts of inputs into batches."""
        together = batched and (len(inputs.texts) == 1 or self.pads_unseen)
        return [inputs.texts] if together else [(text,) for text in inputs.texts]

    def _run_batch(
        self, texts: Sequence[Text], sentence: int | None, on_attention: OnAttention, heads: Sequence[int] | None
    ) -> None:
        sites = {site.number: site for site in self.all_sites}
        chosen = set(self.sites())
        sides = {kind: tuple(zip(*(t.sides(kind) for t in texts), strict=True)) for kind in self._kinds}
        pieces = {kind: self._pieces(texts, kind) for kind in self._kinds}
        half = self.loaded.model.dtype in (torch.float16, torch.bfloat16)
        advice = f"try {parameter('dtype')} float32, or take another copy of it" if half else "take another copy of it"
        last = max(site.number for site in chosen)

        def hook(number: int, observed: ObservedCall) -> None:
            site, call = sites.get(number), observed.call
            if site is None:
                return
            queries, keys = sides[site.kind]
            if call.shape != (len(texts), site.n_heads, max(map(len, queries)), max(map(len, keys))):
                raise form_of_its_own(self.loaded, "try a shorter text")  # BigBird has blocks in long texts
            if self.grams is not None and site in chosen:
                weighted = weighted_of(observed)
                assert weighted is not None  # W_O was found with it
                call = replace(call, value_norms=value_norms(weighted.value, self.grams[number]))
            seen = SiteCall(
                site, call, heads_of(site, None), queries, keys, observed.output, sentence, pieces=pieces[site.kind]
            )
            of = f"{self.loaded.name}: layer {site.layer}, {site.kind}"
            show(on_attention if site in chosen else _ignore, seen, of, advice, heads)

        if run_hooked(self.loaded, self.texts.batch(texts), hook, last) is not None:  # the last one did not run
            raise form_of_its_own(self.loaded, "try a shorter text")

    def target(self, why: Why, text: Text) -> Target:
        """See ``Model.target``."""
        return explain.target_of(self.texts, why, text, self._kinds == ("masked",))

    def graded(self, text: Text, target: Target) -> GradedRun:
        """See ``Model.graded``."""
        self._require_one_process("gradients are computed")
        return explain.graded(self.texts, text, target)

    def score(self, text: Text, target: Target) -> Score:
        """See ``Model.score``."""
        return explain.score(self.texts, text, target, self._zero)

    @property
    def predictor(self) -> TransformersPredictor:
        """See ``CorpusModel.predictor``."""
        batches = partial(self._batches, batched=True)
        return TransformersPredictor(self.texts, self._kinds == ("masked",), batches, self._zero)

    def zeroing(self, heads: Collection[tuple[Site, int]]) -> "TransformersModel":
        """See ``CorpusModel.zeroing``."""
        return replace(self, zeroed=frozenset((site.number, head) for site, head in heads))

    def _pieces(self, texts: Sequence[Text], kind: Kind) -> tuple[Piece | None, ...]:
        """Return the piece of each text in an attention of this kind. All queries of a generated target count."""
        if not any(text.piece for text in texts):
            return ()
        of_source = kind == "self" or not self.loaded.has_encoder
        return tuple(
            text.piece if of_source or text.piece is None else Piece(0, len(text.sides(kind)[0]), 0, text.piece.count)
            for text in texts
        )

    def _zero(self, number: int, observed: ObservedCall) -> None:
        """Zero the output of the chosen heads of an attention that has just run."""
        heads = sorted(head for attention, head in self.zeroed if attention == number)
        if not heads:
            return
        if observed.zero is None:
            raise MhavizError(
                f"{self.loaded.name} ({self.loaded.type}) projects the output of its heads within a function of "
                f"PyTorch, or in several processes: heads cannot be zeroed"
            )
        observed.zero(heads)

    def trace(self, inputs: Inputs, values: bool = False, most_values: int = VALUES_UP_TO) -> ShapeTrace:
        """Return the steps of the one selected attention, named after the model's own modules.

        Queries and keys are shown after rotary positions. Scores and weights are computed for the trace, as the kernels
        that models run do not hold them.

        Raises:
            ArgumentError: several attentions are selected.
            MhavizError: the model shows its weights alone.
        """
        self.require_calls()
        self._require_one_process("the steps of an attention are traced")
        site = self.one_site(inputs)
        recorder = StepRecorder(self.loaded.model, most_values if values else 0)
        self._run_batch(inputs.texts, None, _ignore, None)  # raises an error for NaN or infinity
        trace_attention(self.loaded, site.number, site.kind, self.texts.batch(inputs.texts), recorder)
        tokens = tuple(text.sides(site.kind)[0].texts for text in inputs.texts)
        return ShapeTrace(self.describe(inputs), tuple(recorder.steps), tokens, layer=site.layer)

    def embed(self, text: str, target: str | None = None) -> EmbeddedText:
        """See ``Model.embed``."""
        return self.embed_given(Given((text,), target))

    def embed_given(self, given: Given) -> EmbeddedText:
        """See ``Model.embed_given``."""
        loaded, reader, target = self.loaded, self._speaking(given).texts, given.target
        several = reader.read(given, writes=False)
        if len(several) > 1:
            raise ArgumentError(f"expected one input, got {len(several)}; give one of them")
        (whole,) = several
        tokens = whole.target if whole.target is not None else whole.source
        require_comparable(len(tokens), "tokens")
        self._require_memory(Inputs((whole,)))
        fields = reader.batch([whole])
        if loaded.has_encoder:
            fields.setdefault("decoder_input_ids", reader.start)
        details: dict[str, object] = {}
        source = self._source(_segments(details, (whole,)), details)
        return first_input(loaded, fields, source, tokens, target is not None)

    def read_unnamed(self, texts: Sequence[str]) -> list[Tokens]:
        """See ``CorpusModel.read_unnamed``."""
        return self.texts.read_unnamed(texts)

    def token_text(self, number: int) -> str:
        """See ``CorpusModel.token_text``."""
        return name_tokens(self.loaded.tokenizer, [number]).texts[0]

    @property
    def pads_unseen(self) -> bool:
        """See ``CorpusModel.pads_unseen``."""
        return not self.texts.padding_is_seen

    @property
    def max_length(self) -> int | None:
        """Largest number of tokens that the model can read; None: no limit."""
        return self.texts.max_length

    @property
    def identity(self) -> ModelIdentity:
        """Name and fingerprint of the model; see ``fingerprint``."""
        loaded = self.loaded
        return ModelIdentity(loaded.name, fingerprint(loaded.model, loaded.tokenizer))

    def describe(self, inputs: Inputs | None = None) -> Source:
        """Return the model, its selected attentions, and remarks on its texts, as a source."""
        loaded, sites, chosen = self.loaded, self.all_sites, self.sites()
        texts = inputs.texts if inputs is not None else ()
        n_layers = len(_layers(sites, "self")) + len(_layers(sites, "masked"))
        sizes = ("n_layers", n_layers), ("n_heads", max(site.n_heads for site in chosen))
        details: dict[str, object] = {}
        remarks = []
        of = "positions" if any(text.source.ranges for text in texts) else "tokens"
        prompts = [text.prompt for text in texts if text.prompt]
        if prompts:
            details["prompt_lengths"] = prompts
            begins = f"{prompts[0]} on" if len(texts) == 1 else "the end of each prompt on"
            remarks.append(f"{of} from {begins} are written by the model")
        remarks += _segments(details, texts, of)
        if loaded.unshown:
            details["unshown"] = list(loaded.unshown)
            remarks.append(f"{_unshown_text(loaded.unshown)} not shown")
        if texts and any(site.kind == "cross" for site in chosen):
            remarks.append("source-target queries are named after the token that is being produced")
        return self._source(remarks, details, (_layers_text(sites, chosen), _heads_text(chosen)), sizes)

    def _source(
        self,
        remarks: Sequence[str],
        details: Mapping[str, object],
        parts: Sequence[str] = (),
        sizes: Sequence[tuple[str, int]] = (),
    ) -> Source:
        """Return the model as a source, with further remarks, details, and parts and sizes of the footnote."""
        loaded, kind = self.loaded, type(self.loaded.model).__name__
        name, dtype = loaded.name.rstrip("/").rsplit("/")[-1], str(loaded.model.dtype).removeprefix("torch.")
        own = {"kind": "checkpoint", "model": loaded.name, "class": kind, **dict(sizes), "dtype": dtype}
        footnote = ", ".join([f"{name}: {kind}", *parts, dtype, loaded.where])
        return Source(footnote, own | {"device": loaded.where, **details}, "; ".join([*loaded.remarks, *remarks]))

    @property
    def notices(self) -> list[str]:
        """Notices if the model shows its weights alone, and if it has attention that is not shown."""
        loaded, notices = self.loaded, []
        if loaded.by_hand:
            notices.append(
                f"{loaded.type} computes its weights by hand: they are recorded as it runs, a layer at a time, without "
                f"queries and keys"
            )
        if loaded.unshown:
            notices.append(
                f"{_unshown_text(loaded.unshown)} not shown: {loaded.type} gives it in a form of its own, and not as "
                f"weights of queries and keys"
            )
        return notices

    def require_calls(self) -> None:
        """Raise MhavizError if a selected attention shows its weights alone, before the model runs."""
        if self._show_weights_alone:
            raise MhavizError(
                f"{self.loaded.name} ({self.loaded.type}) gives only its weights, and no queries and "
                f"keys: only heatmap and heads can draw it"
            )

    def require_outputs(self) -> torch.dtype:
        """Return the type of the model's numbers. Raises MhavizError if it shows its weights alone."""
        if self._show_weights_alone:
            raise MhavizError(
                f"{self.loaded.type} gives only its weights, and no values: leave out {parameter('verify')}"
            )
        return self.loaded.model.dtype

    def with_norms(self) -> "TransformersModel":
        """See ``Model.with_norms``. W_O is found, and verified, by running the model on a few tokens."""
        self._require_one_process("W_O is found")
        grams = output_grams(self.loaded, self.sites(), few_tokens(self.loaded, *LENGTHS[1]))
        return replace(self, grams=grams)

    def _require_one_process(self, what: str) -> None:
        if self.loaded.processes > 1:
            raise MhavizError(f"{self.loaded.name}: {what} in one process; run it without torchrun")

    def writing(self, n_tokens: int) -> "TransformersModel":
        """See ``Model.writing``."""
        return replace(self, texts=replace(self.texts, generate=n_tokens))

    def speaking(self, source: str | None, target: str | None) -> "TransformersModel":
        """See ``Model.speaking``."""
        if source is None and target is None:
            return self
        return replace(self, texts=replace(self.texts, languages=Languages(source, target)))

    @property
    def language_codes(self) -> list[str | None]:
        """See ``CorpusModel.language_codes``."""
        return [self.texts.languages.source, self.texts.languages.target]

    def _speaking(self, given: Given) -> "TransformersModel":
        return self.speaking(given.source_language, given.target_language)

    @property
    def _show_weights_alone(self) -> bool:
        """Whether a selected attention shows its weights alone."""
        return any(site.number in self.loaded.by_hand for site in self.sites())

    @cached_property
    def _kinds(self) -> tuple[Kind, ...]:
        return tuple(dict.fromkeys(site.kind for site in self.all_sites))

    def _require_memory(self, inputs: Inputs) -> None:
        longest, config = inputs.longest, self.loaded.model.config
        width = field_of(config, "hidden_size") or 1024
        needed = 4 * longest * width * 24  # hidden states, projections, the hidden layer of the feed-forward network
        if self.loaded.by_hand:
            needed += 5 * 4 * longest**2 * self.n_heads  # scores, bias, weights and a copy, the last layer's weights
        elif field_of(config, "relative_attention_num_buckets") is not None:
            needed += 3 * 4 * longest**2 * self.n_heads  # the position bias, with the mask added
        elif not self.loaded.model._supports_sdpa or any(field_of(config, name) for name in _OF_WINDOWS):
            needed += 2 * longest**2  # the mask
        require_memory(needed, self.loaded.device, self.loaded.name)


def model_in_memory(model: object, tokenizer: PreTrainedTokenizerBase | None) -> TransformersModel:
    """Return a model of transformers that is already in memory as a ``Model``.

    The model itself does not change. Only while it runs, it is in eval mode and has an attention function that can be
    observed.

    Args:
        model: model of transformers, on its device; or a model of peft around it, whose adapters are modules of it.
        tokenizer: the tokenizer of the model.

    Raises:
        ArgumentError: ``model`` is no model of transformers, or ``tokenizer`` is none; a model of peft does more than
            run the model within it, as with prompts that are put before a text.
        MhavizError: the model has no attention that can be drawn.
    """
    within: object = model.get_base_model() if hasattr(model, "get_base_model") else model
    if not isinstance(within, PreTrainedModel):
        raise ArgumentError(f"expected a name, a path or a transformers model, got {type(model).__name__}")
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ArgumentError(f"expected the model's tokenizer too, got {type(tokenizer).__name__}")
    name = str(within.name_or_path) or type(within).__name__
    by_interface = bool(type(within)._can_set_attn_implementation())
    attention = (SDPA if within._supports_sdpa else EAGER) if by_interface else None
    loaded = Loaded(name, within, tokenizer, by_interface, attention)
    if model is not within:
        _require_adapters_within(loaded, model)
    return TransformersModel.of(loaded)


def _require_adapters_within(loaded: Loaded, model: Any) -> None:
    """Raise ArgumentError if a model of peft computes something else than the model within it, or may for some texts.

    Prompts that are put before a text are outside of it, and so is the choice of the tokens that an activated LoRA
    applies to, from the text.
    """
    fields = few_tokens(loaded, *LENGTHS[0])
    with torch.no_grad(), loaded.running():
        whole, within = (run(**fields)[0] for run in (model, loaded.model))
    configs = getattr(model, "peft_config", {}).values()
    is_activated = any(getattr(config, "alora_invocation_tokens", None) for config in configs)
    if is_activated or whole.shape != within.shape or not torch.allclose(whole, within, equal_nan=True):
        raise ArgumentError(
            f"expected adapters inside the model, such as LoRA, got {type(model).__name__} whose adapter works from "
            f"outside, as prompts do; observe it with mhaviz.record"
        )


def _segments(details: dict[str, object], texts: Sequence[Text], of: str = "tokens") -> list[str]:
    """Return remarks on the segments of texts, and add the segments to ``details``; nothing if there are none.

    ``of``: what the segments are of.
    """
    segments = [text.segments for text in texts]
    if not any(segments):
        return []
    details["segments"] = [[asdict(segment) for segment in one] for one in segments]
    return [segments_text(segments[0], of)]


def _ignore(seen: SiteCall) -> None:
    """Handler for attentions that are not selected."""


_NAMES: dict[Kind, str] = {"self": "the encoder's", "masked": "masked", "cross": "source-target"}


def _unshown_text(kinds: Sequence[Kind]) -> str:
    """Return these kinds in words: "the encoder's attention is", "masked and source-target attention are"."""
    names = [_NAMES[kind] for kind in kinds]
    return f"{' and '.join(names)} attention {'is' if len(names) == 1 else 'are'}"


def _layers(sites: Sequence[Site], kind: Kind) -> list[int]:
    return [site.layer for site in sites if site.kind == kind]


def _layers_text(sites: Sequence[Site], chosen: Sequence[Site]) -> str:
    """Return the layers in words: "6 layers", "3 + 3 layers" for an encoder with a decoder, "layer 5 of 0 to 5"."""
    kinds: tuple[Kind, ...] = ("self", "masked")
    if len(chosen) == 1:
        there = sorted({site.layer for site in sites if site.kind == chosen[0].kind})
        gapless = there == list(range(there[0], there[-1] + 1))
        listed = f"{there[0]} to {there[-1]}" if gapless else " and ".join(map(str, there))
        return f"layer {there[0]}" if len(there) == 1 else f"layer {chosen[0].layer} of {listed}"
    numbers = [len(_layers(sites, kind)) for kind in kinds]
    return " + ".join(str(number) for number in numbers if number) + f" layer{'s' * (sum(numbers) != 1)}"


def _heads_text(chosen: Sequence[Site]) -> str:
    """Return the heads in words: "12 heads each", "4 to 6 heads each"."""
    least, most = min(site.n_heads for site in chosen), max(site.n_heads for site in chosen)
    if least < most:
        return f"{least} to {most} heads each"
    return counted(most, "head") + " each" * (len(chosen) > 1)

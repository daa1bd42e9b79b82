"""``mhaviz.load``, and the loaded model with its methods: attend, explain, report and others."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from mhaviz.analyses import explanation, masking, matrices, scaling, verification
from mhaviz.analyses.head_statistics import HeadStudy
from mhaviz.analyses.pooled_maps import outline, pooled_maps
from mhaviz.analyses.rollout import rollout as rollout_of
from mhaviz.analyses.span_maps import span_maps, span_outline
from mhaviz.analyses.span_numbers import span_numbers, span_numbers_outline
from mhaviz.analyses.weights import MapSize, attention_weights, map_sizes, without_special
from mhaviz.api.ablation import ablation
from mhaviz.api.cache_budget import cache_budget
from mhaviz.api.checking import check
from mhaviz.api.examples import attentions_of, watched
from mhaviz.api.head_relevance import head_relevance
from mhaviz.api.image_attention import attend_images
from mhaviz.api.long_inputs import announce, announce_spans, page_size, planned
from mhaviz.api.pairs import Pairs, pairs_of
from mhaviz.api.relevance import AskedWhy, explained
from mhaviz.api.spans import MarkedTexts, spans_of
from mhaviz.attention.model import LABELS, CorpusModel, Inputs, Model, Predicts
from mhaviz.attention.pooled_map import OpenWindow, Pooling
from mhaviz.attention.targets import TOP, Why
from mhaviz.corpus.corpus import Corpus, Texts
from mhaviz.errors import ArgumentError, not_accepted, parameter
from mhaviz.inputs.given import Given, GivenOptions
from mhaviz.inputs.probes import Probe
from mhaviz.inputs.span_choice import By, SpanChoice
from mhaviz.inputs.spans import words
from mhaviz.inputs.tokens import Kind, Sentence, is_run
from mhaviz.models.load import OPTIONS, RANDOM, Notice, load_model, require_transformers
from mhaviz.models.single_layer import WORKED_EXAMPLE, RandomLayer, SingleLayer
from mhaviz.numbering import Numbers, require_numbers
from mhaviz.pages.registry import MAP_SUFFIXES
from mhaviz.results.ablation import Ablation
from mhaviz.results.attention import Attention
from mhaviz.results.axis import Axis
from mhaviz.results.cache_budget import POLICY_NAMES, CacheBudget
from mhaviz.results.check import Check
from mhaviz.results.embeddings import EmbeddedText
from mhaviz.results.explanation import Explanation
from mhaviz.results.head_pairs import HeadPairs
from mhaviz.results.head_relevance import HeadRelevance
from mhaviz.results.head_spans import HeadSpans
from mhaviz.results.head_statistics import HeadStatistics
from mhaviz.results.masking import Masking
from mhaviz.results.matrices import LayerMatrices
from mhaviz.results.means import require_averaged
from mhaviz.results.quantity import NORM, ROLLOUT, WEIGHT, ShownMaps, require_shown
from mhaviz.results.relevance import Removal
from mhaviz.results.report import Report
from mhaviz.results.scaling import ScalingComparison, ScalingSweep
from mhaviz.results.trace import ShapeTrace
from mhaviz.units import with_minus

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_EXAMPLE_SIZES = {"d_model": 8, "n_heads": 4}
"""Sizes of the layer with random weights that reads the worked example."""

_FEW_HEADS = 4
"""Most heads whose matrices are shown unless heads are chosen."""

_KEPT_BYTES = 2**26
"""Most bytes of queries and keys that are kept without being asked for."""

_ON_A_PAGE = 4096
"""Most tokens of a report: its page shows no more, and all weights of all heads are computed for it at once."""


def load(
    model: "str | Path | PreTrainedModel" = RANDOM,
    tokenizer: "PreTrainedTokenizerBase | None" = None,
    *,
    device: str = "auto",
    predicts: bool = False,
    on_notice: Notice = lambda notice: None,
    d_model: int | None = None,
    n_heads: int | None = None,
    seed: int | None = None,
    causal: bool | None = None,
    keep_case: bool | None = None,
    prefix: str | None = None,
    input: "str | Path | None" = None,
    input_name: str | None = None,
    revision: str | None = None,
    dtype: str | None = None,
    device_map: str | None = None,
    max_memory: "str | Mapping[str | int, int | str] | None" = None,
    tensor_parallel: bool | None = None,
) -> "LoadedModel":
    """Load a model to look at its attention.

    Args:
        model: "random" (a layer with random weights), "translation" (the bundled translator), a file saved by ``mhaviz
            train``, a file with the parameters of one attention (.safetensors, or from torch.save), a folder or hub id
            of a transformers checkpoint; or a transformers model in memory, given with its ``tokenizer``, also with
            adapters of peft inside.
        tokenizer: tokenizer of a model in memory.
        device: "auto", "cpu", "cuda", "cuda:1" or "mps"; a model in memory stays where it is.
        predicts: load the parts that predict and write tokens as well, if there are any. By default the model is
            reloaded with them when they are first used.
        on_notice: called with one line for each assumption that is made.
        d_model: for random weights: features of a token.
        n_heads: for random weights, and for a file of parameters, which does not store it: number of heads.
        seed, causal: for random weights and a file of parameters: seed of what is drawn; whether later keys are hidden.
        keep_case: for random weights and a file of parameters: keep the capitals of words, which are in lower case
            else. A file saved by ``mhaviz train`` says itself whether it has learnt capitals.
        prefix, input, input_name: for a file of parameters: which attention of the file, a file with X, and the name of
            X in that file.
        revision, dtype: for transformers; ``dtype`` is "auto", "float16", "bfloat16", "float32" or "float64".
        device_map: for transformers: "auto" spreads the model over all devices, main memory and the disk (accelerate).
        max_memory: for transformers: most bytes on each device, such as {"cpu": "2GiB", 0: "10GiB"}.
        tensor_parallel: for transformers: share the model among the processes that ``torchrun`` has started. All of
            them must make the same calls, and each gets the whole result.

    Raises:
        ArgumentError: an option does not apply to this kind of model, or a size is invalid.
        MhavizError: the model cannot be read, its kind is not clear, or the device does not exist.

    Examples:
        >>> model = mhaviz.load("random", d_model=64, n_heads=4)
        >>> model.attend("the cat sat on the mat")[0].weights.shape  # (n_heads, q_length, k_length)
        (4, 6, 6)
    """
    arguments = locals()
    options = {name: arguments[name] for name in OPTIONS if arguments[name] is not None}
    if not isinstance(model, str | Path):
        require_transformers("a model that is in memory")
        from mhaviz.models.transformers.model import model_in_memory

        if options:
            raise ArgumentError(f"these options are not for a model in memory; leave out {', '.join(options)}")
        return LoadedModel(lambda predicts: model_in_memory(model, tokenizer), predicts=True)
    if tokenizer is not None:
        raise ArgumentError(f"{parameter('tokenizer')} goes with a model in memory; a folder has its own")

    def make(predicts: Predicts) -> Model:
        return load_model(str(model), device, predicts, on_notice, **options)

    return LoadedModel(make, predicts, options)


class LoadedModel:
    """A model whose attention can be looked at, as ``mhaviz.load`` returns it.

    Args:
        make: loads the model; its argument says whether with the parts that predict tokens.
        predicts: whether to load these parts now.
        said: names of the options that the user has given.

    Examples:
        >>> model = mhaviz.load("translation")
        >>> model.attend("the small black cat", kind="cross")[0].queries
        ('le', 'petit', 'chat', 'noir', '<end>')
    """

    def __init__(
        self, make: Callable[[Predicts], Model], predicts: Predicts = False, said: Collection[str] = ()
    ) -> None:
        self._make, self._predicts, self._said = make, predicts, frozenset(said)
        self._whole = make(predicts)
        self._check: Callable[[Attention], object] = _accept

    def __repr__(self) -> str:
        if not self._whole.reads_text:
            return f"<mhaviz {type(self._whole).__name__}>"
        sites = self._whole.all_sites
        layers = len({(site.kind, site.layer) for site in sites})
        several = "s" if layers > 1 else ""
        return f"<mhaviz {type(self._whole).__name__}: {layers} attention{several} of up to {self.n_heads} heads>"

    @property
    def notices(self) -> list[str]:
        """Remarks on how the attention of this model is observed, one line each."""
        return self._whole.notices

    @property
    def n_heads(self) -> int:
        """Number of heads; the largest one where attentions differ."""
        return self._whole.n_heads

    @property
    def layers(self) -> tuple[int, ...]:
        """Numbers of the layers that have an attention."""
        return tuple(sorted({site.layer for site in self._whole.all_sites}))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of attention of the model, in the order in which they run."""
        return tuple(dict.fromkeys(site.kind for site in self._whole.all_sites))

    def attend(
        self,
        texts: str | Sequence[str] | Given = (),
        target: str | None = None,
        *,
        layer: Numbers = None,
        head: Numbers = None,
        kind: Kind | None = None,
        hide_special: bool = False,
        show: ShownMaps = "weights",
        verify: bool = False,
        pool: Literal["mass", "max"] | None = None,
        size: int | None = None,
        window: OpenWindow | None = None,
        query: int | str | None = None,
        mean: str | Sequence[str] | None = None,
        by: By | None = None,
        page: bool | None = None,
        why: Why | None = None,
        removal: Removal | None = None,
        on_notice: Notice | None = None,
        on_progress: Callable[[float, str], None] = lambda done, what: None,
        **given: Unpack[GivenOptions],
    ) -> Attention:
        """Compute the attention weights of the model for these texts, or which of their words made a prediction.

        Args:
            texts: one sentence or several; or a ``Given``, which holds everything that the model reads.
            target: a second sentence, for source-target attention: it gives the queries, and the one text the keys. For
                a translator, the translation that its decoder reads.
            layer, head: one number or several, counted from 0; None: all. Sinks are found over these, so that weights
                by span of one layer may have other sinks than ``Attention.select`` leaves it from maps of all layers.
            kind: "self", "masked" or "cross"; None: all kinds.
            hide_special: leave out the rows and columns of special tokens, such as [CLS]. Weights are not renormalised;
                ``to_special`` holds the part of each row that goes to these tokens.
            show: "weights"; "norms": ‖A_ij · v_j W_O‖, the length of the vector that each key adds to the output of a
                query (Kobayashi et al. 2020, arXiv 2004.10102); "uniform": each weight times the number of keys that
                its query sees; or "rollout": attention rollout up to each layer (Abnar and Zuidema 2020, arXiv
                2005.00928).
            verify: recompute the model's own outputs from the weights, and put the differences into the details of the
                result's source.
            pool, size, window: how maps of long inputs are pooled to cells: by "mass" or "max", to at most
                ``size`` cells a side, and of which part of the map, (q0, q1, k0, k1). None: maps of more than 512
                tokens, or of more than 256 MiB in all, are pooled by mass.
            query, mean: return ``Attention.of_query`` of this query, and ``Attention.mean`` over what is named,
                "heads" or several such as ("heads", "layers"). What of this cannot be done fails before the model runs.
            by: spans in place of tokens, as ``Attention.by`` joins them, for texts of any length: "word"; or
                "sentence", "line", "turn" or a list of named spans, whose weights have those of uniform attention
                beside them, for which the model runs twice. Not for "uniform", or with ``window`` or ``pool``
                "max"; ``size`` and ``hide_special`` for words alone.
            page: keep queries and keys, from which a page for the browser computes the weights of single tokens of long
                inputs; None: keep them if they take at most 64 MiB.
            why: with ``show`` "relevance", the prediction that is explained: a token, "label=NAME" of a classifier,
                "top", the model's own top prediction, or a function from the model's output to a scalar. With
                ``generate``, and for a translator, it is what is written, or a token of it. It is explained by the
                relevance of each word, attention × gradient (Chefer et al. 2021, arXiv 2103.15679), beside the fall of
                the prediction's logit when the word is removed; with ``layer`` or ``head``, by maps of weight ×
                gradient. With ``image``, for a classifier of images, it is explained by the patches, whose pixels are
                set to a mean colour where they are removed.
            removal: with ``why``, the words or patches that are removed: "top", the five with the largest relevance, or
                "all".
            on_notice: called with one line for what takes long, and for what verification has found.
            on_progress: called with the share of the work that is done, from 0 to 1, and the name of the next step.
            given: for transformers models: ``pair``, a second text after the one; ``chat``, messages, or ``ids``, token
                ids, in place of texts; ``source_language`` and ``target_language``; ``generate``, the number of tokens
                that a decoder writes after the text, which become part of the map; ``image``, one or several (a path,
                a PIL image, a uint8 array), which the image processor of the model's folder reads, beside one text or
                none: the attention is recorded as of ``mhaviz.record``, and ``Attention.over_image`` draws it.

        Returns:
            ``Attention``; with ``why``, unless layers or heads are chosen, ``Relevance``, or with ``image``
            ``ImageRelevance``.

        Raises:
            ArgumentError: the model has no such layer, head or kind, or cannot read such texts; there is no such query;
                two arguments contradict each other; or it is not known where words begin, as of ids, or in Chinese.
            MhavizError: the result does not fit into memory, or with ``page`` into a page; the model computes NaN or
                infinity; or verification finds that outputs differ.

        Examples:
            >>> attention = mhaviz.attend("random", "the cat sat on the mat", head=[0, 3])
            >>> attention[0].weights.shape  # (n_heads, q_length, k_length)
            (2, 6, 6)
            >>> attention.save("cat.svg")
        """
        require_shown(show)
        if show == "relevance" or why is not None or removal is not None:
            options = {"kind": kind, "pool": pool, "window": window, "query": query, "mean": mean, "by": by}
            unheeded = [name for name, value in options.items() if value is not None]
            unheeded += [*["verify"] * verify, *["hide_special"] * hide_special, *["page"] * bool(page)]
            asked_why = AskedWhy(show, why, removal, layer, head, size, unheeded)
            # An overload would repeat all parameters for this one.
            return explained(  # type: ignore[return-value]
                self, asked_why, Given.of(texts, target, given), on_notice, on_progress
            )
        over = None if mean is None else require_averaged(mean)
        choice = None if by is None else SpanChoice.of(by)
        asked = Pooling(size, pool, window)
        _require_spans_fit(choice, show, asked, hide_special)
        if hide_special and window is not None:
            raise ArgumentError(
                f"{parameter('window')} chooses queries and keys, and {parameter('hide_special')} does; leave out one"
            )
        whole = Given.of(texts, target, given)
        if whole.image is not None:
            unheeded = [
                name
                for name, value in (("window", window), ("verify", verify), ("hide_special", hide_special))
                if value
            ]
            unheeded += ["show"] * (show == "norms")
            if unheeded:
                raise ArgumentError(
                    f"{parameter(unheeded[0])} is for texts, and not for {parameter('image')}; leave it out"
                )
            seen = attend_images(
                self._whole,
                whole,
                kind,
                show == "rollout",
                size,
                on_notice,
                layer=layer,
                head=head,
                pool=pool,
                page=bool(page),
            )
            seen = seen.times_uniform() if show == "uniform" else seen
            seen = seen if by is None else seen.by(by)
            seen = seen if over is None else seen.mean(*over)
            return seen if query is None else seen.of_query(query)
        model = self.chosen(layer, kind, whole.generate)
        heads = _heads_of(model, head)
        if show == "rollout":
            long = {"pool": pool, "size": size, "window": window}
            unheeded = [name for name, value in long.items() if value is not None]
            unheeded += [*["head"] * (len(heads) < model.n_heads), *["verify"] * verify]
            if unheeded:
                raise ArgumentError(
                    f"a rollout goes through all heads; leave out {', '.join(map(parameter, unheeded))}"
                )
        inputs = model.read(whole)
        crops = hide_special and show not in ("uniform", "rollout")  # which are computed with special tokens

        def finished(attention: Attention) -> Attention:
            attention = attention.times_uniform() if show == "uniform" else attention
            attention = attention.by(by) if by is not None and show == "rollout" else attention
            if hide_special and not crops:
                attention = replace(attention, maps=tuple(map(without_special, attention.maps)))
            with not_accepted("by") if asked.reduce == "max" else nullcontext():
                attention = attention if over is None else attention.mean(*over)
                attention = attention if query is None else attention.of_query(query)
                self._check(attention)
            return attention

        if show == "rollout":
            finished(outline(model, inputs, None, quantity=ROLLOUT))
            return finished(rollout_of(model, inputs))
        model = model.with_norms() if show == "norms" else model
        n_heads = len(inputs.texts) * len(model.sites(inputs)) * len(heads)
        dtype = model.require_outputs() if verify else None
        sizes, quantity = map_sizes(model, inputs, heads), NORM if show == "norms" else WEIGHT
        if choice is not None and not choice.are_words:
            outlined = span_numbers_outline(model, inputs, choice)
            finished(outlined)
            announce_spans(sizes, [len(m.rows) * len(m.columns) for m in outlined.maps], model.device, on_notice)
            attention = span_numbers(model, inputs, choice, heads, on_progress)
            return finished(
                attention if dtype is None else _verified(attention, model, inputs, heads, dtype, on_notice)
            )
        drawn = sizes if choice is None else map_sizes(model, inputs, heads, lambda side: len(words(side)))
        longest = max(max(size.q_length, size.k_length) for size in drawn)
        in_cells = choice is not None or not hide_special or _is_in_one_run(model, inputs)
        pooling = planned(asked, longest, n_heads, model.device, in_cells)
        if page:
            page_size(drawn, pooling, not hide_special and choice is None).require_fit(MAP_SUFFIXES)
        if choice is not None:
            pooling = pooling or Pooling(longest)
            most = min(pooling.most)
            finished(span_outline(model, inputs, words, most, hide_special, quantity))
            announce(sizes, pooling, model.device, on_notice, quantity, (drawn, choice.kind))
            attention = span_maps(model, inputs, words, most, heads, hide_special, on_progress)
        else:
            keep = _takes_little(sizes) if page is None else page
            finished(outline(model, inputs, pooling, crops, quantity))
            if pooling is None:
                attention = attention_weights(model, inputs, heads, crops, keep)
            else:
                announce(sizes, pooling, model.device, on_notice, quantity)
                attention = pooled_maps(model, inputs, pooling, heads, hide_special, on_progress, keep)
        return finished(attention if dtype is None else _verified(attention, model, inputs, heads, dtype, on_notice))

    def explain(
        self,
        text: str | Sequence[str] | Given,
        token: str | int | None,
        target: str | None = None,
        *,
        head: int = 0,
        layer: int | None = None,
        kind: Kind | None = None,
        **given: Unpack[GivenOptions],
    ) -> Explanation:
        """Explain one query of one head step by step: its scores, weights and output.

        Args:
            text: a sentence; () where ``chat`` or ``ids`` takes its place.
            token: the query: a token of the sentence (of the target, if there is one), or its position, from 0.
            target, given: as in ``attend``.
            head, layer, kind: the head and its attention; None: the first layer, and the last of its kinds.

        Raises:
            ArgumentError, MhavizError: as ``attend``; there is no such token, or the model gives only its weights.

        Examples:
            >>> found = mhaviz.explain("translation", "the small black cat", "noir")
            >>> found.keys[found.weights.argmax()]
            'black'
        """
        model, inputs = self._one(Given.of(text, target, given), layer, kind)
        (one,) = _heads_of(model, [head])
        return explanation.explain(model, inputs, _position_of(token, model, inputs), one)

    def matrices(
        self,
        text: str | Sequence[str] | Given = (),
        target: str | None = None,
        *,
        token: str | int | None = None,
        head: Numbers = None,
        layer: int | None = None,
        kind: Kind | None = None,
        **given: Unpack[GivenOptions],
    ) -> LayerMatrices:
        """Compute the matrices of one layer from X to O: Q, K, V, then S, A, H of each head, and their concatenation.

        Args:
            text: a sentence of up to 512 tokens. Without one, a layer with random weights reads the first sentence of
                the worked example, by default with d_model 8 and 4 heads.
            token: the query that is marked as an example, as in ``explain``; None: the query with the largest weight.
            head: numbers of the heads to include, from 0; None: all if there are at most four, else the first.
            target, layer, kind, given: as in ``explain``.

        Raises:
            ArgumentError, MhavizError: as ``explain``; there are too many tokens.

        Examples:
            >>> found = mhaviz.matrices("random", "the cat sat", head=0)
            >>> found.heads[0].scores.shape  # (q_length, k_length)
            (3, 3)
        """
        loaded, whole = self._or_example(WORKED_EXAMPLE[:1], Given.of(text, target, given), **_EXAMPLE_SIZES)
        model, inputs = loaded._one(whole, layer, kind)
        position = None if token is None else _position_of(token, model, inputs)
        if head is None:
            n_heads = model.one_site(inputs).n_heads
            head = range(n_heads if n_heads <= _FEW_HEADS else 1)
        return matrices.layer_matrices(model, inputs, _heads_of(model, head), position)

    def masks(
        self,
        texts: str | Sequence[str] | Given = (),
        target: str | None = None,
        *,
        dropout: float | None = None,
        seed: int | None = None,
        head: Numbers = 0,
        layer: int | None = None,
        kind: Kind | None = None,
        **given: Unpack[GivenOptions],
    ) -> Masking:
        """Compute scores before and after the mask, the weights, and the weights after dropout.

        Args:
            texts: one sentence, or several, which are padded to the longest. Without one, a layer with random weights
                reads all sentences of the worked example, with the sizes of ``matrices``. A single layer without a
                target hides later keys unless ``load`` was told otherwise.
            dropout: probability that a weight is dropped, as in training; None: no dropout.
            seed: seed of dropout, which drops what ``torch.nn.Dropout`` drops after ``torch.manual_seed(seed)``; None:
                the seed of the random weights, or 0.
            head: one number or several, counted from 0; None: all heads.
            kind: kind of attention; None: "masked" if the model has it.
            target, layer, given: as in ``explain``.

        Raises:
            ArgumentError, MhavizError: as ``explain``; the probability is invalid, or there are too many tokens.

        Examples:
            >>> found = mhaviz.masks("random", ["the cat sat", "a dog"], head=0)
            >>> [sentence.weights.shape for sentence in found.sentences]  # (n_heads, q_length, k_length)
            [(1, 3, 3), (1, 3, 3)]
        """
        if kind is None and len(self.kinds) > 1 and "masked" in self.kinds:
            kind = "masked"
        loaded, whole = self._or_example(WORKED_EXAMPLE, Given.of(texts, target, given), **_EXAMPLE_SIZES)
        if whole.target is None and "input" not in loaded._said:
            loaded = loaded._usually(causal=True)
        model, inputs = loaded._one(whole, layer, kind)
        seed = loaded._whole.seed if seed is None else seed
        return masking.masking(model, inputs, _heads_of(model, head), dropout, seed)

    def embeddings(
        self, text: str | Sequence[str] | Given = (), target: str | None = None, **given: Unpack[GivenOptions]
    ) -> EmbeddedText:
        """Compute the input X of the first layer, and the embeddings and positions beside it.

        Args:
            text: a sentence.
            target: for a translator: show what its decoder reads of this sentence, instead of what its encoder reads of
                ``text``.
            given: as in ``attend``, without ``generate``.

        Raises:
            ArgumentError, MhavizError: as ``attend``; there are more than 4,096 tokens, or the model has no embeddings.

        Examples:
            >>> found = mhaviz.embeddings("random", "the cat sat on the mat")
            >>> [part.symbol for part in found.parts]
            ['E', 'PE', 'X']
        """
        whole = Given.of(text, target, given)
        if whole.generate:
            raise ArgumentError(f"embeddings are those of the given text; leave out {parameter('generate')}")
        return self._whole.embed_given(whole)

    def compare_scaling(
        self,
        text: str | Sequence[str] | Given = (),
        target: str | None = None,
        *,
        head: Numbers = 0,
        layer: int | None = None,
        kind: Kind | None = None,
        **given: Unpack[GivenOptions],
    ) -> ScalingComparison:
        """Compare scores and weights with and without the division by √d_key.

        Arguments as in ``explain``. Without a text, a layer with random weights reads the first sentence of the worked
        example.

        Examples:
            >>> found = mhaviz.compare_scaling("random", "I wonder what will come next!")
            >>> found.unscaled.scores.shape, found.unscaled.weights.shape  # each (n_heads, q_length, k_length)
            ((1, 6, 6), (1, 6, 6))
            >>> found.unscaled.statistics[0].score_std > found.scaled.statistics[0].score_std
            True
        """
        loaded, whole = self._or_example(WORKED_EXAMPLE[:1], Given.of(text, target, given))
        model, inputs = loaded._one(whole, layer, kind)
        return scaling.compare_scaling(model, inputs, _heads_of(model, head))

    def sweep_scaling(self, text: str | Sequence[str] | Given = ()) -> ScalingSweep:
        """Compare scores and weights with and without the division by √d_key, for d_key = 2, 4, 8, …, 1024.

        One head of random weights is computed for each d_key, on the CPU.

        Raises:
            ArgumentError: the model has weights or sizes of its own, or there are several sentences.
        """
        loaded, whole = self._or_example(WORKED_EXAMPLE[:1], Given.of(text))
        if not isinstance(loaded._whole, RandomLayer) or self._said - {"seed", "keep_case"} or whole.target is not None:
            raise ArgumentError(
                f"a sweep varies d_key with random weights, one head and no mask; leave out all but the sentence, "
                f"{parameter('seed')} and {parameter('keep_case')}"
            )
        inputs = loaded._whole.encode(whole.sentences)
        if len(inputs.texts) > 1:
            raise ArgumentError(f"a sweep reads one sentence, got {len(inputs.texts)}; give one of them")
        return scaling.sweep_scaling(inputs.texts[0].source.texts, loaded._whole.seed)

    def report(
        self,
        text: str | Sequence[str] | Given = (),
        target: str | None = None,
        *,
        head: int = 0,
        layer: int | None = None,
        kind: Kind | None = None,
        page: bool | None = None,
        **given: Unpack[GivenOptions],
    ) -> Report:
        """Collect weights, shapes and scaling of one attention for one page.

        Arguments as in ``explain``, and ``page`` as in ``attend``.

        Raises:
            ArgumentError: there are more than 4,096 tokens; and as ``explain``.
        """
        model, inputs = self._one(Given.of(text, target, given), layer, kind)
        if inputs.longest > _ON_A_PAGE:
            raise ArgumentError(
                f"report: expected at most {_ON_A_PAGE:,} tokens, got {inputs.longest:,}; draw longer texts by "
                f"mhaviz heatmap, or attend in Python"
            )
        comparison = scaling.compare_scaling(model, inputs, _heads_of(model, [head]))
        keep = _takes_little(map_sizes(model, inputs)) if page is None else page
        return Report(attention_weights(model, inputs, keep=keep), model.trace(inputs), comparison)

    def trace_shapes(
        self,
        texts: str | Sequence[str] | Given = (),
        target: str | None = None,
        *,
        values: bool = False,
        layer: int | None = None,
        kind: Kind | None = None,
        **given: Unpack[GivenOptions],
    ) -> ShapeTrace:
        """Trace the shape of every tensor of one attention, from X to O.

        Arguments as in ``explain``; ``values`` keeps the numbers of small tensors, too. Without a text, a layer with
        random weights reads all sentences of the worked example, with the sizes of ``matrices``. ``ShapeTrace.follow``
        follows one element of Q.

        Examples:
            >>> trace = mhaviz.trace_shapes("random", "the cat sat")
            >>> {step.name: step.shape for step in trace.steps}["S"]  # (batch_size, n_heads, q_length, k_length)
            (1, 8, 3, 3)
        """
        loaded, whole = self._or_example(WORKED_EXAMPLE, Given.of(texts, target, given), **_EXAMPLE_SIZES)
        model, inputs = loaded._one(whole, layer, kind)
        return model.trace(inputs, values)

    def trace_sizes(self, batch_size: int, seq_length: int) -> ShapeTrace:
        """Return the shapes of ``trace_shapes`` for these sizes. Nothing is computed.

        Raises:
            ArgumentError: the model is not a layer with random weights.
        """
        if not isinstance(self._whole, RandomLayer):
            raise ArgumentError(
                f"sizes without sentences need a layer with random weights; leave out {parameter('model')}"
            )
        return self._whole.trace_sizes(batch_size, seq_length)

    def head_statistics(
        self,
        texts: Texts = (),
        *,
        layer: Numbers = None,
        kind: Kind | None = None,
        examples: int = 0,
        source_language: str | None = None,
        target_language: str | None = None,
        probe: Probe | None = None,
        on_notice: Notice = lambda notice: None,
        on_progress: Callable[[float, int], None] = lambda done, sentences: None,
    ) -> HeadStatistics:
        """Compute where each head looks, averaged over texts, such as its weight on the previous token.

        From 30 texts on, each mean has a 95% interval, from a bootstrap over the texts.

        Args:
            texts: one sentence; an iterable of sentences, which need not fit into memory; or a ``Corpus``, which
                processes can share, and which is saved while it is read, to be resumed.
            layer, kind: as in ``attend``.
            examples: number of texts whose weights are kept for a page for the browser: the first ones of at most 512
                tokens, and fewer if the page would be too large.
            source_language, target_language: as in ``attend``.
            probe: ``RandomRepeats(n_tokens)`` in place of texts, to find induction heads; or ``Needle(text)``, which is
                inserted into each text, to find the heads that read it again.
            on_notice: called with one line for texts that were left out.
            on_progress: called with the share of the work that is done, from 0 to 1, and the number of texts so far.

        Raises:
            ArgumentError: the model has no such attention, or cannot read many texts.
            MhavizError: the model can read none of the texts; a saved part belongs to another computation, or a text
                has changed since.

        Examples:
            >>> found = mhaviz.head_statistics("minilm", ["The cat sat on the mat.", "A dog barks."])
            >>> found.kinds[0].previous.mean.shape  # (n_layers, n_heads)
            (6, 12)
        """
        model = self.corpus_model(layer, kind).speaking(source_language, target_language)
        corpus, needle, texts_apart = Corpus.of(texts).probed(model, probe)
        shown: list[Sentence] = []
        is_first = not corpus.is_shared or corpus.own_shard.number == 1
        corpus = replace(corpus, texts=watched(corpus.sentences, model, examples * is_first, shown))
        study = HeadStudy(probe, needle, texts_apart)
        found: HeadStatistics = corpus.read(study, [model], model.describe(), on_notice, on_progress)
        return replace(found, examples=next(iter(attentions_of([model], shown, on_notice)), None))

    def head_pairs(
        self,
        pairs: Pairs,
        *,
        layer: Numbers = None,
        kind: Kind | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        on_notice: Notice = lambda notice: None,
        on_progress: Callable[[float, int], None] = lambda done, pairs: None,
    ) -> HeadPairs:
        """Compute which heads link two words of a text, averaged over pairs, such as pronouns and antecedents.

        Args:
            pairs: (text, query, key) each, or a file of them. A word is given by its text; as "it #7" where the text
                has it more than once; or by the position of a token in it, 7 or "#7". A .tsv or .csv file has text,
                query and key in each line; any other file is JSON, of objects with these fields, one in each line or
                in a list.
            layer, kind: as in ``attend``. Only attention within a text is studied.
            source_language, target_language: as in ``attend``.
            on_notice: called with one line for pairs whose text is too long for the model, which are left out.
            on_progress: called with the share of the work that is done, from 0 to 1, and the number of pairs so far.

        Raises:
            ArgumentError: a text lacks a word, or has it several times; both words are one; masked attention hides the
                key; there is no pair; the model has no such attention, or cannot read many texts.
            MhavizError: the file cannot be read, or a line is no pair; the model can read none of the texts.

        Examples:
            >>> text = "The animal didn't cross the street because it was too tired."
            >>> found = mhaviz.head_pairs("minilm", [(text, "it", "animal"), ("A dog barks.", "barks", "dog")])
            >>> found.kinds[0].weight.mean.shape  # (n_layers, n_heads)
            (6, 12)
        """
        model = self.corpus_model(layer, kind).speaking(source_language, target_language)
        return pairs_of(model, pairs, on_notice, on_progress)

    def head_spans(
        self,
        texts: MarkedTexts,
        query: str | None = None,
        *,
        layer: Numbers = None,
        kind: Kind | None = None,
        on_notice: Notice = lambda notice: None,
        on_progress: Callable[[float, int], None] = lambda done, texts: None,
    ) -> HeadSpans:
        """Compute how much each head looks from one span of texts at the others, such as from the answers of chats at
        the system prompts, averaged over the texts.

        Args:
            texts: the messages of a chat each, whose roles are the spans; or a mapping with "text" and "spans", as
                ``attend`` takes them as ``by``. Or a file of these in JSON, one in each line or in a list.
            query: name of the span of the queries; None: the last span of the first text.
            layer, kind: as in ``attend``. Only attention within a text is studied.
            on_notice: called with one line for texts that are left out: too long for the model, or without the span.
            on_progress: called with the share of the work that is done, from 0 to 1, and the number of texts so far.

        Raises:
            ArgumentError: no text has the span; as ``attend`` with ``by``; the model has no such attention.
            MhavizError: the file cannot be read, or has no such texts.

        Examples:
            >>> texts = [{"text": "It rained. We left.", "spans": [{"name": "a", "text": "It rained."}]}] * 2
            >>> found = mhaviz.head_spans("minilm", texts)
            >>> found.kinds[0].spans["a"].mean.shape  # (n_layers, n_heads)
            (6, 12)
        """
        return spans_of(self.corpus_model(layer, kind), texts, query, on_notice, on_progress)

    def ablate(
        self,
        texts: Texts = (),
        *,
        layer: Numbers = None,
        head: Numbers = None,
        kind: Kind | None = None,
        probe: Probe | None = None,
        on_notice: Notice = lambda notice: None,
        on_progress: Callable[[float, int], None] = lambda done, sentences: None,
    ) -> Ablation:
        """Zero the output of one head at a time, and measure how much the model's output changes.

        The output is the distribution of the next token at each position, for models that write or translate; the
        distribution of masked tokens, for models that fill them in; and the mean of the last layer, for others. Each
        head takes one more forward pass.

        Args:
            texts: one sentence, or an iterable of sentences; or a ``Corpus`` without torchrun and part.
            layer, head, kind: the heads that are zeroed, one at a time; None: all.
            probe: as in ``head_statistics``; of ``RandomRepeats``, the repeat is scored from its second token on.
            on_notice: called with one line for texts that were left out.
            on_progress: called with the share of the work that is done, from 0 to 1, and the number of texts begun.

        Raises:
            ArgumentError: the model has no such head, or its heads cannot be zeroed.
            MhavizError: the model can read none of the texts, or computes NaN or infinity.

        Examples:
            >>> found = mhaviz.ablate("copier", probe=mhaviz.RandomRepeats(10, sequences=4))
            >>> found.kinds[0].change.mean.shape  # (n_layers, n_heads)
            (2, 2)
        """
        self.require_predicting()
        model = self.corpus_model(layer, kind)
        heads = None if head is None else _heads_of(model, head)
        return ablation(model, texts, heads, on_notice, on_progress, probe)

    def head_relevance(
        self,
        texts: Texts = (),
        why: Why = TOP,
        *,
        layer: Numbers = None,
        head: Numbers = None,
        kind: Kind | None = None,
        on_notice: Notice = lambda notice: None,
        on_progress: Callable[[float, int], None] = lambda done, sentences: None,
    ) -> HeadRelevance:
        """Compute on which heads predictions depend: an estimate from one gradient, beside what zeroing each head does.

        Args:
            texts: one text, or an iterable of texts.
            why: what is explained in each text; see ``attend``.
            layer, head, kind: the heads that are measured, one at a time; None: all. Each takes one more forward pass.
            on_notice, on_progress: as in ``ablate``.

        Raises:
            ArgumentError: the model has no such head or target, or its heads cannot be zeroed.
            MhavizError: the model can read none of the texts; as ``attend`` with ``why``.

        Examples:
            >>> found = mhaviz.load("copier").head_relevance(["w1 w2 w3 w1 w2", "w7 w4 w7"])
            >>> found.kinds[0].estimate.mean.shape  # (n_layers, n_heads)
            (2, 2)
        """
        self.require_predicting(labels=True)
        model = self.corpus_model(layer, kind)
        heads = None if head is None else _heads_of(model, head)
        return head_relevance(model, texts, why, heads, on_notice, on_progress)

    def budget(
        self,
        texts: str | Iterable[str],
        *,
        keep: int | Collection[int],
        policies: str | Collection[str] = POLICY_NAMES,
        layer: Numbers = None,
        on_notice: Notice = lambda notice: None,
        on_progress: Callable[[float, int], None] = lambda done, texts: None,
    ) -> CacheBudget:
        """Compute which share of the attention of each head a key-value cache keeps that holds fewer keys.

        Each policy says which k keys a query may see; the share of its unchanged weights on them is kept. Heads that
        share keys and values (grouped-query attention) share one set of k keys. Shares are means over queries, those
        after as many tokens as the largest budget, so that all budgets are measured on the same, and then over texts.
        They measure mass, and not the quality of what the model then writes. Of an encoder with a decoder, the cache is
        that of the decoder's own tokens, which it writes.

        Args:
            texts: one text, or several, each of which is read as one input; of a text that is longer than the model is
                built for, the first tokens.
            keep: numbers of keys k.
            policies: some of:

                - "rows": the k largest weights of each query, of the sum over the heads that share keys; no policy
                  keeps more of that sum.
                - "columns": for all queries the k keys with the largest sums of weights over the measured queries
                  that can see them: the best fixed set, chosen with hindsight.
                - "window": the first 4 keys and the last k − 4 (Xiao et al. 2023, arXiv 2309.17453, section 3.2).
                - "h2o": half recent keys, half heavy hitters, one key evicted for each that enters (Zhang et al. 2023,
                  arXiv 2306.14048, algorithm 1).
                - "snapkv": 3/4 · k keys of a prompt, by votes of its last queries, and k / 4 tokens after it (Li et al.
                  2024, arXiv 2404.14469, section 4). Each vote reads the whole prompt again, also keys that the last
                  one has left out, as a cache of k keys cannot.
            layer: as in ``attend``.
            on_notice: called with one line for a text of which only the first tokens are read.
            on_progress: called with the share of the work that is done, from 0 to 1, and the number of texts so far.

        Raises:
            ArgumentError: all queries of the model see later keys, so that it has no cache; a budget is below 1, or not
                below the number of tokens of a text; a policy is unknown; the model cannot read many texts.
            MhavizError: the model shows its weights alone, or computes NaN or infinity.

        Examples:
            >>> found = mhaviz.budget("copier", "w5 w12 w3 w8 w21 w5 w12 w3 w8 w21", keep=[2, 4])
            >>> found.share["h2o"].shape  # (n_budgets, n_layers, n_heads)
            (2, 2, 2)
        """
        if "masked" not in self.kinds and self._whole.reads_text:
            raise ArgumentError(
                "expected a model that keeps keys in a cache, as its queries see no later ones, got one whose queries "
                "see all; give a decoder, such as gpt2"
            )
        return cache_budget(self.corpus_model(layer, "masked"), texts, keep, policies, on_notice, on_progress)

    def check(
        self,
        *,
        ignore: Collection[str] = (),
        seed: int = 0,
        time_limit: float = 60.0,
        on_progress: Callable[[str], None] | None = None,
    ) -> Check:
        """Check all attention of a transformers model for mistakes, on random embeddings; see ``mhaviz.check``.

        Raises:
            ArgumentError: it is no transformers model; an unknown code.
            MhavizError: it reads no text, or takes longer than ``time_limit`` seconds.
        """
        model: Any = self._whole
        if not hasattr(model, "loaded"):
            raise ArgumentError("expected a transformers model, a folder or a hub id; mhaviz.check takes a layer")
        return check(model.loaded.model, ignore=ignore, seed=seed, time_limit=time_limit, on_progress=on_progress)

    def corpus_model(self, layer: Numbers = None, kind: Kind | None = None) -> CorpusModel:
        """Return the model for reading many texts, restricted to these attentions; None: all.

        Raises:
            ArgumentError: the model has no such attention, or cannot read many texts.
        """
        model = self.chosen(layer, kind)
        if not model.reads_text:
            model.encode(())  # which raises an error that says what it reads
        if not isinstance(model, CorpusModel):
            raise ArgumentError("expected a transformers model, to average over many sentences: a folder or a hub id")
        return model

    def require_predicting(self, labels: bool = False) -> None:
        """Reload the model with its head, unless it is loaded: the one that predicts tokens, or with ``labels`` that of
        a classifier, if its files have one."""
        whole = self._whole
        if not self._predicts or (whole.lacks_labels if labels else whole.is_classifier):
            self._predicts = LABELS if labels else True
            self._whole = self._make(self._predicts)

    def chosen(self, layer: Numbers = None, kind: Kind | None = None, generate: int = 0) -> Model:
        """Return the model restricted to these attentions, which writes ``generate`` tokens."""
        if generate and self._whole.can_write:
            self.require_predicting()
        whole = self._whole.writing(generate) if generate else self._whole
        if layer is None and kind is None:
            return whole
        layers = None if layer is None else require_numbers("layer", layer, self.layers, "the model has")
        return whole.select(layers, kind)

    def _usually(self, **options: Any) -> "LoadedModel":
        """Return a single layer with these options, except those that the user has given. Leave other models alone."""
        unsaid = {name: value for name, value in options.items() if name not in self._said}
        if not isinstance(self._whole, SingleLayer) or not unsaid:
            return self
        layer: Any = replace(self._whole, **unsaid)
        return LoadedModel(lambda predicts: layer, said=self._said)

    def _or_example(self, sentences: Sequence[str], given: Given, **sizes: int) -> "tuple[LoadedModel, Given]":
        """Return the model and what it reads. A layer with random weights that is given nothing reads ``sentences``."""
        if given != Given() or not isinstance(self._whole, RandomLayer):
            return self, given
        return self._usually(**sizes), Given(tuple(sentences))

    def _one(self, given: Given, layer: int | None, kind: Kind | None) -> tuple[Model, Inputs]:
        """Return the model restricted to one attention, and its inputs; None: the first layer, and the last kind."""
        if len(self._whole.all_sites) > 1:
            layer, kind = self.layers[0] if layer is None else layer, self.kinds[-1] if kind is None else kind
        model = self.chosen(layer, kind, given.generate)
        return model, model.read(given)


def checked(model: LoadedModel, check: Callable[[Attention], object]) -> LoadedModel:
    """Return the model with a check of what ``attend`` computes.

    ``check``: called with the maps before the model runs, without their weights, and again with them; what it raises
    ends the work.
    """
    model = copy(model)
    model._check = check
    return model


def _accept(attention: Attention) -> None:
    """Accept any maps."""


def _position_of(token: str | int | None, model: Model, inputs: Inputs) -> int:
    """Return the position of this query in the model's one attention."""
    kind = model.one_site(inputs).kind
    queries, keys = map(Axis, inputs.texts[0].sides(kind))
    return queries.position(token, "token", keys)


def _require_spans_fit(choice: SpanChoice | None, show: ShownMaps, asked: Pooling, hides_special: bool) -> None:
    """Raise ArgumentError if what is asked for has no meaning for spans of tokens, such as words."""
    if choice is None:
        return
    spans, what, reason = parameter("by"), choice.kind, ""
    if show == "uniform":
        reason = f"{parameter('show')} uniform: sums of ratios have no meaning"
    elif asked.window is not None:
        reason = f"{parameter('window')} chooses single tokens, and may cut a {what}"
    elif asked.reduce == "max":
        reason = f"{parameter('pool')} max: a {what} has the sum of its tokens' weights, not the largest"
    elif choice.are_words:
        return
    elif show != "weights":
        reason = f"{parameter('show')} {show}: uniform attention, beside which a {what} is shown, has weights alone"
    elif asked.size is not None or asked.reduce is not None:
        reason = f"{parameter('pool' if asked.size is None else 'size')} makes cells of tokens, in place of a {what}"
    elif hides_special:
        reason = f"{parameter('hide_special')}: special tokens are in no {what}, and stand apart"
    if reason:
        raise ArgumentError(f"{reason}; leave it out, or {spans}")


def _takes_little(sizes: Iterable[MapSize]) -> bool:
    """Return whether the queries and keys of these maps are few enough to be kept without being asked for."""
    return sum(size.bytes_of_codes for size in sizes) <= _KEPT_BYTES


def _is_in_one_run(model: Model, inputs: Inputs) -> bool:
    """Return whether the tokens of each text are contiguous. Special tokens inside, as in a pair, would share cells."""
    kinds = {site.kind for site in model.sites(inputs)}
    sides = (side.of_text for text in inputs.texts for kind in kinds for side in text.sides(kind))
    return all(not positions or is_run(positions) for positions in sides)


def _heads_of(model: Model, head: Numbers) -> tuple[int, ...]:
    """Return the numbers of these heads. Raises ArgumentError if the model lacks one."""
    return require_numbers("head", head, range(model.n_heads), "the layer has")


def _verified(
    attention: Attention,
    model: Model,
    inputs: Inputs,
    heads: Sequence[int],
    dtype: "torch.dtype",
    on_notice: Notice | None,
) -> Attention:
    """Verify the weights, and return the attention with the deviations of outputs in its source's details."""
    deviations = verification.verify(model, inputs, heads)
    worst = verification.require_verified(deviations, dtype)
    if on_notice is not None:
        on_notice(
            f"verified: the weights give the model's own outputs, which reach {worst.size:.2g}, to "
            f"{with_minus(f'{worst.difference:.1e}')} (largest in L{worst.layer} H{worst.head}, {worst.kind})"
        )
    details = dict(attention.source.details) | {"verified": [asdict(deviation) for deviation in deviations]}
    return replace(attention, source=replace(attention.source, details=details))

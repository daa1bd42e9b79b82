"""Loading of a checkpoint: its configuration, tokenizer and weights, without running code from its files."""

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTextEncoding,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.quantizers.auto import AutoHfQuantizer

from mhaviz.attention.model import LABELS, Predicts, Site
from mhaviz.errors import ArgumentError, MhavizError, as_one_line, parameter, quoted
from mhaviz.inputs.tokens import Kind
from mhaviz.models.transformers import sharing, sizes
from mhaviz.models.transformers.folder import find_folder, has_image_processor, read_fields, weight_files
from mhaviz.models.transformers.growth import require_sound_steps
from mhaviz.models.transformers.silence import quiet, silence
from mhaviz.models.transformers.spread import Spread, input_device, lies_on_disk, require_fit, where_it_lies
from mhaviz.observe import attention_functions

DTYPES = ("auto", "float32", "bfloat16", "float16", "float64")
"""Types of numbers that a model can be loaded with; auto: the type of the checkpoint."""

_FROM_FILES: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}  # without asking the user either

_ADDED_ON_TOP = ("pooler", "lm_head", "classifier", "score", "qa_outputs")
"""Names of parts that read the last layer's output. The attention does not depend on their weights."""

_CLASSIFIERS = (AutoModelForSequenceClassification, AutoModelForImageClassification)
"""Models that predict a label."""


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to run.

    Attributes:
        name: name of the model, as the user gave it.
        model: the model, on its device.
        tokenizer: its tokenizer; there is none of an ``ImageModel`` that reads images alone.
        by_interface: whether its attention calls transformers' ``AttentionInterface``, which shows queries, keys and
            values; if not, the functions of PyTorch that it calls are recorded.
        attention: the attention function to run with, for ``attn_implementation``; None: the model's own.
        remarks: remarks for the user on how the folder was read.
        sites: its attentions, in the order in which they run; see ``find_sites``.
        unshown: kinds of attention that the model has and that cannot be shown, as they are in another form.
        by_hand: numbers of attentions that compute their weights by hand, of which queries and keys are not known.
        processes: number of processes that share the model.
        shared: modules whose heads are split among the processes.
        is_top_random: whether its language modelling head is random, as the files hold no weights for it.
        folder: its folder; None: it was in memory.
    """

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    by_interface: bool
    attention: str | None = None
    remarks: tuple[str, ...] = ()
    sites: tuple[Site, ...] = ()
    unshown: tuple[Kind, ...] = ()
    by_hand: frozenset[int] = frozenset()
    processes: int = 1
    shared: frozenset[nn.Module] = frozenset()
    is_top_random: bool = False
    folder: Path | None = None

    @property
    def type(self) -> str:
        """Type of the model in transformers, such as "bert" or "albert"."""
        return str(self.model.config.model_type)

    @property
    def device(self) -> torch.device:
        """Device of the model; if it is spread over several, the device of its inputs."""
        return input_device(self.model)

    @property
    def where(self) -> str:
        """Devices of the model in words: "cpu", "cuda:0, cpu and disk", "cpu, 2 processes"."""
        return where_it_lies(self.model) + (f", {self.processes} processes" if self.processes > 1 else "")

    @property
    def reads_images_alone(self) -> bool:
        """Whether it has no tokenizer, as it reads images and no text."""
        return self.tokenizer is None

    @contextmanager
    def running(self, on_images: bool = False) -> Iterator[None]:
        """Context in which the model runs, in eval mode and with ``attention``; ``on_images``: not on text alone.

        All errors that transformers raises become one line, as the files may hold anything. Afterwards the model is as
        before, as it may be in use elsewhere. This includes BigBird's switch to full attention for a short text, which
        would stay for later texts.
        """
        reads_text = on_images or type(self.model).input_modalities in ("text", ("text",), ["text"])
        what, advice = f"{self.name} ({self.type}) cannot be run" + " on text alone" * (not reads_text), ""
        if lies_on_disk(self.model):  # accelerate loads a layer's own weights, but not those it reads from another
            advice = f"some models cannot run from the disk; give it more memory by {parameter('max_memory')}"
        if self.processes > 1:
            advice = "another process has ended, or their number does not divide its heads, those of keys too"
        parts: list[Any] = [part for part in self.model.modules() if hasattr(part, "set_attention_type")]
        types = [part.attention_type for part in parts]
        try:
            with quiet(), as_one_line(what, advice), _evaluating(self.model), _attending_by(self.model, self.attention):
                yield
        finally:
            for part, attention_type in zip(parts, types, strict=True):
                part.set_attention_type(attention_type)

    @property
    def lacks_labels(self) -> bool:
        """Whether its files are of a classifier, whose head was not loaded."""
        return labelling_class(self.model.config) not in (None, type(self.model))

    @property
    def is_classifier(self) -> bool:
        """Whether it predicts a label of a text or an image."""
        return any(type(self.model) in _classes(auto, self.model.config) for auto in _CLASSIFIERS)

    @property
    def has_encoder(self) -> bool:
        """Whether the model has both an encoder and a decoder."""
        return bool(self.model.config.is_encoder_decoder) and not is_encoder_alone(self.model)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Set a model to eval mode within the context, one thread at a time; afterwards restore the mode of each part."""
    with attention_functions.one_at_a_time:
        training = [part for part in model.modules() if part.training]
        for part in training:
            part.training = False
        try:
            yield
        finally:
            for part in training:
                part.training = True


@contextmanager
def _attending_by(model: PreTrainedModel, attention: str | None) -> Iterator[None]:
    """Set a model's attention function within the context, then restore that of each part; None: change nothing."""
    if attention is None:
        yield
        return
    before = [(config, config._attn_implementation) for config in _configs(model)]
    try:
        model.set_attn_implementation(attention)
        yield
    finally:
        for config, own in before:
            config._attn_implementation_internal = own  # the public attribute would also change those of its parts


def _configs(model: PreTrainedModel) -> list[PreTrainedConfig]:
    """Return the configurations of the model and of its parts, each once."""
    found: dict[int, PreTrainedConfig] = {}
    new = [part.config for part in model.modules() if isinstance(part, PreTrainedModel)]
    while new:
        config = new.pop()
        if id(config) not in found:
            found[id(config)] = config
            parts = (getattr(config, name, None) for name in config.sub_configs)
            new += [part for part in parts if part is not None]
    return list(found.values())


def load_checkpoint(
    name: str,
    device: torch.device,
    dtype: Literal["auto", "float32", "bfloat16", "float16", "float64"] = "auto",
    predicts: Predicts = False,
    folder: Path | None = None,
    spread: Spread | None = None,
    processes: int = 1,
    on_notice: Callable[[str], None] = lambda notice: None,
) -> Loaded:
    """Read and check all of a model but its weights, then load these. What libraries print is discarded.

    Args:
        name: folder or hub id of the model; see ``find_folder``.
        device: device to run on.
        dtype: type of its numbers; see ``DTYPES``. "auto" is float32 for a model that reads images alone.
        predicts: whether to load a head; see ``Predicts``.
        folder: folder of the model, if already found.
        spread: plan for several devices; None: all of the model is on ``device``.
        processes: number of processes that share the model. Each must call this function.
        on_notice: called with a line about the memory that a large model needs, before it is loaded.

    Raises:
        ArgumentError: an unknown dtype.
        MhavizError: the model does not exist, cannot be read, or does not fit into memory.
    """
    if dtype not in DTYPES:
        raise ArgumentError(f"{parameter('dtype')}: expected {', '.join(DTYPES)}, got {dtype!r:.40}")
    folder = folder or find_folder(name)
    fields = read_fields(folder, name)
    with silence(1, 2), as_one_line(f"{name} cannot be loaded"):  # broken files can raise any exception
        there = sizes.read_sizes(weight_files(folder))
        sizes.require_fields(fields, there, name)
        config: PreTrainedConfig = AutoConfig.from_pretrained(folder, **_FROM_FILES)
        config.return_dict = True  # transformers' own modules read it
        usual = usual_class(config, name)
        tokenizer = None if _reads_images_alone(usual, folder) else _tokenizer(folder, name)
        if tokenizer is None and dtype == "auto":
            dtype = "float32"
        labelling = labelling_class(config) if predicts == LABELS else None
        kind = labelling or (predicting_class(config) if predicts else None) or usual
        attention: str | None = attention_functions.SDPA if kind._supports_sdpa else attention_functions.EAGER
        if tokenizer is None:  # of a backbone of another kind, such as a ResNet's, which may support neither
            attention = None
        there = replace(there, is_packed=_is_quantised(config, name))
        needed = there.bytes_of(sizes.require_model(kind, config, attention, there, name), config.dtype, dtype)
    require_fit(name, needed // processes, device, spread, on_notice)
    with silence(1, 2), as_one_line(f"{name} cannot be loaded"):
        options = {"config": config, "dtype": dtype, "attn_implementation": attention, **_FROM_FILES}
        model, missing = _model(kind, folder, name, options, spread, processes)
        if kind is not usual and any(not key.startswith(f"{model.base_model_prefix}.") for key in missing):
            model, missing = _model(usual, folder, name, options, spread, processes)
        _require_weights(model, missing, name)
        if spread is None and processes == 1:
            nn.Module.to(model, device)
        return Loaded(
            name,
            nn.Module.eval(model),
            tokenizer,  # type: ignore[arg-type]  # see ``Loaded``
            bool(type(model)._can_set_attn_implementation()),
            remarks=tuple(_ignored_code(model, tokenizer)),
            processes=processes,
            shared=sharing.shared_attentions(model) if processes > 1 else frozenset(),
            is_top_random=any("lm_head" in key.split(".") for key in missing),
            folder=folder,
        )


def _reads_images_alone(kind: type[PreTrainedModel], folder: Path) -> bool:
    """Return whether a model reads images and no text, or its folder has an image processor and no tokenizer."""
    has_tokenizer = any(folder.glob("*tokenizer*")) or any(folder.glob("vocab.*"))
    return kind.main_input_name == "pixel_values" or (has_image_processor(folder) and not has_tokenizer)


def text_config(config: PreTrainedConfig, decoder: bool | None = None) -> PreTrainedConfig:
    """Return the configuration of the part that reads text; the whole one if the field of that name is none.

    ``decoder``: whether to look only for that of a decoder.
    """
    part: object = config.get_text_config(decoder)
    return part if isinstance(part, PreTrainedConfig) else config


def _is_quantised(config: PreTrainedConfig, name: str) -> bool:
    """Return whether the weights are quantised. Raises MhavizError for a method that transformers would ignore."""
    parts = (config, text_config(config, decoder=True))  # either may hold it, as in transformers
    asked = next(filter(None, (getattr(part, "quantization_config", None) for part in parts)), None)
    if asked is not None and not AutoHfQuantizer.supports_quant_method(asked):  # type: ignore[no-untyped-call]
        raise MhavizError(f"{name}: transformers knows no weights quantised by {quoted(asked.get('quant_method'))}")
    return asked is not None


def _tokenizer(folder: Path, name: str) -> PreTrainedTokenizerBase:
    advice = "expected tokenizer.json, or the files of its kind, beside its config.json"
    with as_one_line(f"{name} has no tokenizer that can be read", advice):
        require_sound_steps(folder)
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, **_FROM_FILES)
        if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
            raise ValueError("it has only special tokens")
    return tokenizer


def _ignored_code(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None) -> list[str]:
    """Return remarks on a folder's own code for its model and its tokenizer, which is not run."""
    remarks = []
    if any(name.startswith(("AutoConfig", "AutoModel")) for name in getattr(model.config, "auto_map", None) or ()):
        kind = type(model).__name__
        remarks.append(f"the folder's own code for its model is not run: what is shown is transformers' {kind}")
    if tokenizer is not None and tokenizer.init_kwargs.get("auto_map"):
        kind = type(tokenizer).__name__
        remarks.append(f"the folder's own code for its tokenizer is not run: transformers' {kind} reads")
    return remarks


def _model(
    kind: type[PreTrainedModel],
    folder: Path,
    name: str,
    options: Mapping[str, Any],
    spread: Spread | None,
    processes: int,
) -> tuple[PreTrainedModel, list[str]]:
    """Return the model, and the names of parameters that its files lack."""
    model: PreTrainedModel
    loading: dict[str, Any]
    with ExitStack() as temporary:
        apart = spread.options(temporary) if spread else {}
        if processes > 1:
            apart |= sharing.options()
        model, loading = kind.from_pretrained(  # type: ignore[misc]
            folder,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # the error below names them, with their shapes
            output_loading_info=True,
            **options,
            **apart,
        )
        if others := sorted(loading["mismatched_keys"]):
            raise sizes.mismatch(others, name)
        weakref.finalize(model, temporary.pop_all().close)
    return model, sorted(loading["missing_keys"])


def _require_weights(model: PreTrainedModel, missing: list[str], name: str) -> None:
    """Raise MhavizError if parameters that the attention depends on are missing, and would be random."""
    if lacking := [key for key in missing if not set(key.split(".")) & set(_ADDED_ON_TOP)]:
        raise MhavizError(
            f"{name}: expected weights for all {len(model.state_dict())} parameters of {type(model).__name__}, got "
            f"none for {len(lacking)} of them, such as {lacking[0]}; they would be random"
        )


def usual_class(config: PreTrainedConfig, name: str) -> type[PreTrainedModel]:
    """Return the class of the model without a head.

    With its head for an encoder with a decoder, and for a classifier of images whose type of model reads texts as
    well: its files have no weights for them.

    Raises:
        MhavizError: transformers has no such class.
    """
    found = _classes(AutoModelForSeq2SeqLM, config) if config.is_encoder_decoder else ()
    found = found or _classes(AutoModel, config)
    if not found:
        raise MhavizError(f"{name}: transformers has no model of the type {config.model_type}")
    labelling = labelling_class(config)
    if labelling is not None and labelling.main_input_name != found[0].main_input_name:
        return labelling
    encoders = _classes(AutoModelForTextEncoding, config)  # such as T5EncoderModel
    named = config.architectures or ()
    return next((kind for kind in (*encoders, *found) if kind.__name__ in named), found[0])


def labelling_class(config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    """Return the class of a classifier that the configuration names; None: it names none, or one with a decoder, which
    would read a target."""
    named, every = config.architectures or (), (kind for auto in _CLASSIFIERS for kind in _classes(auto, config))
    return None if config.is_encoder_decoder else next((kind for kind in every if kind.__name__ in named), None)


def predicting_class(config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    """Return the class of the model with a head that predicts tokens, if possible the one its configuration names.

    None: there is no such class, or the model is an encoder with a decoder, whose ``usual_class`` has the head.
    """
    if config.is_encoder_decoder:
        return None
    named = set(config.architectures or ())
    masked, causal, bare = (_classes(auto, config) for auto in (AutoModelForMaskedLM, AutoModelForCausalLM, AutoModel))
    for kind in (*masked, *causal):
        if kind.__name__ in named:
            return kind
    if masked:  # models such as BERT, many of which have no head
        return None if named & {kind.__name__ for kind in bare} else masked[0]
    return causal[0] if causal else None


def is_encoder_alone(model: PreTrainedModel) -> bool:
    """Return whether this is only the encoder of a type of model that has a decoder too."""
    return type(model) in _classes(AutoModelForTextEncoding, model.config)


def _classes(auto: Any, config: PreTrainedConfig) -> tuple[type[PreTrainedModel], ...]:
    """Return the classes that one of transformers' auto classes has for this configuration."""
    kinds: Any = auto._model_mapping.get(type(config), ())
    return kinds if isinstance(kinds, tuple) else (kinds,)

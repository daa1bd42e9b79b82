"""Which layer is looked at: one with random weights, or one of a model or a file."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

import typer

from mhaviz.cli import options
from mhaviz.cli.delivery import Delivery
from mhaviz.cli.saved_weights import choose_saved_layer, require_weights
from mhaviz.errors import ArgumentError, MhavizError

if TYPE_CHECKING:
    from mhaviz.attention.model import Model
    from mhaviz.models.pretrained.model import PretrainedModel

_OF_PRETRAINED = ("revision", "dtype", "layer", "hide_special", "generate", "verify", "rollout")
_OF_ALL_LAYERS = ("heatmap", "heads")


def choose_layer(
    context: typer.Context, delivery: Delivery, d_model: int | None = None, n_heads: int | None = None
) -> "Model":
    """The layer that the command's options ask for.

    Args:
        context: of the command.
        delivery: tells what has been assumed.
        d_model, n_heads: in place of those that the layer has by default.

    Raises:
        ArgumentError: sizes that cannot be, options that a model has settled or that go with another.
        MhavizError: a checkpoint or weights that cannot be read, a device that is not there.
    """
    asked = context.params
    several = options.given(context, ("model", "weights", "checkpoint"))
    if len(several) > 1:
        raise ArgumentError(f"{' and '.join(several)} are models of their own; keep one of them")
    if asked["weights"] is None:
        require_weights(context)
    if asked["model"] is not None:
        return choose_pretrained(context, delivery)
    unheeded = options.given(context, [name for name in _OF_PRETRAINED if name in asked])
    if unheeded:
        raise ArgumentError(f"{', '.join(unheeded)} goes with a model of transformers; add --model")
    if asked["weights"] is not None:
        return choose_saved_layer(context, delivery)
    if asked["checkpoint"] is None:
        if asked["kind"] is not None:
            raise ArgumentError("--kind chooses among the attentions of a trained model; add --checkpoint or --model")
        from mhaviz.models.random_layer import RandomLayer

        is_causal = asked["mask"] is options.Mask.causal
        sizes = d_model or asked["d_model"], n_heads or asked["heads"]
        return RandomLayer(*sizes, asked["seed"], asked["device"], is_causal)

    _refuse_settled(context, "--checkpoint")
    from mhaviz.models.trained_model import TrainedModel
    from mhaviz.training.loading import load_checkpoint

    kind = asked["kind"].value if asked["kind"] else None
    model = TrainedModel(load_checkpoint(asked["checkpoint"]), asked["device"], kind)
    looks_into_one = context.command.name not in _OF_ALL_LAYERS
    return model.select(kind=model.sites()[-1].kind) if looks_into_one else model


def choose_pretrained(context: typer.Context, delivery: Delivery) -> "PretrainedModel":
    """The checkpoint of transformers that ``--model`` names.

    Where the command looks into one attention, that is in the first layer, and of an encoder–decoder the last kind.

    Raises:
        ArgumentError: options that the model has settled, layers or a kind that it does not have.
        MhavizError: transformers is not installed, or the model cannot be read.
    """
    asked = context.params
    _refuse_settled(context, "--model")
    if find_spec("transformers") is None:
        raise MhavizError('--model needs transformers; install it with pip install "mhaviz[hf]"')
    from mhaviz.models.pretrained.folder import find_folder

    folder = find_folder(asked["model"], asked["revision"])  # before all that takes seconds to load
    from mhaviz.devices import resolve_device

    device = resolve_device(asked["device"])
    generate = asked.get("generate", 0)
    from mhaviz.models.pretrained.loading import load_pretrained
    from mhaviz.models.pretrained.model import PretrainedModel
    from mhaviz.models.pretrained.silence import silence
    from mhaviz.models.pretrained.sites import find_sites

    with silence(1, 2):
        loaded = load_pretrained(
            asked["model"], device, asked["revision"], asked["dtype"], writes=generate > 0, folder=folder
        )
    delivery.tell(loaded.remarks)
    loaded, sites = find_sites(loaded)
    there = sorted({site.layer for site in sites})
    kinds = list(dict.fromkeys(site.kind for site in sites))
    looks_into_one = context.command.name not in _OF_ALL_LAYERS
    layer = asked["layer"] if asked["layer"] is not None else str(there[0]) if looks_into_one else "all"
    kind = asked["kind"].value if asked["kind"] else kinds[-1] if looks_into_one else None
    layers = options.parse_layers(layer, there)
    return PretrainedModel(loaded, sites, layers, kind, generate)


def choose_corpus_source(context: typer.Context, delivery: Delivery) -> "PretrainedModel":
    """The model that is to read many sentences. Raises as ``choose_pretrained`` does, and ArgumentError for none."""
    if context.params["model"] is None:
        raise ArgumentError("heads needs a model; add --model, with a folder or a hub id")
    return choose_pretrained(context, delivery)


def pretrained_notices(layer: "Model") -> list[str]:
    """What the user should know of how a model is looked at."""
    loaded = getattr(layer, "loaded", None)
    notices = []
    if loaded is not None and not loaded.captured:
        notices.append(
            f"{loaded.type} does not show what its attention computes with: it runs eagerly, and the weights of all "
            f"its layers are in memory at once"
        )
    if loaded is not None and loaded.unshown:
        from mhaviz.models.pretrained.description import unshown_text

        notices.append(
            f"{unshown_text(loaded.unshown)} not shown: {loaded.type} gives it in a form of its own, and not as "
            f"weights of queries and keys"
        )
    return notices


def _refuse_settled(context: typer.Context, option: str) -> None:
    settled = options.given(context, [name for name in ("d_model", "heads", "seed", "mask") if name in context.params])
    if settled:
        raise ArgumentError(f"{option} brings its own sizes, weights and masks; leave out {', '.join(settled)}")

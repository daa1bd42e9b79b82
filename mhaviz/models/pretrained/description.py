"""What stands under a picture of a checkpoint, for people and for scripts."""

from collections.abc import Sequence

from mhaviz.models.pretrained.loading import Loaded
from mhaviz.records import Kind, Site, Source, Text


def describe(
    loaded: Loaded, sites: Sequence[Site], chosen: Sequence[Site], texts: Sequence[Text], hide_special: bool
) -> Source:
    """The model, its attentions, and what has been done to its texts.

    Args:
        loaded: the model.
        sites, chosen: all of its attentions, and those that are looked at.
        texts: what it reads.
        hide_special: whether tokens that are not of the text are left out.
    """
    dtype = str(loaded.model.dtype).removeprefix("torch.")
    name = loaded.name.rstrip("/").rsplit("/")[-1]
    parts = [f"{name}: {type(loaded.model).__name__}", _layers_text(sites, chosen), _heads_text(chosen)]
    details: dict[str, object] = {
        "kind": "checkpoint",
        "model": loaded.name,
        "class": type(loaded.model).__name__,
        "n_layers": len(_layers(sites, "self")) + len(_layers(sites, "masked")),
        "n_heads": max(site.n_heads for site in chosen),
        "dtype": dtype,
        "device": str(loaded.device),
    }
    remarks = list(loaded.remarks)
    if hide_special:
        remarks.append("special tokens left out, weights are shares of the other keys")
        details["hidden"] = "special tokens"
    prompts = [text.prompt for text in texts if text.prompt]
    if prompts:
        details["prompt_lengths"] = prompts
        begins = f"{prompts[0]} on" if len(texts) == 1 else "the end of each prompt on"
        remarks.append(f"tokens from {begins} are written by the model")
    if loaded.unshown:
        details["unshown"] = list(loaded.unshown)
        remarks.append(f"{unshown_text(loaded.unshown)} not shown")
    if any(site.kind == "cross" for site in chosen):
        remarks.append("source-target rows are named after the token that is being produced")
    return Source(", ".join([*parts, dtype, str(loaded.device)]), details, "; ".join(remarks))


def unshown_text(kinds: Sequence[Kind]) -> str:
    """ "the encoder's attention is", "masked and source-target attention are"."""
    names = [_NAMES[kind] for kind in kinds]
    return f"{' and '.join(names)} attention {'is' if len(names) == 1 else 'are'}"


_NAMES: dict[Kind, str] = {"self": "the encoder's", "masked": "masked", "cross": "source-target"}


def _layers(sites: Sequence[Site], kind: Kind) -> list[int]:
    return [site.layer for site in sites if site.kind == kind]


def _layers_text(sites: Sequence[Site], chosen: Sequence[Site]) -> str:
    """ "6 layers", "3 + 3 layers" of an encoder and a decoder, "layer 5 of 0 to 5", "layer 3 of 1 and 3"."""
    kinds: tuple[Kind, ...] = ("self", "masked")
    if len(chosen) == 1:
        there = sorted({site.layer for site in sites if site.kind == chosen[0].kind})
        gapless = there == list(range(there[0], there[-1] + 1))
        listed = f"{there[0]} to {there[-1]}" if gapless else " and ".join(map(str, there))
        return f"layer {there[0]}" if len(there) == 1 else f"layer {chosen[0].layer} of {listed}"
    numbers = [len(_layers(sites, kind)) for kind in kinds]
    return " + ".join(str(number) for number in numbers if number) + f" layer{'s' * (sum(numbers) != 1)}"


def _heads_text(chosen: Sequence[Site]) -> str:
    """ "12 heads each", "4 to 6 heads each"."""
    least, most = min(site.n_heads for site in chosen), max(site.n_heads for site in chosen)
    if least < most:
        return f"{least} to {most} heads each"
    return f"{most} head{'s' * (most != 1)}" + " each" * (len(chosen) > 1)

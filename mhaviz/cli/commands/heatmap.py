"""mhaviz heatmap"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mhaviz.cli.shared.appearance import MapOptions, PoolOptions, long_option, style_of
from mhaviz.cli.shared.change_limit import span_notices
from mhaviz.cli.shared.console import option_name, progress
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.cli.shared.images import deliver_over, parse_grid, require_images, require_one_side
from mhaviz.cli.shared.models import (
    AnyModelOptions,
    By,
    Generate,
    Heads,
    Kind,
    Layers,
    Mean,
    WhyOption,
    model_option,
    read_by,
)
from mhaviz.cli.shared.parsing import parse_window, parsed
from mhaviz.cli.shared.queries import As, Form, deliver_form, maps_of, require_form, require_looks, require_query
from mhaviz.cli.shared.texts import Instead, Several, Target, given_to, instead_option, lines_notice, quotes_notice
from mhaviz.errors import ArgumentError, quoted
from mhaviz.inputs.given import Given
from mhaviz.pages.registry import ABLATION_SUFFIXES, HEAD_SUFFIXES, MAP_SUFFIXES, PAGE_SUFFIXES

if TYPE_CHECKING:
    from mhaviz.results.attention import Attention
    from mhaviz.results.difference import Difference


@dataclass(frozen=True, eq=False, repr=False)
class LongOptions(PoolOptions):
    """Options for long inputs, whole or in part."""

    whole: Annotated[bool, long_option("--whole", help="Read all of --file, or of -, as one input.")] = False
    window: Annotated[
        Any,
        long_option(
            metavar="Q0:Q1,K0:K1",
            parser=parsed(parse_window, "queries and keys such as 0:512,1000:1512 or 0:512,:"),
            help="Show only these queries and keys.",
        ),
    ] = None


def heatmap(
    *,
    model: AnyModelOptions,
    long: LongOptions,
    delivery: Delivery,
    looks: MapOptions,
    texts: Several,
    target: Target = None,
    instead: Instead,
    show: Annotated[
        Literal["weights", "norms", "uniform", "rollout"],
        model_option(
            metavar="NUMBERS",
            show_default=False,
            help="weights (default), norms, uniform, rollout.",
        ),
    ] = "weights",
    why: WhyOption = None,
    removal: Annotated[
        Literal["top", "all"] | None,
        instead_option(
            metavar="top|all",
            help="With --why: remove the five words or patches with most relevance, the default, or each, to see what "
            "changes.",
        ),
    ] = None,
    layer: Layers = None,
    head: Heads = None,
    kind: Kind = None,
    query: Annotated[
        str | None, typer.Option(metavar="WORD", help="What a word, or the token at a position, #10, looks at.")
    ] = None,
    form: As = None,
    image: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Draw attention over this image. Repeatable."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="WORD", help="With --image: how much its patches look at this word.")
    ] = None,
    grid: Annotated[
        Any,
        instead_option(
            metavar="14x14[@1]",
            parser=parse_grid,
            help="With --image: rows and columns of its patches, and the position of the first, if it is not known.",
        ),
    ] = None,
    mean: Mean = None,
    by: By = None,
    without: Annotated[
        str | None,
        instead_option(metavar="ROLE", help="What changes without this role's messages of --chat; with --by."),
    ] = None,
    generate: Generate = 0,
    hide_special: Annotated[
        bool, model_option("--hide-special", help="Crop tokens such as [CLS]; weights stay as they are.")
    ] = False,
    verify: Annotated[
        bool, model_option("--verify", help="Recompute the outputs; exit with 1 if they differ.")
    ] = False,
) -> None:
    """Draw the attention weights of every head.

    \b
    mhaviz heatmap "I wonder what will come next!" -o heatmap.png
    mhaviz heatmap --model translation "the small black cat sees my car"
    mhaviz heatmap --model path/to/classifier "A dull film." --why label=NEGATIVE -o why.png
    mhaviz heatmap --model path/to/vit --image photo.png -o over.png

    Rows are queries, columns are keys. Maps of more than --size tokens are pooled exactly. A repeated token has its
    position beside it: the₂. --show norms: weight × ‖v W_O‖; uniform: weight × keys seen; rollout: up to each layer.

    Output: a {MAP_SUFFIXES} file.
    """
    explains = why is not None
    if removal is not None and not explains:
        raise ArgumentError("--removal says which words are removed to explain a prediction; add --why")
    if explains and show != "weights":
        raise ArgumentError("--why shows relevance; leave out --show")
    if explains and (unheeded := [name for name, value in (("key", key), ("grid", grid)) if value is not None]):
        raise ArgumentError(f"--why explains a prediction by all of the model's attention; leave out --{unheeded[0]}")
    if explains and form is not None:
        raise ArgumentError("--why has a form of its own; leave out --as")
    has_words = explains and layer is None and head is None
    if has_words:
        require_looks(style_of(looks, delivery), "answer", advises=False)
    suffixes: tuple[str, ...] = HEAD_SUFFIXES if has_words else MAP_SUFFIXES if without is None else PAGE_SUFFIXES
    if has_words and image:
        suffixes = ABLATION_SUFFIXES
    images = image or []
    given = given_to(
        model, delivery, texts, target, instead, suffixes, generate=generate, whole=long.whole, images=images
    )
    style = style_of(looks, delivery)
    spans = read_by(by)
    lacking = None if without is None else _without(without, given, by, spans, form)
    if show not in ("norms", "uniform"):
        style.require_vmax()
    require_query(query, form, head, is_mean=mean is not None)
    _require_images(images, query, {"key": key, "grid": grid}, {"form": form, "without": without})
    from mhaviz.api.loaded import checked

    loaded = model.load(delivery, given)
    delivery.tell(*loaded.notices)
    if mean is None and not (images or explains):
        delivery.require_drawable(len(given.sentences) * len(layer or loaded.layers))
    has_page = ".html" in delivery.suffixes and show != "uniform" and mean is None and query is None and by is None

    asked: dict[str, Any] = {
        "layer": layer,
        "head": head,
        "kind": kind,
        "hide_special": hide_special,
        "verify": verify,
        "pool": long.pool,
        "size": long.size,
        "window": long.window,
        "by": spans,
        "on_notice": None if delivery.quiet else delivery.tell,
    }
    if explains:
        asked |= {"show": "relevance", "why": why, "removal": removal, "query": query, "mean": mean}
        with progress(delivery.quiet, "computing", time_left=True) as on_progress:
            explained = loaded.attend(given, on_progress=on_progress, **asked)
        delivery.deliver(explained, style, quotes_notice(texts.sentences))
        return

    def attend(read: Given, check: "Callable[[Attention], None]") -> "Attention":
        with progress(delivery.quiet, "computing", time_left=True) as on_progress:
            return checked(loaded, check).attend(
                read,
                show=show,
                page=has_page,
                mean=None if images else mean,  # which maps of images have another way to
                on_progress=on_progress,
                **asked,
            )

    if images:
        over = attend(given, lambda attention: None)
        deliver_over(over, images, query, key, delivery, style, mean, grid)
        return
    attention = attend(given, partial(require_form, query=query, form=form, style=style))
    if lacking is not None:
        whole = maps_of(attention, query, "map")
        name = None if query is None else whole[0].queries[0]
        rest = maps_of(attend(lacking, partial(_require_kept, name=name)), name, "map")
        delivery.deliver(_change(whole, rest, delivery), style)
        return
    notice = quotes_notice(texts.sentences) or lines_notice(texts.file, long.whole, given.sentences)
    deliver_form(attention, query, form, delivery, style, notice)


def _require_images(
    images: Sequence[Path], query: str | None, over: Mapping[str, Any], of_texts: Mapping[str, Any]
) -> None:
    """Raise ArgumentError if options are for images or texts alone, or MhavizError if one is no image.

    Args:
        images: the images.
        query: the query.
        over: options for attention over an image, the key among them.
        of_texts: options for maps of texts.
    """
    require_one_side(query, over["key"])
    if not images and (alone := [option_name(name) for name, value in over.items() if value is not None]):
        raise ArgumentError(f"{alone[0]} is for attention over an image; add --image photo.png")
    if images and (unheeded := [option_name(name) for name, value in of_texts.items() if value is not None]):
        raise ArgumentError(f"{unheeded[0]} is for maps of a text; leave out it or --image")
    require_images(images)


def _without(role: str, given: Given, by: str | None, spans: Any, form: Form | None) -> Given:
    """Return the inputs without the messages of a role; ``spans``: what ``by`` names.

    Raises:
        ArgumentError: there are no such messages, or the spans are not those of a chat alone.
    """
    if by is None or by == "word" or spans != by:
        raise ArgumentError("--without compares spans by their names; add --by turn")
    if form is not None:
        raise ArgumentError("--without draws what changes; leave out --as")
    if given.chat is None:
        raise ArgumentError("--without leaves messages out of a chat; add --chat messages.json")
    try:
        return given.without_role(role)
    except ArgumentError as error:
        raise ArgumentError(f"--without: {error}") from None


def _require_kept(attention: "Attention", name: str | None) -> None:
    """Raise ArgumentError if the span of a query is left out."""
    if name is not None and not any(name in m.queries for m in attention.maps):
        kept = quoted(attention[0].queries[-1])
        raise ArgumentError(f"--query: {quoted(name)} is left out by --without; give one that stays, such as {kept}")


def _change(whole: "Attention", rest: "Attention", delivery: Delivery) -> "Difference":
    """Return what changes where messages are left out. Raises as ``mhaviz.diff``."""
    from mhaviz.analyses.difference import compare

    difference = compare(whole, rest)
    delivery.tell(*span_notices(difference, ("the whole chat", "the rest")))
    return difference

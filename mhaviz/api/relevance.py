"""``attend`` with ``why``: which words of a text, or patches of an image, made a prediction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mhaviz.analyses.relevance_maps import relevance_maps
from mhaviz.analyses.word_relevance import word_relevance
from mhaviz.api.image_relevance import image_relevance
from mhaviz.attention.targets import TOP, Why
from mhaviz.errors import ArgumentError, parameter, quoted
from mhaviz.inputs.given import Given
from mhaviz.numbering import Numbers, require_numbers
from mhaviz.results.attention import Attention
from mhaviz.results.quantity import ShownMaps
from mhaviz.results.relevance import Relevance, Removal

if TYPE_CHECKING:
    from mhaviz.api.loaded import LoadedModel


@dataclass(frozen=True)
class AskedWhy:
    """What is asked about a prediction; see ``LoadedModel.attend``.

    Attributes:
        show, why, removal, layer, head, size: arguments of ``attend``.
        unheeded: names of other arguments, which do not go with these.

    Raises:
        ArgumentError: arguments that do not go together.
    """

    show: ShownMaps
    why: Why | None
    removal: Removal | None
    layer: Numbers
    head: Numbers
    size: int | None
    unheeded: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        if self.show != "relevance":
            name = "why" if self.why is not None else "removal"
            raise ArgumentError(f"{parameter(name)} goes with {parameter('show')} relevance, got {self.show}")
        if self.why is not None and not callable(self.why) and (not isinstance(self.why, str) or not self.why):
            raise ArgumentError(
                f"{parameter('why')}: expected a token, label=NAME, top, or a function, got {quoted(self.why)}"
            )
        if self.removal not in (None, "top", "all"):
            raise ArgumentError(f"{parameter('removal')}: expected top or all, got {quoted(self.removal)}")
        if self.unheeded:
            raise ArgumentError(
                f"{parameter('why')} explains a prediction by all of the model's attention; leave out "
                f"{parameter(self.unheeded[0])}"
            )
        if self.has_maps and self.removal is not None:
            raise ArgumentError(
                f"{parameter('removal')} is for words; leave out {parameter('layer')} and {parameter('head')}"
            )
        if self.size is not None and not self.has_maps:
            raise ArgumentError(f"{parameter('size')} is for maps; add {parameter('layer')}")

    @property
    def has_maps(self) -> bool:
        """Whether maps of heads are asked for, and not words."""
        return self.layer is not None or self.head is not None


def explained(
    loaded: "LoadedModel",
    asked: AskedWhy,
    given: Given,
    on_notice: Callable[[str], None] | None,
    on_progress: Callable[[float, str], None],
) -> Relevance | Attention:
    """Compute the relevance of words or patches, or maps of heads, for a prediction."""
    why = TOP if asked.why is None else asked.why
    if given.image is not None and asked.has_maps:
        raise ArgumentError(
            f"{parameter('why')} with {parameter('image')} draws the patches, through all heads; leave out "
            f"{parameter('layer' if asked.layer is not None else 'head')}"
        )
    loaded.require_predicting(labels=True)
    if given.image is not None:
        return image_relevance(loaded.chosen(), given, why, asked.removal or "top", on_notice, on_progress)
    model = loaded.chosen(asked.layer, None, given.generate)
    inputs = model.read(given)
    if not asked.has_maps:
        return word_relevance(model, inputs, why, asked.removal or "top", on_progress)
    heads = require_numbers("head", asked.head, range(model.n_heads), "the layer has")
    return relevance_maps(model, inputs, why, heads, asked.size, on_progress)

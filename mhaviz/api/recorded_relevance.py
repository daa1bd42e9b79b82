"""Relevance of the tokens of a recorded program for a scalar that it has computed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mhaviz.analyses.word_relevance import by_word, relevance_of_tokens
from mhaviz.api.recorded import Recorded
from mhaviz.attention.graded import GradedAttention, read_queries
from mhaviz.attention.model import GradedRun, Site
from mhaviz.attention.padding import Padding
from mhaviz.attention.targets import Score, require_finite
from mhaviz.errors import MhavizError, parameter
from mhaviz.inputs.tokens import Tokens
from mhaviz.models.graded_run import graded, require_all
from mhaviz.observe.gradients import (
    Differentiated,
    depends_beside_attention,
    differentiate,
    hold,
    require_attention_alone,
)
from mhaviz.observe.observed import ObservedCall, example
from mhaviz.observe.observed_site import ObservedSite
from mhaviz.results.attention import Attention, AttentionMap
from mhaviz.results.relevance import Explained, Relevance


@dataclass(frozen=True)
class HeldSite:
    """What a held attention is known by: its site, its pass, and which of its keys are padding; None: none is."""

    site: ObservedSite
    pass_number: int
    padding: Padding | None


def hold_recorded(recorded: Recorded, site: ObservedSite, observed: ObservedCall, padding: Padding | None) -> None:
    """Let the graph of a program hold an attention, or note why it has no gradient."""
    why = "it runs in windows" if observed.order.windows > 1 else "its heads run apart" if site.heads else ""
    why = why or ("it goes on from an earlier step" if site.first_query else "")
    held = HeldSite(site, site.pass_number, padding)
    recorded.ungraded[site.number, site.pass_number] = why or hold(observed, recorded.owner, held)


def relevance_of(recorded: Recorded, attention: Attention, y: Tensor, name: str) -> Relevance:
    """Compute the relevance of the tokens of a recorded program for a scalar y, whose graph is alive.

    Args:
        recorded: what was recorded.
        attention: the maps of the program, of all layers.
        y: the scalar.
        name: what it is called.

    Raises:
        MhavizError: y depends on no recorded attention, on several passes or examples, or through something that mixes
            tokens outside of attention; as ``differentiate``; how attentions join is not known.
    """
    found = sorted(differentiate(y, recorded.owner), key=lambda one: one.held.tag.site.number)
    passes = sorted({one.held.tag.pass_number for one in found})
    for (number, pass_number), why in recorded.ungraded.items():
        if why and (pass_number in passes or not passes):
            raise MhavizError(f"{recorded.sites.all[number].full_name}: no gradient arrives, as {why}")
    if len(passes) != 1:
        on = f"several passes, {passes}" if passes else "no attention of a recorded pass"
        raise MhavizError(f"y depends on {on}; compute it from one pass, which {parameter('passes')} chooses")
    ran = [recorded.sites.all[number].full_name for number, of in sorted(recorded.ungraded) if of == passes[0]]
    require_all("the program", [one.held.tag.site.full_name for one in found], ran)
    require_attention_alone(y)
    _require_no_mixing(y, recorded.owner, found)
    _require_last_encoder_layer(y, recorded.owner, found)
    place = _example_of(found)
    score = Score(require_finite(float(y.detach())), "", None)
    run = GradedRun(score, tuple((_site(one.held.tag.site), _graded(one, place)) for one in found))
    of_text, of_written = relevance_of_tokens(run)
    last = found[-1].held.tag
    first = found[0].held.tag if of_written is not None else last
    side = by_word(_tokens(attention, first, place, of_written is None), _kept(of_text, first, place))
    other = None
    if of_written is not None:
        other = by_word(_tokens(attention, last, place, True), _kept(of_written, last, place, are_queries=True))
    source_of = replace(attention.source, details={**attention.source.details, "y": score.y})
    return Relevance(source_of, Explained("function", name), score.y, "", side, other, "none")


def _require_no_mixing(y: Tensor, owner: object, found: Sequence[Differentiated]) -> None:
    """Raise MhavizError if y depends on other tokens than those of its queries where no gradient passes through
    attention: then something else has mixed them between two attentions.

    It is not seen where y reads all tokens, or if tokens are mixed on their way to queries, keys and values alone.
    """
    last = found[-1]
    queries = read_queries(last.gradient)
    for one in differentiate(y, owner, through_attention=False):
        read = read_queries(one.gradient)
        is_one_side = one.gradient.shape[2] == last.gradient.shape[2]
        if bool((read & ~queries).any() if is_one_side else read.any()):
            raise MhavizError(
                f"{one.held.tag.site.full_name}: y depends on tokens that were mixed outside of attention, and "
                f"relevance goes through weights of attention alone"
            )


def _require_last_encoder_layer(y: Tensor, owner: object, found: Sequence[Differentiated]) -> None:
    """Raise MhavizError unless each source-target attention reads what the last layer of the encoder has made."""
    encoder = [one.held for one in found if one.held.tag.site.kind == "self"]
    for one in found:
        is_cross = one.held.tag.site.kind == "cross"
        if encoder and is_cross and not depends_beside_attention(y, owner, one.held, encoder[-1]):
            raise MhavizError(
                f"{one.held.tag.site.full_name}: expected keys that the last layer of the encoder has made, got "
                f"others: how these join is not known"
            )


def _example_of(found: Sequence[Differentiated]) -> int:
    """Return the example on which y depends. Raises MhavizError if there are several."""
    read = {place for one in found for place in one.gradient.flatten(1).any(dim=1).nonzero().flatten().tolist()}
    if len(read) != 1:
        several = f"{len(read)} examples of the batch" if read else "none of its attention"
        raise MhavizError(f"y depends on {several}; take a scalar of one example")
    (place,) = read
    return int(place)


def _graded(one: Differentiated, place: int) -> GradedAttention:
    whole, rows = graded(one, one.held.tag.site.full_name), slice(place, place + 1)
    output = None if whole.output is None else whole.output[rows]
    call = example(whole.call, place)
    return GradedAttention(whole.name, call, whole.value[rows], whole.gradient[rows], output)


def _site(site: ObservedSite) -> Site:
    return Site(site.kind, site.order, len(site.heads) or 1, 1, site.number, site.full_name)


def _kept(relevance: NDArray[np.float64], tag: HeldSite, place: int, are_queries: bool = False) -> NDArray[np.float64]:
    """Return the relevance of the tokens of an attention's keys, or of its queries, without padding."""
    if tag.padding is None:
        return relevance
    side = tag.padding.queries if are_queries else tag.padding.keys
    are_tokens: NDArray[np.bool_] = side[place].cpu().numpy()
    return relevance[are_tokens]


def _tokens(attention: Attention, tag: HeldSite, place: int, are_queries: bool) -> Tokens:
    """Return the tokens of one side of the map of an attention. Raises MhavizError if it is not drawn."""

    def is_of(m: AttentionMap) -> bool:
        passes = m.pass_number in (None, tag.pass_number)
        return m.module == tag.site.full_name and passes and (m.sentence or 0) == place

    found = next(filter(is_of, attention.maps), None)
    if found is None:
        raise MhavizError(
            f"y is of example {place} of pass {tag.pass_number}, which is not recorded; choose it by "
            f"{parameter('examples')} and {parameter('passes')}"
        )
    return (found.rows if are_queries else found.columns).tokens

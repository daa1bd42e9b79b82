"""Which tokens of a map a query or a key of an image names: a patch, a word, a position, or those of the default."""

import operator
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mhaviz.errors import ArgumentError, counted, is_accepted, parameter, quoted
from mhaviz.inputs.patches import PatchGrid
from mhaviz.inputs.spans import are_nameless
from mhaviz.inputs.tokens import ANSWER, OF_ONE_TEXT, Tokens
from mhaviz.results.answer import words_named
from mhaviz.results.axis import Axis, words_with
from mhaviz.results.image_grids import MOST_SPECIAL

if TYPE_CHECKING:
    from mhaviz.results.attention import AttentionMap

_PATCH = re.compile(
    r"\s*(?:(?P<view>.*\S)\s+)?\(?\s*(?P<row>-?[0-9]{1,9})\s*[,;]\s*(?P<column>-?[0-9]{1,9})\s*\)?\s*", re.DOTALL
)
_LISTED = 6  # views that an error names

QueryChoice = int | str | tuple[int, int] | None
"""A query or a key: a position among all tokens; a patch, (row, column), "row,column" or "thumbnail row,column"; a
word; None: the default of ``Attention.over_image``."""

Kind = Literal["patch", "word", "position", "all", "after", "answer"]
"""What is drawn the attention of: a patch; a word or special token; a token that has only a position; the mean over all
queries; that over the queries after the last patch; that over those that the model has written."""


DEFAULT_KINDS: tuple[Kind, ...] = ("answer", "after", "word", "position", "all", "patch")
"""Kinds of default queries; of maps that have several, those of the first are drawn."""

Queries = Literal["patches", "words", "tokens"]
"""What the queries of a mean are: patches; words, or other tokens with names; tokens without names, or of several
kinds."""


@dataclass(frozen=True)
class Chosen:
    """Tokens of a side of a map.

    Attributes:
        places: their positions.
        kind: see ``Kind``.
        name: their name, "3,11", "thumbnail 3,11", "[CLS]" or "#69"; "": they have none.
        view, patch: view of the patch, and its row and column; None: they are no patch.
        queries: what several of them are.
    """

    places: tuple[int, ...]
    kind: Kind
    name: str = ""
    view: str | None = None
    patch: tuple[int, int] | None = None
    queries: Queries = "tokens"


class ElsewhereError(ArgumentError):
    """A patch of the image that is no token of this map, but perhaps of another, such as of another window."""


def named_patch(query: QueryChoice) -> tuple[int, int] | None:
    """Return the row and column of the patch that a query names, as "5,7", "thumbnail 5,7" or (5, 7); None: it names
    none."""
    if isinstance(query, str):
        match = _PATCH.fullmatch(query)
        return match and (int(match["row"]), int(match["column"]))
    return (operator.index(query[0]), operator.index(query[1])) if isinstance(query, tuple) else None


def require_patch(patch: tuple[int, int], grid: tuple[int, ...], option: str = "query") -> tuple[int, int]:
    """Return the row and column of a patch. Raises ArgumentError unless the grid, (rows, columns, …), has it."""
    if not all(0 <= place < count for place, count in zip(patch, grid, strict=False)):
        last, got = (",".join(map(counted, places)) for places in ([count - 1 for count in grid[:2]], patch))
        raise ArgumentError(f"{parameter(option)}: expected a patch from 0,0 to {last}, got {got}")
    return patch


def chosen_tokens(
    query: int | str | tuple[int, int], axis: Axis, views: Sequence[PatchGrid], name: str, option: str
) -> Chosen:
    """Return the tokens that a query or a key names.

    Args:
        query: see ``QueryChoice``.
        axis: the side of the map that has them.
        views: views of images among its tokens.
        name: name of the map, for errors.
        option: "query" or "key".

    Raises:
        ElsewhereError: the patch is no token of this map.
        ArgumentError: there is no such patch or token, or there are several.
    """
    patch = named_patch(query)
    is_token = isinstance(query, str) and not (views and patch) and bool(axis.exactly(query))
    if patch is not None and not is_token:
        return _chosen_patch(query, patch, axis, views, name, option)
    assert not isinstance(query, tuple)
    places = _places(query, axis, views, option)
    if len(places) == 1:
        for view in views:
            if (cell := view.cell(places[0])) is not None:
                return Chosen(tuple(places), "patch", view.label(*cell), view.name, cell)
    text = "".join(axis.tokens.texts[place] for place in places).strip()
    if len(places) == 1 and text in ("", str(places[0]), f"token {places[0]}"):
        return Chosen(tuple(places), "position", f"#{places[0]}")
    return Chosen(tuple(places), "word", text)


def _chosen_patch(
    query: object, patch: tuple[int, int], axis: Axis, views: Sequence[PatchGrid], name: str, option: str
) -> Chosen:
    if not views:
        side = "queries" if option == "query" else "keys"
        raise ArgumentError(
            f"{parameter(option)}: the {side} of {name} are not patches; expected a position from 0 to "
            f"{len(axis) - 1:,}, or a token, got {quoted(query)}"
        )
    match = _PATCH.fullmatch(query) if isinstance(query, str) else None
    wanted = ((match and match["view"]) or "").removeprefix("patch").strip()
    those = [view for view in views if not wanted or view.name.casefold() == wanted.casefold()]
    if len(those) != 1:
        listed = ", ".join(quoted(view.label(*patch)) for view in views[:_LISTED]) + ", …" * (len(views) > _LISTED)
        raise ArgumentError(f"{parameter(option)}: expected a patch of one view, such as {listed}, got {quoted(query)}")
    (view,) = those
    place = view.place(*require_patch(patch, view.shape, option))
    if place < 0:
        labels = [*view.labels().values()]
        more = f"; more windows are recorded with a larger {parameter('examples')}" * is_accepted("examples")
        raise ElsewhereError(
            f"{parameter(option)}: patch {view.label(*patch)} is not among the tokens of {name}, which are the patches "
            f"{labels[0]} to {labels[-1]}{more}"
        )
    return Chosen((place,), "patch", view.label(*patch), view.name, patch)


def _places(query: int | str, axis: Axis, views: Sequence[PatchGrid], option: str) -> list[int]:
    """Return the positions of a token, or those of the tokens of a word."""
    if isinstance(query, str) and not axis.places(query) and not are_nameless(axis.tokens):
        spans = words_with(query)(axis.tokens)
        patches = {place for view in views for place in view.tokens}
        found = words_named(query, axis, words_with(query))
        if len(found) == 1:
            (word,) = found
            places = [place for start, end in spans[word].ranges for place in range(start, end)]
            return [place for place in places if place not in patches] or [axis.position(query, option)]
    return [axis.position(query, option)]


def default_queries(m: "AttentionMap", views: Sequence[PatchGrid]) -> Chosen:
    """Return the queries of the default: the class token; of a decoder, those that it has written, or else those after
    the last patch; else all.

    ``views``: the views of images among the queries; empty: there are none.
    """
    tokens, n_queries = m.rows.tokens, len(m.queries)
    patches = {place for view in views for place in view.tokens}
    others = [place for place in range(n_queries) if place not in patches]
    if patches and tokens.turns and tokens.turns[-1].name == ANSWER:
        written = tuple(range(tokens.turns[-1].start, n_queries))
        return Chosen(written, "answer", queries=_queries(tokens, written, patches))
    after = tuple(range(max(patches, default=-1) + 1, n_queries))
    if patches and after and (m.kind == "masked" or _are_blind(m, range(min(patches)))):
        return Chosen(after, "after", queries=_queries(tokens, after, patches))
    if patches and others and len(others) <= MOST_SPECIAL and not _has_words(tokens, others):
        return chosen_tokens(others[0], m.rows, views, m.name, "query")
    every = tuple(range(n_queries))
    return Chosen(every, "all", queries=_queries(tokens, every, patches))


def _are_blind(m: "AttentionMap", before: range) -> bool:
    """Return whether there are tokens before the first patch that give no token behind them any weight, as in a decoder
    in which patches see each other."""
    return bool(before) and m.kind in OF_ONE_TEXT and not (m.weights[:, : before.stop, before.stop :] > 0).any()


def _queries(tokens: Tokens, places: Sequence[int], patches: Set[int]) -> Queries:
    if all(place in patches for place in places):
        return "patches"
    names = [tokens.texts[place].strip() for place in places]
    has_names = not any(name in ("", str(place), f"token {place}") for name, place in zip(names, places, strict=True))
    return "words" if has_names and patches.isdisjoint(places) else "tokens"


def _has_words(tokens: Tokens, places: Sequence[int]) -> bool:
    """Return whether some of the tokens are words, neither special nor without a name."""
    texts = (tokens.texts[place] for place in places if place not in {*tokens.special})
    return any(not text.strip().isdecimal() for text in texts)

"""Forms of attention: what the word of a query looks at, lines between words, or a map with a row for each head."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mhaviz.cli.command import given
from mhaviz.cli.shared.appearance import ColourOptions, PictureOptions
from mhaviz.cli.shared.console import option_name
from mhaviz.cli.shared.delivery import Delivery
from mhaviz.errors import ArgumentError

if TYPE_CHECKING:
    from mhaviz.results.attention import Attention
    from mhaviz.results.result import Result
    from mhaviz.views.style import Style

Form = Literal["answer", "lines", "map"]
As = Annotated[
    Form | None,
    typer.Option(
        "--as",
        metavar="FORM",
        help="answer (the default with --query), lines or map (else).",
        show_default=False,
    ),
]

_FORMS: "dict[Form, Callable[[Attention, Any], Result]]" = {
    "answer": lambda attention, query: attention.answer(query),
    "lines": lambda attention, query: attention.lines(query),
    "map": lambda attention, query: maps_of(attention, query, "map"),
}


_LOOKS: dict[Form, list[str]] = {  # all but those of maps alone
    "answer": [option_name(one.name) for one in fields(ColourOptions)],
    "lines": [option_name(name) for name in (*(one.name for one in fields(PictureOptions)), "positions")],
}


def require_query(
    query: str | None,
    form: Form | None,
    head: Collection[int] | None,
    is_mean: bool = False,
) -> None:
    """Raise ArgumentError, before the work, if a form needs a query, or less of what is chosen.

    Args:
        query, form: the query and the form.
        head: chosen heads; None: all. Of layers it is not known yet which have a text in common.
        is_mean: whether a mean is drawn, which may be over the heads.
    """
    if form == "answer" and query is None:
        raise ArgumentError(f"{option_name('form')} answer is for one query; add --query WORD")
    if form == "lines" and query is None and head is not None and not is_mean:
        from mhaviz.results.lines import require_few

        with _advising_map():
            require_few(len({*head}))


def likely_form(query: str | None, form: Form | None) -> Form:
    """Return the form of maps that are not known yet, if they can answer."""
    return form or ("map" if query is None else "answer")


def require_looks(style: "Style", form: Form, advises: bool = True) -> None:
    """Raise ArgumentError if a look is chosen that a form does not have, but maps; ``advises``: to draw a map."""
    if others := [name for name in given(style) if name not in _LOOKS.get(form, [name])]:
        advice = f", or add {option_name('form')} map" * advises
        raise ArgumentError(f"{others[0]} is for maps; leave it out{advice}")


def form_of(attention: "Attention", query: str | None, form: Form | None) -> Form:
    """Return the form of these maps: unless it is chosen, an answer to a query, where they can tell."""
    from mhaviz.results.answer import are_beside_chance, is_answerable

    if are_beside_chance(attention):
        return form or "map"
    return form or (likely_form(query, form) if is_answerable(attention) else "map")


def _query_notices(attention: "Attention", query: str, form: Form | None) -> Iterator[str]:
    """Yield that a query of these maps has no answer, if it would have without a form, and which texts lack it. Means,
    which are asked for, have a map or bars."""
    from mhaviz.results.answer import are_beside_chance, lacking_text, why_unanswerable

    can_tell = are_beside_chance(attention) or all(m.mean_over for m in attention.maps)
    if form is None and not can_tell and (why := why_unanswerable(attention)):
        yield f"gave the map of the query, as an answer is not possible: {why}"
    if lacking := lacking_text(attention, query, form_of(attention, query, form) != "map"):
        yield lacking


def require_form(attention: "Attention", query: str | None, form: Form | None, style: "Style") -> None:
    """Raise ArgumentError if maps, which need not have weights yet, have no such query, or cannot answer what it looks
    at though they are to, or, without a query, have no lines between all words."""
    from mhaviz.results.answer import texts_with
    from mhaviz.results.lines import texts_of

    form = form_of(attention, query, form)
    require_looks(style, form)
    if form == "map":
        _FORMS[form](attention, query)
        return
    with _advising_map():
        if query is None:
            texts_of(attention)
        else:
            texts_with(attention, query)


def deliver_form(
    attention: "Attention",
    query: str | None,
    form: Form | None,
    delivery: Delivery,
    style: "Style",
    notice: str | None = None,
) -> None:
    """Save and show maps, or one query of them, in a form: by default a query as an answer, where they can tell. Files
    of maps have what ``maps_of`` returns. Notices say why a query has no answer, and which of several texts lack it.

    Raises:
        ArgumentError: as ``Attention.answer``, ``Attention.lines`` and ``Attention.of_query``.
    """
    chosen, form = form, form_of(attention, query, form)

    def made() -> "Result":
        require_looks(style, form)
        with _advising_map():
            result = _FORMS[form](attention, query)
        if query is not None:
            delivery.tell(*_query_notices(attention, query, chosen))
        return result

    if form == "map":
        delivery.deliver(made(), style, notice)
        return
    what = "the maps" if query is None else "the weights of the query by word"
    delivery.deliver_beside(lambda: maps_of(attention, query, form), what, made, style, notice)


def maps_of(attention: "Attention", query: str | None, form: Form | None) -> "Attention":
    """Return what files of maps have beside a form: of a query that is answered, its weights by word, as its picture;
    else what the map form draws.

    Raises:
        ArgumentError: as ``Attention.answer`` or ``Attention.of_query``.
    """
    if query is None:
        return attention
    if form_of(attention, query, form) == "map":
        return attention.of_query(query)
    from mhaviz.results.answer import weights_of

    with _advising_map():
        return weights_of(attention, query)


@contextmanager
def _advising_map() -> Iterator[None]:
    """Advise to draw a map in errors of maps that cannot answer."""
    from mhaviz.results.answer import UnansweredError

    try:
        yield
    except UnansweredError as error:
        instead = f"{option_name('form')} map draws the weights"
        raise ArgumentError(f"{error}; {instead}") from error

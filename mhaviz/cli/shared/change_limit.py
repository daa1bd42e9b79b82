"""--fail-above: exit status 3 if attention has changed by more than the limit."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhaviz.cli.shared.console import say
from mhaviz.errors import ChangedError, MhavizError

if TYPE_CHECKING:
    from mhaviz.results.corpus_difference import CorpusDifference
    from mhaviz.results.difference import Difference, HeadDifference


FailAbove = Annotated[
    float | None,
    typer.Option(metavar="BITS", help="Exit with 3 if a head's mean divergence is larger, 0 to 1."),
]


@contextmanager
def verdict() -> Iterator[Callable[..., None]]:
    """Yield a function to call with a check and its arguments, whose error is raised at the end of the block.

    So a result above the limit is delivered. If it cannot be delivered, both errors are said, and the exit status is
    that of the check, as nothing that happens to the output changes it.
    """
    reached: list[MhavizError] = []

    def reach(check: Callable[..., None], *arguments: object) -> None:
        try:
            check(*arguments)
        except MhavizError as error:
            reached.append(error)

    try:
        yield reach
    except MhavizError as error:
        if not reached or error.status != MhavizError.status:
            raise
        say(str(error))
    if reached:
        raise reached[0]


_MOST_TOKENS, _CELLS, _SPAN_CELLS = 4, 16, 28  # tokens that a notice names; characters of each, and of a span


def text_notices(difference: "Difference") -> Iterator[str]:
    """Iterate over at most one message on two texts that differ, "the texts differ at 1 of 12 tokens: tired / warm"."""
    from mhaviz.pages.labels import quoted

    sides = [m.sides for m in difference.maps if m.sides]
    axes = [pair for A, B in sides for pair in ((A.rows, B.rows), (A.columns, B.columns))]
    found = dict.fromkeys((a.tokens.texts, b.tokens.texts) for a, b in axes if a.tokens.texts != b.tokens.texts)
    if not found:
        return
    first, second = next(iter(found))
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
    named = ", ".join(f"{quoted(a, _CELLS)} / {quoted(b, _CELLS)}" for a, b in pairs[:_MOST_TOKENS])
    named += ", …" * (len(pairs) > _MOST_TOKENS)
    more = f"; {len(found) - 1:,} more texts differ" if len(found) > 1 else ""
    yield f"the texts differ at {len(pairs):,} of {len(first):,} tokens: {named}{more}"


def span_notices(difference: "Difference", sides: Sequence[Path | str]) -> Iterator[str]:
    """Iterate over messages on the spans that only one side has."""
    from mhaviz.pages.labels import quoted

    for side, name in enumerate(sides):
        if names := dict.fromkeys(quoted(span, _SPAN_CELLS) for m in difference.maps for span in m.spans_of_one(side)):
            yield f"only in {name}: {', '.join(names)}"


def flaw_notices(difference: "Difference", paths: Sequence[Path]) -> Iterator[str]:
    """Iterate over at most one message on heads that have no divergence, with the reason."""
    flawed = [head for head in difference.ranking if head.flaw]
    if flawed:
        more = f"; {len(flawed) - 1:,} more heads have none, either" if len(flawed) > 1 else ""
        yield f"{_flaw_text(flawed[0], paths)}{more}"


def _flaw_text(head: "HeadDifference", paths: Sequence[Path]) -> str:
    flaw = head.flaw
    assert flaw is not None
    name = f"{paths[flaw.is_second]}: {head.map.name_of(head.head)}"
    return f"{name} has no divergence, as row {flaw.query} sums to {flaw.sum:.4g}"


def require_at_most(difference: "Difference", paths: Sequence[Path]) -> None:
    """Raise ChangedError if a head is above the limit, MhavizError if something without a divergence might be."""
    if difference.fail_above is None:
        return
    known = [(head, head.divergence) for head in difference.ranking]
    _require_below(
        difference.fail_above, [(bits, head.map.name_of(head.head)) for head, bits in known if bits is not None]
    )
    if (reason := next(_not_compared(difference, paths), None)) is not None:
        raise MhavizError(f"cannot tell whether too much has changed: {reason}")


def require_models_alike(difference: "CorpusDifference") -> None:
    """Raise ChangedError if a head of two models is above the limit."""
    if difference.fail_above is not None:
        heads = [(head["mean"], "{kind} L{layer} H{head}".format(**head)) for head in difference.ranking]
        _require_below(difference.fail_above, heads)


def _require_below(most: float, heads: Sequence[tuple[float, str]]) -> None:
    """Raise ChangedError if a head, given by its divergence in bits and its name, is above the limit."""
    if above := sorted((head for head in heads if head[0] > most), reverse=True):
        got, name = above[0]
        digits = next(text for digits in range(4, 18) if float(text := f"{got:.{digits}g}") > most)
        others = f"; {len(above)} heads of {len(heads)} are above" if len(above) > 1 else ""
        raise ChangedError(f"expected a divergence of at most {most} bits, got {digits} in {name}{others}")


def _not_compared(difference: "Difference", paths: Sequence[Path]) -> Iterator[str]:
    """Iterate over messages on what has no divergence, and what to do about it."""
    for path, names in zip(paths, (difference.only_before, difference.only_after), strict=True):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            yield f"{names[0]}{more} only in {path}; compare files with the same maps"
    for head in difference.ranking:
        if head.flaw:
            yield f"{_flaw_text(head, paths)}; expected rows that sum to 1"
        elif head.divergence is None and not head.map.quantity.rows_are_shares:
            advice = "maps by mass" if head.map.quantity.is_distribution else "weights"
            yield f"{head.map.name} has no divergence; compare {advice}, whose rows sum to 1"
        elif head.divergence is None:
            zeros = "as all its rows are zeros in both; expected some weight"
            yield f"{head.map.name_of(head.head)} has no divergence, {zeros}"

"""Names of queries and keys that are not all the tokens of one text: by their places, as rows, or as steps."""

import re
from collections.abc import Callable
from dataclasses import replace

from mhaviz.api.recorded_tokens import rows_of
from mhaviz.inputs.tokens import OF_ONE_TEXT, Kind, Tokens
from mhaviz.observe.observed import ObservedCall
from mhaviz.observe.places import Part


def rows_called(observed: ObservedCall) -> tuple[str, str]:
    """Return the names of queries and keys that are not tokens, such as "fixed", and "" for tokens."""
    called, places = observed.order.called, observed.order.tokens.places
    are_tokens = all(side is not None and side.are_distinct for side in places)  # as of a cache that is held transposed
    if called and not any(observed.are_fixed) and not (called == "channel" and are_tokens):
        return called, called
    queries, keys = ("fixed" if fixed else "" for fixed in observed.are_fixed)
    return queries or "row" * bool(keys), keys  # queries of fixed keys may be anything


def placed(sides: tuple[Tokens, Tokens], parts: tuple[Part | None, Part | None]) -> tuple[Tokens, Tokens]:
    """Name queries and keys by their places in a sequence: as the tokens there are called, or by position.

    Queries and keys before or behind the sequence, or in unknown places, are called rows.
    """
    own, part = parts
    known: dict[int, str] = {}
    if own is not None and part is not None and own.of == part.of:
        for tokens, one in zip(sides, parts, strict=True):
            known |= enumerate(tokens.texts) if _is_whole(one) else ()

    def called(row: int, place: int, length: int) -> str:
        return known.get(place, str(place)) if 0 <= place < length else f"row {row}"

    several = []
    for tokens, one in zip(sides, parts, strict=True):
        if one is not None and one.n == len(tokens) and not (_is_whole(one) or tokens.ids or tokens.images):
            tokens = Tokens(tuple(called(row, place, one.length) for row, place in enumerate(one.places)))
        several.append(tokens)
    return several[0], several[1]


def named(sides: tuple[Tokens, Tokens], kind: Kind, name: Callable[[Tokens], Tokens]) -> tuple[Tokens, Tokens]:
    """Name queries and keys. If both are of one text, names that are known on one side are used on the other."""
    queries, keys = map(name, sides)
    if kind not in OF_ONE_TEXT:
        return queries, keys
    known: dict[str, tuple[str, bool]] = {}
    for before, after in zip(sides[::-1], (keys, queries), strict=True):
        for place, (old, new) in enumerate(zip(before.texts, after.texts, strict=True)):
            if old != new:
                known[old] = new, place in after.special
    several = []
    for before, after in zip(sides, (queries, keys), strict=True):
        found = [
            known.get(old, (new, place in after.special)) if old == new else (new, place in after.special)
            for place, (old, new) in enumerate(zip(before.texts, after.texts, strict=True))
        ]
        special = tuple(place for place, (_, is_special) in enumerate(found) if is_special)
        several.append(replace(after, texts=tuple(text for text, _ in found), special=special))
    return several[0], several[1]


def as_rows(tokens: Tokens, may_be_batch: bool, may_be_fixed: bool, remarks: dict[str, None]) -> Tokens:
    """Rename positions to rows where they may be examples of a batch or constants instead of tokens; add a remark."""
    others = ["an example of a batch"] * may_be_batch + ["a constant of the program"] * may_be_fixed
    are_rows = may_be_fixed and all(text.startswith("row ") for text in tokens.texts)
    if not others or not (are_rows or any(text.isdecimal() for text in tokens.texts)):
        return tokens
    remarks[f"“row i” is a token or {' or '.join(others)}, as nothing tells"] = None
    if any(text.startswith("row ") for text in tokens.texts):  # which is the number of a row, not of a token
        return rows_of("row", 0, len(tokens))
    return replace(tokens, texts=tuple(f"row {text}" if text.isdecimal() else text for text in tokens.texts))


_STEP = re.compile(r"^(?:row )?(\d+)$", re.ASCII)
"""Name of the query of a step by its position, or as a row."""


def as_steps(tokens: Tokens, remarks: dict[str, None]) -> Tokens:
    """Rename positions of a recurrent decoder's queries to steps; add a remark."""
    remarks["the query of a step is made of what the step before gave"] = None
    return replace(tokens, texts=tuple(_STEP.sub(r"step \1", text) for text in tokens.texts))


def _is_whole(part: Part | None) -> bool:
    """Return whether this is the beginning of a sequence, or all of it, and nothing else."""
    return part is not None and part.is_first and part.n <= part.length

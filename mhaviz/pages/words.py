"""Phrases that several pages share."""

import re

from mhaviz.errors import counted
from mhaviz.inputs.patches import PATCH_NAME
from mhaviz.inputs.probes import Needle, Probe, RandomRepeats
from mhaviz.inputs.tokens import KIND_NAMES, OF_ONE_TEXT, Kind, Tokens
from mhaviz.pages.blocks import Title
from mhaviz.pages.labels import quoted
from mhaviz.results.explanation import Explanation
from mhaviz.results.scaling import ScalingComparison
from mhaviz.units import with_minus

_TOKEN_CELLS = 16  # most cells of a token beside its position


def position_text(position: int, token: str) -> str:
    """Return "12,345 whale", or "patch 3,11"; the position alone where it is also the token's label."""
    if patch := PATCH_NAME.fullmatch(token):
        return patch_text(patch)
    return f"{position:,}" if token == str(position) else f"{position:,} {quoted(token, _TOKEN_CELLS)}"


def patch_text(patch: re.Match[str]) -> str:
    """Return "patch 3,11", or "patch 3,11 of frame 2", of the label of a patch, matched by ``PATCH_NAME``."""
    place = f"patch {patch['row']},{patch['column']}"
    return f"{place} of {quoted(patch['view'], _TOKEN_CELLS)}" if patch["view"] else place


_LEAST_BITS = 0.00005  # least number that four decimals can show


def bits_text(divergence: float) -> str:
    """Return "0.1234", or "1.2e−05" for a number that four decimals would round to 0."""
    return with_minus(f"{divergence:.1e}") if 0 < divergence < _LEAST_BITS else f"{divergence:.4f}"


def unnamed_text(tokens: Tokens) -> str:
    """Return "17 tokens" for tokens without texts, "13 rows" for rows of a matrix, "5 steps" for those of a decoder,
    "14 × 14 patches of an image"; "" for tokens with texts."""
    if tokens.grid is not None:
        rows, columns = tokens.grid
        return f"{rows} × {columns} patches of an image"
    for name, called in (("row", "row"), ("fixed row", "fixed"), ("channel", "channel"), ("step", "step")):
        if tokens.texts[:1] == (f"{called} 0",) and all(
            text == f"{called} {place}" for place, text in enumerate(tokens.texts)
        ):
            return counted(len(tokens), name)
    return counted(len(tokens), "token") if tokens.are_positions else ""


def attention_title(
    kind: Kind, queries: Tokens, keys: Tokens, about: str = "", prefix: str = "", brief: str | None = None
) -> Title:
    """Return the title of an attention with its texts; a sentence that attends to itself is named once.

    Args:
        kind: kind of attention.
        queries, keys: tokens of both sides.
        about: follows the kind, such as the layer.
        prefix: precedes the kind, such as the quantity if it is not weights.
        brief: replaces ``about`` where there is little room; None: the same.
    """
    head, short = f"{prefix}{KIND_NAMES[kind]}{about}", f"{prefix}{'attention' if kind == 'other' else kind}"
    short += about if brief is None else brief
    if kind in OF_ONE_TEXT and queries.texts == keys.texts:
        return Title(head, (("", queries),), short)
    return Title(head, (("queries", queries), ("keys", keys)), short)


def study_title(result: Explanation | ScalingComparison) -> Title:
    """Return the title of a study of one layer, which it names if the model has several."""
    about = f", {result.source.model}" + ("" if result.layer is None else f", layer {result.layer}")
    queries, keys = Tokens(result.queries, result.special_queries), Tokens(result.keys, result.special_keys)
    return attention_title(result.kind, queries, keys, about)


_RULE = 8  # most characters, enough for / √1024


def rule_text(result: Explanation | ScalingComparison) -> str:
    """Return the heading of a column of scores: how q·k is scaled, "/ √64", or "scaled" where that is too long."""
    return result.rule if len(result.rule) <= _RULE else "scaled"


def one_text(probe: Probe | None = None, is_recorded: bool = False) -> str:
    """Return the name of one text among several: "sentence", "sequence" or "example".

    Args:
        probe: how the texts were made; None: they were given.
        is_recorded: whether a recorded program has read them.
    """
    if isinstance(probe, RandomRepeats):
        return "sequence"
    return "example" if is_recorded else "sentence"


def texts_of(number: int, probe: Probe | None, is_recorded: bool = False) -> str:
    """Return "1,000 sentences", "32 sequences of 16 random tokens, repeated"."""
    texts = counted(number, one_text(probe, is_recorded))
    if isinstance(probe, RandomRepeats):
        return f"{texts} of {counted(probe.n_tokens, 'random token')}, repeated"
    return f"{texts} with a needle at {counted(len(probe.depths), 'depth')}" if isinstance(probe, Needle) else texts


def left_out_text(too_long: int, reader: str = "model") -> str:
    """Return the number of sentences that were too long for the ``reader``; "" if there are none."""
    if not too_long:
        return ""
    were = "was" if too_long == 1 else "were"
    return f"{counted(too_long, 'sentence')} {were} left out: longer than the {reader} can read"

"""Maps for tests, made of texts, numbers and edges."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mhaviz.inputs.tokens import Tokens
from mhaviz.results.attention import AttentionMap
from mhaviz.results.axis import Axis
from mhaviz.results.quantity import ROLLOUT, WEIGHT


class Edges(NamedTuple):
    """Where the rows and columns of a map begin, and where the last ones end, and what a cell is."""

    query_edges: np.ndarray
    key_edges: np.ndarray
    reduction: str = "mass"


def made_map(
    queries,
    keys,
    weights,
    kind="self",
    layer=0,
    cells=None,
    special_queries=(),
    special_keys=(),
    rollout=False,
    **more,
):
    """A map of these tokens; ``cells`` of several, or of a part."""
    query_edges, key_edges, reduction = cells or (None, None, "mass")
    return AttentionMap(
        weights,
        Axis(Tokens(tuple(queries), tuple(special_queries)), query_edges),
        Axis(Tokens(tuple(keys), tuple(special_keys)), key_edges),
        kind,
        layer,
        quantity=replace(ROLLOUT if rollout else WEIGHT, reduction=reduction),
        **more,
    )


def hiding(m):
    """The map without weight where its kind and its window hide keys."""
    return m if m.beyond is None else replace(m, weights=np.where(m.beyond, np.float32(0), m.weights))


def remade(m, **changes):
    """The map with some of what ``made_map`` takes changed."""
    whole = {"reduction": "mass"} if m.is_whole else {"reduction": m.quantity.reduction}
    of = {
        "queries": m.queries,
        "keys": m.keys,
        "special_queries": m.rows.tokens.special,
        "special_keys": m.columns.tokens.special,
        "rollout": m.quantity.key == "rollout",
        "cells": None if m.is_whole else Edges(m.rows.edges, m.columns.edges, **whole),
    } | changes
    kept = ("weights", "kind", "layer", "heads", "sentence", "summary", "reach", "sink", "to_special")
    return made_map(**({name: getattr(m, name) for name in kept} | of))

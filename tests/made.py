"""Maps for tests, made of texts, numbers and edges."""

from dataclasses import replace
from itertools import pairwise
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


def span_map(names, mass, chance, rows=None, apart=(), kind="masked", layer=0, lengths=None, lookback=None, **more):
    """A map by span of these names; ``apart``: names of the rest and of sinks, which have no chance.

    ``mass``: (n_heads, rows, names and apart); ``chance``: in the same shape but for ``apart``, or one of all heads.
    """
    rows = names if rows is None else rows
    mass = np.asarray(mass, np.float32)
    of_spans = np.broadcast_to(np.asarray(chance, np.float32), (*mass.shape[:2], len(names)))
    of_others = np.full((*mass.shape[:2], len(apart)), np.nan, np.float32)
    edges = np.cumsum([len(apart), *(lengths or [10] * len(names))]).tolist()  # what is apart begins the text
    ranges = *(((a, b),) for a, b in pairwise(edges)), *(((i, i + 1),) for i in range(len(apart)))
    places = range(len(names)) if rows is names else [names.index(name) for name in rows]
    return AttentionMap(
        mass,
        Axis(Tokens(tuple(rows), ranges=tuple(ranges[place] for place in places))),
        Axis(Tokens((*names, *apart), ranges=ranges)),
        kind,
        layer,
        chance=np.concatenate([of_spans, of_others], axis=2),
        lookback=np.full(mass.shape[:2], np.nan, np.float32) if lookback is None else np.asarray(lookback, np.float32),
        **more,
    )

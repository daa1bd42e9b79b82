"""A map of any length in a few numbers a head."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sink:
    """A key that gets much weight, ``received``: its sum over the queries.

    Of a map of norms it is the key's share of all norms, times the queries.
    """

    key: int
    token: str
    received: float


@dataclass(frozen=True)
class Link:
    """The weight, or norm, that the query at one position gives to the key at another."""

    query: int
    query_token: str
    key: int
    key_token: str
    weight: float


@dataclass(frozen=True)
class HeadSummary:
    """What one head does, over all queries of the map that see a key; positions are those of the whole input.

    Of a map of norms the entropy is that of the weights, and the rest is of norms, as shares of those of each query.

    Attributes:
        entropy: the queries' mean, in nats.
        uniform_entropy: what it would be if every query gave the same weight to each key that it sees.
        sinks: the keys that get the most weight, the strongest first.
        local: the mean weight that a query gives to keys near its own position; None in source-target attention.
        strongest: the largest weight of all, but of a query that sees a single key, which must have all of it.
        farthest: of the queries that give a strong weight to their strongest key, the one that has it farthest away;
            None if there is none, and in source-target attention.
        entropies: of each row of cells, the mean of its queries that see a key; NaN of none. Empty: not known.
    """

    entropy: float
    uniform_entropy: float
    sinks: tuple[Sink, ...]
    local: float | None
    strongest: Link
    farthest: Link | None
    entropies: tuple[float, ...] = ()


@dataclass(frozen=True)
class MapSummary:
    """The summary of every head of a map.

    Attributes:
        heads: in the order of the map's heads.
        queries: how many are counted; their weights are on all keys, whatever part of them is shown.
        near: up to so many positions away is local.
        strong: a weight from here on is strong.
    """

    heads: tuple[HeadSummary, ...]
    queries: int
    near: int
    strong: float

"""Summary of a map of any length: a few numbers for each head."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sink:
    """Key that gets much weight. ``received``: its weight, summed over the queries.

    In a map of norms, ``received`` is the key's share of all norms, times the number of queries.
    """

    key: int
    token: str
    received: float


@dataclass(frozen=True)
class Link:
    """Weight, or share of norms, of the query at one position on the key at another."""

    query: int
    query_token: str
    key: int
    key_token: str
    weight: float


@dataclass(frozen=True)
class HeadSummary:
    """Summary of one head over all queries of the map that see a key. Positions are those in the whole input.

    In a map of norms, entropies are those of the weights; all else uses norms as shares of the norms of each query.

    Attributes:
        entropy: mean entropy of a query's weights, in nats.
        uniform_entropy: entropy if each query gave the same weight to all keys that it sees.
        sinks: the keys that get the most weight, the strongest first.
        local: mean weight of a query on keys near its own position; None in source-target attention.
        strongest: the largest weight. Queries that see a single key are left out, as it must have all the weight.
        farthest: the link to the most distant key among queries whose largest weight is strong; None: there is none,
            or it is source-target attention.
        entropies: mean entropy of the queries in each row of cells that see a key; NaN: none does. Empty: not known.
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
    """Summary of each head of a map.

    Attributes:
        heads: one for each head, in the order of the map.
        queries: number of queries that are summarised. All keys are counted, whichever of them are shown.
        near: a key is local if it is at most this many positions away.
        strong: a weight is strong if it is at least this large.
    """

    heads: tuple[HeadSummary, ...]
    queries: int
    near: int
    strong: float

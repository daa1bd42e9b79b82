"""Maps of a program's attentions, computed as these run, since their tensors are only valid during the call."""

import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhaviz.analyses.growing_map import GrowingMap
from mhaviz.analyses.pooled_maps import pooled_of_call
from mhaviz.analyses.weights import weight_map
from mhaviz.attention.call import AttentionWeights
from mhaviz.attention.model import SiteCall, with_plain_mask
from mhaviz.attention.pooled_map import Pooling
from mhaviz.devices import float_array, held_bytes
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import ANSWER, PROMPT, Segment, Tokens
from mhaviz.results.attention import AttentionMap, heads_text


class RecordedMap(NamedTuple):
    """Map with the number of its attention, the indices of its pass and example, the number of its window of the
    example, and the batch size of the pass."""

    number: int
    pass_number: int
    example: int
    window: int
    batch_size: int
    map: AttentionMap


@dataclass
class _KeptMap:
    """Map of one attention in one pass, for one example.

    Attributes:
        batch_size: number of examples in the first run.
        map: the map of the first run; None: further steps have been added.
        queries, keys: tokens of all runs so far.
        growing: the map to which further steps have been added; None: there was one run only.
        left_out: positions of keys that are padding.
        k_length, q_length: number of keys and queries so far, padding included.
        bytes: memory of the map, as it was last counted.
        n_given: number of queries of the first run.
    """

    batch_size: int
    map: AttentionMap | None
    queries: Tokens
    keys: Tokens
    growing: GrowingMap | None
    left_out: frozenset[int]
    k_length: int
    q_length: int
    bytes: int = 0
    n_given: int = 0

    def _with_turns(self, tokens: Tokens) -> Tokens:
        """Return tokens around an image with what was given and what the program has written as turns."""
        if not tokens.images or tokens.turns or len(tokens) <= self.n_given:
            return tokens
        turns = Segment(PROMPT, 0, self.n_given), Segment(ANSWER, self.n_given, len(tokens))
        return replace(tokens, turns=turns)

    def result(self) -> AttentionMap:
        if self.growing is not None:
            return self.growing.result(*(self._with_turns(tokens) for tokens in (self.queries, self.keys)))
        assert self.map is not None
        return self.map


class RecordedMaps:
    """Maps of all attentions that have run.

    Args:
        pooling: pooling of inputs that are longer than its size, and of all inputs if it names a reduction.
        keep: keep queries and keys beside the maps, except for passes that are generated step by step.

    Attributes:
        bytes: memory of all maps.
    """

    def __init__(self, pooling: Pooling, keep: bool) -> None:
        self._pooling, self._keep = pooling, keep
        self._most = min(pooling.most)
        self._kept: dict[tuple[int, int, int, int], _KeptMap] = {}
        self.bytes = 0

    @property
    def numbers(self) -> list[int]:
        """The number of the attention of each map."""
        return [number for number, *_ in self._kept]

    @property
    def batch_sizes(self) -> list[tuple[int, int, int]]:
        """The number of the attention, the index of the pass, and the batch size of each map."""
        return [(number, pass_number, kept.batch_size) for (number, pass_number, *_), kept in self._kept.items()]

    def add(
        self,
        seen: SiteCall,
        pass_number: int,
        example: int,
        batch_size: int,
        first_query: int = 0,
        grows: bool = True,
        window: int = 0,
    ) -> None:
        """Add a run of an attention on one example of a batch.

        Args:
            seen: the call, on this example.
            pass_number, example, batch_size: index of the pass, index of the example, and number of examples.
            first_query: position of the first query of a step that continues a pass; 0: a new pass.
            grows: whether each query of the step adds a key; otherwise the keys stay the same.
            window: number of the window of the example that the call is of.

        Raises:
            MhavizError: the map does not fit into memory; a weight is NaN or infinity.
        """
        key = seen.site.number, pass_number, example, window
        if first_query:
            kept = self._kept.get(key)
            # Otherwise the pass had begun before the recording, or steps were left out for want of memory.
            if kept is not None and first_query == kept.q_length:
                try:
                    self._continue(kept, seen, grows)
                except MhavizError:  # later steps would be at wrong positions
                    self.forget(*key)
                    raise
            return
        padding, (_, _, q_length, k_length) = seen.padding, seen.call.shape
        left_out = frozenset() if padding is None else frozenset((~padding.keys[0]).nonzero().flatten().tolist())
        seen = with_plain_mask(seen.without_padding())
        (queries,), (keys,) = seen.queries, seen.keys
        longest = max(seen.call.shape[2:])
        if longest <= self._most and self._pooling.reduce is None:
            m = weight_map(seen, keep=self._keep)
        else:
            m = pooled_of_call(seen, self._pooling, self._keep)
        _require_finite(m.weights, seen)
        if isinstance(seen.call, AttentionWeights):  # the program may overwrite its own
            m = replace(m, weights=m.weights.copy())
        elif self._keep:
            m = replace(m, queries_and_keys=deepcopy(m.queries_and_keys))
        self.forget(*key)
        self._kept[key] = _KeptMap(
            batch_size, m, queries, keys, None, left_out, k_length, q_length, n_given=len(queries)
        )
        self._count(self._kept[key])

    def forget(self, number: int, pass_number: int, example: int, window: int = 0) -> None:
        """Drop the maps of an attention in a pass for an example, if there are any."""
        kept = self._kept.pop((number, pass_number, example, window), None)
        if kept is not None:
            self.bytes -= kept.bytes

    def move(self, number: int, pass_number: int, places: Sequence[int]) -> None:
        """Let each example of a pass go on from another one.

        Args:
            number, pass_number: index of the attention and of its pass.
            places: for each example, the one whose map it goes on from.
        """
        before = [self._kept.get((number, pass_number, place, 0)) for place in places]
        for example, kept in enumerate(before):
            if example == places[example]:
                continue
            self.forget(number, pass_number, example)
            if kept is not None:
                growing = None if kept.growing is None else kept.growing.copy()
                moved = self._kept[number, pass_number, example, 0] = replace(kept, growing=growing, bytes=0)
                self._count(moved)

    def _count(self, kept: _KeptMap) -> None:
        """Count the memory of a map that has changed."""
        before, grown = kept.bytes, 0 if kept.growing is None else kept.growing.bytes
        kept.bytes = held_bytes(_arrays_of(kept.map)) + grown
        self.bytes += kept.bytes - before

    def forget_pass(self, number: int, pass_number: int) -> None:
        """Drop the maps of an attention in a pass for all examples."""
        for key in [key for key in self._kept if key[:2] == (number, pass_number)]:
            self.forget(*key)

    def _continue(self, kept: _KeptMap, seen: SiteCall, grows: bool) -> None:
        (queries,) = seen.queries
        weights = float_array(seen.call.weights()[0])
        kept.q_length += weights.shape[1]
        kept.k_length += weights.shape[1] if grows else 0
        if kept.left_out:  # the mask of a step does not distinguish padding from keys outside a sliding window
            first_key = kept.k_length - weights.shape[2]
            weights = weights[..., [key for key in range(weights.shape[2]) if first_key + key not in kept.left_out]]
        _require_finite(weights, seen)
        kept.queries = kept.queries + queries
        kept.keys = kept.keys + queries if grows else kept.keys
        if kept.growing is None:
            kept.growing, kept.map = GrowingMap(kept.result(), self._most), None
        kept.growing.add(weights, grows)
        self._count(kept)

    def result(self, is_wanted: Callable[[int], bool]) -> list[RecordedMap]:
        """Return the maps of attentions whose numbers are wanted, ordered by pass, example, attention and window."""
        every = [(key, kept) for key, kept in self._kept.items() if is_wanted(key[0])]
        found = [RecordedMap(*key, kept.batch_size, replace(kept.result(), sentence=None)) for key, kept in every]
        return sorted(found, key=lambda one: (one.pass_number, one.example, one.number, one.window))


def _arrays_of(x: object) -> Iterator[NDArray[Any]]:
    """Iterate over the arrays in maps, and in what is kept beside them."""
    if isinstance(x, np.ndarray):
        yield x
    elif isinstance(x, list | tuple):
        for one in x:
            yield from _arrays_of(one)
    elif is_dataclass(x) and not isinstance(x, Tokens):
        for of_x in fields(x):
            yield from _arrays_of(getattr(x, of_x.name))


def _require_finite(weights: NDArray[np.float32], seen: SiteCall) -> None:
    """Raise MhavizError if a weight is NaN or infinity. Checking the weights is faster than checking their inputs."""
    if not math.isfinite(weights.sum()):  # shares of 1 never sum to infinity
        places = np.flatnonzero(~np.isfinite(weights).all(axis=(1, 2)))
        which = heads_text(seen.site.layer, [seen.heads[place] for place in places], len(weights))
        raise MhavizError(f"expected weights that are numbers, got NaN or infinity in {which}")

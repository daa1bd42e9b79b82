"""What a recording has caught of a program, beside what the program itself says."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import mhaviz
from mhaviz.results.attention import AttentionMap
from zoo.program import Entry, Program, Weights, same_bits

Recorder = Callable[[nn.Module, list[Weights]], AbstractContextManager[Any]]
"""Records a model, and adds each attention that it catches to the list: its name, and its weights, (batch_size,
n_heads, q_length, k_length)."""


@dataclass(frozen=True)
class Found:
    """What was found in one program.

    Attributes:
        own: the names of the model's own attentions, and for each the largest difference; None: it has not been caught.
        names: of the modules of what has been caught, in order.
        others: what has been caught and is none of the model's attentions.
        same_bits: whether the program's output was the same with and without a recording.
        notices: what the recording said of what it had not seen, or of what is no map of tokens.
    """

    own: tuple[tuple[str, float | None], ...]
    names: tuple[str, ...]
    others: tuple[str, ...]
    same_bits: bool
    notices: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether everything was caught, and nothing else."""
        return self.n_caught == len(self.own) > 0 and not self.others

    @property
    def n_caught(self) -> int:
        return sum(difference is not None for _, difference in self.own)

    @property
    def largest(self) -> float:
        return max((difference for _, difference in self.own if difference is not None), default=0.0)


@contextmanager
def record(model: nn.Module, caught: list[Weights]) -> Iterator[mhaviz.Recording]:
    """The recorder of mhaviz, as a user has it: the maps of one attention are one tensor."""
    with mhaviz.record(model, examples="all") as recording:
        yield recording
    recording._result._of_one_batch = lambda found: (found, "")  # type: ignore[method-assign]  # each is compared by itself
    maps: dict[str, list[AttentionMap]] = {}
    every = () if recording.is_empty else recording.attention.maps
    for one in (window for m in every for window in m.windows or (m,)):
        maps.setdefault(one.module, []).append(one)
    caught += [
        (name, torch.stack([with_padding(one, examples) for one in examples])) for name, examples in maps.items()
    ]


def with_padding(m: AttentionMap, others: Sequence[AttentionMap]) -> Tensor:
    """The weights of a map; 0 for keys that are padding, and NaN for queries, neither of which is drawn."""
    if len({one.weights.shape for one in others}) == 1:
        return torch.from_numpy(m.weights)
    sides = [[list(map(int, side)) for side in (one.queries, one.keys)] for one in others]
    n_rows, n_columns = (1 + max(max(one[side]) for one in sides) for side in (0, 1))
    rows, columns = (list(map(int, side)) for side in (m.queries, m.keys))
    weights = torch.full((len(m.weights), n_rows, n_columns), torch.nan)
    weights[:, rows] = torch.zeros(len(m.weights), len(rows), n_columns).index_copy(
        2, torch.tensor(columns), torch.from_numpy(m.weights)
    )
    return weights


def measure(program: Program, tolerance: float, recorder: Recorder = record) -> Found:
    """Run it with and without a recording."""
    before = program.run()
    caught: list[Weights] = []
    with recorder(program.model, caught) as recording:
        during = program.run()
    notices = tuple(getattr(recording, "notices", ()))
    same = same_bits(before, during) and same_bits(before, program.run())
    own, left = [], list(range(len(caught)))
    for name, weights in program.own():
        differences = [(difference(weights, caught[i][1]), i) for i in left]
        best, which = min(differences, default=(torch.inf, -1))
        own.append((name, best if best <= tolerance else None))
        if best <= tolerance:
            left.remove(which)
    return Found(tuple(own), tuple(name for name, _ in caught), tuple(caught[i][0] for i in left), same, notices)


def difference(own: Tensor, caught: Tensor) -> float:
    """The largest difference between weights; infinite if their sizes are not the same.

    Four axes are a batch and its heads. Where the model has more or fewer, windows on an axis of their own or the heads
    beside the batch, any order of them will do.
    """
    if own.shape[-2:] != caught.shape[-2:] or own.numel() != caught.numel():
        return torch.inf
    if own.dim() == 4:
        return float((own - caught).abs()[~caught.isnan()].max()) if own.shape == caught.shape else torch.inf
    flat = caught.flatten(0, -3)
    rest = own.dim() - 2
    orders = (own.permute(*order, -2, -1).flatten(0, -3) for order in itertools.permutations(range(rest)))
    return min(float((one - flat).abs()[~flat.isnan()].max()) for one in orders)


def measure_entry(entry: Entry, recorder: Recorder = record) -> Found:
    return measure(entry.make(), entry.tolerance, recorder)

"""Health of the attention of a program in training: what scores and weights of each head become over its passes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mhaviz.inputs.tokens import Kind
from mhaviz.results.attention import head_name
from mhaviz.results.result import RowsResult, ShortRepr, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

ONE_HOT = 0.99
"""A row of weights counts as one-hot if its largest weight is above this."""

COLLAPSED = 0.02
"""Entropy, as a share of that of uniform weights, below which a head may have collapsed."""

SHARP_SCORE = 50.0
"""Largest score of a head that may be sharp as it should be. exp(−50) is 0 beside 1 in any precision."""

Sign = Literal["entropy", "scores", "not finite"]
"""Sign of a collapse: entropy falls to 0, scores grow without bound, or weights or scores are NaN or infinite."""


@dataclass(frozen=True)
class Collapse(ShortRepr):
    """Collapse of a head.

    Attributes:
        sign: what tells it.
        kind, layer, head: the head.
        pass_number: sampled pass in which the sign is first seen.
        value: entropy, or largest score, in that pass; of "not finite" the score, which may be finite where the
            weights are not, and is NaN where it is not known.
        uniform: entropy of uniform weights in that pass.
        before: entropy, or largest score, in the pass that it is compared with.
        before_pass: number of that pass.
    """

    sign: Sign
    kind: Kind
    layer: int
    head: int
    pass_number: int
    value: float
    uniform: float
    before: float
    before_pass: int

    @property
    def name(self) -> str:
        """Name of the head, "L0 H2"."""
        return head_name(self.layer, self.head)


@dataclass(frozen=True)
class LayerHealth(ShortRepr):
    """Health of the heads of one attention, in each sampled pass in which it ran.

    Rows are the queries of all examples of the pass that are no padding. A row with a single visible key, such as the
    first of a causal map, has no choice, and counts for ``largest`` alone. Where rows sum to less than 1, because a
    sink takes the rest, entropy is that of a(i, j) / Σ_j a(i, j).

    Attributes:
        kind, layer: kind of attention, and its place among the attentions of this kind.
        module: name of the module.
        heads: numbers of the heads.
        passes: int64, (n_samples,), numbers of the passes.
        training: bool, (n_samples,), whether the outermost module was in training mode.
        largest: float64, (n_samples, n_heads), largest score before the softmax, over queries and visible keys: q·k
            times the scale, capped and with the bias that the attention has; NaN where only weights are known.
        entropy: float64, (n_samples, n_heads), as in ``HeadAverages``, in nats: mean of −Σ_j a(i, j) ln a(i, j).
        uniform: float64, (n_samples, n_heads), entropy of the same weight on all visible keys: mean of ln(number of
            these).
        sink: float64, (n_samples, n_heads), as in ``HeadAverages``: share of the examples in which the mean weight on
            the first key is above ``SINK_ABOVE``; NaN where it is not known which key is the first.
        one_hot: float64, (n_samples, n_heads), share of the rows whose largest weight is above ``ONE_HOT``.
    """

    kind: Kind
    layer: int
    module: str
    heads: tuple[int, ...]
    passes: NDArray[np.int64]
    training: NDArray[np.bool_]
    largest: NDArray[np.float64]
    entropy: NDArray[np.float64]
    uniform: NDArray[np.float64]
    sink: NDArray[np.float64]
    one_hot: NDArray[np.float64]


NUMBERS = ("largest", "entropy", "uniform", "sink", "one_hot")
"""Names of the numbers of ``LayerHealth``, in order."""


@dataclass(frozen=True)
class Health(RowsResult):
    """Health of the attention of a program in training.

    Attributes:
        every: each pass whose number this divides was sampled.
        passes: number of passes of the program so far.
        layers: health of each attention.
        collapses: heads that have collapsed, in the order in which this was seen; at most one for each head and sign.
    """

    source: Source
    every: int
    passes: int
    layers: "tuple[LayerHealth, ...]"
    collapses: "tuple[Collapse, ...]"

    @property
    def kinds(self) -> "Sequence[Kind]":
        """Kinds of attention, each once."""
        return list(dict.fromkeys(layer.kind for layer in self.layers))

    def name_of(self, kind: Kind, layer: int, head: int) -> str:
        """Return the name of a head, "cross L0 H2" where there are other kinds of attention."""
        return f"{kind} " * (len(self.kinds) > 1) + head_name(layer, head)

    @property
    def n_samples(self) -> int:
        """Number of sampled passes."""
        return len({int(number) for layer in self.layers for number in layer.passes})

    @property
    def sharp_from_start(self) -> list[str]:
        """Names of the heads whose entropy is as low, and whose scores are as large, as of a collapse in all samples.
        Whether they have collapsed before the first, or have learnt to be sharp, is not known."""
        return [
            self.name_of(layer.kind, layer.layer, head)
            for layer in self.layers
            for column, head in enumerate(layer.heads)
            if bool((layer.entropy[:, column] < COLLAPSED * layer.uniform[:, column]).all())
            and bool((layer.largest[:, column] > SHARP_SCORE).all())
        ]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows of a table, one for each pass, layer and head, pass by pass.

        Unknown numbers are NaN. ``collapsed`` has the signs that are first seen in the pass.
        """
        signs: dict[tuple[Kind, int, int, int], list[str]] = {}
        for collapse in self.collapses:
            where = collapse.kind, collapse.layer, collapse.head, collapse.pass_number
            signs.setdefault(where, []).append(collapse.sign)
        samples = [(int(number), i, layer) for layer in self.layers for i, number in enumerate(layer.passes)]
        for number, i, layer in sorted(samples, key=lambda sample: sample[0]):
            about = {"pass": number, "training": bool(layer.training[i]), "module": layer.module, "kind": layer.kind}
            for column, head in enumerate(layer.heads):
                numbers = {name: float(getattr(layer, name)[i, column]) for name in NUMBERS}
                collapsed = ", ".join(signs.get((layer.kind, layer.layer, head, number), ()))
                yield about | {"layer": layer.layer, "head": head} | numbers | {"collapsed": collapsed}

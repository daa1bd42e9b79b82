"""The steps of an attention as a program takes them, with the program's own tensors.

A recording reads an attention once it is whole, and refuses one whose axes it cannot name. Whoever looks for mistakes
needs the steps of such an attention as well, and the graph of its gradients.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from mhaviz.observe.handlers import Done
from mhaviz.observe.products import Product

StepName = Literal["projection", "scores", "combined", "softmax", "values", "unweighed", "fused", "dropout"]


@dataclass(frozen=True)
class Step:
    """A step, seen right after it was taken.

    Attributes:
        name: "projection": activations were multiplied by fixed rows, such as parameters. "scores": two activations
            were multiplied. "combined": scores or weights met another tensor, such as a mask. "softmax": a softmax ran
            over what became of scores, "values": its weights met values. "unweighed": scores met values without a
            softmax. "fused": a call of ``F.scaled_dot_product_attention``. "dropout": numbers were dropped.
        result: the tensor that the step has made.
        given: the tensors that it was made of, in the program's own axes. Of "fused", these are queries, keys, values,
            and the mask if there is one. Of "combined", they are the others.
        product: the product; None: of other steps.
        number: of the product that has made the scores; None: not known, or of other steps.
        axis: of "softmax", the axis that it ran over, counted from the end.
        which: of "values" and "unweighed", the number of the factor that is the weights.
        along: of "values", the axes of the weights that the softmax ran over, counted from the end; empty: not known.
        scale: of "fused", the factor of q·k.
        module: name of the module that runs; "": none.
        file, line: of the program; "" and 0: not known.
    """

    name: StepName
    result: Tensor
    given: Sequence[Tensor] = ()
    product: Product | None = None
    number: int | None = None
    axis: int | None = None
    which: int = 0
    along: tuple[int, ...] = ()
    scale: float | None = None
    module: str = ""
    file: str = ""
    line: int = 0


OnStep = Callable[[Step], None]
"""Callback for each step of an attention."""


TakeStep = Callable[..., None]
"""Function that is called with the fields of a ``Step`` but its place in the program."""


def others_than(x: Tensor, done: Done) -> tuple[Tensor, ...]:
    """Return the tensors of a call that are not ``x`` and no single numbers."""
    found = (one for one in done.each() if isinstance(one, Tensor) and one is not x and one is not done.result)
    return tuple(one for one in found if one.ndim > 1 and one.numel() > 1)


def no_steps(*args: object, **kwargs: object) -> None:
    """Take no note of a step, as recordings do: a step is not even made."""

"""The attentions of a pass, as its steps tell: queries, keys, weights, values, and the roles of their axes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mhaviz.observe.products import Product
from mhaviz.observe.steps import Step


@dataclass
class Seen:
    """An attention that a layer has computed.

    Attributes:
        query, key, value: the tensors that were multiplied, in the program's own axes; None: not seen.
        query_axes, key_axes: letters of their axes; the letter that both have and ``score_axes`` lacks is of features.
        score_axes: letters of the scores.
        value_axes: letters of the values in the product with weights; "": not seen, or a fused kernel.
        softmaxes: softmaxes of the scores; empty for a fused kernel.
        values: the step in which weights met values; None: not seen, or a fused kernel.
        fused: the call of a fused kernel; None: none.
        scores: the step that has made the scores; None: a fused kernel.
    """

    query: Tensor
    key: Tensor
    query_axes: str
    key_axes: str
    score_axes: str
    value: Tensor | None = None
    value_axes: str = ""
    softmaxes: list[Step] = field(default_factory=list)
    values: Step | None = None
    fused: Step | None = None
    scores: Step | None = None

    @property
    def step(self) -> Step:
        """The step at which it is named: of its scores, or its kernel."""
        step = self.fused or self.scores
        assert step is not None
        return step

    @property
    def d_key(self) -> int:
        """Number of features over which q·k is summed."""
        return self.query.shape[self.features[0]]

    @property
    def features(self) -> tuple[int, int]:
        """Axes of the features of the queries and of the keys."""
        (letter, *_) = [one for one in self.query_axes if one in self.key_axes and one not in self.score_axes]
        return self.query_axes.index(letter), self.key_axes.index(letter)

    @property
    def axes_of_values(self) -> tuple[int, int] | None:
        """Axes of the features and of the tokens of the values; None: not known."""
        if self.value is None:
            return None
        if self.fused is not None:
            return self.value.ndim - 1, self.value.ndim - 2
        step, key, letters = self.values, self.key_axis, self.value_axes
        if step is None or step.product is None or key is None:
            return None
        product, which = step.product, step.which
        features = [axis for axis, letter in enumerate(letters) if letter not in product.axes[which]]
        letter = product.axes[which][key]
        if len(features) != 1 or letter not in letters:
            return None
        return features[0], letters.index(letter)

    @property
    def products(self) -> Tensor:
        """q·k, in the axes of the scores, without a graph."""
        equation = f"{self.query_axes},{self.key_axes}->{self.score_axes}"
        with torch.no_grad():
            return torch.einsum(equation, self.query.detach().cpu().float(), self.key.detach().cpu().float())

    @property
    def letters(self) -> tuple[str, str, str]:
        """Letters of the scores that queries and keys share, the letter of the queries, and that of the keys.

        Heads that share keys are letters of the queries, too, and stand among the first.
        """
        keys = [one for one in self.score_axes if one not in self.query_axes]
        queries = [one for one in self.score_axes if one not in self.key_axes]
        key, query = keys[-1:] or [self.score_axes[-1]], queries[-1:] or [self.score_axes[-2]]
        rest = "".join(one for one in self.score_axes if one not in (query[0], key[0]))
        return rest, query[0], key[0]

    def by_head(self, x: Tensor, batch_size: int) -> Tensor | None:
        """Return x, in the axes of the scores, as (batch_size, n_heads, q_length, k_length); None: batch is no axis."""
        rest, query, key = self.letters
        order = [self.score_axes.index(letter) for letter in (*rest, query, key)]
        if x.ndim != len(order):
            return None
        return _with_batch(x.permute(order), batch_size)

    @property
    def softmax(self) -> Tensor | None:
        """What the first softmax has made; None: not seen."""
        return self.softmaxes[0].result.detach().cpu() if self.softmaxes else None

    @property
    def softmax_as_met(self) -> Tensor | None:
        """What the first softmax has made, in the axes of the weights that met values; None: not seen, or turned."""
        made, A = self.softmax, self.weights
        if made is None or A is None or self.values is None or made.shape != A.shape:
            return None
        return made if self.softmaxes[0].axis in self.values.along else None

    @property
    def weights(self) -> Tensor | None:
        """The weights that met values, in the program's own axes; None: not seen."""
        return None if self.values is None else self.values.given[self.values.which].detach().cpu()

    @property
    def key_axis(self) -> int | None:
        """Axis of the weights that is summed in the product with values, counted from 0; None: not seen."""
        if self.values is None or self.values.product is None:
            return None
        return _key_axis(self.values.product, self.values.which)

    @property
    def query_axis(self) -> int | None:
        """Axis of the weights that the values lack, counted from 0; the last if there are several; None: not seen."""
        if self.values is None or self.values.product is None:
            return None
        product, which = self.values.product, self.values.which
        alone = [
            axis
            for axis, letter in enumerate(product.axes[which])
            if letter in product.result and letter not in product.others(which)
        ]
        return alone[-1] if alone else None

    def weights_by_head(self, batch_size: int) -> Tensor | None:
        """Return the weights that met values, (batch_size, n_heads, q_length, k_length); None: not known."""
        A, key, query = self.weights, self.key_axis, self.query_axis
        if A is None or key is None or query is None:
            return None
        rest = [axis for axis in range(A.ndim) if axis not in (key, query)]
        return _with_batch(A.permute(*rest, query, key), batch_size)

    @property
    def output(self) -> Tensor | None:
        """The weighted values, with their graph; None: not seen."""
        step = self.values or self.fused
        return None if step is None else step.result


def _with_batch(x: Tensor, batch_size: int) -> Tensor | None:
    """Return x, (…, q_length, k_length), with a batch axis first, and one axis of heads."""
    if x.ndim < 3 or x.shape[0] % batch_size:
        return None
    return x.reshape(batch_size, -1, *x.shape[-2:])


def _place_of_values(step: Step) -> int | None:
    """Return which factor holds the values: the only other factor that has the axis of the keys; None: not known."""
    product = step.product
    axis = None if product is None else _key_axis(product, step.which)
    if product is None or axis is None:
        return None
    letter = product.axes[step.which][axis]
    return next(n for n, letters in enumerate(product.axes) if n != step.which and letter in letters)


def _key_axis(product: Product, which: int) -> int | None:
    """Return the axis of the weights that is summed and that a single other factor has; None: not a single one.

    Heads are summed as well where an output projection is multiplied at once, which has them, too.
    """
    letters = product.axes[which]
    summed = [axis for axis in range(len(letters)) if product.summed_over(axis, which)]
    keys = [axis for axis in summed if sum(letters[axis] in axes for axes in product.axes) == 2]
    return keys[0] if len(keys) == 1 else None


def _is_turned(scores: Step, softmaxes: Sequence[Step], values: Step) -> bool:
    """Return whether the first factor of the scores holds the keys: those that the softmax and the values share."""
    product, met = scores.product, values.product
    if product is None or met is None or not softmaxes or softmaxes[0].axis is None:
        return False
    weights = values.given[values.which]
    is_met = any(met.summed_over(weights.ndim + axis, values.which) for axis in values.along)
    if not is_met or softmaxes[0].result.ndim != len(product.result):
        return False
    letter = product.result[softmaxes[0].axis]
    return letter in product.axes[0] and letter not in product.axes[1]


def attentions_of(steps: Sequence[Step]) -> list[Seen]:
    """Return the attentions of a pass, in the order of their values. Products of which no values are made are left
    out."""
    softmaxes: dict[int, list[Step]] = {}
    products: dict[int, Step] = {}
    found: list[Seen] = []
    for step in steps:
        if step.name == "scores" and step.number is not None:
            products[step.number] = step
        elif step.name == "softmax" and step.number is not None:
            softmaxes.setdefault(step.number, []).append(step)
        elif step.name == "fused":
            query, key, value = step.given[:3]
            batch = "ABCDEFG"[: query.ndim - 2]
            of_keys = batch[len(batch) - (key.ndim - 2) :]
            if key.ndim > 2 and key.shape[-3] != query.shape[-3]:  # groups of heads share keys
                repeats = query.shape[-3] // key.shape[-3]
                key, value = (x.repeat_interleave(repeats, -3) for x in (key, value))
            found.append(Seen(query, key, f"{batch}xy", f"{of_keys}zy", f"{batch}xz", value, fused=step))
        elif step.name in ("values", "unweighed") and step.number in products and step.product is not None:
            scores = products[step.number]
            place = _place_of_values(step)
            if scores.product is None or len(scores.product.factors) != 2 or place is None:
                continue
            is_again = any(one.scores is scores for one in found)
            if is_again:
                continue
            (query, key), (first, second) = scores.product.factors, scores.product.axes
            if _is_turned(scores, softmaxes.get(step.number, []), step):
                query, key, first, second = key, query, second, first
            found.append(
                Seen(
                    query,
                    key,
                    first,
                    second,
                    scores.product.result,
                    step.product.factors[place],
                    step.product.axes[place],
                    softmaxes.get(step.number, []),
                    step,
                    scores=scores,
                )
            )
    return found

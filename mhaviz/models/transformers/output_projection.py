"""Finding the output projection W_O of each attention of a model, by numbering the features of the heads' output.

All features of the heads' output are numbered. The output is overwritten with the digits of these numbers, one digit
for each token, scaled to the size of the output so that a clamp would change them. The model then continues. The input
of the next linear layer shows which row of its weight belongs to which feature of which head, however the model is
written. Two checks must hold: the output of the heads is A V, and the layer's output is its weight and bias applied to
its input.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mhaviz.attention.call import AttentionCall
from mhaviz.attention.model import Site
from mhaviz.attention.norms import gram_matrices
from mhaviz.errors import MhavizError, parameter
from mhaviz.models.transformers.load import Loaded
from mhaviz.models.transformers.run import Fields, ModuleRun, modules_hooked, run_hooked
from mhaviz.models.transformers.spread import weight_at_hand
from mhaviz.observe.handlers import unseen
from mhaviz.observe.observed import ObservedCall, WeightedValues
from mhaviz.units import with_minus

TOLERANCE = 1e-5
"""Largest difference of an output in float32 from its expected value, as a share of the largest number."""

ROUNDINGS = 16
"""Largest difference in coarser types, in roundings of the largest number."""

_TOKENS, _BASE, _MOST, _MOST_SCALE = 5, 256, 2**24, 15
"""Number of digits; their base, as bfloat16 has this many evenly spaced numbers from −1 to 1; most features of one
attention; and the exponent of the largest scale, which float16 limits."""


@dataclass
class _Heads:
    """Findings on one attention.

    Attributes:
        weighted: values and output of the heads; None: not known.
        scale: scale of the digits that were written.
        differences: differences of outputs from their expected values, as shares of the largest number: of the heads'
            output, and of the output of each linear layer that reads it.
        grams: result of ``gram_matrices`` for each of these layers.
    """

    weighted: WeightedValues | None
    scale: float = 0.0
    differences: list[float] = field(default_factory=list)
    grams: list[Tensor] = field(default_factory=list)


def output_grams(loaded: Loaded, sites: Iterable[Site], inputs: Fields) -> Mapping[int, Tensor]:
    """Compute ``gram_matrices`` of W_O of each attention, by the site's number.

    Args:
        loaded: the model.
        sites: the attentions.
        inputs: inputs of the model: a text, and a target if it has a decoder, of at least five tokens each.

    Raises:
        MhavizError: the values of an attention are not known; the heads' output does not go unchanged into one linear
            layer, as with a gate; the layer computes something else than its weight and bias do.
    """
    wanted = {site.number: site for site in sites}
    found: dict[int, _Heads] = {}

    def write(number: int, observed: ObservedCall) -> None:
        if number in wanted:
            weighted = weighted_of(observed)
            found[number] = _Heads(weighted)
            if weighted is not None:
                found[number].differences.append(_difference_of_heads(observed, weighted))
                with unseen():
                    found[number].scale = _write_numbers(weighted, number * _MOST)

    def read(run: ModuleRun) -> None:
        made = run.made[0] if isinstance(run.made, tuple) else run.made  # I-BERT's layers also return a scale
        if run.read and isinstance(getattr(run.module, "weight", None), Tensor) and isinstance(made, Tensor):
            number, rows, scale = _numbers_in(run.read[0])
            if rows is not None and number in found and scale == found[number].scale:
                _add_gram(found[number], rows, run.module, run.read[0], made)

    with modules_hooked(loaded.model, read):
        run_hooked(loaded, inputs, write)
    return {number: _gram(loaded, site, found[number]) for number, site in wanted.items()}


def weighted_of(observed: ObservedCall) -> WeightedValues | None:
    """Return the values of an attention and the tensor with its heads' output; None: not known."""
    is_projected_within = isinstance(observed.call, AttentionCall) and observed.zero is None
    return None if observed.weighted is None or is_projected_within else observed.weighted()


def _difference_of_heads(observed: ObservedCall, weighted: WeightedValues) -> float:
    """Return the difference of A V from the heads' output, as a share of the largest number."""
    call, made = observed.call, weighted.arrange(weighted.made)
    if isinstance(call, AttentionCall):
        return _difference(call.output(), made)
    return _difference(call.weights().to(weighted.value.dtype) @ weighted.value, made)


def _difference(expected: Tensor, made: Tensor) -> float:
    largest = float(made.abs().max()) or 1.0
    return float((expected - made.to(expected.dtype)).abs().max()) / largest


def _write_numbers(weighted: WeightedValues, first: int) -> float:
    """Overwrite the heads' output with the numbers of its features, one digit for each token; return their scale.

    ``first``: number of the first feature.
    """
    made = weighted.made
    scale = 2.0 ** min(max(math.frexp(float(made.abs().max()))[1], -_MOST_SCALE), _MOST_SCALE)
    places = weighted.arrange(torch.arange(made.numel(), device=made.device).view(made.shape))
    _, n_heads, q_length, d_value = places.shape
    numbers = first + torch.arange(n_heads * d_value, device=made.device).view(n_heads, 1, d_value)
    powers = _BASE ** torch.arange(q_length, device=made.device).clamp(max=_TOKENS).view(-1, 1)
    digits = (numbers // powers % _BASE).expand(places.shape)
    written = made.new_empty(made.numel())
    written[places.flatten()] = ((digits.flatten() * (2 / _BASE) - 1) * scale).to(made.dtype)
    made.copy_(written.view(made.shape))
    return scale


def _numbers_in(x: object) -> tuple[int, Tensor | None, float]:
    """Decode the numbers of features in the input of a module.

    Returns:
        The number of the attention; the feature in each place, or None if the input is no run of features; the scale.
    """
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim < 2:
        return 0, None, 0.0
    rows = x.detach().reshape(-1, x.shape[-1])[:_TOKENS].float()
    scale = float(rows.abs().max())  # as some digit of the first feature is 0, which is written as −scale
    digits = ((rows / (scale or 1.0) + 1) * (_BASE / 2)).nan_to_num().long()
    is_whole = torch.equal((digits * (2 / _BASE) - 1) * scale, rows) and not bool((digits >= _BASE).any())
    if len(rows) < _TOKENS or not is_whole:
        return 0, None, scale
    numbers = (digits * _BASE ** torch.arange(_TOKENS, device=x.device)[:, None]).sum(dim=0)
    first = int(numbers.min())
    every = torch.arange(first, first + len(numbers), device=x.device)
    return first // _MOST, numbers - first if torch.equal(numbers.sort().values, every) else None, scale


def _add_gram(heads: _Heads, rows: Tensor, module: nn.Module, x: Tensor, made: Tensor) -> None:
    """Add the gram matrices of a module's weight as W_O, and the difference of its output from what W_O and bias give.

    A module that reads only a part of the features is ignored.

    Args:
        heads: findings on the attention, which are changed.
        rows: the feature of each row of the weight.
        module: the module.
        x: its input.
        made: its output.
    """
    assert heads.weighted is not None
    _, n_heads, _, d_value = heads.weighted.arrange(heads.weighted.made).shape
    if len(rows) != n_heads * d_value:
        return
    with weight_at_hand(module) as weight:
        if weight is None or type(weight) not in (Tensor, nn.Parameter) or weight.ndim != 2:
            return
        W = weight if isinstance(module, Conv1D) else weight.mT  # features d_model
        exact = torch.float32 if made.device.type == "mps" else torch.float64
        expected = x.to(exact) @ W.to(exact)
        bias = getattr(module, "bias", None)
        heads.differences.append(_difference(expected if bias is None else expected + bias, made))
        W_out = torch.empty_like(W)
        W_out[rows] = W
        heads.grams.append(gram_matrices(W_out.view(n_heads, d_value, W.shape[1])))


def _gram(loaded: Loaded, site: Site, heads: _Heads) -> Tensor:
    """Return the gram matrices that were found. Raises MhavizError if there are not exactly one, within tolerance."""
    dtype = loaded.model.dtype
    tolerance = max(TOLERANCE, ROUNDINGS * torch.finfo(dtype).eps * (dtype != torch.float32))
    difference = max(heads.differences, default=0.0, key=lambda one: math.inf if math.isnan(one) else one)
    if heads.weighted is None:
        by_hand = site.number in loaded.by_hand
        how = "in a way that does not show its values" if by_hand else "and projects it within one function"
        why = f"{loaded.type} computes the output of its heads {how}"
    elif heads.weighted.have_met_again():
        why = "its weights are multiplied by values more than once"
    elif math.isnan(difference):
        raise MhavizError(
            f"{loaded.name}: layer {site.layer}, {site.kind}: expected numbers, got NaN or infinity; take another copy "
            f"of it"
        )
    elif len(heads.grams) == 1 and difference <= tolerance:
        return heads.grams[0]
    elif len(heads.grams) == 1:
        why = f"the output differs from A V W_O, by {with_minus(f'{difference:.1e}')} of the largest number"
    elif heads.grams:
        why = f"the output of its heads goes through {len(heads.grams)} linear layers beside one another"
    else:
        why = "no linear layer reads the output of its heads unchanged"
    raise MhavizError(
        f"{loaded.name}: norms need W_O, the linear layer after the heads, and in layer {site.layer}, {site.kind}, "
        f"{why}; leave out {parameter('show')} norms"
    )

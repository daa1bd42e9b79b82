"""Finds the output projection W_O of each attention of a model: numbers what the heads make, and sees who reads that.

The features of all heads are numbered, and the digits of the numbers are written in place of what the heads have made,
a digit a token, as large as what stood there: a clamp changes both. The model goes on with them. So what the next
linear layer reads tells which row of its weight is for which feature of which head, however a model is written.
Nothing is taken for granted: the heads must have made A V, and the layer must make of what it reads what its weight and
bias do.
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
from mhaviz.observe.observed import Mixed, ObservedCall

TOLERANCE = 1e-5
"""Of the largest number: so much may what was made be off, where it is computed in float32."""

ROUNDINGS = 16
"""So many of the roundings of a coarser type it may be off."""

_TOKENS, _BASE, _MOST, _MOST_SCALE = 5, 256, 2**24, 15
"""How many digits are read, of which base, as bfloat16 has so many numbers from −1 to 1; features of one attention; and
the exponent of the largest scale, as float16 has no more."""


@dataclass
class _Heads:
    """What is found out about one attention.

    Attributes:
        mixed: the values, and what has been made of them; None: that is not known.
        differences: how far what was made was from what it should be, beside its largest number: by the heads, and by
            each linear layer that has read them.
        grams: what ``gram_matrices`` gives for each of those.
        scale: of the numbers that were written: the largest.
    """

    mixed: Mixed | None
    scale: float = 0.0
    differences: list[float] = field(default_factory=list)
    grams: list[Tensor] = field(default_factory=list)


def output_grams(loaded: Loaded, sites: Iterable[Site], inputs: Fields) -> Mapping[int, Tensor]:
    """What ``gram_matrices`` gives for W_O of each attention, by the site's number.

    Args:
        loaded: a model.
        sites: its attentions.
        inputs: what it is called with: a text, and a target, of at least five tokens.

    Raises:
        MhavizError: an attention whose values are not seen; one whose heads go through something else than a linear
            layer, such as a gate; a layer that makes something else than its weight does.
    """
    wanted = {site.number: site for site in sites}
    found: dict[int, _Heads] = {}

    def write(number: int, observed: ObservedCall) -> None:
        if number in wanted:
            mixed = mixed_of(observed)
            found[number] = _Heads(mixed)
            if mixed is not None:
                found[number].differences.append(_difference_of_heads(observed, mixed))
                with unseen():
                    found[number].scale = _write_numbers(mixed, number * _MOST)

    def read(run: ModuleRun) -> None:
        made = run.made[0] if isinstance(run.made, tuple) else run.made  # I-BERT's layers give a scale beside it
        if run.read and isinstance(getattr(run.module, "weight", None), Tensor) and isinstance(made, Tensor):
            number, rows, scale = _numbers_in(run.read[0])
            if rows is not None and number in found and scale == found[number].scale:
                _add_gram(found[number], rows, run.module, run.read[0], made)

    with modules_hooked(loaded.model, read):
        run_hooked(loaded, inputs, write)
    return {number: _gram(loaded, site, found[number]) for number, site in wanted.items()}


def mixed_of(observed: ObservedCall) -> Mixed | None:
    """The values of an attention, and the tensor with what it has made of them; None: that is not known."""
    if not isinstance(observed.call, AttentionCall):
        return observed.mixed() if observed.mixed is not None else None
    if observed.output is None or observed.zero is None:
        return None
    return Mixed(observed.call.value, observed.output, lambda x: x, lambda: False)


def _difference_of_heads(observed: ObservedCall, mixed: Mixed) -> float:
    """How far A V is from what was made."""
    call, made = observed.call, mixed.arrange(mixed.made)
    if isinstance(call, AttentionCall):
        return _difference(call.output(), made)
    return _difference(call.weights().to(mixed.value.dtype) @ mixed.value, made)


def _difference(expected: Tensor, made: Tensor) -> float:
    largest = float(made.abs().max()) or 1.0
    return float((expected - made.to(expected.dtype)).abs().max()) / largest


def _write_numbers(mixed: Mixed, first: int) -> float:
    """Write the numbers of all features in place of what the heads have made: a digit a token. Returns their scale."""
    made = mixed.made
    scale = 2.0 ** min(max(math.frexp(float(made.abs().max()))[1], -_MOST_SCALE), _MOST_SCALE)
    places = mixed.arrange(torch.arange(made.numel(), device=made.device).view(made.shape))
    _, n_heads, q_length, d_value = places.shape
    numbers = first + torch.arange(n_heads * d_value, device=made.device).view(n_heads, 1, d_value)
    powers = _BASE ** torch.arange(q_length, device=made.device).clamp(max=_TOKENS).view(-1, 1)
    digits = (numbers // powers % _BASE).expand(places.shape)
    written = made.new_empty(made.numel())
    written[places.flatten()] = ((digits.flatten() * (2 / _BASE) - 1) * scale).to(made.dtype)
    made.copy_(written.view(made.shape))
    return scale


def _numbers_in(x: object) -> tuple[int, Tensor | None, float]:
    """Of which attention something holds the numbers of neighbouring features, of which feature in each place, and
    their scale.

    None: it holds something else.
    """
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim < 2:
        return 0, None, 0.0
    rows = x.detach().reshape(-1, x.shape[-1])[:_TOKENS].float()
    scale = float(rows.abs().max())  # some digit of the first feature is 0
    digits = ((rows / (scale or 1.0) + 1) * (_BASE / 2)).nan_to_num().long()
    is_whole = torch.equal((digits * (2 / _BASE) - 1) * scale, rows) and not bool((digits >= _BASE).any())
    if len(rows) < _TOKENS or not is_whole:
        return 0, None, scale
    numbers = (digits * _BASE ** torch.arange(_TOKENS, device=x.device)[:, None]).sum(dim=0)
    first = int(numbers.min())
    every = torch.arange(first, first + len(numbers), device=x.device)
    return first // _MOST, numbers - first if torch.equal(numbers.sort().values, every) else None, scale


def _add_gram(heads: _Heads, rows: Tensor, module: nn.Module, x: Tensor, made: Tensor) -> None:
    """Note W_O, a module's weight, and whether it makes what the module does; of a part of the features it is none.

    ``rows``: of which feature each row is.
    """
    assert heads.mixed is not None
    _, n_heads, _, d_value = heads.mixed.arrange(heads.mixed.made).shape
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
    """The one that was found, if it is right."""
    dtype = loaded.model.dtype
    tolerance = max(TOLERANCE, ROUNDINGS * torch.finfo(dtype).eps * (dtype != torch.float32))
    difference = max(heads.differences, default=0.0, key=lambda one: math.inf if math.isnan(one) else one)
    if heads.mixed is None:
        by_hand = site.number in loaded.by_hand
        how = "in a way in which its values are not seen" if by_hand else "and projects them within one function"
        why = f"{loaded.type} computes what its heads make {how}"
    elif heads.mixed.have_met_again():
        why = "its weights are multiplied by values more than once"
    elif math.isnan(difference):
        raise MhavizError(
            f"{loaded.name}: layer {site.layer}, {site.kind}: expected numbers, got NaN or infinity; take another copy "
            f"of it"
        )
    elif len(heads.grams) == 1 and difference <= tolerance:
        return heads.grams[0]
    elif len(heads.grams) == 1:
        why = f"what is made differs from A V W_O, by {difference:.1e} of the largest number"
    elif heads.grams:
        why = f"what its heads make goes through {len(heads.grams)} linear layers beside one another"
    else:
        why = "no linear layer reads what its heads make as it is"
    raise MhavizError(
        f"{loaded.name}: norms need W_O, the linear layer behind the heads, and in layer {site.layer}, {site.kind}, "
        f"{why}; leave out {parameter('show')} norms"
    )

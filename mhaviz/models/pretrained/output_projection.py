"""Finds the output projection W_O of each attention of a model: follows the heads to the linear layer that reads them.

What the heads have made is numbered, and each function of PyTorch that only rearranges numbers, such as a reshape or a
transpose, is done with these numbers, too. So at the next linear layer it is known which row of its weight is for which
feature of which head, however a model is written. Nothing is taken for granted: the parts that the heads then make must
sum to what the linear layer itself has made.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mhaviz.attention.call import AttentionCall, AttentionWeights
from mhaviz.attention.model import Site
from mhaviz.attention.norms import gram_matrices
from mhaviz.errors import MhavizError, parameter
from mhaviz.models.pretrained.hooks import Fields, run_hooked
from mhaviz.models.pretrained.loading import Loaded
from mhaviz.recording.caught import Caught
from mhaviz.recording.functions import COPIES, DROPOUTS, VIEWS, again
from mhaviz.recording.looks import unseen
from mhaviz.recording.zeroing import Arrange

TOLERANCE = 1e-5
"""Of the largest number of an output: so much may the sum of its parts be off, where it is computed in float32."""

ROUNDINGS = 16
"""So many of the roundings of a coarser type it may be off."""


@dataclass
class _Heads:
    """What one attention has made, and what has become of it.

    Attributes:
        call: what it computed with, or the weights that it has made by hand.
        value: (batch_size, n_kv_heads, k_length, d_value).
        made: what it has made of them, with which the model goes on, in the model's own axes.
        features: n_heads, d_value.
        memory: which of the made numbers stands in each place of the memory that ``made`` lies in, counted in the order
            of batch_size, q_length, n_heads, d_value; −1: none of them.
        numbered: of tensors that hold the same numbers elsewhere, by their id: the tensor, which stays alive, so that
            no other gets its id, and what number stands in each place.
        grams: what ``gram_matrices`` gives for each linear layer that has read them.
        differences: how far the sum of the parts was from what that layer made, beside its largest number.
        others: the names of the other functions that have read them.
        have_met_again: whether the weights have met other values since.
    """

    call: AttentionCall | AttentionWeights
    value: Tensor
    made: Tensor
    features: tuple[int, int]
    memory: Tensor
    numbered: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    grams: list[Tensor] = field(default_factory=list)
    differences: list[float] = field(default_factory=list)
    others: dict[str, None] = field(default_factory=dict)
    have_met_again: Callable[[], bool] = lambda: False

    def numbers_of(self, x: Tensor) -> Tensor | None:
        """Which of the made numbers stand where in x; None: it is something else."""
        if id(x) in self.numbered:
            return self.numbered[id(x)][1]
        if not _lies_with(x, self.made):
            return None
        numbers = self.memory.as_strided(x.shape, x.stride(), x.storage_offset())
        return numbers if bool((numbers >= 0).all()) else None

    def keep(self, x: Tensor, numbers: Tensor) -> None:
        """x holds these of the made numbers."""
        self.numbered[id(x)] = x, numbers


class _Following(TorchFunctionMode):
    """Follows what attentions make through the functions that read it; ``heads``: of each, by its number."""

    def __init__(self) -> None:
        super().__init__()
        self.heads: dict[int, _Heads] = {}

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        tensors = [x for x in _flat([*args, *kwargs.values()]) if isinstance(x, Tensor)]
        if tensors and self.heads:
            with unseen():
                for heads in self.heads.values():
                    read = {id(x): numbers for x in tensors if (numbers := heads.numbers_of(x)) is not None}
                    if read:
                        _follow(heads, read, func, args, kwargs, result)
        return result


def output_grams(loaded: Loaded, sites: Iterable[Site], inputs: Fields) -> Mapping[int, Tensor]:
    """What ``gram_matrices`` gives for W_O of each attention, by the site's number, of a model that runs on ``inputs``.

    Raises:
        MhavizError: an attention whose values are not seen; one whose heads go through something else than a linear
            layer, such as a gate; parts that do not sum to the output of that layer.
    """
    wanted = {site.number: site for site in sites}
    following = _Following()

    def hook(number: int, module: nn.Module, caught: Caught) -> None:
        if number in wanted and (heads := _heads_of(caught)) is not None:
            following.heads[number] = heads

    with following:
        run_hooked(loaded, inputs, hook)
    return {number: _gram(loaded, site, following.heads.get(number)) for number, site in wanted.items()}


def _heads_of(caught: Caught) -> _Heads | None:
    """What an attention that has just run has made; None: that is not known."""
    call = caught.call
    if isinstance(call, AttentionCall):
        return None if caught.output is None else _begun(call, call.value, caught.output, lambda x: x)
    mixed = None if caught.mixed is None else caught.mixed()
    if mixed is None:
        return None
    return replace(_begun(call, mixed.value, mixed.made, mixed.arrange), have_met_again=mixed.have_met_again)


def _begun(call: AttentionCall | AttentionWeights, value: Tensor, made: Tensor, arrange: Arrange) -> _Heads:
    """``arrange``: puts the axes of what was made in the order batch_size, n_heads, q_length, d_value."""
    places = arrange(torch.arange(made.numel(), device=made.device).view(made.shape)).transpose(1, 2)
    numbers = torch.empty_like(places.flatten())
    numbers[places.flatten()] = torch.arange(made.numel(), device=made.device)
    memory = numbers.new_full((made.untyped_storage().nbytes() // made.itemsize,), -1)
    memory.as_strided(made.shape, made.stride(), made.storage_offset()).copy_(numbers.view(made.shape))
    return _Heads(call, value, made, (places.shape[2], places.shape[3]), memory)


def _lies_with(x: Tensor, made: Tensor) -> bool:
    """Whether x is a view of the same memory."""
    alike = type(x) is Tensor and x.dtype == made.dtype and x.device == made.device and x.layout == torch.strided
    return alike and x.untyped_storage().data_ptr() == made.untyped_storage().data_ptr()


def _gram(loaded: Loaded, site: Site, heads: _Heads | None) -> Tensor:
    """The one that was found, if it is right."""
    if heads is None:
        by_hand = site.number in loaded.by_hand
        how = "in a way in which its values are not seen" if by_hand else "and projects them within one function"
        why = f"{loaded.type} computes what its heads make {how}"
    elif heads.have_met_again():
        why = "its weights are multiplied by values more than once"
    elif heads.grams and len(heads.grams) == 1:
        (difference,), dtype = heads.differences, loaded.model.dtype
        if difference <= max(TOLERANCE, ROUNDINGS * torch.finfo(dtype).eps * (dtype != torch.float32)):
            return heads.grams[0]
        if math.isnan(difference):
            raise MhavizError(
                f"{loaded.name}: layer {site.layer}, {site.kind}: expected numbers, got NaN or infinity; take another "
                f"copy of it"
            )
        why = f"the parts of its heads sum to another output than its own, by {difference:.1e} of the largest number"
    elif heads.grams:
        why = f"what its heads make goes through {len(heads.grams)} linear layers beside one another"
    elif heads.others:
        why = f"what its heads make goes through {next(iter(heads.others))} before it meets W_O"
    else:
        why = "no linear layer was found that reads what its heads make"
    raise MhavizError(
        f"{loaded.name}: norms need W_O, the linear layer behind the heads, and in layer {site.layer}, {site.kind}, "
        f"{why}; leave out {parameter('show')} norms"
    )


def _follow(
    heads: _Heads,
    read: Mapping[int, Tensor],
    func: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    result: Any,
) -> None:
    """Note what a function has made of tensors that hold numbers of the heads. ``read``: which, by the tensors' ids."""
    name = getattr(func, "__name__", "")
    made = [x for x in _flat([result]) if isinstance(x, Tensor)]
    if not made:  # a size, or a question
        return
    numbers = read.get(id(args[0])) if args else None
    if numbers is not None and func in VIEWS:
        for x, places in zip(made, _flat([again(func, args, kwargs)(numbers)]), strict=True):
            heads.keep(x, places)
        return
    if numbers is not None and func in COPIES | DROPOUTS and made[0].shape == numbers.shape:
        heads.keep(made[0], torch.empty_like(made[0], dtype=numbers.dtype).copy_(numbers))  # in its strides
        return
    product = _product(name, args, kwargs)
    numbers = None if product is None else read.get(id(product.x))
    if product is None or numbers is None or not _add_gram(heads, numbers, product, made[0]):
        heads.others[name or "another function"] = None


@dataclass(frozen=True)
class _Product:
    """x W + bias, where W is (features, d_model)."""

    x: Tensor
    W: Tensor
    bias: Tensor | None = None


def _product(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Product | None:
    """What a linear layer computes, however it is written; None: another function."""
    found: _Product | None = None
    if name == "linear":
        x, weight, bias = [*args, *(kwargs[key] for key in ("input", "weight", "bias") if key in kwargs), None][:3]
        found = _Product(x, weight.mT, bias)
    elif name == "addmm" and len(args) == 3 and not kwargs:
        found = _Product(args[1], args[2], args[0])
    elif name in ("matmul", "mm", "__matmul__") and len(args) == 2:
        found = _Product(*args)
    is_plain = found is not None and type(found.W) in (Tensor, torch.nn.Parameter) and found.W.is_floating_point()
    return found if is_plain and found is not None and found.W.ndim == 2 else None


def _add_gram(heads: _Heads, numbers: Tensor, product: _Product, made: Tensor) -> bool:
    """Note W_O, whose input has these numbers of the heads in its places; whether that is what it is."""
    n_heads, d_value = heads.features
    features = n_heads * d_value
    tokens, places = numbers // features, numbers % features  # … features
    row = places.flatten(0, -2)[0]
    if not (bool((places == row).all()) and bool((tokens == tokens[..., :1]).all())):
        return False
    if sorted(row.tolist()) != list(range(features)):
        return False
    W_out = torch.empty_like(product.W)
    W_out[row] = product.W
    W_out = W_out.view(n_heads, d_value, -1)
    heads.grams.append(gram_matrices(W_out))
    heads.differences.append(_difference(heads, W_out, product.bias, tokens[..., 0], made))
    return True


def _difference(heads: _Heads, W_out: Tensor, bias: Tensor | None, tokens: Tensor, made: Tensor) -> float:
    """How far Σ_h Σ_j A_ij · v_j W_O + bias is from what was made, beside its largest number.

    ``tokens``: the number of the query in each row of what was made.
    """
    exact = torch.float32 if made.device.type == "mps" else torch.float64
    call, value = heads.call, heads.value.to(exact)
    if isinstance(call, AttentionCall):
        H = replace(call, query=call.query.to(exact), key=call.key.to(exact), value=value).output()
    else:
        H = call.weights().to(exact) @ value  # batch_size n_heads q_length d_value
    expected = torch.einsum("bhqd,hdm->bqm", H.to(exact), W_out.to(exact)).flatten(0, 1)
    expected = expected if bias is None else expected + bias.to(exact)
    output = made.to(exact).flatten(0, -2)
    largest = float(output.abs().max()) or 1.0
    return float((expected[tokens.flatten()] - output).abs().max()) / largest


def _flat(values: Iterable[Any]) -> list[Any]:
    """Values, with those that stand in lists and tuples in their place."""
    return [one for value in values for one in (_flat(value) if isinstance(value, list | tuple) else [value])]

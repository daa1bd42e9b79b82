"""Arguments by name: what is followed, and what is seen of it, is the same as by position.

The oracle is PyTorch, which takes the names.
"""

import gc
import re
import weakref

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.overrides import handle_torch_function, has_torch_function
from watched import watch

from mhaviz.observe import arguments, functions, layouts, merging, tracing, weights
from mhaviz.observe.arguments import positional
from mhaviz.observe.axis_rules import AXIS_RULES
from mhaviz.observe.handlers import Done
from mhaviz.observe.mode import Observer

X = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0))
Y, IMAGE = X[:1] * 2, X[:, None].repeat(1, 2, 1, 1)
PLACES, MASK, INDEX = torch.tensor([2, 0]), X > 0, torch.zeros(2, 4, 6, dtype=torch.long)
WEIGHT, KERNEL = torch.randn(5, 6), torch.randn(3, 4, 1)

_SEVERAL = {
    "add sub subtract mul multiply div divide true_divide maximum minimum": {"other": Y},
    "addcmul addcdiv": {"tensor1": X, "tensor2": X + 9},
    "clamp clip": {"min": 0.1, "max": 0.5},
    "concat concatenate cat stack": {"tensors": (X, X), "dim": 1},
    "hstack vstack": {"tensors": (X, X)},
    "expand": {"input": Y, "size": (2, 4, 6)},
    "movedim moveaxis": {"source": 0, "destination": 1},
    "swapaxes": {"axis0": 0, "axis1": 2},
    "transpose swapdims": {"dim0": 0, "dim1": 2},
    "softmax log_softmax logsumexp sum argmax squeeze unsqueeze": {"dim": 1},
    "cumsum cumprod logcumsumexp": {"dim": 1},
    "dot": {"input": X[0, 0], "tensor": X[0, 1]},
    "vdot": {"input": X[0, 0], "other": X[0, 1]},
    "linalg_vecdot": {"x": X, "y": X + 1},
    "special_softmax special_log_softmax special_logsumexp unbind softmin max min": {"dim": 1},
    "index_fill": {"dim": 1, "index": PLACES, "value": 0.5},
    "index_add index_copy": {"dim": 1, "index": PLACES, "source": X[:, :2]},
    "scatter scatter_add": {"dim": 1, "index": INDEX[:, :1], "src": X},
    "alpha_dropout feature_dropout feature_alpha_dropout dropout dropout1d native_dropout": {"p": 0.5, "train": True},
    "dropout2d": {"input": IMAGE, "p": 0.5, "train": True},
    "dropout3d": {"input": IMAGE[:, None], "p": 0.5, "train": True},
    "lt le gt ge less less_equal greater greater_equal": {"other": 0.5},
    "bernoulli": {"p": 0.5},
    "rand randn": {"size": (2, 3)},
    "randint": {"low": 0, "high": 5, "size": (2, 3)},
    "randint_like": {"low": 0, "high": 5},
    "uniform": {"from": 0.0, "to": 2.0},
    "gumbel_softmax": {"logits": X, "dim": 1},
    "pow": {"exponent": 2},
    "lerp": {"end": X + 1, "weight": X},
    "atan2 arctan2": {"other": X + 1},
    "complex": {"real": X, "imag": X + 1},
    "clamp_min": {"min": 0.1},
    "clamp_max": {"max": 0.1},
    "tril triu": {"diagonal": 1},
    "msort": {},
    "topk": {"k": 2, "dim": 1},
    "sort": {"dim": 1, "descending": True},
    "roll": {"shifts": 1, "dims": 1},
    "flip": {"dims": (1,)},
    "rot90": {"k": 1, "dims": (1, 2)},
    "narrow": {"dim": 1, "start": 1, "length": 2},
    "select": {"dim": 1, "index": 2},
    "index_select": {"dim": 1, "index": PLACES},
    "gather": {"dim": 1, "index": INDEX},
    "take_along_dim": {"indices": INDEX, "dim": 1},
    "index_put": {"indices": (PLACES % 2,), "values": X[:2]},
    "scatter_reduce": {"dim": 1, "index": INDEX, "src": X, "reduce": "sum"},
    "select_scatter": {"src": X[:, 0], "dim": 1, "index": 2},
    "slice_scatter": {"src": X[:, :2], "dim": 1, "start": 1, "end": 3},
    "masked_fill": {"mask": MASK, "value": 0.5},
    "masked_scatter": {"mask": MASK, "source": X},
    "where": {"condition": MASK, "input": X, "other": X + 1},
    "chunk": {"chunks": 2, "dim": 1},
    "split": {"tensor": X, "split_size_or_sections": 2, "dim": 1},
    "split_with_sizes": {"split_sizes": (1, 3), "dim": 1},
    "tensor_split": {"indices": (1, 3), "dim": 1},
    "permute": {"dims": (0, 2, 1)},
    "reshape": {"shape": (2, 24)},
    "view": {"size": (2, 24)},
    "flatten": {"start_dim": 1, "end_dim": 2},
    "unflatten": {"dim": 2, "sizes": (2, 3)},
    "repeat": {"repeats": (1, 2, 1)},
    "tile": {"dims": (1, 2, 1)},
    "repeat_interleave": {"repeats": 2, "dim": 1},
    "broadcast_to": {"input": Y, "size": (2, 4, 6)},
    "expand_as": {"input": Y, "other": X},
    "view_as reshape_as type_as": {"other": X},
    "full_like": {"fill_value": 1.0},
    "to": {"dtype": torch.float64},
    "copy": {"other": Y},
    "pad": {"pad": (0, 0, 1, 1), "value": 0.5},
    "one_hot": {"input": INDEX, "num_classes": 3},
    "interpolate": {"size": 3},
    "grid_sample": {"input": IMAGE, "grid": torch.zeros(2, 3, 3, 2), "align_corners": False},
    "avg_pool1d max_pool1d": {"kernel_size": 2},
    "avg_pool2d max_pool2d": {"input": IMAGE, "kernel_size": 2},
    "avg_pool3d max_pool3d": {"input": IMAGE[:, None], "kernel_size": 1},
    "channel_shuffle": {"input": IMAGE, "groups": 2},
    "pixel_shuffle": {"input": X.view(1, 4, 2, 6), "upscale_factor": 2},
    "pixel_unshuffle": {"input": X.view(1, 1, 8, 6), "downscale_factor": 2},
    "fill": {"value": 0.5},
    "unfold": {"dimension": 1, "size": 2, "step": 2},
    "masked_select": {"mask": MASK},
    "adaptive_avg_pool2d adaptive_max_pool2d": {"input": IMAGE, "output_size": 2},
    "conv1d": {"weight": KERNEL, "bias": None, "padding": 1},
    "conv2d": {"input": IMAGE, "weight": torch.randn(3, 2, 2, 2), "stride": 2},
    "conv3d": {"input": IMAGE[:, None], "weight": torch.randn(3, 1, 1, 1, 1)},
    "linear": {"weight": WEIGHT},
    "bilinear": {"input1": X, "input2": X, "weight": torch.randn(3, 6, 6)},
    "embedding": {"input": INDEX[0], "weight": WEIGHT},
    "batch_norm": {"running_mean": torch.zeros(4), "running_var": torch.ones(4)},
    "scaled_dot_product_attention": {"query": X, "key": X, "value": X, "is_causal": True},
    "matmul linalg_matmul": {"other": X.mT},
    "bmm": {"mat2": X.mT},
    "mm": {"input": X[0], "mat2": WEIGHT.T},
    "mv": {"input": X[0], "vec": WEIGHT[0]},
    "inner": {"other": X},
    "addmm": {"input": torch.ones(4, 5), "mat1": X[0], "mat2": WEIGHT.T},
    "baddbmm": {"input": torch.ones(2, 4, 4), "batch1": X, "batch2": X.mT},
    "tensordot": {"a": X, "b": X, "dims": ([1, 2], [1, 2])},
    "view_as_complex": {"input": X.unflatten(2, (3, 2))},
    "view_as_real": {"input": torch.complex(X, X)},
    "t": {"input": X[0]},
}
"""Arguments by name, in their order, without ``input`` where it is X; one line for functions that take the same."""

CALLS = {name: given for names, given in _SEVERAL.items() for name in names.split()}

WITHOUT_NAMES = {"einsum", "lstm", "gru", "rnn_tanh", "rnn_relu", "multi_head_attention_forward", "_sparse_softmax"} | {
    "cuda",  # may not be there
    "_fused_dropout",  # of a GPU
    "type",
    "upsample",  # deprecated
}
"""Functions that PyTorch lets nobody call by names, or whose arguments are bound by their signature."""


def _followed():
    """All functions that the recorder has a rule for, by name."""
    tables = (
        *(
            AXIS_RULES,
            Observer(lambda observed: None).handlers,
            functions.DROPOUTS,
            functions.VIEWS,
            functions.MULTIPLIES,
        ),
        *(layouts._STARTS, layouts._SORTS, layouts._RETURN_SEVERAL, weights._REORDERS),
        *(merging._LAYERS, merging._WEIGH, merging._NORMALISE),
        *(tracing._RULES, tracing.WRITERS, tracing._CUTS),
    )
    named = {}
    for func in set().union(*tables):
        name = getattr(func, "__name__", "") if callable(func) else ""
        if name and not name.startswith("__") and name not in WITHOUT_NAMES:
            named.setdefault(name.rstrip("_"), []).append(func)
    return named


FOLLOWED = _followed()


_FIRST = {"x", "real", "input", "tensor", "tensors", "condition", "query", "a", "input1", "logits"}


def _calls(name):
    """Each function of this name, with its arguments by position and the same by name."""
    given = CALLS.get(name, {})
    if next(iter(given), "") not in _FIRST and name not in ("rand", "randn", "randint"):
        given = {"input": X, **given}
    given = {key: one.clone() if key == "input" else one for key, one in given.items()}  # it may be changed in place
    for func in FOLLOWED[name]:
        if getattr(func, "__objclass__", None) is None and func.__qualname__.partition(".")[0] != "Tensor":
            names = {"train": "training"} if hasattr(func, "__code__") else {}
            yield func, (), {names.get(key, key): one for key, one in given.items()}
        elif "tensors" not in given:
            own = "tensor" if name == "split" else "input"
            names = {"split_size_or_sections": "split_size"}
            yield func, (given[own],), {names.get(key, key): one for key, one in given.items() if key != own}


@pytest.mark.parametrize("name", sorted(FOLLOWED))
def test_arguments_by_name_have_the_places_that_pytorch_gives_them(name):
    """And what is seen of the call is what is seen of it by position."""
    tried, watching = 0, Observer(lambda observed: None)
    with torch.no_grad(), watching.watching():
        X.softmax(1) @ X.mT
        for (func, args, kwargs), (_, *again) in zip(_calls(name), _calls(name), strict=True):
            torch.manual_seed(0)
            try:
                expected = func(*args, **kwargs)
            except TypeError:  # PyTorch takes no names there
                continue
            tried += 1
            bound, rest = positional(func, *again)
            assert not rest, func
            torch.manual_seed(0)
            found = func(*bound)
            for one, other in zip(
                *(x if isinstance(x, list | tuple) else (x,) for x in (found, expected)), strict=True
            ):
                assert torch.equal(one, other) or name == "empty_like", func
                assert _known(watching, one) == _known(watching, other), func
    assert tried, "none is called by names"
    assert not [line for line in watching.missed if "not followed" in line]


def _known(watching, x):
    """The layout of a tensor, without what counts the calls."""
    return re.sub(r"start=-\d+|frozenset\(\{\(\d+, 0\)\}\)", "", str(watching._axes.get(x)))


@pytest.mark.parametrize(
    "function",
    [
        lambda q, v: torch.matmul(input=torch.softmax(input=torch.matmul(input=q, other=q.mT), dim=-1), other=v),
        lambda q, v: torch.bmm(input=F.softmax(input=torch.bmm(input=q, mat2=q.mT), dim=-1), mat2=v),
        lambda q, v: torch.matmul(input=torch.add(input=(q @ q.mT).softmax(dim=2), other=0), other=v),
        lambda q, v: torch.mul(input=(q @ q.mT).softmax(axis=-1)[..., None], other=v[:, None]).sum(axis=2),
        lambda q, v: (
            torch.div(input=(S := torch.exp(input=q @ q.mT)), other=torch.sum(input=S, dim=-1, keepdim=True)) @ v
        ),
        lambda q, v: torch.where(condition=q.new_ones(1) > 0, input=(q @ q.mT).softmax(-1), other=0) @ v,
        lambda q, v: F.scaled_dot_product_attention(query=q, key=q, value=v, scale=1.0),
    ],
)
def test_attention_by_names(function):
    class Attend(nn.Module):
        def forward(self, x):
            return function(x, x + 1)

    seen, output = watch(Attend(), X)
    assert seen.missed == []
    torch.testing.assert_close(seen.weights()[:, 0] @ (X + 1), output)


def test_what_is_given_by_name_alone_stays_and_what_is_not_known_is_left():
    def anything(*args, **kwargs):
        return args, kwargs

    assert positional(torch.sum, (X,), {"dim": 1, "dtype": torch.half}) == ((X, 1), {"dtype": torch.half})
    assert positional(Tensor.sort, (X,), {"stable": True, "dim": 1}) == ((X,), {"stable": True, "dim": 1})
    assert positional(F.dropout, (X,), {"training": False}) == ((X, 0.5, False), {})
    for func in (anything, "no function", torch.ops.aten.mul):
        assert positional(func, (X,), {"what": 1}) == ((X,), {"what": 1})


def _double_of():
    """A program's own function that modes see, as PyTorch's."""

    def double(x, by=2):
        return handle_torch_function(double, (x,), x, by=by) if has_torch_function((x,)) else x * by

    return double


def test_a_function_of_a_program_is_freed_while_its_recording_lives():
    watching = Observer(lambda observed: None)
    double = _double_of()
    with watching.watching():
        assert torch.equal(double(X, by=3), X * 3)
    assert watching.operations > 1
    freed = weakref.ref(double)
    del double
    gc.collect()
    assert freed() is None


def test_no_call_is_kept_after_it_was_followed():
    """Not even of ``F.multi_head_attention_forward``, which runs another function within it."""
    layer, watching = nn.MultiheadAttention(6, 2, batch_first=True), Observer(lambda observed: None)
    gc.collect()
    before = sum(type(one) is Done for one in gc.get_objects())
    with watching.watching():
        layer(query=X, key=X, value=X)
    gc.collect()
    assert sum(type(one) is Done for one in gc.get_objects()) == before


def test_the_arguments_of_a_call_are_bound_once(monkeypatch):
    bound, plan = [], arguments._plan

    def counted(func, *given):
        bound.append(func)
        return plan(func, *given)

    monkeypatch.setattr(arguments, "_plan", counted)
    with Observer(lambda observed: None).watching():
        X.softmax(dim=-1).masked_fill_(mask=MASK, value=0)
        torch.cat(tensors=[X, X], dim=1)
        F.scaled_dot_product_attention(query=X, key=X, value=X)
    assert bound == [Tensor.softmax, Tensor.masked_fill_, torch.cat, F.scaled_dot_product_attention]

"""Keys that any function of PyTorch has changed have the names of their tokens, or are rows.

Each function that tensors may override is applied to keys and values, with arguments of many forms: those that it
accepts, and after which the keys can still be attended to. The oracle is in ``truth``.
"""

import collections
import contextlib
import re

import pytest
import torch
from calls import FUNCTIONS, NAMES, SHAPES, TOKENS, B, D, H, T, applied, forms, is_new
from torch import nn
from torch.nn import functional as F  # noqa: N812
from truth import compare, tokens_of_rows

import mhaviz

pytestmark = pytest.mark.filterwarnings("ignore")  # of functions that are deprecated, or applied to odd numbers
WRITES = """
x[:, 2:5] = y[:, 2:5]
x[:, 2:5] = x[:, 1:4].clone()
x[:, 2:5] *= 2
x[:, 2:5] += x[:, 1:4].clone()
x[:, order] = x.clone()
x[:, 0] = 0
x[:, 0] = x[:, 3]
x[..., 0] = 0
x[:, 1:, :4] = x[:, :-1, :4].clone()
x[x[:, :, 0] > 0] = 0.5
x[:, order < 3] = x[:, order >= 3]
x[0] = x[1]
x[torch.arange(B)[:, None], order] = x.clone()
x[:, ::2], x[:, 1::2] = x[:, 1::2].clone(), x[:, ::2].clone()
x[:] = x.flip(1)
x[..., :, :] = y
x.data = x.flip(1)
x.data[:, 0] = 1
x.detach()[:, 0] = 1
x.set_(x.flip(1))
x.copy_(x.flip(1))
x.copy_(x.clone())
x[:, 1:].copy_(x[:, :-1].clone())
x.narrow(1, 0, 2).copy_(x.narrow(1, 2, 2))
x.select(1, 0).zero_()
x.unbind(1)[0].copy_(x[:, 3])
x.chunk(2, 1)[0].copy_(x.chunk(2, 1)[1])
x.view(B, 3, 2, -1)[:, 1].fill_(1)
x.view(B * T, -1)[0] = 1
x.view(B * T, -1).copy_(x.view(B * T, -1).flip(0))
x.transpose(0, 1)[0] = 1
x.mT[..., 2] = 1
x.as_strided((B, T), (T * 12, 12)).zero_()
x.fill_(1)
x.zero_()
x.index_put_((torch.arange(B)[:, None], order), x.clone())
x.index_put_((torch.arange(B)[:, None], order), x.clone(), accumulate=True)
x.index_copy_(1, order, x.clone())
x.index_copy_(1, order[:2], x[:, 4:].clone())
x.index_add_(1, order, x.clone())
x.index_fill_(1, order[:2], 1)
x.index_reduce_(1, order, x.clone(), 'amax')
x.scatter_(1, index, x.clone())
x.scatter_(1, index, y)
x.scatter_(1, index[:, :3], x[:, :3].clone())
x.scatter_add_(1, index, x.clone())
x.scatter_reduce_(1, index, x.clone(), 'sum')
x.masked_scatter_(mask, y)
x.masked_scatter_(mask, x.flip(1))
x.put_(shifted, x.clone())
x.swapaxes_(0, 1).swapaxes_(0, 1)
x.transpose_(1, 2).transpose_(1, 2)
x.unsqueeze_(1).squeeze_(1)
x.lerp_(x.roll(1, 1), 0.5)
x.add_(x.roll(1, 1))
x.mul_(2).add_(1)
x.mul_(mask)
x.cumsum_(1)
torch._foreach_copy_([x], [x.flip(1)])
torch._foreach_mul_([x], 2)
torch.cat([x[:, 3:], x[:, :3]], 1, out=x.new_empty(0)); torch.cat([x.flip(1)], 1, out=x)
torch.index_select(x.clone(), 1, order, out=x)
torch.gather(x.clone(), 1, index, out=x)
torch.take_along_dim(x.clone(), index, 1, out=x)
torch.stack([x[:, 5 - t] for t in range(T)], 1, out=x)
torch.mul(y, 2, out=x)
torch.add(x, x.roll(1, 1), out=x)
torch.sort(x.clone(), 1, out=(x, torch.empty(0, dtype=torch.long)))
torch.clamp(x, 0, 1, out=x)
"""
TWO_TOKENS = "f(x, x.roll(1, AXIS))"
KEEPS_PLACES = re.compile(
    r"\.(special_)?("
    r"(log_)?softmax|softmin|gumbel_softmax|normalize|\w+_norm|renorm"  # a token, divided by a number of all
    r"|scaled_dot_product_attention"  # what is computed for a query stands for it, as in all layers but the first
    r"|masked_fill|tri[ul]"  # a token, or what was filled in for it
    r"|_*(eq|ne|isin|logical_\w+|i?pow|float_power|heaviside|hardtanh)_*"  # alike for most numbers
    r")_?$|mask, 0.5\), f = \w+\.where$"
)
"""Functions of which a row that is no token may have the name of the token in its place."""
MOVERS = """
roll flip fliplr flipud rot90 gather take_along_dim index_select index_copy index_put scatter slice_scatter
select_scatter masked_scatter cat concat stack hstack vstack split chunk tensor_split unbind unfold narrow repeat
repeat_interleave tile expand permute transpose swapaxes movedim reshape view flatten unflatten squeeze pad where sort
topk cumsum diff as_strided pixel_shuffle channel_shuffle interpolate __getitem__ clone copy_ index_copy_ index_add_
scatter_ masked_scatter_ matmul linear softmax layer_norm add mul
"""
FUNCTIONS_THAT_MOVE = [
    next(full for space in ("Tensor", "torch", "nn.functional") if (full := f"{space}.{name}") in FUNCTIONS)
    for name in MOVERS.split()
]
"""What is tested each time; the others, and their aliases, are tested with what is slow."""


class Layer(nn.Module):
    """Attends to keys that ``move`` has changed: its hidden states, or its keys and values of each head."""

    def __init__(self, where, move):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(H * D, H * D) for _ in range(3))
        self.on_states, self.on_heads = (move if where == name else lambda x: x for name in ("states", "heads"))

    def heads(self, x):
        return x.view(B, -1, H, D).transpose(1, 2)

    def forward(self, x):
        moved = self.on_states(x)
        q, k, v = self.q(x), self.k(moved), self.v(moved)
        k, v = (self.on_heads(self.heads(one)) for one in (k, v))
        return F.scaled_dot_product_attention(self.heads(q), k, v).transpose(1, 2).flatten(2)


def check(name, moves):
    """Record layers that move their keys: what is wrong in the names, and how many tokens have no name."""
    torch.manual_seed(3)
    model = nn.ModuleList(Layer(where, move) for (where, _), move in moves.items())
    x = torch.randn(B, T, H * D)
    with mhaviz.record(model, examples="all") as recording, torch.no_grad():
        for layer in model:
            layer(x)
    maps = () if recording.is_empty else recording.attention.maps
    wrong, count = [], collections.Counter()
    for layer, ((where, text), move) in enumerate(moves.items()):
        call = f"{where}: {text}" + (f", f = {name}" if name else "")
        with torch.no_grad():
            keys = x if where == "states" else model[layer].heads(model[layer].k(x))
            truth = tokens_of_rows(move, keys, TOKENS[where])
        of_layer = [m for m in maps if m.module.split(" ")[0] == str(layer) and not m.windows][-B:]
        count["attentions that are not drawn"] += len(of_layer) < B
        for m in of_layer:
            of_example = truth[m.sentence]
            if len(m.keys) != len(of_example):
                wrong.append(f"{call}, example {m.sentence}: keys {', '.join(m.keys)} for {len(of_example)} rows")
                continue
            keys = compare(m.keys, of_example, bool(KEEPS_PLACES.search(call)))
            for side, (errors, unnamed) in {"keys": keys, "queries": compare(m.queries, range(T))}.items():
                count["unnamed"] += unnamed
                wrong += [f"{call}, example {m.sentence}: {side}: {'; '.join(errors)}"] if errors else []
    return wrong, count


def two_tokens(name):
    """The calls by which a function makes a row of a token and the one before it."""
    moves = {}
    for where, shape in SHAPES.items():
        moved = applied(name, eval(f"lambda f, x: {TWO_TOKENS}", NAMES[where]))
        with contextlib.suppress(Exception):  # the function takes no such arguments
            if is_new(moved(torch.ones(shape)), [], shape, TOKENS[where]):
                moves[where, TWO_TOKENS] = moved
    return moves


def statement(text):
    """A function that writes into its argument as a statement says."""
    code, names = compile(text, text, "exec"), NAMES["states"]

    def moved(x):
        local = {**names, "x": x.clone()}
        exec(code, local)
        return local["x"]

    return moved


@pytest.mark.parametrize("text", WRITES.strip().splitlines())
def test_keys_that_were_written_over_have_their_names_or_none(text):
    wrong, _ = check("", {("states", text): statement(text)})
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", FUNCTIONS_THAT_MOVE)
def test_keys_that_a_function_has_moved_have_their_names_or_none(name):
    wrong, _ = check(name, forms(name))
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow  # 4 minutes: 6900 calls of 870 functions
@pytest.mark.parametrize(
    "name",
    [name for name in FUNCTIONS if name not in FUNCTIONS_THAT_MOVE],
)
def test_keys_that_a_function_has_changed_have_their_names_or_none(name):
    wrong, _ = check(name, forms(name))
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow  # half a minute
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_row_that_is_made_of_two_tokens_has_no_name(name):
    """Such as the sum of a token and the one before it."""
    wrong, _ = check(name, two_tokens(name))
    assert not wrong, "\n".join(wrong)

"""Layout: rows of queries, keys, values and outputs are tokens, and attention runs over them."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import NamedTuple

import torch
from torch import Tensor

from mhaviz.checks.attentions import Seen
from mhaviz.checks.evidence import BATCH_SIZE, Evidence
from mhaviz.checks.findings import contrast, finding
from mhaviz.checks.registry import CannotProbe, probe
from mhaviz.checks.rows import Rows
from mhaviz.results.attention import head_name
from mhaviz.results.check import Contrast, Finding


class _Side(NamedTuple):
    name: str
    rows: Rows
    axis: int | None  # that attention runs over, or of queries; None: not known


def _sides(evidence: Evidence, number: int) -> Iterator[_Side]:
    """Iterate over the rows of queries, keys and values of an attention, as far as they were seen."""
    seen = evidence.attentions[number]
    _, query, key = seen.letters
    of_queries, of_keys = seen.features
    if (rows := evidence.rows(number, "query")) is not None:
        letters = seen.query_axes.replace(seen.query_axes[of_queries], "")
        yield _Side("queries", rows, letters.index(query) if query in letters else None)
    if (rows := evidence.rows(number, "key")) is not None:
        letters = seen.key_axes.replace(seen.key_axes[of_keys], "")
        yield _Side("keys", rows, letters.index(key) if key in letters else None)
    if (axes := seen.axes_of_values) is not None and (rows := evidence.rows(number, "value")) is not None:
        features, tokens = axes
        yield _Side("values", rows, tokens - (features < tokens))


@probe("heads-layout", "rows are tokens", unless="random")
def heads_layout(evidence: Evidence) -> Iterator[Finding]:
    """Heads are split or merged by a view where a transpose belongs, so that rows mix tokens.

    One token at a time is replaced. Row t of the queries, keys and values of each head should change with token t, and
    output t should be made of the weighted values of query t.

    Why it hides: ``x.view(batch, n_heads, length, d_key)`` has the same shape as
    ``x.view(batch, length, n_heads, d_key).transpose(1, 2)``, and numbers of the same size. The loss falls, as a layer
    of mixed rows still learns something. A causal mask no longer hides the future.

    How to mend it: split with ``x.view(batch, length, n_heads, d_key).transpose(1, 2)``, and merge with
    ``x.transpose(1, 2).reshape(batch, length, d_model)``. Attention that runs over heads lacks the first transpose.
    """
    if not evidence.attentions:
        raise CannotProbe("no queries and keys were seen")
    of_sides = (
        _of_side(seen, side) for number, seen in enumerate(evidence.attentions) for side in _sides(evidence, number)
    )
    of_merges = (_of_merge(evidence, number) for number in range(len(evidence.attentions)))
    yield from islice(filter(None, chain(of_sides, of_merges)), 1)


def _of_side(seen: Seen, side: _Side) -> Finding | None:
    rows = side.rows
    n_tokens = rows.of_token.shape[0]
    if not bool(rows.of_token.any()):
        return None
    if not rows.axes:
        if side.axis is None or rows.of_token.shape[1 + side.axis] % n_tokens:
            return None  # rows of windows, blocks or features
        shift = _shift(rows)
        return finding(
            "heads-layout",
            tried="one token at a time is replaced by another",
            found=f"rows of the {side.name} are made of other tokens than their own",
            mistake=f"rows are tokens {shift} places away, as by roll or a slice"
            if shift
            else "heads are split by a view or reshape where a transpose belongs",
            mend="leave the rows in the order of the tokens"
            if shift
            else "x.view(batch, length, n_heads, d_key).transpose(1, 2)",
            at=seen.step,
            contrast=_tokens(side),
        )
    if side.name != "keys" or side.axis is None or side.axis in rows.axes or seen.query.shape[0] == 1:
        return None
    if rows.of_token.shape[side.axis + 1] == 1:
        return None
    across = rows.of_first.movedim(side.axis, 0)
    if bool((across != across[:1]).any()):
        return finding(
            "batch",
            tried="one sentence is replaced by another",
            found="the keys of a query are sentences of the batch, not tokens",
            mistake="attention runs over the batch, as batch_first is not what the input is",
            mend="batch_first=True, or transpose the input",
            at=seen.step,
        )
    return finding(
        "heads-layout",
        tried="one token at a time is replaced by another",
        found="the keys of a query are the heads of its own token, not the tokens",
        mistake="attention runs over heads, as a transpose of heads and tokens is missing",
        mend="x.view(batch, length, n_heads, d_key).transpose(1, 2)",
        at=seen.step,
    )


def _shift(rows: Rows) -> int:
    """Return by how many places all rows are those of later tokens, around the end; 0: they are not."""
    n_tokens = rows.of_token.shape[0]
    for shift in range(1, n_tokens):
        if Rows(rows.of_token.roll(-shift, 0), rows.of_first).axes:
            return shift
    return 0


def _tokens(side: _Side) -> Contrast | None:
    """Return the token that each row of each head is made of, beside the token that it should be made of."""
    tokens, n_tokens = side.rows.tokens, side.rows.of_token.shape[0]
    if tokens.ndim == 2 and tokens.shape[0] % BATCH_SIZE == 0:
        tokens = tokens.reshape(BATCH_SIZE, -1, tokens.shape[1])
    if tokens.ndim != 3 or tokens.shape[0] != BATCH_SIZE or n_tokens not in tokens.shape[1:]:
        return None
    by_head = tokens[0] if tokens.shape[2] == n_tokens else tokens[0].T
    by_head = by_head.float()
    expected = torch.arange(n_tokens).float().expand_as(by_head)
    head, row = ((by_head != expected) & (by_head >= 0)).nonzero().tolist()[0] if bool((by_head >= 0).any()) else (0, 0)
    token = int(by_head[head, row])
    return contrast(
        "token",
        by_head[None],
        expected[None],
        axes=("head", f"row of the {side.name}"),
        rows=[head_name(None, head) for head in range(len(by_head))],
        columns=list(map(str, range(n_tokens))),
        note=f"token {token} has become row {row} of head {head}; row {row} belongs to token {row}",
    )


def _of_merge(evidence: Evidence, number: int) -> Finding | None:
    """Return the finding that outputs are made of other queries' values, as their gradients tell; None: they are not,
    or it is not known."""
    seen = evidence.attentions[number]
    output, graph = seen.output, evidence.base.graph
    axis, places = query_axis_of_output(seen), _places_of_tokens(evidence, number)
    if output is None or axis is None or places is None or not output.requires_grad:
        return None
    if output.shape[axis] != places.n_rows or graph.shape[1] != evidence.length:
        return None
    for one in evidence.attentions:
        if one is not seen and one.query.requires_grad and _reaches(one.query, output):
            return None
    on = torch.zeros(evidence.length, places.n_rows)
    mixed = torch.randn(graph.shape[-1], generator=torch.Generator().manual_seed(0))  # the sum of a norm is constant
    for place in range(evidence.length):
        wanted = graph[0, place] @ mixed.to(graph)
        (gradient,) = torch.autograd.grad(wanted, output, retain_graph=True, allow_unused=True)
        if gradient is not None:
            on[place] = gradient.abs().movedim(axis, 0).flatten(1).amax(dim=1).cpu()
    made = on > 1e-6 * on.amax().clamp(min=1e-12)
    own = made[torch.arange(evidence.length), places.rows]
    wrong = ~own & made.any(dim=1)
    if not bool(wrong.any()):
        return None
    place = int(wrong.int().argmax())
    row = int(places.rows[place])
    of = ", ".join(map(str, made[place].nonzero().flatten().tolist()[:4]))
    return finding(
        "heads-layout",
        tried="which queries' weighted values each output is made of, by its gradient",
        found=f"output {place} is made of the values for queries {of}, and not of those for query {row}",
        mistake="heads are merged by a view or reshape where a transpose belongs"
        if places.n_rows == evidence.length
        else "rows beside the tokens, such as a CLS token, are cut off at the wrong end",
        mend="x.transpose(1, 2).reshape(batch, length, d_model)",
        at=seen.values or seen.fused,
        contrast=contrast(
            "influence",
            made.float()[None],
            torch.nn.functional.one_hot(places.rows, places.n_rows).float()[None],
            axes=("output", "query"),
            note=f"output x{place} is made of queries {of}, and should be made of query {row}",
        ),
    )


class _Places(NamedTuple):
    rows: Tensor  # of each token, its row among the queries
    n_rows: int


def _places_of_tokens(evidence: Evidence, number: int) -> _Places | None:
    """Return which row of the queries each token has become; None: not one row each."""
    rows = evidence.rows(number, "query")
    if rows is None or len(rows.axes) != 1:
        return None
    axis = rows.axes[0]
    along = rows.of_token.movedim(axis + 1, -1).reshape(evidence.length, -1, rows.of_token.shape[axis + 1])[:, 0]
    made = along.any(dim=0).nonzero().flatten()
    if len(made) != evidence.length:
        return None
    return _Places(made, along.shape[1])


def _reaches(later: Tensor, earlier: Tensor) -> bool:
    (gradient,) = torch.autograd.grad(later.sum(), earlier, retain_graph=True, allow_unused=True)
    return gradient is not None


def query_axis_of_output(seen: Seen) -> int | None:
    """Return the axis of the queries in the weighted values; None: not known."""
    if seen.fused is not None:
        return seen.fused.result.ndim - 2
    step, query = seen.values, seen.query_axis
    if step is None or step.product is None or query is None:
        return None
    letter = step.product.axes[step.which][query]
    return step.product.result.index(letter) if len(step.product.result) == step.result.ndim else None


def are_tokens(evidence: Evidence, number: int) -> bool:
    """Return whether the queries and the keys of an attention are tokens, each made of no other token."""
    sides = list(_sides(evidence, number))
    return len(sides) > 1 and all(
        side.axis is not None and side.axis in side.rows.axes and side.rows.are_single for side in sides
    )


@probe("groups", "groups of heads", unless="random heads-layout")
def groups(evidence: Evidence) -> Iterator[Finding]:
    """Grouped queries share keys in another order than values, or than checkpoints usually do.

    Heads whose keys are equal are compared with heads whose values are equal. ``repeat_interleave`` gives the first
    keys to heads 0 and 1, ``repeat`` (tiling) gives them to heads 0 and n_kv_heads.

    Why it hides: either order trains. Where keys and values differ, a head applies the weights of one group's keys to
    the values of another group. A checkpoint of the other order gives noise.

    How to mend it: ``x.repeat_interleave(n_heads // n_kv_heads, dim=1)`` of keys and of values, or ``enable_gqa=True``
    in ``F.scaled_dot_product_attention``. Keys and values that are both tiled are a notice.
    """
    if not evidence.attentions:
        raise CannotProbe("no queries and keys were seen")
    for seen in evidence.attentions:
        if seen.value is None or (axes := seen.axes_of_values) is None or seen.value.shape[axes[0]] != seen.d_key:
            continue  # values of other sizes are shared in their own way
        of_keys, of_values = (_pattern(x) for x in _by_head(seen))
        if of_keys is None or of_values is None or len(set(of_keys)) in (1, len(of_keys)):
            continue
        if of_keys != of_values and 1 < len(set(of_values)) < len(of_values):
            yield finding(
                "groups",
                tried="which heads have the same keys, and which the same values",
                found=f"keys are shared as {_listed(of_keys)}, values as {_listed(of_values)}",
                mistake="keys are tiled and values repeated, or the other way round",
                mend="x.repeat_interleave(n_heads // n_kv_heads, dim=1) for both",
                at=seen.step,
            )
            return
        if list(of_keys) != sorted(of_keys):
            yield finding(
                "groups",
                severity="notice",
                tried="which heads have the same keys",
                found=f"keys and values are tiled, as {_listed(of_keys)}",
                mistake="repeat in place of repeat_interleave: checkpoints of other libraries will not fit",
                mend="x.repeat_interleave(n_heads // n_kv_heads, dim=1), or ignore it in a model of your own",
                at=seen.step,
            )
            return


def _by_head(seen: Seen) -> Iterator[Tensor | None]:
    """Iterate over keys and values of sentence 0, (n_heads, …); None: it is not known which axis is heads."""
    for x in (seen.key, seen.value):
        yield None if x is None or x.ndim != 4 or x.shape[0] != BATCH_SIZE else _heads_first(seen, x)


def _heads_first(seen: Seen, x: Tensor) -> Tensor | None:
    if seen.fused is not None or x is seen.value:
        n_heads = seen.query.shape[1] if seen.query.ndim == 4 else 0
        axes = [axis for axis in (1, 2) if x.shape[axis] == n_heads]
        return x[0].movedim(axes[0] - 1, 0).detach() if len(axes) == 1 else None
    rest, _, _ = seen.letters
    axes = [seen.key_axes.index(letter) for letter in rest if letter in seen.key_axes and seen.key_axes.index(letter)]
    return x[0].movedim(axes[0] - 1, 0).detach() if len(axes) == 1 else None


def _pattern(x: Tensor | None) -> tuple[int, ...] | None:
    """Return for each head the first head that has the same numbers; None: not known."""
    if x is None:
        return None
    return tuple(next(i for i in range(n + 1) if torch.equal(x[i], x[n])) for n in range(len(x)))


def _listed(pattern: tuple[int, ...]) -> str:
    return " ".join(map(str, pattern))

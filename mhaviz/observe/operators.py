"""Read the inputs of attention operators: of flash-attn 2 and 3, of xformers, and PyTorch's own below its functions.

Operators are known by their names, and their arguments by the names in their schemas. So none of these libraries is
imported, and a version with further arguments is read as well. Operators that only look like attention are reported,
once each, as their weights are not seen. ``flash_attn_with_kvcache``, and flash-attn before 2.7 and from 4 on, call
their kernels past PyTorch and are not seen at all.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from mhaviz.attention.call import AttentionCall
from mhaviz.errors import MhavizError
from mhaviz.observe.handlers import Done, Handler, guarded
from mhaviz.observe.observed import ObservedCall, OnRan


class Operators:
    """Runs attention operators, shows those that are known, and reports the others.

    Args:
        on_ran: see ``OnRan``.
        miss: called with a message about what is not seen.
        on_unseen: called with a message about what looks like attention where it runs, and is not shown.
        on_error: called with exceptions that are raised here.
    """

    def __init__(
        self,
        on_ran: OnRan,
        miss: Callable[[str], None],
        on_unseen: Callable[[str], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._on_ran, self._miss, self._on_unseen, self._on_error = on_ran, miss, on_unseen, on_error

    def handler_for(self, func: Any) -> Handler | None:
        """Return the handler of a function; None: it is no such operator."""
        name, schema = _name_and_schema(func)
        if name in _SOFTMAXES:
            return guarded(lambda done: self._on_unseen(f"a softmax by the operator {name}"), self._on_error)
        if not _LOOKS_LIKE.search(name) or _IS_AUXILIARY.search(name):
            return None
        form = next((form for pattern, form in _FORMS if re.fullmatch(pattern, name)), None)
        named = {argument.name for argument in schema.arguments} if schema is not None else set()
        if form is None or not all(named & set(names) for names in (_QUERY, _KEY, _VALUE)):
            self._miss(f"{name}: looks like attention by its name, but is not a known operator; it is not recorded")
            return None

        def follow(done: Done) -> None:
            given = _Given(schema, done.args, done.kwargs)
            tensors = [given(*names) for names in (_QUERY, _KEY, _VALUE)]
            output = given("out") if name.endswith("_out") else None
            if output is None:
                output = done.result[0] if isinstance(done.result, tuple | list) else done.result
            if all(isinstance(x, Tensor) for x in (*tensors, output)):
                self._on_ran(tensors, lambda place: self._read(name, form, given, output, place), None)

        return guarded(follow, self._on_error)

    def _read(self, name: str, form: "_Form", given: "_Given", output: Tensor, place: str) -> ObservedCall:
        unread = [argument for argument in _UNSUPPORTED if isinstance(x := given(argument), Tensor) or x]
        if unread:
            raise MhavizError(f"{name} cannot be recorded with {', '.join(unread)}")
        tensors = [given(*_QUERY), given(*_KEY), given(*_VALUE), output]
        slopes: Tensor | None = given("alibi_slopes")
        starts = [given(*names) for names in (_STARTS_Q, _STARTS_K)]
        used: Tensor | None = given("seqused_k", "seqlen_k")
        if starts[0] is not None and starts[1] is not None:
            packed = _Packed(starts[0].tolist(), starts[1].tolist(), None if used is None else used.tolist())
            tensors, one = packed.unpack(tensors)
            if one is not None:
                slopes = slopes[one : one + 1] if slopes is not None and slopes.ndim == 2 else slopes
                self._miss(f"{place}: {packed.line}")
        elif used is not None:
            raise MhavizError(f"{name} cannot be recorded with caches that are partly filled")
        if not form.heads_first and tensors[0].ndim == 4:
            tensors = [x.transpose(1, 2) for x in tensors]
        query, key, value, output = tensors
        scale = given("scale", "softmax_scale")
        causal, mask = _masked(query, key, form, given, slopes)
        call = AttentionCall(
            query,
            key,
            value,
            query.shape[-1] ** -0.5 if scale is None else float(scale),
            causal,
            mask,
            given("softcap") or None,
            given("s_aux", "sinks", "sink"),
        )
        drops = bool(given("dropout_p", "p_dropout", "p"))
        return ObservedCall(call, None if drops else output, drops)


@dataclass(frozen=True)
class _Form:
    """How an operator lays out its tensors and its causal mask.

    Attributes:
        heads_first: whether tensors are (batch, heads, length, features), and not (batch, length, heads, features).
        from_top_left: whether the causal mask begins in the top left corner, and does not end in the bottom right one.
    """

    heads_first: bool
    from_top_left: bool


_FORMS = tuple(
    (pattern, _Form(heads_first, from_top_left))
    for pattern, heads_first, from_top_left in (
        (r"aten::_scaled_dot_product_flash_attention", True, False),
        (r"aten::_?scaled_dot_product_\w*attention\w*", True, True),
        (r"aten::_efficient_attention_forward|xformers::efficient_attention_forward_(cutlass|small_k|ck)", False, True),
        (r"aten::_flash_attention_forward|torch_attn::_varlen_attn(_out)?", False, False),
        (r"xformers_flash\d?::flash_fwd|\w*flash_?attn\w*::(\w*_)?(fwd|forward)(_\w+)?", False, False),
    )
)
"""Patterns for the names of known operators. The first match counts."""

_LOOKS_LIKE = re.compile(r"attention|attn|sdpa|(^|[_:])f?mha(_|$)|flash_(fwd|forward|mla)|paged", re.IGNORECASE)
_IS_AUXILIARY = re.compile(
    r"backward|bwd|mask|rope|rotary|norm|merge|combine|metadata|schedul|reshape|copy|cache_kernel|choice", re.IGNORECASE
)
"""Words in the names of operators that attention needs beside itself."""

_SOFTMAXES = {"aten::softmax", "aten::_softmax"}
"""Softmax operators, as in a program from ``torch.export``. The products around them are not followed."""

_QUERY, _KEY, _VALUE = ("query", "q"), ("key", "k"), ("value", "v")
_STARTS_Q = ("cu_seqlens_q", "cum_seq_q", "cu_seq_q", "seqstart_q")
_STARTS_K = ("cu_seqlens_k", "cum_seq_k", "cu_seq_k", "seqstart_k")

_UNSUPPORTED = (
    *("block_table", "block_tables", "page_table", "kv_batch_idx", "leftpad_k", "k_new", "v_new", "q_v", "qv"),
    *("seqused_q", "rotary_cos", "q_descale", "k_descale", "v_descale", "descale_q", "descale_k", "descale_v"),
    *("attention_chunk", "causal_diagonal"),
)
"""Arguments that change what an operator computes in ways that are not read here, such as paged caches and float8."""


class _Given:
    """The arguments of a call of an operator, by their names in its schema."""

    def __init__(self, schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        arguments = schema.arguments
        self._given = {argument.name: argument.default_value for argument in arguments}
        self._given |= {argument.name: x for argument, x in zip(arguments, args, strict=False)} | kwargs

    def __call__(self, *names: str) -> Any:
        """Return the first argument of these names that is given; None if none is."""
        return next((x for name in names if (x := self._given.get(name)) is not None), None)


class _Packed:
    """Sequences that are packed one behind the other, without padding, in place of a batch.

    Args:
        q_starts, k_starts: where each sequence begins, and where the last one ends.
        used: how many keys of each sequence are used; None: all.
    """

    def __init__(self, q_starts: list[int], k_starts: list[int], used: list[int] | None) -> None:
        self._q_starts, self._k_starts = q_starts, k_starts
        self._q_lengths = [end - start for start, end in pairwise(q_starts)]
        k_lengths = [end - start for start, end in pairwise(k_starts)]
        self._k_lengths = k_lengths if used is None else used
        self._are_even = k_lengths == self._k_lengths and len(set(self._q_lengths)) == len(set(k_lengths)) == 1

    @property
    def line(self) -> str:
        """Message about the sequences that are left out."""
        lengths = self._q_lengths
        sizes = f"{min(lengths):,} to {max(lengths):,}" if min(lengths) < max(lengths) else f"{lengths[0]:,}"
        return f"packs {len(lengths):,} sequences of {sizes} tokens into one; the first is recorded"

    def unpack(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], int | None]:
        """Unpack queries, keys, values and outputs.

        Each is ([1,] all tokens, heads, features), and becomes (batch, length, heads, features). Sequences of one
        length become a batch. Otherwise the first that holds something is returned alone; the second result is its
        number, None if it is the only one.

        Raises:
            MhavizError: no sequence holds anything.
        """
        tensors = [x.reshape(-1, *x.shape[-2:]) for x in tensors]
        sides = (self._q_starts, self._q_lengths), (self._k_starts, self._k_lengths)
        of_tensors = (sides[0], sides[1], sides[1], sides[0])
        if self._are_even and self._q_lengths[0] and self._k_lengths[0]:
            n = len(self._q_lengths)
            return [
                x[starts[0] : starts[-1]].reshape(n, lengths[0], *x.shape[-2:])
                for x, (starts, lengths) in zip(tensors, of_tensors, strict=True)
            ], None
        pairs = enumerate(zip(self._q_lengths, self._k_lengths, strict=True))
        one = next((place for place, lengths in pairs if all(lengths)), None)
        if one is None:
            raise MhavizError("packs empty sequences")
        return [
            x[starts[one] : starts[one] + lengths[one]][None]
            for x, (starts, lengths) in zip(tensors, of_tensors, strict=True)
        ], one if len(self._q_lengths) > 1 else None


def _masked(
    query: Tensor, key: Tensor, form: _Form, given: _Given, slopes: Tensor | None
) -> tuple[bool, Tensor | None]:
    """Return whether a call is causal, from the bottom right corner, and its mask.

    The mask includes windows, ALiBi's bias (Press et al. 2021, arXiv 2108.12409) and a causal mask from the top left
    corner.
    """
    q_length, k_length = query.shape[-2], key.shape[-2]
    causal, from_top_left = bool(given("is_causal", "causal")), form.from_top_left
    if (number := given("custom_mask_type")) is not None:  # xformers: 1 is the top left corner, 2 the bottom right
        causal, from_top_left = number > 0, number == 1
    window = given("window_size")
    left, right = _window(given) if window is None or not isinstance(window, int) else (window - 1, None)
    if right == 0 or (causal and right is not None):
        causal = True
    right = None if causal else right
    bias: Tensor | None = given("attn_mask", "attn_bias", "bias")
    corner = 0 if from_top_left else k_length - q_length
    places = torch.arange(k_length, device=query.device)
    last = torch.arange(q_length, device=query.device)[:, None] + corner  # the key that each query is lined up with
    seen: Tensor | None = None
    if causal and corner != k_length - q_length:
        seen, causal = places <= last, False
    for hidden in (None if left is None else places < last - left, None if right is None else places > last + right):
        if hidden is not None:
            seen = ~hidden if seen is None else seen & ~hidden
    if slopes is not None:
        slopes = slopes.reshape(-1, slopes.shape[-1], 1, 1)
        distances = k_length - 1 - places if causal else (last - places).abs()  # rows may differ by a constant each
        bias = -slopes * distances
    if bias is None or seen is None:
        return causal, seen if bias is None else bias
    return causal, bias.masked_fill(~seen, False if bias.dtype == torch.bool else -torch.inf)


def _window(given: _Given) -> tuple[int | None, int | None]:
    """Return how many keys a query sees to its left and to its right; None: all."""
    pair = given("window_size")
    left, right = pair if pair is not None else (given(f"window_size_{side}", f"window_{side}") for side in _SIDES)
    return (*(None if x is None or x < 0 else int(x) for x in (left, right)),)  # type: ignore[return-value]


_SIDES = ("left", "right")


def _name_and_schema(func: Any) -> tuple[str, Any]:
    """Return the name and schema of an operator, "aten::_flash_attention_forward"; "" and None for other functions."""
    packet = getattr(func, "overloadpacket", func)
    name = getattr(packet, "_qualified_op_name", None)
    if not isinstance(name, str):
        own = getattr(func, "__name__", "")
        if getattr(torch, own, None) is not func or not hasattr(torch.ops.aten, own):
            return "", None
        func, name = getattr(torch.ops.aten, own), f"aten::{own}"
    schema = getattr(func, "_schema", None)
    if schema is None and (overloads := func.overloads()):
        schema = getattr(func, "default" if "default" in overloads else overloads[0])._schema
    return name, schema

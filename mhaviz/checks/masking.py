"""Masks as a layer takes them: the arguments that hide padding and later tokens, by the names of its parameters."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

KEEP = frozenset({"keep"})
CAUSAL = frozenset({"causal", "is_causal"})
PADDING = frozenset({"key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask"})
PADDING_OF_MEMORY = frozenset({"memory_key_padding_mask"})
_MASKS = frozenset({
    "mask", "attn_mask", "attention_mask", "src_mask", "tgt_mask", "pad", "pad_mask", "padding_mask", "padding",
    "key_mask", "valid", "valid_mask", "attn_bias", "bias", "visible", "masks", "m",
})  # fmt: skip
LENGTHS = frozenset({"valid_lens", "valid_len", "lengths", "lens", "seq_lens", "seq_lengths"})
ALL = LENGTHS | KEEP | CAUSAL | PADDING | PADDING_OF_MEMORY | _MASKS
"""Names of parameters that mask, in lower case."""

MaskOf = Callable[[Tensor | None, bool, tuple[int, int, int]], dict[str, Tensor | bool]]
"""Arguments that hide padding and later tokens.

It takes ``keep``, (batch_size, k_length), ``causal`` and (batch_size, q_length, k_length).
"""


@dataclass(frozen=True)
class Masking:
    """How a layer is told what to hide.

    Attributes:
        arguments: see ``MaskOf``.
        takes_keep, takes_causal: whether padding and later tokens can be hidden.
        reading: what the layer is given, in words; "" where its names leave a single reading.
    """

    arguments: MaskOf
    takes_keep: bool = False
    takes_causal: bool = False
    reading: str = ""


NO_MASKING = Masking(lambda keep, causal, sizes: {})


def readings(names: Sequence[str], of_padding: Collection[str]) -> Iterator[Masking]:
    """Iterate over readings of the parameters that mask, the most probable first."""
    by_name = {name.lower(): name for name in names}
    keep = next((by_name[name] for name in by_name if name in KEEP), None)
    causal = next((by_name[name] for name in by_name if name in CAUSAL), None)
    padding = next((by_name[name] for name in by_name if name in of_padding), None)
    masks = [name for name in names if name.lower() in _MASKS]

    def named(k: Tensor | None, c: bool, sizes: tuple[int, int, int]) -> dict[str, Tensor | bool]:
        given: dict[str, Tensor | bool] = {}
        if k is not None and keep is not None:
            given[keep] = k
        elif k is not None and padding is not None:
            given[padding] = ~k
        if c and padding is not None and masks:
            given[masks[0]] = _later(sizes)
        elif c and causal is not None:
            given[causal] = True
        return given

    lengths = next((by_name[name] for name in by_name if name in LENGTHS), None)
    if lengths is not None and keep is None and padding is None:

        def counted(k: Tensor | None, c: bool, sizes: tuple[int, int, int]) -> dict[str, Tensor | bool]:
            given: dict[str, Tensor | bool] = {} if k is None else {lengths: k.sum(dim=1)}
            return given | ({causal: True} if c and causal is not None else {})

        yield Masking(counted, True, causal is not None, f"{lengths} is given as the number of tokens, (batch_size,)")
        return
    has_causal = causal is not None or (padding is not None and bool(masks))
    if keep is not None or padding is not None:
        yield Masking(named, True, has_causal)
        return
    for mask in masks:
        for reading, make, takes_causal in _forms(mask.lower()):

            def given(
                k: Tensor | None,
                c: bool,
                sizes: tuple[int, int, int],
                mask: str = mask,
                make: Callable[[Tensor, Tensor], Tensor] = make,
                takes_causal: bool = takes_causal,
            ) -> dict[str, Tensor | bool]:
                kept = torch.ones(sizes[0], sizes[2], dtype=torch.bool) if k is None else k
                hides_later = c and (takes_causal or causal is None)
                visible = ~_later(sizes) if hides_later else torch.ones(sizes[1:], dtype=torch.bool)
                arguments: dict[str, Tensor | bool] = (
                    {mask: make(kept, visible)} if k is not None or hides_later else {}
                )
                return arguments | ({causal: True} if c and causal is not None and not takes_causal else {})

            yield Masking(given, True, takes_causal or causal is not None, f"{mask} is given as {reading}")
    if causal is not None:
        yield Masking(named, False, True)


def _later(sizes: tuple[int, int, int]) -> Tensor:
    """Return which keys are later than each query: bool, (q_length, k_length)."""
    return torch.ones(sizes[1:], dtype=torch.bool).triu(1)


def _forms(name: str) -> Iterator[tuple[str, Callable[[Tensor, Tensor], Tensor], bool]]:
    """Iterate over the forms of a mask: its words, a function of (keep, visible), and whether it can hide later keys.

    What transformers calls ``attention_mask``, and what is called valid, is true of tokens.
    """
    shapes: tuple[tuple[str, Callable[[Tensor, Tensor], Tensor], bool], ...] = (
        ("(batch_size, 1, q_length, k_length)", lambda keep, seen: (keep[:, None] & seen)[:, None], True),
        ("(batch_size, q_length, k_length)", lambda keep, seen: keep[:, None] & seen, True),
        ("(batch_size, k_length)", lambda keep, seen: keep, False),
        ("(batch_size, 1, 1, k_length)", lambda keep, seen: keep[:, None, None], False),
    )
    kinds: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = (
        ("True is seen", lambda seen: seen),
        ("True is hidden", lambda seen: ~seen),
        ("1 is seen, 0 hidden", lambda seen: seen.float()),
        ("0 is seen, −∞ hidden", lambda seen: torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)),
    )
    is_told = name == "attention_mask" or name.startswith("valid") or name == "visible"
    for kind, convert in kinds:
        if is_told and kind == "True is hidden":
            continue
        for shape, make, takes_causal in shapes:
            if is_told and "−∞" in kind and shape == "(batch_size, k_length)":
                continue  # a layer that it fits hides where the mask is not 0, which is upside down
            yield f"{shape}, {kind}", partial(_converted, convert, make), takes_causal


def _converted(
    convert: Callable[[Tensor], Tensor], make: Callable[[Tensor, Tensor], Tensor], keep: Tensor, seen: Tensor
) -> Tensor:
    return convert(make(keep, seen))

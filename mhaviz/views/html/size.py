"""How large a page will be, before anything of it is written."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from mhaviz.errors import MhavizError, parameter
from mhaviz.units import readable_bytes

MOST_BYTES = 2**28
"""Larger files take a browser longer to open than people wait, and more memory than its tabs may have."""

MOST_HEADS = 5000
"""Of all maps together: each has a picture of its own in the overview."""

_EXACT, _FINE = 2**22, 2**24
"""Bytes up to which weights are written as they are, and up to which their square roots have 16 bits instead of 10."""

_BESIDE = 2**24
"""Bytes up to which queries and keys stand beside weights that are written, too, to say why a weight is what it is."""

_BASE64 = 4 / 3
_DEFLATED = 1.1  # bytes of a 10-bit square root of a weight, about
_THUMBS = 480_000  # bytes of all together, about
_THUMB_SIDES = 32, 192  # cells of the smallest and the largest
_SCRIPTS = 2**17  # bytes of JavaScript and CSS


@dataclass(frozen=True)
class MapBytes:
    """What a map takes in a page.

    Attributes:
        n_heads: its heads.
        numbers: all its numbers, in all its parts.
        codes: bytes of its queries and keys, and of what is added to their scores; 0: it has none, or another map has
            the same.
        prefers_codes: whether its weights are computed from these, and are not in the page.
        parts: pictures of each head: 3 of a difference, that before, that after and the change.
    """

    n_heads: int
    numbers: int
    codes: int = 0
    prefers_codes: bool = False
    parts: int = 1


def prefers_codes(d_key: int, k_length: int) -> bool:
    """Whether queries and keys are fewer numbers than weights: each weight is one, a query and its key have 2 d_key."""
    return 4 * d_key < k_length


@dataclass(frozen=True)
class PageSize:
    """What of the maps a page holds.

    Attributes:
        n_heads: of all maps.
        thumb: cells of each side of a thumbnail, at most.
        bytes: of the file, about.
        bits: 32 of weights as they are; 16 or 10 of their square roots.
        keeps_all_codes: whether queries and keys are there beside weights, too.
    """

    n_heads: int
    thumb: int
    bytes: int
    bits: Literal[10, 16, 32]
    keeps_all_codes: bool

    @classmethod
    def of(cls, maps: Iterable[MapBytes]) -> "PageSize":
        """Of a page of these maps."""
        maps = tuple(maps)
        numbers = sum(m.numbers for m in maps if not m.prefers_codes)
        codes, other_codes = (sum(m.codes for m in maps if m.prefers_codes is preferred) for preferred in (True, False))
        keeps_all = other_codes <= _BESIDE
        bits: Literal[10, 16, 32] = 32 if 4 * numbers <= _EXACT else 16 if 2 * numbers <= _FINE else 10
        weights = (bits // 8 if bits > 10 else _DEFLATED) * numbers
        n_heads = sum(m.n_heads for m in maps)
        n_pictures = sum(m.n_heads * m.parts for m in maps)
        thumb = _thumb_side(n_pictures)
        total = _BASE64 * (weights + codes + (other_codes if keeps_all else 0) + n_pictures * thumb**2) + _SCRIPTS
        return cls(n_heads, thumb, int(total), bits, keeps_all)

    @property
    def fits(self) -> bool:
        """Whether browsers open it well."""
        return self.n_heads <= MOST_HEADS and self.bytes <= MOST_BYTES

    def require_fit(self) -> None:
        """Raise MhavizError that says how large the page would be, and what to choose instead, if it is too large."""
        if not self.fits:
            raise MhavizError(
                f"the page would be about {readable_bytes(self.bytes)} for {self.n_heads:,} heads, and browsers open "
                f"at most {readable_bytes(MOST_BYTES)} and {MOST_HEADS:,} heads well; take fewer with "
                f"{parameter('head')} or {parameter('layer')}, a shorter text, or save .safetensors, of which mhaviz "
                f"show makes a page of cells alone"
            )


def _thumb_side(n_pictures: int) -> int:
    """Cells of each side of a thumbnail, at most, where there are so many."""
    least, most = _THUMB_SIDES
    return min(max(math.isqrt(_THUMBS // max(n_pictures, 1)), least), most)

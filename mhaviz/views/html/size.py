"""Size of a page for the browser, estimated before it is written."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from mhaviz.errors import MhavizError, is_accepted, parameter
from mhaviz.units import readable_bytes

MOST_BYTES = 2**28
"""Bytes of the largest file. Larger ones open slowly, and may need more memory than a browser gives a tab."""

MOST_HEADS = 5000
"""Largest number of heads of all maps together, each of which has a picture in the overview."""

_EXACT, _FINE = 2**22, 2**24
"""Bytes up to which weights are written as they are, and up to which their square roots have 16 bits instead of 10."""

_BESIDE = 2**24
"""Bytes up to which queries and keys are written beside weights, to explain how each weight is computed."""

_BASE64 = 4 / 3
_DEFLATED = 1.1  # bytes of a 10-bit square root of a weight, about
_THUMBS = 480_000  # bytes of all thumbnails, about
_THUMB_SIDES = 32, 192  # cells of a side of the smallest and the largest thumbnail
_SCRIPTS = 2**17  # bytes of JavaScript and CSS


@dataclass(frozen=True)
class MapBytes:
    """Size of one map in a page.

    Attributes:
        n_heads: number of heads.
        numbers: number of weights in all its parts; 0: they are not in the page, but computed from queries and keys.
        codes: bytes of its queries, keys and biases of scores; 0: it has none, or shares those of another map.
        needs_codes: whether weights are computed from its queries and keys.
        parts: pictures of each head: 3 for a difference, the weights before, after and their change.
    """

    n_heads: int
    numbers: int
    codes: int = 0
    needs_codes: bool = False
    parts: int = 1


def prefers_codes(d_key: int, k_length: int) -> bool:
    """Return whether queries and keys take less room than weights: 2 d_key numbers for each token against k_length."""
    return 4 * d_key < k_length


def needs_codes(is_pooled: bool, d_key: int, k_length: int) -> bool:
    """Return whether the browser computes weights from the queries and keys of a map that has them.

    It does between the single tokens of a pooled map, whose cells are in the page; and all weights of other maps where
    queries and keys are smaller.
    """
    return is_pooled or prefers_codes(d_key, k_length)


@dataclass(frozen=True)
class PageSize:
    """Size of a page, and the resolution of its numbers.

    Attributes:
        n_heads: number of heads of all maps.
        thumb: most cells on each side of a thumbnail.
        bytes: approximate size of the file.
        bits: 32 for weights as they are, 16 or 10 for their square roots.
        keeps_all_codes: whether the page also holds queries and keys where it holds the weights.
    """

    n_heads: int
    thumb: int
    bytes: int
    bits: Literal[10, 16, 32]
    keeps_all_codes: bool

    @classmethod
    def of(cls, maps: Iterable[MapBytes]) -> "PageSize":
        """Return the size of a page of these maps."""
        maps = tuple(maps)
        numbers = sum(m.numbers for m in maps)
        codes, other_codes = (sum(m.codes for m in maps if m.needs_codes is needed) for needed in (True, False))
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
        """Whether the page is small enough for browsers."""
        return self.n_heads <= MOST_HEADS and self.bytes <= MOST_BYTES

    def require_fit(self, formats: Collection[str]) -> None:
        """Raise MhavizError if the page is too large; the message says how large, and what to choose instead.

        ``formats``: suffixes of the files that the result can be saved in.
        """
        if not self.fits:
            by = " or ".join(parameter(name) for name in ("head", "layer") if is_accepted(name))
            choices = [f"fewer with {by}" if by else "", "a shorter text"]
            cells = ", or save .safetensors, of which mhaviz show makes a page of cells alone"
            raise MhavizError(
                f"the page would be about {readable_bytes(self.bytes)} for {self.n_heads:,} heads, and browsers open "
                f"at most {readable_bytes(MOST_BYTES)} and {MOST_HEADS:,} heads well; take "
                f"{', '.join(filter(None, choices))}{cells if '.safetensors' in formats else ''}"
            )


def _thumb_side(n_pictures: int) -> int:
    """Return the most cells on each side of a thumbnail, for ``n_pictures`` of them."""
    least, most = _THUMB_SIDES
    return min(max(math.isqrt(_THUMBS // max(n_pictures, 1)), least), most)

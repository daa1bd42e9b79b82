"""Encoding of the numbers in a page: weights as they are, or their square roots in 8, 10 or 16 bits; queries and keys.

``mhaviz/web/codes.js`` decodes them.
"""

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhaviz.results.queries_and_keys import Codes

Reference = dict[str, Any]
"""Place and encoding of an array in a page, as JSON: see ``Chunks``."""

_ALIGNED = 4  # bytes, the alignment of typed arrays in JavaScript


@dataclass
class Chunk:
    """Bytes of a page that the browser decodes together.

    Attributes:
        deflated: whether they are compressed.
        content: the bytes before compression.
    """

    deflated: bool
    content: bytearray

    def written(self) -> tuple[str, dict[str, Any]]:
        """Return the bytes in Base64, and their description for the page: number of bytes, and whether deflated."""
        written = zlib.compress(self.content, 1) if self.deflated else bytes(self.content)
        return base64.b64encode(written).decode("ascii"), {"bytes": len(written), "deflated": self.deflated}


class Chunks:
    """All bytes of a page.

    Each method that adds an array returns a reference to it: chunk, offset, type, shape, bytes of a head, and the
    numbers that decode it.
    """

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []

    def new(self, deflated: bool = False) -> int:
        """Begin another chunk, and return its number."""
        self.chunks.append(Chunk(deflated, bytearray()))
        return len(self.chunks) - 1

    def roots(self, chunk: int, values: NDArray[np.float32], bits: int, signed: bool = False) -> Reference:
        """Add the quantised square roots of numbers, which resolve small weights better than the weights themselves.

        value = sign(code) · top · (code / most)². The largest code, or for signed numbers the smallest, is NaN.

        Args:
            chunk: number of the chunk.
            values: (heads, rows, columns) or (heads, rows); at least 0 unless ``signed``.
            bits: 8, 10 or 16.
            signed: whether some may be below 0.
        """
        dtype = np.dtype(f"<{'i' if signed else 'u'}{1 if bits == 8 else 2}")  # the empty bits beside 10 deflate well
        most, missing = 2**bits - 2, 2**bits - 1
        if signed:
            most, missing = 2 ** (bits - 1) - 1, -(2 ** (bits - 1))
        top = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
        written = np.empty(values.shape, dtype)
        for head, code in zip(values, written, strict=True):  # a copy of one head at a time
            roots = np.sqrt(np.abs(head) / np.float32(top))
            roots *= most
            np.rint(roots, out=roots)
            if signed:
                roots = np.copysign(roots, head)
            is_missing = np.isnan(roots)
            if is_missing.any():
                roots[is_missing] = missing
            code[...] = roots
        kind = f"{'signed' if signed else 'roots'}{bits}"
        described = self._add(chunk, written.tobytes(), kind, values.shape)
        return described | {"top": top, "precision": top * (1 / most + 2**-21)}  # half a step, and float32's rounding

    def weights(self, values: NDArray[np.float32], bits: int, signed: bool = False) -> Reference:
        """Add the weights of a map in a deflated chunk of their own: as they are for 32 bits, else as square roots."""
        chunk = self.new(deflated=True)
        return self.floats(chunk, values) if bits == 32 else self.roots(chunk, values, bits, signed)

    def features(self, chunk: int, coded: Codes) -> Reference:
        """Add quantised queries or keys, each head from a new byte on."""
        if coded.bits == 32:
            return self.floats(chunk, np.asarray(coded.codes, np.float32))
        lows, steps = self.floats(chunk, coded.lows), self.floats(chunk, coded.steps)
        whole = np.asarray(coded.codes, "<u2")
        codes = whole if coded.bits == 16 else _in_three_bytes(whole)
        added = self._add(chunk, codes.tobytes(), f"affine{coded.bits}", coded.codes.shape)
        return added | {"lows": lows, "steps": steps}

    def floats(self, chunk: int, values: NDArray[np.float32]) -> Reference:
        """Add numbers in float32."""
        return self._add(chunk, np.asarray(values, "<f4").tobytes(), "floats", values.shape) | {"precision": 0.0}

    def bits(self, chunk: int, values: NDArray[np.bool_]) -> Reference:
        """Add booleans, (heads, …), eight to a byte, each head from a new byte on."""
        packed = np.packbits(values.reshape(len(values), -1), axis=1)
        return self._add(chunk, packed.tobytes(), "bits", values.shape)

    def _add(self, chunk: int, content: bytes, kind: str, shape: tuple[int, ...]) -> Reference:
        written = self.chunks[chunk].content
        written.extend(bytes(-len(written) % _ALIGNED))
        offset = len(written)
        written.extend(content)
        return {"chunk": chunk, "offset": offset, "type": kind, "shape": list(shape), "bytes": len(content) // shape[0]}


def _in_three_bytes(codes: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """Pack two codes of 12 bits into three bytes, the lower bits first, (heads, bytes)."""
    flat = codes.reshape(len(codes), -1)
    if flat.shape[1] % 2:
        flat = np.concatenate([flat, np.zeros((len(flat), 1), np.uint16)], axis=1)
    first, second = flat[:, 0::2], flat[:, 1::2]
    packed = np.stack([first & 0xFF, (first >> 8) | ((second & 0xF) << 4), second >> 4], axis=-1)
    whole = packed.astype(np.uint8).reshape(len(codes), -1)
    return whole[:, : -(-codes[0].size * 12 // 8)]

"""Numbers as bytes, read back by a reader that the tests write for themselves."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mhaviz.results.queries_and_keys import Codes
from mhaviz.views.html.codes import Chunks

TYPES = {"roots8": "u1", "roots10": "<u2", "roots16": "<u2", "signed8": "i1", "signed10": "<i2", "signed16": "<i2"}


def read(chunks, reference):
    """The numbers of a reference, as the page's document describes them."""
    chunk = chunks.chunks[reference["chunk"]]
    kind, shape = reference["type"], reference["shape"]
    count = int(np.prod(shape))
    codes = np.frombuffer(bytes(chunk.content), TYPES[kind], count, reference["offset"]).reshape(shape)
    bits = int(kind.lstrip("rotsigned"))
    most = 2 ** (bits - 1) - 1 if kind.startswith("signed") else 2**bits - 2
    missing = -(2 ** (bits - 1)) if kind.startswith("signed") else 2**bits - 1
    shares = codes / most
    values = np.sign(shares) * reference["top"] * shares**2
    return np.where(codes == missing, np.nan, values)


weights = arrays.arrays(np.float32, (2, 3, 4), elements=st.floats(0, 1, width=32))
changes = arrays.arrays(np.float32, (2, 3, 4), elements=st.floats(-1, 1, width=32))


@given(weights, st.sampled_from([8, 10, 16]))
def test_roots_come_back_within_half_a_step(values, bits):
    chunks = Chunks()
    found = read(chunks, chunks.roots(chunks.new(), values, bits))
    top, half = max(values.max(), 0), 0.51 / (2**bits - 2)
    assert np.abs(np.sqrt(found) - np.sqrt(values)).max() <= half * np.sqrt(top or 1) + 1e-6


@given(changes, st.sampled_from([8, 10, 16]))
def test_signed_roots_keep_their_signs(values, bits):
    chunks = Chunks()
    found = read(chunks, chunks.roots(chunks.new(), values, bits, signed=True))
    assert (found * values >= 0).all()
    assert np.abs(np.sqrt(np.abs(found)) - np.sqrt(np.abs(values))).max() <= 0.51 / (2 ** (bits - 1) - 1) + 1e-6


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bits", [8, 10, 16])
def test_nan_stays_nan(signed, bits):
    values = np.array([[[0.5, np.nan, 1.0]]], np.float32)
    chunks = Chunks()
    found = read(chunks, chunks.roots(chunks.new(), values, bits, signed))
    assert np.isnan(found).tolist() == [[[False, True, False]]]


def test_sixteen_bits_are_exact_to_a_ten_thousandth():
    values = np.random.default_rng(0).random((3, 50, 50), np.float32)
    chunks = Chunks()
    assert np.abs(read(chunks, chunks.roots(chunks.new(), values, 16)) - values).max() < 3e-5


@given(arrays.arrays(np.uint16, (2, 3, 5), elements=st.integers(0, 4095)))
def test_twelve_bits_are_packed_head_by_head(codes):
    chunks, ones = Chunks(), np.ones((2, 5), np.float32)
    reference = chunks.features(chunks.new(), Codes(codes, ones, ones, 12))
    content = bytes(chunks.chunks[0].content)[reference["offset"] :]
    size = -(-codes[0].size * 12 // 8)
    for head, expected in enumerate(codes):
        bits = int.from_bytes(content[head * size : (head + 1) * size], "little")
        assert [(bits >> (12 * i)) & 4095 for i in range(expected.size)] == expected.ravel().tolist()


def test_features_of_32_bits_are_written_as_they_are():
    features = np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)
    chunks, zeros = Chunks(), np.zeros((2, 5), np.float32)
    reference = chunks.features(chunks.new(), Codes(features, zeros, zeros + 1, 32))
    assert (reference["type"], reference["shape"]) == ("floats", [2, 3, 5])
    assert np.frombuffer(bytes(chunks.chunks[0].content), "<f4").tolist() == features.ravel().tolist()


def test_references_are_aligned():
    chunks = Chunks()
    chunk = chunks.new()
    chunks.roots(chunk, np.ones((1, 3), np.float32), 8)
    reference = chunks.floats(chunk, np.array([1.5], np.float32))
    assert reference["offset"] == 4
    assert np.frombuffer(bytes(chunks.chunks[0].content), "<f4", 1, 4) == [1.5]


def test_a_deflated_chunk_is_zlib():
    chunks = Chunks()
    chunks.roots(chunks.new(deflated=True), np.zeros((1, 100, 100), np.float32), 8)
    import base64

    text, described = chunks.chunks[0].written()
    assert len(base64.b64decode(text)) == described["bytes"] < 200
    assert zlib.decompress(base64.b64decode(text)) == bytes(10_000)

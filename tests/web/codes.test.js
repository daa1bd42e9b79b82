// Bytes as Python writes them, read as numbers. The expected numbers are written out, or are JavaScript's own.

import assert from "node:assert/strict";
import test from "node:test";
import zlib from "node:zlib";

import { bitAt, bytesOfBase64, headNumbers, inflated } from "../../mhaviz/web/codes.js";

const reference = (type, shape, more = {}) => {
  const bits = { floats: 32, affine12: 12, affine16: 16, roots8: 8, roots10: 16, signed8: 8, bits: 1 }[type];
  const length = shape.slice(1).reduce((product, size) => product * size, 1);
  return { chunk: 0, offset: 0, type, shape, bytes: Math.ceil((length * bits) / 8), ...more };
};
const read = (ref, place, ...chunks) => [...headNumbers(ref, place, (number) => chunks[number])];

test("base64 and zlib come back as they were", async () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
  assert.deepEqual(bytesOfBase64(Buffer.from(bytes).toString("base64")), bytes);
  assert.deepEqual(await inflated(zlib.deflateSync(bytes)), bytes);
});

test("floats are those of the head that is asked for", () => {
  const bytes = new Uint8Array(new Float32Array([1, 2, 0.5, -0.25]).buffer);
  assert.deepEqual(read(reference("floats", [2, 2]), 1, bytes), [0.5, -0.25]);
});

test("roots are squared, and the last code is missing", () => {
  const [zero, half, top, missing] = read(reference("roots8", [1, 4], { top: 0.5 }), 0, Uint8Array.of(0, 127, 254, 255));
  assert.deepEqual([zero, half, top], [0, 0.125, 0.5]);
  assert.ok(Number.isNaN(missing));
});

test("of weights some are read, wherever they are", () => {
  const floats = new Uint8Array(new Float32Array([9, 9, 9, 9, 1, 2, 3, 4]).buffer);
  const roots = Uint8Array.of(0, 0, 0, 0, 254, 0, 127, 254);
  for (const [ref, bytes] of [
    [reference("floats", [2, 2, 2]), floats],
    [reference("roots8", [2, 2, 2], { top: 4 }), roots],
  ]) {
    const all = [...headNumbers(ref, 1, () => bytes)];
    assert.deepEqual([...headNumbers(ref, 1, () => bytes, 2, 4)], all.slice(2));
    assert.equal(all.at(-1), 4);
  }
});

test("signed roots keep their sign, and the first code is missing", () => {
  const codes = new Uint8Array(Int8Array.of(-127, 0, 127, -128).buffer);
  assert.deepEqual(read(reference("signed8", [1, 4], { top: 2 }), 0, codes), [-2, 0, 2, NaN]);
});

test("two codes of 12 bits stand in three bytes, and each feature has its own step", () => {
  const floats = (values, chunk) => ({ ...reference("floats", [1, values.length]), chunk });
  const bytesOf = (values) => new Uint8Array(new Float32Array(values).buffer);
  const ref = reference("affine12", [1, 3, 2], { lows: floats([0, -1], 1), steps: floats([1, 0.5], 2) });
  const codes = Uint8Array.of(0x23, 0x61, 0x45, 0xff, 0x0f, 0x00, 0x01, 0x20, 0x00); // 0x123 0x456, 0xfff 0, 1 2
  const expected = [0x123, 0x456 / 2 - 1, 0xfff, -1, 1, 0];
  assert.deepEqual(read(ref, 0, codes, bytesOf([0, -1]), bytesOf([1, 0.5])), expected);
});

test("bits are read from the highest on", () => {
  assert.deepEqual([0, 1, 8, 15].map((n) => bitAt(Uint8Array.of(0b10000000, 0b00000001), n)), [1, 0, 0, 1]);
});

test("a page that is cut off, and a type of another version, are said to be so", () => {
  assert.throws(() => read(reference("floats", [2, 2]), 1, new Uint8Array(12)), /expected 16 bytes in part 0 of the page, got 12/);
  assert.throws(() => read({ ...reference("floats", [1, 1]), type: "new" }, 0, new Uint8Array(4)), /got new/);
});

// What patches get: sharesOf of small rows, by hand. tests/views/html/test_images.py compares it with Python.

import assert from "node:assert/strict";
import test from "node:test";

import { ofQueries, sharesOf, toKeys } from "../../mhaviz/web/shares.js";

const none = () => false;

test("multiples of uniform, and the fewest patches with half", () => {
  const found = sharesOf([0.3, 0.1, 0, 0], [0.25, 0.25, 0.25, 0.25]);
  assert.deepEqual([...found.times].map((x) => Math.round(x * 1e9) / 1e9), [3, 1, 0, 0]);
  assert.deepEqual([...found.outlined], [1, 0, 0, 0]);
  assert.deepEqual([found.half, found.count, found.spread], [1, 4, "half"]);
  assert.equal(found.inside, 0.4);
});

test("what is even has no outline, and what gets nothing no numbers", () => {
  const even = sharesOf([1, 1, 1, 1], [0.25, 0.25, 0.25, 0.25]);
  assert.deepEqual([even.spread, even.half, [...even.outlined]], ["even", 2, [0, 0, 0, 0]]);
  const nothing = sharesOf([0, 0], [0.5, 0.5]);
  assert.deepEqual([nothing.spread, [...nothing.times].map(Number.isNaN)], ["nothing", [true, true]]);
});

test("hidden patches are no patches that queries see, and those of other windows have no column", () => {
  const values = Float32Array.of(0.5, 0.5, 0, 0.25, 0.25, 0.5);
  const found = ofQueries(values, 3, [0, 1], [0, -1, 2], (row, column) => row === 0 && column === 2);
  assert.deepEqual([...found.weights], [0.375, 0, 0.25]);
  assert.deepEqual([...found.chance], [0.75, 0, 0.25]);
});

test("what patches give keys", () => {
  const values = Float32Array.of(0.5, 0.5, 0.25, 0.75);
  const found = toKeys(values, 2, [1], [0, 1], none);
  assert.deepEqual([[...found.weights], [...found.chance]], [[0.5, 0.75], [0.5, 0.5]]);
  assert.equal(sharesOf(found.weights, found.chance, true).inside, 0.625);
});

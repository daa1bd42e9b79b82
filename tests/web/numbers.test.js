// Numbers are written as Python writes them, which reads the same table: tests/pages/test_numbers.py.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { cellText, fixed, precisionText, short } from "../../mhaviz/web/numbers.js";

const table = JSON.parse(readFileSync(new URL("numbers.json", import.meta.url), "utf8"));

test("numbers that are compared have so many decimals", () => {
  for (const [value, decimals, text] of table.fixed) assert.equal(fixed(value, decimals), text);
});

test("numbers that stand alone have so many digits", () => {
  for (const [value, digits, text] of table.short) assert.equal(short(value, digits), text);
  assert.deepEqual([NaN, Infinity, -Infinity].map((value) => short(value)), ["missing", "∞", "−∞"]);
});

test("a cell has its number unless that rounds to 0", () => {
  for (const [value, scale, low, text] of table.cells) assert.equal(cellText(value, scale, low), text);
  assert.equal(cellText(NaN, { decimals: 2, signed: false }, 0), "");
});

test("a bound is rounded up", () => {
  assert.deepEqual([0.0012, 3e-7, 0.5].map(precisionText), ["0.002", "3e−07", "0.5"]);
});

// What a map hides: what its mask is meant to hide, where no weight contradicts it.

import assert from "node:assert/strict";
import test from "node:test";

import { PageMap } from "../../mhaviz/web/contents.js";

const tokens = [{ labels: ["a", "b", "c"], special: [], joined: [], unnamed: "" }];

/** A masked map of three tokens; `bits` of its nine cells have weight although they are later, row by row. */
function masked(bits) {
  const side = { tokens: 0, edges: null };
  const weighedBeyond = bits && { chunk: 0, offset: 0, type: "bits", shape: [1, 3, 3], bytes: 2 };
  const described = { hiddenLater: true, reach: null, call: null, queries: side, keys: side, parts: [], weighedBeyond };
  return new PageMap(described, 0, tokens, () => Uint8Array.from(bits));
}

const cells = [0, 1, 2].flatMap((row) => [0, 1, 2].map((column) => [row, column]));

test("later keys are hidden", () => {
  for (const [row, column] of cells) {
    assert.equal(masked(null).hidden(row, column), column > row);
    assert.equal(masked(null).hiddenToken(row, column), column > row);
  }
});

test("a later key that has weight is not hidden", () => {
  const map = masked([0b0010_0000, 0]); // the last key of the first query
  for (const [row, column] of cells) {
    const hides = column > row && !(row === 0 && column === 2);
    assert.equal(map.hidden(row, column), hides);
    assert.equal(map.hiddenToken(row, column), hides);
  }
});

// softmax(scale · Q Kᵀ + …) beside the equation written out in plain sums.

import assert from "node:assert/strict";
import test from "node:test";

import { Call } from "../../mhaviz/web/rule.js";

const Q = [[1, 0], [0.5, -1], [2, 1]];
const K = [[1, 1], [0, 2], [-1, 0.5]];
const dot = (q, k) => q.reduce((sum, feature, f) => sum + feature * k[f], 0);

function call(more = {}, bias = null) {
  const chunks = [Q, K].map((rows) => new Uint8Array(new Float32Array(rows.flat()).buffer));
  if (bias) chunks.push(bias);
  const floats = (chunk) => ({ chunk, offset: 0, type: "floats", shape: [1, 3, 2], bytes: 24 });
  const given = { scale: 0.5, rule: "", causal: false, reach: null, softcap: null, sinks: null, keyHeads: [0], norms: null };
  return new Call({ ...given, query: floats(0), key: floats(1), bias: null, ...more }, (number) => chunks[number]);
}

/** Rows of weights of the scores that a function gives, −Infinity where a key is hidden. */
function expected(score, sink = -Infinity) {
  return Q.map((q, i) => {
    const exps = K.map((k, j) => Math.exp(score(dot(q, k), i, j)));
    const sum = exps.reduce((total, one) => total + one, Math.exp(sink));
    return exps.map((one) => (sum ? one / sum : 0));
  });
}

const near = (found, wanted) =>
  wanted.flat().forEach((value, at) => assert.ok(Math.abs(found[at] - value) < 1e-6, `${at}: ${found[at]}, ${value}`));

test("heads stay decoded while they are few", () => {
  const bytes = [Q, K].map((rows) => new Uint8Array(new Float32Array([rows, rows].flat(2)).buffer));
  const ref = (chunk) => ({ chunk, offset: 0, type: "floats", shape: [2, 3, 2], bytes: 24 });
  const given = { scale: 0.5, rule: "", causal: false, reach: null, softcap: null, sinks: null, keyHeads: [0, 1], norms: null };
  let reads = 0;
  const twice = new Call({ ...given, query: ref(0), key: ref(1), bias: null }, (number) => (reads++, bytes[number]));
  for (const head of [0, 1, 0, 1, 0]) near(twice.weights(head), expected((product) => 0.5 * product));
  assert.equal(reads, 4); // queries and keys of each
});

const seen = (isSeen) => (product, i, j) => (isSeen(i, j) ? 0.5 * product : -Infinity);
const RULES = {
  plain: [{}, expected(seen(() => true))],
  causal: [{ causal: true }, expected(seen((i, j) => j <= i))],
  window: [{ reach: 1 }, expected(seen((i, j) => Math.abs(i - j) <= 1))],
  softcap: [{ softcap: 0.7 }, expected((product) => 0.7 * Math.tanh((0.5 * product) / 0.7))],
  sink: [{ sinks: [0.3] }, expected((product) => 0.5 * product, 0.3)],
};

for (const [name, [more, wanted]] of Object.entries(RULES)) {
  test(`weights: ${name}`, () => {
    near(call(more).weights(0), wanted);
    near(call(more).weights(0, 1, 2, 1, 3), wanted.slice(1, 2).map((row) => row.slice(1)));
  });
}

test("a mask of bits hides keys, and a query that sees none has zeros", () => {
  const values = { chunk: 2, offset: 0, type: "bits", shape: [1, 3, 3], bytes: 2 };
  const bits = Uint8Array.of(0b11000010, 0b10000000); // 110 000 101
  const mask = [[1, 1, 0], [0, 0, 0], [1, 0, 1]];
  near(call({ bias: { form: "visible", values } }, bits).weights(0), expected(seen((i, j) => mask[i][j])));
});

test("one score is taken apart into its products", () => {
  const { query, key, dot: whole, scaled, score, hidden } = call({ causal: true }).products(0, 2, 1);
  near(query.map((feature, f) => feature * key[f]), [[2 * 0, 1 * 2]]);
  assert.deepEqual([whole, scaled, score, hidden], [2, 1, 1, false]);
  assert.equal(call({ causal: true }).products(0, 0, 1).hidden, true);
});

// What a link says is taken over as far as the page has it.

import assert from "node:assert/strict";
import test from "node:test";

import { State } from "../../mhaviz/web/state.js";

const side = { start: 0, tokens: 5, labels: ["a", "b", "c", "d", "e"], end: 5 };
const map = (index) => ({ index, heads: [0, 1, 2], parts: [{ name: "weights" }], call: null, rows: side, columns: side });
const contents = { maps: [map(0), map(1)], scales: [{ log: false, high: 1 }], measures: [{ name: "entropy" }], tables: [], statistics: null };

const NAMES = ["length", "at", "__proto__", "constructor", "0.5", "0-1", "-1"]; // which arrays or objects have, or nearly
const FOREIGN = NAMES.flatMap((name) => [`#map=${name}`, `#view=${name}&part=${name}&sort=${name}`, `#${name}=1`]);

function stateOf(hash) {
  const told = [];
  globalThis.location = { hash, href: `file:///page.html${hash}` };
  globalThis.history = { pushState: (...args) => told.push(args[2]), replaceState: (...args) => told.push(args[2]) };
  globalThis.window = { addEventListener() {} };
  return [new State(contents), told];
}

test("a link comes back as it was", () => {
  const hash = "#view=text&map=1&head=2&query=3&window=1-4-0-5&heads=0-2&special=no&sort=entropy&strip=all";
  const [state] = stateOf(hash);
  const { view, map, head, query, window, heads, special, sort, strip } = state.values;
  assert.deepEqual([view, map, head, query, window, heads], ["text", 1, 2, 3, [1, 4, 0, 5], [0, 2]]);
  assert.deepEqual([special, sort, strip], [false, "entropy", "all"]);
  assert.deepEqual(new URLSearchParams(state.link.split("#")[1]), new URLSearchParams(hash.slice(1)));
});

for (const hash of ["#map=9&head=-3&query=99", "#view=<b>&theme=2", "#window=3-2-0-5&heads=7-8", "#%%%", "#special=maybe", ...FOREIGN]) {
  test(`what the page has not is not taken over: ${hash}`, () => {
    const [state] = stateOf(hash);
    assert.equal(state.link, "file:///page.html");
  });
}

test("only a change is told, and a view is a step back", () => {
  const [state, told] = stateOf("");
  const changes = [];
  state.subscribe((changed) => changes.push([...changed]));
  state.set({ head: 0 });
  state.set({ head: 1, query: 4 });
  state.set({ query: 9 });
  assert.deepEqual(changes, [["head", "query"], ["query"]]);
  assert.equal(state.values.query, null);
  assert.ok(told[0].endsWith("#head=1&query=4"));
});

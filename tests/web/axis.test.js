// Places along an axis and positions in the text, there and back.

import assert from "node:assert/strict";
import test from "node:test";

import { Axis } from "../../mhaviz/web/axis.js";
import { Side } from "../../mhaviz/web/contents.js";

const LABELS = ["[CLS]", "the", "cat", "the", "mat", "[SEP]"];
const tokens = [{ labels: LABELS, joined: [], special: [0, 5], ids: null, unnamed: "", positions: true }];
const side = (edges = null) => new Side({ tokens: 0, edges }, tokens);

test("special tokens are left out where they are not wanted", () => {
  const [all, text] = [new Axis(side(), false, true), new Axis(side(), false, false)];
  assert.deepEqual([all.length, text.length], [6, 4]);
  assert.deepEqual([text.first(0), text.indexOf(0), text.indexOf(4)], [1, -1, 3]);
});

test("a place is a position, there and back", () => {
  for (const axis of [new Axis(side(), false, true), new Axis(side([0, 2, 3, 6]), false, true)]) {
    for (const place of [0, 0.5, 1, 1.25, axis.length - 0.5]) {
      assert.ok(Math.abs(axis.place(axis.position(place)) - place) < 1e-12);
    }
    assert.equal(axis.place(6), axis.length);
  }
});

test("a token that stands twice says where", () => {
  const axis = new Axis(side(), false, true);
  assert.deepEqual([axis.label(1), axis.label(2), axis.label(3)], ["the₁", "cat", "the₃"]);
  assert.equal(axis.name(3), "the (3)");
  const without = new Axis(new Side({ tokens: 0, edges: null }, [{ ...tokens[0], positions: false }]), false, true);
  assert.deepEqual([without.label(1), without.label(3)], ["the", "the"]);
  assert.equal(new Axis(side([0, 2, 3, 6]), false, true).name(2), "the mat [SEP] (3–5)");
});

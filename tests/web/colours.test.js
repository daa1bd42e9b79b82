// Numbers have the colours that a figure gives them.

import assert from "node:assert/strict";
import test from "node:test";

globalThis.window = { matchMedia: () => ({ matches: false }) };
globalThis.document = { documentElement: { style: { setProperty() {} }, dataset: {} } };
const { Colours } = await import("../../mhaviz/web/colours.js");

const palette = (blue) => Buffer.from(Uint8Array.from({ length: 768 }, (_, i) => (i % 3 === 2 ? blue : i / 3))).toString("base64");
const palettes = { weights: [palette(0), palette(0)], changes: [palette(1), palette(1)], sinks: [palette(2), palette(2)] };

test("1 is in the middle of ratios, whatever scale weights have, and 0 has the first colour", () => {
  const ratios = { low: 1 / 8, high: 8, ends: ["≤ 1/8", "8"], ratios: true, signed: false };
  for (const scale of ["linear", "log", "rows"]) {
    const colours = new Colours({ palettes }, { values: { scale, theme: "light" } });
    const places = [1, 2, 0.5, 8, 1 / 8, 0, 100].map((value) => colours.rgb(value, ratios, 4)[0]);
    assert.deepEqual(places, [128, 170, 85, 255, 0, 0, 255]);
    assert.deepEqual([colours.rgb(1, ratios)[2], colours.range(ratios).ends[0]], [1, "≤ 1/8"]);
  }
});

test("columns of sinks have colours and a scale of their own, and do not count as the largest of their row", () => {
  const weights = { low: 0, high: 0.25, ends: ["0", "0.25"], logLow: 1e-3, logHigh: 0.25, logEnds: [], ratios: false, signed: false };
  const image = () => ({ data: new Uint8ClampedArray(16) });
  for (const [scale, expected] of [
    ["linear", [128, 0, 255, 0]],
    ["rows", [128, 0, 255, 0]],
  ]) {
    const colours = new Colours({ palettes }, { values: { scale, theme: "light" } });
    const imageData = image();
    colours.fill(imageData, Float32Array.of(0.5, 0, 0.25, NaN), weights, { rows: 1, columns: 4, sinks: [0] });
    const pixels = [0, 4, 8, 12].map((at) => imageData.data[at]);
    assert.deepEqual(pixels, expected);
    assert.deepEqual([imageData.data[2], imageData.data[6]], [2, 0]);
  }
});

// Interface of the page for tests and other tools: window.mhaviz.

/** @import { Contents } from "./contents.js" */

/**
 * Offer the contents as `window.mhaviz`:
 *
 * ready: a promise, resolved when all numbers are available.
 * maps: all maps: {index, name, layer, kind, sentence, module, pass, heads, names, parts, queries, keys,
 *   rows, columns, precision}; heads are numbers, queries and keys labels, rows and columns counts of cells; module is
 *   the name of the attention's module in a recorded program, pass its forward pass, if there are several.
 * weights(map, head, wanted): see `weightsOf`.
 *
 * @param {Contents} contents
 */
export function offerApi(contents) {
  const maps = contents.maps.map((map) =>
    Object.freeze({
      index: map.index,
      name: map.name,
      layer: map.layer,
      kind: map.kind,
      sentence: map.sentence,
      module: map.module,
      pass: map.pass,
      heads: map.heads,
      names: map.names,
      parts: map.parts.map((part) => part.name),
      queries: map.rows.labels,
      keys: map.columns.labels,
      rows: map.rows.length,
      columns: map.columns.length,
      precision: map.precision,
    }),
  );
  const weights = (map, head, wanted) => weightsOf(contents, map, head, wanted);
  window.mhaviz = Object.freeze({ ready: contents.inflated, maps: Object.freeze(maps), weights });
}

/**
 * Return the numbers of a head, exactly as they are drawn.
 *
 * @param {Contents} contents
 * @param {number|{index: number}} map its index, or one of `mhaviz.maps`
 * @param {number} head its number
 * @param {number[]|{part?: string, window?: number[]}} [wanted] a window [q0, q1, k0, k1] of single tokens,
 *   instead of all rows × columns; and for a difference, "before", "after" or "change"
 * @returns {Float32Array} row by row
 */
function weightsOf(contents, map, head, wanted) {
  const index = typeof map === "number" ? map : map?.index;
  const found = contents.maps[index];
  if (!found) throw new Error(`expected a map from 0 to ${contents.maps.length - 1}, got ${String(index)}`);
  const named = Array.isArray(wanted) ? { window: wanted } : wanted;
  const { part = found.mainPart, window = null } = named ?? {};
  const place = found.placeOf(head);
  if (window === null) return found.values(part, place);
  if (window.length !== 4) throw new Error(`expected [q0, q1, k0, k1], got ${window.length} numbers`);
  return found.window(place, window, part);
}

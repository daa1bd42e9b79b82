// What a head gives the patches of images: shares of it all, multiples of uniform, the fewest patches with half. As in
// Python, mhaviz/results/patch_shares.py; tests/views/html/test_images.py compares both.

const HALF = 0.5;
const EVEN = 0.4; // least part of the patches with half of it where it is even
const PEAK = 4; // least multiple of uniform of a patch that stands out of what is even but for it
const ROUNDING = 1e-9;

/** Least number of patches of which a half is worth a word. */
export const LEAST_PATCHES = 25;

/**
 * What patches get of all that a head gives them.
 *
 * @param {ArrayLike<number>} weights of the patches; of a key, the weight that each gives it
 * @param {ArrayLike<number>} chance what each would get if all got the same, in sum 1; 0: it is hidden
 * @param {boolean} ofKey
 * @returns {{times: Float64Array, outlined: Uint8Array, half: number, inside: number, count: number,
 *   spread: "half"|"peaks"|"even"|"nothing"}} multiples of uniform, NaN where hidden; 1 where a patch stands out; the
 *   fewest patches with half; the sum of all weights, or the mean of those on a key; number of patches that are seen
 */
export function sharesOf(weights, chance, ofKey = false) {
  const seen = Array.from(chance, (_, i) => i).filter((i) => chance[i] > 0);
  const parts = Float64Array.from(weights, (weight, i) => (ofKey ? weight * chance[i] : weight));
  const inside = seen.reduce((sum, i) => sum + parts[i], 0);
  const times = new Float64Array(chance.length).fill(NaN);
  const outlined = new Uint8Array(chance.length);
  const found = { times, outlined, half: 0, inside, count: seen.length, spread: /** @type {any} */ ("nothing") };
  if (!(inside > 0)) return found;
  for (const i of seen) times[i] = parts[i] / inside / chance[i];
  const order = [...seen].sort((one, other) => parts[other] - parts[one]); // stable
  for (let sum = 0; sum < HALF - ROUNDING && found.half < order.length; found.half++) sum += parts[order[found.half]] / inside;
  if (found.half < EVEN * seen.length) {
    found.spread = "half";
    for (const i of order.slice(0, found.half)) outlined[i] = 1;
    return found;
  }
  const peaks = seen.filter((i) => times[i] >= PEAK);
  found.spread = peaks.length ? "peaks" : "even";
  for (const i of peaks) outlined[i] = 1;
  return found;
}

/**
 * What queries give each patch on average, and what they would if they gave all patches the same.
 *
 * @param {ArrayLike<number>} values rows × columns of a head
 * @param {number} columns
 * @param {number[]} rows the queries, by their rows
 * @param {number[]} patches columns of the patches; −1: it is no column
 * @param {(row: number, column: number) => boolean} isHidden
 */
export function ofQueries(values, columns, rows, patches, isHidden) {
  const weights = new Float64Array(patches.length);
  const chance = new Float64Array(patches.length);
  for (const row of rows) {
    const seen = patches.map((column) => column >= 0 && !isHidden(row, column));
    const count = seen.filter(Boolean).length;
    patches.forEach((column, i) => {
      if (column >= 0) weights[i] += values[row * columns + column] / rows.length;
      if (seen[i]) chance[i] += 1 / count;
    });
  }
  const sum = chance.reduce((one, other) => one + other, 0) || 1;
  return { weights, chance: chance.map((part) => part / sum) };
}

/** The same of patches, as queries, to keys: what each gives these together. */
export function toKeys(values, columns, keys, patches, isHidden) {
  const seen = patches.map((row) => row >= 0 && keys.some((column) => !isHidden(row, column)));
  const count = seen.filter(Boolean).length || 1;
  const weightOf = (row) => keys.reduce((sum, column) => sum + values[row * columns + column], 0);
  const weights = Float64Array.from(patches, (row) => (row < 0 ? 0 : weightOf(row)));
  return { weights, chance: Float64Array.from(seen, (is) => (is ? 1 / count : 0)) };
}

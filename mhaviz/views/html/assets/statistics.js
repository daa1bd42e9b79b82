// What a head looks at in one sentence: the numbers of `mhaviz heads`, which HeadAverages in Python defines.
"use strict";

/**
 * The sums that the numbers of a head are the means of, over some of its queries.
 *
 * Of a map without special tokens, what needs the weight of each of them is not known.
 *
 * @param {PageMap} map
 * @param {number} place of the head
 * @param {Float32Array} weights queries × keys
 * @param {number} start the first query
 * @returns {Object<string, {sum: number, queries: number}>} of the numbers that at least one query has
 */
function headTotals(map, place, weights, start) {
  const totals = {};
  const add = (name, number) => {
    totals[name] ??= { sum: 0, queries: 0 };
    totals[name].sum += number;
    totals[name].queries += 1;
  };
  const keys = map.columns.tokens;
  const queries = weights.length / keys;
  const areShares = map.quantity.is_distribution; // of others, such as norms, each row's shares count
  const special = [...map.columns.special];
  const samePositions = ["self", "masked"].includes(map.kind) && map.rows.tokens === keys;
  const copyBefore = samePositions ? earlierCopies(map.columns) : null;

  for (let r = 0; r < queries; r++) {
    const i = start + r;
    const numbers = weights.subarray(r * keys, (r + 1) * keys);
    const row = areShares ? numbers : sharesOf(numbers);
    const whole = sharesOf(row); // rows of a softmax with a sink sum to less than 1
    if (!map.isCropped) {
      add("entropy", entropyOf(whole));
      add("first", row[0]);
      if (special.length > 0)
        add(
          "separators",
          special.reduce((sum, j) => sum + row[j], 0),
        );
    }
    if (!samePositions) continue;

    if (!map.isCropped) add("distance", distanceOf(whole, i));
    add("itself", row[i]);
    if (i > 0) add("previous", row[i - 1]);
    if (i + 1 < keys && map.kind === "self") add("next", row[i + 1]);
    if (copyBefore[i] < 0) continue;
    let copies = 0;
    let induction = 0;
    for (let j = copyBefore[i]; j >= 0; j = copyBefore[j]) {
      copies += row[j];
      induction += row[j + 1];
    }
    add("copies", copies);
    add("induction", induction);
  }
  return totals;
}

/** A row as shares of its sum. */
function sharesOf(numbers) {
  const sum = numbers.reduce((total, number) => total + number, 0);
  return sum > 0 ? numbers.map((number) => number / sum) : numbers;
}

/** The sums of two groups of queries together. */
function addedTotals(some, others) {
  const sums = { ...some };
  for (const [name, { sum, queries }] of Object.entries(others)) {
    const before = sums[name] ?? { sum: 0, queries: 0 };
    sums[name] = { sum: before.sum + sum, queries: before.queries + queries };
  }
  return sums;
}

/** {name: number} of what there is a number for. */
function meansOfTotals(totals) {
  const finite = Object.entries(totals).filter(([, { sum }]) => Number.isFinite(sum));
  return Object.fromEntries(finite.map(([name, { sum, queries }]) => [name, sum / queries]));
}

/** −Σ a ln a, in nats. */
function entropyOf(row) {
  let sum = 0;
  for (let j = 0; j < row.length; j++) if (row[j] !== 0) sum -= row[j] * Math.log(row[j]);
  return sum;
}

/** Σ a |i − j|, in tokens. */
function distanceOf(row, i) {
  let sum = 0;
  for (let j = 0; j < row.length; j++) sum += row[j] * Math.abs(i - j);
  return sum;
}

/** For each token the position of the last one before that is the same, or −1; special tokens have none. */
function earlierCopies(side) {
  const names = side.ids ?? side.labels;
  const last = new Map();
  return Int32Array.from(names, (name, position) => {
    if (side.special.has(position)) return -1;
    const before = last.get(name) ?? -1;
    last.set(name, position);
    return before;
  });
}

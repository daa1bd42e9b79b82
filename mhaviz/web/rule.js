// The equation A = softmax(scale · Q Kᵀ), with what models may add to it. Sums are in double precision.

import { bitAt, headBytes, headNumbers } from "./codes.js";

/**
 * Computes the weights of one map from the queries and keys of all its tokens.
 *
 * `head` is always the index of a head in the map, not its number.
 */
export class Call {
  #described;
  #chunkBytes;
  #read = new Map(); // head → its own numbers

  /**
   * @param {any} described the "call" of a map
   * @param {(a: number) => Uint8Array} chunkBytes the bytes of a chunk
   */
  constructor(described, chunkBytes) {
    this.#described = described;
    this.#chunkBytes = chunkBytes;
    [, this.queries, this.dKey] = described.query.shape;
    this.keys = described.key.shape[1];
  }

  /**
   * Return the scores that the softmax is applied to, of the queries from `start` to `end`.
   *
   * @returns {Float64Array} queries × keys, −Infinity where a key is hidden
   */
  scores(head, start = 0, end = this.queries) {
    const scores = new Float64Array((end - start) * this.keys);
    const row = this.#newRow();
    for (let i = start; i < end; i++) {
      this.#scoreRow(this.#head(head), i, row);
      scores.set(row.subarray(0, this.keys), (i - start) * this.keys);
    }
    return scores;
  }

  /**
   * Return the weights of the queries from `q0` to `q1` on the keys from `k0` to `k1`. A query that sees no key has
   * zeros.
   *
   * @returns {Float32Array} queries × keys
   */
  weights(head, q0 = 0, q1 = this.queries, k0 = 0, k1 = this.keys) {
    const weights = new Float32Array((q1 - q0) * (k1 - k0));
    const row = this.#newRow();
    for (let i = q0; i < q1; i++) {
      this.#weightRow(this.#head(head), i, row);
      weights.set(row.subarray(k0, k1), (i - q0) * (k1 - k0));
    }
    return weights;
  }

  /**
   * Return the numbers that the map shows of single tokens: weights, or weights times the norms of the keys' values.
   *
   * @returns {Float32Array} queries × keys; the arguments are those of `weights`
   */
  numbers(head, q0 = 0, q1 = this.queries, k0 = 0, k1 = this.keys) {
    const numbers = this.weights(head, q0, q1, k0, k1);
    const { norms } = this.#head(head);
    if (norms === null) return numbers;
    const width = k1 - k0;
    for (let at = 0; at < numbers.length; at++) numbers[at] *= norms[k0 + (at % width)];
    return numbers;
  }

  /**
   * Return one score with the products of features that it is computed from.
   *
   * @returns {{query: Float32Array, key: Float32Array, dot: number, scaled: number, capped: number, bias: number,
   *   score: number, hidden: boolean}} the features of both, (d_key,); without a cap, `capped` is `scaled`
   */
  products(head, query, key) {
    const { scale, softcap } = this.#described;
    const side = this.#head(head);
    const q = side.query.slice(query * this.dKey, (query + 1) * this.dKey);
    const k = side.key.slice(key * this.dKey, (key + 1) * this.dKey);
    const dot = q.reduce((sum, feature, f) => sum + feature * k[f], 0);
    const scaled = scale * dot;
    const capped = softcap === null ? scaled : softcap * Math.tanh(scaled / softcap);
    const bias = side.bias === null ? 0 : side.bias[this.#biasStart(query) + key];
    const row = this.#newRow();
    this.#scoreRow(side, query, row);
    const score = row[key];
    return { query: q, key: k, dot, scaled, capped, bias, score, hidden: score === -Infinity };
  }

  /** Score of the attention sink in the softmax of a head, which belongs to no key, or null. */
  sink(head) {
    return this.#described.sinks?.[head] ?? null;
  }

  /** ‖v W_O‖ of each key of a head, by which the map's weights are multiplied, or null. */
  norms(head) {
    return this.#head(head).norms;
  }

  /** The head's own numbers: {query, key, bias, visible, norms, sink}. */
  #head(head) {
    const read = this.#read.get(head);
    if (read) return read;
    const { query, key, keyHeads, bias, norms } = this.#described;
    const keys = new Float32Array(roundedUp(this.keys) * this.dKey); // the last group is padded with zeros
    keys.set(headNumbers(key, keyHeads[head], this.#chunkBytes));
    const isMask = bias?.form === "visible";
    const ofBias = (read) => read(bias.values, bias.values.shape[0] > 1 ? head : 0, this.#chunkBytes);
    const numbers = {
      query: headNumbers(query, head, this.#chunkBytes),
      key: keys,
      bias: bias === null || isMask ? null : ofBias(headNumbers),
      visible: isMask ? ofBias(headBytes) : null,
      norms: norms ? headNumbers(norms, head, this.#chunkBytes) : null,
      sink: this.sink(head) ?? -Infinity,
    };
    const most = Math.max(Math.floor(MOST_READ / (this.dKey * (this.keys + this.queries))), 1);
    if (this.#read.size >= most) this.#read.clear();
    this.#read.set(head, numbers);
    return numbers;
  }

  #newRow() {
    return new Float64Array(roundedUp(this.keys));
  }

  #weightRow(side, i, row) {
    this.#scoreRow(side, i, row);
    softmax(row, this.keys, side.sink);
  }

  /** Write the scores of query i into the row; −Infinity where a key is hidden. */
  #scoreRow(side, i, row) {
    const { causal, reach, scale, softcap } = this.#described;
    const end = causal ? Math.min(Math.max(i + this.keys - this.queries + 1, 0), this.keys) : this.keys;
    const first = reach === null ? 0 : Math.min(Math.max(i - reach, 0), end);
    const last = reach === null ? end : Math.min(i + reach + 1, end);
    dotProducts(side.query, i, side.key, this.dKey, first, last, row);
    row.fill(-Infinity, 0, first);
    row.fill(-Infinity, last);
    for (let j = first; j < last; j++) row[j] *= scale;
    if (softcap !== null) for (let j = first; j < last; j++) row[j] = softcap * Math.tanh(row[j] / softcap);
    if (side.bias !== null) {
      const start = this.#biasStart(i);
      for (let j = first; j < last; j++) row[j] += side.bias[start + j];
    }
    if (side.visible !== null) {
      const start = this.#described.bias.values.shape[1] > 1 ? i * this.keys : 0;
      for (let j = first; j < last; j++) if (!bitAt(side.visible, start + j)) row[j] = -Infinity;
    }
  }

  /** Index in the bias of query i and key 0. */
  #biasStart(i) {
    return this.#described.bias.form === "offsets" ? this.queries - 1 - i : 0;
  }
}

const KEYS_AT_ONCE = 4;
const MOST_READ = 2 ** 20; // numbers of queries and keys of a map that stay decoded

function roundedUp(keys) {
  return Math.ceil(keys / KEYS_AT_ONCE) * KEYS_AT_ONCE;
}

/**
 * Write q·k of query i and the keys from `first` to `last`, and of the rest of their groups.
 *
 * Four sums at a time take half as long as single ones, in which each addition waits for the one before.
 */
function dotProducts(queries, i, keys, dKey, first, last, row) {
  const q = i * dKey;
  for (let j = first - (first % KEYS_AT_ONCE); j < last; j += KEYS_AT_ONCE) {
    const a = j * dKey;
    const b = a + dKey;
    const c = b + dKey;
    const d = c + dKey;
    let sumA = 0;
    let sumB = 0;
    let sumC = 0;
    let sumD = 0;
    for (let f = 0; f < dKey; f++) {
      const feature = queries[q + f];
      sumA += feature * keys[a + f];
      sumB += feature * keys[b + f];
      sumC += feature * keys[c + f];
      sumD += feature * keys[d + f];
    }
    row[j] = sumA;
    row[j + 1] = sumB;
    row[j + 2] = sumC;
    row[j + 3] = sumD;
  }
}

/** Turn scores into weights in place, with exp(sink) in their sum; zeros if all are −Infinity. */
function softmax(row, length, sink) {
  let largest = sink;
  for (let j = 0; j < length; j++) largest = Math.max(largest, row[j]);
  if (largest === -Infinity) {
    row.fill(0);
    return;
  }
  let sum = Math.exp(sink - largest);
  for (let j = 0; j < length; j++) {
    row[j] = Math.exp(row[j] - largest);
    sum += row[j];
  }
  for (let j = 0; j < length; j++) row[j] /= sum;
}

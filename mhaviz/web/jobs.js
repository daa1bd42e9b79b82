// Queue of long computations, which run piece by piece, so that the page is drawn in between, and the newest first.

import { largestPlaces } from "./pieces.js";
/** @import { PageMap } from "./contents.js" */

/** Bytes of results that are cached. */
const MOST_KEPT_BYTES = 192 * 2 ** 20;

/** Weights computed in one piece, in 10 to 20 ms; with more, the pointer and newer requests would wait. */
const WEIGHTS_AT_ONCE = 2 ** 18;

/** Time to compute one row of a head, whose keys must be decoded, in that of the weights of a row. */
const STEPS_OF_ROW = 3;

/** Reason of a rejected request: a newer one has replaced it. */
const CANCELLED = Object.freeze({ cancelled: true });

/** Requests for numbers that are computed from maps. Results are shared, and must not be written to. */
export class JobQueue {
  #inflated;
  #waiting = [];
  #asked = 0;
  #isBusy = false;
  #newestOfSlot = new Map();
  #kept = new Map(); // name → {answer, bytes}, the most recently requested last

  /** @param {Promise<void>} inflated resolved when all numbers of the page are available */
  constructor(inflated) {
    this.#inflated = inflated;
  }

  /**
   * Return a part of a head, as its map shows it.
   *
   * @param {PageMap} map
   * @param {string} part its name
   * @param {number} head its number
   * @returns {Promise<{values: Float32Array, rows: number, columns: number}>}
   */
  values(map, part, head) {
    const [rows, columns, place] = [map.rows.length, map.columns.length, map.placeOf(head)];
    const weightsOfRow = map.part(part).values === null ? map.columns.tokens : 0;
    const piece = (start, end) => map.values(part, place, start, end);
    const bytes = rows * columns * Float32Array.BYTES_PER_ELEMENT;
    return this.#remember([map.index, part, head], bytes, () => this.#joined(rows, columns, weightsOfRow, piece));
  }

  /**
   * Return the numbers between single tokens.
   *
   * @param {PageMap} map
   * @param {number} head its number
   * @param {number[]} window [q0, q1, k0, k1]: queries from position q0 to before q1, and keys
   * @param {string} [slot] purpose of the request: older requests with it are rejected with {cancelled: true}
   * @param {string} [part] its name
   * @returns {Promise<{values: Float32Array, rows: number, columns: number}>}
   */
  window(map, head, [q0, q1, k0, k1], slot = null, part = map.mainPart) {
    const place = map.placeOf(head);
    const piece = (start, end) => map.window(place, [q0 + start, q0 + end, k0, k1], part);
    return this.#joined(q1 - q0, k1 - k0, weightsOfQuery(map, part), piece, slot);
  }

  /**
   * Return one row of each of some heads, in the order of the heads. A newer request replaces an older one.
   *
   * @param {Array<{map: PageMap, head: number}>} heads
   * @param {(a: PageMap, b: number) => Float32Array} rowOf the row, by the map and the index of the head in it
   * @returns {Promise<Float32Array[]>}
   */
  async rows(heads, rowOf) {
    const order = this.#asked++;
    const rows = [];
    const steps = pieces(heads.length, STEPS_OF_ROW * Math.max(...heads.map(({ map }) => map.columns.tokens)));
    for (const [start, end] of steps) {
      const some = () => heads.slice(start, end).map(({ map, head }) => rowOf(map, map.placeOf(head)));
      rows.push(...(await this.#ask(some, { order, slot: "rows" })));
    }
    return rows;
  }

  /**
   * Return the query and the key of the largest weight of a window, computed from all features.
   *
   * @param {PageMap} map
   * @param {number} head its number
   * @param {number[]} window [q0, q1, k0, k1]
   * @param {boolean} ofWords whether only weights of a word on another word count, which is no sink
   * @returns {Promise<{query: number, key: number}|null>} null if all these weights are 0
   */
  strongest(map, head, [q0, q1, k0, k1], ofWords = false) {
    const place = map.placeOf(head);
    const find = async () => {
      const order = this.#asked++;
      let best = null;
      for (const [start, end] of pieces(q1 - q0, map.columns.tokens)) {
        const weights = await this.#ask(() => map.rule.weights(place, q0 + start, q0 + end, k0, k1), { order });
        const pair = (at) => [q0 + start + Math.floor(at / (k1 - k0)), k0 + (at % (k1 - k0))];
        const counts = (at) => !ofWords || areWords(map, ...pair(at));
        for (const at of largestPlaces(weights, 1, counts)) {
          if (weights[at] <= best?.size) continue;
          const [query, key] = pair(at);
          best = { query, key, size: weights[at] };
        }
      }
      return best;
    };
    return this.#remember(["strongest", map.index, head, q0, q1, k0, k1, ofWords], 0, find);
  }

  /**
   * Return the products of one score, see `Call.products`; and the scores of its query with all keys, −Infinity where
   * a key is hidden, with the weights that they become.
   *
   * @param {PageMap} map
   * @param {number} head its number
   * @param {number} query its position
   * @param {number} key its position
   * @returns {Promise<[any, {scores: Float64Array, weights: Float32Array, sink: number|null,
   *   norms: Float32Array|null}]>}
   */
  score(map, head, query, key) {
    const place = map.placeOf(head);
    const answer = () => {
      const { rule } = map;
      const scores = rule.scores(place, query, query + 1);
      const weights = rule.weights(place, query, query + 1);
      return [rule.products(place, query, key), { scores, weights, sink: rule.sink(place), norms: rule.norms(place) }];
    };
    return this.#ask(answer, { slot: "score" });
  }

  /** Join the results of pieces of rows. */
  async #joined(rows, columns, weightsOfRow, piece, slot = null) {
    const order = this.#asked++;
    const values = new Float32Array(rows * columns);
    for (const [start, end] of pieces(rows, weightsOfRow)) {
      values.set(await this.#ask(() => piece(start, end), { order, slot }), start * columns);
    }
    return { values, rows, columns };
  }

  /** Return a promise of the result. Higher orders are computed first; in a slot, only the highest. */
  #ask(answer, { slot = null, order = this.#asked++ } = {}) {
    return new Promise((resolve, reject) => {
      const job = { answer, order, resolve, reject };
      const other = slot === null ? undefined : this.#newestOfSlot.get(slot);
      if (other?.order > order) {
        reject(CANCELLED);
        return;
      }
      if (slot !== null) this.#newestOfSlot.set(slot, job);
      this.#waiting = this.#waiting.filter((waiting) => waiting !== other);
      other?.reject(CANCELLED); // no effect if it is done
      this.#waiting.push(job);
      this.#work();
    });
  }

  async #work() {
    if (this.#isBusy) return;
    this.#isBusy = true;
    await this.#inflated.catch(() => {}); // the page reports it
    while (this.#waiting.length > 0) {
      const job = this.#waiting.reduce((next, other) => (other.order > next.order ? other : next));
      this.#waiting.splice(this.#waiting.indexOf(job), 1);
      try {
        job.resolve(job.answer());
      } catch (error) {
        job.reject(error);
      }
      await new Promise((resolve) => setTimeout(resolve)); // lets the page draw, and make new requests
    }
    this.#isBusy = false;
  }

  /** Return the cached promise of a result; the least recently requested ones are dropped. */
  #remember(name, bytes, ask) {
    const key = JSON.stringify(name);
    const found = this.#kept.get(key) ?? { answer: ask(), bytes };
    this.#kept.delete(key);
    this.#kept.set(key, found);
    found.answer.catch(() => this.#kept.delete(key));
    let all = [...this.#kept.values()].reduce((sum, one) => sum + one.bytes, 0);
    for (const [oldest, one] of this.#kept) {
      if (all <= MOST_KEPT_BYTES || oldest === key) break;
      this.#kept.delete(oldest);
      all -= one.bytes;
    }
    return found.answer;
  }
}

/** Split rows into pieces of not too many weights: [start, end] of each; rows without weights are one piece. */
function* pieces(rows, weightsOfRow) {
  const step = Math.max(Math.floor(WEIGHTS_AT_ONCE / weightsOfRow), 1);
  for (let start = 0; start < rows; start += step) yield [start, Math.min(start + step, rows)];
}

/** Number of weights to compute for one query; 0 if they are stored. */
function weightsOfQuery(map, part) {
  return map.part(part).values !== null && !map.isPooled ? 0 : map.columns.tokens;
}

/** Whether a query and a key are words at two places, or of two texts. */
function areWords(map, query, key) {
  const { rows, columns, hasSameTokens } = map;
  return rows.isWord(query) && columns.isWord(key) && !map.hasSink(key) && !(hasSameTokens && query === key);
}

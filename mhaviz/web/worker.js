// Answers questions about heads, in a worker; without one, in the page itself.

import { bytesOfBase64 } from "./codes.js";
import { Contents } from "./contents.js";

const ANSWERS = {
  /** Some rows of cells of a part of a head. */
  values(map, { part, place, start, end }) {
    return map.values(part, place, start, end);
  },

  /** The numbers between single tokens. */
  window(map, { part, place, window }) {
    return map.window(place, window, part);
  },

  /** The place of the largest weight of a window, {query, key, size}; null if there is none but zeros. */
  strongest(map, { place, window: [q0, q1, k0, k1] }) {
    const weights = map.rule.weights(place, q0, q1, k0, k1);
    const [best] = largestPlaces(weights, 1);
    if (best === undefined) return null;
    return { query: q0 + Math.floor(best / (k1 - k0)), key: k0 + (best % (k1 - k0)), size: weights[best] };
  },

  /** One score taken apart. */
  products(map, { place, query, key }) {
    return map.rule.products(place, query, key);
  },

  /** The scores of one query, and what becomes of them. */
  scores(map, { place, query }) {
    const { rule } = map;
    const scores = rule.scores(place, query, query + 1);
    return { scores, weights: rule.weights(place, query, query + 1), sink: rule.sink(place), norms: rule.norms(place) };
  },

};

/**
 * Places of the numbers of largest size, the largest first; zeros and missing ones are left out.
 *
 * @param {ArrayLike<number>} values
 * @param {number} count how many at most
 * @param {(a: number) => boolean} allowed which places count
 * @returns {number[]}
 */
export function largestPlaces(values, count, allowed = () => true) {
  const places = [];
  let least = 0;
  for (let place = 0; place < values.length; place++) {
    const size = Math.abs(values[place]);
    if (!(size > least) || !allowed(place)) continue;
    if (places.length === count) places.pop();
    let at = places.length;
    while (at > 0 && Math.abs(values[places[at - 1]]) < size) at--;
    places.splice(at, 0, place);
    if (places.length === count) least = Math.abs(values[places.at(-1)]);
  }
  return places;
}

/**
 * @param {Contents} contents
 * @param {{kind: string, map: number, place: number}} question and what else it needs
 */
export function answerOf(contents, question) {
  return ANSWERS[question.kind](contents.maps[question.map], question);
}

/**
 * Answer each message of the page, {described, chunks, question}, by {answer} or {error}.
 *
 * `described`, the JSON document, comes with the first message; chunks, [[number, content], …], come with the
 * first question that needs them.
 */
export function listenInWorker() {
  const bytes = [];
  let contents = null;
  onmessage = ({ data: { described, chunks, question } }) => {
    try {
      if (described) contents = new Contents(described, (number) => bytes[number]);
      for (const [number, content] of chunks) {
        bytes[number] = typeof content === "string" ? bytesOfBase64(content) : content;
      }
      const answer = answerOf(contents, question);
      postMessage({ answer }, { transfer: ArrayBuffer.isView(answer) ? [answer.buffer] : [] }); // not copied
    } catch (error) {
      postMessage({ error: error.message });
    }
  };
}

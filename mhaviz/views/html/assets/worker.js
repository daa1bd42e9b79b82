// Answers questions about heads, in a worker; without one, in the page itself.
"use strict";

const ANSWERS = {
  /** Some rows of cells of a part of a head. */
  values(map, { part, place, start, end }) {
    return map.values(part, place, start, end);
  },

  /** The numbers between single tokens. */
  window(map, { part, place, window }) {
    return map.window(place, window, part);
  },

  /** One score taken apart. */
  products(map, { place, query, key }) {
    return map.rule.products(place, query, key);
  },

  /** The scores of one query, and what becomes of them. */
  scores(map, { place, query }) {
    const { rule } = map;
    const scores = rule.scores(place, query, query + 1);
    return { scores, weights: rule.weights(place, query, query + 1), sink: rule.sink(place) };
  },

  /** Sums over some queries of a head, for its statistics. */
  totals(map, { place, start, end }) {
    const weights = map.window(place, [start, end, map.columns.start, map.columns.end]);
    return headTotals(map, place, weights, start);
  },
};

/**
 * @param {Contents} contents
 * @param {{kind: string, map: number, place: number}} question and what else it needs
 */
function answerOf(contents, question) {
  return ANSWERS[question.kind](contents.maps[question.map], question);
}

/**
 * Answer each message of the page, {described, chunks, question}, by {answer} or {error}.
 *
 * `described`, the JSON document, comes with the first message; chunks, [[number, content], …], come with the
 * first question that needs them.
 */
function listenInWorker() {
  const bytes = [];
  let contents = null;
  onmessage = ({ data: { described, chunks, question } }) => {
    try {
      if (described) contents = new Contents(described, (number) => bytes[number]);
      for (const [number, content] of chunks) {
        bytes[number] = typeof content === "string" ? bytesOfBase64(content) : content;
      }
      const answer = answerOf(contents, question);
      postMessage({ answer }, ArrayBuffer.isView(answer) ? [answer.buffer] : []); // handed over, not copied
    } catch (error) {
      postMessage({ error: error.message });
    }
  };
}

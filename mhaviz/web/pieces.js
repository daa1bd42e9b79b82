// Shared by the views of words, links and products: pieces of a text, and the strongest weights.

import { pieceAt } from "./contents.js";
import { isolated, make, shortened } from "./dom.js";
/** @import { PageMap, Side } from "./contents.js" */
/** @import { Page } from "./main.js" */

export const MOST_TOKENS_IN_SIGHT = 1e6; // most queries × keys that are requested as single tokens

/**
 * Return the places of the largest absolute values, the largest first, without zeros and missing numbers.
 *
 * @param {ArrayLike<number>} values
 * @param {number} count most places
 * @param {(a: number) => boolean} allowed whether a place counts
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

/** Name of the part that a view of one map shows: that of the state, or the change where it has all three. */
export function partShown(map, state) {
  return map.parts.some((part) => part.name === state.part) ? state.part : map.mainPart;
}

/**
 * Whether the queries from one position to before another are the first of several alone, and this sees a single key,
 * which then has all its weight in any head.
 */
export function seesOneKey(map, from, to) {
  const isFirst = map.begins && from === 0 && to === 1 && map.rows.tokens > 1 && map.columns.tokens > 1;
  return map.hiddenLater && isFirst && map.hiddenToken(0, 1);
}

/** Pieces of a side: single tokens, or cells of several tokens where a map has no weights of single ones. */
export class Pieces {
  /** @param {Side} side @param {boolean} single whether single tokens have weights */
  constructor(side, single) {
    this.side = side;
    this.edges =
      single && side.isPooled
        ? Int32Array.from({ length: side.tokens + 1 }, (_, token) => side.start + token)
        : side.edges;
  }

  get count() {
    return this.edges.length - 1;
  }

  get end() {
    return this.edges[this.count];
  }

  /** Whether some pieces have several tokens. */
  get areCells() {
    return this.count < this.side.tokens;
  }

  first(piece) {
    return this.edges[piece];
  }

  /** Piece that contains a position of the whole input; −1: none. */
  of(position) {
    if (position === null || position < this.edges[0] || position >= this.end) return -1;
    return pieceAt(this.edges, position);
  }

  /** Whether a piece is a single special token, such as [CLS]. */
  isSpecial(piece) {
    return this.edges[piece + 1] - this.edges[piece] === 1 && this.side.special.has(this.edges[piece]);
  }

  /** Whether a piece has a word. */
  isWord(piece) {
    for (let position = this.edges[piece]; position < this.edges[piece + 1]; position++) {
      if (this.side.isWord(position)) return true;
    }
    return false;
  }

  /** Tokens of a piece, joined as in the text. */
  text(piece) {
    let text = "";
    for (let position = this.edges[piece]; position < this.edges[piece + 1]; position++) {
      if (text && !this.side.joined.has(position)) text += " ";
      text += this.side.label(position);
    }
    return text;
  }

  /** "7", or "8–15" for a cell of several tokens. */
  positions(piece) {
    const [first, end] = [this.edges[piece], this.edges[piece + 1]];
    return end - first === 1 ? String(first) : `${first}–${end - 1}`;
  }

  /** Whether a piece is one patch of an image. */
  isPatch(piece) {
    return this.edges[piece + 1] - this.edges[piece] === 1 && this.side.isPatch(this.edges[piece]);
  }

  /** “street” (5), or "patch 3,11", shortened to one line. */
  name(piece, length = 40) {
    if (this.isPatch(piece)) return this.side.named(this.edges[piece]);
    return `“${isolated(shortened(this.text(piece), length))}” (${this.positions(piece)})`;
  }
}

/** Name of a head: "self L2 H9", or "layer 3, self, rollout" for a rollout. */
export function headName(map, head) {
  return map.names[map.placeOf(head)];
}

/** Key of the maps whose layers one steps through. */
export function kindOf(map) {
  return `${map.kind} ${map.quantity.key}`;
}

/** Heads whose mean is shown; one, except where a text shows several. */
export function chosenHeads({ view, heads, head }) {
  return view === "text" && heads.length ? heads : [head];
}

/** "layer 2, self, mean of heads 1, 4", or the name of a single head; `together` is what is shown of several heads. */
export function chosenName(map, heads, together = "mean of ") {
  if (heads.length === 1) return headName(map, heads[0]);
  const which = heads.length === map.heads.length ? `all ${heads.length} heads` : `heads ${heads.join(", ")}`;
  return `${map.name}, ${together}${which}`;
}

/** Mean of arrays of equal length; a single array is returned itself. */
export function meanOf(arrays) {
  if (arrays.length === 1) return arrays[0];
  return arrays[0].map((_, at) => arrays.reduce((sum, values) => sum + values[at], 0) / arrays.length);
}

/** Children of a title element: the title, and the name of the attention's module. */
export function titled(text, map) {
  return map.module ? [text, " ", make("bdi", { className: "quiet module" }, map.module)] : [text];
}

/**
 * Return the weights in the visible window of the current map: of single tokens if they are few enough, else of all
 * cells; where a text shows several heads, their mean.
 *
 * @param {Page} app
 * @param {string} slot name of the requester, whose older requests are cancelled
 * @returns {Promise<{map: PageMap, part: string, values: Float32Array, queries: Pieces, keys: Pieces,
 *   placeOf: (a: number) => number[], isInSight: (a: number, b: number) => boolean}>} `placeOf` gives the piece of
 *   the query and of the key that a value is of, `isInSight` is of such pieces
 */
export async function regionInSight({ contents, jobs, state }, slot) {
  const { map: index, window } = state.values;
  const map = contents.maps[index];
  const part = partShown(map, state.values);
  const { rows, columns: side } = map;
  const [q0, q1, k0, k1] = window ?? [rows.start, rows.end, side.start, side.end];
  const isSingle = map.isPooled && map.exact && (q1 - q0) * (k1 - k0) <= MOST_TOKENS_IN_SIGHT;
  const queries = new Pieces(rows, isSingle);
  const keys = new Pieces(side, isSingle);
  const answers = await Promise.all(
    chosenHeads(state.values).map((head) =>
      isSingle
        ? jobs.window(map, head, [q0, q1, k0, k1], `${slot} ${head}`, part)
        : jobs.values(map, part, head),
    ),
  );
  const [{ columns }, values] = [answers[0], meanOf(answers.map((answer) => answer.values))];
  const [firstRow, firstColumn] = isSingle ? [queries.of(q0), keys.of(k0)] : [0, 0];
  return {
    map,
    part,
    values,
    queries,
    keys,
    placeOf: (place) => [firstRow + Math.floor(place / columns), firstColumn + (place % columns)],
    isInSight: (row, column) =>
      queries.edges[row + 1] > q0 &&
      queries.edges[row] < q1 &&
      keys.edges[column + 1] > k0 &&
      keys.edges[column] < k1,
  };
}

// One side of a map as it is drawn: its pieces (single tokens or cells) without those that are not shown.

import { shortened } from "./dom.js";
import { Pieces } from "./pieces.js";
/** @import { Side } from "./contents.js" */

const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";

export class Axis {
  #shown;
  #repeated;

  /**
   * @param {Side} side the queries or the keys
   * @param {boolean} single whether its pieces are single tokens even where the map is pooled
   * @param {boolean} special whether special tokens are shown
   */
  constructor(side, single, special) {
    this.side = side;
    this.pieces = new Pieces(side, single);
    const all = Int32Array.from({ length: this.pieces.count }, (_, piece) => piece);
    const text = special ? all : all.filter((piece) => !this.pieces.isSpecial(piece));
    this.#shown = text.length ? text : all;
  }

  /** Number of pieces shown. */
  get length() {
    return this.#shown.length;
  }

  /** Number of a piece among all of its side, shown or not. */
  piece(index) {
    return this.#shown[index];
  }

  /** Position of the first token of a piece. */
  first(index) {
    return this.pieces.edges[this.#shown[index]];
  }

  /** Position after the last token of a piece. */
  end(index) {
    return this.pieces.edges[this.#shown[index] + 1];
  }

  /** Index of the piece with this position; −1: not shown. */
  indexOf(position) {
    const piece = this.pieces.of(position);
    const index = this.#countBefore(piece);
    return piece >= 0 && this.#shown[index] === piece ? index : -1;
  }

  /** Place of a position along the axis, in pieces: 2.5 is the middle of the third. */
  place(position) {
    if (position >= this.side.end) return this.length;
    const piece = this.pieces.of(position);
    const index = this.#countBefore(piece);
    if (this.#shown[index] !== piece) return index;
    return index + (position - this.first(index)) / (this.end(index) - this.first(index));
  }

  /** Position, with a fraction, at a place along the axis; the inverse of `place`. */
  position(place) {
    const index = Math.min(Math.max(Math.floor(place), 0), this.length - 1);
    return this.first(index) + (place - index) * (this.end(index) - this.first(index));
  }

  /** Token of a piece, with its position if the token occurs more than once, unless the page leaves them out. */
  label(index) {
    const text = this.pieces.text(this.piece(index));
    const isCell = this.end(index) - this.first(index) > 1;
    if (isCell || !this.side.hasPositions || !this.#isRepeated(text)) return text;
    const position = String(this.first(index));
    if (/\p{N}$/u.test(text)) return `${text}#${position}`; // another digit would look like its own
    return text + [...position].map((digit) => SUBSCRIPTS[digit]).join("");
  }

  /** "street (5)", "patch 3,11"; for a cell of several tokens, "the street was (4–6)". */
  name(index) {
    const piece = this.piece(index);
    if (this.pieces.isPatch(piece)) return this.pieces.name(piece);
    return `${shortened(this.pieces.text(piece), 40)} (${this.pieces.positions(piece)})`;
  }

  isSpecial(index) {
    return this.pieces.isSpecial(this.piece(index));
  }

  #isRepeated(text) {
    if (!this.#repeated) {
      const seen = new Set();
      this.#repeated = new Set(this.side.labels.filter((label) => seen.has(label) || !seen.add(label)));
    }
    return this.#repeated.has(text);
  }

  /** Number of shown pieces before a piece. */
  #countBefore(piece) {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#shown[middle] < piece) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

// Numbers of a map on two axes, and their image: all cells of a head, or a window of single tokens.

import { OF_SINKS, largestSize } from "./colours.js";
import { matrixImage, outlineOf } from "./drawing.js";
import { percent, short } from "./numbers.js";
/** @import { Axis } from "./axis.js" */
/** @import { PageMap } from "./contents.js" */

const ROUNDING = 1e-3; // relative error of a number that the page computes

export class Tile {
  #image;
  #imageKey;
  #hidden;
  #outline;

  /**
   * @param {PageMap} map
   * @param {any} part
   * @param {{rows: Axis, columns: Axis}} axes pieces that they do not show are left out of the layer, too
   * @param {number[]} range [first query, end, first key, end] of the values: positions where pieces begin
   * @param {{values: Float32Array, rows: number, columns: number}} answer the numbers of all pieces in the range
   * @param {any} scale
   */
  constructor(map, part, { rows, columns }, [q0, q1, k0, k1], answer, scale) {
    Object.assign(this, { map, part, rows, columns, scale, range: [q0, q1, k0, k1] });
    this.firstRow = rows.place(q0);
    this.firstColumn = columns.place(k0);
    this.height = rows.place(q1) - this.firstRow;
    this.width = columns.place(k1) - this.firstColumn;
    this.values = this.#shownOf(answer, rows.pieces.of(q0), columns.pieces.of(k0));
    const keysOf = (column) => [columns.first(column), columns.end(column)];
    this.sinks = map.sinksAmong(this.width, (column) => /** @type {any} */ (keysOf(this.firstColumn + column)));
    this.largest = largestSize(this.values);
    this.hasMissing = this.values.some(Number.isNaN);
  }

  /** Whether the layer has all of a range of positions. */
  covers([q0, q1, k0, k1]) {
    const [first, end, firstKey, endKey] = this.range;
    return first <= q0 && q1 <= end && firstKey <= k0 && k1 <= endKey;
  }

  /** Number at a piece of each axis, by their indexes; undefined where there is none. */
  value(row, column) {
    const [down, across] = [row - this.firstRow, column - this.firstColumn];
    if (down < 0 || across < 0 || down >= this.height || across >= this.width) return undefined;
    return this.values[down * this.width + across];
  }

  /** Largest absolute value of the numbers of a row. */
  rowLargest(row) {
    const start = (row - this.firstRow) * this.width;
    return largestSize(this.values.subarray(start, start + this.width), this.sinks);
  }

  /** Scale of the numbers of a column. */
  scaleOf(column) {
    return this.sinks.includes(column - this.firstColumn) ? OF_SINKS : this.scale;
  }

  /** Whether a mask hides anything at all. */
  get isMasked() {
    return isMasked(this.map);
  }

  /** Map and query of a row, as its position, or as the number of its cell where there are cells. */
  lineOf(row) {
    return [this.map, this.numberOf(this.rows, row)];
  }

  /** Whether all pieces are single tokens. */
  get areTokens() {
    return !(this.rows.pieces.areCells || this.columns.pieces.areCells);
  }

  numberOf(axis, index) {
    return this.areTokens ? axis.first(index) : axis.piece(index);
  }

  /** "[CLS] 47%, . 3%": each sink among the columns, with the mean of its numbers here; "" without any. */
  get sinksText() {
    const { columns, firstColumn, height, map, sinks, values, width } = this;
    const nameOf = (column) => map.sinkName(columns.first(firstColumn + column), columns.end(firstColumn + column));
    const mean = (column) => {
      let sum = 0;
      for (let at = column; at < values.length; at += width) sum += values[at] || 0;
      return sum / height;
    };
    return sinks.map((column) => `${nameOf(column)} ${percent(mean(column))}`).join(", ");
  }

  isHidden(row, column) {
    if (!this.isMasked) return false;
    return this.#hiddenOf()[(row - this.firstRow) * this.width + column - this.firstColumn] === 1;
  }

  /** Lines around visible cells, from the layer's first row and column on. */
  get outline() {
    this.#outline ??= outlineOf(this.#hiddenOf(), this.height, this.width);
    return this.#outline;
  }

  /** Image of one pixel for each piece, in the current colours. */
  image(colours) {
    if (this.#imageKey !== colours.key) {
      this.#imageKey = colours.key;
      const { height, width } = this;
      this.#image = matrixImage(colours, this.values, this.scale, {
        rows: height,
        columns: width,
        hidden: this.isMasked ? this.#hiddenOf() : null,
        sinks: this.sinks,
      });
    }
    return this.#image;
  }

  /** 1 for each number that a mask hides. */
  #hiddenOf() {
    if (this.#hidden) return this.#hidden;
    const { columns, height, width, areTokens } = this;
    const keys = Int32Array.from({ length: width }, (_, i) => this.numberOf(columns, this.firstColumn + i));
    this.#hidden = new Uint8Array(height * width);
    for (let row = 0, at = 0; row < height; row++) {
      const [map, query] = this.lineOf(this.firstRow + row);
      for (const key of keys)
        this.#hidden[at++] = areTokens ? map.hiddenToken(query, key) : map.hidden(query, key);
    }
    return this.#hidden;
  }

  #shownOf(answer, firstPieceRow, firstPieceColumn) {
    const { width, height } = this;
    if (width === answer.columns && height === answer.rows) return answer.values;
    const values = new Float32Array(width * height);
    for (let row = 0, at = 0; row < height; row++) {
      const start =
        (this.rows.piece(this.firstRow + row) - firstPieceRow) * answer.columns - firstPieceColumn;
      for (let column = 0; column < width; column++, at++) {
        values[at] = answer.values[start + this.columns.piece(this.firstColumn + column)];
      }
    }
    return values;
  }
}

/** Whether a mask of a map hides anything at all. */
export function isMasked(map) {
  return map.hiddenLater || map.reach !== null;
}

/**
 * The scale of a map for single tokens: cells sum the weights of their keys, so it is divided by their number.
 *
 * @param {any} scale
 * @param {PageMap} map
 * @param {number} largest the largest of the numbers that are shown
 */
export function scaleOfTokens(scale, map, largest = 0) {
  const keys = map.quantity.reduction === "max" ? 1 : map.columns.tokens / map.columns.length;
  const [low, high, logLow, logHigh] = ["low", "high", "logLow", "logHigh"].map((end) => scale[end] / keys);
  const top = (end) => (largest > end * (1 + ROUNDING) ? "≥ " : "") + short(end);
  const [ends, logEnds] = [[short(low), top(high)], [`≤ ${short(logLow)}`, top(logHigh)]];
  return { ...scale, low, high, ends, logLow, logHigh, logEnds };
}

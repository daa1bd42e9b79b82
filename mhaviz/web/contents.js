// Contents of the page: its JSON document, and the maps, tokens and numbers that it refers to.

import { bitAt, bytesOfBase64, headBytes, headNumbers, inflated } from "./codes.js";
import { shortened } from "./dom.js";
import { Call } from "./rule.js";

/** All that Python wrote into the page, with the same names. */
export class Contents {
  /**
   * @param {any} described the JSON document
   * @param {(a: number) => Uint8Array} chunkBytes the bytes of a chunk
   */
  constructor(described, chunkBytes) {
    Object.assign(this, described, { described });
    this.maps = described.maps.map((map, index) => new PageMap(map, index, described.tokens, chunkBytes));
  }

  /**
   * Return the contents of this page. Thumbnails can be drawn at once, all else when `inflated` is resolved.
   *
   * @param {Document} page
   * @returns {Contents}
   */
  static read(page) {
    const described = JSON.parse(page.getElementById("document").textContent);
    const chunks = new Chunks(page, described.chunks);
    const contents = new Contents(described, (number) => chunks.bytes(number));
    contents.inflated = chunks.inflate();
    contents.chunks = chunks;
    return contents;
  }
}

/** Bytes of the page, which are decoded on first use. */
class Chunks {
  #page;
  #described;
  #bytes = [];

  constructor(page, described) {
    this.#page = page;
    this.#described = described;
  }

  /** Bytes of a chunk; of a deflated one only after `inflate`. */
  bytes(number) {
    this.#bytes[number] ??= this.#decoded(number);
    return this.#bytes[number];
  }

  /** Inflate all deflated chunks, once the browser has read them. */
  async inflate() {
    await new Promise((resolve) => this.#page.addEventListener("DOMContentLoaded", resolve));
    const deflated = [...this.#described.keys()].filter((number) => this.#described[number].deflated);
    await Promise.all(
      deflated.map(async (number) => {
        this.#bytes[number] = await inflated(this.#decoded(number));
      }),
    );
  }

  #decoded(number) {
    const element = this.#page.getElementById(`chunk-${number}`);
    if (element === null) throw new Error(`part ${number} of the numbers in the page is missing`);
    const bytes = bytesOfBase64(element.textContent);
    const expected = this.#described[number].bytes;
    if (bytes.length !== expected) {
      throw new Error(`expected ${expected} bytes in part ${number} of the page, got ${bytes.length}`);
    }
    return bytes;
  }
}

/** Map of one attention, or of a difference: numbers between queries and keys, and all that Python wrote about it. */
export class PageMap {
  #chunkBytes;
  #call;

  constructor(described, index, tokens, chunkBytes) {
    this.#chunkBytes = chunkBytes;
    this.#call = described.call && new Call(described.call, chunkBytes);
    Object.assign(this, described, { index });
    this.rows = new Side(described.queries, tokens);
    this.columns = new Side(described.keys, tokens);
    this.isPooled = this.rows.isPooled || this.columns.isPooled;
  }

  /** Name of the part that is drawn by default: the weights, or their change. */
  get mainPart() {
    return this.parts[this.parts.length - 1].name;
  }

  /** Whether a key is a sink; it is given as positions, from its first to before its end. */
  hasSink(first, end = first + 1) {
    return this.sinks.some((sink) => first <= sink && sink < end);
  }

  /** Token of the first sink among keys, given as in `hasSink`. */
  sinkName(first, end = first + 1) {
    return shortened(this.columns.label(this.sinks.find((sink) => first <= sink && sink < end)), 16);
  }

  /** Which of so many columns have a sink. @param {(a: number) => [number, number]} keysOf first key of a column, and its end */
  sinksAmong(columns, keysOf) {
    if (!this.sinks.length) return [];
    return Array.from({ length: columns }, (_, column) => column).filter((column) => this.hasSink(...keysOf(column)));
  }

  /** Which columns of a thumbnail have a sink. */
  sinksOfThumb(columns) {
    const { tokens, start } = this.columns;
    const begin = (column) => start + Math.floor((column * tokens) / columns);
    return this.sinksAmong(columns, (column) => [begin(column), begin(column + 1)]);
  }

  /** Whether single tokens can be shown. */
  get exact() {
    return !this.isPooled || this.call !== null;
  }

  /** Whether queries and keys are the same tokens of one text. */
  get hasSameTokens() {
    return this.rows.labels === this.columns.labels && this.rows.start === this.columns.start;
  }

  /** Whether another map has the same texts, in the same forward pass of a program. */
  isBeside(other) {
    return this.sentence === other.sentence && this.pass === other.pass;
  }

  /** What Python wrote about a part. Throws an Error if there is none of this name. */
  part(name = this.mainPart) {
    const part = this.parts.find((one) => one.name === name);
    if (!part) {
      const names = this.parts.map((one) => one.name);
      throw new Error(`expected one of the parts ${names.join(", ")}, got ${name}`);
    }
    return part;
  }

  /** Index of the head with this number among the heads of the map. Throws an Error if there is none. */
  placeOf(head) {
    const place = this.heads.indexOf(head);
    if (place < 0) throw new Error(`expected one of the heads ${this.heads.join(", ")}, got ${head}`);
    return place;
  }

  /** Thumbnail of a head for the overview: {rows, columns, values: Float32Array}. */
  thumb(partName, place) {
    const { thumbs } = this.part(partName);
    const [, rows, columns] = thumbs.shape;
    return { rows, columns, values: headNumbers(thumbs, place, this.#chunkBytes) };
  }

  /** Whether a mask hides all keys of a cell from all its queries. */
  hidden(row, column) {
    const { edges } = this.rows;
    const keyEdges = this.columns.edges;
    const last = [edges[row + 1] - 1, keyEdges[column + 1] - 1];
    return this.#hides(edges[row], last[0], keyEdges[column], last[1]) && !this.#weighsBeyond(row, column);
  }

  /** Whether a mask hides a key from a query; both are positions. */
  hiddenToken(query, key) {
    if (!this.#hides(query, query, key, key)) return false;
    if (this.weighedBeyond === null) return true; // nearly always, and of many keys
    return !this.#weighsBeyond(pieceAt(this.rows.edges, query), pieceAt(this.columns.edges, key));
  }

  /**
   * Return the numbers of a part of a head as they are drawn. This may take long, so views use `JobQueue`.
   *
   * @param {string} partName
   * @param {number} place index of the head
   * @param {number} [start] the first row of cells
   * @param {number} [end] the row after the last
   * @returns {Float32Array} rows × columns
   */
  values(partName, place, start = 0, end = this.rows.length) {
    const { rows, columns } = this;
    const { values } = this.part(partName);
    const width = columns.length;
    if (values !== null) return headNumbers(values, place, this.#chunkBytes, start * width, end * width);
    return this.#call.numbers(place, rows.start + start, rows.start + end, columns.start, columns.end);
  }

  /**
   * Return the numbers between single tokens.
   *
   * @param {number} place index of the head
   * @param {number[]} window [q0, q1, k0, k1]: queries from position q0 to before q1, and keys
   * @param {string} partName
   * @returns {Float32Array} queries × keys
   */
  window(place, [q0, q1, k0, k1], partName = this.mainPart) {
    if (!this.exact) throw new Error(`expected a map of single tokens, got one of cells: ${this.name}`);
    const { rows, columns } = this;
    if (!rows.has(q0, q1) || !columns.has(k0, k1)) {
      const [queries, keys] = [rows, columns].map((side) => `from ${side.start} to ${side.end}`);
      throw new Error(`expected queries ${queries} and keys ${keys}, got [${[q0, q1, k0, k1].join(", ")}]`);
    }
    if (this.isPooled || this.part(partName).values === null) {
      return this.#call.numbers(place, q0, q1, k0, k1);
    }
    const values = this.values(partName, place, q0 - rows.start, q1 - rows.start);
    const window = new Float32Array((q1 - q0) * (k1 - k0));
    for (let i = 0; i < q1 - q0; i++) {
      const row = i * columns.length - columns.start;
      window.set(values.subarray(row + k0, row + k1), i * (k1 - k0));
    }
    return window;
  }

  /** Equation of the weights. Throws an Error if the queries and keys are not known. */
  get rule() {
    if (this.#call === null) throw new Error(`the queries and keys of this map are not known: ${this.name}`);
    return this.#call;
  }

  /** Whether there is a row for each query and a column for each key of the whole input. */
  get #hasAllCells() {
    return this.queries.edges === null && this.keys.edges === null;
  }

  /** Number of keys before the first query, as both sides end at the same token. */
  get #ahead() {
    if (this.#call !== null) return this.#call.keys - this.#call.queries;
    return this.#hasAllCells ? this.columns.tokens - this.rows.tokens : 0;
  }

  /** Whether a cell has weight although a mask is meant to hide it. */
  #weighsBeyond(row, column) {
    const { weighedBeyond: cells, columns } = this;
    return cells !== null && bitAt(headBytes(cells, 0, this.#chunkBytes), row * columns.length + column) === 1;
  }

  /** Whether a mask is meant to hide all of these keys from all of these queries. */
  #hides(firstQuery, lastQuery, firstKey, lastKey) {
    const { hiddenLater, reach } = this;
    const ahead = hiddenLater ? this.#ahead : 0;
    if (hiddenLater && firstKey > lastQuery + ahead) return true;
    return reach !== null && (firstKey - lastQuery - ahead > reach || firstQuery + ahead - lastKey > reach);
  }
}

/** The queries or the keys of a map, and their cells. Positions are those of the whole input. */
export class Side {
  #labelled;
  /** @type {Set<number> | null} */
  #patches = null;

  constructor({ tokens, edges }, allTokens) {
    this.#labelled = allTokens[tokens];
    const count = this.#labelled.labels.length;
    this.tokens = count;
    this.labels = this.#labelled.labels;
    this.unnamed = this.#labelled.unnamed;
    this.hasPositions = this.#labelled.positions;
    this.edges = Int32Array.from(edges ?? { length: count + 1 }, (edge, i) => edge ?? i);
    this.length = this.edges.length - 1;
    this.start = this.edges[0];
    this.end = this.edges[this.length];
    this.isPooled = this.length < count;
    this.special = new Set(this.#labelled.special.map((i) => i + this.start));
    this.images = (this.#labelled.images ?? []).map((image) => ({
      ...image,
      places: image.places.map((place) => (place < 0 ? place : place + this.start)),
    }));
    this.joined = new Set(this.#labelled.joined.map((i) => i + this.start));
  }

  label(position) {
    return this.labels[position - this.start];
  }

  /** Whether a token is a word or a part of one: it has a letter or a digit, and is not special. */
  isWord(position) {
    return !this.special.has(position) && /[\p{L}\p{N}]/u.test(this.label(position));
  }

  /** Whether a token is a patch of an image. */
  isPatch(position) {
    this.#patches ??= new Set(this.images.flatMap((image) => image.places));
    return this.#patches.has(position);
  }

  /** "patch 3,11", or as `placed`. */
  named(position) {
    return this.isPatch(position) ? `patch ${this.label(position)}` : this.placed(position);
  }

  /** A token after its position; the position alone where it is also the token's label. */
  placed(position) {
    const label = this.label(position);
    return label === String(position) ? label : `${position} ${label}`;
  }

  /** Whether the side has all tokens from one position to before another. */
  has(from, to) {
    return [from, to].every(Number.isInteger) && this.start <= from && from < to && to <= this.end;
  }
}

/** Number of the piece that contains a position; edges are the beginning of each piece, and the end of the last. */
export function pieceAt(edges, position) {
  let low = 0;
  let high = edges.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (edges[middle] <= position) low = middle;
    else high = middle;
  }
  return low;
}

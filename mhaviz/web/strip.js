// Strip of one query: a row for each head of the layer, or of all layers, and a column for each key.

import { Axis } from "./axis.js";
import { largestSize } from "./colours.js";
import { Choice, isolated, make, shortened, stepOf } from "./dom.js";
import { sizedContext } from "./drawing.js";
import { MapFigure } from "./figure.js";
import { short } from "./numbers.js";
import { headName, kindOf, largestPlaces, partShown, Pieces } from "./pieces.js";
import { isMasked, scaleOfTokens, Tile } from "./tile.js";
import { Words } from "./words.js";
/** @import { Page } from "./main.js" */

const HEIGHTS = [200, 280]; // least and most pixels, of any number of heads
const SHARES = [0.31, 0.5]; // of the window's height, of few heads and of many
const LEAST_ROW = 2.5; // pixels of a head, unless it is one of very many
const LARGEST_ROW = 18; // pixels of a head
const BESIDE = 130; // pixels of bars and labels at most
const NAMED = 3; // cells whose numbers are told

/** A side whose tokens are heads. */
export class HeadSide {
  constructor(labels, group) {
    const edges = Int32Array.from({ length: labels.length + 1 }, (_, at) => at);
    Object.assign(this, { labels, group, edges, tokens: labels.length, start: 0, end: labels.length });
    Object.assign(this, { special: new Set(), joined: new Set(), isPooled: false, hasPositions: false });
  }

  label(at) {
    return this.labels[at];
  }

  placed(at) {
    return this.labels[at];
  }
}

/** Numbers of one query in some heads, each of a map of the same tokens. */
export class StripTile extends Tile {
  constructor(heads, query, part, axes, range, answer, scale) {
    super(heads[0].map, part, axes, range, answer, scale);
    Object.assign(this, { heads, query });
  }

  get isMasked() {
    return this.heads.some(({ map }) => isMasked(map));
  }

  lineOf(row) {
    return [this.heads[row].map, this.query];
  }
}

export class StripView {
  #app;
  #figure;
  #heads = []; // [{map, head}] of the rows
  #axes = null; // {rows: of heads, columns: of keys}
  #queries = null; // Pieces
  #arranged = ""; // identifies the axes
  #asked = ""; // identifies the last request
  #last = null; // position that was pointed at last
  #tile = null;
  #cell = { row: null, column: null };
  #isSaid = false; // whether the next numbers are said to screen readers
  #frameRequest = 0;

  /** @param {Page} app */
  constructor(app) {
    this.#app = app;
    this.#figure = new MapFigure(app.colours);
    this.which = new Choice("heads of", (strip) => app.state.set({ strip }), [
      ["layer", "this layer"],
      ["all", "all layers"],
    ]);
    this.title = make("h2");
    this.words = new Words("asked", {
      onPoint: (position, byKeyboard) => this.#pointWord(position, byKeyboard),
      onPin: (position) => this.#pin(position),
      onGo: (position) => this.#go(position),
    });
    this.words.title = "point at a word: what it looks at in each head";
    const title = "click a cell to open its head";
    this.canvas = make("canvas", { title, tabIndex: 0, role: "application", "aria-roledescription": "strip of one query" });
    this.marks = make("canvas", { className: "marks", "aria-hidden": "true" });
    this.stage = make("div", { className: "strip-stage" }, this.canvas, this.marks);
    this.readout = make("p", { className: "reading quiet" });
    const head = make("div", { className: "controls" }, this.title, this.which.element);
    const parts = [this.words.element, head, this.stage, this.readout];
    this.element = make("section", { className: "strip", "aria-label": "one query in all heads" }, ...parts);
    this.#listen();
    new ResizeObserver(() => this.#axes && this.#paintSoon()).observe(this.element);
  }

  /** @param {Set<string>} _changed */
  update(_changed) {
    const { values } = this.#app.state;
    this.which.value = values.strip;
    this.#arrange();
    this.words.element.hidden = values.view !== "overview";
    this.#load();
    this.#paintSoon();
  }

  onHover() {
    this.#load();
    this.#mark();
  }

  get #map() {
    return this.#app.state.map;
  }

  get #part() {
    return partShown(this.#map, this.#app.state.values);
  }

  /** Position of the query: the pointed, the pinned, that of the text, the last pointed one, at first the last word. */
  get #query() {
    const { views, state } = this.#app;
    const { hover, values } = state;
    const pointed = hover.query ?? (this.#map.hasSameTokens ? hover.key : null);
    if (pointed !== null) this.#last = pointed;
    const query = pointed ?? values.query ?? (values.view === "text" ? views.text.query : null) ?? this.#last;
    return this.#queries.of(query) < 0 ? this.#lastWord() : query;
  }

  #lastWord() {
    const { rows } = this.#map;
    for (let query = rows.end - 1; query >= rows.start; query--) if (rows.isWord(query)) return query;
    return rows.end - 1;
  }

  /** Make the axes of the heads that are shown, and the words of their query. */
  #arrange() {
    const map = this.#map;
    const { strip, special, window, view } = this.#app.state.values;
    const isLike = (one) => one.isBeside(map) && kindOf(one) === kindOf(map) && hasSameSides(one, map);
    const alike = this.#app.contents.maps.filter(isLike);
    const maps = strip === "all" ? alike : [map];
    this.which.element.hidden = alike.length < 2;
    const arranged = JSON.stringify([maps.map((one) => one.index), special]);
    if (arranged !== this.#arranged) {
      this.#arranged = arranged;
      this.#queries = new Pieces(map.rows, map.exact);
      this.#heads = maps.flatMap((one) => one.heads.map((head) => ({ map: one, head })));
      const name = ({ map: { layer }, head }) => (maps.length > 1 ? `L${layer} H${head}` : `H${head}`);
      const rows = /** @type {any} */ (new HeadSide(this.#heads.map(name), maps.length > 1 ? map.heads.length : 1));
      this.#axes = { rows: new Axis(rows, true, true), columns: new Axis(map.columns, map.exact, special) };
      [this.#tile, this.#asked] = [null, ""];
      this.#cell = { row: null, column: null };
    }
    if (view === "overview") this.words.show(this.#queries, this.words.startOf(this.#queries, window?.[0]), special);
  }

  /** Request the row of the query in each head. */
  async #load() {
    if (!this.element.clientWidth) return; // hidden
    this.#arrange(); // a view may tell of a word of another map before this one is updated
    const [map, part, query] = [this.#map, this.#part, this.#query];
    const asked = JSON.stringify([this.#arranged, part, query]);
    if (asked === this.#asked) return;
    this.#asked = asked;
    this.#tell();
    const { columns } = map;
    const piece = this.#queries.of(query);
    const rowOf = (one, place) =>
      map.exact
        ? one.window(place, [query, query + 1, columns.start, columns.end], part)
        : one.values(part, place, piece, piece + 1);
    try {
      const heads = this.#heads;
      const rows = await this.#app.jobs.rows(heads, rowOf);
      if (asked !== this.#asked) return;
      const values = new Float32Array(rows.length * rows[0].length);
      rows.forEach((row, at) => values.set(row, at * row.length));
      const ofCells = this.#app.contents.scales[map.part(part).scale];
      const scale = map.isPooled && map.exact ? scaleOfTokens(ofCells, map, largestSize(values)) : ofCells;
      const answer = { values, rows: rows.length, columns: rows[0].length };
      const range = [0, rows.length, columns.start, columns.end];
      const line = map.exact ? query : piece;
      this.#tile = new StripTile(heads, line, map.part(part), this.#axes, range, answer, scale);
      this.#paint();
      if (this.#isSaid) this.#app.say(`${this.title.textContent}: ${this.#largest()}`);
      this.#isSaid = false;
    } catch (problem) {
      if (!problem.cancelled && asked === this.#asked) this.#app.fail(problem);
    }
  }

  #nameOf(query) {
    const piece = this.#queries.of(query);
    return `“${isolated(shortened(this.#queries.text(piece), 24))}” (${this.#queries.positions(piece)})`;
  }

  /** Write whose strip it is. */
  #tell() {
    const map = this.#map;
    const isAll = this.#app.state.values.strip === "all";
    const text = `${this.#nameOf(this.#query)} in ${isAll ? `all ${this.#heads.length} heads` : map.label}`;
    this.title.textContent = text;
    this.canvas.setAttribute("aria-label", `${text}: rows are heads, columns keys`);
    this.words.mark(this.#queries.of(this.#query), this.#queries.of(this.#app.state.values.query));
  }

  // Drawing.

  #paintSoon() {
    this.#frameRequest ||= requestAnimationFrame(() => {
      this.#frameRequest = 0;
      if (!this.element.clientWidth) return; // hidden
      this.#load();
      this.#paint();
    });
  }

  #paint() {
    const columns = this.#axes.columns;
    const hasSinks = this.#map.sinks.some((sink) => columns.indexOf(sink) >= 0);
    const [[least, most], [ofFew, ofMany]] = [HEIGHTS, SHARES.map((share) => share * window.innerHeight)];
    const [small, large] = [LEAST_ROW, LARGEST_ROW].map((row) => BESIDE + row * this.#heads.length);
    const height = Math.min(Math.max(Math.min(Math.max(ofFew, least), most), Math.min(small, ofMany)), large);
    this.#figure.arrange({ width: this.element.clientWidth, height, isFilled: true }, this.#axes, 1, hasSinks);
    this.#resize();
    this.#figure.paint(sizedContext(this.canvas, this.#figure.width, this.#figure.height), this.#scene());
    this.#mark();
  }

  #resize() {
    const { width, height } = this.#figure;
    for (const canvas of [this.canvas, this.marks]) {
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
  }

  #scene() {
    const { columns } = this.#map;
    const part = this.#map.part(this.#part);
    const scale = this.#tile?.scale ?? this.#app.contents.scales[part.scale];
    return {
      title: "",
      axes: this.#axes,
      sides: ["head", "key"],
      sight: [0, this.#heads.length, columns.start, columns.end],
      panels: [{ part, scale, layer: this.#tile, thumb: null }],
    };
  }

  #mark() {
    if (!this.#figure.width) return;
    const { width, height } = this.#figure;
    const none = { row: null, column: null };
    this.#figure.mark(sizedContext(this.marks, width, height), this.#scene(), this.#cursor(), none);
    this.#read();
  }

  /** The pointed cell, else the column of the key that is pointed at elsewhere. */
  #cursor() {
    if (this.#cell.row !== null) return this.#cell;
    const { key, query } = this.#app.state.hover;
    const column = key === null || query === null ? -1 : this.#axes.columns.indexOf(key);
    return { row: null, column: column < 0 ? null : column };
  }

  /** Write the number of the pointed cell, else the largest ones. */
  #read() {
    const { row, column } = this.#cell;
    const isPointed = row !== null && column !== null && this.#tile !== null;
    this.readout.textContent = isPointed ? this.#reading(row, column) : this.#largest();
    this.readout.classList.toggle("quiet", !isPointed);
  }

  /** "largest: H4 “animal” 0.31, H3 “animal” 0.3": without sinks, and without the query itself unless it is of another text. */
  #largest() {
    const tile = this.#tile;
    if (!tile) return "";
    const { rows, columns } = this.#axes;
    const self = this.#map.hasSameTokens ? columns.indexOf(this.#query) : -1;
    const isOther = (at) => !tile.sinks.includes(at % tile.width) && at % tile.width !== self;
    const named = largestPlaces(tile.values, NAMED, isOther).map((at) => {
      const [row, column] = [Math.floor(at / tile.width), at % tile.width];
      return `${rows.label(row)} “${isolated(shortened(columns.label(column), 24))}” ${short(tile.values[at], 2)}`;
    });
    return named.length ? `largest: ${named.join(", ")}` : "no other number above 0";
  }

  #reading(row, column) {
    const { map, head } = this.#heads[row];
    const tile = this.#tile;
    const number = tile.isHidden(row, column) ? "hidden by the mask" : short(tile.value(row, column), 4);
    return `${headName(map, head)}: ${isolated(this.#axes.columns.name(column))} ${number}`;
  }

  // Pointer and keyboard.

  #pointWord(position, byKeyboard) {
    this.#isSaid = byKeyboard && position !== null;
    this.#app.state.setHover(position, null);
  }

  #pin(position) {
    const isPinned = this.#queries.of(this.#app.state.values.query) === this.#queries.of(position);
    this.#app.state.set({ query: isPinned ? null : position });
    this.#app.say(isPinned ? "No query is pinned." : `Pinned as query: ${this.#nameOf(position)}.`);
    this.#tell();
  }

  /** Show a long text from a position on. */
  #go(position) {
    const { columns } = this.#map;
    this.#app.state.set({ window: [...this.words.rangeFrom(position), columns.start, columns.end] });
  }

  #listen() {
    const { canvas } = this;
    const at = (event) => this.#axes && this.#figure.at(event.offsetX, event.offsetY, this.#scene());
    let opens = false; // by a finger only what it has pointed at before
    canvas.addEventListener("pointermove", (event) => this.#point(at(event)));
    canvas.addEventListener("pointerdown", (event) => {
      const { row, column } = this.#cell;
      this.#point(at(event));
      opens = event.pointerType !== "touch" || (row === this.#cell.row && column === this.#cell.column);
    });
    canvas.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && this.#point(null));
    canvas.addEventListener("blur", () => this.#point(null));
    canvas.addEventListener("click", () => opens && this.#open());
    canvas.addEventListener("keydown", (event) => this.#pressKey(event));
  }

  #point(cell) {
    const [row, column] = [cell?.row ?? null, cell?.column ?? null];
    if (row === this.#cell.row && column === this.#cell.column) return;
    this.#cell = { row, column };
    const key = column === null ? null : this.#axes.columns.first(column);
    const query = row === null ? null : this.#query;
    this.#app.state.setHover(query, key);
    this.#mark();
  }

  /** Open the map of the pointed head, with the query and the key pinned. */
  #open() {
    const { row, column } = this.#cell;
    if (row === null) return;
    const { map, head } = this.#heads[row];
    const key = column === null ? null : this.#axes.columns.first(column);
    const { view } = this.#app.state.values;
    const next = view === "overview" ? "map" : view;
    this.#app.state.set({ map: map.index, head, query: this.#query, key, view: next });
  }

  #pressKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = stepOf(event);
    if (step) {
      const { row, column } = this.#cell;
      const within = (index, by, length) => Math.min(Math.max(index === null ? 0 : index + by, 0), length - 1);
      const { rows, columns } = this.#axes;
      this.#point({ row: within(row, step[0], rows.length), column: within(column, step[1], columns.length) });
      if (this.#tile) this.#app.say(this.#reading(this.#cell.row, this.#cell.column));
    } else if (event.key === "Enter") this.#open();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** Whether two maps have the same cells of the same tokens. */
function hasSameSides(one, other) {
  return ["rows", "columns"].every((side) => one[side].labels === other[side].labels && one[side].length === other[side].length);
}

// View of one head as a map: a crosshair with the exact weight, zoom and pan, from cells down to single tokens.

import { Axis } from "./axis.js";
import { largestSize } from "./colours.js";
import { make, stepOf } from "./dom.js";
import { matrixImage, sizedContext } from "./drawing.js";
import { copyPicture } from "./export.js";
import { MapFigure } from "./figure.js";
import { short } from "./numbers.js";
import { Tile, scaleOfTokens } from "./tile.js";
import { headName, MOST_TOKENS_IN_SIGHT, titled } from "./pieces.js";
/** @import { Scene } from "./figure.js" */

const LEAST_IN_SIGHT = 4; // least visible pieces along a side
const ZOOM_STEP = 1.5;
const MOVED = 4; // pixels of movement that make a press a drag
const HINT =
  "Point at a cell, or press an arrow key. Scroll to zoom, drag to move, click to pin a query and a key.";

export class MapView {
  #app;
  #figure;
  #key; // identifies the map that the results below belong to
  #axes; // {rows, columns} of the map's own pieces
  #singles; // axes of single tokens, where a pooled map has their weights, too; else null
  #cells = new Map(); // part name → Tile of all cells
  #tokens = null; // Tile of single tokens
  #sight = null; // visible window [q0, q1, k0, k1] in positions with fractions; null: all
  #pointers = new Map(); // id → {x, y} of the pressed pointers
  #drag = null; // {x, y, hasMoved} of the last press
  #frameRequest = 0;
  #windowTimer = 0;
  #stateTimer = 0;

  constructor(app) {
    this.#app = app;
    this.#figure = new MapFigure(app.colours);
    this.heading = make("h2", { className: "unseen" });
    this.resolution = make("span", { className: "quiet" });
    this.copied = make("span", { className: "quiet", role: "status" });
    this.canvas = make("canvas", {
      className: "map",
      tabIndex: 0,
      role: "application",
      "aria-roledescription": "attention map",
    });
    this.marks = make("canvas", { className: "marks", "aria-hidden": "true" });
    this.stage = make("div", { className: "stage" }, this.canvas, this.marks);
    this.readout = make("p", { className: "readout" });
    this.element = make(
      "section",
      { className: "map-view" },
      make("div", { className: "controls view-head" }, this.heading, this.#makeTools(), this.copied, this.resolution),
      this.stage,
      this.readout,
    );
    this.#listen();
    new ResizeObserver(() => this.#axes && this.#paintSoon()).observe(this.element);
  }

  /** @param {Set<string>} changed names of the state's values */
  update(changed) {
    if (["view", "window", "map"].some((name) => changed.has(name))) this.#followWindow();
    this.#load();
    this.#paintSoon();
  }

  onHover() {
    this.#mark();
  }

  /** Handle keys that mean the same wherever the focus is, while the map is shown. */
  onKey(event) {
    const zoom = { "+": 1 / ZOOM_STEP, "=": 1 / ZOOM_STEP, "-": ZOOM_STEP }[event.key];
    if (zoom) this.zoom(zoom);
    else if (event.key === "0") this.showAll();
    else return false;
    return true;
  }

  /** Zoom in (a factor below 1) or out around a place on the axes: the cursor, or the middle. */
  zoom(factor, around = this.#middle()) {
    const look = ([from, to], at, length) => {
      const span = Math.min(Math.max((to - from) * factor, Math.min(LEAST_IN_SIGHT, length)), length);
      const start = at - ((at - from) / (to - from || 1)) * span; // the window may have only hidden special tokens
      return [start, start + span];
    };
    const { rows, columns } = this.#shownAxes();
    const [down, across] = this.#places();
    this.#look(look(down, around.down, rows.length), look(across, around.across, columns.length));
  }

  showAll() {
    this.#sight = null;
    this.#sightChanged();
  }

  get #map() {
    return this.#app.state.map;
  }

  get #parts() {
    const { part } = this.#app.state.values;
    return part === "all" ? this.#map.parts : [this.#map.part(part)];
  }

  get #whole() {
    const { rows, columns } = this.#map;
    return [rows.start, rows.end, columns.start, columns.end];
  }

  /** The visible window, in whole positions. */
  get #range() {
    const [q0, q1, k0, k1] = this.#sight ?? this.#whole;
    return [Math.floor(q0 + 1e-6), Math.ceil(q1 - 1e-6), Math.floor(k0 + 1e-6), Math.ceil(k1 - 1e-6)];
  }

  // Requests.

  #load() {
    const { head, special } = this.#app.state.values;
    const map = this.#map;
    const parts = this.#parts;
    const key = JSON.stringify([map.index, head, special, parts.map((part) => part.name)]);
    if (key === this.#key) return;
    this.#key = key;
    const axes = (single) => ({
      rows: new Axis(map.rows, single, special),
      columns: new Axis(map.columns, single, special),
    });
    this.#axes = axes(false);
    this.#singles = map.isPooled && map.exact ? axes(true) : null;
    this.#cells.clear();
    this.#tokens = null;
    this.heading.replaceChildren(...titled(headName(map, head), map));
    this.canvas.setAttribute("aria-label", `${headName(map, head)}: ${this.#app.contents.reading}`);
    this.stage.setAttribute("aria-busy", "true");
    const { scales } = this.#app.contents;
    this.#askForTokens(0); // first, as all cells of a long input take longer
    for (const part of parts) {
      const scale = scales[part.scale];
      const arrive = (answer) =>
        this.#cells.set(part.name, new Tile(map, part, this.#axes, this.#whole, answer, scale));
      this.#receive(this.#app.jobs.values(map, part.name, head), arrive);
    }
  }

  /** Request the single tokens of the visible window and a little around it, once it stays the same. */
  #askForTokens(delay = 60) {
    clearTimeout(this.#windowTimer);
    const map = this.#map;
    const [q0, q1, k0, k1] = this.#range;
    const isFew = (q1 - q0) * (k1 - k0) <= MOST_TOKENS_IN_SIGHT;
    if (!this.#singles || !isFew || this.#tokens?.covers(this.#range)) return;
    const more = Math.min(Math.sqrt(MOST_TOKENS_IN_SIGHT / ((q1 - q0) * (k1 - k0))) - 1, 0.25) / 2;
    const around = (from, to, side) => {
      const margin = Math.floor((to - from) * more);
      return [Math.max(from - margin, side.start), Math.min(to + margin, side.end)];
    };
    const range = [...around(q0, q1, map.rows), ...around(k0, k1, map.columns)];
    const ask = () => {
      const arrive = (answer) => {
        const ofCells = this.#app.contents.scales[map.part().scale];
        const scale = scaleOfTokens(ofCells, map, largestSize(answer.values));
        this.#tokens = new Tile(map, map.part(), this.#singles, range, answer, scale);
      };
      this.#receive(this.#app.jobs.window(map, this.#app.state.values.head, range, "map"), arrive);
    };
    if (delay === 0) ask();
    else this.#windowTimer = setTimeout(ask, delay);
  }

  /** Use a result unless something else is shown by then. */
  async #receive(promise, arrive) {
    const key = this.#key;
    try {
      const answer = await promise;
      if (key !== this.#key) return;
      arrive(answer);
      this.#paintSoon();
    } catch (problem) {
      if (!problem.cancelled && key === this.#key) this.#app.fail(problem);
    }
  }

  // Drawing.

  #paintSoon() {
    this.#frameRequest ||= requestAnimationFrame(() => {
      this.#frameRequest = 0;
      if (this.element.clientWidth) this.#paint(); // otherwise it is hidden
    });
  }

  #paint() {
    const top = this.stage.getBoundingClientRect().top + window.scrollY;
    const room = {
      width: this.element.clientWidth,
      height: Math.max(window.innerHeight - Math.min(top, 0.4 * window.innerHeight) - 64, 280),
    };
    const hasSinks = this.#map.sinks.some((sink) => this.#axes.columns.indexOf(sink) >= 0);
    this.#figure.arrange(room, this.#axes, this.#parts.length, hasSinks);
    const { width, height } = this.#figure;
    for (const canvas of [this.canvas, this.marks]) {
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    this.#figure.paint(sizedContext(this.canvas, width, height), this.#scene());
    this.canvas.classList.toggle("zoomed", this.#sight !== null);
    this.#tellResolution();
    this.#mark();
    if (this.#cells.size === this.#parts.length) this.stage.setAttribute("aria-busy", "false");
  }

  /** @returns {Scene} */
  #scene() {
    const map = this.#map;
    const { head, special } = this.#app.state.values;
    const { scales } = this.#app.contents;
    const place = map.placeOf(head);
    const isOfTokens = this.#shownAxes() === this.#singles;
    const panels = this.#parts.map((part) => {
      const layer = (isOfTokens ? this.#tokens : this.#cells.get(part.name)) ?? null;
      const thumb = layer || !special ? null : this.#thumb(part, place);
      return { part, scale: layer?.scale ?? scales[part.thumbScale], layer, thumb };
    });
    return {
      title: headName(map, head),
      axes: this.#shownAxes(),
      sides: ["query", "key"],
      sight: this.#sight ?? this.#whole,
      panels,
    };
  }

  #thumb(part, place) {
    const { rows, columns, values } = this.#map.thumb(part.name, place);
    const sinks = this.#map.sinksOfThumb(columns);
    const scale = this.#app.contents.scales[part.thumbScale];
    return matrixImage(this.#app.colours, values, scale, { rows, columns, sinks });
  }

  /** Axes of single tokens if all visible ones are there, else of the map's own pieces. */
  #shownAxes() {
    return this.#tokens?.covers(this.#range) ? this.#singles : this.#axes;
  }

  #tellResolution() {
    const map = this.#map;
    const [q0, q1, k0, k1] = this.#range;
    const count = (end, start) => (end - start).toLocaleString("en");
    const sight = this.#sight ? `queries ${q0}–${q1 - 1}, keys ${k0}–${k1 - 1}` : "";
    let pieces = "";
    if (map.isPooled && this.#shownAxes() === this.#axes) {
      const more = this.#singles ? "; zoom in for single tokens" : "";
      pieces = `${count(q1, q0)} × ${count(k1, k0)} tokens in cells${more}`;
    } else if (map.isPooled) {
      pieces = "single tokens";
    }
    this.resolution.textContent = [sight, pieces].filter(Boolean).join(", ");
  }

  // Crosshair and pins.

  #mark() {
    if (!this.#axes || !this.#figure.width) return;
    const { width, height } = this.#figure;
    const scene = this.#scene();
    this.#figure.mark(sizedContext(this.marks, width, height), scene, this.#cursor(), this.#pinned());
    this.#read(scene);
  }

  /** Indexes of the pointed row and column on the shown axes. */
  #cursor() {
    return this.#cellOf(this.#app.state.hover);
  }

  #pinned() {
    return this.#cellOf(this.#app.state.values);
  }

  #cellOf({ query, key }) {
    const { rows, columns } = this.#shownAxes();
    const index = (axis, position) => {
      const found = position === null ? -1 : axis.indexOf(position);
      return found < 0 ? null : found;
    };
    return { row: index(rows, query), column: index(columns, key) };
  }

  #point(row, column) {
    const { rows, columns } = this.#shownAxes();
    this.#app.state.setHover(
      row === null ? null : rows.first(row),
      column === null ? null : columns.first(column),
    );
  }

  /** Pin a cell, or the query of a row alone; or unpin what is pinned. */
  #pin({ row, column }) {
    const { rows, columns } = this.#shownAxes();
    if (row === null) return;
    const [query, key] = [rows.first(row), column === null ? null : columns.first(column)];
    const { query: oldQuery, key: oldKey } = this.#app.state.values;
    const isPinned = query === oldQuery && key === oldKey;
    this.#app.state.set(isPinned ? { query: null, key: null } : { query, key });
    const name = column === null ? rows.name(row) : `${rows.name(row)} → ${columns.name(column)}`;
    this.#app.say(isPinned ? "Not pinned any more." : `Pinned: ${name}.`);
  }

  /** Write below the map what the crosshair, or else the pin, is on. */
  #read(scene) {
    const cursor = this.#cursor();
    const pinned = this.#pinned();
    const isPin = cursor.row === null || cursor.column === null;
    const cell = isPin ? pinned : cursor;
    if (cell.row === null || cell.column === null) {
      this.readout.replaceChildren(HINT);
      this.readout.classList.add("quiet");
      return;
    }
    const { query, key, numbers, note } = this.#reading(scene, cell);
    this.readout.classList.remove("quiet");
    this.readout.replaceChildren(
      isPin ? "pinned: " : "",
      make("bdi", {}, query),
      " → ",
      make("bdi", {}, key),
      ": ",
      ...numbers.flatMap(([name, text]) => [name && `${name} `, make("strong", {}, text), " "]),
      make("span", { className: "quiet" }, note),
    );
  }

  /** Description of a cell. */
  #reading(scene, { row, column }) {
    const { rows, columns } = scene.axes;
    const query = rows.name(row);
    const { layer } = scene.panels[0];
    const isHidden = layer?.isHidden(row, column);
    const numbers = scene.panels.map((panel) => {
      const value = panel.layer?.value(row, column);
      const text = value === undefined ? "…" : isHidden ? "hidden by the mask" : short(value, 4);
      return [scene.panels.length > 1 ? panel.part.name : "", text];
    });
    const [queries, keys] = [rows.end(row) - rows.first(row), columns.end(column) - columns.first(column)];
    const isCell = queries > 1 || keys > 1;
    const { name, reduction, is_distribution: isDistribution } = this.#map.quantity;
    const whose = queries === 1 ? "the query's" : "their";
    const own = isDistribution || keys === 1 ? `${whose} ${name}` : `the sum of ${whose} ${name}s`;
    const mean = queries === 1 ? "" : `the mean over ${queries} queries of `;
    const how =
      reduction === "max"
        ? `the largest of ${queries} × ${keys} ${name}s`
        : `${mean}${own} on ${keys} ${keys === 1 ? "key" : "keys"}`;
    return { query, key: columns.name(column), numbers, note: isCell && !isHidden ? `(${how})` : "" };
  }

  #saySoon() {
    const cell = this.#cursor();
    if (cell.row === null || cell.column === null) return;
    const { query, key, numbers } = this.#reading(this.#scene(), cell);
    this.#app.say(`${query} → ${key}: ${numbers.map((words) => words.join(" ")).join(", ")}`);
  }

  // Zoom and pan.

  /** The visible part of the axes: rows, columns. @returns {[number, number][]} */
  #places() {
    const { rows, columns } = this.#shownAxes();
    const [q0, q1, k0, k1] = this.#sight ?? this.#whole;
    return [
      [rows.place(q0), rows.place(q1)],
      [columns.place(k0), columns.place(k1)],
    ];
  }

  #middle() {
    const { row, column } = this.#cursor();
    const [[top, bottom], [left, right]] = this.#places();
    const isSeen = row >= top && row < bottom && column >= left && column < right;
    return row !== null && column !== null && isSeen
      ? { down: row + 0.5, across: column + 0.5 }
      : { down: (top + bottom) / 2, across: (left + right) / 2 };
  }

  /** Show these places of the axes, moved so that they lie on them. */
  #look(down, across) {
    const { rows, columns } = this.#shownAxes();
    const positions = ([from, to], axis) => {
      const span = Math.min(to - from, axis.length);
      const start = Math.min(Math.max(from, 0), axis.length - span);
      return [
        start <= 0 ? axis.side.start : axis.position(start),
        start + span >= axis.length ? axis.side.end : axis.position(start + span),
      ];
    };
    const sight = [...positions(down, rows), ...positions(across, columns)];
    this.#sight = sight.every((position, i) => position === this.#whole[i]) ? null : sight;
    this.#sightChanged();
  }

  #sightChanged() {
    this.#paintSoon();
    this.#askForTokens();
    clearTimeout(this.#stateTimer);
    this.#stateTimer = setTimeout(() => this.#app.state.set({ window: this.#sight && this.#range }), 200);
  }

  /** Take over a window that was set elsewhere, such as by a link. */
  #followWindow() {
    const { window: wanted } = this.#app.state.values;
    if (JSON.stringify(wanted) === JSON.stringify(this.#sight && this.#range)) return;
    clearTimeout(this.#stateTimer);
    this.#sight = wanted;
    if (this.#axes) this.#askForTokens();
  }

  #pan(dx, dy) {
    const { width, height } = this.#figure.frames[0];
    const [[top, bottom], [left, right]] = this.#places();
    const [down, across] = [(dy / height) * (bottom - top), (dx / width) * (right - left)];
    this.#look([top - down, bottom - down], [left - across, right - across]);
  }

  /** Move the visible window so that it has a cell. */
  #reveal(row, column) {
    const [down, across] = this.#places();
    const within = ([from, to], index) => {
      const shift = Math.min(index - from, 0) || Math.max(index + 1 - to, 0);
      return [from + shift, to + shift];
    };
    const [nextDown, nextAcross] = [within(down, row), column === null ? across : within(across, column)];
    if (nextDown[0] !== down[0] || nextAcross[0] !== across[0]) this.#look(nextDown, nextAcross);
  }

  // Pointer and keyboard.

  #makeTools() {
    const button = (text, label, onclick) =>
      make("button", { type: "button", "aria-label": label, title: label, onclick }, text);
    return make(
      "div",
      { className: "buttons", role: "group", "aria-label": "head and zoom" },
      button("‹", "previous head ([)", () => this.#app.step("head", -1)),
      button("›", "next head (])", () => this.#app.step("head", 1)),
      button("−", "show more (−)", () => this.zoom(ZOOM_STEP)),
      button("+", "show less, larger (+)", () => this.zoom(1 / ZOOM_STEP)),
      button("all", "show all (0)", () => this.showAll()),
      button("Copy PNG", "copy the picture, or save it", () => this.#copy()),
    );
  }

  async #copy() {
    const name = headName(this.#map, this.#app.state.values.head).toLowerCase().replace(/[^a-z0-9]+/g, "-");
    this.copied.textContent = await copyPicture(this.canvas, this.#app.colours.paper, `mhaviz-${name}.png`);
  }

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => this.#press(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    for (const type of ["pointerup", "pointercancel"])
      canvas.addEventListener(type, (event) => this.#release(event));
    canvas.addEventListener("pointerleave", () => {
      if (this.#pointers.size === 0) this.#point(null, null);
    });
    canvas.addEventListener("click", (event) => this.#click(event));
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.#pressKey(event));
    canvas.addEventListener("blur", () => this.#point(null, null));
  }

  #cellAt(event) {
    return this.#axes ? this.#figure.at(event.offsetX, event.offsetY, this.#scene()) : null;
  }

  #press(event) {
    if (event.button !== 0) return; // the button of a menu may never be released here
    this.#pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.canvas.setPointerCapture(event.pointerId);
    this.#drag = { x: event.offsetX, y: event.offsetY, hasMoved: this.#pointers.size > 1 };
    const cell = this.#cellAt(event);
    if (cell) this.#point(cell.row, cell.column);
  }

  #move(event) {
    const before = this.#pointers.get(event.pointerId);
    const now = { x: event.offsetX, y: event.offsetY };
    if (!before) {
      const cell = this.#cellAt(event);
      this.#point(cell?.row ?? null, cell?.column ?? null);
      return;
    }
    if (Math.hypot(now.x - this.#drag.x, now.y - this.#drag.y) > MOVED) this.#drag.hasMoved = true;
    if (!this.#drag.hasMoved) return;
    const other = [...this.#pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) this.#pinch(other, before, now);
    else if (this.#sight) this.#pan(now.x - before.x, now.y - before.y);
    this.#pointers.set(event.pointerId, now);
  }

  #pinch(other, before, now) {
    const far = (one) => Math.max(Math.hypot(one.x - other.x, one.y - other.y), 1);
    const middle = this.#figure.at((now.x + other.x) / 2, (now.y + other.y) / 2, this.#scene());
    if (middle) this.zoom(far(before) / far(now), middle);
  }

  #release(event) {
    this.#pointers.delete(event.pointerId);
  }

  #click(event) {
    if (event.detail > 1) return;
    const cell = this.#drag?.hasMoved ? null : this.#cellAt(event);
    if (cell) this.#pin(cell);
  }

  #wheel(event) {
    const around = this.#cellAt(event);
    const isOut = event.deltaY > 0;
    if (!around || (isOut && !this.#sight)) return; // the page scrolls
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
    this.zoom(Math.min(Math.max(Math.exp(event.deltaY * lines * 0.002), 0.5), 2), around);
    const cell = this.#cellAt(event);
    this.#point(cell.row, cell.column);
  }

  #pressKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { rows, columns } = this.#shownAxes();
    const step = stepOf(event);
    if (step) this.#step(step, rows.length, columns.length);
    else if (event.key === "Enter" || event.key === " ") this.#pin(this.#cursor());
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #step([down, across], rowCount, columnCount) {
    const cursor = this.#cursor();
    const isFirst = cursor.row === null || cursor.column === null;
    const start = isFirst ? this.#startingCell() : cursor;
    const within = (index, most) => Math.min(Math.max(index, 0), most);
    const row = within(start.row + (isFirst ? 0 : down), rowCount - 1);
    const column = within(start.column + (isFirst ? 0 : across), columnCount - 1);
    this.#reveal(row, column);
    this.#point(row, column);
    this.#saySoon();
  }

  /** First place of the crosshair: the pinned cell, else the first visible one. */
  #startingCell() {
    const pinned = this.#pinned();
    if (pinned.row !== null && pinned.column !== null) return pinned;
    const [[top], [left]] = this.#places();
    return { row: Math.floor(top), column: Math.floor(left) };
  }
}

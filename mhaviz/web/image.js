// View of attention over images: of each view the photo, in which patches stand out, and the map of all patches.

import { Choice, isolated, make, shortened, stepOf } from "./dom.js";
import { drawBar, drawImage, drawLines, matrixImage, outlineOf, sizedContext } from "./drawing.js";
import { percent, short } from "./numbers.js";
import { headName, partShown, titled } from "./pieces.js";
import { LEAST_PATCHES, ofQueries, sharesOf, toKeys } from "./shares.js";
/** @import { Page } from "./main.js" */

const WIDTH = 360; // CSS pixels of a picture at most
const HEIGHT = 360;
const DIM = "rgb(0 0 0 / 0.62)";
const PALE = "rgb(255 255 255 / 0.65)"; // over what lies outside of all patches
const STRIPES = { light: "#ececec", dark: "#d0d0d0", width: 6 }; // of padding
const OF_QUERY = "#00c8d7";
const MOST_OPTIONS = 500; // tokens that can be chosen in a list

export class ImageView {
  #app;
  #photos = [];
  #drawn = null; // what is shown: the grids, what they get, and their canvases
  #asked = {};

  /** @param {Page} app */
  constructor(app) {
    this.#app = app;
    this.images = app.contents.images;
    this.role = this.images?.ofKey ? "key" : "query";
    this.choice = new Choice(this.role, (place) => app.state.set({ [this.role]: place === "" ? null : Number(place) }));
    this.title = make("h2");
    this.line = make("p", { role: "status" });
    this.pictures = make("div", { className: "pictures" });
    this.bar = make("canvas", { className: "bar", "aria-hidden": "true" });
    this.pointed = make("p", { className: "quiet pointed" });
    const controls = make("div", { className: "controls" }, this.choice.element);
    const parts = [controls, this.title, this.line, this.pictures, this.bar, this.pointed];
    this.element = make("div", { className: "image-view" }, ...parts);
    for (const photo of this.images?.photos ?? []) {
      const image = make("img", { src: photo });
      image.decode().then(() => this.#paint(), () => {}); // one that is broken leaves the maps
      this.#photos.push(image);
    }
  }

  /** Side of the map whose tokens are patches, and the other, which has the query or the key. */
  get #sides() {
    const { rows, columns } = this.#app.state.map;
    return this.images.ofKey ? [rows, columns] : [columns, rows];
  }

  /** Positions of the query or the key. */
  get #places() {
    const { map, values } = this.#app.state;
    const chosen = values[this.role];
    return chosen === null ? this.images.asked[map.index] : [chosen];
  }

  async update() {
    const { state, jobs } = this.#app;
    const { map, values } = state;
    this.#showChoice();
    const asked = (this.#asked = {});
    this.title.replaceChildren(...titled(headName(map, values.head), map));
    try {
      const answer = await jobs.values(map, partShown(map, values), values.head);
      if (asked === this.#asked) this.#show(map, answer);
    } catch (problem) {
      if (problem.cancelled || asked !== this.#asked) return;
      this.line.textContent = `What it gives the patches cannot be computed: ${problem.message}`;
    }
  }

  #showChoice() {
    const [, side] = this.#sides;
    const patches = new Set(side.images.flatMap((image) => image.places));
    const others = side.labels.map((_, i) => i + side.start).filter((place) => !patches.has(place)).slice(0, MOST_OPTIONS);
    const chosen = this.#app.state.values[this.role];
    if (chosen !== null && !others.includes(chosen)) others.push(chosen);
    const first = ["", this.images.name];
    this.choice.options = [first, ...others.map((place) => [String(place), shortened(side.named(place), 40)])];
    this.choice.value = chosen === null ? "" : String(chosen);
  }

  #show(map, { values, columns }) {
    const [near] = this.#sides;
    const grids = near.images;
    const patches = grids.flatMap((grid) => grid.places);
    const places = this.#places;
    const isHidden = (row, column) => map.hiddenToken(row, column);
    const found = (this.images.ofKey ? toKeys : ofQueries)(values, columns, places, patches, isHidden);
    const shares = sharesOf(found.weights, found.chance, this.images.ofKey);
    let begin = 0;
    const views = grids.map((grid) => {
      const range = [begin, (begin += grid.places.length)];
      const [times, outlined, weights] = [shares.times, shares.outlined, found.weights].map((x) => x.slice(...range));
      return { grid, times, outlined, weights, range, chance: found.chance.slice(...range) };
    });
    this.line.textContent = this.#told(shares);
    const isSame = this.#drawn?.grids === JSON.stringify(grids);
    const pictures = isSame ? this.#drawn.pictures : views.map((_, at) => this.#picture(at));
    if (!isSame) this.pictures.replaceChildren(...pictures.map((picture) => picture.element));
    this.#drawn = { grids: JSON.stringify(grids), views, pictures, shares };
    this.#paint();
  }

  /** "“[CLS]” (0): half in 6 of 196 patches, at most 39 × uniform; 3% goes elsewhere". */
  #told({ half, count, spread, times, outlined, inside }) {
    const [, side] = this.#sides;
    const chosen = this.#app.state.values[this.role];
    const who = chosen === null ? this.images.name : `“${isolated(shortened(side.label(chosen), 40))}” (${chosen})`;
    if (spread === "nothing") return `${who}: nothing ${this.images.ofKey ? "from" : "for"} the patches`;
    const most = times.reduce((one, other) => (other > one ? other : one), 0);
    const standing = outlined.filter(Boolean).length;
    const what =
      spread === "peaks"
        ? `even but for ${standing} of ${count} patches`
        : count < LEAST_PATCHES
          ? `most: ${this.#nameOf(times.indexOf(most))}`
          : `half in ${half} of ${count} patches${spread === "half" ? "" : ": even"}`;
    const unit = this.images.ofKey ? "× the mean" : "× uniform";
    const rest = this.images.ofKey ? `patches give it ${percent(inside)} on average` : `${percent(1 - inside)} goes elsewhere`;
    const hasRest = this.images.ofKey || this.#app.state.map.quantity.is_distribution;
    return `${who}: ${what}, at most ${short(most, 2)} ${unit}${hasRest ? `; ${rest}` : ""}`;
  }

  /** Name of a patch, by its place among those of all views: "3,11", "thumbnail 3,11". */
  #nameOf(place) {
    const grids = this.#sides[0].images;
    let begin = 0;
    const grid = grids.find(({ places }) => place < begin + places.length || ((begin += places.length), false));
    const i = place - begin;
    return `${grid.name} ${Math.floor(i / grid.columns)},${i % grid.columns}`.trim();
  }

  /** Elements of a view: its photo, if there is one, and its map. */
  #picture(at) {
    const options = {
      tabIndex: 0,
      role: "img",
      onclick: (event) => this.#choose(at, this.#cellAt(at, event)),
      onpointermove: (event) => this.#point(at, this.#cellAt(at, event)),
      onpointerleave: () => this.#point(at, null),
      onkeydown: (event) => this.#step(at, event),
    };
    const canvases = (this.#photos.length ? ["photo", "patches"] : ["patches"]).map((className) =>
      make("canvas", { ...options, className }),
    );
    const name = make("figcaption", { className: "quiet" });
    return { element: make("figure", {}, ...canvases, name), canvases, name };
  }

  /** Photo of a view, and its width and height: without a photo those of its grid, whose patches are squares. */
  #frame({ grid: { box, rows, columns, image } }) {
    const photo = this.#photos[this.images.numbers.indexOf(image)];
    const [top, left, bottom, right] = box;
    const ratio = photo?.naturalWidth
      ? photo.naturalWidth / photo.naturalHeight
      : (columns / (right - left) / rows) * (bottom - top);
    const width = Math.min(WIDTH, HEIGHT * ratio);
    return { photo, width, height: width / ratio };
  }

  #paint() {
    if (!this.#drawn || this.element.closest("[hidden]")) return;
    const { views, pictures, shares } = this.#drawn;
    const query = this.#patchOfQuery();
    views.forEach((view, at) => {
      const { photo, width, height } = this.#frame(view);
      const { canvases, name } = pictures[at];
      const { grid } = view;
      const [begin, end] = view.range;
      const share = shares.times.slice(begin, end).reduce((sum, x, i) => sum + (x > 0 ? x * view.chance[i] : 0), 0);
      name.textContent = views.length > 1 ? `${grid.name || `view ${at}`}: ${percent(share)}` : "";
      for (const canvas of canvases) {
        Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
        canvas.setAttribute("aria-label", `${grid.name || "image"}: ${this.line.textContent}`);
        const context = sizedContext(canvas, width, height);
        const [top, left, bottom, right] = grid.box;
        const box = { x: left * width, y: top * height, width: (right - left) * width, height: (bottom - top) * height };
        const xOf = (column) => box.x + (column * box.width) / grid.columns;
        const yOf = (row) => box.y + (row * box.height) / grid.rows;
        if (canvas.className === "photo") this.#paintPhoto(context, photo, view, { width, height, xOf, yOf });
        else this.#paintMap(context, view, box);
        if (query?.at !== at) continue;
        context.strokeStyle = OF_QUERY;
        context.lineWidth = 2;
        const [x, y] = [xOf(query.column), yOf(query.row)];
        context.strokeRect(x + 1, y + 1, xOf(query.column + 1) - x - 2, yOf(query.row + 1) - y - 2);
      }
    });
    drawBar(sizedContext(this.bar, 240, 26), this.#app.colours, this.images.scale, { x: 0, y: 0, width: 240 });
  }

  /** The photo, darker where no patch stands out, with an outline of those that do. */
  #paintPhoto(context, photo, { grid, outlined, times }, { width, height, xOf, yOf }) {
    if (photo.complete && photo.naturalWidth) context.drawImage(photo, 0, 0, width, height);
    const { rows, columns } = grid;
    const isLit = outlined.some(Boolean) ? (i) => outlined[i] === 1 : (i) => !Number.isNaN(times[i]);
    context.beginPath();
    context.rect(0, 0, width, height);
    for (let i = 0; i < times.length; i++) {
      if (!isLit(i)) continue;
      const [row, column] = [Math.floor(i / columns), i % columns];
      context.rect(xOf(column), yOf(row), xOf(column + 1) - xOf(column), yOf(row + 1) - yOf(row));
    }
    context.fillStyle = DIM;
    context.fill("evenodd");
    const [left, top, right, bottom] = [xOf(0), yOf(0), xOf(columns), yOf(rows)];
    fillAround(context, [0, 0, width, height], [left, top, right - left, bottom - top], PALE);
    const [y0, x0, y1, x1] = this.images.photoBoxes[this.images.numbers.indexOf(grid.image)];
    const inside = [x0 * width, y0 * height, (x1 - x0) * width, (y1 - y0) * height];
    fillAround(context, [0, 0, width, height], inside, stripesOf(context));
    const lines = outlineOf(outlined.map((is) => 1 - is), rows, columns);
    for (const [colour, thickness] of [["#000000", 5], ["#ffffff", 2.5]]) {
      context.strokeStyle = colour;
      context.lineWidth = thickness;
      context.lineCap = "square";
      context.beginPath();
      for (const [row, column, endRow, endColumn] of lines) {
        context.moveTo(xOf(column), yOf(row));
        context.lineTo(xOf(endColumn), yOf(endRow));
      }
      context.stroke();
    }
  }

  #paintMap(context, { grid: { rows, columns }, times, outlined }, box) {
    const image = matrixImage(this.#app.colours, Float32Array.from(times), this.images.scale, { rows, columns });
    drawImage(context, image, [0, 0, columns, rows], box);
    context.fillStyle = "#1a1a1a";
    const xOf = (column) => box.x + (column * box.width) / columns;
    const yOf = (row) => box.y + (row * box.height) / rows;
    drawLines(context, outlineOf(outlined.map((is) => 1 - is), rows, columns), xOf, yOf);
  }

  /** View, row and column of the patch that is the query; null: it is none. */
  #patchOfQuery() {
    const chosen = this.#app.state.values[this.role] ?? (this.#places.length === 1 ? this.#places[0] : null);
    const [near, side] = this.#sides;
    for (const { places, columns, name, image } of side.images) {
      const at = near.images.findIndex((one) => one.name === name && one.image === image);
      const found = chosen === null ? -1 : places.indexOf(chosen);
      if (at >= 0 && found >= 0) return { at, row: Math.floor(found / columns), column: found % columns };
    }
    return null;
  }

  /** Row and column of the patch under the pointer; null: there is none. */
  #cellAt(at, event) {
    const { grid } = this.#drawn.views[at];
    const frame = event.target.getBoundingClientRect();
    const [top, left, bottom, right] = grid.box;
    const y = ((event.clientY - frame.top) / frame.height - top) / (bottom - top);
    const x = ((event.clientX - frame.left) / frame.width - left) / (right - left);
    const [row, column] = [Math.floor(y * grid.rows), Math.floor(x * grid.columns)];
    return row >= 0 && row < grid.rows && column >= 0 && column < grid.columns ? [row, column] : null;
  }

  /** Make a patch the query, or the default, if it is the query already. */
  #choose(at, cell) {
    if (!cell) return;
    const { grid } = this.#drawn.views[at];
    const [, side] = this.#sides;
    const of = side.images.find((one) => one.name === grid.name && one.image === grid.image);
    const place = of?.places[cell[0] * of.columns + cell[1]] ?? -1;
    if (place < 0) return;
    const { state } = this.#app;
    state.set({ [this.role]: state.values[this.role] === place ? null : place });
  }

  #point(at, cell) {
    const { grid, times, weights } = this.#drawn.views[at];
    if (!cell) {
      this.pointed.textContent = "";
      return;
    }
    const i = cell[0] * grid.columns + cell[1];
    const name = `${grid.name} ${cell.join(",")}`.trim();
    const unit = this.images.ofKey ? "× the mean" : "× uniform";
    const seen = Number.isNaN(times[i]) ? "not seen" : `${short(times[i], 2)} ${unit}, weight ${short(weights[i], 3)}`;
    this.pointed.textContent = `patch ${name}: ${seen}`;
  }

  /** Move the query by a key of the keyboard. */
  #step(at, event) {
    const step = stepOf(event);
    if (!step) return;
    const { rows, columns } = this.#drawn.views[at].grid;
    const query = this.#patchOfQuery();
    const from = query?.at === at ? [query.row, query.column] : [0, 0];
    const to = query?.at === at ? [from[0] + step[0], from[1] + step[1]] : from;
    const cell = [Math.min(Math.max(to[0], 0), rows - 1), Math.min(Math.max(to[1], 0), columns - 1)];
    event.preventDefault();
    event.stopPropagation();
    if (query?.at === at && cell[0] === query.row && cell[1] === query.column) return;
    this.#choose(at, cell);
    this.#point(at, cell);
    this.#app.say(`${this.line.textContent}; ${this.pointed.textContent}`);
  }
}

/** Fill what is inside of one box and outside of another; boxes are x, y, width and height. */
function fillAround(context, whole, inner, style) {
  const [x, y, width, height] = inner;
  context.save();
  context.beginPath();
  context.rect(...whole);
  context.clip();
  context.beginPath();
  context.rect(...whole);
  context.rect(x, y, width, height);
  context.fillStyle = style;
  if (x > 0.5 || y > 0.5 || x + width < whole[2] - 0.5 || y + height < whole[3] - 0.5) context.fill("evenodd");
  context.restore();
}

/** A pattern of diagonal stripes of two light greys. */
function stripesOf(context) {
  const { light, dark, width } = STRIPES;
  const tile = make("canvas", { width: 2 * width, height: 2 * width });
  const lines = tile.getContext("2d");
  lines.fillStyle = light;
  lines.fillRect(0, 0, 2 * width, 2 * width);
  lines.strokeStyle = dark;
  lines.lineWidth = width / Math.SQRT2;
  for (const offset of [-2 * width, 0, 2 * width]) {
    lines.beginPath();
    lines.moveTo(offset - 1, 2 * width + 1);
    lines.lineTo(offset + 2 * width + 1, -1);
    lines.stroke();
  }
  return context.createPattern(tile, "repeat");
}

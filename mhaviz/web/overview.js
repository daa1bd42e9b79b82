// View of all heads: layers × heads, or sorted by a statistic.

import { Choice, make, rove } from "./dom.js";
import { drawImage, drawLines, matrixImage, outlineOf, sizedContext } from "./drawing.js";
import { fixed } from "./numbers.js";
import { headName, kindOf, partShown, titled } from "./pieces.js";
import { isMasked } from "./tile.js";

const PICTURE = 128; // least pixels of a picture; the browser scales it to its place

export class OverviewView {
  #app;
  #thumbs = new Map(); // "map:head" → Thumb
  #chosen = null; // Thumb of the current head
  #pointed = null; // Thumb that the pointer or the focus is on
  #arranged; // identifies the arrangement of the elements
  #inSight = new Set();
  #observer;
  #frameRequest = 0;

  constructor(app) {
    this.#app = app;
    this.name = make("p", { className: "named" });
    this.meaning = make("p", { className: "quiet" });
    this.list = make("div", { className: "groups" });
    this.element = make(
      "section",
      { className: "overview", "aria-label": "overview of all heads" },
      this.#makeTools(),
      this.meaning,
      this.name,
      this.list,
    );
    this.#observer = new IntersectionObserver((entries) => this.#see(entries), { rootMargin: "200px" });
    this.#listen();
  }

  update() {
    if (!this.#app.state.map) return;
    const { sentence, pass } = this.#app.state.map;
    const key = JSON.stringify([sentence, pass, this.#app.state.values.sort]);
    if (key !== this.#arranged) {
      this.#arranged = key;
      this.#arrange();
    }
    this.#setTools();
    this.#choose();
    this.#paintSoon();
  }

  get #measure() {
    return this.#app.contents.measures.find((measure) => measure.name === this.#app.state.values.sort);
  }

  /** Statistic of a head, or its spread; undefined or null where it has none. */
  #number({ map, head }, name, part = "means") {
    return this.#app.contents.numbers[map.index]?.[part][name]?.[map.placeOf(head)];
  }

  // Tools.

  #makeTools() {
    const { state, contents } = this.#app;
    this.sort = new Choice("sort by", (sort) => state.set({ sort }), [
      ["layer", "layer and head"],
      ...contents.measures.map(({ name }) => name),
    ]);
    const tools = make("div", { className: "controls" }, this.sort.element);
    tools.hidden = contents.measures.length === 0;
    return tools;
  }

  #setTools() {
    const measure = this.#measure;
    this.sort.value = this.#app.state.values.sort;
    const first = measure?.low_first ? "lowest" : "highest";
    this.meaning.textContent = measure ? `${measure.name}, ${first} first: ${measure.meaning}` : "";
  }

  // Order of heads.

  #arrange() {
    const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
    const { maps } = this.#app.contents;
    const chosen = maps.filter((map) => map.isBeside(this.#app.state.map));
    const groups = new Map();
    for (const map of chosen) groups.set(groupOf(map), [...(groups.get(groupOf(map)) ?? []), map]);
    const grids = this.#measure ? [this.#sorted(chosen)] : [...groups.values()].map((group) => this.#grid(group));
    this.list.replaceChildren(...grids);
    if (focused?.isConnected) focused.focus();
  }

  #thumb(map, head) {
    const key = `${map.index}:${head}`;
    if (!this.#thumbs.has(key)) {
      const thumb = new Thumb(map, head, key);
      this.#thumbs.set(key, thumb);
      this.#observer.observe(thumb.button);
    }
    return this.#thumbs.get(key);
  }

  #grid(maps) {
    const heads = [...new Set(maps.flatMap((map) => map.heads))].sort((a, b) => a - b);
    const heading = make("h3", {}, maps[0].title);
    const { family } = maps[0];
    if (family) heading.append(" ", make("bdi", { className: "quiet module" }, family));
    if (heads.length === 1 && maps.length > 1)
      return make("section", { className: "group" }, heading, this.#flow(maps));
    const side = (role, content, title = "") => make("span", { className: "side", role, title }, content);
    const rows = maps.map((map) =>
      make(
        "div",
        { role: "row" },
        side("rowheader", this.#layer(map), map.module),
        ...heads.map((head) => {
          if (!map.heads.includes(head)) return make("span", { role: "gridcell" });
          const thumb = this.#thumb(map, head);
          thumb.caption.textContent = "";
          thumb.button.setAttribute("role", "gridcell");
          thumb.button.setAttribute("aria-label", headName(map, head));
          return thumb.button;
        }),
      ),
    );
    const top = make(
      "div",
      { role: "row" },
      side("columnheader", ""),
      ...heads.map((head) => side("columnheader", String(head))),
    );
    const grid = make(
      "div",
      { className: "grid", role: "grid", "aria-label": `${maps[0].title}: layers × heads` },
      top,
      ...rows,
    );
    heading.append(make("span", { className: "quiet module" }, " · layers × heads"));
    const group = make("section", { className: "group" }, heading, grid);
    group.style.setProperty("--heads", String(heads.length));
    group.style.setProperty("--layers", String(rows.length));
    group.style.setProperty("--shape", String(shapeOf(maps[0])));
    return group;
  }

  /** The number of a layer, or "mean" over layers, which chooses it. */
  #layer(map) {
    const { state } = this.#app;
    const onclick = () => state.set({ map: map.index });
    const about = { type: "button", className: "layer", tabIndex: -1, "aria-label": map.label, onclick };
    const button = make("button", about, String(map.layer ?? "mean"));
    button.dataset.map = String(map.index);
    return button;
  }

  /** A flat list, in the order of the maps. */
  #flow(maps) {
    const thumbs = maps.flatMap((map) => map.heads.map((head) => this.#thumb(map, head)));
    return this.#listbox(thumbs, ({ map }) => map.layerText);
  }

  /** All heads sorted by the statistic; those without it last. */
  #sorted(maps) {
    const measure = this.#measure;
    const sign = measure.low_first ? 1 : -1;
    const thumbs = maps
      .flatMap((map) => map.heads.map((head) => this.#thumb(map, head)))
      .map((thumb) => ({ thumb, number: this.#number(thumb, measure.name) ?? null }))
      .sort((a, b) => Number(a.number === null) - Number(b.number === null) || sign * (a.number - b.number));
    const text = (number) => (number === null ? "–" : fixed(number, measure.decimals));
    const numbers = new Map(thumbs.map(({ thumb, number }) => [thumb, text(number)]));
    return this.#listbox(
      [...numbers.keys()],
      (thumb) => `${thumb.map.shortNames[thumb.map.placeOf(thumb.head)]}  ${numbers.get(thumb)}`,
      (thumb) => `${headName(thumb.map, thumb.head)}: ${measure.name} ${numbers.get(thumb)}`,
    );
  }

  #listbox(thumbs, captionOf, nameOf = ({ map, head }) => headName(map, head)) {
    for (const thumb of thumbs) {
      thumb.caption.textContent = captionOf(thumb);
      thumb.button.setAttribute("role", "option");
      thumb.button.setAttribute("aria-label", nameOf(thumb));
    }
    return make(
      "div",
      { className: "flow", role: "listbox", "aria-label": "heads" },
      ...thumbs.map(({ button }) => button),
    );
  }

  /** Mark the current head. */
  #choose() {
    const { map, head } = this.#app.state.values;
    const chosen = this.#thumbs.get(`${map}:${head}`) ?? null;
    this.#chosen?.button.setAttribute("aria-selected", false);
    chosen?.button.setAttribute("aria-selected", true);
    this.#chosen = chosen;
    for (const layer of this.list.querySelectorAll(".layer")) {
      const isChosen = layer.dataset.map === String(map);
      layer.setAttribute("aria-pressed", isChosen);
      layer.tabIndex = isChosen ? 0 : -1;
    }
    if (!this.list.contains(document.activeElement)) {
      for (const other of this.list.querySelectorAll('.thumb[tabindex="0"]')) other.tabIndex = -1;
      const first = chosen?.button.isConnected ? chosen.button : this.list.querySelector(".thumb");
      if (first) first.tabIndex = 0;
    }
    if (!this.#pointed) this.#tellName();
  }

  // Pointer and keyboard.

  #listen() {
    const thumbOf = (event) => {
      const button = event.target.closest?.(".thumb");
      return button ? this.#thumbs.get(button.dataset.key) : null;
    };
    const point = (thumb) => {
      this.#pointed = thumb;
      this.#tellName();
    };
    this.list.addEventListener("pointerover", (event) => point(thumbOf(event)));
    this.list.addEventListener("pointerleave", () => point(null));
    this.list.addEventListener("focusin", (event) => point(thumbOf(event)));
    this.list.addEventListener("focusout", () => point(null));
    this.list.addEventListener("click", (event) => {
      const thumb = thumbOf(event);
      if (thumb) this.#app.open(thumb.map, thumb.head);
    });
    rove(this.list, ".thumb");
    rove(this.list, ".layer");
  }

  /** Write the name and the statistics of the pointed head, or else of the current one. */
  #tellName() {
    const { map, head } = this.#app.state.values;
    const thumb = this.#pointed ?? this.#thumbs.get(`${map}:${head}`);
    if (!thumb) return;
    const known = this.#app.contents.measures.filter(({ name }) => typeof this.#number(thumb, name) === "number");
    const text = ({ name, decimals }) => {
      const spread = this.#number(thumb, name, "spreads");
      const around = typeof spread === "number" ? ` ± ${fixed(spread, decimals)}` : "";
      return `${name} ${fixed(this.#number(thumb, name), decimals)}${around}`;
    };
    const averages = this.#app.contents.statistics?.find((one) => one.kind === thumb.map.kind);
    const separator = thumb.map.module && known.length ? "· " : "";
    const start = averages ? `mean over ${averages.sentences} sentences ± spread: ` : "";
    this.name.replaceChildren(
      make("strong", {}, ...titled(headName(thumb.map, thumb.head), thumb.map)),
      " ",
      make(
        "span",
        { className: "quiet" },
        known.length ? separator + start + known.map(text).join(" · ") : "",
      ),
    );
  }

  // Pictures.

  #see(entries) {
    for (const { target, isIntersecting } of entries) {
      const thumb = this.#thumbs.get(target.dataset.key);
      if (isIntersecting) this.#inSight.add(thumb);
      else this.#inSight.delete(thumb);
    }
    this.#paintSoon();
  }

  #paintSoon() {
    this.#frameRequest ||= requestAnimationFrame(() => {
      this.#frameRequest = 0;
      for (const thumb of this.#inSight) this.#paint(thumb);
    });
  }

  #paint(thumb) {
    const { colours, contents, state } = this.#app;
    const part = thumb.map.part(partShown(thumb.map, state.values));
    thumb.paint(colours, part, contents.scales[part.thumbScale]);
  }
}

/** Thumbnail of a head, as a button. */
export class Thumb {
  static #canvases = [make("canvas"), make("canvas")]; // shared, as making a canvas takes longer than drawing it
  #painted;

  constructor(map, head, key) {
    Object.assign(this, { map, head, key });
    this.image = make("img", { alt: "" });
    this.caption = make("span", { className: "caption" });
    this.button = make(
      "button",
      { type: "button", className: "thumb", tabIndex: -1, "aria-selected": false },
      this.image,
      this.caption,
    );
    this.button.dataset.key = key;
    this.image.style.aspectRatio = String(shapeOf(map));
  }

  /** Draw the picture in the current colours, with lines around visible cells, as an image that scales to any size. */
  paint(colours, part, scale) {
    const look = `${colours.key} ${part.name}`;
    if (look === this.#painted) return;
    this.#painted = look;
    const { map } = this;
    const { rows, columns, values } = map.thumb(part.name, map.placeOf(this.head));
    const [width, height] = [columns, rows].map((count) => count * Math.ceil(PICTURE / count));
    const [cells, canvas] = Thumb.#canvases;
    const context = sizedContext(canvas, width, height, 1);
    const sinks = map.sinksOfThumb(columns);
    const picture = matrixImage(colours, values, scale, { rows, columns, sinks }, cells);
    drawImage(context, picture, [0, 0, columns, rows], { x: 0, y: 0, width, height });
    context.fillStyle = colours.line;
    const [down, across] = isMasked(map) ? [rows, columns] : [1, 1]; // not masked: one box
    const lines = outlineOf(this.#hidden(down, across), down, across);
    const along = (length, count) => (cell) => (cell / count) * (length - 1); // keeps the last line inside
    drawLines(context, lines, along(width, across), along(height, down));
    this.image.src = canvas.toDataURL();
  }

  /** 1 for each cell whose middle a mask hides. */
  #hidden(rows, columns) {
    const { map } = this;
    const hidden = new Uint8Array(rows * columns);
    const middle = (side, index, count) => side.start + Math.floor(((index + 0.5) * side.tokens) / count);
    return hidden.map((_, place) => {
      const [row, column] = [Math.floor(place / columns), place % columns];
      return Number(map.hiddenToken(middle(map.rows, row, rows), middle(map.columns, column, columns)));
    });
  }
}

/** Key of the grid that a map belongs to. */
function groupOf(map) {
  return `${kindOf(map)} ${map.family}`;
}

/** Width / height of a thumbnail. */
function shapeOf({ rows, columns }) {
  return Math.min(Math.max(columns.tokens / rows.tokens, 0.5), 2);
}

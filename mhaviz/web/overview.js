// All heads at a glance: layers × heads, or sorted and filtered by a number of each head.

import { Choice, make, rove } from "./dom.js";
import { drawImage, drawLines, FONT, matrixImage, outlineOf, sizedContext } from "./drawing.js";
import { headName, partShown, titled } from "./pieces.js";

const LEAST_THUMB = 18; // CSS pixels
const MOST_THUMB = 200;
const GROUP_GAP = 32;
const BESIDE_DELAY = 250; // ms
const LEAST_BESIDE = 36; // of thumbs of groups side by side
const LEAST_LISTED = 72; // of thumbs with a line below
const MOST_LISTED = 160;

export class OverviewView {
  #app;
  #isShown = false;
  #thumbs = new Map(); // "map:head" → Thumb
  #groups = [];
  #chosen = null; // the Thumb of the head that is looked at
  #pointed = null; // the Thumb that the pointer or the focus is on
  #arranged; // what the elements were arranged for
  #inSight = new Set();
  #observer;
  #frameRequest = 0;

  constructor(app) {
    this.#app = app;
    this.name = make("p", { className: "named" });
    this.left = make("p", { className: "quiet left" });
    this.meaning = make("p", { className: "quiet" });
    this.list = make("div", { className: "groups" });
    this.element = make(
      "section",
      { className: "overview", "aria-label": "overview of all heads" },
      this.#makeTools(),
      this.meaning,
      this.left,
      this.name,
      this.list,
    );
    this.#observer = new IntersectionObserver((entries) => this.#see(entries), { rootMargin: "200px" });
    this.#listen();
    new ResizeObserver(() => requestAnimationFrame(() => this.#isShown && this.#resize())).observe(
      this.element,
    );
  }

  shown(isShown) {
    this.#isShown = isShown;
    if (isShown) this.update();
  }

  update() {
    if (!this.#isShown || !this.#app.state.map) return;
    const { sort, reverse, atLeast, atMost } = this.#app.state.values;
    const { sentence, pass } = this.#app.state.map;
    const key = JSON.stringify([sentence, pass, sort, reverse, atLeast, atMost]);
    if (key !== this.#arranged) {
      this.#arranged = key;
      this.#arrange();
      this.#resize();
    }
    this.#setTools();
    this.#choose();
    this.#paintSoon();
  }

  #part(map) {
    return map.part(partShown(map, this.#app.state.values));
  }

  get #measure() {
    return this.#app.contents.measures.find((measure) => measure.name === this.#app.state.values.sort);
  }

  #numbers(thumb) {
    return this.#app.statistics.get(thumb.key);
  }

  // Tools.

  #makeTools() {
    const { state, contents } = this.#app;
    this.sort = new Choice("sort by", (sort) => state.set({ sort, atLeast: null, atMost: null }), [
      ["layer", "layer and head"],
      ...contents.measures.map(({ name }) => name),
    ]);
    this.reverse = make("input", {
      type: "checkbox",
      onchange: () => state.set({ reverse: this.reverse.checked }),
    });
    const bound = (name) =>
      make("input", {
        type: "number",
        step: "any",
        onchange: (event) =>
          state.set({ [name]: event.target.value === "" ? null : event.target.valueAsNumber }),
      });
    this.atLeast = bound("atLeast");
    this.atMost = bound("atMost");
    this.ofMeasure = make(
      "span",
      { className: "controls" },
      make("label", {}, this.reverse, " reverse order"),
      make("label", {}, "at least ", this.atLeast),
      make("label", {}, "at most ", this.atMost),
    );
    const tools = make("div", { className: "controls" }, this.sort.element, this.ofMeasure);
    tools.hidden = contents.measures.length === 0;
    return tools;
  }

  #setTools() {
    const { sort, reverse, atLeast, atMost } = this.#app.state.values;
    this.sort.value = sort;
    this.reverse.checked = reverse;
    this.ofMeasure.hidden = sort === "layer";
    for (const [input, value] of [
      [this.atLeast, atLeast],
      [this.atMost, atMost],
    ]) {
      if (document.activeElement !== input) input.value = value ?? "";
    }
    this.meaning.textContent = this.#measure ? `${this.#measure.name}: ${this.#measure.meaning}` : "";
  }

  // Which heads, in which order.

  #arrange() {
    const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
    const { maps } = this.#app.contents;
    const chosen = maps.filter((map) => map.isBeside(this.#app.state.map));
    const groups = grouped(chosen, groupOf);
    this.#groups = [...groups.values()];
    this.list.replaceChildren(
      ...(this.#measure ? [this.#sorted(chosen)] : this.#groups.map((group) => this.#grid(group))),
    );
    const all = chosen.reduce((sum, map) => sum + map.heads.length, 0);
    this.left.textContent = this.#measure ? this.#countText(all) : "";
    if (this.#measure) this.#app.say(this.left.textContent);
    if (focused?.isConnected) focused.focus();
  }

  #countText(all) {
    const { atLeast, atMost } = this.#app.state.values;
    const shown = this.list.querySelectorAll(".thumb").length;
    const isFiltered = atLeast !== null || atMost !== null;
    return `${isFiltered ? `${shown} of ${all}` : all} ${all === 1 ? "head" : "heads"}`;
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
    const side = (role, text, title = "") => make("span", { className: "side", role, title }, text);
    const rows = maps.map((map) =>
      make(
        "div",
        { role: "row" },
        side("rowheader", String(map.layer), map.module),
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
    grid.style.setProperty("--heads", String(heads.length));
    return make("section", { className: "group" }, heading, grid);
  }

  /** A flat list, in the order of the maps. */
  #flow(maps) {
    const thumbs = maps.flatMap((map) => map.heads.map((head) => this.#thumb(map, head)));
    return this.#listbox(thumbs, ({ map }) => `layer ${map.layer}`);
  }

  /** All heads that pass the filter, best first; those without a number last. */
  #sorted(maps) {
    const measure = this.#measure;
    const { reverse, atLeast, atMost } = this.#app.state.values;
    const numberOf = (thumb) => this.#numbers(thumb)?.[measure.name] ?? null;
    const passes = (number) =>
      (atLeast === null || (number !== null && number >= atLeast)) &&
      (atMost === null || (number !== null && number <= atMost));
    const sign = measure.low_first === reverse ? -1 : 1;
    const thumbs = maps
      .flatMap((map) => map.heads.map((head) => this.#thumb(map, head)))
      .map((thumb) => ({ thumb, number: numberOf(thumb) }))
      .filter(({ number }) => passes(number))
      .sort((a, b) => Number(a.number === null) - Number(b.number === null) || sign * (a.number - b.number));
    const text = (number) => (number === null ? "–" : number.toFixed(measure.decimals));
    const numbers = new Map(thumbs.map(({ thumb, number }) => [thumb, text(number)]));
    return this.#listbox(
      [...numbers.keys()],
      (thumb) => `${thumb.map.layer}·${thumb.head}  ${numbers.get(thumb)}`,
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

  /** Marks the head that is looked at. */
  #choose() {
    const { map, head } = this.#app.state.values;
    const chosen = this.#thumbs.get(`${map}:${head}`) ?? null;
    this.#chosen?.button.setAttribute("aria-selected", false);
    chosen?.button.setAttribute("aria-selected", true);
    this.#chosen = chosen;
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
  }

  /** The name and the numbers of the head that is pointed at, or else of the chosen one. */
  #tellName() {
    const { map, head } = this.#app.state.values;
    const thumb = this.#pointed ?? this.#thumbs.get(`${map}:${head}`);
    if (!thumb) return;
    const numbers = this.#numbers(thumb) ?? {};
    const spreads = this.#app.spreads.get(thumb.key) ?? {};
    const known = this.#app.contents.measures.filter(({ name }) => typeof numbers[name] === "number");
    const text = ({ name, decimals }) => {
      const spread = typeof spreads[name] === "number" ? ` ± ${spreads[name].toFixed(decimals)}` : "";
      return `${name} ${numbers[name].toFixed(decimals)}${spread}`;
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

  // Sizes and pictures.

  #resize() {
    const width = this.list.clientWidth;
    const counts = this.#groups.map((maps) => new Set(maps.flatMap((map) => map.heads)).size);
    const [side, gap] = width < 500 ? [16, 2] : [28, 4]; // the numbers of the layers; between thumbs
    const size = (count, groups) =>
      Math.floor((width - groups * side - (groups - 1) * GROUP_GAP) / count) - gap;
    const beside = size(
      counts.reduce((sum, count) => sum + count, 0),
      counts.length,
    );
    const isBeside = counts.length > 1 && beside >= LEAST_BESIDE;
    const wanted = isBeside ? beside : size(Math.max(...counts), 1);
    const inGrid = Math.min(Math.max(wanted, LEAST_THUMB), MOST_THUMB);
    this.list.classList.toggle("beside", isBeside);
    const listed = Math.min(Math.max(width / 12 - gap, LEAST_LISTED), MOST_LISTED);
    const lengths = { "--side": side, "--gap": gap, "--thumb": inGrid, "--listed": Math.floor(listed) };
    for (const [name, length] of Object.entries(lengths)) this.list.style.setProperty(name, `${length}px`);
    this.#paintSoon();
  }

  #see(entries) {
    for (const { target, isIntersecting } of entries) {
      const thumb = this.#thumbs.get(target.dataset.key);
      if (isIntersecting) this.#inSight.add(thumb);
      else this.#inSight.delete(thumb);
    }
    this.#paintSoon();
  }

  /** Beside another view after that: what was painted for another size is there until then. */
  #paintSoon() {
    const { view } = this.#app.state.values;
    const soon = view === "overview" ? requestAnimationFrame : (paint) => setTimeout(paint, BESIDE_DELAY);
    this.#frameRequest ||= soon(() => {
      this.#frameRequest = 0;
      if (!this.#isShown) return;
      const sizes = [...this.#inSight].map((thumb) => [
        thumb,
        thumb.canvas.clientWidth,
        thumb.canvas.clientHeight,
      ]);
      for (const [thumb, width, height] of sizes) {
        if (width > 0) thumb.paint(this.#app.colours, this.#part(thumb.map), width, height);
      }
    });
  }
}

/** A head in small, to be clicked. */
export class Thumb {
  #painted;
  #image;
  #imageKey;
  #lines;

  constructor(map, head, key) {
    Object.assign(this, { map, head, key });
    this.canvas = make("canvas");
    this.caption = make("span", { className: "caption" });
    this.button = make(
      "button",
      { type: "button", className: "thumb", tabIndex: -1, "aria-selected": false },
      this.canvas,
      this.caption,
    );
    this.button.dataset.key = key;
    const shape = Math.min(Math.max(map.columns.tokens / map.rows.tokens, 0.5), 2);
    this.canvas.style.aspectRatio = String(shape);
  }

  paint(colours, part, width, height) {
    const look = `${colours.key} ${part.name} ${width} ${height} ${window.devicePixelRatio}`;
    if (look === this.#painted) return;
    this.#painted = look;
    this.draw(sizedContext(this.canvas, width, height), colours, part, width, height);
  }

  /** Draws it in the top left corner of a context. */
  draw(context, colours, part, width, height) {
    const { map } = this;
    const { rows, columns } = this.#paintImage(colours, part);
    drawImage(context, this.#image, [0, 0, columns, rows], { x: 0, y: 0, width, height });
    context.fillStyle = colours.line;
    const shrink = (length) => length - 1; // the last line is inside too
    drawLines(
      context,
      this.#lines,
      (column) => (column / columns) * shrink(width),
      (row) => (row / rows) * shrink(height),
    );
  }

  /** A pixel a cell in the colours of now, and the lines around what is not hidden: kept, as sizes change more often. */
  #paintImage(colours, part) {
    const { map } = this;
    const key = `${colours.key} ${part.name}`;
    const [, rows, columns] = part.thumbs.shape;
    if (key !== this.#imageKey) {
      this.#imageKey = key;
      const { values } = map.thumb(part.name, map.placeOf(this.head));
      this.#image = matrixImage(colours, values, part, { rows, columns, least: colours.least });
      this.#lines ??= outlineOf(this.#hidden(rows, columns), rows, columns);
    }
    return { rows, columns };
  }

  /** 1 for each of its cells whose middle a mask hides. */
  #hidden(rows, columns) {
    const { map } = this;
    const hidden = new Uint8Array(rows * columns);
    if (!map.hiddenLater && map.reach === null) return hidden;
    const middle = (side, index, count) => side.start + Math.floor(((index + 0.5) * side.tokens) / count);
    return hidden.map((_, place) => {
      const [row, column] = [Math.floor(place / columns), place % columns];
      return Number(map.hiddenToken(middle(map.rows, row, rows), middle(map.columns, column, columns)));
    });
  }
}

/** What stands together in one grid. */
function groupOf(map) {
  return `${kindOf(map)} ${map.family}`;
}

/** The layers that one goes through. */
export function kindOf(map) {
  return `${map.kind} ${map.quantity.key}`;
}

/** Map.groupBy, which some browsers do not have yet. */
function grouped(items, nameOf) {
  const groups = new Map();
  for (const item of items) groups.set(nameOf(item), [...(groups.get(nameOf(item)) ?? []), item]);
  return groups;
}

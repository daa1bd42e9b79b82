// The tokens as text: what the one pointed at looks at, and what looks at it, as shades, or lines between columns.

import { largestSize } from "./colours.js";
import { Choice, make, rove } from "./dom.js";
import { scaleOfTokens } from "./layer.js";
import { chosenName, hasOneKeyFirst, meanOf, partShown, Pieces, titled } from "./pieces.js";
import { HEAD_COLOURS, TOKENS_SHOWN, Words } from "./words.js";
/** @import { Page } from "./main.js" */

const LARGEST_CANVAS = 16e6; // pixels; some browsers draw nothing on larger ones

/** Weights of some queries on all keys, of one head or the mean of some. */
export class Rows {
  constructor(values, first, columns) {
    Object.assign(this, { values, first, columns, count: values.length / columns });
  }

  /** The weights of a query, null if they are not among these. */
  of(query) {
    const at = query - this.first;
    return at >= 0 && at < this.count
      ? this.values.subarray(at * this.columns, (at + 1) * this.columns)
      : null;
  }

  /** @param {Rows[]} blocks of the same queries, a head each */
  static mean(blocks) {
    return new Rows(meanOf(blocks.map((block) => block.values)), blocks[0].first, blocks[0].columns);
  }
}

export class TextView {
  #app;
  #pointed = { query: null, key: null }; // positions
  #question = ""; // what was asked for last
  #rows = null; // of each head, the rows that came
  #meanRows = null; // the means of all heads, once they are wanted
  #strongest = -1; // the query whose weights are shown before one is pointed at, as a piece
  #isShown = false;

  /** @param {Page} app */
  constructor(app) {
    this.#app = app;
    this.queries = this.#makeWords("query");
    this.keys = this.#makeWords("key");
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.lines = make("div", { className: "lines" }, this.canvas);
    this.texts = make("div", { className: "texts" });
    this.title = make("h2");
    this.message = make("p", { className: "quiet", role: "status" });
    this.#makeControls();
    this.element = make(
      "div",
      { className: "text-view" },
      this.controls,
      this.title,
      this.message,
      this.texts,
    );
    new ResizeObserver(() => this.#drawLines()).observe(this.texts);
  }

  #makeWords(role) {
    return new Words(role, {
      onPoint: (position, byKeyboard) => this.#point(role, position, byKeyboard),
      onPin: (position, withShift) => this.#pin(role, position, withShift),
      onGo: (position) => this.#go(role, position),
    });
  }

  #makeControls() {
    this.layout = new Choice("show as", (textLayout) => this.#set({ textLayout }), ["text", "lines"]);
    this.combine = new Choice("several heads", (combine) => this.#set({ combine }), ["average", "compare"]);
    this.heads = make("fieldset");
    rove(this.heads, "input");
    const takeAll = () => this.#set({ heads: this.#values.heads.length === this.#map.heads.length ? [] : this.#map.heads });
    this.all = make("button", { type: "button", onclick: takeAll }, "all heads of this layer");
    const controls = [this.layout.element, this.heads, this.all, this.combine.element];
    this.controls = make("div", { className: "controls" }, ...controls);
  }

  #set(changes) {
    this.#app.state.set(changes);
  }

  get #values() {
    return this.#app.state.values;
  }

  get #map() {
    return this.#app.contents.maps[this.#values.map];
  }

  get #part() {
    return partShown(this.#map, this.#values);
  }

  get #scale() {
    const map = this.#map;
    const scale = this.#app.contents.scales[map.part(this.#part).scale];
    return map.isPooled && map.exact ? scaleOfTokens(scale, map) : scale;
  }

  get #isCompared() {
    return this.#values.combine === "compare" && this.#values.heads.length > 1;
  }

  get #chosenHeads() {
    const { heads, head } = this.#values;
    if (heads.length === 0) return [head];
    return this.#isCompared ? heads.slice(0, HEAD_COLOURS.length) : heads;
  }

  get #isLines() {
    return this.#values.textLayout === "lines";
  }

  get #hasSameTokens() {
    const { rows, columns } = this.#map;
    return rows.labels === columns.labels && rows.start === columns.start;
  }

  /** A word is a query and a key at once: the text stands there twice, as what it looks at and what looks at it. */
  get #isOneText() {
    return this.#hasSameTokens && !this.#isLines;
  }

  /** The query and the key whose weights are shown, as pieces; −1 for none. */
  get #active() {
    const { query, key } = this.#values;
    const pointed = this.#pointed;
    const one = pointed.query ?? pointed.key ?? query;
    if (one === null && key === null && !this.#isLines) return { query: this.#strongest, key: -1 };
    return {
      query: this.queries.pieces.of(this.#isOneText ? one : (pointed.query ?? query)),
      key: this.keys.pieces.of(this.#isOneText ? one : (pointed.key ?? key)),
    };
  }

  #point(role, position, byKeyboard) {
    this.#pointed = { query: null, key: null, [role]: position };
    this.#app.state.setHover(this.#pointed.query, this.#pointed.key);
    this.#shade();
    if (byKeyboard && position !== null) this.#app.say(this.#summary(role));
  }

  /** Pins a token, or unpins it; of one text the query, with Shift the key. */
  #pin(role, position, withShift) {
    const name = this.#isOneText ? (withShift ? "key" : "query") : role;
    const { pieces } = name === "key" ? this.keys : this.queries;
    const isPinned = this.#values[name] !== null && pieces.of(this.#values[name]) === pieces.of(position);
    this.#set({ [name]: isPinned ? null : position });
    this.#app.say(
      isPinned ? `No ${name} is pinned.` : `Pinned as ${name}: ${pieces.name(pieces.of(position))}.`,
    );
  }

  /** Shows a long text from a position on. */
  #go(role, position) {
    const range = ({ pieces, start }, isAsked) => {
      const first = pieces.of(
        Math.min(Math.max(isAsked ? position : pieces.first(start), pieces.first(0)), pieces.end - 1),
      );
      const from = Math.max(Math.min(first, pieces.count - TOKENS_SHOWN), 0);
      return [pieces.first(from), pieces.edges[Math.min(from + TOKENS_SHOWN, pieces.count)]];
    };
    const both = this.#hasSameTokens;
    this.#set({
      window: [...range(this.queries, both || role === "query"), ...range(this.keys, both || role === "key")],
    });
  }

  shown(isShown) {
    this.#isShown = isShown;
    if (isShown) this.update();
  }

  update() {
    if (!this.#isShown || !this.#map) return;
    this.#showControls();
    this.#showWords();
    this.#load(); // before they are shaded: rows of other heads are forgotten
    this.#shade();
  }

  #showControls() {
    const map = this.#map;
    const heads = this.#chosenHeads;
    this.layout.value = this.#values.textLayout;
    this.combine.value = this.#values.combine;
    this.combine.element.hidden = heads.length < 2;
    this.heads.hidden = map.heads.length < 2;
    const isFocused = this.heads.contains(document.activeElement) ? document.activeElement.value : null;
    this.heads.replaceChildren(
      make("legend", {}, "heads"),
      ...map.heads.map((head) => {
        const box = make("input", {
          type: "checkbox",
          value: head,
          checked: heads.includes(head),
          tabIndex: head === heads[0] ? 0 : -1,
          onchange: () => this.#toggle(head),
        });
        const swatch = make("span", { className: "swatch" });
        if (this.#isCompared && box.checked) swatch.style.backgroundColor = HEAD_COLOURS[heads.indexOf(head)];
        return make("label", {}, box, swatch, String(head));
      }),
    );
    if (isFocused !== null) this.heads.querySelector(`input[value="${isFocused}"]`)?.focus();
    const part = map.parts.length > 1 ? `, ${this.#part}` : "";
    const name = chosenName(map, heads, this.#isCompared ? "" : "mean of ");
    this.title.replaceChildren(...titled(name + part, map));
    this.all.hidden = map.heads.length < 2;
    this.all.setAttribute("aria-pressed", heads.length === map.heads.length);
  }

  #toggle(head) {
    const { heads, head: single } = this.#values;
    const chosen = new Set(heads.length ? heads : [single]);
    if (!chosen.delete(head)) chosen.add(head);
    const sorted = [...chosen].sort((one, other) => one - other);
    if (sorted.length > 1) this.#set({ heads: sorted });
    else if (sorted.length === 1) this.#set({ heads: [], head: sorted[0] });
    else this.#showControls(); // one stays chosen
  }

  #showWords() {
    const map = this.#map;
    const { window, query, key, special } = this.#values;
    const queries = new Pieces(map.rows, map.exact);
    const keys = new Pieces(map.columns, map.exact);
    const start = this.#startOf(this.queries, queries, window?.[0], query);
    const keyStart = this.#hasSameTokens ? start : this.#startOf(this.keys, keys, window?.[2], key);
    let isNew = this.queries.show(queries, start, special);
    isNew = this.keys.show(keys, keyStart, special) || isNew;
    if (isNew) this.#pointed = { query: null, key: null };
    this.texts.classList.toggle("as-lines", this.#isLines);
    const order = this.#isOneText
      ? [this.keys.element, this.queries.element]
      : [this.queries.element, ...(this.#isLines ? [this.lines] : []), this.keys.element];
    if (
      order.some((element, at) => this.texts.children[at] !== element) ||
      this.texts.children.length !== order.length
    ) {
      this.texts.replaceChildren(...order);
      isNew = true;
    }
    const [first, second] = this.#isOneText ? [this.keys, this.queries] : [this.queries, this.keys];
    if (this.#hasSameTokens) second.pager.hidden = true; // the first one turns both
    if (isNew) first.reveal(queries.of(query));
  }

  /** The first piece to show: where the window begins, else so that the pinned one is seen. */
  #startOf(words, pieces, from, pinned) {
    const within = (start) => Math.max(Math.min(start, pieces.count - TOKENS_SHOWN), 0);
    if (from !== undefined) return within(pieces.of(from));
    const at = pieces.of(pinned);
    if (words.isOf(pieces) && (at < 0 || (at >= words.start && at < words.end))) return words.start;
    return at < 0 ? 0 : within(at - TOKENS_SHOWN / 2);
  }

  async #load() {
    const map = this.#map;
    const heads = this.#chosenHeads;
    const { pieces, start, end } = this.queries;
    const pinned = pieces.of(this.#values.query);
    const ranges = [[start, end]];
    if (pinned >= 0 && (pinned < start || pinned >= end)) ranges.push([pinned, pinned + 1]);
    const question = JSON.stringify([
      map.index,
      this.#part,
      heads,
      map.isPooled && map.exact ? ranges : "all",
    ]);
    if (question === this.#question) return;
    this.#question = question;
    this.#rows = this.#meanRows = null;
    this.#strongest = -1;
    try {
      const rows = await Promise.all(heads.map((head) => this.#ask(map, head, ranges)));
      if (question !== this.#question) return;
      this.#rows = rows;
      this.#strongest = this.#findStrongest();
      const left = this.#values.heads.slice(heads.length);
      this.message.textContent = left.length
        ? `${heads.length} heads are compared; left out: ${left.join(", ")}.`
        : "";
    } catch (problem) {
      if (problem.cancelled || question !== this.#question) return;
      this.#question = "";
      this.message.textContent = `These weights cannot be shown: ${problem.message}`;
    }
    this.#shade();
  }

  /** Rows of weights of a head: of single tokens only those in sight, of a short input all. */
  async #ask(map, head, ranges) {
    if (!(map.isPooled && map.exact)) {
      const { values, columns } = await this.#app.asking.values(map, this.#part, head);
      return [new Rows(values, 0, columns)];
    }
    const { pieces } = this.queries;
    const keys = this.keys.pieces;
    return Promise.all(
      ranges.map(async ([start, end], at) => {
        const window = [pieces.first(start), pieces.edges[end], keys.first(0), keys.end];
        const { values, columns } = await this.#app.asking.window(
          map,
          head,
          window,
          `text ${head} ${at}`,
          this.#part,
        );
        return new Rows(values, start, columns);
      }),
    );
  }

  /** The weights of a query on all keys: one row, or one of each head that is compared; null until they are there. */
  #rowsOf(query) {
    if (query < 0 || !this.#rows) return null;
    const rows = this.#strands.map((blocks) => blocks.map((block) => block.of(query)).find(Boolean));
    return rows.every(Boolean) ? rows : null;
  }

  /** Of the queries in sight the one with the largest weight between two tokens of the text; −1 if there is none. */
  #findStrongest() {
    const [queries, keys] = [this.queries.pieces, this.keys.pieces];
    let [strongest, most] = [-1, 0];
    for (let query = this.queries.start + Number(hasOneKeyFirst(this.#map)); query < this.queries.end; query++) {
      if (queries.isSpecial(query)) continue;
      for (const row of this.#rowsOf(query) ?? []) {
        const largest = largestSize(row.filter((_, key) => !keys.isSpecial(key)));
        if (largest > most) [strongest, most] = [query, largest];
      }
    }
    return strongest;
  }

  /** The rows of each head that is compared, or those of the mean of all heads. */
  get #strands() {
    if (this.#isCompared || this.#rows.length === 1) return this.#rows;
    this.#meanRows ??= [this.#rows[0].map((_, at) => Rows.mean(this.#rows.map((blocks) => blocks[at])))];
    return this.#meanRows;
  }

  /** The weights of a key from all queries in sight, as #rowsOf. */
  #columnsOf(key) {
    if (key < 0 || !this.#rowsOf(this.queries.start)) return null;
    const columns = this.#chosenHeads
      .slice(0, this.#isCompared ? undefined : 1)
      .map(() => new Float32Array(this.queries.pieces.count));
    for (let query = this.queries.start; query < this.queries.end; query++) {
      this.#rowsOf(query).forEach((row, at) => {
        columns[at][query] = row[key];
      });
    }
    return columns;
  }

  #shade() {
    if (!this.#isShown || !this.queries.pieces) return;
    const { query, key } = this.#active;
    const pinned = {
      query: this.queries.pieces.of(this.#values.query),
      key: this.keys.pieces.of(this.#values.key),
    };
    this.queries.mark(this.#isOneText ? query : this.queries.pieces.of(this.#pointed.query), pinned.query);
    this.keys.mark(
      this.#isOneText ? key : this.keys.pieces.of(this.#pointed.key),
      this.#isOneText ? pinned.query : pinned.key,
    );
    const rows = this.#rowsOf(query);
    const columns = this.#columnsOf(key);
    this.#shadeOne(
      this.keys,
      rows,
      () => rows,
      (piece) => this.#isHidden(query, piece),
    );
    this.#shadeOne(
      this.queries,
      columns,
      (piece) => this.#rowsOf(piece),
      (piece) => this.#isHidden(piece, key),
    );
    const haveSum = this.#map.exact || this.#map.quantity.reduction !== "max";
    this.keys.tellElsewhere(rows && !this.#isCompared ? rows[0] : null, haveSum);
    this.keys.title = query < 0 ? this.#heading("key") : `${this.queries.pieces.name(query)} looks at`;
    this.queries.title = key < 0 ? this.#heading("query") : `${this.keys.pieces.name(key)} is looked at by`;
    this.#drawLines();
  }

  #heading(role) {
    if (!this.#isOneText) return role === "key" ? "keys" : "queries";
    return role === "key" ? "looks at: point at a word" : "is looked at by: point at a word";
  }

  /**
   * @param {Words} words
   * @param {Float32Array[]|null} strands their weights
   * @param {(a: number) => Float32Array[]} rowsOf the rows that a piece's weights are of
   * @param {(a: number) => boolean} isHidden
   */
  #shadeOne(words, strands, rowsOf, isHidden) {
    const { least } = this.#values;
    const { colours } = this.#app;
    const scale = this.#scale;
    const { perRow } = colours.range(scale);
    const isDrawn = (value) => Math.abs(value) >= least && value !== 0;
    if (this.#isCompared) {
      const size = (value, piece, at) =>
        isDrawn(value) ? this.#share(value, perRow ? largestSize(rowsOf(piece)[at]) : 1) : 0;
      words.compare(strands, this.#chosenHeads, size, isHidden);
      return;
    }
    const colour = (value, piece) =>
      isDrawn(value) && !isHidden(piece)
        ? colours.rgb(value, scale, perRow ? largestSize(rowsOf(piece)[0]) : 1)
        : null;
    words.shade(strands?.[0] ?? null, colour, colours, isHidden);
  }

  /** How far up its scale a weight is, 0 to 1. */
  #share(value, rowLargest) {
    const { low, high, log, perRow } = this.#app.colours.range(this.#scale);
    const size = Math.abs(value) / (perRow ? rowLargest || 1 : 1);
    const share = log ? (size > low ? Math.log(size / low) / Math.log(high / low) : 0) : size / high;
    return Math.min(share, 1);
  }

  #isHidden(query, key) {
    return (
      query >= 0 &&
      key >= 0 &&
      this.#map.hiddenToken(this.queries.pieces.first(query), this.keys.pieces.first(key))
    );
  }

  /** What a token looks at and what looks at it, for the ear. */
  #summary(role) {
    const { query, key } = this.#active;
    const told = (words, strands) =>
      strands
        .map(
          (weights, at) => (this.#isCompared ? `head ${this.#chosenHeads[at]}: ` : "") + words.told(weights),
        )
        .join("; ");
    const rows = (role === "query" || this.#isOneText) && this.#rowsOf(query);
    const columns = (role === "key" || this.#isOneText) && this.#columnsOf(key);
    const name = role === "query" ? this.queries.pieces.name(query) : this.keys.pieces.name(key);
    return (
      name +
      (rows ? ` looks at ${told(this.keys, rows)}.` : "") +
      (columns ? ` Is looked at by ${told(this.queries, columns)}.` : "")
    );
  }

  #drawLines() {
    if (!this.#isShown || !this.#isLines || !this.queries.pieces) return;
    const { clientWidth: width, clientHeight: height } = this.lines;
    if (!width || !height) return;
    const density = Math.min(devicePixelRatio, Math.sqrt(LARGEST_CANVAS / (width * height)));
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(height * density);
    const context = this.canvas.getContext("2d");
    context.scale(density, density);
    const middles = (words) =>
      new Map(
        words.words.map((word) => [
          Number(word.dataset.piece),
          word.offsetTop + word.offsetHeight / 2 - this.lines.offsetTop,
        ]),
      );
    const [left, right] = [middles(this.queries), middles(this.keys)];
    const spread = this.#isCompared ? 2 : 0; // lines of several heads beside each other
    const heads = this.#chosenHeads.length;
    for (const { query, key, at, share, colour } of this.#linesShown(left, right)) {
      const shift = (at - (heads - 1) / 2) * spread;
      context.globalAlpha = share;
      context.strokeStyle = colour;
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(0, left.get(query) + shift);
      context.lineTo(width, right.get(key) + shift);
      context.stroke();
    }
  }

  /** Lines of the token pointed at, else of the pinned one, else of all. */
  *#linesShown(left, right) {
    const { least } = this.#values;
    const { colours } = this.#app;
    const scale = this.#scale;
    const only = this.#lineFilter();
    const signs = scale.signed ? [colours.css(-scale.high, scale), colours.css(scale.high, scale)] : null;
    for (const query of left.keys()) {
      if (only.query >= 0 && query !== only.query) continue;
      const rows = this.#rowsOf(query) ?? [];
      for (const [at, row] of rows.entries()) {
        const ink = this.#isCompared ? HEAD_COLOURS[at].replace("currentColor", colours.ink) : colours.accent;
        const largest = largestSize(row);
        for (const key of right.keys()) {
          if (only.key >= 0 && key !== only.key) continue;
          const value = row[key];
          const share = Math.abs(value) >= least ? this.#share(value, largest) : 0;
          if (!(share >= 0.02)) continue; // too faint to be seen, or no number
          yield {
            query,
            key,
            at,
            share,
            colour: signs && !this.#isCompared ? signs[Number(value > 0)] : ink,
          };
        }
      }
    }
  }

  #lineFilter() {
    const of = ({ query, key }) => ({ query: this.queries.pieces.of(query), key: this.keys.pieces.of(key) });
    const pointed = of(this.#pointed);
    if (pointed.query >= 0 || pointed.key >= 0) return pointed;
    return of(this.#values);
  }
}

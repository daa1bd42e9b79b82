// View of the tokens as text: weights of the pointed token, as query and as key, as shades or as lines between columns.

import { OF_SINKS, largestSize } from "./colours.js";
import { Choice, isolated, make, rove, shortened } from "./dom.js";
import { sizedContext } from "./drawing.js";
import { percent } from "./numbers.js";
import { scaleOfTokens } from "./tile.js";
import { chosenHeads, chosenName, meanOf, partShown, Pieces, seesOneKey, titled } from "./pieces.js";
import { Words } from "./words.js";
/** @import { Page } from "./main.js" */

const MOST_LINES = 2_000; // more take seconds, and none could be told from another
const LINE_WIDTHS = [0.75, 1.75]; // pixels of the palest line, and how much wider the darkest is
const BESIDE = 1.5; // pixels from the line of one head to that of the next
const LARGEST_CANVAS = 16e6; // pixels; some browsers draw nothing on larger ones

export class TextView {
  #app;
  #pointed = { query: null, key: null }; // positions
  #question = ""; // identifies the last request
  #rows = new Map(); // piece of a query → its weights on all keys, of one head or the mean of some
  #rowsOfHeads = []; // the same of each chosen head
  #strongest = -1; // piece of the query whose weights are shown before one is pointed at

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
    this.bound = make("p", { className: "bound quiet" });
    const parts = [this.#makeControls(), this.title, this.message, this.bound, this.texts];
    this.element = make("div", { className: "text-view" }, ...parts);
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
    this.layout = new Choice("show as", (textLayout) => this.#app.state.set({ textLayout }), ["text", "lines"]);
    this.heads = make("fieldset");
    rove(this.heads, "input");
    const takeAll = () => this.#app.state.set({ heads: this.#isOfAll ? [] : this.#map.heads });
    this.all = make("button", { type: "button", onclick: takeAll }, "all heads of this layer");
    return make("div", { className: "controls" }, this.layout.element, this.heads, this.all);
  }

  get #values() {
    return this.#app.state.values;
  }

  get #map() {
    return this.#app.state.map;
  }

  get #part() {
    return partShown(this.#map, this.#values);
  }

  get #scale() {
    const map = this.#map;
    const scale = this.#app.contents.scales[map.part(this.#part).scale];
    return map.isPooled && map.exact ? scaleOfTokens(scale, map) : scale;
  }

  get #isOfAll() {
    return chosenHeads(this.#values).length === this.#map.heads.length;
  }

  get #isLines() {
    return this.#values.textLayout === "lines";
  }

  /** Whether queries and keys are one text, which is then shown twice: with the weights of a query, and of a key. */
  get #isOneText() {
    return this.#map.hasSameTokens && !this.#isLines;
  }

  /** The pieces of positions; −1 for none. */
  #piecesOf({ query, key }) {
    return { query: this.queries.pieces.of(query), key: this.keys.pieces.of(key) };
  }

  /** Pieces of the query and the key whose weights are shown; −1 for none. */
  get #active() {
    const { query, key } = this.#values;
    const pointed = this.#pointed;
    const one = pointed.query ?? pointed.key ?? query;
    if (one === null && key === null && !this.#isLines) return { query: this.#strongest, key: -1 };
    if (this.#isOneText) return this.#piecesOf({ query: one, key: one });
    return this.#piecesOf({ query: pointed.query ?? query, key: pointed.key ?? key });
  }

  /** Position of the query whose weights are shown as shades; null: none. */
  get query() {
    const { query } = this.#active;
    return query < 0 || this.#isLines ? null : this.queries.pieces.first(query);
  }

  #point(role, position, byKeyboard) {
    this.#pointed = { query: null, key: null, [role]: position };
    this.#app.state.setHover(this.#pointed.query, this.#pointed.key);
    this.#shade();
    if (byKeyboard && position !== null) this.#app.say(this.#summary(role));
  }

  /** Pin or unpin a token; in one text as the query, or with Shift as the key. */
  #pin(role, position, withShift) {
    const name = this.#isOneText ? (withShift ? "key" : "query") : role;
    const { pieces } = name === "key" ? this.keys : this.queries;
    const isPinned = this.#values[name] !== null && pieces.of(this.#values[name]) === pieces.of(position);
    this.#app.state.set({ [name]: isPinned ? null : position });
    this.#app.say(
      isPinned ? `No ${name} is pinned.` : `Pinned as ${name}: ${pieces.name(pieces.of(position))}.`,
    );
  }

  /** Show a long text from a position on. */
  #go(role, position) {
    const both = this.#map.hasSameTokens;
    const range = (words, isAsked) => words.rangeFrom(both || isAsked ? position : undefined);
    this.#app.state.set({ window: [...range(this.queries, role === "query"), ...range(this.keys, role === "key")] });
  }

  update() {
    this.#showControls();
    this.#showWords();
    this.#load(); // before shading, as it drops rows of other heads
    this.#shade();
  }

  #showControls() {
    const map = this.#map;
    const heads = chosenHeads(this.#values);
    this.layout.value = this.#values.textLayout;
    this.heads.hidden = this.all.hidden = map.heads.length < 2;
    const isFocused = this.heads.contains(document.activeElement) ? document.activeElement.value : null;
    const boxes = map.heads.map((head) => {
      const [checked, tabIndex] = [heads.includes(head), head === heads[0] ? 0 : -1];
      const onchange = () => this.#toggle(head);
      const box = make("input", { type: "checkbox", value: head, checked, tabIndex, onchange });
      return make("label", {}, box, String(head));
    });
    this.heads.replaceChildren(make("legend", {}, "heads"), ...boxes);
    if (isFocused !== null) this.heads.querySelector(`input[value="${isFocused}"]`)?.focus();
    const part = map.parts.length > 1 ? `, ${this.#part}` : "";
    const colours = this.#coloursOfHeads;
    const isEach = colours.length > 1;
    for (const box of this.heads.querySelectorAll("input")) {
      const colour = isEach ? colours[heads.indexOf(Number(box.value))] : undefined;
      box.style.accentColor = colour ?? "";
      box.parentElement.style.boxShadow = colour ? `inset 0 -2px ${colour}` : "";
    }
    const name = isEach ? `${chosenName(map, heads, "")}, a colour each` : chosenName(map, heads);
    this.title.replaceChildren(...titled(name + part, map));
    this.all.setAttribute("aria-pressed", this.#isOfAll);
  }

  /** Colour of the lines of each chosen head; of so many heads that colours do not tell them apart, that of their mean. */
  get #coloursOfHeads() {
    const heads = chosenHeads(this.#values);
    const { accent, ofHeads } = this.#app.colours;
    const isSigned = this.#scale.signed; // which has colours of signs
    if (!this.#isLines || isSigned || heads.length > ofHeads.length) return [accent];
    return ofHeads.slice(0, heads.length);
  }

  #toggle(head) {
    const { heads, head: single } = this.#values;
    const chosen = new Set(heads.length ? heads : [single]);
    if (!chosen.delete(head)) chosen.add(head);
    const sorted = [...chosen].sort((one, other) => one - other);
    if (sorted.length > 1) this.#app.state.set({ heads: sorted });
    else if (sorted.length === 1) this.#app.state.set({ heads: [], head: sorted[0] });
    else this.#showControls(); // at least one stays chosen
  }

  #showWords() {
    const map = this.#map;
    const { window, query, key, special } = this.#values;
    const queries = new Pieces(map.rows, map.exact);
    const keys = new Pieces(map.columns, map.exact);
    const start = this.queries.startOf(queries, window?.[0], query);
    const keyStart = this.#map.hasSameTokens ? start : this.keys.startOf(keys, window?.[2], key);
    let isNew = this.queries.show(queries, start, special);
    isNew = this.keys.show(keys, keyStart, special) || isNew;
    if (isNew) this.#pointed = { query: null, key: null };
    this.texts.classList.toggle("as-lines", this.#isLines);
    const order = this.#isOneText
      ? [this.keys.element, this.queries.element]
      : [this.queries.element, ...(this.#isLines ? [this.lines] : []), this.keys.element];
    const now = [...this.texts.children];
    if (now.length !== order.length || order.some((element, at) => now[at] !== element)) {
      this.texts.replaceChildren(...order);
      isNew = true;
    }
    const [first, second] = this.#isOneText ? [this.keys, this.queries] : [this.queries, this.keys];
    if (this.#map.hasSameTokens) second.pager.hidden = true; // the first one pages both
    if (isNew) first.reveal(queries.of(query));
  }

  /** Request the rows of weights: of single tokens only the visible ones, of a short input all. */
  async #load() {
    const map = this.#map;
    const heads = chosenHeads(this.#values);
    const { pieces, start, end } = this.queries;
    const ranges = [[start, end]];
    const pinned = pieces.of(this.#values.query);
    if (pinned >= 0 && (pinned < start || pinned >= end)) ranges.push([pinned, pinned + 1]);
    const isSingle = map.isPooled && map.exact;
    const wanted = isSingle ? ranges : [null];
    const question = JSON.stringify([map.index, this.#part, heads, wanted]);
    if (question === this.#question) return;
    this.#question = question;
    this.#rows = new Map();
    this.#rowsOfHeads = [];
    this.#strongest = -1;
    this.message.textContent = "";
    try {
      const blocks = await Promise.all(wanted.map((range, at) => this.#block(map, heads, range, at)));
      if (question !== this.#question) return;
      this.#rows = new Map(blocks.flatMap((block) => block.mean));
      this.#rowsOfHeads = heads.map((_, at) => new Map(blocks.flatMap((block) => block.heads[at])));
      this.#strongest = this.#findStrongest();
    } catch (problem) {
      if (problem.cancelled || question !== this.#question) return;
      this.#question = "";
      this.message.textContent = `These weights cannot be shown: ${problem.message}`;
    }
    this.#shade();
  }

  /**
   * Return [query, weights] of a range of single tokens, or of all pieces.
   *
   * @returns {Promise<{mean: [number, Float32Array][], heads: [number, Float32Array][][]}>} of the heads' mean, and of each
   */
  async #block(map, heads, range, at) {
    const { jobs } = this.#app;
    const { pieces } = this.queries;
    const keys = this.keys.pieces;
    const window = range && [pieces.first(range[0]), pieces.edges[range[1]], keys.first(0), keys.end];
    const answers = await Promise.all(
      heads.map((head) =>
        window
          ? jobs.window(map, head, window, `text ${head} ${at}`, this.#part)
          : jobs.values(map, this.#part, head),
      ),
    );
    const { rows, columns } = answers[0];
    const first = range?.[0] ?? 0;
    /** @returns {[number, Float32Array][]} */
    const split = (values) =>
      Array.from({ length: rows }, (_, row) => [first + row, values.subarray(row * columns, (row + 1) * columns)]);
    const numbers = answers.map((answer) => answer.values);
    return { mean: split(meanOf(numbers)), heads: numbers.map(split) };
  }

  /** The visible query with the largest weight on another word, else on any token of the text; no sink. −1: none. */
  #findStrongest() {
    const isSink = (pieces, piece) => pieces === this.keys.pieces && this.#sinks.includes(piece);
    const isWord = (pieces, piece) => pieces.isWord(piece) && !isSink(pieces, piece);
    const words = this.#strongestOf(isWord, this.#map.hasSameTokens);
    return words >= 0 ? words : this.#strongestOf((pieces, piece) => !pieces.isSpecial(piece), false);
  }

  #strongestOf(counts, isOfOthers) {
    const [queries, keys] = [this.queries.pieces, this.keys.pieces];
    let [strongest, most] = [-1, 0];
    for (let query = this.queries.start; query < this.queries.end; query++) {
      if (!counts(queries, query) || seesOneKey(this.#map, queries.edges[query], queries.edges[query + 1])) continue;
      const isOther = (key) => counts(keys, key) && !(isOfOthers && key === query);
      const largest = largestSize(this.#rows.get(query)?.filter((_, key) => isOther(key)) ?? []);
      if (largest > most) [strongest, most] = [query, largest];
    }
    return strongest;
  }

  /** Weights of a key from all visible queries; undefined until they are there. */
  #columnOf(key) {
    if (key < 0 || !this.#rows.has(this.queries.start)) return undefined;
    const column = new Float32Array(this.queries.pieces.count);
    for (let query = this.queries.start; query < this.queries.end; query++) column[query] = this.#rows.get(query)[key];
    return column;
  }

  #shade() {
    const { query, key } = this.#active;
    const pinned = this.#piecesOf(this.#values);
    this.queries.mark(query, pinned.query);
    this.keys.mark(key, this.#isOneText ? pinned.query : pinned.key);
    const row = this.#rows.get(query);
    this.#shadeOne(this.keys, row, (piece) => [query, piece]);
    this.#shadeOne(this.queries, this.#columnOf(key), (piece) => [piece, key]);
    this.keys.tellElsewhere(row, this.#map.exact || this.#map.quantity.reduction !== "max");
    this.keys.title = query < 0 ? this.#heading("key") : `${this.queries.pieces.name(query)} looks at`;
    this.queries.title = key < 0 ? this.#heading("query") : `${this.keys.pieces.name(key)} is looked at by`;
    this.#drawLines();
    this.#app.views.strip.onHover(); // is of the query that is shown here
  }

  #heading(role) {
    if (!this.#isOneText) return role === "key" ? "keys" : "queries";
    return role === "key" ? "looks at: point at a word" : "is looked at by: point at a word";
  }

  /**
   * @param {Words} words
   * @param {Float32Array|undefined} weights of all of them
   * @param {(a: number) => number[]} cellOf query and key of the weight of a piece
   */
  #shadeOne(words, weights, cellOf) {
    const { colours } = this.#app;
    const [scale, sinks] = [this.#scale, this.#sinks];
    const { perRow } = colours.range(scale);
    const isHidden = (piece) => this.#isHidden(...cellOf(piece));
    const rgb = (value, piece) => {
      if (!value || isHidden(piece)) return null;
      const [query, key] = cellOf(piece);
      const largest = perRow ? largestSize(this.#rows.get(query), sinks) : 1;
      return colours.rgb(value, sinks.includes(key) ? OF_SINKS : scale, largest);
    };
    words.shade(weights, rgb, colours, isHidden);
  }

  /** Pieces of the keys that have a sink. */
  get #sinks() {
    const { pieces } = this.keys;
    return this.#map.sinks.map((sink) => pieces.of(sink));
  }

  /** Place of a weight on its scale, 0 to 1. */
  #share(value, rowLargest, scale) {
    const { low, high, log, perRow } = this.#app.colours.range(scale);
    const size = Math.abs(value) / (perRow ? rowLargest || 1 : 1);
    const share = log ? (size > low ? Math.log(size / low) / Math.log(high / low) : 0) : size / high;
    return Math.min(share, 1);
  }

  #isHidden(query, key) {
    const [queries, keys] = [this.queries.pieces, this.keys.pieces];
    return query >= 0 && key >= 0 && this.#map.hiddenToken(queries.first(query), keys.first(key));
  }

  /** Sentences for screen readers on the largest weights of a token, as query and as key. */
  #summary(role) {
    const { query, key } = this.#active;
    const row = (role === "query" || this.#isOneText) && this.#rows.get(query);
    const column = (role === "key" || this.#isOneText) && this.#columnOf(key);
    const name = role === "query" ? this.queries.pieces.name(query) : this.keys.pieces.name(key);
    const to = row ? ` looks at ${this.keys.told(row)}.` : "";
    return name + to + (column ? ` Is looked at by ${this.queries.told(column)}.` : "");
  }

  #drawLines() {
    const { clientWidth: width, clientHeight: height } = this.lines;
    if (!this.#isLines) this.#tellApart();
    if (!width || !height) return; // shown as text, or hidden
    const density = Math.min(devicePixelRatio, Math.sqrt(LARGEST_CANVAS / (width * height)));
    const context = sizedContext(this.canvas, width, height, density);
    const middles = ({ words }) => {
      const middle = (word) => word.offsetTop + word.offsetHeight / 2 - this.lines.offsetTop;
      return new Map(words.map((word) => [Number(word.dataset.piece), middle(word)]));
    };
    const [left, right] = [middles(this.queries), middles(this.keys)];
    const all = [...this.#linesShown([...left.keys()], [...right.keys()])];
    const drawn = all.length > MOST_LINES ? all.sort((one, other) => other.share - one.share).slice(0, MOST_LINES) : all;
    const [most, of] = [drawn.length, all.length].map((count) => count.toLocaleString("en"));
    const text = `The ${most} strongest of ${of} lines are drawn; point at a word to see all of its own.`;
    this.#tellApart(drawn.length < all.length ? text : "");
    for (const { query, key, share, colour, aside } of drawn) {
      context.globalAlpha = share;
      context.lineWidth = LINE_WIDTHS[0] + LINE_WIDTHS[1] * share;
      context.strokeStyle = colour;
      context.beginPath();
      context.moveTo(0, left.get(query) + aside);
      context.lineTo(width, right.get(key) + aside);
      context.stroke();
    }
  }

  /** Write which lines are drawn, and how sinks are shown. */
  #tellApart(drawn = "") {
    const sinks = this.#sinksText;
    const apart = this.#isLines ? "no lines to it unless it is pointed at" : "in grey, from 0 to 1";
    const texts = [drawn, sinks && `${sinks} of the weight, ${apart}.`].filter(Boolean);
    this.bound.textContent = texts.join(" ") || (this.#isLines ? "\u00a0" : "");
  }

  /** "[CLS] 47%, . 3%": the shares of sinks among the visible keys in the weights of all queries; "" without any. */
  get #sinksText() {
    const rows = [...this.#rows.values()];
    if (!rows.length) return "";
    const { pieces } = this.keys;
    const share = (sink) => percent(rows.reduce((sum, row) => sum + (row[sink] || 0), 0) / rows.length);
    const shown = this.#sinks.filter((sink) => sink >= 0 && (this.#values.special || !pieces.isSpecial(sink)));
    const named = shown.map((sink) => `${isolated(shortened(pieces.text(sink), 16))} ${share(sink)}`);
    return named.join(", ");
  }

  /** Lines of the pointed token, else of the pinned one, else of all. Those to a sink are shown of this key alone. */
  *#linesShown(queries, keys) {
    const { colours } = this.#app;
    const [scale, sinks, ofHeads] = [this.#scale, this.#sinks, this.#coloursOfHeads];
    const heads = ofHeads.length > 1 ? this.#rowsOfHeads : [this.#rows];
    const pointed = this.#piecesOf(this.#pointed);
    const only = pointed.query >= 0 || pointed.key >= 0 ? pointed : this.#piecesOf(this.#values);
    const chosen = (pieces, one) => (one < 0 ? pieces : pieces.filter((piece) => piece === one));
    const drawn = chosen(keys, only.key).filter((key) => key === only.key || !sinks.includes(key));
    for (const [at, rows] of heads.entries()) {
      const aside = BESIDE * (at - (heads.length - 1) / 2);
      for (const query of chosen(queries, only.query)) {
        const row = rows.get(query) ?? [];
        const largest = largestSize(row, sinks);
        for (const key of drawn) {
          const isSink = sinks.includes(key);
          const share = this.#share(row[key], largest, isSink ? OF_SINKS : scale);
          if (!(share >= 0.02)) continue; // too faint to see, or missing
          const rgb = scale.signed && colours.rgb(Math.sign(row[key]) * scale.high, scale);
          const colour = rgb ? `rgb(${rgb.join(" ")})` : isSink && heads.length === 1 ? colours.quiet : ofHeads[at];
          yield { query, key, share, colour, aside };
        }
      }
    }
  }
}

// State of the page: one set of values, which is kept in the address after "#", with subscribers.

/** @import { Contents } from "./contents.js" */

/** Views that have something to show, in the order of their tabs. */
export function viewsOf({ images, maps, tables, statistics }) {
  const heads = maps.reduce((sum, map) => sum + map.heads.length, 0);
  const has = {
    image: Boolean(images) && heads > 0,
    overview: heads > 1,
    map: heads > 0,
    text: heads > 0,
    why: maps.some((map) => map.call),
    tables: tables.length > 0 || statistics !== null,
  };
  return Object.keys(has).filter((name) => has[name]);
}

/** A value as it is written in a link: 3, all, 2-5-7, yes. */
function valueText(value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  return Array.isArray(value) ? value.join("-") : String(value);
}

/** The value of a text in a link; `State` checks it. */
function readValue(text) {
  if (text === "yes" || text === "no") return text === "yes";
  if (/^[0-9]+(-[0-9]+)+$/.test(text)) return text.split("-").map(Number);
  return text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text);
}

export class State {
  #contents;
  #views;
  #defaults;
  #values;
  #subscribers = [];

  /** @param {Contents} contents values are checked against it, as a link may belong to another page */
  constructor(contents) {
    this.#contents = contents;
    this.#views = viewsOf(contents);
    this.#defaults = this.#defaultsOf(contents);
    this.#values = this.#read(location.hash);
    this.hover = { query: null, key: null };
    window.addEventListener("hashchange", () => this.set(this.#read(location.hash)));
  }

  /** All current values; never changed, only replaced. */
  get values() {
    return this.#values;
  }

  /** The current map; undefined on a page with tables alone. */
  get map() {
    return mapAt(this.#contents, this.#values.map);
  }

  #defaultsOf({ maps, scales, sort }) {
    return {
      view: this.#views[0],
      map: 0,
      head: maps[0]?.heads[0] ?? 0,
      part: maps[0]?.parts.length > 1 ? "all" : (maps[0]?.parts[0].name ?? "all"),
      query: null,
      key: null,
      window: null,
      heads: [],
      textLayout: "text",
      strip: "layer",
      scale: scales.some((scale) => scale.log) ? "log" : "linear",
      special: true,
      theme: "auto",
      sort: sort ?? "layer",
    };
  }

  /**
   * Set the given values, as far as they are valid on this page, and tell subscribers the names of those that changed.
   *
   * @param {any} changes some of the values
   */
  set(changes) {
    const before = this.#values;
    const wanted = { ...before, ...changes };
    if (mapAt(this.#contents, wanted.map) && wanted.map !== before.map) this.#forgetOtherText(wanted, changes);
    if (wanted.head !== before.head && !("heads" in changes)) wanted.heads = [];
    const after = this.#valid(wanted);
    const changed = new Set(Object.keys(after).filter((name) => !isSame(before[name], after[name])));
    if (changed.size === 0) return;
    this.#values = after;
    this.#write(["view", "map", "head"].some((name) => changed.has(name)));
    this.#tell(changed);
  }

  /** Set the query and key that the pointer is on, as positions; null: none. Told as "hover", and not in links. */
  setHover(query, key) {
    if (query === this.hover.query && key === this.hover.key) return;
    this.hover = { query, key };
    this.#tell(new Set(["hover"]));
  }

  /** @param {(a: Set<string>) => void} tell called with the names of the values that changed */
  subscribe(tell) {
    this.#subscribers.push(tell);
  }

  #tell(changed) {
    for (const tell of this.#subscribers) tell(changed);
  }

  /** Drop places in the text, unless the new map has the same tokens. */
  #forgetOtherText(wanted, changes) {
    const before = this.map;
    const after = mapAt(this.#contents, wanted.map);
    const sameRows = before.rows.labels === after.rows.labels;
    const sameColumns = before.columns.labels === after.columns.labels;
    if (!sameRows && !("query" in changes)) wanted.query = null;
    if (!sameColumns && !("key" in changes)) wanted.key = null;
    if (!(sameRows && sameColumns) && !("window" in changes)) wanted.window = null;
    if (!(sameRows && sameColumns)) this.hover = { query: null, key: null };
  }

  #valid(wanted) {
    const { measures } = this.#contents;
    const defaults = this.#defaults;
    const one = (name, choices) => (choices.includes(wanted[name]) ? wanted[name] : defaults[name]);
    const map = mapAt(this.#contents, wanted.map) ?? mapAt(this.#contents, 0);
    return Object.freeze({
      view: one("view", this.#views),
      ...(map
        ? placeIn(map, wanted)
        : { map: 0, head: 0, part: "all", query: null, key: null, window: null, heads: [] }),
      textLayout: one("textLayout", ["text", "lines"]),
      strip: one("strip", ["layer", "all"]),
      scale: one("scale", ["linear", "log", "rows"]),
      special: wanted.special !== false,
      theme: one("theme", ["auto", "light", "dark"]),
      sort: one("sort", ["layer", ...measures.map((measure) => measure.name)]),
    });
  }

  /** All values that the part of an address after "#" gives. */
  #read(hash) {
    const named = [...new URLSearchParams(hash.slice(1))].filter(([name]) => Object.hasOwn(this.#defaults, name));
    const values = named.map(([name, text]) => [name, readValue(text)]);
    return this.#valid({ ...this.#defaults, ...Object.fromEntries(values) });
  }

  /** Address of what is shown. That of the window may be older, as browsers refuse many changes at once. */
  get link() {
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries(this.#values)) {
      if (value !== null && !isSame(value, this.#defaults[name])) parameters.set(name, valueText(value));
    }
    const [page] = location.href.split("#");
    return parameters.size ? `${page}#${parameters}` : page;
  }

  /** Write the address, with a new entry in the history for steps that the browser's "back" should undo. */
  #write(isStep) {
    if (this.link === location.href) return; // as after "back"
    try {
      if (isStep) history.pushState(null, "", this.link);
      else history.replaceState(null, "", this.link);
    } catch {
      // Some browsers also refuse inside another page: then only the address is outdated.
    }
  }
}

/** The map of this number; undefined if there is none, as for "length" in a link, which every array has. */
function mapAt({ maps }, number) {
  return Number.isInteger(number) ? maps[number] : undefined;
}

/** Values that belong to one map, as far as they are valid in it. */
function placeIn(map, wanted) {
  const within = (side, position) =>
    Number.isInteger(position) && position >= side.start && position < side.start + side.tokens
      ? position
      : null;
  const parts = map.parts.map((part) => part.name);
  return {
    map: map.index,
    head: map.heads.includes(wanted.head) ? wanted.head : map.heads[0],
    part: parts.includes(wanted.part) ? wanted.part : parts.length > 1 ? "all" : parts[0],
    query: within(map.rows, wanted.query),
    key: within(map.columns, wanted.key),
    window: windowWithin(map, wanted.window),
    heads: severalHeads(map, wanted.heads),
  };
}

/** Wanted heads that the map has, once each; empty unless there are several. */
function severalHeads(map, wanted) {
  const heads = [...new Set([wanted].flat())].filter((head) => map.heads.includes(head));
  return heads.length > 1 ? heads : [];
}

/** [first query, end, first key, end] clipped to the map; null if nothing or all of it is left. */
function windowWithin(map, range) {
  if (!Array.isArray(range) || range.length !== 4 || !range.every(Number.isInteger)) return null;
  const [q0, q1, k0, k1] = range;
  const { rows, columns } = map;
  const cut = [
    Math.max(q0, rows.start),
    Math.min(q1, rows.start + rows.tokens),
    Math.max(k0, columns.start),
    Math.min(k1, columns.start + columns.tokens),
  ];
  const isEmpty = cut[1] <= cut[0] || cut[3] <= cut[2];
  const isAll = cut[1] - cut[0] === rows.tokens && cut[3] - cut[2] === columns.tokens;
  return isEmpty || isAll ? null : cut;
}

/** Whether two values are equal, arrays by their items. */
function isSame(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

// What the page shows: one set of values, kept in the address after "#", told to whoever subscribes.

/** @import { Contents } from "./contents.js" */

/** The views that there is something for, in the order of their tabs. */
export function viewsOf({ maps, tables, statistics }) {
  const heads = maps.reduce((sum, map) => sum + map.heads.length, 0);
  const has = {
    overview: heads > 1,
    map: heads > 0,
    text: heads > 0,
    why: maps.some((map) => map.call),
    tables: tables.length > 0 || statistics !== null,
  };
  return Object.keys(has).filter((name) => has[name]);
}

/** A value as a link writes it: 3, all, 2-5-7, yes. */
function valueText(value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  return Array.isArray(value) ? value.join("-") : String(value);
}

/** The value that was written so, or some text, which `State` checks. */
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

  /** @param {Contents} contents every value is checked against it: a link may be of another page */
  constructor(contents) {
    this.#contents = contents;
    this.#views = viewsOf(contents);
    this.#defaults = this.#defaultsOf(contents);
    this.#values = this.#read(location.hash);
    this.hover = { query: null, key: null };
    window.addEventListener("hashchange", () => this.set(this.#read(location.hash)));
  }

  /** All values as they are now; never changed, only replaced. */
  get values() {
    return this.#values;
  }

  /** The map that is looked at; undefined on a page of tables alone. */
  get map() {
    return this.#contents.maps[this.#values.map];
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
      scale: scales.some((scale) => scale.log) ? "log" : "linear",
      special: true,
      theme: "auto",
      sort: sort ?? "layer",
    };
  }

  /**
   * Takes over what is given, as far as this page has it, and tells the names of what has changed.
   *
   * @param {any} changes some of the values
   */
  set(changes) {
    const before = this.#values;
    const wanted = { ...before, ...changes };
    if (this.#contents.maps[wanted.map] && wanted.map !== before.map) this.#forgetOtherText(wanted, changes);
    if (wanted.head !== before.head && !("heads" in changes)) wanted.heads = [];
    const after = this.#valid(wanted);
    const changed = new Set(Object.keys(after).filter((name) => !isSame(before[name], after[name])));
    if (changed.size === 0) return;
    this.#values = after;
    this.#write(["view", "map", "head"].some((name) => changed.has(name)));
    this.#tell(changed);
  }

  /** Which query and key the pointer is on, as positions; null: none. Told as "hover"; in no link. */
  setHover(query, key) {
    if (query === this.hover.query && key === this.hover.key) return;
    this.hover = { query, key };
    this.#tell(new Set(["hover"]));
  }

  /** @param {(a: Set<string>) => void} tell is called with the names of what has changed */
  subscribe(tell) {
    this.#subscribers.push(tell);
  }

  #tell(changed) {
    for (const tell of this.#subscribers) tell(changed);
  }

  /** A place in one text says nothing about another: it is kept only from head to head of the same tokens. */
  #forgetOtherText(wanted, changes) {
    const before = this.map;
    const after = this.#contents.maps[wanted.map];
    const sameRows = before.rows.labels === after.rows.labels;
    const sameColumns = before.columns.labels === after.columns.labels;
    if (!sameRows && !("query" in changes)) wanted.query = null;
    if (!sameColumns && !("key" in changes)) wanted.key = null;
    if (!(sameRows && sameColumns) && !("window" in changes)) wanted.window = null;
    if (!(sameRows && sameColumns)) this.hover = { query: null, key: null };
  }

  #valid(wanted) {
    const { maps, measures } = this.#contents;
    const defaults = this.#defaults;
    const one = (name, choices) => (choices.includes(wanted[name]) ? wanted[name] : defaults[name]);
    const map = maps[wanted.map] ?? maps[0];
    return Object.freeze({
      view: one("view", this.#views),
      ...(map
        ? placeIn(map, wanted)
        : { map: 0, head: 0, part: "all", query: null, key: null, window: null, heads: [] }),
      textLayout: one("textLayout", ["text", "lines"]),
      scale: one("scale", ["linear", "log", "rows"]),
      special: wanted.special !== false,
      theme: one("theme", ["auto", "light", "dark"]),
      sort: one("sort", ["layer", ...measures.map((measure) => measure.name)]),
    });
  }

  /** All values as the part of an address after "#" says them. */
  #read(hash) {
    const named = [...new URLSearchParams(hash.slice(1))].filter(([name]) => Object.hasOwn(this.#defaults, name));
    const values = named.map(([name, text]) => [name, readValue(text)]);
    return this.#valid({ ...this.#defaults, ...Object.fromEntries(values) });
  }

  /** The address of what is shown. That of the window may be older: browsers refuse many changes at once. */
  get link() {
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries(this.#values)) {
      if (value !== null && !isSame(value, this.#defaults[name])) parameters.set(name, valueText(value));
    }
    const [page] = location.href.split("#");
    return parameters.size ? `${page}#${parameters}` : page;
  }

  /** Writes the address; what the button "back" of the browser should go back to is a step of its own. */
  #write(isStep) {
    if (this.link === location.href) return; // as after "back"
    try {
      if (isStep) history.pushState(null, "", this.link);
      else history.replaceState(null, "", this.link);
    } catch {
      // Some browsers refuse inside another page too: only the address is late.
    }
  }
}

/** The values that only mean something in one map, as far as they are within it. */
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

/** Those of the wanted heads that the map has, once each; none unless they are several. */
function severalHeads(map, wanted) {
  const heads = [...new Set([wanted].flat())].filter((head) => map.heads.includes(head));
  return heads.length > 1 ? heads : [];
}

/** [first query, end, first key, end] cut to the map; null if nothing or all of it is left. */
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

/** Whether two values are equal, arrays by what they hold. */
function isSame(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

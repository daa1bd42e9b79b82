// Builds the page: header, controls, tabs, help; handles the keyboard, announces changes, reports errors. Runs last.

import { offerApi } from "./api.js";
import { JobQueue } from "./jobs.js";
import { Colours } from "./colours.js";
import { Contents } from "./contents.js";
import { Choice, make, rove, rowOf, shortened, tableOf } from "./dom.js";
import { ImageView } from "./image.js";
import { LinksView } from "./links.js";
import { MapView } from "./map.js";
import { precisionText } from "./numbers.js";
import { OverviewView } from "./overview.js";
import { headName, kindOf, Pieces } from "./pieces.js";
import { State, viewsOf } from "./state.js";
import { StripView } from "./strip.js";
import { TablesView } from "./tables.js";
import { TextView } from "./text.js";
import { WhyView } from "./why.js";

const TABS = { image: "Image", overview: "Overview", map: "Map", text: "Text", why: "Why", tables: "Tables" };

const KEYS = [
  ["arrow keys", "from head to head, from cell to cell, from word to word"],
  ["Enter", "open the head; pin the query and the key"],
  ["Tab, arrow keys", "in the overview: the words, then the layers; the strip beside follows"],
  ["Escape", "forget what is pinned"],
  ["[  ]", "the head before, the next head"],
  ["{  }", "the layer before, the next layer"],
  ["+  −  0", "in the map: larger, smaller, all of it"],
  ["Shift + arrow", "in the map: ten cells at once; so do Page Up and Page Down"],
  ["Home  End", "the first, the last"],
  ["arrow keys", "in an image: from patch to patch, which become the query"],
  ["?", "this help"],
];

export class Page {
  #wide = window.matchMedia("(min-width: 1100px)");
  #sayTimer = 0;

  /** @param {Contents} contents */
  constructor(contents) {
    this.contents = contents;
    this.state = new State(contents);
    this.colours = new Colours(contents, this.state);
    this.jobs = new JobQueue(contents.inflated);
    this.live = make("div", { className: "unseen", "aria-live": "polite" });
    this.problem = make("p", { className: "problem", role: "alert", hidden: true });
    this.views = {
      image: new ImageView(this),
      overview: new OverviewView(this),
      map: new MapView(this),
      text: new TextView(this),
      why: new WhyView(this),
      tables: new TablesView(this),
      links: new LinksView(this),
      strip: new StripView(this),
    };
  }

  /** Build the page in an element, and show it. */
  build(element) {
    this.controls = new Controls(this);
    this.help = this.#makeHelp();
    const names = viewsOf(this.contents);
    this.tabs = new Map(names.map((name) => [name, this.#makeTab(name)]));
    this.tabList = make("div", { className: "tabs", role: "tablist", "aria-label": "views" }, ...this.tabs.values());
    this.panels = new Map(names.map((name) => [name, this.#makePanel(name)]));
    const { overview, ...others } = Object.fromEntries(this.panels);
    this.aside = make("div", { className: "aside" }, ...(overview ? [overview, this.views.strip.element] : []));
    const elements = [this.aside, ...Object.values(others), this.views.links.element];
    this.content = make("div", { className: "content" }, ...elements);
    const { title, footnote, notices } = this.contents;
    this.reading = make("p");
    const told = notices.map((notice) => make("p", { className: "notice quiet" }, notice));
    element.replaceChildren(
      make("header", {}, make("h1", {}, title), this.controls.element, this.problem, ...told),
      this.tabList,
      this.content,
      make("footer", { className: "quiet" }, this.reading, make("p", {}, footnote)),
      this.live,
      this.help,
    );
    rove(this.tabList, "button");
    element.hidden = false;
    this.state.subscribe((changed) => this.#follow(changed));
    this.colours.onSystemChange(() => this.#follow(new Set(["theme"])));
    this.#wide.addEventListener("change", () => this.#follow(new Set(["view"])));
    document.addEventListener("keydown", (event) => this.#pressKey(event));
    this.#follow(new Set(["view", "map"]));
    requestAnimationFrame(() => setTimeout(() => this.#warmUp(), 250));
  }

  /** Announce a text to screen readers, once no key is pressed for a while. */
  say(text) {
    clearTimeout(this.#sayTimer);
    this.#sayTimer = setTimeout(() => {
      this.live.textContent = text;
    }, 250);
  }

  /** Report an error on the page. */
  fail(problem) {
    console.error(problem);
    this.problem.hidden = false;
    this.problem.textContent = `Something on this page does not work: ${problem?.message ?? problem}`;
  }

  /** Show a head in the current view, or as a map if that is the overview. */
  open(map, head) {
    const { view } = this.state.values;
    const next = view === "overview" || view === "tables" ? "map" : view;
    this.state.set({ map: map.index, head, view: next });
    const isFocusGone = !this.#shownNames().includes(view);
    if (isFocusGone) this.views.map.canvas.focus();
  }

  /** Go to the previous (−1) or next (1) head or layer. */
  step(what, by) {
    const { map, values } = this.state;
    if (!map) return;
    if (what === "head") {
      const head = map.heads[map.placeOf(values.head) + by];
      if (head === undefined) return;
      this.state.set({ head });
    } else {
      const alike = this.contents.maps.filter((one) => one.isBeside(map) && kindOf(one) === kindOf(map));
      const next = alike[alike.indexOf(map) + by];
      if (!next) return;
      this.state.set({ map: next.index });
    }
    this.say(headName(this.state.map, this.state.values.head));
  }

  /** Compute one head in advance, as the first one takes longest: the browser compiles the code. */
  #warmUp() {
    const { map, values } = this.state;
    if (map && !map.isPooled) this.jobs.values(map, map.mainPart, values.head).catch(() => {});
  }

  #makeTab(name) {
    const onclick = () => this.state.set({ view: name });
    const names = { id: `tab-${name}`, "aria-controls": `panel-${name}` };
    return make("button", { type: "button", role: "tab", ...names, onclick }, TABS[name]);
  }

  #makePanel(name) {
    const names = { id: `panel-${name}`, "aria-labelledby": `tab-${name}` };
    return make("div", { className: `panel ${name}-panel`, role: "tabpanel", ...names }, this.views[name].element);
  }

  #isOverviewBeside() {
    return this.#wide.matches && this.tabs.has("overview") && this.state.values.view !== "overview";
  }

  #shownNames() {
    const beside = this.#isOverviewBeside() ? ["overview"] : [];
    const { view } = this.state.values;
    const strip = this.tabs.has("overview") && ["overview", "map", "text"].includes(view) ? ["strip"] : [];
    return [view, ...beside, ...strip, ...(["map", "text"].includes(view) ? ["links"] : [])];
  }

  /** Show the current view, and hide the others. */
  #arrange() {
    const shown = this.#shownNames();
    this.content.classList.toggle("split", this.#isOverviewBeside());
    this.content.dataset.view = this.state.values.view;
    for (const [name, tab] of this.tabs) {
      tab.setAttribute("aria-selected", name === this.state.values.view);
      tab.tabIndex = name === this.state.values.view ? 0 : -1;
      this.panels.get(name).hidden = !shown.includes(name);
    }
    for (const name of ["links", "strip"]) this.views[name].element.hidden = !shown.includes(name);
    this.aside.hidden = !shown.some((name) => ["overview", "strip"].includes(name));
  }

  /** @param {Set<string>} changed names of the state's values that changed; "view" also if a view is new */
  #follow(changed) {
    if (changed.has("hover")) {
      for (const name of this.#shownNames()) this.views[name].onHover?.();
      return;
    }
    if (changed.has("theme")) this.colours.follow();
    if (changed.has("special") || changed.has("map")) this.#tellReading();
    this.controls.update();
    if (changed.has("view")) this.#arrange();
    for (const name of this.#shownNames()) this.views[name].update(changed);
  }

  /** Write how to read the maps, and how exact their numbers are. */
  #tellReading() {
    const { map, values } = this.state;
    const texts = [this.contents.reading];
    if (!values.special) texts.push("special tokens are hidden: what goes to them is missing, and rows sum to less");
    if (map?.precision) texts.push(`numbers are exact to ${precisionText(map.precision)}`);
    this.reading.textContent = texts.filter(Boolean).join("; ");
  }

  #pressKey(event) {
    const isTyping = event.target.matches?.("input:not([type=checkbox], [type=radio]), select, textarea");
    // Many keyboards type "[" and "{" with AltGr, which is Ctrl and Alt together, or with Option, which is Alt.
    const isCommand = event.metaKey || (event.ctrlKey && !event.altKey);
    if (isTyping || isCommand || this.help.open) return;
    const step = { "[": ["head", -1], "]": ["head", 1], "{": ["layer", -1], "}": ["layer", 1] }[event.key];
    if (step) this.step(...step);
    else if (event.key === "?") this.help.showModal();
    else if (event.key === "Escape") this.state.set({ query: null, key: null });
    else if (!this.views[this.state.values.view].onKey?.(event)) return;
    event.preventDefault();
  }

  #makeHelp() {
    const close = make("button", { type: "button", onclick: () => this.help.close() }, "close");
    const text =
      "What does a word look at? Point at it in any view: its strip has a row for each head of the layer. " +
      "With the mouse: point at anything to read its number; scroll over the map to zoom, drag to move, " +
      "click to pin. The address holds what is shown: copy it to come back.";
    const table = tableOf("Keys", [], KEYS.map(([keys, meaning]) => rowOf("", keys, meaning)));
    return make("dialog", { "aria-label": "help" }, table, make("p", {}, text), close);
  }
}

/** The row of controls for all views. */
class Controls {
  #page;
  #state;

  constructor(page) {
    this.#page = page;
    this.#state = page.state;
    const { contents, state } = page;
    this.pass = new Choice("pass", (value) => this.#choose("pass", value));
    const ofTexts = contents.maps[0]?.isRecorded ? "example" : "sentence";
    this.sentence = new Choice(ofTexts, (value) => this.#choose("sentence", value));
    this.map = new Choice("map", (value) => state.set({ map: Number(value) }));
    this.head = new Choice("head", (value) => state.set({ head: Number(value) }));
    this.part = new Choice("show", (part) => state.set({ part }));
    const scales = ["linear", ["log", "logarithmic"], ["rows", "per row"]];
    this.scale = new Choice("scale", (scale) => state.set({ scale }), scales);
    this.theme = new Choice("theme", (theme) => state.set({ theme }), ["auto", "light", "dark"]);
    const onchange = () => state.set({ special: this.special.checked });
    this.special = make("input", { type: "checkbox", onchange });
    const special = make("label", {}, this.special, " show special tokens");
    this.scale.element.hidden = contents.scales.every((scale) => scale.ratios); // which have but this scale
    const choices = [this.pass, this.sentence, this.map, this.head, this.part, this.scale];
    this.ofMaps = [...choices.map((choice) => choice.element), special];
    const ask = { type: "button", title: "help: all keys", onclick: () => page.help.showModal() };
    this.element = make(
      "div",
      { className: "controls of-all", role: "group", "aria-label": "what is shown, and how" },
      ...this.ofMaps,
      this.theme.element,
      make("button", ask, "?"),
      this.#makeMore(),
    );
    const { maps } = contents;
    const several = (choice, options) => {
      choice.options = options;
      choice.element.hidden = options.length < 2;
    };
    const sentences = [...new Set(maps.map((map) => map.sentence))];
    several(this.sentence, sentences.map((sentence) => [String(sentence), this.#sentenceText(sentence)]));
    several(this.pass, [...new Set(maps.map((map) => String(map.pass)))]);
    special.hidden = maps.every((map) => map.rows.special.size + map.columns.special.size === 0);
  }

  /** On a phone there is one row: the map, the head, and a button for all other controls. */
  #makeMore() {
    const more = make("button", { type: "button", className: "more", "aria-expanded": false }, "more");
    more.onclick = () => more.setAttribute("aria-expanded", this.element.classList.toggle("open"));
    for (const choice of [this.map, this.head]) choice.element.classList.add("first");
    return more;
  }

  /** Set all controls from the state. */
  update() {
    const { map, values } = this.#state;
    this.theme.value = values.theme;
    if (!map) {
      for (const element of this.ofMaps) element.hidden = true;
      return;
    }
    const maps = this.#page.contents.maps.filter((one) => one.isBeside(map));
    this.map.options = maps.map((one) => [String(one.index), this.#mapText(one)]);
    this.head.options = map.heads.map(String);
    const parts = map.parts.map(({ name }) => name);
    this.part.options = parts.length > 1 ? [["all", "all three"], ...parts] : parts;
    this.map.element.hidden = maps.length < 2;
    this.head.element.hidden = map.heads.length < 2;
    this.part.element.hidden = parts.length < 2;
    this.pass.value = String(map.pass);
    this.sentence.value = String(map.sentence);
    this.map.value = String(values.map);
    this.head.value = String(values.head);
    this.part.value = values.part;
    this.scale.value = values.scale;
    this.special.checked = values.special;
  }

  /** Go to the same layer of another sentence, or in another pass. */
  #choose(what, value) {
    const { map } = this.#state;
    const other = what === "pass" ? "sentence" : "pass";
    const there = this.#page.contents.maps.filter((one) => String(one[what]) === value);
    const beside = there.filter((one) => one[other] === map[other]);
    const maps = beside.length ? beside : there;
    const same = maps.find((one) => one.layer === map.layer && kindOf(one) === kindOf(map)) ?? maps[0];
    this.#state.set({ map: same.index });
  }

  /** Name of a map among those of the same texts: "layer 3, self · blocks.3.attn". */
  #mapText(map) {
    return map.module ? `${map.label} · ${shortened(map.module, 60)}` : map.label;
  }

  #sentenceText(sentence) {
    const { rows } = this.#page.contents.maps.find((map) => map.sentence === sentence);
    if (rows.unnamed) return `${sentence}: ${rows.unnamed}`;
    const first = new Pieces(rows, false);
    const words = Array.from({ length: Math.min(first.count, 12) }, (_, piece) => piece)
      .filter((piece) => !first.isSpecial(piece))
      .map((piece) => (rows.joined.has(first.first(piece)) ? "" : " ") + shortened(first.text(piece), 20));
    return `${sentence}: ${shortened(words.join("").trim(), 48)}`;
  }

}

/** Show one sentence in place of the page that says why it cannot be shown. */
function sayBroken(sentence) {
  const broken = document.getElementById("broken");
  broken.hidden = false;
  broken.textContent = sentence;
  document.getElementById("page").hidden = true;
}

/** Runs as soon as the thumbnails are read: the browser is still reading the other numbers. */
function start() {
  document.addEventListener("DOMContentLoaded", () => {
    const isWhole = document.getElementById("end") !== null;
    if (!isWhole) sayBroken("This page was cut off while it was saved or copied. Save or copy it again.");
  });
  try {
    const contents = Contents.read(document);
    offerApi(contents);
    const page = new Page(contents);
    page.build(document.getElementById("page"));
    document.getElementById("broken").hidden = true;
    const fail = (problem) => problem?.cancelled || page.fail(problem);
    contents.inflated.catch(fail);
    window.addEventListener("error", (event) => fail(event.error ?? event.message));
    window.addEventListener("unhandledrejection", (event) => fail(event.reason));
  } catch (problem) {
    console.error(problem);
    sayBroken(`This page cannot be shown in this browser: ${problem.message}`);
  }
}

start();

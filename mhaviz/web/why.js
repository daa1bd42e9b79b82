// View that explains one weight: products of features, from their sum to the score, and the softmax.

import { largestSize } from "./colours.js";
import { Choice, isolated, make, numberCell, rowOf, shortened, tableOf } from "./dom.js";
import { fixed, precisionText, short } from "./numbers.js";
import { headName, largestPlaces, seesOneKey, titled } from "./pieces.js";
/** @import { Page } from "./main.js" */

const STRONGEST_FEATURES = 12;
const STRONGEST_KEYS = 10;
const SHOWN_VALUES = ["view", "map", "head", "query", "key", "theme"]; // values of the state that this view depends on

export class WhyView {
  #app;
  #asked = null; // identifies the latest request; results of older ones are dropped
  #listed = null; // the map whose tokens the lists offer: listing thousands takes a tenth of a second

  /** @param {Page} app */
  constructor(app) {
    this.#app = app;
    this.query = new Choice("query", (query) => app.state.set({ query: Number(query) }));
    this.key = new Choice("key", (key) => app.state.set({ key: Number(key) }));
    const strongest = make(
      "button",
      { type: "button", onclick: () => app.state.set({ query: null, key: null }) },
      "strongest link",
    );
    this.choice = make("div", { className: "controls" }, this.query.element, this.key.element, strongest);
    this.title = make("h2");
    this.message = make("p", { className: "quiet", role: "status" });
    this.parts = make("div", { className: "why-parts" });
    this.element = make("div", { className: "why-view" }, this.choice, this.title, this.message, this.parts);
  }

  /** @param {Set<string>} changed names of the state's values */
  async update(changed) {
    const { contents, state } = this.#app;
    const map = contents.maps[state.values.map];
    if (!SHOWN_VALUES.some((name) => changed.has(name))) return;
    const asked = (this.#asked = {});
    const { head } = state.values;
    this.title.replaceChildren(...titled(headName(map, head), map));
    this.choice.hidden = map.call === null;
    if (map.call === null) {
      this.message.textContent =
        map.parts.length > 1
          ? "There are no products to show: a difference is of weights. Look at one of the two in a page of its own."
          : "There are no products to show: this page was made from weights alone, without queries and keys. " +
            "A page of a model has them: mhaviz heatmap --model … -o page.html";
      this.parts.replaceChildren();
      return;
    }
    this.parts.classList.add("stale");
    try {
      const [query, key, found] = await this.#pair(map, head);
      const [products, row] = await this.#app.jobs.score(map, head, query, key);
      if (asked === this.#asked) this.#draw(map, query, key, products, row, found);
    } catch (problem) {
      if (problem.cancelled || asked !== this.#asked) return;
      this.message.textContent = `This score cannot be shown: ${problem.message}`;
      this.parts.replaceChildren();
    }
  }

  /**
   * The pinned query and key, or else those of the largest number, where neither is pinned of two words if there are;
   * and what is known of it: "" for a pinned pair, "words", "any", or "none" where all numbers are 0.
   */
  async #pair(map, head) {
    const { query, key } = this.#app.state.values;
    if (query !== null && key !== null) return [query, key, ""];
    this.message.textContent = "Looking for the largest weight of this head …";
    const { rows, columns } = map;
    const [q0, q1] = query === null ? [rows.start + Number(leavesFirstOut(map)), rows.end] : [query, query + 1];
    const [k0, k1] = key === null ? [columns.start, columns.end] : [key, key + 1];
    const window = [q0, q1, k0, k1];
    const ofWords = query === null && key === null && (await this.#app.jobs.strongest(map, head, window, true));
    const found = ofWords || (await this.#app.jobs.strongest(map, head, window));
    return [found?.query ?? q0, found?.key ?? k0, ofWords ? "words" : found ? "any" : "none"];
  }

  #draw(map, query, key, products, row, found) {
    const { head, query: pinnedQuery, key: pinnedKey } = this.#app.state.values;
    for (const [choice, side, position] of [
      [this.query, map.rows, query],
      [this.key, map.columns, key],
    ]) {
      const option = (_, at) => [String(side.start + at), shortened(side.named(side.start + at), 36)];
      if (this.#listed !== map) choice.options = side.labels.map(option);
      choice.value = position;
    }
    this.#listed = map;
    const name = (side, position) =>
      side.isPatch(position) ? side.named(position) : `“${isolated(shortened(side.label(position), 30))}” (${position})`;
    const weight = row.weights[key];
    const pair = `${name(map.rows, query)} → ${name(map.columns, key)}`;
    this.title.textContent = `${headName(map, head)}: ${pair}, weight ${short(weight)}`;
    const without = leavesFirstOut(map) ? ", apart from the first query, which sees one key alone" : "";
    const strongest = {
      "": "",
      words: `The largest weight of this head between two words${without}`,
      any: `The largest weight of this head${without}`,
      none: `There is no weight above zero: a link of this head${without}`,
    }[found];
    const chosen =
      pinnedQuery === null && pinnedKey === null
        ? `${strongest}. Choose others here, in the map or in the text.`
        : "";
    const exact = `These weights are exact to ${precisionText(map.call.precision)}.`;
    const shares =
      map.quantity.key === "weight"
        ? ""
        : `The map shows a ${map.quantity.name}, which is worked out from these weights.`;
    this.message.textContent = [chosen, exact, shares].filter(Boolean).join(" ");
    const terms = products.query.map((feature, f) => feature * products.key[f]);
    const wasOpen = this.parts.querySelector("details")?.open;
    const hadFocus = Boolean(document.activeElement?.closest(".why-tables"));
    this.parts.classList.remove("stale");
    this.parts.replaceChildren(
      make(
        "div",
        { className: "why-tables" },
        this.#largestProducts(products, terms),
        this.#steps(map.call, products, row, weight, key),
        this.#otherKeys(map, query, key, row),
      ),
      this.#allFeatures(products, terms),
    );
    this.parts.querySelector("details").open = wasOpen ?? false;
    if (hadFocus) this.parts.querySelector(".pinned button").focus();
  }

  #largestProducts(products, terms) {
    const named = largestPlaces(terms, STRONGEST_FEATURES);
    const rest = products.dot - named.reduce((sum, feature) => sum + terms[feature], 0);
    const others = terms.length - named.length;
    const largest = largestSize(terms) || 1;
    const [ofFeatures, ofProducts] = [
      decimalsFor([...products.query, ...products.key]),
      decimalsFor([largest, rest]),
    ];
    const rows = named.map((feature) =>
      rowOf(
        "",
        String(feature),
        fixedCell(products.query[feature], ofFeatures),
        fixedCell(products.key[feature], ofFeatures),
        fixedCell(terms[feature], ofProducts),
        signedBar(terms[feature] / largest),
      ),
    );
    if (others) rows.push(rowOf("", `the other ${others}`, "", "", fixedCell(rest, ofProducts), ""));
    rows.push(rowOf("sum", "q·k", "", "", fixedCell(products.dot, ofProducts), ""));
    const caption = `products of ${terms.length} features, largest first`;
    return tableOf(caption, ["feature", "q", "k", "q × k", ""], rows);
  }

  /** Table of the steps from the sum of products to the weight. */
  #steps(call, products, row, weight, key) {
    const lines = [["q·k", products.dot]];
    const scaling = /^\/ √\d+/.exec(call.rule)?.[0] ?? `× ${short(call.scale)}`;
    if (call.scale !== 1) lines.push([`scaled: ${scaling}`, products.scaled]);
    if (call.softcap !== null) {
      const cap = short(call.softcap);
      lines.push([`capped: ${cap} · tanh(score / ${cap})`, products.capped]);
    }
    if (products.hidden) lines.push(["hidden from this query", -Infinity]);
    else if (call.bias && call.bias.form !== "visible") lines.push(["+ bias", products.bias]);
    lines.push(["score", products.score]);
    const largest = row.scores.reduce((most, score) => Math.max(most, score), row.sink ?? -Infinity);
    const seen = row.scores.reduce((count, score) => count + (score > -Infinity), 0);
    if (seen) {
      const sum = row.scores.reduce(
        (total, score) => total + Math.exp(score - largest),
        Math.exp((row.sink ?? -Infinity) - largest),
      );
      const top = short(largest);
      const sink = row.sink === null ? "" : " and the sink";
      lines.push(
        [`exp(score − ${top})`, Math.exp(products.score - largest)],
        [`divided by the sum of these of ${seen} keys${sink}`, sum],
      );
    }
    lines.push(["= weight", weight]);
    if (row.norms !== null) {
      lines.push(["× ‖v W_O‖ of the key", row.norms[key]], ["= ‖weight · v W_O‖", weight * row.norms[key]]);
    }
    const cell = (value) => numberCell(short(value, 4));
    const rows = lines.map(([name, value]) => rowOf(name.startsWith("=") ? "sum" : "", name, cell(value)));
    return tableOf("from q·k to the weight", ["step", "value"], rows);
  }

  /** Table of the scores and weights of the query's strongest keys, with the current one among them. */
  #otherKeys(map, query, key, { scores, weights, sink }) {
    const places = largestPlaces(weights, STRONGEST_KEYS);
    if (!places.includes(key)) places.push(key);
    const decimals = decimalsFor(places.map((place) => scores[place]));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const rest = Math.max(
      places.reduce((left, place) => left - weights[place], total),
      0,
    );
    const ofSink = sink === null ? 0 : Math.max(1 - total, 0);
    const largest = Math.max(largestSize(weights), ofSink) || 1; // of the longest bar; sums of many weights have none
    const row = (className, name, score, weight, bar = /** @type {any} */ (shareBar(weight / largest))) =>
      rowOf(className, name, fixedCell(score, decimals), fixedCell(weight, 4), bar);
    const rows = places.map((place) => {
      const label = map.columns.label(place);
      const choose = make(
        "button",
        { type: "button", onclick: () => this.#app.state.set({ query, key: place }) },
        make("bdi", {}, label === undefined ? "not in this map" : shortened(label, 30)),
      );
      choose.disabled = label === undefined;
      const name = [choose, " ", label === String(place) ? "" : make("span", { className: "quiet" }, String(place))];
      return row(place === key ? "pinned" : "", name, scores[place], weights[place]);
    });
    const others =
      scores.reduce((count, score) => count + (score > -Infinity), 0) -
      places.filter((place) => scores[place] > -Infinity).length;
    if (others > 0) rows.push(row("", `the other ${others}`, null, rest, ""));
    if (sink !== null) rows.push(row("", "sink (no key)", sink, ofSink));
    return tableOf("the keys of this query", ["key", "score", "weight", ""], rows);
  }

  #allFeatures(products, terms) {
    const cell = (value) => numberCell(short(value, 6));
    const numbers = (f) => [products.query[f], products.key[f], terms[f]].map(cell);
    const rows = Array.from(terms, (_, f) => rowOf("", String(f), ...numbers(f)));
    const table = tableOf("features of the query and the key", ["feature", "q", "k", "q × k"], rows);
    return make("details", {}, make("summary", {}, "all features as numbers"), table);
  }
}

/** A cell of a column with a fixed number of decimals; empty for null. */
function fixedCell(value, decimals) {
  if (value === null) return numberCell("");
  return numberCell(Number.isFinite(value) ? fixed(value, decimals) : short(value));
}

/** Number of decimals that show the largest number in four digits. */
function decimalsFor(values) {
  const largest = largestSize(values.filter(Number.isFinite));
  return Math.min(Math.max(3 - Math.floor(Math.log10(largest || 1)), 0), 8);
}

function shareBar(share) {
  const length = make("span", { className: "length" });
  length.style.width = `${100 * share}%`;
  return make("td", { className: "bar-cell", "aria-hidden": "true" }, length);
}

/** A bar to the right of the middle, or to the left for a negative share. */
function signedBar(share) {
  const length = make("span", { className: `length ${share < 0 ? "negative" : "positive"}` });
  length.style.width = `${50 * Math.abs(share)}%`;
  return make("td", { className: "bar-cell signed", "aria-hidden": "true" }, length);
}

/** Whether the largest weight of a head is looked for without that of the first query. */
function leavesFirstOut(map) {
  const { start } = map.rows;
  return seesOneKey(map, start, start + 1);
}

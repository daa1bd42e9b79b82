// View of tables: those of a report, and the statistics of all heads over many sentences, coloured by their size.

import { make, numberCell, rove, rowOf, tableOf } from "./dom.js";
import { fixed } from "./numbers.js";
/** @import { Page } from "./main.js" */

export class TablesView {
  #app;
  #drawnDark = null; // whether it was drawn for a dark page; null: not drawn

  /** @param {Page} app */
  constructor(app) {
    this.#app = app;
    this.element = make("div", { className: "tables-view" });
    rove(this.element, ".averages button");
  }

  /** Draw the tables once for each theme, as nothing else changes them. */
  update() {
    const { dark } = this.#app.colours;
    if (dark === this.#drawnDark) return;
    this.#drawnDark = dark;
    const { statistics, tables } = this.#app.contents;
    this.element.replaceChildren(
      ...(statistics ?? []).map((averages) => this.#averages(averages)),
      ...(tables ?? []).map((described) => this.#table(described)),
    );
  }

  #table({ heading, columns, rows, notes }) {
    const cell = (text, at) => (columns[at].align === "right" ? numberCell(text) : make("td", {}, text));
    const table = tableOf(
      heading,
      columns.map((column) => column.heading),
      rows.map((row) => make("tr", {}, ...row.map(cell))),
    );
    return make(
      "section",
      {},
      make("div", { className: "scrolled", tabIndex: 0, role: "region", "aria-label": heading }, table),
      make("p", { className: "quiet" }, notes ?? ""),
    );
  }

  /** A small table of layers × heads for each measure; measures of one unit share a scale. */
  #averages(averages) {
    const { measures } = this.#app.contents;
    const shown = measures.filter((measure) => averages.means[measure.name]);
    return make(
      "section",
      { className: "averages" },
      make("h2", {}, averages.title),
      make(
        "div",
        { className: "measures" },
        ...shown.map((measure) => this.#measure(averages, measure)),
      ),
      make(
        "p",
        { className: "quiet" },
        "Rows are layers, columns heads. Choose a cell to see the head's map.",
      ),
    );
  }

  #measure(averages, measure) {
    const means = averages.means[measure.name];
    const heads = Math.max(...means.map((row) => row.length));
    const rows = means.map((row, at) =>
      rowOf(
        "",
        String(averages.layers[at]),
        ...row.map((mean, head) => this.#cell(averages, measure, at, head, mean / measure.high)),
      ),
    );
    const first = rows[0]?.querySelector("button");
    if (first) first.tabIndex = 0;
    const unit = make("span", { className: "quiet" }, measure.unit.replace(`${measure.name}, `, ""));
    const table = tableOf([`${measure.name} `, unit], ["", ...Array(heads).keys()], rows);
    table.caption.title = measure.meaning;
    table.style.minWidth = `${2.3 * heads + 2}em`;
    return make("div", { className: "scrolled" }, table);
  }

  #cell(averages, measure, at, head, share) {
    const mean = averages.means[measure.name][at][head];
    const number = (table) => table?.[measure.name]?.[at]?.[head] ?? null;
    const [spread, low, high, chance] = ["spreads", "lows", "highs", "chances"].map((part) =>
      number(averages[part]),
    );
    const text = mean === null ? "–" : fixed(mean, measure.decimals);
    const layer = averages.layers[at];
    const button = make(
      "button",
      { type: "button", tabIndex: -1, onclick: () => this.#open(averages.kind, layer, head) },
      text,
    );
    const written = (value) => fixed(value, measure.decimals);
    const parts = [
      spread === null ? "" : ` ± ${written(spread)}`,
      low === null || high === null ? "" : `, 95%: ${written(low)} to ${written(high)}`,
      chance === null ? "" : `, chance: ${written(chance)}`,
    ];
    const said = mean === null ? "no number" : text + parts.join("");
    button.title = `L${layer} H${head}: ${measure.name} ${said}`;
    if (mean !== null) {
      const colour = this.#app.colours.shade(share);
      button.style.backgroundColor = `rgb(${colour.join(" ")})`;
      button.style.color = this.#app.colours.inkOn(colour);
    }
    return button;
  }

  /** The head's map in the current example sentence, else in the first. */
  #open(kind, layer, head) {
    const { contents, state } = this.#app;
    const maps = contents.maps.filter((map) => map.kind === kind && map.layer === layer);
    const now = contents.maps[state.values.map];
    const map = maps.find((one) => now && one.isBeside(now)) ?? maps[0];
    if (map) this.#app.open(map, head);
  }
}

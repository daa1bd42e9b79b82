// Table of the strongest weights that the map shows, also for users who cannot see the map.

import { isolated, make, numberCell, rove, rowOf, shortened, tableOf } from "./dom.js";
import { short } from "./numbers.js";
import { chosenHeads, chosenName, largestPlaces, regionInSight, seesOneKey } from "./pieces.js";
/** @import { Page } from "./main.js" */

const LINKS = 12;
const LIST_DELAY = 100; // ms
export class LinksView {
  /** @param {Page} app */
  constructor(app) {
    this.app = app;
    this.table = make("div", { onclick: (event) => this.pin(event.target.closest("tbody tr")) });
    this.element = make("div", { className: "links" }, this.table);
    rove(this.table, "button");
  }

  /** Update after the map, which is more urgent. */
  update() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.makeList(), LIST_DELAY);
  }

  async makeList() {
    const asked = (this.asked = {});
    try {
      const region = await regionInSight(this.app, "links");
      if (asked === this.asked) this.draw(region);
    } catch (problem) {
      if (problem.cancelled || asked !== this.asked) return;
      this.table.replaceChildren(`The strongest weights cannot be listed: ${problem.message}`);
    }
  }

  draw({ map, part, values, queries, keys, placeOf, isInSight }) {
    const { query: pinnedQuery, key: pinnedKey, special, window } = this.app.state.values;
    const isFirstLeftOut = (window?.[0] ?? 0) === 0 && seesOneKey(map, queries.edges[0], queries.edges[1]);
    const isListed = (place) => {
      const [row, column] = placeOf(place);
      if (isFirstLeftOut && row === 0) return false;
      if (map.hasSink(keys.first(column), keys.edges[column + 1])) return false;
      return isInSight(row, column) && (special || !(queries.isSpecial(row) || keys.isSpecial(column)));
    };
    const places = largestPlaces(values, LINKS, isListed);
    const name = part === "change" ? "change" : map.quantity.name;
    const what = queries.areCells || keys.areCells ? "cells" : `${name}s`;
    const sinks = map.sinks.map((sink) => map.sinkName(sink)).join(", ");
    const without = [
      isFirstLeftOut ? ", without the first query, which sees one key alone" : "",
      sinks ? `, without ${isolated(sinks)}, which all queries look at` : "",
    ].join("");
    const whose = chosenName(map, chosenHeads(this.app.state.values));
    const caption = places.length
      ? `The strongest ${what}${window ? " in sight" : ""}${without}: ${whose}`
      : `There is no ${name} above zero${without}.`;
    const focused = document.activeElement?.closest(".links tbody tr")?.sectionRowIndex;
    this.links = places.map(placeOf);
    this.pieces = [queries, keys];
    const rows = this.links.map(([row, column], rank) => {
      const pinned = row === queries.of(pinnedQuery) && column === keys.of(pinnedKey);
      const button = make(
        "button",
        { type: "button", tabIndex: rank ? -1 : 0, "aria-pressed": pinned },
        ...this.words(queries, row),
      );
      const key = make("td", {}, ...this.words(keys, column));
      return rowOf(pinned ? "pinned" : "", button, key, numberCell(short(values[places[rank]], 4)));
    });
    this.table.replaceChildren(tableOf(caption, ["query", "key", name], rows));
    if (focused !== undefined) rows[Math.min(focused, rows.length - 1)]?.querySelector("button").focus();
  }

  words(pieces, piece) {
    const [text, positions] = [pieces.text(piece), pieces.positions(piece)];
    const token = make("bdi", {}, shortened(text, 40));
    return text === positions ? [token] : [token, " ", make("span", { className: "quiet" }, positions)];
  }

  /** Pin the query and the key of a row, or unpin them if they are pinned. */
  pin(row) {
    if (!row) return;
    const [query, key] = this.links[row.sectionRowIndex];
    const [queries, keys] = this.pieces;
    if (row.classList.contains("pinned")) {
      this.app.state.set({ query: null, key: null });
      this.app.say("Not pinned any more.");
      return;
    }
    this.app.state.set({ query: queries.first(query), key: keys.first(key) });
    this.app.say(`Pinned: query ${queries.name(query)}, key ${keys.name(key)}.`);
  }
}

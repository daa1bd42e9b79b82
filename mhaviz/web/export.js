// What is shown, to take along: a picture as PNG, the weights as CSV; to the clipboard, else as a file.

import { make } from "./dom.js";
import { fitted, FONT } from "./drawing.js";
import { headName, regionInSight } from "./pieces.js";

const COPIED_CHARACTERS = 4e6; // longer tables are saved as a file
const PICTURE_SCALE = 2; // pixels of a PNG for each of the screen's

export class Exporter {
  #app;
  #url = null;

  /** @param {{contents, asking, state, colours, views, say}} app */
  constructor(app) {
    this.#app = app;
    this.element = make("p", { className: "told", hidden: true });
  }

  /** The address; where the browser refuses, to be copied by hand. */
  async link() {
    const { link } = this.#app.state;
    try {
      await navigator.clipboard.writeText(link);
      this.#tell("The link is copied.");
    } catch {
      const field = make("input", { type: "text", readOnly: true, value: link, "aria-label": "link to what is shown" });
      this.#tell("Copy this link: ", field);
      field.select();
    }
  }

  /** The map or the overview as a picture, with its title and footnote. */
  async png() {
    const { view } = this.#app.state.values;
    if (view !== "map" && view !== "overview") {
      this.#tell("There is no picture of this view: choose the map or the overview.");
      return;
    }
    const picture = this.#withTitle(this.#app.views[view].picture(PICTURE_SCALE), PICTURE_SCALE);
    const blob = new Promise((resolve, reject) => {
      picture.toBlob(
        (made) => (made ? resolve(made) : reject(new Error("it is too large for this browser"))),
        "image/png",
      );
    });
    await this.#hand("The picture", `${this.#fileName(view)}.png`, "image/png", blob);
  }

  /** The weights in sight as a table: a line for each query and key; those hidden by a mask are left out. */
  async csv() {
    const text = this.#table();
    const blob = text.then((table) => new Blob([table], { type: "text/plain" }));
    await this.#hand("The table", `${this.#fileName("map")}.csv`, "text/plain", blob);
  }

  async #table() {
    const { contents, state } = this.#app;
    const map = contents.maps[state.values.map];
    const parts = map.parts.map((part) => part.name);
    const regions = [];
    for (const part of parts) regions.push(await regionInSight(this.#app, "csv", part));
    const [{ queries, keys, placeOf, isInSight, isHidden, values }] = regions;
    const names = parts.length > 1 ? parts : [map.quantity.name];
    const lines = [["query_position", "query", "key_position", "key", ...names].join(",")];
    for (let place = 0; place < values.length; place++) {
      const [row, column] = placeOf(place);
      if (!isInSight(row, column) || isHidden(row, column)) continue;
      lines.push(
        [
          queries.positions(row),
          csvText(queries.exactText(row)),
          keys.positions(column),
          csvText(keys.exactText(column)),
          ...regions.map((region) => csvNumber(region.values[place])),
        ].join(","),
      );
    }
    return `${lines.join("\r\n")}\r\n`;
  }

  /** The picture with the title above it and the footnote below. */
  #withTitle(picture, scale) {
    const { contents, colours } = this.#app;
    const [size, margin] = [14 * scale, 12 * scale];
    const canvas = make("canvas", {
      width: Math.max(picture.width, 480 * scale) + 2 * margin,
      height: picture.height + 2 * (size + 2 * margin),
    });
    const context = canvas.getContext("2d");
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(picture, margin, size + 2 * margin);
    const write = (text, font, colour, baseline, y) => {
      context.font = font;
      context.fillStyle = colour;
      context.textBaseline = baseline;
      context.fillText(fitted(context, text, canvas.width - 2 * margin, text.length), margin, y);
    };
    write(contents.title, `600 ${size}px ${FONT}`, colours.ink, "top", margin);
    write(contents.footnote, `${0.8 * size}px ${FONT}`, colours.quiet, "bottom", canvas.height - margin);
    return canvas;
  }

  #fileName(view) {
    const { contents, state } = this.#app;
    const map = contents.maps[state.values.map];
    const name = view === "map" ? headName(map, state.values.head) : view;
    return `mhaviz-${name.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;
  }

  /** Copies what comes, or where the browser does not let us saves it; says what was done. */
  async #hand(what, name, type, coming) {
    try {
      const isCopied = await this.#copied(type, coming);
      const blob = await coming;
      if (this.#url) URL.revokeObjectURL(this.#url);
      this.#url = URL.createObjectURL(blob);
      const link = make("a", { href: this.#url, download: name }, isCopied ? "save it as a file" : name);
      if (!isCopied) link.click();
      this.#tell(`${what} is ${isCopied ? "copied" : "saved"}: `, link);
    } catch (problem) {
      this.#tell(problem.cancelled ? "" : `${what} could not be made: ${problem.message}.`);
    }
  }

  /** Whether it is in the clipboard now. Asked for at once, as browsers only let us right after a key or a click. */
  async #copied(type, coming) {
    const small = coming.then((blob) => {
      if (type === "text/plain" && blob.size > COPIED_CHARACTERS) throw new Error("too long to copy");
      return blob;
    });
    small.catch(() => {}); // told of by whoever awaits what comes
    try {
      await navigator.clipboard.write([new ClipboardItem({ [type]: small })]);
      return true;
    } catch {
      return false;
    }
  }

  #tell(text, ...links) {
    this.element.hidden = text === "";
    this.element.replaceChildren(text, ...links);
    this.#app.say(this.element.textContent);
  }
}

/** A text in quotes, quotes inside doubled. */
function csvText(text) {
  return `"${text.replaceAll('"', '""')}"`;
}

/** A float32 in as few digits as tell it from all others. */
function csvNumber(value) {
  return String(Number(value.toPrecision(9)));
}

// What is shown, to take along: its link, and the map as a PNG; to the clipboard, else as a file.

import { make } from "./dom.js";
import { headName } from "./pieces.js";
/** @import { Page } from "./main.js" */

export class Exporter {
  #app;
  #url = "";

  /** @param {Page} app */
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

  /** The map as it is on the screen. */
  async png() {
    const { state, views, colours } = this.#app;
    if (state.values.view !== "map") {
      this.#tell("Only the map can be copied: choose it first.");
      return;
    }
    const { canvas } = views.map;
    const picture = make("canvas", { width: canvas.width, height: canvas.height });
    const context = picture.getContext("2d");
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, picture.width, picture.height);
    context.drawImage(canvas, 0, 0);
    const coming = new Promise((resolve) => picture.toBlob(resolve, "image/png"));
    const copied = await this.#copied(coming);
    URL.revokeObjectURL(this.#url);
    this.#url = URL.createObjectURL(await coming);
    const name = `mhaviz-${headName(state.map, state.values.head).toLowerCase().replace(/[^a-z0-9]+/g, "-")}.png`;
    const link = make("a", { href: this.#url, download: name }, copied ? "save it as a file" : name);
    if (!copied) link.click();
    this.#tell(`The picture is ${copied ? "copied" : "saved"}: `, link);
  }

  /** Whether it is in the clipboard now. Asked for at once, as browsers only let us right after a key or a click. */
  async #copied(coming) {
    try {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": coming })]);
      return true;
    } catch {
      return false;
    }
  }

  #tell(text, ...links) {
    this.element.hidden = false;
    this.element.replaceChildren(text, ...links);
    this.#app.say(this.element.textContent);
  }
}

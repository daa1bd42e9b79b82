// Numbers as colours: linear, logarithmic or row by row, on light and dark pages. A weight of 0 has the background.

import { bytesOfBase64 } from "./codes.js";
import { short } from "./numbers.js";
/** @import { Contents } from "./contents.js" */
/** @import { State } from "./state.js" */

/** Colours of the page, which the stylesheet has as variables, such as --ink. */
const THEMES = {
  light: {
    paper: "#ffffff",
    ink: "#1a1a1a",
    quiet: "#5f6368",
    line: "#dadce0",
    soft: "#f3f5f8",
    accent: "#2a5db0",
    wrong: "#b3261e",
    positive: "#b2182b",
    negative: "#2166ac",
  },
  dark: {
    paper: "#16181c",
    ink: "#e8eaed",
    quiet: "#9aa0a6",
    line: "#3c4043",
    soft: "#202328",
    accent: "#8ab4f8",
    wrong: "#f2b8b5",
    positive: "#ffae86",
    negative: "#63a8ee",
  },
};

/** Scale of sinks: keys that all queries give weight. */
export const OF_SINKS = { isOfSinks: true, low: 0, high: 1, ends: ["0", "1"] };

export class Colours {
  #state;
  #prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  #palettes;
  #ofHeads; // of light and of dark pages

  /**
   * @param {Contents} contents
   * @param {State} state gives the theme and scale
   */
  constructor(contents, state) {
    this.#state = state;
    const read = ([light, dark]) => ({ light: bytesOfBase64(light), dark: bytesOfBase64(dark) });
    this.#palettes = Object.fromEntries(Object.entries(contents.palettes).map(([name, both]) => [name, read(both)]));
    this.#ofHeads = contents.headColours;
    this.follow();
  }

  /** @param {() => void} tell called when the system switches between light and dark */
  onSystemChange(tell) {
    this.#prefersDark.addEventListener("change", tell);
  }

  get dark() {
    const { theme } = this.#state.values;
    return theme === "auto" ? this.#prefersDark.matches : theme === "dark";
  }

  /** Set the colours of the current theme as properties: `ink`, `paper`, … */
  follow() {
    const { style, dataset } = document.documentElement;
    dataset.theme = style.colorScheme = this.dark ? "dark" : "light";
    for (const [name, colour] of Object.entries(THEMES[dataset.theme])) {
      this[name] = colour;
      style.setProperty(`--${name}`, colour);
    }
  }

  /** Colours of lines of heads, in the order of the heads. */
  get ofHeads() {
    return this.#ofHeads[Number(this.dark)];
  }

  /** Identifies the current colours: pictures are kept as long as it is the same. */
  get key() {
    return `${this.dark} ${this.#state.values.scale}`;
  }

  /**
   * Return the ends of a scale as it is drawn now.
   *
   * @returns {{low: number, high: number, ends: string[], log: boolean, perRow: boolean}} per row: shares of the row's
   *   largest; ends: their texts
   */
  range(scale) {
    const { low, high, ends } = scale;
    if (scale.isOfSinks) return { low, high, ends, log: false, perRow: false };
    if (scale.ratios) return { low, high, ends, log: true, perRow: false }; // with 1 in the middle
    const mode = this.#state.values.scale;
    if (mode === "rows") {
      const least = scale.signed ? -1 : 0;
      return { low: least, high: 1, ends: [short(least), "largest of its row"], log: false, perRow: true };
    }
    if (mode === "log" && !scale.signed)
      return { low: scale.logLow, high: scale.logHigh, ends: scale.logEnds, log: true, perRow: false };
    return { low, high, ends, log: false, perRow: false };
  }

  /**
   * Return the colour of a number; NaN has that of the background.
   *
   * @param {number} value
   * @param {any} scale one of the document's
   * @param {number} [rowLargest] largest number of its row, where each row has its own scale
   * @returns {number[]} red, green, blue, 0 to 255
   */
  rgb(value, scale, rowLargest = 1) {
    const palette = this.#palette(scale);
    const place = 3 * this.#placing(scale)(value, rowLargest);
    return [palette[place], palette[place + 1], palette[place + 2]];
  }

  /**
   * Return a colour of a scale by its place along the colour bar, 0 to 1.
   *
   * @param {number} share
   * @param {any} [scale] one of the document's; that of weights if it is left out
   * @returns {number[]} red, green, blue
   */
  shade(share, scale = {}) {
    const place = 3 * paletteIndex(share);
    return [...this.#palette(scale).subarray(place, place + 3)];
  }

  /** Black or white, whichever has more contrast on a colour, by WCAG's relative luminance. @param {number[]} rgb */
  inkOn([red, green, blue]) {
    const linear = (channel) => {
      const share = channel / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    };
    const luminance = 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    return luminance > 0.179 ? "#000000" : "#ffffff"; // at which both contrasts are equal
  }

  /**
   * Paint numbers, one pixel each. Hidden and missing numbers (NaN) stay transparent.
   *
   * @param {ImageData} imageData columns wide, rows high
   * @param {Float32Array} values rows × columns
   * @param {any} scale one of the document's
   * @param {object} options
   * @param {number} options.rows
   * @param {number} options.columns
   * @param {Uint8Array} [options.hidden] rows × columns, 1: hidden
   * @param {number[]} [options.sinks] columns with a scale of their own
   */
  fill(imageData, values, scale, { rows, columns, hidden = null, sinks = [] }) {
    const pixels = new Uint32Array(imageData.data.buffer);
    const isShown = (at) => values[at] === values[at] && (hidden === null || !hidden[at]);
    const [colours, placeOf] = [this.#pixels(scale), this.#placing(scale)];
    const perRow = this.range(scale).perRow;
    for (let row = 0, at = 0; row < rows; row++) {
      const largest = perRow ? largestSize(values.subarray(at, at + columns), sinks) : 1;
      for (const end = at + columns; at < end; at++)
        pixels[at] = isShown(at) ? colours[placeOf(values[at], largest)] : 0;
    }
    if (!sinks.length) return;
    const [greys, greyOf] = [this.#pixels(OF_SINKS), this.#placing(OF_SINKS)];
    for (let row = 0; row < rows; row++) {
      for (const at of sinks.map((column) => row * columns + column))
        pixels[at] = isShown(at) ? greys[greyOf(values[at], 1)] : 0;
    }
  }

  /** The 256 colours of a scale as pixels. */
  #pixels(scale) {
    const palette = this.#palette(scale);
    return Uint32Array.from(
      { length: 256 },
      (_, i) => ((255 << 24) | (palette[3 * i + 2] << 16) | (palette[3 * i + 1] << 8) | palette[3 * i]) >>> 0,
    );
  }

  #palette(scale) {
    const { weights, changes, sinks, patches } = this.#palettes;
    const palettes = scale.isOfPatches ? patches : scale.isOfSinks ? sinks : scale.signed || scale.ratios ? changes : weights;
    return this.dark ? palettes.dark : palettes.light;
  }

  /** Return a function from a number, and the largest of its row, to one of the 256 colours. */
  #placing(scale) {
    const { low, high, log, perRow } = this.range(scale);
    if (log) {
      const start = Math.log(low);
      const length = Math.log(high) - start || 1;
      return (value) => (value > low ? paletteIndex((Math.log(value) - start) / length) : 0);
    }
    const length = high - low || 1;
    return (value, largest) => paletteIndex((value / (perRow ? largest || 1 : 1) - low) / length);
  }
}

/** Index of the colour, of 256, of a share from 0 to 1. */
function paletteIndex(share) {
  return Math.min(Math.max(Math.floor(share * 256), 0), 255);
}

/** Largest absolute value of these numbers; missing ones, and those at some places, are ignored. */
export function largestSize(values, except = []) {
  let largest = 0;
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i]);
    if (size > largest && !except.includes(i)) largest = size;
  }
  return largest;
}

// One text as words to point at, shaded by their weights: a running text, or a column beside lines.

import { isolated, make, rove, shortened } from "./dom.js";
import { fixed, short } from "./numbers.js";
import { largestPlaces } from "./pieces.js";
/** @import { Colours } from "./colours.js" */
/** @import { Pieces } from "./pieces.js" */

export const TOKENS_SHOWN = 300; // most tokens of a text shown at a time
const NAMED = 5; // words with their weights as numbers
const LEAST_NAMED = 0.02; // least weight of such a word, as a share of the largest
const NUMBER_WIDTH = 26; // pixels of such a number

export class Words {
  /**
   * @param {string} role "query" or "key"
   * @param {any} listener {onPoint(position or null, by keyboard), onPin(position, with Shift), onGo(first position to
   *   show of a long text)}
   */
  constructor(role, { onPoint, onPin, onGo }) {
    this.role = role;
    this.words = [];
    this.listener = { onPoint, onPin, onGo };
    this.heading = make("h3");
    this.list = make("div", { className: "words", role: "listbox" });
    this.elsewhere = make("p", { className: "elsewhere quiet" });
    this.pager = this.makePager();
    this.element = make(
      "section",
      { className: `text ${role}` },
      this.heading,
      this.pager,
      this.list,
      this.elsewhere,
    );
    this.listen();
  }

  listen() {
    const { onPoint, onPin } = this.listener;
    const positionAt = (event) => {
      const word = event.target.closest(".word");
      return word ? this.pieces.first(Number(word.dataset.piece)) : null;
    };
    this.list.addEventListener("pointerover", (event) => {
      const position = positionAt(event);
      if (position !== null) onPoint(position, false);
    });
    this.list.addEventListener("pointerleave", () => onPoint(null, false));
    this.list.addEventListener("focusin", (event) => onPoint(positionAt(event), true));
    this.list.addEventListener("focusout", () => onPoint(null, true));
    this.list.addEventListener("click", (event) => {
      const position = positionAt(event);
      if (position !== null) onPin(position, event.shiftKey);
    });
    this.list.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      event.stopPropagation();
      onPin(positionAt(event), event.shiftKey);
    });
    rove(this.list, ".word");
  }

  makePager() {
    const turn = (by) => () =>
      this.listener.onGo(this.pieces.first(Math.min(Math.max(this.start + by, 0), this.pieces.count - 1)));
    this.earlier = make("button", { type: "button", onclick: turn(-TOKENS_SHOWN) }, "earlier");
    this.later = make("button", { type: "button", onclick: turn(TOKENS_SHOWN) }, "later");
    this.range = make("span", { className: "quiet" });
    this.field = make("input", {
      type: "number",
      onchange: () => this.field.value !== "" && this.listener.onGo(Number(this.field.value)),
    });
    return make(
      "p",
      { className: "pager" },
      this.earlier,
      this.later,
      this.range,
      make("label", {}, "go to position ", this.field),
    );
  }

  /**
   * Show the pieces from `start` on as words, at most TOKENS_SHOWN.
   *
   * @param {Pieces} pieces
   * @param {number} start
   * @param {boolean} special whether special tokens are shown
   * @returns {boolean} whether the words have changed
   */
  show(pieces, start, special) {
    const isSame = this.isOf(pieces) && start === this.start && special === this.special;
    Object.assign(this, { pieces, start, special, end: Math.min(start + TOKENS_SHOWN, pieces.count) });
    this.pager.hidden = pieces.count <= TOKENS_SHOWN;
    if (isSame) return false;
    this.words = [];
    const content = [];
    for (let piece = start; piece < this.end; piece++) {
      if (!special && pieces.isSpecial(piece)) continue;
      const text = pieces.text(piece);
      if (content.length && !pieces.side.joined.has(pieces.first(piece))) content.push(" ");
      const word = make(
        "span",
        { className: "word", role: "option", tabIndex: -1 },
        make("bdi", { className: "label" }, shortened(text, 60)),
        make("span", { className: "amount" }),
      );
      word.dataset.piece = String(piece);
      word.title = `${shortened(text, 400)} (${pieces.positions(piece)})`;
      this.words.push(word);
      content.push(word);
    }
    if (this.words.length) this.words[0].tabIndex = 0;
    this.list.dir = isRightToLeft(this.words.map((word) => word.textContent)) ? "rtl" : "ltr";
    this.list.replaceChildren(...content);
    this.showPager();
    return true;
  }

  /** First piece to show: at the position `from`, else so that the pinned one is visible. */
  startOf(pieces, from, pinned = null) {
    const within = (start) => Math.max(Math.min(start, pieces.count - TOKENS_SHOWN), 0);
    if (from !== undefined) return within(pieces.of(from));
    const at = pieces.of(pinned);
    if (this.isOf(pieces) && (at < 0 || (at >= this.start && at < this.end))) return this.start;
    return at < 0 ? 0 : within(at - TOKENS_SHOWN / 2);
  }

  /** Positions of the words to show from a position on, else from the first one shown: [first, end]. */
  rangeFrom(position = this.pieces.first(this.start)) {
    const { pieces } = this;
    const first = pieces.of(Math.min(Math.max(position, pieces.first(0)), pieces.end - 1));
    const from = Math.max(Math.min(first, pieces.count - TOKENS_SHOWN), 0);
    return [pieces.first(from), pieces.edges[Math.min(from + TOKENS_SHOWN, pieces.count)]];
  }

  /** Scroll to the word of a piece, if it is among the words and not visible. */
  reveal(piece) {
    const word = this.words.find((one) => Number(one.dataset.piece) === piece);
    if (!word) return;
    const { top, bottom } = word.getBoundingClientRect();
    if (top < 0 || bottom > window.innerHeight) word.scrollIntoView({ block: "center" });
  }

  /** Whether the current words are of the same text in the same pieces. */
  isOf(pieces) {
    return this.pieces?.side.labels === pieces.side.labels && this.pieces.count === pieces.count;
  }

  showPager() {
    const { pieces, start, end } = this;
    this.earlier.disabled = start === 0;
    this.later.disabled = end === pieces.count;
    this.range.textContent = `tokens ${pieces.first(start)}–${pieces.edges[end] - 1} of ${pieces.side.tokens}`;
    Object.assign(this.field, { min: pieces.first(0), max: pieces.end - 1, value: pieces.first(start) });
  }

  /** Set the text that says what the shades mean, also for screen readers. */
  set title(text) {
    this.heading.textContent = text;
    this.list.setAttribute("aria-label", text);
  }

  /** Outline the pointed and the pinned word, given as pieces; −1 for none. */
  mark(active, pinned) {
    for (const word of this.words) {
      const piece = Number(word.dataset.piece);
      word.classList.toggle("active", piece === active);
      word.classList.toggle("is-pinned", piece === pinned);
      word.setAttribute("aria-selected", piece === pinned);
    }
  }

  /**
   * Shade the words by the weights of one head (or the mean of some).
   *
   * @param {Float32Array|undefined} weights weights of all pieces, if known
   * @param {(a: number, b: number) => number[]|null} rgb colour of a weight and its piece; null where it is not shown
   * @param {Colours} colours
   * @param {(a: number) => boolean} isHidden whether a piece can have no weight
   */
  shade(weights, rgb, colours, isHidden) {
    const named = new Set(weights ? this.strongest(weights) : []);
    for (const word of this.words) {
      const piece = Number(word.dataset.piece);
      const value = weights ? weights[piece] : 0;
      const colour = weights ? rgb(value, piece) : null;
      word.style.backgroundColor = colour ? `rgb(${colour.join(" ")})` : "";
      word.style.color = colour ? colours.inkOn(colour) : "";
      word.classList.toggle("missing", Number.isNaN(value));
      word.classList.toggle("masked", weights !== undefined && isHidden(piece));
      word.lastChild.textContent = named.has(piece) ? amountText(value) : "";
    }
    this.#separate(this.words.filter((word) => word.lastChild.textContent));
  }

  /** Move every other number below short words down, as neighbours would overlap. */
  #separate(named) {
    const places = named.map((word) => [word.offsetLeft + word.offsetWidth / 2, word.offsetTop]);
    let isLower = false;
    for (const [at, word] of named.entries()) {
      const isClose =
        at > 0 &&
        places[at][1] === places[at - 1][1] &&
        Math.abs(places[at][0] - places[at - 1][0]) < NUMBER_WIDTH;
      isLower = isClose && !isLower;
      word.lastChild.classList.toggle("lower", isLower);
    }
  }

  /** "it 0.42, animal 0.21": the shown words with the largest weights. */
  told(weights) {
    return (
      this.strongest(weights)
        .map((piece) => `${isolated(shortened(this.pieces.text(piece), 30))} ${amountText(weights[piece])}`)
        .join(", ") || "nothing"
    );
  }

  /** The shown pieces with the largest weights, without those that are small beside the largest. */
  strongest(weights) {
    const shown = weights.subarray(this.start, this.end);
    const places = largestPlaces(shown, NAMED);
    return places
      .filter((place) => Math.abs(shown[place]) >= LEAST_NAMED * Math.abs(shown[places[0]]))
      .map((place) => this.start + place);
  }

  /**
   * Write which share of a row is outside the shown tokens, with a way to go there.
   *
   * @param {Float32Array|undefined} weights weights of all pieces, if known
   * @param {boolean} haveSum whether the weights can be summed, as the largest weights of cells cannot
   */
  tellElsewhere(weights, haveSum) {
    this.elsewhere.replaceChildren();
    if (!weights) return;
    if (this.end - this.start === this.pieces.count) return;
    const isOutside = (piece) => piece < this.start || piece >= this.end;
    const total = weights.reduce(
      (sum, value, piece) => sum + (isOutside(piece) ? Math.abs(value) || 0 : 0),
      0,
    );
    this.elsewhere.append(`on tokens not shown here${haveSum ? `: ${amountText(total)} in all` : ""}`);
    for (const piece of largestPlaces(weights, 3, isOutside)) {
      const go = () => this.listener.onGo(this.pieces.first(piece) - Math.floor(TOKENS_SHOWN / 2));
      this.elsewhere.append(
        "; ",
        make("button", { type: "button", onclick: go }, this.pieces.name(piece, 20)),
        ` ${amountText(weights[piece])}`,
      );
    }
  }
}

/** Whether most of the texts are in a right-to-left script. */
function isRightToLeft(texts) {
  const count = (pattern) => texts.filter((text) => pattern.test(text)).length;
  return (
    count(/[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}]/u) >
    count(/\p{Script=Latin}/u)
  );
}

/** A weight as in the cell of a map, in one digit where that would be 0: 0.42, 0.003, −0.10. */
function amountText(value) {
  const text = fixed(value, 2);
  return Number(text) === 0 ? short(value, 1) : text;
}

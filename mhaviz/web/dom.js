// Elements of the page. Texts only become text nodes, so that no token can be markup.

/**
 * Return a new element. Properties that the DOM knows are set as such, all others become attributes.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Object<string, any>} properties such as {className: "note", "aria-live": "polite", onclick: pin}
 * @param {...any} children nodes and texts
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/**
 * Make one tab stop of many elements: arrow keys, Home and End move between them, up and down by their places.
 *
 * @param {HTMLElement} container
 * @param {string} selector selects the elements inside it
 */
export function rove(container, selector) {
  container.addEventListener("keydown", (event) => {
    const items = [...container.querySelectorAll(selector)];
    const here = items.indexOf(/** @type {any} */ (event.target).closest(selector));
    if (here < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = neighbour(items, here, event.key);
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    next.focus();
  });
  container.addEventListener("focusin", (event) => {
    const item = /** @type {any} */ (event.target).closest(selector);
    if (!item) return;
    for (const other of container.querySelectorAll(`${selector}[tabindex="0"]`)) other.tabIndex = -1;
    item.tabIndex = 0;
  });
}

/** [down, across]: the cells that a key moves a crosshair by; undefined for other keys. */
export function stepOf({ key, shiftKey }) {
  const far = shiftKey ? 10 : 1;
  return {
    ArrowUp: [-far, 0],
    ArrowDown: [far, 0],
    ArrowLeft: [0, -far],
    ArrowRight: [0, far],
    PageUp: [-10, 0],
    PageDown: [10, 0],
    Home: [0, -Infinity],
    End: [0, Infinity],
  }[key];
}

/** Element that a key leads to from items[here]; undefined for other keys. */
function neighbour(items, here, key) {
  const mirrored = getComputedStyle(items[here]).direction === "rtl";
  switch (key) {
    case "Home":
      return items[0];
    case "End":
      return items.at(-1);
    case "ArrowLeft":
      return items[here + (mirrored ? 1 : -1)];
    case "ArrowRight":
      return items[here + (mirrored ? -1 : 1)];
    case "ArrowUp":
      return across(items, items[here], -1);
    case "ArrowDown":
      return across(items, items[here], 1);
  }
}

/** Nearest element in the line before (side −1) or after (1) that of the item. */
function across(items, item, side) {
  const middle = (box) => [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
  const box = item.getBoundingClientRect();
  const [x, y] = middle(box);
  let best,
    least = Infinity;
  for (const other of items) {
    const [otherX, otherY] = middle(other.getBoundingClientRect());
    const down = (otherY - y) * side;
    if (down < box.height / 2) continue;
    const far = down * 1e4 + Math.abs(otherX - x);
    if (far < least) [best, least] = [other, far];
  }
  return best;
}

/** A text shortened in the middle to at most `length` characters; surrogate pairs are never split. */
export function shortened(text, length) {
  if (text.length <= length) return text;
  const characters = [...text];
  if (characters.length <= length) return text;
  const kept = Math.max(length - 1, 0);
  const start = characters.slice(0, Math.ceil(kept / 2));
  const end = characters.slice(characters.length - Math.floor(kept / 2));
  return `${start.join("")}…${end.join("")}`;
}

/** A token inside a sentence, between Unicode's isolates: right-to-left text in it does not reorder the rest. */
export function isolated(text) {
  return `\u2068${text}\u2069`;
}

/**
 * Return a table, whose headings are aligned like the cells of its first row.
 *
 * @param {string|Array<Node|string>} caption
 * @param {Array<string|number>} headings
 * @param {HTMLTableRowElement[]} rows
 */
export function tableOf(caption, headings, rows) {
  const heading = (text, at) => make("th", { scope: "col", className: rows[0]?.cells[at]?.className ?? "" }, text);
  return make(
    "table",
    {},
    make("caption", {}, ...[caption].flat()),
    make("thead", {}, make("tr", {}, ...headings.map(heading))),
    make("tbody", {}, ...rows),
  );
}

/** A row: its name, one node or several, and its other cells; texts become cells. */
export function rowOf(className, name, ...cells) {
  return make(
    "tr",
    { className },
    make("th", { scope: "row" }, ...[name].flat()),
    ...cells.map((cell) => (cell instanceof HTMLTableCellElement ? cell : make("td", {}, cell))),
  );
}

export function numberCell(text) {
  return make("td", { className: "number" }, text);
}

/** A choice among a few options, as a drop-down list. */
export class Choice {
  /**
   * @param {string} words label before it
   * @param {(a: string) => void} onChoose
   * @param {Array<string|string[]>} options [value, words] of each, or the value where the words are the same
   */
  constructor(words, onChoose, options = []) {
    this.list = make("select", { onchange: () => onChoose(this.list.value) });
    this.element = make("label", {}, `${words} `, this.list);
    this.options = options;
  }

  /** Replace the options unless they are the same, as an open list would close. */
  set options(options) {
    const wanted = options.map((option) => [option].flat()).map(([value, words = value]) => [value, words]);
    const now = [...this.list.options].map(({ value, text }) => [value, text]);
    if (JSON.stringify(now) === JSON.stringify(wanted)) return;
    this.list.replaceChildren(...wanted.map(([value, words]) => make("option", { value }, words)));
  }

  set value(value) {
    this.list.value = value;
  }
}

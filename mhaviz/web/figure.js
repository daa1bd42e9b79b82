// Maps on a canvas, drawn like a figure in a paper: titles, colour bars, labels, outlines, and a crosshair.

import { OF_SINKS } from "./colours.js";
import { shortened } from "./dom.js";
import { drawBar, drawImage, drawLines, eachRun, fitted, FONT, hatch, LABEL_LENGTH } from "./drawing.js";
import { cellText } from "./numbers.js";
/** @import { Axis } from "./axis.js" */
/** @import { Colours } from "./colours.js" */
/** @import { Tile } from "./tile.js" */

const TOP = 46; // for title and colour bar; all lengths here are in CSS pixels
const SINKS = 26; // for the colour bar of sinks
const GAP = 28; // between maps
const RIGHT = 8; // for half of the last label
const LARGEST_CELL = 56;
const LINE = 12.5; // from one label to the next
const NAME = 16; // for the name of a side
const DIGIT = 0.72; // width of a cell for each character of its number, as a share of the font's size
const SHORTEST_NUMBER = 4; // characters that a number in a cell has room for at least
const LEAST_NUMBER = 8.3; // font size
const LABEL_FONT = `12px ${FONT}`;

/**
 * Contents of a figure.
 *
 * @typedef {any} Scene
 * @property {string} title
 * @property {{rows: Axis, columns: Axis}} axes
 * @property {string[]} sides names of the rows and of the columns
 * @property {number[]} sight [q0, q1, k0, k1]: the visible window, in positions with fractions
 * @property {Array<{part: any, scale: any, layer: Tile|null, thumb: HTMLCanvasElement|null}>} panels
 *   the maps; a thumbnail stands in for a layer until its numbers are there
 */

export class MapFigure {
  #ruler = document.createElement("canvas").getContext("2d");

  /** @param {Colours} colours */
  constructor(colours) {
    this.colours = colours;
    this.frames = [];
  }

  /**
   * Choose the places of all maps, and set `width` and `height` of the figure.
   *
   * @param {{width: number, height: number, isFilled?: boolean}} room filled: with cells of any shape, without a title
   * @param {{rows: Axis, columns: Axis}} axes
   * @param {number} count number of maps: side by side, or one below the other where that is too narrow
   * @param {boolean} hasSinks whether some columns are sinks
   */
  arrange(room, { rows, columns }, count, hasSinks) {
    this.isFilled = room.isFilled ?? false;
    this.top = TOP + (hasSinks && !this.isFilled ? SINKS : 0);
    this.left = this.#labelRoom(rows, Math.min(150, 0.27 * room.width), room.height) + NAME;
    const below = this.#labelRoom(columns, 110, room.width);
    this.bottom = below + NAME;
    const perLine = room.width < this.left + 200 * count ? 1 : count;
    const across = (room.width - this.left - GAP * (perLine - 1) - RIGHT) / perLine;
    const down = perLine < count ? Infinity : room.height - this.top - this.bottom;
    const aspect = Math.min(Math.max(columns.length / Math.max(rows.length, 1), 1 / 3), 3);
    const limit = Math.min(across, LARGEST_CELL * columns.length, this.isFilled ? Infinity : Math.max(down, 180) * aspect);
    const width = Math.floor(Math.max(limit, Math.min(across, 150)));
    const height = Math.floor(this.isFilled ? Math.max(down, 60) : width / aspect);
    this.isFlat = below <= width / columns.length; // labels of keys fit into their columns
    if (this.isFlat) this.bottom = 24 + NAME;
    const lineHeight = this.top + height + this.bottom;
    this.left = Math.ceil(this.left);
    this.frames = Array.from({ length: count }, (_, i) => ({
      x: this.left + (i % perLine) * (width + GAP),
      y: Math.floor(i / perLine) * (lineHeight + GAP) + this.top,
      width,
      height,
      isFirst: i % perLine === 0,
    }));
    const lines = count / perLine;
    this.width = this.left + perLine * (width + GAP) - GAP + RIGHT;
    this.height = lines * (lineHeight + GAP) - GAP;
  }

  /** @param {CanvasRenderingContext2D} context @param {Scene} scene */
  paint(context, scene) {
    this.frames.forEach((frame, i) => {
      const panel = scene.panels[i];
      this.#paintHead(context, frame, scene, panel);
      if (panel.layer) {
        this.#paintLayer(context, frame, scene, panel.layer);
        this.#paintDetails(context, frame, scene, panel.layer);
      } else if (panel.thumb) {
        this.#paintThumb(context, frame, scene, panel.thumb);
      }
      this.#paintLabels(context, frame, scene);
    });
  }

  /**
   * Draw the pinned row and column and the crosshair, on a canvas above.
   *
   * @param {CanvasRenderingContext2D} context
   * @param {Scene} scene
   * @param {{row: number|null, column: number|null}} cursor indexes on the axes
   * @param {{row: number|null, column: number|null}} pinned
   */
  mark(context, scene, cursor, pinned) {
    for (const frame of this.frames) {
      const view = new FrameView(frame, scene);
      context.save();
      context.beginPath();
      context.rect(frame.x - 1, frame.y - 1, frame.width + 2, frame.height + 2);
      context.clip();
      if (pinned.row !== null && pinned.column !== null)
        this.#ring(context, view.cell(pinned.row, pinned.column));
      if (cursor.row !== null)
        this.#lines(context, view.rowBand(cursor.row), view.cell(cursor.row, cursor.column), true);
      if (cursor.column !== null) {
        this.#lines(context, view.columnBand(cursor.column), view.cell(cursor.row, cursor.column), false);
      }
      context.restore();
      this.#light(context, frame, scene, pinned, false);
      this.#light(context, frame, scene, cursor, true);
    }
  }

  /** Row and column at a point of the figure, at a label of a row the row alone; null if it is not on a map. */
  at(x, y, scene) {
    const frame = this.frames.find((one) => y >= one.y && y < one.y + one.height && x < one.x + one.width);
    if (!frame || (x < frame.x && !frame.isFirst)) return null;
    const cell = new FrameView(frame, scene).at(x, y);
    return x < frame.x ? { ...cell, column: null } : cell;
  }

  /** Room for the labels of a side, at most `most`; where not all fit into its `length`, they have positions, too. */
  #labelRoom(axis, most, length) {
    this.#ruler.font = LABEL_FONT;
    const step = Math.max(Math.floor(axis.length / 60), 1);
    let room = 24;
    for (let index = 0; index < axis.length && room < most; index += step) {
      const label = axis.length * LINE > length ? axis.side.placed(axis.first(index)) : labelOf(axis, index);
      room = Math.max(room, this.#ruler.measureText(shortened(label, LABEL_LENGTH)).width + 12);
    }
    return Math.min(room, most);
  }

  #paintHead(context, frame, scene, panel) {
    const width = Math.min(Math.max(0.45 * frame.width, 96), 190);
    context.font = `600 13px ${FONT}`;
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.fillStyle = this.colours.ink;
    const title = scene.panels.length > 1 ? panel.part.name : scene.title;
    const start = frame.isFirst ? frame.x - this.left : frame.x;
    const room = frame.x + frame.width - width - 16 - start;
    const fits = context.measureText(title).width <= frame.width - width - 16;
    context.fillText(fitted(context, title, room), fits ? frame.x : start, frame.y - 10);
    const bar = { x: frame.x + frame.width - width, y: frame.y - this.top + TOP - 32, width };
    drawBar(context, this.colours, panel.scale, bar);
    if (!panel.layer?.sinks.length) return;
    const name = fitted(context, panel.layer.sinksText, width - 30);
    const place = this.isFilled ? { ...bar, x: bar.x - width - 16 } : { ...bar, y: bar.y + SINKS };
    drawBar(context, this.colours, { ...OF_SINKS, name }, place);
  }

  #paintThumb(context, frame, { axes: { rows, columns }, sight: [q0, q1, k0, k1] }, thumb) {
    const [down, across] = [thumb.height / rows.length, thumb.width / columns.length];
    const [top, left] = [rows.place(q0) * down, columns.place(k0) * across];
    const [height, width] = [rows.place(q1) * down - top, columns.place(k1) * across - left];
    drawImage(context, thumb, [left, top, width, height], frame);
    this.#paintFrame(context, frame);
  }

  #paintLayer(context, frame, scene, layer) {
    const [q0, q1, k0, k1] = scene.sight;
    const top = layer.rows.place(q0) - layer.firstRow;
    const left = layer.columns.place(k0) - layer.firstColumn;
    const height = layer.rows.place(q1) - layer.firstRow - top;
    const width = layer.columns.place(k1) - layer.firstColumn - left;
    if (height > 0 && width > 0)
      drawImage(context, layer.image(this.colours), [left, top, width, height], frame);
  }

  /** Draw over the colours: hatches of missing numbers, numbers where they have room, and the outline. */
  #paintDetails(context, frame, scene, layer) {
    const view = new FrameView(frame, { ...scene, axes: layer });
    context.save();
    context.beginPath();
    context.rect(frame.x - 1, frame.y - 1, frame.width + 2, frame.height + 2);
    context.clip();
    if (layer.hasMissing) {
      context.fillStyle = hatch(context, this.colours.quiet);
      for (const [cell] of view.cells((row, column) => Number.isNaN(layer.value(row, column)))) {
        context.fillRect(cell.x, cell.y, cell.width, cell.height);
      }
    }
    if (view.cellWidth >= 30 && view.cellHeight >= 16) this.#paintNumbers(context, view, layer);
    context.fillStyle = this.colours.quiet;
    if (layer.isMasked) this.#paintOutline(context, view, layer);
    context.restore();
    if (!layer.isMasked) this.#paintFrame(context, frame);
  }

  #paintFrame(context, { x, y, width, height }) {
    context.strokeStyle = this.colours.quiet;
    context.lineWidth = 0.75;
    context.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
  }

  /** Draw the outline of the visible part of a map, also where the frame cuts it. */
  #paintOutline(context, view, layer) {
    const { x, y, width, height } = view.frame;
    const [firstRow, endRow, firstColumn, endColumn] = view.range;
    const xOf = (column) => Math.min(Math.max(view.x(column), x), x + width);
    const yOf = (row) => Math.min(Math.max(view.y(row), y), y + height);
    const cuts = [];
    for (const [row, inside] of [
      [firstRow, firstRow],
      [endRow, endRow - 1],
    ]) {
      const isShown = (column) => !layer.isHidden(inside, column);
      eachRun(firstColumn, endColumn, isShown, (from, to) => cuts.push([row, from, row, to]));
    }
    for (const [column, inside] of [
      [firstColumn, firstColumn],
      [endColumn, endColumn - 1],
    ]) {
      const isShown = (row) => !layer.isHidden(row, inside);
      eachRun(firstRow, endRow, isShown, (from, to) => cuts.push([from, column, to, column]));
    }
    drawLines(context, cuts, xOf, yOf);
    const { firstRow: top, firstColumn: left } = layer;
    drawLines(
      context,
      layer.outline,
      (column) => view.x(left + column),
      (row) => view.y(top + row),
    );
  }

  #paintNumbers(context, view, layer) {
    const { scale } = layer;
    const { low } = this.colours.range(scale);
    const textOf = (row, column) => cellText(layer.value(row, column) ?? NaN, scale, low);
    const written = [...view.cells((row, column) => !layer.isHidden(row, column) && textOf(row, column) !== "")];
    const longest = Math.max(...written.map(([, row, column]) => textOf(row, column).length), SHORTEST_NUMBER);
    const size = view.cellWidth / (DIGIT * longest);
    if (size < LEAST_NUMBER) return;
    context.font = `${Math.min(11, size)}px ${FONT}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const [{ x, y, width, height }, row, column] of written) {
      const rgb = this.colours.rgb(layer.value(row, column), layer.scaleOf(column), layer.rowLargest(row));
      context.fillStyle = this.colours.inkOn(rgb);
      context.fillText(textOf(row, column), x + width / 2, y + height / 2 + 0.5);
    }
  }

  #paintLabels(context, frame, scene) {
    const view = new FrameView(frame, scene);
    const { rows, columns } = scene.axes;
    context.font = LABEL_FONT;
    context.textAlign = "right";
    context.textBaseline = "middle";
    if (frame.isFirst) {
      for (const [index, text] of labelsOf(rows, scene.sight.slice(0, 2), frame.height)) {
        const { y, height } = view.rowBand(index);
        const middle = y + height / 2;
        if (middle < frame.y || middle > frame.y + frame.height) continue;
        context.fillStyle = rows.isSpecial(index) ? this.colours.quiet : this.colours.ink;
        context.fillText(fitted(context, text, this.left - NAME - 10), frame.x - 6, middle);
      }
    }
    for (const [index, text] of labelsOf(columns, scene.sight.slice(2), frame.width)) {
      const { x, width } = view.columnBand(index);
      const middle = x + width / 2;
      if (middle < frame.x || middle > frame.x + frame.width) continue;
      context.fillStyle = columns.isSpecial(index) ? this.colours.quiet : this.colours.ink;
      this.#below(context, fitted(context, text, this.isFlat ? width : this.bottom - NAME - 10), middle, frame);
    }
    context.textAlign = "center";
    context.fillStyle = this.colours.quiet;
    const [ofRows, ofColumns] = scene.sides;
    if (frame.isFirst) uprightText(context, ofRows, NAME / 2, frame.y + frame.height / 2);
    context.fillText(ofColumns, frame.x + frame.width / 2, frame.y + frame.height + this.bottom - NAME / 2);
  }

  /** Draw the label of a key below the frame, upwards unless all have room. */
  #below(context, text, x, { y, height }) {
    context.textAlign = this.isFlat ? "center" : "right";
    if (this.isFlat) context.fillText(text, x, y + height + 13);
    else uprightText(context, text, x, y + height + 8);
  }

  /** Draw two lines along a row or a column, above the background colour, so that they are visible on all colours. */
  #lines(context, band, cell, isRow) {
    const [start, size] = isRow ? [band.y, band.height] : [band.x, band.width];
    const isThin = size < 4;
    const places = (isThin ? [start + size / 2] : [start, start + size]).map(
      (place) => Math.round(place) - 0.5,
    );
    for (const [colour, width, alpha] of [
      [this.colours.paper, 3, 0.6],
      [this.colours.accent, 1, 1],
    ]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.globalAlpha = alpha;
      context.beginPath();
      for (const place of places) {
        context.moveTo(isRow ? band.x : place, isRow ? place : band.y);
        context.lineTo(isRow ? band.x + band.width : place, isRow ? place : band.y + band.height);
      }
      context.stroke();
    }
    context.globalAlpha = 1;
    if (isThin && cell) context.clearRect(cell.x - 1, cell.y - 1, cell.width + 2, cell.height + 2);
  }

  #ring(context, { x, y, width, height }) {
    const grow = Math.max(0, (7 - Math.min(width, height)) / 2); // makes a cell of one pixel visible, too
    for (const [colour, line] of [
      [this.colours.paper, 4],
      [this.colours.accent, 2],
    ]) {
      context.strokeStyle = colour;
      context.lineWidth = line;
      context.strokeRect(x - grow, y - grow, width + 2 * grow, height + 2 * grow);
    }
  }

  /** Draw labels in the accent colour: filled at the crosshair, framed where they are pinned. */
  #light(context, frame, scene, { row, column }, isFilled) {
    const view = new FrameView(frame, scene);
    const { rows, columns } = scene.axes;
    context.font = LABEL_FONT;
    context.textBaseline = "middle";
    const tag = (text, draw) => {
      const width = context.measureText(text).width + 8;
      context.fillStyle = isFilled ? this.colours.accent : this.colours.paper;
      context.strokeStyle = this.colours.accent;
      context.lineWidth = 1;
      draw(width);
      context.fillStyle = isFilled ? this.colours.paper : this.colours.accent;
    };
    if (frame.isFirst && row !== null && view.hasRow(row)) {
      const { y, height } = view.rowBand(row);
      const label = markedLabel(rows, row, scene.sight.slice(0, 2), frame.height);
      const text = fitted(context, label, this.left - 12);
      tag(text, (width) => roundedBox(context, frame.x - 4 - width, y + height / 2 - 9, width, 18));
      context.textAlign = "right";
      context.fillText(text, frame.x - 8, y + height / 2);
    }
    if (column !== null && column < columns.length && view.hasColumn(column)) {
      const { x, width: across } = view.columnBand(column);
      const label = markedLabel(columns, column, scene.sight.slice(2), frame.width);
      const text = fitted(context, label, this.isFlat ? across : this.bottom - 12);
      tag(text, (width) => {
        const [wide, high] = this.isFlat ? [width, 18] : [18, width];
        roundedBox(context, x + across / 2 - wide / 2, frame.y + frame.height + 4, wide, high);
      });
      this.#below(context, text, x + across / 2, frame);
    }
  }
}

/** Places of the visible pieces in a frame. */
export class FrameView {
  constructor(frame, { axes, sight: [q0, q1, k0, k1] }) {
    this.frame = frame;
    this.axes = axes;
    this.top = axes.rows.place(q0);
    this.left = axes.columns.place(k0);
    this.cellHeight = frame.height / Math.max(axes.rows.place(q1) - this.top, 1e-9);
    this.cellWidth = frame.width / Math.max(axes.columns.place(k1) - this.left, 1e-9);
    this.x = (column) => frame.x + (column - this.left) * this.cellWidth;
    this.y = (row) => frame.y + (row - this.top) * this.cellHeight;
    this.range = [
      Math.floor(this.top),
      Math.ceil(axes.rows.place(q1) - 1e-6),
      Math.floor(this.left),
      Math.ceil(axes.columns.place(k1) - 1e-6),
    ];
  }

  hasRow(row) {
    return row >= this.range[0] && row < this.range[1];
  }

  hasColumn(column) {
    return column >= this.range[2] && column < this.range[3];
  }

  rowBand(row) {
    return { x: this.frame.x, y: this.y(row), width: this.frame.width, height: this.cellHeight };
  }

  columnBand(column) {
    return { x: this.x(column), y: this.frame.y, width: this.cellWidth, height: this.frame.height };
  }

  /** Box of a cell; null if row or column is null. */
  cell(row, column) {
    if (row === null || column === null) return null;
    return { x: this.x(column), y: this.y(row), width: this.cellWidth, height: this.cellHeight };
  }

  /** The wanted visible cells. @returns {Generator<[{x, y, width: number, height: number}, number, number]>} */
  *cells(isWanted) {
    const [firstRow, endRow, firstColumn, endColumn] = this.range;
    for (let row = firstRow; row < endRow; row++) {
      for (let column = firstColumn; column < endColumn; column++) {
        if (isWanted(row, column)) yield [this.cell(row, column), row, column];
      }
    }
  }

  /** Cell at a point, and the point's place along both axes in pieces. */
  at(x, y) {
    const across = this.left + (x - this.frame.x) / this.cellWidth;
    const down = this.top + (y - this.frame.y) / this.cellHeight;
    const within = (place, length) => Math.min(Math.max(Math.floor(place), 0), length - 1);
    return {
      row: within(down, this.axes.rows.length),
      column: within(across, this.axes.columns.length),
      down,
      across,
    };
  }
}

/** [index, text] of the labels along a side: all if they have room, else those at round positions. */
function labelsOf(axis, [from, to], length) {
  const start = Math.floor(axis.place(from));
  const end = Math.min(Math.ceil(axis.place(to) - 1e-6), axis.length);
  if (haveRoom(axis, [from, to], length)) {
    return Array.from({ length: end - start }, (_, i) => [start + i, labelOf(axis, start + i)]);
  }
  const { group = 1 } = axis.side;
  const step = group * roundStep((LINE * (to - from)) / length / group);
  const labels = [];
  for (let position = Math.ceil(from / step) * step; position < to; position += step) {
    const index = axis.indexOf(position);
    if (index >= 0 && index !== labels.at(-1)?.[0]) labels.push([index, axis.side.placed(position)]);
  }
  return labels;
}

/** Whether all labels along a side have room. */
function haveRoom(axis, [from, to], length) {
  return length / Math.max(axis.place(to) - axis.place(from), 1e-9) >= LINE - 0.5;
}

/** Label of a piece that is marked, written as those around it. */
function markedLabel(axis, index, sight, length) {
  return haveRoom(axis, sight, length) ? labelOf(axis, index) : axis.side.placed(axis.first(index));
}

/** Token of a piece; for a cell of several tokens, the first one after its position. */
function labelOf(axis, index) {
  const first = axis.first(index);
  return axis.end(index) - first > 1 ? axis.side.placed(first) : axis.label(index);
}

/** Smallest of 1, 2, 5, 10, 20, … that is at least a number. */
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least - 1e-9);
}

/** Draw a text that runs upwards and ends at (x, y). */
function uprightText(context, text, x, y) {
  context.save();
  context.translate(x, y);
  context.rotate(-Math.PI / 2);
  context.fillText(text, 0, 0);
  context.restore();
}

function roundedBox(context, x, y, width, height) {
  context.beginPath();
  context.roundRect(x, y, width, height, 3);
  context.fill();
  context.stroke();
}

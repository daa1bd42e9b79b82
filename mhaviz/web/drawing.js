// Parts of pictures on a canvas, in device pixels: matrices, outlines, labels, colour bars.

import { shortened } from "./dom.js";
/** @import { Colours } from "./colours.js" */

export const FONT = "system-ui, sans-serif";
export const LABEL_LENGTH = 80; // characters of a label that are measured, so that long tokens take no time

/**
 * Set the size of a canvas and clear it.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {number} width in CSS pixels
 * @param {number} height
 * @param {number} scale device pixels for a CSS pixel
 * @returns {CanvasRenderingContext2D} where one unit is a CSS pixel
 */
export function sizedContext(canvas, width, height, scale = window.devicePixelRatio || 1) {
  const [across, down] = [Math.max(Math.round(width * scale), 1), Math.max(Math.round(height * scale), 1)];
  if (canvas.width !== across) canvas.width = across;
  if (canvas.height !== down) canvas.height = down;
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.direction = "ltr";
  return context;
}

/**
 * Return a canvas with one pixel for each number.
 *
 * @param {Colours} colours
 * @param {Float32Array} values rows × columns
 * @param {any} scale
 * @param {any} options as in `Colours.fill`
 * @param {HTMLCanvasElement} canvas the canvas to draw on
 */
export function matrixImage(colours, values, scale, options, canvas = document.createElement("canvas")) {
  canvas.width = options.columns;
  canvas.height = options.rows;
  const context = canvas.getContext("2d");
  const imageData = context.createImageData(options.columns, options.rows);
  colours.fill(imageData, values, scale, options);
  context.putImageData(imageData, 0, 0);
  return canvas;
}

/** Draw a part of a matrix's image into a box: sharp cells, or their mean where they are smaller than pixels. */
export function drawImage(context, image, [left, top, width, height], box) {
  const scale = context.getTransform().a;
  context.imageSmoothingEnabled = width > box.width * scale || height > box.height * scale;
  context.imageSmoothingQuality = "high";
  context.drawImage(image, left, top, width, height, box.x, box.y, box.width, box.height);
}

/**
 * Return the lines around visible cells, in cells: [row, column, row, column] of both ends.
 *
 * @param {Uint8Array} hidden rows × columns, 1: hidden
 * @param {number} rows
 * @param {number} columns
 * @returns {number[][]}
 */
export function outlineOf(hidden, rows, columns) {
  const isShown = (row, column) =>
    row >= 0 && row < rows && column >= 0 && column < columns && hidden[row * columns + column] === 0;
  const lines = [];
  for (let row = 0; row <= rows; row++) {
    const isEdge = (column) => isShown(row, column) !== isShown(row - 1, column);
    eachRun(0, columns, isEdge, (from, to) => lines.push([row, from, row, to]));
  }
  for (let column = 0; column <= columns; column++) {
    const isEdge = (row) => isShown(row, column) !== isShown(row, column - 1);
    eachRun(0, rows, isEdge, (from, to) => lines.push([from, column, to, column]));
  }
  return lines;
}

/**
 * Draw sharp lines along the edges of cells, in the context's colour.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {number[][]} lines as in `outlineOf`
 * @param {(a: number) => number} xOf x of the beginning of a column
 * @param {(a: number) => number} yOf y of the beginning of a row
 */
export function drawLines(context, lines, xOf, yOf) {
  const scale = context.getTransform().a;
  const thin = Math.max(Math.round(scale), 1) / scale;
  const sharp = (length) => Math.round(length * scale) / scale;
  for (const [row, column, endRow, endColumn] of lines) {
    const [x, y] = [sharp(xOf(column)), sharp(yOf(row))];
    context.fillRect(x, y, sharp(xOf(endColumn)) - x + thin, sharp(yOf(endRow)) - y + thin);
  }
}

/** Call back with the beginning and end of each run of wanted numbers from `start` to before `end`. */
export function eachRun(start, end, isWanted, tell) {
  let first = null;
  for (let i = start; i <= end; i++) {
    const wanted = i < end && isWanted(i);
    if (wanted && first === null) first = i;
    if (wanted || first === null) continue;
    tell(first, i);
    first = null;
  }
}

/** A pattern of thin diagonal lines for missing numbers. */
export function hatch(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const lines = tile.getContext("2d");
  lines.strokeStyle = colour;
  for (const offset of [-6, 0, 6]) {
    lines.moveTo(offset, 6);
    lines.lineTo(offset + 6, 0);
  }
  lines.stroke();
  return context.createPattern(tile, "repeat");
}

/**
 * Return the text, shortened in its middle to at most `room` in the context's font, and at most `length` characters.
 */
export function fitted(context, text, room, length = LABEL_LENGTH) {
  const start = shortened(text, length);
  if (context.measureText(start).width <= room) return start;
  let low = 1;
  let high = [...start].length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(shortened(text, middle)).width <= room) low = middle;
    else high = middle - 1;
  }
  return low < 3 ? "…" : shortened(text, low);
}

/**
 * Draw a colour bar of a scale, with its name and its ends below.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Colours} colours
 * @param {any} scale a scale of the document
 * @param {{x: number, y: number, width: number}} box
 */
export function drawBar(context, colours, scale, { x, y, width }) {
  const { ends } = colours.range(scale);
  const height = 8;
  const steps = Math.max(Math.round(width), 1);
  for (let step = 0; step < steps; step++) {
    const share = (step + 0.5) / steps;
    context.fillStyle = `rgb(${colours.shade(share, scale).join(" ")})`;
    context.fillRect(x + (step * width) / steps, y, width / steps + 0.5, height);
  }
  context.strokeStyle = colours.quiet;
  context.lineWidth = 0.5;
  context.strokeRect(x, y, width, height);

  context.font = `11px ${FONT}`;
  context.textBaseline = "top";
  context.fillStyle = colours.quiet;
  context.textAlign = "left";
  context.fillText(ends[0], x, y + height + 3);
  context.textAlign = "right";
  context.fillText(ends[1], x + width, y + height + 3);
  const widest = Math.max(...ends.map((text) => context.measureText(text).width));
  if (context.measureText(scale.name).width / 2 + widest + 6 <= width / 2) {
    context.textAlign = "center";
    context.fillText(scale.name, x + width / 2, y + height + 3);
  }
}

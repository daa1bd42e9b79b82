// The map to take along: as it is on the screen, to the clipboard, else as a file.

import { make } from "./dom.js";

/**
 * @param {HTMLCanvasElement} canvas
 * @param {string} paper the colour behind it
 * @param {string} name of the file
 * @returns {Promise<string>} what to say
 */
export async function copyPicture(canvas, paper, name) {
  const picture = make("canvas", { width: canvas.width, height: canvas.height });
  const context = picture.getContext("2d");
  context.fillStyle = paper;
  context.fillRect(0, 0, picture.width, picture.height);
  context.drawImage(canvas, 0, 0);
  const coming = new Promise((resolve) => picture.toBlob(resolve, "image/png"));
  try {
    // Asked for at once, as browsers only let us right after a key or a click.
    await navigator.clipboard.write([new ClipboardItem({ "image/png": coming })]);
    return "copied";
  } catch {
    make("a", { href: URL.createObjectURL(await coming), download: name }).click();
    return "saved";
  }
}

// Copies the map as it is on the screen to the clipboard, or else saves it as a file.

import { make } from "./dom.js";

/**
 * @param {HTMLCanvasElement} canvas
 * @param {string} paper colour of the background
 * @param {string} name name of the file
 * @returns {Promise<string>} message for the user
 */
export async function copyPicture(canvas, paper, name) {
  const picture = make("canvas", { width: canvas.width, height: canvas.height });
  const context = picture.getContext("2d");
  context.fillStyle = paper;
  context.fillRect(0, 0, picture.width, picture.height);
  context.drawImage(canvas, 0, 0);
  const coming = new Promise((resolve) => picture.toBlob(resolve, "image/png"));
  try {
    // Called at once, as browsers allow this only right after a key or a click.
    await navigator.clipboard.write([new ClipboardItem({ "image/png": coming })]);
    return "copied";
  } catch {
    make("a", { href: URL.createObjectURL(await coming), download: name }).click();
    return "saved";
  }
}

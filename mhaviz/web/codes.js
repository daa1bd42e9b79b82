// Decodes the bytes of a page: features are quantised linearly, weights by their square roots.

/**
 * @param {string} text base64
 * @returns {Uint8Array}
 */
export function bytesOfBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

/**
 * @param {Uint8Array} bytes as zlib writes them
 * @returns {Promise<Uint8Array>}
 */
export async function inflated(bytes) {
  const blob = new Blob([/** @type {Uint8Array<ArrayBuffer>} */ (bytes)]);
  const stream = blob.stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * Return the numbers of one head, or those of them from `start` to before `end`, of weights alone.
 *
 * @param {any} ref reference to the numbers of all heads: {chunk, offset, shape: [heads, …], type, …}
 * @param {number} place index of the head along the first axis
 * @param {(a: number) => Uint8Array} chunkBytes the bytes of a chunk
 * @returns {Float32Array} in the order of the other axes
 */
export function headNumbers(ref, place, chunkBytes, start = 0, end = sizeOfHead(ref)) {
  const bytes = headBytes(ref, place, chunkBytes);
  const length = sizeOfHead(ref);
  if (ref.type in ROOTS) {
    const [Codes, missing] = ROOTS[ref.type];
    return squares(new Codes(bytes.buffer, bytes.byteOffset, length).subarray(start, end), ref.top, missing);
  }
  switch (ref.type) {
    case "floats":
      return new Float32Array(bytes.slice(4 * start, 4 * end).buffer);
    case "affine12":
      return steps(codesOfThreeBytes(bytes, length), ref, place, chunkBytes);
    case "affine16":
      return steps(new Uint16Array(bytes.buffer, bytes.byteOffset, length), ref, place, chunkBytes);
    case "bits":
      return Float32Array.from({ length }, (_, i) => bitAt(bytes, i));
    default:
      throw new Error(`expected numbers of a type that this page knows, got ${ref.type}`);
  }
}

/** Type of codes of roots, and the code of a missing number; the largest number has the code before it. */
const ROOTS = {
  roots8: [Uint8Array, 255],
  roots10: [Uint16Array, 1023],
  roots16: [Uint16Array, 65535],
  signed8: [Int8Array, -128],
  signed10: [Int16Array, -512],
  signed16: [Int16Array, -32768],
};

/** Bytes of one head, not copied: a Uint8Array that must not be written to. */
export function headBytes(ref, place, chunkBytes) {
  const size = ref.bytes;
  const start = ref.offset + place * size;
  const all = chunkBytes(ref.chunk);
  if (start + size > all.length) {
    throw new Error(`expected ${start + size} bytes in part ${ref.chunk} of the page, got ${all.length}`);
  }
  return all.subarray(start, start + size);
}

/** The n-th bit of a head: 0 or 1. */
export function bitAt(bytes, n) {
  return (bytes[n >> 3] >> (7 - (n & 7))) & 1;
}

function sizeOfHead(ref) {
  return ref.shape.slice(1).reduce((product, size) => product * size, 1);
}

/** sign(code) · top · (code / largest)²; NaN for the code of missing numbers. */
function squares(codes, top, missing) {
  const largest = Math.abs(missing) - 1;
  const values = new Float32Array(codes.length);
  for (let i = 0; i < codes.length; i++) {
    const root = codes[i] / largest;
    values[i] = codes[i] === missing ? NaN : top * root * Math.abs(root);
  }
  return values;
}

/** lows + code · steps, with a low and a step for each feature. */
function steps(codes, ref, place, chunkBytes) {
  const lows = headNumbers(ref.lows, place, chunkBytes);
  const sizes = headNumbers(ref.steps, place, chunkBytes);
  const values = new Float32Array(codes.length);
  for (let start = 0; start < codes.length; start += lows.length) {
    for (let f = 0; f < lows.length; f++) values[start + f] = lows[f] + codes[start + f] * sizes[f];
  }
  return values;
}

/** Two codes of 12 bits in three bytes, the lower bits first. */
function codesOfThreeBytes(bytes, length) {
  const codes = new Uint16Array(length + 1); // room for a last pair
  for (let i = 0, b = 0; i < length; i += 2, b += 3) {
    codes[i] = bytes[b] | ((bytes[b + 1] & 15) << 8);
    codes[i + 1] = (bytes[b + 1] >> 4) | (bytes[b + 2] << 4);
  }
  return codes.subarray(0, length);
}

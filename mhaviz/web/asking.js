// Asks for what takes long to compute: in a worker, so that the page never waits; without one, head by head.

import { answerOf } from "./worker.js";
/** @import { Contents, PageMap } from "./contents.js" */

/** Bytes of answers that are kept for the next time. */
const MOST_KEPT_BYTES = 192 * 2 ** 20;

/** Weights that are computed at once: with more, a reader's newer question would have to wait. */
const WEIGHTS_AT_ONCE = 2 ** 19;

/** Why a question has no answer: a newer one has taken its place. */
const CANCELLED = Object.freeze({ cancelled: true });

/**
 * Promises of what is computed from the contents. One question is worked on at a time, the newest first. Answers are shared: who gets one must not write into it.
 */
export class Asking {
  #contents;
  #thread;
  #waiting = [];
  #asked = 0;
  #isBusy = false;
  #newestOfSlot = new Map();
  #kept = new RecentAnswers(MOST_KEPT_BYTES);

  /** @param {Contents} contents */
  constructor(contents) {
    this.#contents = contents;
    this.#thread = WorkerThread.started(contents) ?? new OwnThread(contents);
  }

  /**
   * A part of a head, as its map shows it.
   *
   * @param {PageMap} map
   * @param {string} part its name
   * @param {number} head its number
   * @returns {Promise<{values: Float32Array, rows: number, columns: number}>}
   */
  values(map, part, head) {
    const name = JSON.stringify([map.index, part, head]);
    const bytes = map.rows.length * map.columns.length * Float32Array.BYTES_PER_ELEMENT;
    return this.#kept.get(name) ?? this.#kept.add(name, this.#valuesOf(map, part, head), bytes);
  }

  /**
   * The numbers between single tokens.
   *
   * @param {PageMap} map
   * @param {number} head its number
   * @param {number[]} window [q0, q1, k0, k1]: queries from position q0 to before q1, and keys
   * @param {string} [slot] what the answer is for: older questions of it are rejected with {cancelled: true}
   * @param {string} [part] its name
   * @returns {Promise<{values: Float32Array, rows: number, columns: number}>}
   */
  window(map, head, [q0, q1, k0, k1], slot = null, part = map.mainPart) {
    const piece = (start, end) =>
      questionOf("window", map, head, { part, window: [q0 + start, q0 + end, k0, k1] });
    return this.#joined(q1 - q0, k1 - k0, weightsOfQuery(map, part), piece, slot);
  }

  /**
   * The query and the key between which the largest weight of a window is, computed from all features.
   *
   * @param {PageMap} map
   * @param {number} head its number
   * @param {number[]} window [q0, q1, k0, k1]
   * @returns {Promise<{query: number, key: number}|null>} null if there are only zeros
   */
  strongest(map, head, [q0, q1, k0, k1]) {
    const name = JSON.stringify(["strongest", map.index, head, q0, q1, k0, k1]);
    const find = async () => {
      const order = this.#asked++;
      let best = null;
      for (const [start, end] of pieces(q1 - q0, map.columns.tokens)) {
        const question = questionOf("strongest", map, head, { window: [q0 + start, q0 + end, k0, k1] });
        const found = await this.#ask(question, { order });
        if (found && !(found.size <= best?.size)) best = found;
      }
      return best;
    };
    return this.#kept.get(name) ?? this.#kept.add(name, find(), 0);
  }

  /**
   * One score taken apart, see `Call.products`.
   *
   * @param {PageMap} map
   * @param {number} head its number
   * @param {number} query its position
   * @param {number} key its position
   */
  products(map, head, query, key) {
    return this.#ask(questionOf("products", map, head, { query, key }));
  }

  /**
   * The scores of a query with all keys, −Infinity where a key is hidden, and its weights. Only the latest
   * question is answered; the others are rejected with {cancelled: true}.
   *
   * @param {PageMap} map
   * @param {number} head its number
   * @param {number} query its position
   * @returns {Promise<{scores: Float64Array, weights: Float32Array, sink: number|null, norms: Float32Array|null}>}
   */
  scores(map, head, query) {
    return this.#ask(questionOf("scores", map, head, { query }), { slot: "scores" });
  }

  #valuesOf(map, part, head) {
    const [rows, columns] = [map.rows.length, map.columns.length];
    const weightsOfRow = map.part(part).values === null ? (map.rows.tokens / rows) * map.columns.tokens : 0;
    const piece = (start, end) => questionOf("values", map, head, { part, start, end });
    return this.#joined(rows, columns, weightsOfRow, piece);
  }

  /** The answers about pieces of rows, as one. */
  async #joined(rows, columns, weightsOfRow, piece, slot = null) {
    const order = this.#asked++;
    const values = new Float32Array(rows * columns);
    for (const [start, end] of pieces(rows, weightsOfRow)) {
      values.set(await this.#ask(piece(start, end), { order, slot }), start * columns);
    }
    return { values, rows, columns };
  }

  /** A promise of the answer. A higher order is answered earlier; of a slot, none but the highest. */
  #ask(question, { slot = null, order = this.#asked++ } = {}) {
    return new Promise((resolve, reject) => {
      const job = { question, order, resolve, reject };
      const other = slot === null ? undefined : this.#newestOfSlot.get(slot);
      if (other?.order > order) {
        reject(CANCELLED);
        return;
      }
      if (slot !== null) this.#newestOfSlot.set(slot, job);
      this.#waiting = this.#waiting.filter((waiting) => waiting !== other);
      other?.reject(CANCELLED); // which changes nothing if it has been answered
      this.#waiting.push(job);
      this.#work();
    });
  }

  async #work() {
    if (this.#isBusy) return;
    this.#isBusy = true;
    while (this.#waiting.length > 0) {
      await null; // who has just got an answer may go on asking
      const job = this.#waiting.reduce((next, other) => (other.order > next.order ? other : next));
      this.#waiting.splice(this.#waiting.indexOf(job), 1);
      try {
        await this.#contents.inflated;
        job.resolve(await this.#answer(job.question));
      } catch (error) {
        job.reject(error);
      }
    }
    this.#isBusy = false;
  }

  async #answer(question) {
    try {
      return await this.#thread.answer(question);
    } catch (error) {
      if (!(error instanceof NoWorker)) throw error;
      this.#thread = new OwnThread(this.#contents);
      return this.#thread.answer(question);
    }
  }
}

/** Cuts rows so that no piece has too many weights: [start, end] of each. Rows of none are one piece. */
function* pieces(rows, weightsOfRow) {
  const step = Math.max(Math.floor(WEIGHTS_AT_ONCE / weightsOfRow), 1);
  for (let start = 0; start < rows; start += step) yield [start, Math.min(start + step, rows)];
}

/** How many weights are computed for those of one query; 0 if all are there. */
function weightsOfQuery(map, part) {
  return map.part(part).values !== null && !map.isPooled ? 0 : map.columns.tokens;
}

/** What a worker is asked: the kind is a name of ANSWERS, the rest numbers and texts. */
function questionOf(kind, map, head, wanted) {
  return { kind, map: map.index, place: map.placeOf(head), part: map.mainPart, ...wanted };
}

/** The browser has refused the worker, or stopped it. */
class NoWorker extends Error {}

/** Answers one question at a time in a worker. */
class WorkerThread {
  #contents;
  #worker;
  #described;
  #chunksThere = new Set();
  #hasStopped = false;
  /** @type {(reply: any) => void} */
  #onReply = () => {};

  /** One that runs, or null if the browser has none for this page. */
  static started(contents) {
    try {
      return new WorkerThread(contents);
    } catch {
      return null;
    }
  }

  constructor(contents) {
    this.#contents = contents;
    this.#described = contents.described;
    const code = new Blob([document.getElementById("script").textContent], { type: "text/javascript" });
    this.#worker = new Worker(URL.createObjectURL(code));
    this.#worker.onmessage = ({ data }) => this.#onReply(data);
    this.#worker.onerror = () => {
      this.#hasStopped = true;
      this.#onReply({});
    };
  }

  async answer(question) {
    const needed = this.#contents.maps[question.map].chunks(question.part);
    const missing = needed.filter((number) => !this.#chunksThere.has(number));
    const chunks = missing.map((number) => [number, this.#contents.chunks.forWorker(number)]);
    const reply = await new Promise((resolve) => {
      this.#onReply = resolve;
      if (this.#hasStopped) resolve({});
      else this.#worker.postMessage({ described: this.#described, chunks, question });
    });
    if (this.#hasStopped) throw new NoWorker("the browser has stopped the worker");
    this.#described = null;
    missing.forEach((number) => this.#chunksThere.add(number));
    if ("error" in reply) throw new Error(reply.error);
    return reply.answer;
  }
}

/** Answers one question at a time in the page itself, and lets it be drawn in between. */
class OwnThread {
  #contents;

  constructor(contents) {
    this.#contents = contents;
  }

  async answer(question) {
    await new Promise((resolve) => setTimeout(resolve));
    return answerOf(this.#contents, question);
  }
}

/** Promises of answers, of which the ones that have not been asked for longest go first. */
class RecentAnswers {
  #most;
  #bytes = 0;
  #answers = new Map();

  constructor(most) {
    this.#most = most;
  }

  /** The promise of this name, or undefined. */
  get(name) {
    const found = this.#answers.get(name);
    if (!found) return undefined;
    this.#answers.delete(name);
    this.#answers.set(name, found);
    return found.answer;
  }

  add(name, answer, bytes) {
    this.#answers.set(name, { answer, bytes });
    this.#bytes += bytes;
    for (const oldest of this.#answers.keys()) {
      if (this.#bytes <= this.#most || oldest === name) break;
      this.#remove(oldest);
    }
    answer.catch(() => this.#remove(name));
    return answer;
  }

  #remove(name) {
    this.#bytes -= this.#answers.get(name)?.bytes ?? 0;
    this.#answers.delete(name);
  }
}

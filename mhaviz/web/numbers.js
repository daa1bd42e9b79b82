// Numbers as texts, by the rules of Python's mhaviz.pages.numbers: a finite number is written alike in all media.

const LEAST_POWER = -4; // powers of ten of the first digit of numbers that are written without an exponent
const END_POWER = 6;

/** A number with so many decimals, for numbers that are compared: "0.40". Zero has no sign. */
export function fixed(value, decimals) {
  const text = unsigned(Math.abs(value), decimals);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

/** A number that stands alone in at most so many significant digits: 0.413, −2, 3.1e−07; NaN is "missing". */
export function short(value, digits = 3) {
  if (Number.isNaN(value)) return "missing";
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  const size = Math.abs(value);
  const rounded = exponential(size, digits - 1);
  const [mantissa, power] = rounded.split("e");
  const sign = value < 0 ? "−" : "";
  if (LEAST_POWER <= Number(power) && Number(power) < END_POWER) {
    return sign + trimmed(Number(rounded).toFixed(Math.max(digits - 1 - Number(power), 0)));
  }
  return `${sign}${trimmed(mantissa)}e${power[0].replace("-", "−")}${power.slice(1).padStart(2, "0")}`;
}

/** A share as "47%". */
export function percent(share) {
  return `${fixed(100 * share, 0)}%`;
}

/** A number rounded up to one digit, for bounds. */
export function precisionText(bound) {
  const step = 10 ** Math.floor(Math.log10(bound));
  return short(Math.ceil(bound / step - 1e-9) * step, 1);
}

/** The text in a cell of a map, as in a figure: with the sign of a change, and "" where it rounds to 0. */
export function cellText(value, { decimals, signed }, low) {
  const text = Number.isNaN(value) ? "" : fixed(value, decimals);
  if (!text || ((signed || low === 0) && Number(text) === 0)) return "";
  return signed && Number(text) > 0 ? `+${text}` : text;
}

/** A number that is not negative, with decimals. Of two texts that are equally near the even one is chosen. */
function unsigned(size, decimals) {
  const text = size.toFixed(decimals); // the larger one
  return isHalfWay(size, decimals) && isOdd(text) ? lessThan(size).toFixed(decimals) : text;
}

/** The same with an exponent, "3.1e-7". */
function exponential(size, decimals) {
  const text = size.toExponential(decimals);
  const [mantissa, power] = text.split("e");
  const isTie = isHalfWay(size, decimals - Number(power));
  return isTie && isOdd(mantissa) ? lessThan(size).toExponential(decimals) : text;
}

/** Whether a number is as near to the next larger as to the next smaller number with so many decimals. */
function isHalfWay(size, decimals) {
  if (decimals < 0) return size % 10 ** -decimals === 10 ** -decimals / 2;
  return (size * 2 ** (decimals + 1)) % 2 === 1; // it has one binary digit more after the point
}

function isOdd(text) {
  return Number(text.at(-1)) % 2 === 1;
}

function lessThan(size) {
  return size * (1 - 2 ** -50);
}

/** Decimals without zeros at their end. */
function trimmed(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

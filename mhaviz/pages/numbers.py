"""Numbers as texts, in one form in all media: ``numbers.js`` of the page for the browser has the same rules."""

import math

_PLAIN = range(-4, 6)  # powers of ten of the first digit of numbers that are written without an exponent


def fixed(number: float, decimals: int) -> str:
    """Return a number with so many decimals, for numbers that are compared: "0.40". Zero has no sign."""
    return f"{number:z.{decimals}f}"


def short(number: float, digits: int = 3) -> str:
    """Return a number that stands alone in at most so many significant digits: "0.413", "-2", "3.1e-07"."""
    if not math.isfinite(number):
        return str(number)
    rounded = f"{number:z.{digits - 1}e}"
    mantissa, _, power = rounded.partition("e")
    if int(power) in _PLAIN:
        return _trimmed(f"{float(rounded):.{max(digits - 1 - int(power), 0)}f}")
    return f"{_trimmed(mantissa)}e{power}"


def percent(share: float) -> str:
    """Return a share from 0 to 1: "47%"; "<1%" where it would be rounded to nothing."""
    return "<1%" if share > 0 and f"{share:.0%}" == "0%" else f"{share:.0%}"


def _trimmed(text: str) -> str:
    """Return decimals without zeros at their end."""
    return text.rstrip("0").rstrip(".") if "." in text else text

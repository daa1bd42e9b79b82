"""Numbers as texts, in one form in all media: ``numbers.js`` of the page for the browser has the same rules."""

import math

from mhaviz.units import with_minus

_PLAIN = range(-4, 6)  # powers of ten of the first digit of numbers that are written without an exponent


def fixed(number: float, decimals: int) -> str:
    """Return a number with so many decimals, for numbers that are compared: "0.40". Zero has no sign."""
    return with_minus(f"{number:z.{decimals}f}")


def short(number: float, digits: int = 3) -> str:
    """Return a number that stands alone in at most so many significant digits: "0.413", "−2", "3.1e−07"."""
    if not math.isfinite(number):
        return with_minus(str(number))
    mantissa, _, power = f"{number:z.{digits - 1}e}".partition("e")
    if int(power) in _PLAIN:
        return with_minus(_trimmed(f"{rounded(number, digits):z.{max(digits - 1 - int(power), 0)}f}"))
    return with_minus(f"{_trimmed(mantissa)}e{power}")


def rounded(number: float, digits: int = 3) -> float:
    """Return the number that ``short`` writes."""
    return float(f"{number:.{digits - 1}e}")


def percent(share: float) -> str:
    """Return a share from 0 to 1: "47%"; "<1%" where it would be rounded to nothing."""
    return "<1%" if share > 0 and f"{share:.0%}" == "0%" else f"{share:.0%}"


def _trimmed(text: str) -> str:
    """Return decimals without zeros at their end."""
    return text.rstrip("0").rstrip(".") if "." in text else text

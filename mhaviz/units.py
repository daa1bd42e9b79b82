"""Numbers for people to read: bytes, counts, seconds, factors and shares, and the minus sign of all numbers."""

MINUS = "\N{MINUS SIGN}"


def with_minus(numbers: str) -> str:
    """Return numbers that Python has written with a minus sign in place of each hyphen: "−0.5", "3.1e−07".

    Texts for people have this sign; data files, and what a user types, have the hyphen.
    """
    return numbers.replace("-", MINUS)


def readable_bytes(size: float) -> str:
    """Write a number of bytes: 1536 → "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024 or unit == "PiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"


def readable_count(number: float) -> str:
    """Write a count: in full up to 99,999, then with a prefix, 1,679,360,000 → "1.68 G"."""
    if number < 100_000:
        return f"{number:,.0f}"
    for prefix in ("k", "M", "G", "T", "P", "E"):
        number /= 1000
        if number < 999.5 or prefix == "E":
            break
    return f"{number:.3g} {prefix}" if number < 999.5 else f"{number:,.0f} {prefix}"


def readable_seconds(seconds: float, digits: int = 3) -> str:
    """Write a duration: 0.00123 → "1.23 ms". From two minutes on, it is in minutes, hours, days or years."""
    unit = "s"
    for larger, size in (("min", 60), ("h", 60), ("days", 24), ("years", 365)):
        if seconds < 2 * size:
            break
        seconds, unit = seconds / size, larger
    if unit == "s":
        for smaller in ("ms", "µs", "ns"):
            if seconds >= 0.9995 or not seconds:
                break
            seconds, unit = seconds * 1000, smaller
    return f"{_rounded(seconds, digits)} {unit}"


def readable_factor(factor: float) -> str:
    """Write a factor: 4.217 → "4.22 ×"; 11,840 → "11,800 ×"."""
    return f"{_rounded(factor, 3)} ×"


def readable_share(share: float) -> str:
    """Write a share from 0 to 1, with up to six decimals where two would make it none or all: 0.75 → "0.75", 0.998 →
    "0.998", 1 → "1.00"."""
    texts = [f"{share:.{decimals}f}" for decimals in range(2, 7)]
    return next((text for text in texts if float(text) not in (0, 1) or share in (0, 1)), texts[-1])


def _rounded(number: float, digits: int) -> str:
    """Round to significant digits, without an exponent: 1234 → "1,230", 12.3 → "12.3", 1 → "1.00"."""
    rounded = float(f"{number:.{digits - 1}e}")
    return f"{rounded:,.0f}" if rounded >= 10 ** (digits - 1) else f"{rounded:#.{digits}g}"

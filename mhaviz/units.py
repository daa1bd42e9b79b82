"""Large numbers for people."""


def readable_bytes(size: float) -> str:
    """1536 → "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024 or unit == "PiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"


def readable_count(number: float) -> str:
    """Exact up to 99,999, then with a prefix: 1,679,360,000 → "1.68 G"."""
    if number < 100_000:
        return f"{number:,.0f}"
    for prefix in ("k", "M", "G", "T", "P", "E"):
        number /= 1000
        if number < 999.5 or prefix == "E":
            break
    return f"{number:.3g} {prefix}" if number < 999.5 else f"{number:,.0f} {prefix}"

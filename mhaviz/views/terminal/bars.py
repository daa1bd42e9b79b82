"""Numbers as bars of characters."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(share: float, width: int, in_unicode: bool) -> str:
    """A bar of up to ``width`` cells for a share from 0 to 1, in eighths of a cell where Unicode is at hand.

    >>> bar(0.5, 5, True), bar(0.5, 5, False)
    ('██▌', '##')
    """
    if not in_unicode:
        return "#" * int(share * width)
    eighths = round(share * width * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()

"""Lengths in inches and font sizes in points that figures share."""

POINTS = 72  # an inch
MARGIN = 0.25  # inches around everything
PAGE_WIDTH = 10.0  # inches of a page of many pictures: a slide, or a landscape page
TITLE, BODY, SMALL = 11.0, 8.0, 7.0  # font sizes in points
DRAWN_WIDER = 1.05  # drawn width / measured width of small letters, which begin at whole pixels


def snap(inches: float, dpi: float) -> float:
    """Round to whole pixels, so that cells are sharp and of equal size."""
    return round(inches * dpi) / dpi

"""What a sheet shows, for tests of what it decided."""

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from mhaviz.views.figure.artists import Numbers


def images(sheet, prefix):
    """Those whose label begins so."""
    return [image for image in sheet.page.images if image.get_label().startswith(prefix)]


def texts(sheet):
    return [text.get_text() for text in sheet.page.texts]


def letters(sheet):
    """The size of each text and number, in points."""
    sizes = [text.get_fontsize() for text in sheet.findobj(Text) if text.get_text() and text.get_visible()]
    return sizes + [one.font.get_size_in_points() for one in sheet.page.collections if isinstance(one, Numbers)]


def inside(sheet):
    """Check that nothing is written beyond the sheet, with letters as they are saved."""
    canvas = sheet.canvas
    with matplotlib.rc_context({"text.hinting": "none"}):
        renderer = FigureCanvasAgg(sheet).get_renderer()  # another one knows no widths of hinted letters
        extents_inside(sheet, renderer)
    sheet.set_canvas(canvas)


def extents_inside(sheet, renderer):
    """Where each text stands, none of it beyond the sheet."""
    extents = [text.get_window_extent(renderer) for text in sheet.page.texts]
    for text, extent in zip(sheet.page.texts, extents, strict=True):
        assert extent.x0 >= -1, text
        assert extent.y0 >= -1, text
        assert extent.x1 <= sheet.bbox.width + 1, text
        assert extent.y1 <= sheet.bbox.height + 1, text
    return extents

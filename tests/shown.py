"""Records as figures and as views of the terminal, with the look that a test names, or the usual one."""

from mhaviz.pages.colormaps import DIVERGING
from mhaviz.views.showing import figure_of, view_of
from mhaviz.views.style import Style


def heatmap_figure(attention, style=None):
    return figure_of(attention, style or Style())


def heatmap_view(attention, style=None):
    return view_of(attention, style or Style())


def difference_figure(difference, style=None):
    return figure_of(difference, style or Style(DIVERGING, vmax=None))


def difference_view(difference, style=None):
    return view_of(difference, style or Style(DIVERGING, vmax=None))


def head_statistics_figure(statistics, style=None):
    return figure_of(statistics, style or Style())


def head_statistics_view(statistics, colormap="bone", **order):
    return view_of(statistics, Style(colormap), **order)


def number_text(number, form):
    """A number as texts for people have it, with a minus sign."""
    return format(number, form).replace("-", "−")

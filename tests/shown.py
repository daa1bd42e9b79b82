"""Records as figures and as views of the terminal, with the look that a test names, or the usual one."""

from mhaviz.pages.panels import DIVERGING
from mhaviz.views.look import Look
from mhaviz.views.showing import figure_of, view_of


def heatmap_figure(attention, look=None):
    return figure_of(attention, look or Look())


def heatmap_view(attention, look=None):
    return view_of(attention, look or Look())


def difference_figure(difference, look=None):
    return figure_of(difference, look or Look(DIVERGING, vmax=None))


def difference_view(difference, look=None, most=None):
    return view_of(difference, look or Look(DIVERGING, vmax=None), most=most)


def head_statistics_figure(statistics, look=None):
    return figure_of(statistics, look or Look())


def head_statistics_view(statistics, colormap="bone", **order):
    return view_of(statistics, Look(colormap), **order)

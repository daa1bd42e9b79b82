"""Names of colormaps that are chosen for users. Nothing is imported for them, so that help texts name them at once."""

INK = "ink"
"""Colormap from white, for 0, to dark: ``mhaviz.views.ink``."""

DIVERGING = "RdBu_r"
"""Colormap of numbers of two signs: blue below 0, red above."""

SINK = "sink"
"""Colormap of sinks, from white to dark grey: ``mhaviz.views.colours``."""

AROUND_UNIFORM = "around uniform"
"""Colormap of multiples of uniform attention over images, from warm grey through white, 1, to dark red:
``mhaviz.views.colours``. What is below uniform is quiet, as it is most of a picture."""

HEADS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#5716d9")
"""Colours of heads that are told apart: those of Okabe and Ito 2008 with a violet for their yellow, which is too pale
for lines on white, and which olive would not replace: protanopes take it for orange."""

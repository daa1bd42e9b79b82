"""Names of colormaps that are chosen for users. Nothing is imported for them, so that help texts name them at once."""

INK = "ink"
"""Colormap from white, for 0, to dark: ``mhaviz.views.ink``."""

DIVERGING = "RdBu_r"
"""Colormap of numbers of two signs: blue below 0, red above."""

SINK = "sink"
"""Colormap of sinks, from white to dark grey: ``mhaviz.views.colours``."""

HEAD_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#9467BD")
"""Colours of lines of heads, in the order of the heads. After Okabe and Ito 2008, with violet for yellow."""

FILM = "film"
"""Colormap from clear to one strong colour, over an image: ``mhaviz.views.colours``."""

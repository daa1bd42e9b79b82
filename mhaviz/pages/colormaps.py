"""Names of colormaps that are chosen for users. Nothing is imported for them, so that help texts name them at once."""

INK = "ink"
"""Colormap from white, for 0, to dark: ``mhaviz.views.ink``."""

DIVERGING = "RdBu_r"
"""Colormap of numbers of two signs: blue below 0, red above."""

SINK = "sink"
"""Colormap of sinks, from white to dark grey: ``mhaviz.views.colours``."""

FILM = "film"
"""Colormap from clear to one strong colour, over an image: ``mhaviz.views.colours``."""

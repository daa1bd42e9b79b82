"""Renderers: results as terminal output, figures, pages for the browser, and data files. They do without torch."""

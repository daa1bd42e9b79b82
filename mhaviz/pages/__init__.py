"""Pages: the titles, texts, tables, curves and matrices that each result is shown as, independent of any output."""

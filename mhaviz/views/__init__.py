"""Who draws results: in the terminal, as a figure, as data. Records in, picture out; no torch."""

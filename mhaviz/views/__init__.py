"""Who draws records: in the terminal, as a figure, as data. Records in, picture out; no torch."""

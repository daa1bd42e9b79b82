"""Results of analyses, as they are drawn and saved: frozen dataclasses of NumPy arrays and strings, without torch."""

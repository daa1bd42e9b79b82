"""Read files, with one reader per format, and write them whole or not at all. Only .pt and float8 need torch."""

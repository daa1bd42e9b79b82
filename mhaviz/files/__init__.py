"""Reads files, one reader for each format, and writes them whole or not at all. Only .pt and float8 need torch."""

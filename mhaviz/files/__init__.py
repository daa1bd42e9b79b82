"""Every file that is read, one reader for each format, and how files are written. Nothing needs torch but .pt files."""

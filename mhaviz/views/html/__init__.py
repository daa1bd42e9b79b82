"""The page for the browser: what it holds, how its numbers are written, and the file itself."""

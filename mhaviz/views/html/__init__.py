"""Page for the browser: its contents, the encoding of its numbers, and the HTML file."""

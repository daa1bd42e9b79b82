"""Code that several commands use: options, sentences, files, and the output of results."""

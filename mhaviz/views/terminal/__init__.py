"""Pages as renderables of rich, for terminals of any width, with or without colour and Unicode."""

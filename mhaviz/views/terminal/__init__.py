"""Records as rich renderables: at home at any width, with or without colour, with or without Unicode."""

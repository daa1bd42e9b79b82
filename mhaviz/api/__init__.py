"""The functions of mhaviz for Python. Commands that do the same call them too."""

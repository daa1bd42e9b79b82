"""Functions of mhaviz for Python. The commands of the command line call them, too."""

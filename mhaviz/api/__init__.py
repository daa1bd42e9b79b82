"""What mhaviz does, for Python: the command line calls nothing else."""

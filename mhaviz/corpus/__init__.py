"""Many texts: read in batches, by one process or several, with sums that are kept to be resumed."""

"""Many texts: read in batches, as shards, with parts that are kept and merged."""

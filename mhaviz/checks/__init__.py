"""Metamorphic probes of an attention layer, which find mistakes by what it computes, not by what its source says."""

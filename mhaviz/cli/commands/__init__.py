"""The commands, one per file: each reads its options, calls a function of ``mhaviz.api``, and shows the result."""

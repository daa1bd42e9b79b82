"""The commands, one a file: each reads its options, calls what Python could call too, and shows the result."""

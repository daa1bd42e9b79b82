"""The commands, one a file: parse, call what Python could call, show."""

"""One family of errors. A message says what was expected, what came, and what to do about it."""


class MhavizError(Exception):
    """Something could not be done; the message is one line, written for the person who asked for it."""


class ArgumentError(MhavizError, ValueError):
    """A value that was passed in cannot be used. It is also a ``ValueError``, for callers in Python."""


class StoppedError(MhavizError):
    """The user has stopped the work; the message says what there is of it."""

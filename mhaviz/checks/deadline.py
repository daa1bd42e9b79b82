"""The time that a check may take."""

import time

from mhaviz.errors import MhavizError


class TimeUpError(MhavizError):
    """The time for a check is over."""


class Deadline:
    """A time limit that begins now.

    Args:
        seconds: the limit.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._until = seconds, time.monotonic() + seconds

    def require_time(self) -> None:
        """Raise TimeUpError if the time is over."""
        if time.monotonic() > self._until:
            raise TimeUpError(f"expected a check within {self._seconds:.3g} seconds, and the layer takes longer")

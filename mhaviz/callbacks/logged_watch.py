"""A watch of a training whose numbers and pictures go to loggers, at the end of each step."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from mhaviz.api.watching import Watch
from mhaviz.errors import MhavizError
from mhaviz.observe.handlers import one_line
from mhaviz.results.health import Health

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

TAG = "attention/health"
"""Name of the picture for loggers."""

_SAMPLES_A_PICTURE = 10
"""Number of samples from one picture to the next."""

Log = Callable[[dict[str, float]], object]
"""Logs scalars by name."""

LogPicture = Callable[["Figure"], object]
"""Logs a picture."""


class LoggedWatch:
    """A watch whose samples are logged when a step ends, and not within the forward pass, where they are taken.

    What a logger raises is said once, in a line, and does not end the training.

    Attributes:
        watch: the watch, which is begun.
    """

    def __init__(self, watch_of: Callable[[Callable[[int, Mapping[str, float]], None]], Watch]) -> None:
        self._sample: Mapping[str, float] = {}
        self._n_samples = self._n_drawn = 0
        self._has_ended = False
        self.watch = watch_of(self._take)
        self.watch.__enter__()

    def _take(self, number: int, scalars: Mapping[str, float]) -> None:
        self._sample = scalars
        self._n_samples += 1

    def step(self, logs: Iterable[Log], pictures: Callable[[], Iterator[LogPicture]]) -> None:
        """Log the last sample of a step, if it has any, and now and then a picture.

        Args:
            logs: what logs scalars, for each logger.
            pictures: returns what logs a picture, for each logger that can.
        """
        sample, self._sample = self._sample, {}
        for log in logs if sample else ():
            self._try("logging", partial(log, dict(sample)))
        if self._n_samples - self._n_drawn >= _SAMPLES_A_PICTURE:
            self._draw(pictures)

    def end(self, pictures: Callable[[], Iterator[LogPicture]]) -> None:
        """End the watch, and log a last picture."""
        self.leave()
        if self._n_samples > self._n_drawn:
            self._draw(pictures)
        for line in self.watch.notices:
            self.watch.say_once(line)

    def leave(self) -> None:
        """End the watch, if it has not ended."""
        if not self._has_ended:
            self._has_ended = True
            self.watch.__exit__(None, None, None)

    def _draw(self, pictures: Callable[[], Iterator[LogPicture]]) -> None:
        self._n_drawn = self._n_samples
        found: list[LogPicture] = []
        self._try("looking for loggers", lambda: found.extend(pictures()))
        for log_picture in found:  # some loggers close the figure that they are given
            self._try("logging a picture", partial(self._log_picture, log_picture))

    def _log_picture(self, log_picture: LogPicture) -> None:
        log_picture(self.watch.health.plot())

    def _try(self, what: str, function: Callable[[], object]) -> None:
        try:
            function()
        except MhavizError as error:
            self.watch.say_once(f"{what}: {error}; the training goes on")
        except Exception as error:
            self.watch.say_once(f"{what}: {one_line(error)}; the training goes on")


class Watching:
    """What the callbacks of all libraries share: the options of a watch, and the watch of the training that runs.

    Args:
        every, module, on_notice: as in ``Watch``.

    Raises:
        ArgumentError: an argument is invalid.
    """

    def __init__(self, every: int = 50, *, module: str | Sequence[str] | None = None, on_notice: Any = None) -> None:
        super().__init__()
        self._options: dict[str, Any] = {"every": every, "module": module, "on_notice": on_notice}
        Watch(**self._options)  # raises an error for what is wrong before the training
        self._logged: LoggedWatch | None = None

    @property
    def health(self) -> Health:
        """Health of all heads so far. Raises MhavizError as ``Watch.health``."""
        watch = Watch(**self._options) if self._logged is None else self._logged.watch
        return watch.health

    def leave(self) -> None:
        """End to watch a training that has failed: no hook is left on its model. ``health`` stays. Of a training that
        has ended by itself, do nothing."""
        if self._logged is not None:
            self._logged.leave()


def image_of(figure: "Figure") -> "Image":
    """Return a figure as an image of PIL."""
    from PIL import Image

    stream = BytesIO()
    figure.savefig(stream, format="png")
    return Image.open(stream)

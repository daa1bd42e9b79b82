"""Callback of Lightning."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mhaviz.api.watching import Watch
from mhaviz.callbacks.logged_watch import TAG, Log, LoggedWatch, LogPicture, Watching, image_of

_NAMES = ("lightning.pytorch", "pytorch_lightning")
"""Names of Lightning, of which a program may have both. A callback must be of the one that it uses."""

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    _Callback = object
else:
    _Callback = import_module(next((name for name in reversed(_NAMES) if name in sys.modules), _NAMES[0])).Callback


class LightningWatch(Watching, _Callback):
    """Watches what a training by Lightning does to attention.

    Scalars go to each logger of the trainer. Pictures go to those that take figures or images, such as TensorBoard's
    and that of Weights & Biases, every tenth sample and at the end. A logger that fails is said once, and does not end
    the training. Of several processes, the first watches.

    Args:
        every, module: as in ``Watch``. Passes are calls of the outermost modules of ``training_step``, and of
            ``validation_step``; scalars are logged at the trainer's step.
        on_notice: as in ``Watch``.

    Examples:
        >>> lightning.Trainer(callbacks=[LightningWatch(every=50)]).fit(module, batches)
    """

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to watch."""
        self.leave()
        self._logged, name = None, type(pl_module).__name__
        if trainer.is_global_zero:
            self._logged = LoggedWatch(lambda take: Watch(on_sample=take, program=name, **self._options))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *others: Any, **by_name: Any) -> None:
        """Log what was sampled in the step."""
        if self._logged is not None:
            self._logged.step(_logs(trainer), lambda: _pictures(trainer))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End to watch."""
        if self._logged is not None:
            self._logged.end(lambda: _pictures(trainer))

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End to watch."""
        self.leave()


def _logs(trainer: Any) -> Iterator[Log]:
    """Iterate over what logs scalars, for each logger: one that fails keeps no other from its numbers."""
    for logger in trainer.loggers:
        yield partial(logger.log_metrics, step=trainer.global_step)


def _pictures(trainer: Any) -> Iterator[LogPicture]:
    step = trainer.global_step
    for logger in trainer.loggers:
        if callable(add_figure := getattr(logger.experiment, "add_figure", None)):
            yield partial(add_figure, TAG, global_step=step)
        elif callable(log_image := getattr(logger, "log_image", None)):
            yield partial(_log_image, log_image, step)


def _log_image(log_image: Callable[..., object], step: int, figure: "Figure") -> None:
    log_image(TAG, [image_of(figure)], step=step)

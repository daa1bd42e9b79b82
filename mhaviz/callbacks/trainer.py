"""Callback of the Trainer of transformers."""

import sys
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from mhaviz.api.watching import Watch
from mhaviz.callbacks.logged_watch import TAG, LoggedWatch, LogPicture, Watching, image_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class TrainerWatch(Watching, TrainerCallback):
    """Watches what a training by the Trainer of transformers does to attention.

    Scalars go through the Trainer's ``log``, so that each of its ``report_to`` gets them, and its ``log_history``.
    Pictures go to TensorBoard and Weights & Biases, every tenth sample and at the end. A logger that fails is said
    once, and does not end the training. Of several processes, the first watches.

    A Trainer does not tell its callbacks that it has failed. ``leave`` then ends the watch; so does its next training.

    Args:
        every, module: as in ``Watch``. Passes are calls of the model, also those of an evaluation and each of those
            whose gradients are accumulated; scalars are logged at the Trainer's step.
        on_notice: as in ``Watch``.

    Examples:
        >>> watch = TrainerWatch(every=50)
        >>> try:
        ...     Trainer(model, arguments, train_dataset=texts, callbacks=[watch]).train()
        ... finally:
        ...     watch.leave()
        >>> watch.health.save("health.png")
    """

    _trainer: Trainer | None = None

    def leave(self) -> None:
        """See ``Watching.leave``."""
        super().leave()
        self._trainer = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **others: Any
    ) -> None:
        """Begin to watch."""
        self.leave()
        self._logged, self._trainer = None, _trainer_that_calls()
        if state.is_world_process_zero:
            self._logged = LoggedWatch(lambda take: Watch(model, on_sample=take, **self._options))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any) -> None:
        """Log what was sampled in the step."""
        if self._logged is not None:
            self._logged.step([self._log], lambda: self._pictures(state))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """End to watch."""
        if self._logged is not None:
            self._logged.end(lambda: self._pictures(state))
        self._trainer = None

    def _log(self, scalars: dict[str, float]) -> None:
        if self._trainer is not None:
            self._trainer.log(scalars)

    def _pictures(self, state: TrainerState) -> Iterator[LogPicture]:
        for callback in [] if self._trainer is None else self._trainer.callback_handler.callbacks:
            writer, wandb = getattr(callback, "tb_writer", None), getattr(callback, "_wandb", None)
            if writer is not None:
                yield partial(writer.add_figure, TAG, global_step=state.global_step)
            if wandb is not None:
                yield partial(_log_image, wandb, state.global_step)


def _log_image(wandb: Any, step: int, figure: "Figure") -> None:
    wandb.log({TAG: wandb.Image(image_of(figure)), "train/global_step": step})


def _trainer_that_calls() -> Trainer | None:
    """Return the Trainer that calls a callback, to which it does not pass itself."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if isinstance(found := frame.f_locals.get("self"), Trainer):
            return found
        frame = frame.f_back
    return None

"""Callbacks of training libraries that watch what training does to attention; see ``mhaviz.Watch``.

They log scalars, such as "attention/entropy/lowest", and a picture of their course, to whatever loggers a training has.
Each is imported on first use, with its library.

    from mhaviz.callbacks import TrainerWatch, LightningWatch

    transformers.Trainer(model, arguments, train_dataset=texts, callbacks=[TrainerWatch(every=50)]).train()
    lightning.Trainer(callbacks=[LightningWatch(every=50)]).fit(module, batches)
"""

from importlib import import_module

_HOMES = {"TrainerWatch": "trainer", "LightningWatch": "for_lightning"}

__all__ = ["LightningWatch", "TrainerWatch"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

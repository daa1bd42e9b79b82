"""mhaviz train --animate: an animation of one sentence's maps as training goes on."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mhaviz.files.writing import write_whole

if TYPE_CHECKING:
    from mhaviz.models.trained_model import TrainedModel
    from mhaviz.records.attention import Attention
    from mhaviz.training.corpus import Corpus, Pair

_WORDS = 10  # what a class can read on a wall
_DPI = 80


class Film:
    """The maps of one held-out sentence, from before the training on."""

    def __init__(self, model: "TrainedModel", corpus: "Corpus") -> None:
        self._model, self._pair = model, filmed_pair(corpus)
        self._frames: list[Attention] = []
        self.expose()

    def expose(self) -> None:
        """Add a frame."""
        from mhaviz.analyses.weights import attention_weights

        self._frames.append(attention_weights(self._model, self._model.inputs_of([self._pair], target_given=True)))

    def save(self, path: Path) -> None:
        """Write the file. Raises MhavizError."""
        from mhaviz.views.animation import write_gif
        from mhaviz.views.style import Style

        write_whole([(path, partial(write_gif, frames=self._frames, style=Style(dpi=_DPI, numbers=False)))])


def filmed_pair(corpus: "Corpus") -> "Pair":
    """The longest held-out pair of those that are short enough to be read on a wall, or the shortest of all."""

    def length(pair: "Pair") -> int:
        return max(len(pair.source), len(pair.target))

    short = [pair for pair in corpus.held_out if length(pair) <= _WORDS]
    return max(short, key=length) if short else min(corpus.held_out, key=length)

"""What is noted while a program runs. What the notes come to is decided when they are read."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

MOST_LINES = 1000
"""Number of different messages that are kept."""


@dataclass(eq=False)
class SoftmaxNote:
    """Note on a softmax.

    Attributes:
        line: message for the case that its weights never meet values.
        is_met: whether they have met some.
    """

    line: str
    is_met: bool = False


class Log:
    """Notes on a program, made while it runs. Its memory is that of different messages, however long the program runs.

    Attributes:
        left_out: why attentions are not drawn, by their numbers: the first reason of each.
    """

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}
        self._unmet = Counter[str]()
        self.left_out: dict[int, str] = {}

    def miss(self, line: str) -> None:
        """Note what is not shown, or not known, once."""
        if len(self._lines) < MOST_LINES:
            self._lines[line] = None

    def leave_out(self, attention: int, why: str) -> None:
        """Note why an attention is not drawn."""
        self.left_out.setdefault(attention, why)

    def begin(self, line: str) -> SoftmaxNote:
        """Note a softmax whose weights have yet to meet values; ``line``: see ``SoftmaxNote``."""
        self._unmet[line] += 1
        return SoftmaxNote(line)

    def meet(self, softmaxes: Iterable[SoftmaxNote]) -> None:
        """Note that the weights of these softmaxes, or a part of them, have met values."""
        for softmax in softmaxes:
            if not softmax.is_met:
                softmax.is_met = True
                self._unmet[softmax.line] -= 1

    @property
    def missed(self) -> list[str]:
        """Messages about what was not seen or is not known, one line each."""
        return [*self._lines, *(line for line, number in self._unmet.items() if number)]

"""The interface of studies: what is added up over the sentences of a corpus, in parts that can be joined."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

from numpy.typing import NDArray

from mhaviz.attention.model import SiteCall


class Sums(ABC):
    """Sums over any number of sentences, in constant memory.

    A corpus is cut into parts, each part is added up by itself, on any machine, and the sums are joined. Sums are of
    float64 and int64, so that the number of parts does not show in the first nine digits of any result.
    """

    @abstractmethod
    def join(self, other: Self) -> None:
        """Count what another study has added up, whose sentences come after.

        Joined to a study that has added up nothing, all numbers are those of the other, bit for bit.

        Raises:
            ValueError: it is of another model, such as one of another number of heads.
        """

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that has been added up, as arrays of float64 and int64, by name."""

    @classmethod
    @abstractmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The study that these are the arrays of: exactly what it was.

        Raises:
            ValueError: they may come from anybody's file, and cannot be those of such a study.
        """


class Study(Sums):
    """Sums over what the attentions of one model are called with."""

    @abstractmethod
    def add(self, seen: SiteCall, numbers: Sequence[int]) -> None:
        """Count the sentences of an attention's call.

        Args:
            seen: the call, of one or several sentences.
            numbers: of each of these sentences in the corpus, from 0.
        """

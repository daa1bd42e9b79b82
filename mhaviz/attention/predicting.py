"""The interface of models of which heads can be zeroed, and that make something at the end which this changes.

A head is zeroed where it has mixed its values, before they are projected: the mask variables ξ of Michel et al. 2019,
"Are Sixteen Heads Really Better than One?" (arXiv 1905.10650, section 2.2).
"""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Self

from torch import Tensor

from mhaviz.attention.model import CorpusModel, Inputs
from mhaviz.records.ablation import Prediction
from mhaviz.records.site import Site


class PredictingModel(CorpusModel):
    """A model that predicts tokens, or at least makes an embedding of a text.

    Attributes:
        zeroed: the heads whose output is zeroed, each by the number of its attention and its own.
    """

    zeroed: frozenset[tuple[int, int]] = frozenset()

    @property
    @abstractmethod
    def prediction(self) -> Prediction:
        """What it makes at the end."""

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """The number of tokens that it chooses among where it predicts one."""

    @abstractmethod
    def masked(self, inputs: Inputs, positions: Sequence[Sequence[int]]) -> Inputs:
        """The same inputs with the token that stands for a hidden one, at these positions of each sentence."""

    @abstractmethod
    def logits(self, inputs: Inputs, positions: Sequence[Sequence[int]]) -> Tensor:
        """What it predicts at these positions of each sentence, or of its target if it has one.

        Returns:
            float32, (n_positions, vocabulary), those of one sentence after those of another.

        Raises:
            MhavizError: as ``Model.run``; NaN among them.
        """

    @abstractmethod
    def pooled(self, inputs: Inputs) -> Tensor:
        """The mean over the tokens of what the last layer makes of each sentence: float32, (batch_size, d_model).

        Raises:
            MhavizError: as ``logits``.
        """

    @abstractmethod
    def zeroing(self, heads: Collection[tuple[Site, int]]) -> Self:
        """The same model with the output of these heads zeroed, whatever it does then.

        While it runs a MhavizError is raised if the output of an attention cannot be reached.
        """

"""What a model makes at the end of a text: the next token, a masked one, or an embedding of the text."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mhaviz.attention.model import Inputs, Predictor
from mhaviz.devices import require_memory
from mhaviz.errors import MhavizError
from mhaviz.inputs.tokens import Text, Tokens
from mhaviz.models.transformers.read import id_of
from mhaviz.models.transformers.run import Hook, run_hooked
from mhaviz.models.transformers.texts import Texts
from mhaviz.results.ablation import Prediction


@dataclass(frozen=True)
class TransformersPredictor(Predictor):
    """See ``Predictor``.

    Attributes:
        texts: the model.
        is_masked: whether a token sees earlier ones alone.
        batches: what is read at once of inputs.
        hook: is called with each attention that runs.
    """

    texts: Texts
    is_masked: bool
    batches: Callable[[Inputs], Sequence[tuple[Text, ...]]]
    hook: Hook

    @property
    def prediction(self) -> Prediction:
        """The next token of a model with a head that predicts tokens.

        A masked one if it sees later tokens and has a token that masks.
        """
        if self._top is None:
            return "embedding"
        if self.texts.loaded.has_encoder or self.is_masked:
            return "next token"
        return "embedding" if self._mask is None else "masked token"

    @property
    def vocabulary(self) -> int:
        """See ``Predictor.vocabulary``."""
        return int(self._top.weight.shape[0])

    def masked(self, inputs: Inputs, positions: Sequence[Sequence[int]]) -> Inputs:
        """See ``Predictor.masked``."""
        mask = self._mask
        assert mask is not None
        pairs = zip(inputs.texts, positions, strict=True)
        return Inputs(tuple(replace(t, source=t.source.with_ids(dict.fromkeys(places, mask))) for t, places in pairs))

    def logits(self, inputs: Inputs, positions: Sequence[Sequence[int]]) -> Tensor:
        """See ``Predictor.logits``."""
        longest, loaded = max(len(_predicting(text)) for text in inputs.texts), self.texts.loaded
        needed = 3 * 4 * len(inputs.texts) * longest * self.vocabulary
        require_memory(needed, loaded.device, f"what {loaded.name} predicts")
        places, rows = iter(positions), []
        for texts, out in self._outputs(inputs, whole=True):
            rows += [out["logits"][row, list(next(places))].float() for row in range(len(texts))]
        return self._finite(torch.cat(rows))

    def pooled(self, inputs: Inputs) -> Tensor:
        """See ``Predictor.pooled``."""
        rows: list[Tensor] = []
        for texts, out in self._outputs(inputs):
            hidden = out["last_hidden_state"] if "last_hidden_state" in out else out[0]
            rows += [x[: len(_predicting(text))].float().mean(dim=0) for text, x in zip(texts, hidden, strict=True)]
        return self._finite(torch.stack(rows))

    def _outputs(self, inputs: Inputs, whole: bool = False) -> Iterator[tuple[tuple[Text, ...], Any]]:
        """What is read at once, and what the model returns of it; see ``run_hooked``."""
        for texts in self.batches(inputs):
            yield texts, run_hooked(self.texts.loaded, self.texts.batch(texts), self.hook, whole=whole)

    def _finite(self, x: Tensor) -> Tensor:
        """The same. Raises MhavizError if something is no number; −∞ is what no text can have."""
        if bool((x.isnan() | (x == torch.inf)).any()):
            name = self.texts.loaded.name
            raise MhavizError(f"{name}: expected numbers at its end, got NaN or infinity; take another copy of it")
        return x

    @property
    def _top(self) -> Any:
        """What gives each token of the vocabulary a number; None: nothing does."""
        return self.texts.loaded.model.get_output_embeddings()  # type: ignore[no-untyped-call]

    @property
    def _mask(self) -> int | None:
        return id_of(self.texts.loaded.tokenizer, "mask_token_id")


def _predicting(text: Text) -> Tokens:
    """The tokens at whose positions something is predicted."""
    return text.source if text.target is None else text.target

"""The final output of a model of transformers: logits of next or masked tokens, or an embedding of the text."""

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
    """The predictions of a model of transformers; see ``Predictor``.

    Attributes:
        texts: the model with its reader.
        is_masked: whether all attention is masked self-attention.
        batches: splits inputs into batches.
        hook: called with each attention that runs.
    """

    texts: Texts
    is_masked: bool
    batches: Callable[[Inputs], Sequence[tuple[Text, ...]]]
    hook: Hook

    @property
    def prediction(self) -> Prediction:
        """What the model predicts.

        "next token" for a model with a language modelling head, "masked token" if it sees later tokens and has a mask
        token, else "embedding".
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
        """Run the model on each batch, and yield the batch and the output."""
        for texts in self.batches(inputs):
            yield texts, run_hooked(self.texts.loaded, self.texts.batch(texts), self.hook, whole=whole)

    def _finite(self, x: Tensor) -> Tensor:
        """Return x. Raises MhavizError if it holds NaN or +∞; −∞ is the logit of an impossible token."""
        if bool((x.isnan() | (x == torch.inf)).any()):
            name = self.texts.loaded.name
            raise MhavizError(f"{name}: expected numbers as its output, got NaN or infinity; take another copy of it")
        return x

    @property
    def _top(self) -> Any:
        """The language modelling head, which computes a logit for each token of the vocabulary; None: there is none."""
        return self.texts.loaded.model.get_output_embeddings()  # type: ignore[no-untyped-call]

    @property
    def _mask(self) -> int | None:
        return id_of(self.texts.loaded.tokenizer, "mask_token_id")


def _predicting(text: Text) -> Tokens:
    """Return the tokens at whose positions the model predicts."""
    return text.source if text.target is None else text.target

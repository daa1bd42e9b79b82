"""How a trained translator writes: word by word, each time the likeliest."""

import torch
from torch import Tensor

from mhaviz.layer.tokens import Vocabulary
from mhaviz.layer.transformer import Translator


def decode_greedily(
    model: Translator, source_ids: Tensor, source_mask: Tensor | None, start: int, end: int, most: int
) -> list[tuple[list[int], bool]]:
    """Translate by always taking the next word with the largest logit.

    Args:
        model: in eval mode.
        source_ids: (batch_size, source_length).
        source_mask: as in ``Translator.encode``.
        start, end: the numbers of the marks. A translation begins after the one and ends before the other.
        most: words after which a translation that has not ended is left as it is.

    Returns:
        The numbers of each translation's words, without the marks, and whether it ended.
    """
    with torch.no_grad():
        memory, _ = model.encode(source_ids, source_mask)
        written = torch.full((len(source_ids), 1), start, device=source_ids.device)  # batch_size length
        ended = torch.zeros(len(source_ids), dtype=torch.bool, device=source_ids.device)
        for _ in range(most):
            logits = model.decode(written, memory, source_mask).logits[:, -1]  # batch_size vocab_size
            logits[:, [Vocabulary.PADDING, start]] = -torch.inf
            word = logits.argmax(dim=-1).masked_fill(ended, Vocabulary.PADDING)
            ended |= word == end
            written = torch.cat([written, word[:, None]], dim=1)
            if ended.all():
                break
    words = [[n for n in row if n not in (Vocabulary.PADDING, end)] for row in written[:, 1:].tolist()]
    return list(zip(words, ended.tolist(), strict=True))

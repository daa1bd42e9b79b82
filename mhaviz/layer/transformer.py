"""The Transformer around its attention. Vaswani et al. 2017, sections 3.1 and 3.3, with one layer on each side.

``Translator`` is the encoder–decoder of figure 1: source words in, target words out, with its three uses of attention.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mhaviz.layer.attention import MultiHeadAttention, causal_mask
from mhaviz.layer.embedding import Embeddings, PositionalEncoding
from mhaviz.layer.steps import Step, untraced, within
from mhaviz.layer.tokens import Vocabulary


class AttentionBlock(nn.Module):
    """Attention with a residual connection: LayerNorm(X + dropout(MultiHeadAttention(X, memory, memory))).

    Section 3.1, where the norm comes last.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads, dropout)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(d_model)

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, *, step: Step = untraced
    ) -> tuple[Tensor, Tensor]:
        """Attend from x (batch_size, q_length, d_model) to memory (batch_size, k_length, d_model).

        Returns:
            The output, in the shape of x, and the weights, (batch_size, n_heads, q_length, k_length).
        """
        output, weights = self.attention(x, memory, memory, mask, step=step)
        return self.norm(x + self.dropout(output)), weights


class FeedForwardBlock(nn.Module):
    """Feed-forward network with a residual connection: LayerNorm(X + dropout(dropout(max(0, X W1 + b1)) W2 + b2)).

    Each position is transformed by itself. Section 3.3.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.W1, self.W2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for x (batch_size, length, d_model), in the same shape."""
        hidden = self.dropout(self.W1(x).relu())
        after: Tensor = self.norm(x + self.dropout(self.W2(hidden)))
        return after


class Decoded(NamedTuple):
    """Output of a decoder for each position.

    Attributes:
        logits: for the next word, (batch_size, length, vocab_size).
        masked: weights of the masked self-attention, (batch_size, n_heads, length, length).
        cross: weights of the source-target attention, (batch_size, n_heads, length, source_length).
    """

    logits: Tensor
    masked: Tensor
    cross: Tensor


class Translator(nn.Module):
    """The encoder–decoder of section 3.1 and figure 1. Each of its three attentions is one ``MultiHeadAttention``.

    Args:
        source_size, target_size: number of words in each vocabulary, including the padding.
        d_model, n_heads: see ``MultiHeadAttention``.
        d_ff: number of hidden features of the feed-forward blocks.
        dropout: share that is dropped in training.
    """

    def __init__(
        self, source_size: int, target_size: int, d_model: int, n_heads: int, d_ff: int, dropout: float
    ) -> None:
        super().__init__()
        self.source_embeddings = Embeddings(source_size, d_model)
        self.target_embeddings = Embeddings(target_size, d_model)
        self.position = PositionalEncoding(d_model, dropout)
        self.encoder_self = AttentionBlock(d_model, n_heads, dropout)
        self.encoder_forward = FeedForwardBlock(d_model, d_ff, dropout)
        self.decoder_self = AttentionBlock(d_model, n_heads, dropout)
        self.decoder_source = AttentionBlock(d_model, n_heads, dropout)
        self.decoder_forward = FeedForwardBlock(d_model, d_ff, dropout)
        self.output = nn.Linear(d_model, target_size)

    def encode(
        self, source_ids: Tensor, source_mask: Tensor | None = None, *, step: Step = untraced
    ) -> tuple[Tensor, Tensor]:
        """Return the memory of source_ids (batch_size, source_length), and the weights of the self-attention.

        The memory is (batch_size, source_length, d_model). ``source_mask`` hides padding; see
        ``MultiHeadAttention.forward``.
        """
        in_self, in_cross = within("self", step), within("cross", step)
        x = self.position(self.source_embeddings(source_ids, step=in_self), step=in_self)
        x, weights = self.encoder_self(x, x, source_mask, step=in_self)
        x = self.encoder_forward(x)
        return in_cross("X source = encoder(source)", x, "batch_size k_length d_model"), weights

    def decode(
        self, target_ids: Tensor, memory: Tensor, source_mask: Tensor | None = None, *, step: Step = untraced
    ) -> Decoded:
        """Predict the word after each of target_ids (batch_size, target_length), which begin with the start mark.

        Padding at the end of a target needs no mask, as no real word sees what comes after it.
        """
        in_masked, in_cross = within("masked", step), within("cross", step)
        x = self.position(self.target_embeddings(target_ids, step=in_masked), step=in_masked)
        mask = causal_mask(target_ids.shape[1], target_ids.device)
        x, masked = self.decoder_self(x, x, mask, step=in_masked)
        x = in_cross("X target = decoder so far", x, "batch_size q_length d_model")
        x, cross = self.decoder_source(x, memory, source_mask, step=in_cross)
        return Decoded(self.output(self.decoder_forward(x)), masked, cross)


def decode_greedily(
    model: Translator, source_ids: Tensor, source_mask: Tensor | None, start: int, end: int, most: int
) -> list[tuple[list[int], bool]]:
    """Translate by always taking the next word with the largest logit.

    Args:
        model: in eval mode.
        source_ids: (batch_size, source_length).
        source_mask: see ``Translator.encode``.
        start, end: numbers of the marks before and after a translation.
        most: number of words after which a translation is cut off.

    Returns:
        For each translation, the numbers of its words, without the marks, and whether it ended by itself.
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

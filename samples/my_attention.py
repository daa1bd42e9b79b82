"""A layer with two mistakes that people make. Shapes are right, its loss falls, and ``mhaviz check`` finds them."""

from torch import nn


class MyAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.Wq, self.Wk, self.Wv, self.Wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, keep=None):
        batch_size, length, d_model = x.shape
        q, k, v = (W(x).view(batch_size, length, self.n_heads, -1).transpose(1, 2) for W in (self.Wq, self.Wk, self.Wv))
        scores = q @ k.transpose(-2, -1)
        if keep is not None:
            scores = scores.masked_fill(~keep[:, None, :, None], -1e9)
        weights = scores.softmax(dim=-1)
        return self.Wo((weights @ v).transpose(1, 2).reshape(batch_size, length, d_model))

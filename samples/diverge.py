"""Learns to say twelve letters backwards, until a learning rate that never stops growing breaks it. When did which head
collapse? `mhaviz record --watch 10 samples/diverge.py`
"""

import torch
from torch import nn


class Reverser(nn.Module):
    def __init__(self, d_model=32, n_heads=4):
        super().__init__()
        self.letter, self.place = nn.Embedding(26, d_model), nn.Embedding(12, d_model)
        layer = nn.TransformerEncoderLayer(d_model, n_heads, 64, dropout=0.0, batch_first=True)
        self.encoder, self.say = nn.TransformerEncoder(layer, 2), nn.Linear(d_model, 26)

    def forward(self, word):
        return self.say(self.encoder(self.letter(word) + self.place(torch.arange(12))))


torch.manual_seed(0)
torch.set_num_threads(1)
model = Reverser()
optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
warm_up = torch.optim.lr_scheduler.ExponentialLR(optimizer, 1.03)  # which nobody ends
for step in range(201):
    word = torch.randint(26, (16, 12))
    loss = nn.functional.cross_entropy(model(word).mT, word.flip(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    warm_up.step()
    if step % 20 == 0:
        print(f"step {step}, learning rate {warm_up.get_last_lr()[0]:.3f}, loss {loss:.2f}")

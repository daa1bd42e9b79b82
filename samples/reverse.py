"""Learns to say twelve letters backwards: record it to see how. `mhaviz record --passes 0,20,150 samples/reverse.py`"""

import torch
from torch import nn

torch.manual_seed(0)
letter, place = nn.Embedding(26, 32), nn.Embedding(12, 32)
attend, say = nn.MultiheadAttention(32, 2, batch_first=True), nn.Linear(32, 26)
optimizer = torch.optim.Adam(nn.ModuleList([letter, place, attend, say]).parameters(), lr=0.01)
for _ in range(151):
    word = torch.randint(26, (16, 12))
    x = letter(word) + place(torch.arange(12))
    output, _ = attend(x, x, x)
    loss = nn.functional.cross_entropy(say(output).mT, word.flip(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

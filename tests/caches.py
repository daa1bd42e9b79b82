"""Caches of keys, as programs that generate write them by hand: ``update`` takes new rows and gives all."""

import torch
from torch.nn import functional as F  # noqa: N812


class Joined:
    """Keys are joined to those before."""

    def __init__(self):
        self.rows, self.n = None, 0

    def update(self, k):
        self.n += k.shape[2]
        return self.joined(k)

    def joined(self, k):
        self.rows = k if self.rows is None else torch.cat([self.rows, k], 2)
        return self.rows

    def crop(self, n):
        """Drop what has been read behind so many tokens."""
        self.rows, self.n = self.rows[:, :, :n], n


class CutWindow(Joined):
    """The latest rows are kept."""

    def joined(self, k):
        self.rows = super().joined(k)[:, :, -4:]
        return self.rows


class Buffer(Joined):
    """A buffer of zeros, into which each token is written."""

    length = 12

    def joined(self, k):
        if self.rows is None:
            self.rows = k.new_zeros(*k.shape[:2], self.length, k.shape[3])
        self.write(k, self.n - k.shape[2], self.n)
        return self.rows

    def crop(self, n):
        self.rows[:, :, n:] = 0
        self.n = n


class WrittenSlice(Buffer):
    def write(self, k, start, end):
        self.rows[:, :, start:end] = k


class Overwritten(WrittenSlice):
    """What was rejected stays, behind the mask, until others are written over it."""

    def crop(self, n):
        self.n = n


class ReadSlice(WrittenSlice):
    """What has been written is read."""

    def joined(self, k):
        return super().joined(k)[:, :, : self.n]


class Copied(Buffer):
    def write(self, k, start, end):
        self.rows.index_copy_(2, torch.arange(start, end), k)


class Indexed(Buffer):
    def write(self, k, start, end):
        self.rows[:, :, torch.arange(start, end)] = k


class Scattered(Buffer):
    def write(self, k, start, end):
        self.rows.scatter_(2, torch.arange(start, end).view(1, 1, -1, 1).expand_as(k), k)


class Chosen(Buffer):
    """Written out of place: each row is that of the token at its position, or stays."""

    def write(self, k, start, end):
        for t in range(start, end):
            is_new = (torch.arange(self.length) == t).view(1, 1, -1, 1)
            self.rows = torch.where(is_new, k[:, :, t - start : t - start + 1], self.rows)


class Ring(Buffer):
    """The oldest row is written over."""

    length = 4

    def write(self, k, start, end):
        for t in range(start, end):
            self.rows[:, :, t % self.length] = k[:, :, t - start]


class RingByIndex(Ring):
    def write(self, k, start, end):
        self.rows.index_copy_(2, torch.arange(start, end) % self.length, k)


class Rolled(Ring):
    """Rolled to the left, and written at the right."""

    def write(self, k, start, end):
        n = end - start
        self.rows = self.rows.roll(-n, 2)
        self.rows[:, :, -n:] = k


class RightAligned(Rolled):
    length = 12


class PaddedLeft(Joined):
    """The joined rows, with rows of zeros before them: as many as make 12."""

    def joined(self, k):
        rows = super().joined(k)
        return F.pad(rows, (0, 0, 12 - rows.shape[2], 0))


class Paged(Joined):
    """Blocks of two rows, which a table gives to each example in an order of its own."""

    table = torch.tensor([[7, 2, 5, 0, 9, 10], [1, 8, 3, 11, 4, 6]])

    def joined(self, k):
        if self.rows is None:
            self.rows = k.new_zeros(12, 2, k.shape[1], k.shape[3])
        at = torch.arange(self.n - k.shape[2], self.n)
        self.rows[self.table[:, at // 2], at % 2] = k.transpose(1, 2)
        n = (self.n + 1) // 2
        return self.rows[self.table[:, :n]].flatten(1, 2).transpose(1, 2)

    def crop(self, n):
        at = torch.arange(n, self.n)
        self.rows[self.table[:, at // 2], at % 2] = 0
        self.n = n

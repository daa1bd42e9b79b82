"""What the tests of the recorder have in common."""

from dataclasses import replace

import torch
from rounding import rounding

from mhaviz.attention.call import AttentionCall
from mhaviz.recording.mode import Watch

CLOSE = rounding()


class Seen(list):
    """What a watch has caught: (place, caught) each, with the watch."""

    def __init__(self, watch=None):
        super().__init__()
        self.watch = watch

    @property
    def names(self):
        return [place.name for place, _ in self]

    @property
    def missed(self):
        return list(self.watch.missed)

    def only(self):
        assert len(self) == 1, f"{self.names}, missed {self.missed}"
        return self[0][1]

    def weights(self, number=None):
        """Of the only attention, or of one of several, as float32."""
        caught = self.only() if number is None else self[number][1]
        return caught.call.weights()


def watch(function, *args, model=None, **kwargs):
    """What is caught while a function runs, and what the function returns."""
    seen = Seen()

    def on_caught(place, caught):
        call = caught.call
        kept = {name: x.clone() for name, x in vars(call).items() if isinstance(x, torch.Tensor)}
        output = None if caught.output is None else caught.output.clone()
        seen.append((place, replace(caught, call=replace(call, **kept), output=output)))

    seen.watch = Watch(on_caught, model)
    with seen.watch.watching():
        result = function(*args, **kwargs)
    return seen, result


def assert_explains(caught):
    """The weights and values of what was caught make the output that the program made."""
    assert isinstance(caught.call, AttentionCall)
    assert caught.output is not None
    torch.testing.assert_close(caught.call.output().to(caught.output.dtype), caught.output, rtol=0, atol=CLOSE)

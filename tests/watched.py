"""What the tests of the recorder have in common."""

from dataclasses import replace

import pytest
import torch
from rounding import rounding

from mhaviz.attention.call import AttentionCall
from mhaviz.observe.mode import Observer

CLOSE = rounding()

uses_torch_jit = pytest.mark.filterwarnings("ignore:`torch[.]jit[.]")
"""A test that compiles with torch.jit, which warns in every release that it is deprecated, in a category of its own."""


class Seen(list):
    """What a watch has observed, with the watch."""

    def __init__(self, watch=None):
        super().__init__()
        self.watch = watch

    @property
    def names(self):
        return [one.place.name for one in self]

    @property
    def missed(self):
        return list(self.watch.missed)

    def only(self):
        assert len(self) == 1, f"{self.names}, missed {self.missed}"
        return self[0]

    def weights(self, number=None):
        """Of the only attention, or of one of several, as float32."""
        observed = self.only() if number is None else self[number]
        return observed.call.weights()


def watch(function, *args, model=None, **kwargs):
    """What is observed while a function runs, and what the function returns."""
    seen = Seen()

    def on_observed(observed):
        call = observed.call
        kept = {name: x.clone() for name, x in vars(call).items() if isinstance(x, torch.Tensor)}
        output = None if observed.output is None else observed.output.clone()
        seen.append(replace(observed, call=replace(call, **kept), output=output))

    seen.watch = Observer(on_observed, model)
    with seen.watch.watching():
        result = function(*args, **kwargs)
    return seen, result


def assert_explains(observed):
    """The weights and values of what was observed make the output that the program made."""
    assert isinstance(observed.call, AttentionCall)
    assert observed.output is not None
    torch.testing.assert_close(observed.call.output().to(observed.output.dtype), observed.output, rtol=0, atol=CLOSE)

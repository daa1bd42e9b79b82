"""Words of pages whose numbers are means over many texts."""

from mhaviz.pages.words import counted
from mhaviz.records.probes import Needle, Probe, RandomRepeats


def one_text(probe: Probe | None, is_recorded: bool = False) -> str:
    """What the means are over is called, one of it.

    ``probe``: what the texts were made for; ``is_recorded``: whether a program has read them.
    """
    if isinstance(probe, RandomRepeats):
        return "sequence"
    return "example" if is_recorded else "sentence"


def texts_of(number: int, probe: Probe | None, is_recorded: bool = False) -> str:
    """ "1,000 sentences", "32 sequences of 16 random tokens, repeated"."""
    texts = counted(number, one_text(probe, is_recorded))
    if isinstance(probe, RandomRepeats):
        return f"{texts} of {counted(probe.n_tokens, 'random token')}, repeated"
    return f"{texts} with a needle at {counted(len(probe.depths), 'depth')}" if isinstance(probe, Needle) else texts


def left_out_text(too_long: int, reader: str = "model") -> str:
    """What is said of sentences that were not read; ``reader``: by whom."""
    if not too_long:
        return ""
    were = "was" if too_long == 1 else "were"
    return f"{counted(too_long, 'sentence')} {were} left out: longer than the {reader} can read"

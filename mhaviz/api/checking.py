"""``mhaviz.check``: probes that find the mistakes that people make in attention layers."""

from collections.abc import Callable, Collection
from typing import Any

from torch import nn

from mhaviz.checks.checkpoints import d_model_of_checkpoint, is_checkpoint, stacks_of
from mhaviz.checks.deadline import Deadline
from mhaviz.checks.run import joined, run_probes
from mhaviz.errors import ArgumentError, parameter
from mhaviz.inputs.sizes import D_MODEL, size_among
from mhaviz.results.check import Check


def check(
    attend: Any,
    *,
    d_model: int | None = None,
    n_heads: int | None = None,
    ignore: Collection[str] = (),
    seed: int = 0,
    time_limit: float = 60.0,
    on_progress: Callable[[str], None] | None = None,
) -> Check:
    """Check an attention layer for mistakes, by what it computes on random inputs.

        >>> layer = torch.nn.MultiheadAttention(64, 4, batch_first=True)
        >>> assert not mhaviz.check(layer, d_model=64, ignore=["nan"])

    Each probe changes something that should not matter, or only in a known way: another token in a place, another
    sentence in the batch, padding, a mask, the length. With what ``record`` observes inside, it says which factor q·k
    has, which axis the softmax runs over, which token each row of each head is made of, and at which line. The source
    is not read. The layer is put into evaluation mode meanwhile.

    Args:
        attend: module or function: ``attend(x, keep=None, causal=False)``, where x is (batch_size, length, d_model)
            and keep is bool, (batch_size, length), True for a token and False for padding. It gives
            (batch_size, length, d_model), or a pair of that and more. What lacks ``keep`` or ``causal`` is probed
            without. These are called by themselves as well: ``nn.MultiheadAttention``, ``nn.TransformerEncoderLayer``
            and ``nn.TransformerDecoderLayer``; modules of (q, k, v, mask) and (x, mask), whose mask is tried in the
            usual shapes and both ways; (x, memory) of cross-attention, which is tried with a memory and without where
            it may be left out; functions of queries, keys and values on heads,
            (batch_size, n_heads, length, d_key); with ``cache`` or ``start_pos``, ``documents`` or ``position_ids``;
            and whole models of transformers, whose encoder and decoder are checked apart.
        d_model: number of features of a token; None: from the layer.
        n_heads: number of heads of a function of queries, keys and values; None: 2.
        ignore: codes of findings to leave out, such as "uniform-row".
        seed: seed of the random inputs.
        time_limit: seconds after which the check is given up.
        on_progress: called with the name of each probe.

    Returns:
        The findings, errors first: a sequence, empty where nothing is found. ``mhaviz check --explain CODE`` prints
        what a code means, why such a mistake hides, and how to mend it.

    Raises:
        ArgumentError: an argument is invalid.
        MhavizError: the layer cannot be called, returns no tensor of that shape, or takes longer.
    """
    if not 0 < time_limit < float("inf"):
        raise ArgumentError(f"{parameter('time_limit')}: expected seconds above 0, got {time_limit!r:.40}")
    if n_heads is not None and (type(n_heads) is not int or n_heads < 1):
        raise ArgumentError(f"{parameter('n_heads')}: expected a number of heads above 0, got {n_heads!r:.40}")
    deadline = Deadline(time_limit)
    if is_checkpoint(attend):
        if d_model is not None or n_heads is not None:
            name = "d_model" if d_model is not None else "n_heads"
            raise ArgumentError(f"a model of transformers has sizes of its own; leave out {parameter(name)}")
        size = d_model_of_checkpoint(attend)
        parts = [run_probes(one, size, None, ignore, seed, deadline, on_progress) for one in stacks_of(attend)]
        return parts[0] if len(parts) == 1 else joined(parts)
    return run_probes(attend, _d_model_of(attend, d_model), n_heads, ignore, seed, deadline, on_progress)


def _d_model_of(attend: Any, given: int | None) -> int:
    """Return the number of features that was given, or that the layer has as an attribute.

    Raises ArgumentError if it is invalid, or not known.
    """
    size = _size_of(attend) if given is None else given
    if size is None:
        raise ArgumentError(f"expected {parameter('d_model')}, the number of features of a token, such as 64, got none")
    if type(size) is not int or size < 1:
        raise ArgumentError(f"{parameter('d_model')}: expected a number of features above 0, got {size!r:.40}")
    return size


def _size_of(attend: Any) -> int | None:
    """Return the number of features that a module has as an attribute, or that its first linear layer reads."""
    size = size_among(getattr(attend, "__dict__", {}), D_MODEL)
    if size is None and isinstance(attend, nn.Module):
        size = next((one.in_features for one in attend.modules() if isinstance(one, nn.Linear)), None)
    return size

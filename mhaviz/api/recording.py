"""``mhaviz.record``: the attention of any PyTorch program that runs inside it."""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ContextDecorator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakMethod

import torch

from mhaviz.api.recorded import Recorded
from mhaviz.api.recorded_attention import RecordedAttention
from mhaviz.api.recorded_calls import RecordedCalls
from mhaviz.api.recorded_notices import RecordedNotices
from mhaviz.api.recorded_tokens import TokenNames
from mhaviz.api.recording_options import RecordingOptions
from mhaviz.attention.model import OnAttention
from mhaviz.errors import ArgumentError, parameter
from mhaviz.numbering import Numbers
from mhaviz.observe.handlers import VisitorError
from mhaviz.observe.inputs import SeenInputs
from mhaviz.observe.log import Log
from mhaviz.observe.mode import Observer
from mhaviz.results.attention import Attention
from mhaviz.results.head_statistics import HeadStatistics
from mhaviz.results.relevance import Relevance

if TYPE_CHECKING:
    from torch import nn


def record(
    model: "nn.Module | None" = None,
    *,
    on_attention: OnAttention | None = None,
    module: str | Sequence[str] | None = None,
    layer: Numbers = None,
    head: Numbers = None,
    passes: "int | str | Iterable[int] | None" = None,
    examples: int | Sequence[int] | Literal["all"] = 0,
    pool: Literal["mass", "max"] | None = None,
    size: int | None = None,
    tokens: Sequence[str] | None = None,
    grid: tuple[int, int] | tuple[int, int, int] | None = None,
    statistics: bool = False,
    page: bool = False,
    program: str = "",
    on_notice: Callable[[str], None] | None = None,
) -> "Recording":
    """Record the attention of a PyTorch program without changing its code.

        >>> model = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
        >>> with mhaviz.record(model) as recording:
        ...     output = model(torch.randn(1, 5, 8))
        >>> recording.attention.save("page.html")

    Attention is observed in ``F.scaled_dot_product_attention``, the layers of ``torch.nn``, ``flex_attention``, and
    where it is written out as product → softmax → product. The program computes the same bits as without a recording,
    except for code under ``torch.compile``: it runs uncompiled, and may differ in the last digits. Code compiled by
    ``torch.jit``, and threads that started before the recording, are not observed, and a notice says so. Attention
    computed with NumPy is not observed either, without a notice. Weights of a program in training are those before
    dropout, as in inference; random masks of its own that are no dropout are drawn as they met the values, and a notice
    says so. A profile by ``torch.profiler`` leaves out the operators of the recorder, but not the time and memory that
    they take, their kernels on a GPU, or Python's stack.

    Args:
        model: module whose attention is recorded, and at which names begin; None: all attention that runs.
        on_attention: called with each attention of the recorded passes as it runs, with all examples of the batch. The
            tensors are the program's own: do not change or keep them.
        module: pattern, or several, for the names of the attentions to record, such as "blocks.*.attn"; None: all.
            Weights over fixed rows, such as those of a router of experts, are recorded only if a pattern names them.
        layer, head: one number or several, counted from 0, that are drawn; None: all.
        passes: forward passes to record, counted from 0 for each attention: a number, several, or a text such as
            "0,100,200-" or "0,last"; None: the first pass of each attention. All steps in which a decoder writes a
            text count as one pass, also those of a recurrent decoder, each of whose queries is seen to be made of what
            the step before gave. A second text of a forward pass, as of a siamese encoder, is another pass.
        examples: examples of a batch that are drawn: a number, several, or "all". Those of a search with up to 16 beams
            are its beams: each has the map of the text that it ends with.
        pool, size: how maps of more than ``size`` tokens are pooled; see ``attend``.
        tokens: names of the tokens; None: from the only transformers tokenizer in memory, if token ids were looked up
            in a table of about its size; else positions. Names are "row 0", "row 1", … where it is not clear that these
            are tokens: they may be examples of a batch, or constants of a module.
        grid: rows and columns of an image's patches, or these and the position of the first; None: as the program has
            made them of an image.
        statistics: compute ``head_statistics`` as well, over all passes and all examples.
        page: keep queries and keys for a page for the browser; see ``attend``.
        program: name of what was recorded, for pictures; "": the class of the model.
        on_notice: called at the end of the recording, with one line for each attention that was not observed.

    Raises:
        ArgumentError: an argument is invalid.
    """
    chosen = RecordingOptions(module, layer, head, passes, examples, pool, size, tokens, grid, page)
    return Recording(model, chosen, on_attention, statistics, program, on_notice)


class Recording(ContextDecorator):
    """A recording of attention, as ``mhaviz.record`` returns it: a context manager, and a decorator of functions.

    Entering it again continues the recording. ``attention`` is available as soon as one attention has run.

    Examples:
        >>> layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
        >>> x = torch.randn(1, 5, 8)
        >>> with mhaviz.record(layer) as recording:
        ...     output, _ = layer(x, x, x)
        >>> recording.attention[0].weights.shape  # (n_heads, q_length, k_length)
        (2, 5, 5)
    """

    def __init__(
        self,
        model: "nn.Module | None",
        options: RecordingOptions,
        on_attention: OnAttention | None,
        statistics: bool,
        program: str,
        on_notice: Callable[[str], None] | None,
    ) -> None:
        if model is not None and not isinstance(model, torch.nn.Module):
            raise ArgumentError(
                f"expected a torch.nn.Module to record, or nothing, got {type(model).__name__}; to record all "
                "that runs in a function, write @mhaviz.record() over it"
            )
        self._options, self._on_notice = options, on_notice
        log, inputs = Log(), SeenInputs()
        names = TokenNames(inputs, options.tokens, options.grid, log.miss)
        self._recorded = Recorded(options, statistics, log)
        self._calls = RecordedCalls(self._recorded, names, on_attention)
        calls = self._calls
        self._observer = Observer(
            _weakly(calls.on_observed),
            model,
            _weakly(calls.is_wanted),
            options.names,
            _weakly(calls.on_weighed),
            _weakly(calls.on_refused),
            log=log,
            inputs=inputs,
        )
        self._notices = RecordedNotices(self._recorded, self._observer)
        program = program or (type(model).__name__ if model is not None else "")
        self._result = RecordedAttention(self._recorded, self._notices, names, program)
        self._told: set[str] = set()
        self._entered = threading.local()

    def __enter__(self) -> "Recording":
        watching = self._observer.watching()
        watching.__enter__()
        _open.append(self)  # whose callbacks do not keep it alive
        vars(self._entered).setdefault("stack", []).append(watching)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entered.stack.pop().__exit__(kind, error, traceback)
        del _open[next(i for i, one in enumerate(_open) if one is self)]
        if self._on_notice is not None:
            for line in self.notices:
                if line not in self._told:
                    self._told.add(line)
                    self._on_notice(line)
        if isinstance(error, VisitorError):
            raise error.raised from None

    def __repr__(self) -> str:
        return f"<mhaviz Recording: {len(self.modules)} attentions, {self._recorded.n_maps} maps>"

    @property
    def is_empty(self) -> bool:
        """Whether no map has been recorded."""
        return self._recorded.n_maps == 0

    @property
    def notices(self) -> list[str]:
        """Messages about attention that was not observed or not kept, one line each."""
        return self._notices.every

    @property
    def missed(self) -> list[str]:
        """Messages about attention that was not observed, or lacks a head that was asked for, one line each."""
        return self._notices.missed

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of the attentions that have run, in the order in which they first ran."""
        return tuple(site.full_name for site in self._recorded.sites.all)

    @property
    def attention(self) -> Attention:
        """Attention maps of the program so far, one attention after the other.

        Raises:
            ArgumentError: no such layer or head was recorded.
            MhavizError: no attention was recorded, or none of the layer could be drawn.
        """
        return self._result.attention

    def require_rollout(self) -> None:
        """Raise ArgumentError unless all modules and all heads are recorded, as a rollout goes through all."""
        chosen = {"module": self._options.patterns, "head": self._options.heads}
        if unheeded := [name for name, one in chosen.items() if one is not None]:
            raise ArgumentError(
                f"a rollout goes through all modules and all heads; leave out {', '.join(map(parameter, unheeded))}"
            )

    @property
    def rollout(self) -> Attention:
        """Attention rollout up to each layer (Abnar and Zuidema 2020, arXiv 2005.00928).

        Raises:
            ArgumentError: modules or heads were chosen, maps are pooled, all attention is cross attention, or the
                layers are not known to be one stack of one kind and length.
            MhavizError: as ``attention``.
        """
        self.require_rollout()
        return self._result.rollout

    def relevance(self, y: torch.Tensor, name: str = "y") -> Relevance:
        """Compute which tokens of the program made a scalar, as ``attend`` with ``why``; no word is removed.

        The scalar must be of a recorded pass and of one example, and its graph alive. Gradients of the program's own
        parameters are neither computed nor changed.

        Args:
            y: scalar that the program has computed with gradients, such as one logit.
            name: what it is called in pictures.

        Raises:
            ArgumentError: not all attention was observed, or layers are not known to read one another.
            MhavizError: y is no scalar, has no gradient, or depends on several passes or examples; an attention has no
                gradient, as with dropout; or tokens are seen to be mixed outside of attention as well, as by a
                convolution. They are not seen to be where y reads all tokens, as a mean does, or if they are mixed on
                their way to queries, keys and values alone.

        Examples:
            >>> layer = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
            >>> with mhaviz.record(layer) as recording:
            ...     y = layer(torch.randn(1, 5, 8))[0, -1, 0]
            >>> recording.relevance(y).text.relevance.shape  # (n_words,)
            (5,)
        """
        if self._options.patterns is not None:
            raise ArgumentError(f"relevance goes through all modules; leave out {parameter('module')}")
        return self._result.relevance(y, name)

    @property
    def head_statistics(self) -> HeadStatistics:
        """Statistics of where each head looks, averaged over all passes and examples.

        They leave out the steps of a decoder that writes, inputs of a single token, and padding, which is read from the
        mask of each example.

        Raises:
            ArgumentError: the recording was made without ``statistics``, or there is no such layer.
            MhavizError: no attention was recorded, or none that statistics count.
        """
        return self._result.head_statistics


_open: list["Recording"] = []
"""Recordings that have been entered, as often as they have been."""


def _weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method, and does not keep its object alive.

    A recording that no variable holds any more is freed at once, with its maps. They may be large, and the garbage
    collector counts objects, not bytes.
    """
    held = WeakMethod(method)

    def call(*args: Any) -> Any:
        bound = held()
        return None if bound is None else bound(*args)

    return call

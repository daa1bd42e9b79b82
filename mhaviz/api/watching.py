"""``mhaviz.Watch``: the health of the attention of a program in training, from every Nth of its forward passes."""

import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ContextDecorator, suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from mhaviz.analyses.collapse import CollapseRule
from mhaviz.analyses.health import HealthSums, health_sums
from mhaviz.api.recorded import Recorded
from mhaviz.api.recorded_calls import are_keys_told
from mhaviz.api.recorded_layers import layers_of
from mhaviz.api.recorded_masks import RecordedMasks
from mhaviz.api.recorded_notices import listed_attentions, without_match
from mhaviz.api.recording_options import RecordingOptions
from mhaviz.errors import ArgumentError, MhavizError, counted, parameter, quoted
from mhaviz.observe.handlers import one_line
from mhaviz.observe.log import Log
from mhaviz.observe.mode import Observer
from mhaviz.observe.observed import ObservedCall
from mhaviz.observe.observed_site import ObservedSite
from mhaviz.observe.sampled_passes import SampledPasses
from mhaviz.pages.health import collapse_lines
from mhaviz.pages.labels import visible
from mhaviz.results.health import NUMBERS, Collapse, Health, LayerHealth
from mhaviz.results.result import Source

if TYPE_CHECKING:
    from torch import nn

_Numbers = dict[int, NDArray[np.float64]]
"""The ``NUMBERS`` of each head of an attention in one pass."""

OnSample = Callable[[int, Mapping[str, float]], object]
"""Callback for each sampled pass, with its number and with scalars by name."""


@dataclass
class _Course:
    """Numbers of one attention, pass by pass: 40 bytes for each head and sample.

    Attributes:
        passes: numbers of the sampled passes, and whether the outermost module was in training mode.
        numbers: those of each of these.
    """

    passes: list[tuple[int, bool]] = field(default_factory=list)
    numbers: list[_Numbers] = field(default_factory=list)


class Watch(ContextDecorator):
    """Watches what training does to attention: a context manager, and a decorator of functions.

    Of every Nth forward pass, it keeps for each head the largest score before the softmax, the entropy of the weights,
    the share of examples in which the first key is a sink, and the share of rows that are one-hot; see ``LayerHealth``.
    The passes between them run as without it, but for one hook of the module whose calls they are. Only numbers are
    kept, 40 bytes for each head and sample.

    A pass is a call of the model: in training and in evaluation, each of several in a step of the optimizer, and each
    token that a decoder writes. Without a model, it is a call of an outermost module of the program, of which each has
    passes of its own. Attention outside of modules is not watched, nor is what is compiled by ``module.compile()`` or
    in a compiled function. What ``torch.compile(module)`` returns runs uncompiled in the passes that are sampled.

    A head that collapses is said at once, in a line on standard error: its entropy falls to nearly 0, its scores grow
    without bound, or scores or weights are NaN or infinite (``mhaviz.analyses.collapse``, after Zhai et al. 2023,
    arXiv 2303.06296).

    Args:
        model: module whose passes are sampled, and at which names begin; None: any module.
        every: N. The passes 0, N, 2 N, … are sampled.
        module: pattern, or several, for the names of the attentions to watch; see ``record``. None: all.
        on_sample: called after each sampled pass with its number, and with scalars by name, such as
            "attention/entropy/lowest". An exception of it is said once, and does not end the training.
        on_notice: called with each line that is said; None: it is written to standard error.
        program: name of what is watched, for pictures; "": the class of the model.

    Raises:
        ArgumentError: an argument is invalid.

    Examples:
        >>> layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        >>> with mhaviz.Watch(layer, every=2) as watch:
        ...     for step in range(5):
        ...         output, _ = layer(*[torch.randn(1, 5, 8)] * 3)
        >>> watch.health.layers[0].passes
        array([0, 2, 4])
        >>> watch.health.save("health.png", "health.csv")
    """

    def __init__(
        self,
        model: "nn.Module | None" = None,
        *,
        every: int = 50,
        module: str | Sequence[str] | None = None,
        on_sample: OnSample | None = None,
        on_notice: Callable[[str], object] | None = None,
        program: str = "",
    ) -> None:
        if model is not None and not isinstance(model, torch.nn.Module):
            raise ArgumentError(f"expected a torch.nn.Module to watch, or nothing, got {type(model).__name__}")
        if type(every) is not int or every < 1:
            raise ArgumentError(f"{parameter('every')}: expected a number of passes from 1 on, got {quoted(every)}")
        options = RecordingOptions(module, None, None, "0-", 0, None, None, None, None, False)
        self.every, self._on_sample, self._on_notice = every, on_sample, on_notice
        self._program = program or (type(model).__name__ if model is not None else "")
        self._recorded = Recorded(options, statistics=False, log=Log())
        self._masks = RecordedMasks(self._recorded)
        self._observer = Observer(self._on_observed, model, is_asked=options.names, log=self._recorded.log)
        self._passes = SampledPasses(self._observer, every, model, self._on_pass)
        self._sums: dict[tuple[int, tuple[int, ...]], HealthSums] = {}
        self._courses: dict[int, _Course] = {}
        self._rule, self._collapses = CollapseRule(), list[tuple[int, Collapse]]()
        self._told, self._lock = set[str](), threading.RLock()
        self._entered = list[Any]()

    def __enter__(self) -> "Watch":
        counting = self._passes.counting()
        counting.__enter__()
        self._entered.append(counting)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entered.pop().__exit__(None, None, None)

    def __repr__(self) -> str:
        return f"<mhaviz Watch: {counted(self.n_passes, 'pass')}, every {self.every:,} sampled>"

    @property
    def n_passes(self) -> int:
        """Number of forward passes so far, of the outermost module with the most."""
        return self._passes.n_passes

    @property
    def is_empty(self) -> bool:
        """Whether no attention has been watched."""
        return not self._shown

    @property
    def _shown(self) -> list[int]:
        """Numbers of the attentions that are not left out."""
        return [number for number in self._courses if not self._recorded.is_left_out(number)]

    @property
    def notices(self) -> list[str]:
        """Messages about attention that was not observed, one line each."""
        left_out, sites = self._recorded.log.left_out, self._recorded.sites.all
        lines = [f"{sites[number].name}: {why}; not watched" for number, why in left_out.items()]
        return [*dict.fromkeys(lines), *self._recorded.log.missed]

    @property
    def health(self) -> Health:
        """Health of all heads so far, also while the program runs.

        Raises:
            MhavizError: no attention was watched.
        """
        with self._lock:
            layers = layers_of(self._recorded.sites)
            if self.is_empty:
                raise MhavizError(self._why_empty())
            shown = sorted(self._shown, key=lambda number: (self._site(number).kind, layers[number]))
            collapses = [
                replace(collapse, kind=self._site(number).kind, layer=layers[number])
                for number, collapse in self._collapses
                if number in shown
            ]
            healths = tuple(self._layer(number, layers[number]) for number in shown)
            return Health(self._source(healths), self.every, self.n_passes, healths, tuple(collapses))

    def _site(self, number: int) -> ObservedSite:
        return self._recorded.sites.all[number]

    def _layer(self, number: int, layer: int) -> LayerHealth:
        site, course = self._site(number), self._courses[number]
        heads = sorted({head for numbers in course.numbers for head in numbers})
        unknown = np.full(len(NUMBERS), np.nan)
        every = np.array([[of.get(head, unknown) for head in heads] for of in course.numbers])
        passes, training = zip(*course.passes, strict=True)
        by_name = {name: every[:, :, place] for place, name in enumerate(NUMBERS)}
        return LayerHealth(
            site.kind, layer, site.full_name, tuple(heads), np.array(passes), np.array(training), **by_name
        )

    def _source(self, layers: Sequence[LayerHealth]) -> Source:
        n_heads = sorted({len(layer.heads) for layer in layers})
        of_each = f"{n_heads[0]} to {n_heads[-1]}" if len(n_heads) > 1 else f"{n_heads[0]}"
        device, name = self._recorded.device, self._program
        parts = [
            f"watched: {name or 'a program'}",
            f"{counted(len(layers), 'attention')} of {of_each} head{'s' * (of_each != '1')}",
            f"every {self.every:,} of {counted(self.n_passes, 'pass')}",
            device,
        ]
        details = {
            "kind": "watch",
            "program": name,
            "n_attentions": len(layers),
            "n_heads": n_heads[-1],
            "device": device,
        }
        notices = self.notices
        return Source(", ".join(parts), details | ({"notices": notices} if notices else {}))

    def _why_empty(self) -> str:
        if not self.n_passes:
            return (
                "no module was called, so that there was no pass to watch; attention outside of modules, and in what "
                "module.compile() or torch.compile of a function has compiled, is not watched"
            )
        ran = f"watched {counted(len(range(0, self.n_passes, self.every)), 'pass')} of {self.n_passes:,}"
        sites = self._recorded.sites.all
        if sites and (unmatched := without_match(self._recorded.options, sites)):
            return f"{ran}, and saw {listed_attentions(sites)}, and none that was asked for: {unmatched}"
        return f"{ran}, and saw no attention{': ' * bool(self.notices)}{next(iter(self.notices), '')}"

    def _on_observed(self, observed: ObservedCall) -> int | None:
        """Add the numbers of an attention while its tensors are valid. Return the number of its site."""
        with self._lock:
            if (run := self._recorded.sites.run(observed)) is None:
                return None
            site, kept = run
            if not self._recorded.options.wants(site) or self._recorded.is_left_out(site.number):
                return site.number
            self._recorded.device = str(kept.call.device)
            padding = self._masks.padding(site, kept)
            if self._masks.is_no_padding(site, kept, padding):
                return site.number
            heads = tuple(sorted(kept.heads or site.heads)) or tuple(range(kept.call.shape[1]))
            part, sums = (site.layer_of.number, heads), health_sums(kept.call, padding, are_keys_told(kept))
            self._sums[part] = self._sums[part] + sums if part in self._sums else sums
            return site.number

    def _on_pass(self, number: int, is_training: bool) -> bool:
        """Keep the numbers of a pass that has ended, and say what has collapsed in it. Return whether it has any."""
        with self._lock:
            seen, self._sums = self._sums, {}
            if not seen:
                return False
            layers, of_pass = layers_of(self._recorded.sites), dict[int, _Numbers]()
            for (attention, heads), sums in seen.items():
                if not self._recorded.is_left_out(attention):
                    of_heads = zip(heads, sums.numbers().T, strict=True)
                    of_pass.setdefault(attention, {}).update(of_heads)
            new = list[Collapse]()
            for attention, by_head in of_pass.items():
                course, kind = self._courses.setdefault(attention, _Course()), self._site(attention).kind
                course.passes.append((number, is_training))
                course.numbers.append(by_head)
                for head, numbers in by_head.items():
                    largest, entropy, uniform, *_ = numbers.tolist()
                    where = attention, kind, layers[attention], head
                    new += (found := list(self._rule.collapses(*where, number, largest, entropy, uniform)))
                    self._collapses += [(attention, collapse) for collapse in found]
            kinds = {self._site(attention).kind for attention in self._courses}
        for line in collapse_lines(new, number, len(kinds) > 1):
            self._say(line)
        if self._on_sample is not None:
            n_collapsed = len({(attention, collapse.head) for attention, collapse in self._collapses})
            try:
                self._on_sample(number, _scalars(of_pass.values(), n_collapsed))
            except Exception as error:
                self.say_once(f"{parameter('on_sample')}: {one_line(error)}; the training goes on")
        return True

    def say_once(self, line: str) -> None:
        """Say a line, unless it has been said."""
        if line not in self._told:
            self._told.add(line)
            self._say(line)

    def _say(self, line: str) -> None:
        """Say a line. If that fails, the training goes on nevertheless."""
        with suppress(Exception):
            if self._on_notice is not None:
                self._on_notice(line)
            else:
                print(f"mhaviz: {visible(line)}", file=sys.stderr)  # noqa: T201


def _scalars(numbers: Iterable[_Numbers], n_collapsed: int) -> dict[str, float]:
    """Return what loggers are given of a pass: over all heads, and without what is not known or not finite."""
    heads = np.array([of_head for by_head in numbers for of_head in by_head.values()]).T
    largest, entropy, uniform, sink, one_hot = heads
    with np.errstate(invalid="ignore"):
        share = entropy / uniform
    found = {
        "largest_score/highest": _known(largest, np.max),
        "largest_score/median": _known(largest, np.median),
        "entropy/lowest": _known(entropy, np.min),
        "entropy/median": _known(entropy, np.median),
        "entropy_of_uniform/lowest": _known(share, np.min),
        "sink/mean": _known(sink, np.mean),
        "one_hot/highest": _known(one_hot, np.max),
        "one_hot/median": _known(one_hot, np.median),
        "collapsed_heads": float(n_collapsed),
    }
    return {f"attention/{name}": value for name, value in found.items() if value is not None}


def _known(values: NDArray[np.float64], reduce: Callable[[NDArray[np.float64]], Any]) -> float | None:
    known = values[np.isfinite(values)]
    return float(reduce(known)) if known.size else None

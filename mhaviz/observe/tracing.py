"""Follow which regions of images, and which tokens, a program's tensors are made of.

What moves numbers moves the numbers of their regions: they are given to the same function. What sums, such as a layer,
merges the regions of what it sums over. Whatever is not known to do either makes other rows, of which it is only known
what they come from.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from mhaviz.observe.descent import MAKERS, FixedRows
from mhaviz.observe.flex import is_flex
from mhaviz.observe.functions import COPIES, functions, keeps_places, writes
from mhaviz.observe.handlers import Done, each_of, unseen
from mhaviz.observe.inputs import SeenInputs
from mhaviz.observe.kept_moves import KeptMoves, move_of
from mhaviz.observe.marks import MarksByMemory
from mhaviz.observe.places import Sequences
from mhaviz.observe.readable import is_readable, version_of
from mhaviz.observe.region_cells import CELLS, Unread, axes_of_images, numbers_of_axes
from mhaviz.observe.region_masks import MASKS
from mhaviz.observe.region_moves import MOVES, is_slim, transpose
from mhaviz.observe.region_numbers import fits, full, none_of, short
from mhaviz.observe.region_sums import LOSES, SUMS, attend, keep, left_of
from mhaviz.observe.region_writes import WRITERS, are_apart_in_memory, seen_through, written
from mhaviz.observe.regions import (
    FEW,
    IMAGE,
    INPUT,
    LEFT,
    MADE,
    NOTHING,
    SOURCE,
    WITHIN,
    SeenTokens,
    Traced,
    compacted,
    is_table,
    made_of,
    tokens_of,
)
from mhaviz.observe.told_patches import told_patches

Rule = Callable[["Tracer", Done], Traced | None]
"""Returns what the result of a call is made of; None: not known."""


class _Mark(NamedTuple):
    """What was noted of a tensor, and its version; None: it has none, as in inference mode."""

    of: Traced | Unread
    version: int | None


class _Text(NamedTuple):
    """Ids that were looked up.

    Attributes:
        ids: the tensor.
        numbers: what it held.
        version: of the tensor.
        source: their source.
        epoch: see ``SeenTokens``.
    """

    ids: Tensor
    numbers: Tensor
    version: int | None
    source: SeenTokens
    epoch: int

    def is_same(self, ids: Tensor, epoch: int) -> bool:
        """Return whether a look-up is of the same ids in the same memory.

        Where nothing tells how often the memory was written into, the next step of a decoder may have put the same id
        there, and attentions have run since.
        """
        if (self.ids.data_ptr(), self.ids.numel(), self.ids.dtype) != (ids.data_ptr(), ids.numel(), ids.dtype):
            return False
        is_counted = self.version is not None and ids.untyped_storage().resizable()  # else it may be an array of NumPy
        if not (self.ids.is_contiguous() and ids.is_contiguous()) or self.version != version_of(ids):
            return False
        return (is_counted or epoch == self.epoch) and torch.equal(self.numbers.view(-1), ids.reshape(-1))


_RULES: dict[Any, Rule] = {**MOVES, **SUMS, **CELLS, **MASKS}


class Tracer:
    """Follows regions of images and texts through the functions that a program calls.

    Args:
        fixed: the fixed tensors of the program, which are no tokens that it reads.
        inputs: token ids that it has looked up.
        is_made: returns whether a layer is known to have made a tensor, which then is no image.
    """

    def __init__(self, fixed: FixedRows, inputs: SeenInputs, is_made: Callable[[Tensor], bool]) -> None:
        self._traced, self._fixed, self._inputs, self.is_made = MarksByMemory[_Mark](), fixed, inputs, is_made
        self.sequences, self.epoch, self.moves = Sequences(), 0, KeptMoves()
        self._texts, self._reading = deque[_Text](maxlen=_MOST_TEXTS), threading.Lock()

    def parameter_of(self, x: Tensor) -> str:
        """See ``FixedRows.parameter_of``."""
        return self._fixed.parameter_of(x)

    def _noted(self, x: object) -> "Traced | Unread | None":
        """Return what was noted of a tensor; None: nothing, or others were written into it since, unseen."""
        mark = self._traced.get(x)
        is_stale = mark is None or (isinstance(x, Tensor) and mark.version != version_of(x))
        return None if mark is None or is_stale else mark.of

    def known(self, x: object) -> Traced | None:
        """Return what a tensor was seen to be made of; None: nothing was seen."""
        traced = self._noted(x)
        if traced is None or not isinstance(x, Tensor):
            return None
        if isinstance(traced, Unread):
            traced = traced.pixels()
            self.set(x, traced)
        is_known = all(one.ndim == x.ndim and fits(one.shape, x.shape) for one in traced.all_numbers)
        return traced if is_known else None

    def get(self, x: object) -> Traced | None:
        """Return what a tensor is made of; None: of no rows, or of parameters and constants alone.

        A tensor that was not seen to be made was given to the program. If others were written into it, unseen, nothing
        is known of its rows but what else there may be among them.
        """
        mark = self._traced.get(x)
        if mark is None:
            return self._through_base(x) or self.given(x)
        if (traced := self.known(x)) is not None or not isinstance(mark.of, Traced) or not isinstance(x, Tensor):
            return traced
        traced = self.made(x, [mark.of])
        self.set(x, traced)
        return traced

    def _through_base(self, x: object) -> Traced | None:
        """Return what a view is made of that was taken before others were written into its base; None: it is none."""
        base = x._base if isinstance(x, Tensor) and x._is_view() else None
        if not isinstance(x, Tensor) or base is None or base.dtype != x.dtype or _is_opaque(x):
            return None
        if (traced := self.known(base)) is None:
            return None
        with unseen():
            self.set(x, seen := seen_through(x, None, base, traced))
        return seen

    def given(self, x: object, features: int = -1) -> Traced | None:
        """Return the rows of a tensor as those of an input, and note them; ``features``: its axis of features.

        None: it has no rows, or they are fixed.
        """
        if not isinstance(x, Tensor) or x.ndim < 2 or not _are_features(x) or _is_opaque(x):
            return None
        if self._fixed.root(x) is not None:
            return None
        with unseen():
            is_within = self._fixed.is_within()
            rank = WITHIN if is_within else INPUT
            traced = _rows(x, features, rank, are_in_order=not is_within, epoch=self.epoch)
            self.set(x, traced)
        return traced

    def read_as_map(self, x: Tensor) -> None:
        """Note that features stand along the second axis of a tensor of four that was given, as of images."""
        traced = self.known(x)
        source = None if traced is None or len(traced.regions.sources) != 1 else traced.regions.sources[0]
        is_as_given = isinstance(source, SeenTokens) and source.n_axes == 3 and not (source.reads or source.made_of)
        if traced is not None and not (is_as_given and traced.numbers.shape == (*x.shape[:3], 1)):
            return
        self.given(x, features=1)

    def read_as_rows(self, x: Tensor, features: int = -1) -> None:
        """Note that a tensor with the shape of images holds rows: no layer reads images column by column."""
        if self.is_unread(x):
            with unseen():
                self.set(x, _rows(x, features, INPUT, epoch=self.epoch))

    def read_as_columns(self, x: Tensor) -> None:
        """Note that the numbers of a matrix that was given are tokens of one feature each."""
        traced = self.known(x)
        if traced is None and self.given(x) is None:
            return
        source = None if traced is None or len(traced.regions.sources) != 1 else traced.regions.sources[0]
        if traced is None or (isinstance(source, SeenTokens) and source.n_axes == 1 and not source.made_of):
            with unseen():
                self.set(x, _rows(x[..., None], -1, INPUT, epoch=self.epoch).moved(lambda numbers: numbers[..., 0]))

    def made(self, x: Tensor, of: Sequence[Traced], features: int = -1, are_in_order: bool = False) -> Traced:
        """Return the rows that a function has made, in an unknown order unless ``are_in_order``.

        ``of``: what its arguments are made of.
        """
        if x.ndim < 2 or not _are_features(x):
            return Traced(NOTHING, none_of(x))
        rank = INPUT if are_in_order else MADE
        return _rows(x, features, rank, made_of=made_of(of), are_in_order=are_in_order, epoch=self.epoch)

    def text_of(self, ids: Tensor, vocabulary: int) -> SeenTokens | None:
        """Return the source of token ids that were looked up; None: fixed numbers. The same ids are the same tokens.

        ``vocabulary``: number of tokens in the vocabulary.
        """
        if self._fixed.root(ids) is not None or not ids.ndim:
            self._inputs.read(ids, vocabulary)
            return None
        base = ids._base
        is_flat = base is not None and ids.ndim == 1 < base.ndim and base.numel() == ids.numel()
        shape = base.shape if base is not None and is_flat else ids.shape
        with self._reading:
            number = self._inputs.read(ids.view(shape) if is_flat else ids, vocabulary)
            text = _source(shape, INPUT, epoch=self.epoch)
            same = next((known.source for known in reversed(self._texts) if known.is_same(ids, self.epoch)), None)
            if same is not None:
                text = replace(text, again=same.again or same)
                self.sequences.note_same(text, same)
            self._texts.append(_Text(ids, ids.clone(), version_of(ids), text, self.epoch))
            if number is not None:
                text.reads.add(number)
        return text

    def looked_up(self, ids: Tensor, table: Tensor) -> Traced | None:
        """Return what rows of a table are made of: of the tokens whose ids they are; None: the ids are fixed."""
        text = self.text_of(ids, table.shape[0])
        if text is None:
            return None
        regions, numbers = tokens_of(text, table.device)
        return Traced(regions, numbers.view(*ids.shape, 1))

    def get_moved(self, x: Tensor) -> Traced | None:
        """Return what a tensor was made of before its axes were moved in place."""
        mark = self._traced.get(x)
        return mark.of if mark is not None and isinstance(mark.of, Traced) else None

    def set(self, x: Tensor, traced: "Traced | Unread | None") -> None:
        """Note what a tensor is made of."""
        if traced is not None:
            if isinstance(traced, Traced) and len(traced.regions.rows) > FEW:
                traced = compacted(traced)
            self._traced.set(x, _Mark(traced, version_of(x)))
        elif self._traced.get(x) is not None:
            self._traced.forget(x)

    def take(self, result: Any, seen: Any) -> None:
        """Copy what is known to ``result``, which was computed unseen, from ``seen``, the same tensors computed
        again."""
        for x, one in zip(each_of(result), each_of(seen), strict=True):
            if isinstance(x, Tensor) and (traced := self.known(one)) is not None:
                self.set(x, traced)

    def read(self, x: Tensor) -> None:
        """Note a tensor that a program's model is given: it is taken for images if it has their shape."""
        noted = self._noted(x)
        if isinstance(noted, Unread) or (noted is not None and IMAGE in noted.ranks):
            return
        if (axes := axes_of_images(x)) is not None:
            with unseen():
                self.set(x, Unread(x.detach(), axes))
        elif noted is None and x.is_floating_point() and x.ndim > 1:
            with unseen():
                self.set(x, _rows(x, -1, INPUT, epoch=self.epoch))

    def begins(self, module: nn.Module, args: Sequence[Any]) -> None:
        """Note the patches of which a module is told where they stand, unless that was seen."""
        told = told_patches(module, args, self.known)
        if told is not None and not any(map(_is_opaque, args)):
            x, place = told
            with unseen():
                self.set(x, place())

    def is_unread(self, x: Tensor) -> bool:
        """Return whether a tensor holds images as a program's model was given them."""
        return isinstance(self._noted(x), Unread)

    def may_follow(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Return whether a call may move or make rows of tokens.

        In inference mode no view tells its base. What a module makes is noted there, so that what is written through a
        view is found by its memory.
        """
        if bool(kwargs) or func in _RULES or self._traced.may_hold(args) or not self._fixed.is_within():
            return True
        return func in MAKERS and torch.is_inference_mode_enabled()

    def follow(self, done: Done) -> None:
        """Note what the results of a call are made of."""
        out = done.first if done.func == _SET_DATA else done.kwargs.get("out")
        if out is not None:  # to repeat the call would write into it
            with unseen():
                for x in each_of(out):
                    self._lose(x, done)
            return
        if done.func is Tensor.__setitem__ or done.result is done.first:
            for x in done.each() if done.func in WRITERS else (done.first,):  # values may share the memory
                if isinstance(x, Tensor):
                    self._renew(x)
        elif type(done.result) is Tensor and (traced := self._kept(done)) is not None:
            self.set(done.result, traced)
            return
        result = done.first if done.func is Tensor.__setitem__ else done.result
        several = [result] if isinstance(result, Tensor) else result
        if not isinstance(several, list | tuple) or any(map(_is_opaque, [*several, *done.each()])):
            return
        with unseen():
            if done.func in WRITERS:
                self._write(done, result)
            elif isinstance(result, Tensor):
                after = self._after(done)
                self.set(result, after)
                if result is done.first and writes(done.func):
                    self._spread(result, after if isinstance(after, Traced) else None)
            elif done.func in _CUTS:
                self._cut(done)
            else:
                for x in several:
                    if isinstance(x, Tensor):
                        is_first = done.func in _FIRSTS and x is several[0]
                        one = done._replace(result=x)
                        self.set(x, attend(self, one) if is_first else self._unknown(one))

    def _kept(self, done: Done) -> Traced | None:
        """Return what the result of most calls is made of: of the only tensor that holds tokens, or of two of the same,
        whose numbers stay in their places."""
        func = done.func
        is_linear = func is F.linear
        if not is_linear and (func in _RULES or not (func in COPIES or keeps_places(func))):
            return None
        tensors = [x for x in done.args if isinstance(x, Tensor) and type(x) is not nn.Parameter]
        if done.kwargs or not 0 < len(tensors) < 3 or (func in LOSES and not left_of(done)):
            return None
        first, *others = [self._noted(x) for x in tensors]
        if not isinstance(first, Traced) or first.numbers.ndim != done.result.ndim:
            return None
        if is_linear:
            is_input = not others and tensors[0] is done.args[0]
            is_alike = is_input and first.numbers.shape[-1] == 1 and first.other is None
        else:
            is_alike = {x.shape for x in tensors} == {done.result.shape} and not [
                one
                for one in others
                if not (isinstance(one, Traced) and one.numbers is first.numbers and one.other is first.other)
            ]
        return first if is_alike else None

    def _join_written(self, traced: Traced, done: Done) -> None:
        """Note that tokens follow those before the place that they were written to, as in a cache."""
        values = [one for x in done.each() if x is not done.first and (one := self.known(x)) is not None]
        if len(values) != 1 or len(values[0].regions.sources) != 1:
            return
        (new,) = values[0].regions.sources
        axis = traced.numbers.ndim - 2
        if axis < 0 or traced.numbers.shape[axis] < 2:
            return
        line = traced.numbers.movedim(axis, 0).flatten(1)[:, 0]
        rows = traced.regions.rows[line.clamp(min=0).long()]
        which = traced.regions.sources.index(new)
        at = ((line >= 0) & (rows[:, SOURCE] == which)).nonzero()[:, 0].tolist()
        if not at or int(line[at[0] - 1]) < 0 or at[0] - 1 in at:
            return
        before = traced.regions.sources[int(rows[at[0] - 1, SOURCE])]
        self.sequences.join(new, int(rows[at[0], LEFT]), [(before, int(rows[at[0] - 1, LEFT]))])

    def _lose(self, x: Tensor, done: Done) -> None:
        """Note that an unknown function has written into a tensor, and so into all that shares its memory."""
        of = [traced for arg in done.each() if (traced := self.known(arg)) is not None]
        for shared, _ in [(x, None), *self._traced.of_memory(x)]:
            self.set(shared, self.made(shared, of))

    def _unknown(self, done: Done) -> Traced | None:
        """Return the rows that an unknown function has made; None: of nothing that was read."""
        read = [*done.read()]
        of = [traced for x in read if (traced := self.known(x)) is not None]
        if of or not any(isinstance(x, Tensor) and self._fixed.root(x) is None for x in read):
            return self.made(done.result, of) if of else None
        is_new = done.result.ndim > 1 and _are_features(done.result)
        return _rows(done.result, -1, WITHIN, are_in_order=False) if is_new else None

    def _after(self, done: Done) -> "Traced | Unread | None":
        images = self._noted(done.first)
        if isinstance(images, Unread):
            if keeps_places(done.func) and done.result.shape == images.x.shape:
                return images
            if _RULES.get(done.func) is transpose and done.result is not done.first:
                return images.moved(done.func(numbers_of_axes(images.x), *done.args[1:], **done.kwargs))
        if done.func in MAKERS:
            return Traced(NOTHING, none_of(done.result)) if self._fixed.is_within() else None
        if done.func in _CHOICES:
            return Traced(NOTHING, none_of(done.result))
        if done.func in _NOISE:
            return self.made(done.result, [])
        rule = _RULES.get(done.func)
        if rule is None:
            rule = attend if is_flex(done.func) else keep if done.func in COPIES or keeps_places(done.func) else None
        traced = None if rule is None else rule(self, done)
        return self._unknown(done) if traced is None else traced

    def _cut(self, done: Done) -> None:
        """Note what each of several parts of a tensor is made of."""
        traced = self.get(done.first)
        if traced is None:
            return
        parts = self.moves.once(traced, move_of(done), lambda: _parts(traced, done))
        for x, part in zip(copy(done.result), parts, strict=False):  # the program has yet to take from an iterator
            self.set(x, part)

    def _renew(self, x: Tensor) -> None:
        """Note that the last write into a tensor is the one that is followed now."""
        mark, version = self._traced.get(x), version_of(x)
        if mark is not None and mark.version is not None and version is not None and mark.version == version - 1:
            self._traced.set(x, mark._replace(version=version))

    def _write(self, done: Done, x: Tensor) -> None:
        """Note what a tensor is made of after others were written into it, and all that shares its memory."""
        traced = written(self, done)
        self.set(x, traced)
        if traced is not None and traced.other is None and len(traced.regions.sources) > 1:
            self._join_written(traced, done)
        if x is done.first:
            self._spread(x, traced)

    def _spread(self, x: Tensor, traced: Traced | None) -> None:
        """Note what all tensors are made of that share the memory of one that was written into."""
        others = {id(one): one for one, _ in self._traced.of_memory(x)}
        if x._is_view() and x._base is not None:
            others.setdefault(id(x._base), x._base)
        others.pop(id(x), None)
        for one in others.values():
            self._renew(one)
            if one.dtype == x.dtype and one.numel() and x.numel() and are_apart_in_memory(one, x):
                continue
            before = self.known(one)
            self.set(one, Traced(NOTHING, none_of(one)))  # should what follows fail
            if traced is not None and one.dtype == x.dtype and (seen := seen_through(one, before, x, traced)):
                self.set(one, seen)


def _parts(traced: Traced, done: Done) -> list[Traced]:
    """Return what each of several parts of a tensor is made of."""
    slim = is_slim(traced, done.first.shape, done.named("dim", 0))
    several = [done.func(full(one, done.first.shape, slim), *done.args[1:]) for one in traced.all_numbers]
    return [Traced(traced.regions, *map(short, numbers)) for numbers in zip(*several, strict=True)]


def _are_features(x: Tensor) -> bool:
    return (x.is_floating_point() or x.is_complex()) and bool(x.numel())


def _look_up(tracer: Tracer, done: Done) -> Traced | None:
    """Return what the features of token ids are made of: of these tokens, or of the rows that they choose."""
    ids, weight = done.args[:2]
    if (rows := tracer.get(weight)) is not None and not is_table(rows):
        each = (full(one, weight.shape, is_slim(rows, weight.shape, 0)) for one in rows.all_numbers)
        return Traced(rows.regions, *(short(one[ids]) for one in each))
    return tracer.looked_up(ids, weight)


_RULES[F.embedding] = _look_up


def _source(shape: Sequence[int], rank: int, **of: Any) -> SeenTokens:
    """Return a source of tokens along axes of this shape; the first of more than three stands for those before it."""
    first, second, third = (1, 1, 1, *shape)[-3:]
    first = math.prod(shape[: max(len(shape) - 2, 0)]) if len(shape) > 2 else first
    return SeenTokens((first, second, third), min(len(shape), 3), rank, **of)


def _rows(x: Tensor, features: int, rank: int, **of: Any) -> Traced:
    """Return the rows of a tensor as tokens of a source; ``features``: its axis of features."""
    sizes = [*x.shape]
    del sizes[features]
    regions, numbers = tokens_of(_source(sizes, rank, **of), x.device)
    return Traced(regions, numbers.view(sizes).unsqueeze(features if features >= 0 else x.ndim + features))


_MOST_TEXTS = 16
"""Number of look-ups that are known again."""


def _is_opaque(x: object) -> bool:
    """Return whether the numbers of a tensor cannot be read."""
    return isinstance(x, Tensor) and not is_readable(x)


_CHOICES = frozenset(functions("argmax argmin argsort"))
"""Functions whose results are places, and ids of what a program writes next: these are no features of a token."""

_NOISE = frozenset(functions("rand_like randn_like"))
"""Functions that read nothing of a tensor but its size."""

_CUTS = frozenset([*functions("chunk split split_with_sizes tensor_split unbind"), Tensor.__iter__])
_SET_DATA = Tensor.data.__set__  # type: ignore[attr-defined]
_FIRSTS = frozenset(
    [F.multi_head_attention_forward, torch.native_dropout, torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu]
)
"""Functions that return several tensors, the first of which has the tokens of their first argument."""

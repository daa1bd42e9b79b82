"""What probes ask of a layer: its output and its steps when a token, a mask or the order of its tokens changes.

Each pass is made once, when the first probe asks for it.
"""

import traceback
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from mhaviz.checks.attentions import Seen
from mhaviz.checks.deadline import Deadline
from mhaviz.checks.layers import Layer
from mhaviz.checks.passes import Pass, Runner
from mhaviz.checks.rows import Rows
from mhaviz.checks.tolerances import changes
from mhaviz.errors import MhavizError
from mhaviz.observe.modules import is_of_program

BATCH_SIZE, K_LENGTH = 3, 9
"""Sizes that no number of heads is likely to equal, so that axes are told apart by their lengths."""

LENGTHS = (7, 8, 16, 9, 12, 25, 49, 64, 196)
"""Lengths to try: the first that a layer takes is used."""

HIDDEN = 2
"""Number of padded tokens of sentence 1."""


@dataclass(frozen=True)
class Influence:
    """Which outputs change when a token does.

    Attributes:
        on: bool, (batch_size, q_length, k_length), True where the output of a query changes with the token of a key.
        expected: bool, of the same shape: True where it may.
        output: of the pass in which nothing was changed.
    """

    on: Tensor
    expected: Tensor
    output: Tensor

    @property
    def leaks(self) -> Tensor:
        """Where a query sees what it must not; a query's own token does not count."""
        return self.on & ~self.expected


class Evidence:
    """Passes of a layer on random inputs, and what they tell.

    Args:
        layer: the layer, in evaluation mode.
        seed: seed of the inputs.
        deadline: when the check must end.
    """

    def __init__(self, layer: Layer, seed: int, deadline: Deadline) -> None:
        self.layer, self.seed = layer, seed
        self.runner = Runner(layer, seed)
        self._deadline = deadline
        self._known_rows: dict[tuple[int, str], Rows | None] = {}

    def watched(self, x: Tensor, **given: Any) -> Pass:
        """Return a run of the layer with its steps."""
        self._deadline.require_time()
        return self.runner.watched(x, **given)

    def output(self, x: Tensor, **given: Any) -> Tensor:
        """Return the output of a run of the layer."""
        self._deadline.require_time()
        return self.runner.output(x, **given)

    @cached_property
    def length(self) -> int:
        """Number of tokens of the inputs: the first of ``LENGTHS`` that the layer takes.

        Raises:
            MhavizError: it takes none of them.
        """
        first: Exception | None = None
        for length in LENGTHS:
            try:
                self.output(self.random(length, 0), **self.beside(self.random(K_LENGTH, 1)))
            except MhavizError:
                raise
            except Exception as error:  # a layer may raise anything
                first = first or error
            else:
                return length
        assert first is not None
        what = f"{type(first).__name__}{_line_of(first)}: {' '.join(str(first).split())[:200]}"
        raise MhavizError(
            f"{self.layer.name}: expected a layer that takes x ({BATCH_SIZE}, {LENGTHS[0]}, {self.layer.d_model}), and "
            f"it raises {what}"
        ) from first

    def random(self, length: int, number: int, batch_size: int = BATCH_SIZE) -> Tensor:
        """Return random tokens, (batch_size, length, d_model), of variance 1; ``number``: which of such inputs."""
        generator = torch.Generator().manual_seed((self.seed * 1000 + number) % 2**63)
        return torch.randn(batch_size, length, self.layer.d_model, generator=generator).to(self.layer.like)

    def beside(self, memory: Tensor) -> dict[str, Tensor]:
        """Return the memory as an argument, if the layer takes one."""
        return {"memory": memory} if self.layer.is_cross else {}

    @cached_property
    def x(self) -> Tensor:
        """Tokens of the queries, (batch_size, q_length, d_model)."""
        return self.random(self.length, 0)

    @cached_property
    def keys(self) -> Tensor:
        """Tokens of the keys, (batch_size, k_length, d_model): those of the memory, or of the queries."""
        return self.random(K_LENGTH, 1) if self.layer.is_cross else self.x

    @cached_property
    def others(self) -> Tensor:
        """Other tokens to put in the place of ``keys``."""
        return 2 * self.random(self.keys.shape[1], 2)

    @property
    def k_length(self) -> int:
        """Number of tokens of the keys."""
        return self.keys.shape[1]

    def given(self, keys: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the arguments by which the layer reads these tokens as its keys."""
        return (self.x, {"memory": keys}) if self.layer.is_cross else (keys, {})

    def run(self, keys: Tensor, **given: Any) -> Tensor:
        """Return the output where these tokens are the keys."""
        x, beside = self.given(keys)
        return self.output(x, **beside, **given)

    @cached_property
    def longer(self) -> "Evidence | None":
        """Evidence of longer inputs; None: the layer takes none."""
        other = Evidence(self.layer, self.seed, self._deadline)
        other.__dict__["length"] = self.length + 4
        try:
            assert other.base
        except (RuntimeError, ValueError, IndexError, AssertionError):
            return None
        return other

    @cached_property
    def base(self) -> Pass:
        """The pass in which nothing is hidden and nothing is changed."""
        x, beside = self.given(self.keys)
        return self.watched(x, **beside)

    @cached_property
    def plain(self) -> Tensor:
        """Output of ``base``, computed without a graph, as all outputs of ``run`` are, which may take other kernels."""
        return self.run(self.keys)

    @cached_property
    def attentions(self) -> list[Seen]:
        """Attentions of ``base``. Those whose first axis is not that of sentences are noted in each pass."""
        found, others = self.base.attentions, self.sentence_pass.attentions
        for number, (one, other) in enumerate(zip(found, others, strict=False)):
            before, after = (seen.by_head(seen.products, BATCH_SIZE) for seen in (one, other))
            if before is None or after is None or before.shape != after.shape or bool(changes(before, after)[1:].any()):
                self.runner.mixed.add(number)
        return found

    def with_token(self, place: int) -> Tensor:
        """Return the keys with another token at this place of each sentence."""
        changed = self.keys.clone()
        changed[:, place] = self.others[:, place]
        return changed

    @cached_property
    def token_passes(self) -> list[Pass]:
        """For each token of the keys, the pass in which it is another, in each sentence."""
        return [self._of_keys(self.with_token(place)) for place in range(self.k_length)]

    @cached_property
    def query_passes(self) -> list[Pass]:
        """For each token of the queries, the pass in which it is another."""
        if not self.layer.is_cross:
            return self.token_passes
        others, found = 2 * self.random(self.length, 3), []
        for place in range(self.length):
            changed = self.x.clone()
            changed[:, place] = others[:, place]
            found.append(self.watched(changed, memory=self.keys))
        return found

    @cached_property
    def sentence_pass(self) -> Pass:
        """The pass in which all tokens of sentence 0 are others."""
        changed = self.keys.clone()
        changed[0] = self.others[0]
        if not self.layer.is_cross:
            return self._of_keys(changed)
        x = self.x.clone()
        x[0] = self.random(self.length, 3)[0]
        return self.watched(x, memory=changed)

    def _of_keys(self, keys: Tensor) -> Pass:
        x, beside = self.given(keys)
        return self.watched(x, **beside)

    @cached_property
    def depends(self) -> Tensor:
        """Which outputs change with which key: bool, (batch_size, q_length, k_length)."""
        passes = self.token_passes
        return torch.stack([self._rows(self.base.output, one.output) for one in passes], dim=-1)

    @staticmethod
    def _rows(before: Tensor, after: Tensor) -> Tensor:
        return changes(before, after).any(dim=-1)

    def influence(self, keep: Tensor | None, causal: bool) -> Influence:
        """Return which outputs change with which key under a mask."""
        output, on = self.changed(keep=keep, causal=causal)
        return Influence(on, self.visible(keep, causal, on.shape), output)

    def changed(self, **given: Any) -> tuple[Tensor, Tensor]:
        """Return the output, and which rows of it change with which key: bool, (batch_size, q_length, k_length)."""
        output = self.run(self.keys, **given)
        others = (self.run(self.with_token(place), **given) for place in range(self.k_length))
        return output, torch.stack([self._rows(output, other) for other in others], dim=-1)

    def visible(self, keep: Tensor | None, causal: bool, shape: tuple[int, ...]) -> Tensor:
        """Return what queries may see, and their own tokens: bool, (batch_size, q_length, k_length)."""
        seen = torch.ones(shape, dtype=torch.bool)
        if keep is not None:
            seen &= keep[:, None]
        if causal or (self.is_causal and not self.layer.is_cross):
            seen = seen.tril()
        return seen if self.layer.is_cross else seen | torch.eye(shape[1], dtype=torch.bool)

    @cached_property
    def keep(self) -> Tensor:
        """Padding of sentence 1: bool, (batch_size, k_length), True for a token.

        It stands at the end, or at the beginning where the layer hides later tokens of itself, and with them padding at
        the end.
        """
        return self.padded_at_end.flip(-1) if self.is_causal else self.padded_at_end

    @cached_property
    def padded_at_end(self) -> Tensor:
        """As ``keep``, with padding at the end of sentence 1 in any layer."""
        keep = torch.ones(self.keys.shape[:2], dtype=torch.bool)
        keep[1, -HIDDEN:] = False
        return keep

    @property
    def tried_padding(self) -> str:
        """What was tried, in words."""
        return f"{HIDDEN} padded tokens at the {'beginning' if self.is_causal else 'end'} of sentence 1"

    @cached_property
    def padded(self) -> Influence:
        """Influence with padding."""
        return self.influence(self.keep, False)

    @cached_property
    def padded_pass(self) -> Pass:
        """The pass with padding."""
        x, beside = self.given(self.keys)
        return self.watched(x, keep=self.keep, **beside)

    @cached_property
    def causal(self) -> Influence:
        """Influence where later tokens are to be hidden."""
        return self.influence(None, True)

    @cached_property
    def causal_pass(self) -> Pass:
        """The pass in which later tokens are to be hidden; ``base`` if the layer hides them of itself."""
        if not self.layer.takes_causal:
            return self.base
        x, beside = self.given(self.keys)
        return self.watched(x, causal=True, **beside)

    @cached_property
    def is_causal(self) -> bool:
        """Whether the layer hides later tokens, or means to, without being told.

        It does where no later token changes an output, and an earlier one does. It means to where weights that are 0
        for all inputs are not as many to both sides, as those of windows and blocks are. A small influence is no sign.
        """
        if self.layer.is_cross or self.length == 1:
            return False
        every = torch.ones(self.length, self.length, dtype=torch.bool)
        earlier, later = every.tril(-1), every.triu(1)
        on = self.depends.any(dim=0)
        if bool((on & earlier).any()) != bool((on & later).any()):
            return True
        seen = self.seen_by_head
        if seen is None:  # then influences are asked, if they are those of all sentences alike
            seen = on[None] if torch.equal(on, self.depends.all(dim=0)) else on.new_zeros(0)
        return any(int((one & earlier).sum()) != int((one & later).sum()) for one in seen)

    @cached_property
    def seen_by_head(self) -> Tensor | None:
        """Which keys have weight, whatever the input is, in the heads of all attentions: bool, (n_heads, q_length,
        k_length).

        None: not known, or another set of keys for other inputs, as of the k best.
        """
        every = []
        for number in range(len(self.attentions)):
            weights = [one.weights(number) for one in (self.base, *self.token_passes) if number < len(one.attentions)]
            known = [A for A in weights if A is not None and A.shape[2:] == (self.length, self.k_length)]
            if not known or len(known) < len(weights):
                return None
            seen = torch.cat([A > 0 for A in known])
            if not torch.equal(seen.any(dim=0), seen.all(dim=0)):
                return None
            every.append(seen[0])
        return torch.cat(every) if every else None

    @cached_property
    def constant_pass(self) -> Pass:
        """The pass in which all tokens of a sentence are the same."""
        x = self.x[:, :1].expand_as(self.x).contiguous()
        memory = self.keys[:, :1].expand_as(self.keys).contiguous()
        return self.watched(x, **self.beside(memory))

    def last_row(self, number: int, side: Literal["query", "key"]) -> int | None:
        """Return the number of the last row of the queries or keys of sentence 0 that is made of a token, not a learned
        one; None: not known."""
        rows = self.rows(number, side)
        if rows is None:
            return None
        made = (rows.of_token.any(dim=0) & rows.of_first).flatten().nonzero().flatten()
        return int(made[-1]) if len(made) else None

    def rows(self, number: int, side: Literal["query", "key", "value"]) -> Rows | None:
        """Return which tokens each row of the queries, keys or values of an attention is made of.

        None: they were not seen in each pass.
        """
        if (number, side) not in self._known_rows:
            self._known_rows[number, side] = self._rows_of(number, side)
        return self._known_rows[number, side]

    def _rows_of(self, number: int, side: Literal["query", "key", "value"]) -> Rows | None:
        seen, of_values = self.attentions[number], self.attentions[number].axes_of_values
        before: Tensor | None = getattr(seen, side)
        features = {"query": seen.features[0], "key": seen.features[1], "value": of_values and of_values[0]}[side]
        passes = self.query_passes if side == "query" else self.token_passes
        if before is None or features is None:
            return None
        on = []
        for one in (*passes, self.sentence_pass):
            found = one.attentions
            after = getattr(found[number], side) if number < len(found) else None
            if after is None or after.shape != before.shape:
                return None
            on.append(changes(before.detach(), after.detach()).any(dim=features).cpu())
        return Rows(torch.stack(on[:-1]), on[-1])


def _line_of(error: Exception) -> str:
    """Return the last line of the program that led to an error: " in model.py:12"; "": not known."""
    steps = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    lines = [(file, line) for file, line in steps if is_of_program(file)]
    return f" in {Path(lines[-1][0]).name}:{lines[-1][1]}" if lines else ""

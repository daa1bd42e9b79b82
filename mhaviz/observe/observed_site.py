"""An attention of a program, and what its last run has left to tell the next one by."""

from dataclasses import dataclass, field
from weakref import ref

from torch import Tensor

from mhaviz.inputs.tokens import Kind
from mhaviz.observe.order import NO_ORDER, Order
from mhaviz.observe.recurrence import Run


@dataclass
class ObservedSite:
    """An attention of a program.

    Attributes:
        number: its place among all attentions, in the order in which they first ran.
        name: of the module, or of the line.
        root: see ``Place``.
        repeat: how often an attention of this name runs before it within a forward pass.
        is_module: whether the name is a module's.
        kind: of its first run, or of the first that has more than one key; "masked" once steps have joined it.
        masked: numbers of the passes that are masked, where its kind is self.
        has_choice: whether a run has had more than one key. Of a single token, self and masked attention are the same.
        order: its place among the attentions of its kind.
        passes: number of passes that it has run in.
        length: number of tokens that its queries have been, in the current pass.
        k_length: number of tokens that its keys have been, in the current pass.
        keys: a few features of each key and of its value, (batch_size, k_length, features), by which it is recognised;
            None: not known.
        is_followed: whether the current pass is read. If it is not, steps are counted by their numbers of keys alone.
        forward, call: the forward pass of its last run, and the call of its module; see ``Place``.
        is_block: whether its queries are some of its module's, and nothing tells which.
        unplaced: numbers of the passes that began with other keys than the first tokens of a text, in their order.
        unnamed: those of which it is not known either which tokens the keys are.
        has_other_keys: whether one of these passes, or the pass before it, is drawn.
        n_step: number of queries in its last run.
        n_before: how many more keys than queries its first run had, such as learned keys.
        last: order of its last run that was no step.
        may_be_fixed: whether its queries may be constants of the program as well as tokens, and whether its keys may.
        heads: the heads of its first run; empty: all, or not known.
        joins: the attention whose other heads these are, as in a loop over heads; None: it is one of its own.
        part_of: the attention whose other queries these are, as in a loop over documents of one sequence, or over
            blocks; None: no other is known.
        heads_of: the list of modules whose attentions are the heads of one; "": none.
        read: of its first run; see ``Place``.
        run: its last run.
        alone: the query of the first run of the current pass, or its weights, if it was alone; None: it was not.
        seen: which keys it sees, as the mask tells; None: all, or not known.
        recurrent: numbers of the passes that are made of several runs of one query each.
        are_alike: whether some examples of its batch have begun the current pass with the same keys, as beams do.
        moved: for each example of its last run, the example of the run before whose text it goes on from; empty: its
            own.
        has_moved: whether examples of a pass that is drawn have.
        needs_tokens: whether its tokens tell in which pass it runs, as of two texts or of blocks in one forward pass.
    """

    number: int
    name: str
    root: int
    repeat: int
    is_module: bool
    kind: Kind
    order: int
    masked: set[int] = field(default_factory=set)
    has_choice: bool = False
    passes: int = 0
    length: int = 0
    k_length: int = 0
    keys: Tensor | None = None
    is_followed: bool = True
    forward: int = -1
    call: int = 0
    is_block: bool = False
    unplaced: set[int] = field(default_factory=set)
    unnamed: set[int] = field(default_factory=set)
    has_other_keys: bool = False
    n_step: int = 0
    n_before: int = 0
    last: Order = NO_ORDER
    may_be_fixed: tuple[bool, bool] = False, False
    heads: frozenset[int] = frozenset()
    joins: "ObservedSite | None" = None
    part_of: "ObservedSite | None" = None
    heads_of: str = ""
    read: "tuple[ref[Tensor], int] | None" = None
    run: Run = field(default_factory=Run)
    alone: Tensor | None = None
    seen: Tensor | None = None
    recurrent: set[int] = field(default_factory=set)
    are_alike: bool = False
    moved: tuple[int, ...] = ()
    has_moved: bool = False
    needs_tokens: bool = False

    @property
    def pass_number(self) -> int:
        """Number of the current pass, counted from 0."""
        return self.passes - 1

    def kind_in(self, pass_number: int) -> Kind:
        """Return the kind of a pass, which may have another mask than the first."""
        return "masked" if pass_number in self.masked else self.kind

    @property
    def next_pass(self) -> int:
        """Number of the pass that its next run begins. What is a part of an attention runs in the pass of that."""
        return self.passes if self.part_of is None else self.part_of.passes - 1

    @property
    def layer_of(self) -> "ObservedSite":
        """The attention with which it is counted as a layer; itself unless it has other heads or queries of another."""
        whole = self.joins or self
        return whole.part_of or whole

    @property
    def first_query(self) -> int:
        """Where the queries of its last run begin; above 0 for a step that has joined its pass."""
        return self.length - self.n_step

    @property
    def full_name(self) -> str:
        """The name, with the number of its run within a forward pass from the second on: "attn #2"."""
        name = f"{self.heads_of}.*" if self.heads_of else self.name
        return f"{name} #{self.repeat + 1}" if self.repeat else name

    def goes_on_from(self, other: "ObservedSite") -> bool:
        """Return whether it is known to read what another attention has made, of the same tokens."""
        sequences = self.last.tokens.sequences
        return other.number in self.last.tokens.through and not sequences.isdisjoint(other.last.tokens.sequences)

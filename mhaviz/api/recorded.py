"""What a recording has seen of a program, appended while it runs."""

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from mhaviz.analyses.head_statistics import HeadStudy
from mhaviz.analyses.recorded_maps import RecordedMaps
from mhaviz.api.recording_options import RecordingOptions
from mhaviz.errors import parameter
from mhaviz.observe.log import Log
from mhaviz.observe.observed_site import ObservedSite
from mhaviz.observe.sites import Sites

BEFORE_DROPOUT = "some weights are those before dropout"
"""Remark on a program in training, whose weights are drawn as they would be in inference."""

RANDOM = "random numbers of the program changed some weights"
"""Remark on weights that met values after a random mask that is no dropout, or other random numbers."""


@dataclass
class Drawn:
    """What is told of the passes of an attention that are drawn.

    Attributes:
        pass_number: of the latest.
        batch_size: of the largest batch.
        remarks: on their maps.
        masked: names of the attentions, with their passes, by what masks do to some tokens of these maps.
        unfilled: keys at the end that no query has seen so far, such as places of a cache, by these names.
    """

    pass_number: int
    batch_size: int = 0
    remarks: dict[str, None] = field(default_factory=dict)
    masked: dict[str, list[str]] = field(default_factory=dict)
    unfilled: dict[str, Sequence[int]] = field(default_factory=dict)


@dataclass
class Counts:
    """Numbers of examples, of queries that are padding, of other queries, and of queries of a decoder's steps, by the
    number of the attention.

    ``has_batches``: whether a call had more than one example.
    """

    examples: Counter[int] = field(default_factory=Counter)
    padded: Counter[int] = field(default_factory=Counter)
    queries: Counter[int] = field(default_factory=Counter)
    steps: Counter[int] = field(default_factory=Counter)
    has_batches: bool = False


@dataclass(frozen=True)
class Batches:
    """The batch axes of recorded maps.

    Attributes:
        hold: how long those of a pass are, in words, where they differ; "": they do not.
        mixed: passes whose batch axes differ in length, so that it is not known which of their examples match.
    """

    hold: str
    mixed: frozenset[int]

    @property
    def why(self) -> str:
        """Why only the first example is drawn."""
        return f"{self.hold}, and which of them match is not known"

    @property
    def advice(self) -> str:
        """What to do to draw others."""
        return f"{self.why}; {parameter('module')} chooses those of one length"


class Recorded:
    """What has been seen so far.

    Args:
        options: what is to be drawn.
        statistics: whether statistics of heads are computed.
        log: messages on what is not drawn.

    Attributes:
        options, log: as above.
        sites: the attentions.
        maps: of the passes that are drawn.
        study: statistics of all passes; None: they are not computed.
        counts: what these statistics count.
        heads: numbers of the heads of each attention, by its number.
        device: of the last call.
        remarks: on all passes.
        drawn: by the number of the attention, and whether its passes stay even if others follow.
        reasons: why some run of an attention is not drawn, the first of each, by its number.
        owner: whose attentions the graphs of a program hold; see ``hold``.
        ungraded: why the graph of a pass holds no gradient of an attention, by its number and that of the pass; "": it
            does.
    """

    def __init__(self, options: RecordingOptions, statistics: bool, log: Log) -> None:
        self.options, self.log = options, log
        self.sites = Sites(log, options.draws)
        self.maps = RecordedMaps(options.pooling, options.page)
        self.study, self.counts = HeadStudy() if statistics else None, Counts()
        self.heads: dict[int, tuple[int, ...]] = {}
        self.device = "cpu"
        self.remarks: dict[str, None] = {}
        self.drawn: dict[tuple[int, bool], Drawn] = {}
        self.reasons: dict[int, str] = {}
        self.owner = object()
        self.ungraded: dict[tuple[int, int], str] = {}

    def heads_of(self, site: ObservedSite) -> tuple[int, ...]:
        """Return the numbers of the heads of an attention; empty: none was taken.

        That a module is one head of a list is known once another of them has run.
        """
        taken = self.heads.get(site.number, ())
        return tuple(site.heads) if taken and site.heads_of else taken

    def is_left_out(self, number: int) -> bool:
        """Return whether an attention is not drawn, whatever else is known of it."""
        return number in self.log.left_out

    @property
    def n_maps(self) -> int:
        """Number of maps."""
        return sum(not self.is_left_out(number) for number in self.maps.numbers)

    def batches(self, numbers: Container[int]) -> Batches:
        """Return the batch axes of the maps of attentions with these numbers."""
        sizes: dict[int, dict[int, str]] = {}
        for number, pass_number, batch_size in self.maps.batch_sizes:
            if number in numbers and not self.is_left_out(number):
                sizes.setdefault(pass_number, {}).setdefault(batch_size, self.sites.all[number].full_name)
        lengths = next((names for names in sizes.values() if len(names) > 1), {})
        hold = " and ".join(f"{size:,} ({name})" for size, name in lengths.items())
        again = {site.name for site in self.sites.all if site.repeat}  # in a loop over the batch, there may be 1 each
        several = {number: {n for n, name in of.items() if n > 1 or name in again} for number, of in sizes.items()}
        mixed = frozenset(number for number, lengths_of in several.items() if len(lengths_of) > 1)
        return Batches(f"batch axes hold {hold}" if hold else "", mixed if hold else frozenset())

    @property
    def drawn_whole(self) -> list[Drawn]:
        """What is told of attentions that are drawn, and are not left out."""
        return [drawn for (number, _), drawn in self.drawn.items() if not self.is_left_out(number)]

    @property
    def most_passes(self) -> int:
        """Number of passes of the attention that ran most often, among those that are recorded."""
        return max((site.passes for site in self.sites.all if self.options.wants(site)), default=0)

    @property
    def shown(self) -> list[ObservedSite]:
        """The attentions that are not left out."""
        return [site for site in self.sites.all if not self.is_left_out(site.number)]

    def drawn_of(self, site: ObservedSite) -> Drawn | None:
        """Return what is told of the current pass of an attention; None: it is not drawn."""
        return self.drawn.get((site.number, self.options.passes.keeps(site.pass_number)))

    def remark(self, site: ObservedSite, text: str) -> None:
        """Note a remark on the current pass of an attention."""
        self.remarks[text] = None
        if (drawn := self.drawn_of(site)) is not None:
            drawn.remarks[text] = None

    def not_shown(self, site: ObservedSite, line: str) -> None:
        """Note why a run of an attention is not drawn, or not counted."""
        self.log.miss(line)
        self.reasons.setdefault(site.number, line)

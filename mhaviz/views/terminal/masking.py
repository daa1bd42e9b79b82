"""What a mask and dropout do, in the terminal: each head's matrices side by side, as far as there is room."""

from dataclasses import dataclass, field, replace

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from mhaviz.pages.masking import (
    PAD,
    PADDING_WORDS,
    axes_of,
    dropped_words,
    exceeds,
    has_padding,
    hidden_words,
    masking_panels,
    masking_title,
    score_scale,
    sentence_title,
    weight_maps,
)
from mhaviz.pages.words import counted
from mhaviz.records.masking import Masking
from mhaviz.views.labels import harmless, title_text
from mhaviz.views.style import Style
from mhaviz.views.terminal.grid import BOLD, DIM, Abilities, HeatGrid
from mhaviz.views.terminal.legend import ScaleBar, footnote
from mhaviz.views.terminal.ramps import HIDDEN


@dataclass(frozen=True)
class MaskingView:
    """Every sentence: scores, masked scores, weights and what dropout leaves of them."""

    masking: Masking
    style: Style = field(default_factory=Style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        m, abilities = self.masking, Abilities.of(console, options)
        marks = "×", PAD
        scores, weights = score_scale(m), replace(self.style.weight_scale(weight_maps(m)), zeros=True)
        yield Text(masking_title(m), BOLD)
        yield Text(f"{HIDDEN}  {hidden_words(m)}", DIM)
        if has_padding(m):
            yield Text(f"{PAD}  {PADDING_WORDS}", DIM)
        if m.dropout is not None:
            yield Text(f"{marks[0]}  {dropped_words(m)}", DIM)
        used = 0
        for number, one in enumerate(m.sentences):
            grid = HeatGrid(masking_panels(m, one, scores, weights, marks), *axes_of(one))
            used += 2 + grid.height(options.max_width, abilities)
            if number and abilities.lines is not None and used > abilities.lines:
                yield Segment.line()
                yield Text(f"and {counted(len(m.sentences) - number, 'sentence')} more: -o page.png has all", DIM)
                break
            yield Segment.line()
            title = title_text(sentence_title(m, number), options.max_width)
            yield Text(title, BOLD, no_wrap=True)
            yield grid
        yield Segment.line()
        yield ScaleBar(scores, "score")
        yield ScaleBar(weights, "weight", (False, exceeds(m, weights)))
        if m.source.remark:
            yield Text(harmless(m.source.remark), DIM)
        yield footnote(m.source.footnote)

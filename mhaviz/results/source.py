"""Where a result comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Source:
    """What made the numbers: enough to print under a picture, and enough to make them again.

    Attributes:
        footnote: one line for people, such as "random weights, seed 0, d_model 512, 8 heads, cpu".
        details: the same for scripts, as plain JSON values.
        remark: what a picture's reader should know of its rows and columns, in a few words.
    """

    footnote: str
    details: Mapping[str, object] = field(default_factory=dict)
    remark: str = ""

    @property
    def model(self) -> str:
        """What made them, in a word or two, with which every footnote begins: "minilm", "random weights"."""
        return self.footnote.partition(", ")[0].partition(": ")[0]

"""Texts that are made to find heads of a certain kind."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mhaviz.errors import ArgumentError, parameter, shortened


@dataclass(frozen=True)
class RandomRepeats:
    """Sequences of random tokens, each of which is repeated once: where induction heads are defined.

    What follows a token can be known from its earlier copy alone: Olsson et al. 2022 (arXiv 2209.11895, "Defining
    induction heads"). Where heads are zeroed, the repeat alone is scored, from its second token on: x₁ … x_N is random,
    and so is where it begins again.

    Attributes:
        n_tokens: of a sequence, before it is repeated.
        sequences: how many.
        seed: of the tokens.
    """

    n_tokens: int
    sequences: int = 32
    seed: int = 0


@dataclass(frozen=True)
class Needle:
    """A sentence that is put into each text at several depths, and that stands at the end of the text once more.

    Attributes:
        text: the needle.
        question: stands before the needle at the end; "" for none.
        depths: where in a text the needle is put, from 0, before it, to 1, after it; a text for each.

    Raises:
        ArgumentError: no needle, or depths that are none.
    """

    text: str
    question: str = ""
    depths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ArgumentError(f"{parameter('needle')}: expected a text, got an empty one")
        if not self.depths or not all(0 <= depth <= 1 for depth in self.depths):
            got = shortened(", ".join(f"{depth:g}" for depth in self.depths)) or "none"
            raise ArgumentError(f"`depths`: expected numbers from 0 to 1, got {got}")


Probe = RandomRepeats | Needle

_NAMES: Mapping[type, str] = {RandomRepeats: "random repeats", Needle: "needle"}
_TYPES: Mapping[str, type] = {"text": str, "question": str, "depths": tuple}  # of fields that are no whole numbers


def probe_to_json(probe: Probe | None) -> dict[str, Any] | None:
    """As plain JSON values."""
    if probe is None:
        return None
    return {"kind": _NAMES[type(probe)]} | {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(probe).items()
    }


def probe_of_json(values: Mapping[str, Any] | None) -> Probe | None:
    """The reverse. Raises ValueError for what is none."""
    if values is None:
        return None
    try:
        (kind,) = [kind for kind, name in _NAMES.items() if name == values["kind"]]
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        del given["kind"]
        if not all(type(value) is _TYPES.get(name, int) for name, value in given.items()):
            raise TypeError
        probe: Probe = kind(**given)
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"expected a probe, got {values!r:.80}") from error
    return probe

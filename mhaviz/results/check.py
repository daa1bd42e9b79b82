"""Findings of ``mhaviz.check``: what is wrong in an attention, in words and as a picture."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from mhaviz.errors import counted
from mhaviz.results.result import Result, ShortRepr, Source

Severity = Literal["error", "notice"]

Quantity = Literal["weight", "token", "influence"]


@dataclass(frozen=True, eq=False)
class Contrast(ShortRepr):
    """What a layer computes beside what it should compute.

    Attributes:
        quantity: what the numbers are. "weight": the weight of a key for a query. "token": the position in the sentence
            of the token that a row of a head is made of, −1 for no token or for more than one. "influence": 1 where
            the output of a query changes with the input of a key, else 0.
        found, expected: float32, (n_panels, n_rows, n_columns), the numbers of the layer and those of a right one. NaN
            where a number is not known.
        panels: name of each panel, such as "L0 H0"; empty: a single panel has no name.
        axes: names of rows and columns, such as "query" and "key".
        rows, columns: labels.
        note: one element, followed to where it goes.
    """

    quantity: Quantity
    found: NDArray[np.float32]
    expected: NDArray[np.float32]
    axes: tuple[str, str]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    panels: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Line:
    """A line of a program: its file, as the program was given it, its number from 1, and its text."""

    file: str
    number: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


@dataclass(frozen=True, eq=False)
class Finding(ShortRepr):
    """A mistake in an attention, or what may be a mistake.

    Attributes:
        code: stable name of the kind of mistake, such as "mask-side".
        severity: "error", or "notice" for what may be on purpose.
        tried: what was done to the layer.
        found: what came of it, and what should have come.
        mistake: the likely mistake.
        mend: how to mend it.
        module: name of the module in which it is seen; "": it has none, or it is not known.
        line: line of the program at which it is seen; None: not known.
        contrast: the map as it is beside the map as it should be; None: the finding has no map.
    """

    code: str
    severity: Severity
    tried: str
    found: str
    mistake: str
    mend: str
    module: str = ""
    line: Line | None = None
    contrast: Contrast | None = None

    @property
    def message(self) -> str:
        """What was found and the likely mistake, in one line."""
        return f"{self.found}: {self.mistake}" if self.mistake else self.found

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name, for JSON."""
        found = vars(self) | {"message": self.message}
        line, contrast = self.line, self.contrast
        return found | {
            "line": None if line is None else vars(line),
            "contrast": None if contrast is None else dict(vars(contrast)),
        }


@dataclass(frozen=True)
class Unprobed:
    """A property that could not be probed, and the reason, such as "takes no mask of padding"."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False, repr=False)
class Check(Result, Sequence[Finding]):
    """Findings in an attention, errors first. It is a sequence, and empty where nothing was found.

    Attributes:
        source: what was checked.
        findings: errors, then notices.
        probed: names of the properties that were probed.
        unprobed: properties that could not be probed.
        ignored: codes that the user ignores.
        rules: what codes mean, by code.
    """

    source: Source
    findings: tuple[Finding, ...]
    probed: tuple[str, ...] = ()
    unprobed: tuple[Unprobed, ...] = ()
    ignored: tuple[str, ...] = ()
    rules: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @overload
    def __getitem__(self, place: int) -> Finding: ...

    @overload
    def __getitem__(self, place: slice) -> "Check": ...

    def __getitem__(self, place: "int | slice") -> "Finding | Check":
        chosen = self.findings[place]
        return replace(self, findings=chosen) if isinstance(chosen, tuple) else chosen

    def __repr__(self) -> str:
        lines = [
            f"{finding.severity} {finding.code}{f' at {finding.line}' if finding.line else ''}: {finding.message}; "
            f"{finding.mend}"
            for finding in self
        ]
        return " | ".join([f"<mhaviz Check of {self.source.model}: {self.summary}>", *lines])

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of the findings, in their order."""
        return tuple(finding.code for finding in self)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that are errors."""
        return tuple(finding for finding in self if finding.severity == "error")

    @property
    def summary(self) -> str:
        """One line: how many errors and notices there are, or what was probed if there is none."""
        n_errors, n_notices = len(self.errors), len(self) - len(self.errors)
        if not self:
            return f"nothing wrong in {counted(len(self.probed), 'probe')}" if self.probed else "nothing is probed"
        return " and ".join(counted(n, name) for n, name in ((n_errors, "error"), (n_notices, "notice")) if n)

    def to_dict(self) -> dict[str, Any]:
        """See ``Result.to_dict``; one entry for each finding."""
        return super().to_dict() | {
            "findings": [finding.to_dict() for finding in self],
            "probed": list(self.probed),
            "unprobed": [vars(one) for one in self.unprobed],
            "ignored": list(self.ignored),
            "rules": dict(self.rules),
        }
